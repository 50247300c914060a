//! Reads the files that the operator names, up to a size limit.

use std::io;
use std::path::Path;

use crate::document_kind::{manifest_directory_error, missing_manifest_error};
use base::encryption::Encryption;
use base::files::input;
use base::text::shell_word;
use base::{Error, Result};

/// Reads a file as text; `-` is standard input. Errors call the file `kind`.
pub fn read_text(path: &Path, kind: &str) -> Result<String> {
    utf8_text(read_bytes(path, kind)?, path, kind)
}

/// Returns the path that positions name: that of the file, or words for standard input.
pub(crate) fn source_path(path: &Path) -> &Path {
    if path == Path::new("-") { Path::new("standard input") } else { path }
}

/// Reads a file as text like [`read_text`], and decrypts it if it is encrypted.
pub(crate) fn read_decrypted(path: &Path, kind: &str, encryption: &Encryption) -> Result<String> {
    let bytes = encryption.decrypt(read_bytes(path, kind)?).map_err(|error| {
        Error::invalid(format!("{kind} '{}' cannot be read", path.display())).with_source(error)
    })?;
    utf8_text(bytes, path, kind)
}

/// Reads a file that may be binary; otherwise like [`read_text`].
pub(crate) fn read_bytes(path: &Path, kind: &str) -> Result<Vec<u8>> {
    match path == Path::new("-") {
        true => input::read_stdin(input::MAX_FILE_BYTES),
        false => input::read(path, input::MAX_FILE_BYTES),
    }
    .map_err(|error| match (error.kind(), kind) {
        (io::ErrorKind::NotFound, input::MANIFEST_KIND) => missing_manifest_error(path),
        (io::ErrorKind::IsADirectory, input::MANIFEST_KIND) => manifest_directory_error(path),
        _ => input::read_error(kind, path, error),
    })
}

/// Converts the content of a file to text, or returns an error with the line that is not UTF-8. A binary file
/// has no lines.
pub(crate) fn utf8_text(bytes: Vec<u8>, path: &Path, kind: &str) -> Result<String> {
    if bytes.contains(&0) {
        let error = Error::invalid(format!("{kind} '{}' is binary, not text", path.display()));
        return Err(match path.is_file() {
            true => {
                error.with_hint(format!("see what it is: `file {}`", shell_word(&path.to_string_lossy())))
            }
            false => error,
        });
    }
    String::from_utf8(bytes).map_err(|error| {
        let line = error.as_bytes()[..error.utf8_error().valid_up_to()].iter().filter(|&&byte| byte == b'\n');
        let path = source_path(path).display();
        Error::invalid(format!("{path}:{}: the {kind} is not UTF-8 text", line.count() + 1))
            .with_hint("save it as UTF-8")
    })
}
