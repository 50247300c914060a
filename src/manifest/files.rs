//! Reads the files that the operator names, up to a size limit.

use std::path::Path;

use base::encryption::Encryption;
use base::files::input;
use base::{Error, Result};

/// Reads a file as text; `-` is standard input. Errors call the file `kind`.
pub fn read_text(path: &Path, kind: &str) -> Result<String> {
    utf8_text(read_bytes(path, kind)?, path, kind)
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
    .map_err(|error| input::read_error(kind, path, error))
}

/// Converts the content of a file to text, or returns an error with the line that is not UTF-8. A binary file
/// has no lines.
pub(crate) fn utf8_text(bytes: Vec<u8>, path: &Path, kind: &str) -> Result<String> {
    if bytes.contains(&0) {
        return Err(Error::invalid(format!("{kind} '{}' is not text", path.display())));
    }
    String::from_utf8(bytes).map_err(|error| {
        let line = error.as_bytes()[..error.utf8_error().valid_up_to()].iter().filter(|&&byte| byte == b'\n');
        Error::invalid(format!("{}:{}: {kind} is not UTF-8 text", path.display(), line.count() + 1))
    })
}
