//! Reads files whose paths come from outside: up to a size limit, and without waiting forever.
//!
//! Reading a named pipe without a writer, or with a silent writer, ends at the first signal. Reading
//! `/dev/zero` ends at the limit.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf, absolute};
use std::sync::OnceLock;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::directory::parent;
use crate::error::{did_you_mean_question, nearest};
use crate::signals::RunSignals;
use crate::text::{or_list, shell_word};
use crate::{Error, ErrorKind, Result};

/// The maximum size in bytes of a file that is read whole: manifests, ops files, variables, states, plans.
pub const MAX_FILE_BYTES: u64 = 64 << 20;

/// The maximum number of names in a directory that are compared with a misspelt one, or searched for files
/// to suggest.
const MAX_LISTED_NAMES: usize = 1000;

/// The signals of this process.
static SIGNALS: OnceLock<RunSignals> = OnceLock::new();

/// Lets signals end the reading of files, and programs that print variables. Only the first call in a process
/// has an effect.
pub fn end_at_signals(signals: RunSignals) {
    let _ = SIGNALS.set(signals);
}

/// Opens a file for reading. Does not wait for the writer of a named pipe.
pub fn open(path: &Path) -> io::Result<File> {
    File::options().read(true).custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed()).open(path)
}

/// Reads a file of at most `limit` bytes.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    read_file(&open(path)?, limit)
}

/// Reads a text file of at most `limit` bytes.
pub fn read_text(path: &Path, limit: u64) -> io::Result<String> {
    let invalid_data_error = |error| io::Error::new(io::ErrorKind::InvalidData, error);
    String::from_utf8(read(path, limit)?).map_err(|error| invalid_data_error(error.utf8_error()))
}

/// Reads the rest of an open file, at most `limit` bytes.
pub fn read_file(file: &File, limit: u64) -> io::Result<Vec<u8>> {
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let mut bytes = Vec::new();
    let capacity = usize::try_from(metadata.len().min(limit)).unwrap_or_default() + 1;
    bytes.try_reserve(capacity)?;
    // Regular files are always ready. Their reads do not block for long.
    let may_block = !metadata.is_file();
    read_to_limit(file.as_fd(), &mut &*file, may_block, limit, bytes)
}

/// Reads standard input to its end, at most `limit` bytes.
pub fn read_stdin(limit: u64) -> io::Result<Vec<u8>> {
    let stdin = io::stdin();
    read_to_limit(rustix::stdio::stdin(), &mut stdin.lock(), true, limit, Vec::new())
}

/// Two tests for the kind of file that the operator meant.
#[derive(Clone, Copy)]
pub struct FileKind {
    /// Returns false for a file that is certainly of another kind.
    pub can_match: fn(&Path) -> bool,
    /// Returns true for a file that has what only files of this kind have.
    pub certainly_matches: fn(&Path) -> bool,
}

/// The kind of a manifest in messages.
pub const MANIFEST_KIND: &str = "manifest";

/// The kind of every file.
pub const ANY_FILE: FileKind = FileKind { can_match: |_| true, certainly_matches: |_| true };

/// Returns the error for a file that the operator named and that does not exist, without a hint. It names a
/// file with a similar name.
pub fn bare_missing_error(kind_name: &str, path: &Path, file_kind: FileKind) -> Error {
    suggestion_error(kind_name, path, find_similar_name(path, file_kind))
}

/// Returns the error for a missing file, with the name that was probably meant.
fn suggestion_error(kind_name: &str, path: &Path, similar_name: Option<String>) -> Error {
    Error::invalid(format!("{kind_name} '{}' does not exist", path.display()))
        .with_hints(similar_name.map(|name| did_you_mean_question(&name)))
}

/// Returns the error for a file that the operator named and that does not exist, with a hint about the files
/// that do.
pub fn missing_error(kind_name: &str, path: &Path) -> Error {
    // Without a test for the kind, the names of all files in the directory would be noise: none is shown.
    missing_error_among(kind_name, path, FileKind { certainly_matches: |_| false, ..ANY_FILE })
}

/// Returns the error for a missing file like [`missing_error`]. Its hint names only files of this kind.
#[expect(clippy::disallowed_methods, reason = "a hint names the directory")]
pub fn missing_error_among(kind_name: &str, path: &Path, file_kind: FileKind) -> Error {
    let path_text = path.to_string_lossy();
    if path_text.starts_with("http://") || path_text.starts_with("https://") {
        return Error::invalid(format!("{kind_name} '{path_text}' must be a file, not a URL"))
            .with_hint(format!("download it first: `curl -LO {}`", shell_word(&path_text)));
    }
    let similar_name = find_similar_name(path, file_kind);
    let has_suggestion = similar_name.is_some();
    let error = suggestion_error(kind_name, path, similar_name);
    let is_number = |name: &OsStr| name.to_str().is_some_and(|name| name.parse::<u32>().is_ok());
    if path.file_name().is_some_and(is_number) {
        // The operator may have named an instance, as `bosh ssh bosh/0` does, so the "file" is the number 0.
        return error.with_hint("name the manifest of the environment, which has one instance");
    }
    if has_suggestion {
        return error;
    }
    let directory = absolute(parent(path)).unwrap_or_else(|_| parent(path).to_owned());
    if !directory.is_dir() {
        return match find_similar_directory(path) {
            Some(similar_path) => error.with_hint(did_you_mean_question(&similar_path)),
            // Without its path: part of a secret that stands in place of a path would not be recognised.
            None => error.with_note("its directory does not exist either"),
        };
    }
    let directory_name = directory.display().to_string();
    let names = list_names_of_kind(path, file_kind.certainly_matches);
    let found_path = names.is_empty().then(|| find_below(parent(path), path, file_kind)).flatten();
    if let (Some(found_path), true) = (found_path, kind_name == MANIFEST_KIND) {
        return error.with_hint(did_you_mean_question(&found_path.to_string_lossy()));
    }
    match names.as_slice() {
        [] if kind_name == MANIFEST_KIND && list_names_of_kind(path, file_kind.can_match).is_empty() => error
            .with_hint(format!("give the path of a manifest: '{directory_name}' has none"))
            .with_hint("for an example: `monopile example hello`"),
        [] => error.with_hint(format!("list the files there: `ls {}`", shell_word(&directory_name))),
        names => {
            let paths = names.iter().map(|name| path.with_file_name(name));
            error.with_hint(any_of_paths_question(paths))
        }
    }
}

/// Returns the error for a directory in place of a file. Its hint names the files of this kind in it.
pub fn directory_error(kind_name: &str, path: &Path, file_kind: FileKind) -> Error {
    let error = Error::invalid(format!("{kind_name} '{}' is a directory", path.display()));
    let names = list_names_of_kind(&path.join("any.yml"), file_kind.certainly_matches);
    let hint = match names.as_slice() {
        [] => list_files_hint(path),
        names => any_of_paths_question(names.iter().map(|name| path.join(name))),
    };
    error.with_hint(hint)
}

/// Returns the hint for a directory in place of a file.
pub fn list_files_hint(directory: &Path) -> String {
    format!("list the files in it: `ls {}`", shell_word(&directory.to_string_lossy()))
}

/// Asks whether the operator meant one of these files.
fn any_of_paths_question(paths: impl Iterator<Item = PathBuf>) -> String {
    let paths: Vec<String> = paths.map(|path| format!("'{}'", path.display())).collect();
    format!("did you mean {}?", or_list(&paths))
}

/// Returns the extension by which files count as of the same kind. It is `yml` for all YAML files.
fn normalized_extension(path: &Path) -> Option<String> {
    match path.extension().and_then(OsStr::to_str) {
        Some("yaml") => Some("yml".to_owned()),
        other => other.map(str::to_owned),
    }
}

/// Returns true for a hidden file. It is never suggested in place of `path`, unless that is hidden too.
fn is_hidden_beside(name: &OsStr, path: &Path) -> bool {
    let is_hidden = |name: &OsStr| name.as_encoded_bytes().starts_with(b".");
    is_hidden(name) && !path.file_name().is_some_and(is_hidden)
}

/// Lists files beside a path that have its extension, or that of YAML if it has none, and that
/// `is_right_kind` accepts. An empty list means none or too many.
fn list_names_of_kind(path: &Path, is_right_kind: fn(&Path) -> bool) -> Vec<String> {
    const MAX_SHOWN_FILES: usize = 5;
    // Most files that an operator names are YAML.
    let shown_extension = normalized_extension(path).unwrap_or_else(|| "yml".to_owned());
    let entries = fs::read_dir(parent(path)).into_iter().flatten().flatten().take(MAX_LISTED_NAMES);
    let paths = entries.filter(|entry| !is_hidden_beside(&entry.file_name(), path)).map(|entry| entry.path());
    let has_extension = |path: &PathBuf| normalized_extension(path).as_ref() == Some(&shown_extension);
    let paths = paths.filter(|path| has_extension(path) && is_right_kind(path));
    let mut names: Vec<String> =
        paths.filter_map(|path| path.file_name()?.to_str().map(str::to_owned)).collect();
    names.sort();
    if names.len() > MAX_SHOWN_FILES {
        names.clear();
    }
    names
}

/// Returns the only file in the directories one level below `directory` that has the extension of `path` and
/// is of this kind.
fn find_below(directory: &Path, path: &Path, file_kind: FileKind) -> Option<PathBuf> {
    let shown_extension = normalized_extension(path)?;
    let entries =
        |directory: &Path| fs::read_dir(directory).into_iter().flatten().flatten().take(MAX_LISTED_NAMES);
    let mut files = entries(directory)
        .filter(|entry| !is_hidden_beside(&entry.file_name(), path))
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .flat_map(|directory| entries(&directory))
        .map(|entry| entry.path())
        .take(MAX_LISTED_NAMES)
        .filter(|path| {
            normalized_extension(path).as_ref() == Some(&shown_extension)
                && (file_kind.certainly_matches)(path)
        });
    let file = files.next()?;
    let file = file.strip_prefix(".").map(Path::to_owned).unwrap_or(file);
    files.next().is_none().then_some(file)
}

/// Returns the error for a file that the operator named and that cannot be read.
pub fn read_error(kind_name: &str, path: &Path, error: io::Error) -> Error {
    let path_text = path.display();
    match error.kind() {
        io::ErrorKind::NotFound => missing_error(kind_name, path),
        io::ErrorKind::IsADirectory => directory_error(kind_name, path, ANY_FILE),
        io::ErrorKind::FileTooLarge => {
            Error::invalid(format!("{kind_name} '{path_text}' is larger than {} MiB", MAX_FILE_BYTES >> 20))
        }
        _ => Error::io(format!("reading {kind_name} '{path_text}'"), error).with_path_hint(path, ""),
    }
}

/// Finds a file beside the missing one whose name is similar and that may be of this kind. Returns its path.
fn find_similar_name(path: &Path, file_kind: FileKind) -> Option<String> {
    let entries = fs::read_dir(parent(path)).into_iter().flatten().flatten().take(MAX_LISTED_NAMES);
    let names = entries.map(|entry| entry.file_name()).filter(|name| !is_hidden_beside(name, path));
    let names: Vec<String> = names.filter_map(|name| name.into_string().ok()).collect();
    let file_name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let is_right_name = |name: &&str| (file_kind.can_match)(&path.with_file_name(name));
    let similar_names = names.iter().map(String::as_str).filter(|name| nearest(file_name, [*name]).is_some());
    let name = nearest(file_name, similar_names.filter(is_right_name))?;
    // A file that surely is of this kind is more likely than one with a similar name.
    let is_sure = |name: &str| (file_kind.certainly_matches)(&path.with_file_name(name));
    if !is_sure(name) && !list_names_of_kind(path, file_kind.certainly_matches).is_empty() {
        return None;
    }
    Some(path.with_file_name(name).to_string_lossy().into_owned())
}

/// Finds the directory whose name is similar to that of a missing one in this path. Returns the path with it
/// if that exists, and otherwise the directory.
fn find_similar_directory(path: &Path) -> Option<String> {
    let is_directory = |path: &&Path| path.as_os_str().is_empty() || path.is_dir();
    let existing_directory = path.ancestors().skip(1).find(is_directory)?;
    let mut rest = path.strip_prefix(existing_directory).ok()?.components();
    let missing_directory = existing_directory.join(rest.next()?);
    let directory_kind = FileKind { can_match: Path::is_dir, certainly_matches: |_| true };
    let directory = find_similar_name(&missing_directory, directory_kind)?;
    let similar_path = Path::new(&directory).join(rest);
    Some(if similar_path.exists() { similar_path.to_string_lossy().into_owned() } else { directory })
}

/// Reads to the end. Fails if more than `limit` bytes arrive, and at a signal while it waits for input.
fn read_to_limit(
    descriptor: BorrowedFd<'_>,
    reader: &mut dyn Read,
    may_block: bool,
    limit: u64,
    mut bytes: Vec<u8>,
) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        // Reading a regular file never waits, and an interrupted run must still read and record its state.
        if may_block {
            check_signals().map_err(io::Error::other)?;
            if !wait_for_input(descriptor)? {
                continue;
            }
        }
        let count = match reader.read(&mut buffer) {
            Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => {
                continue;
            }
            count => count?,
        };
        bytes.extend_from_slice(buffer.get(..count).unwrap_or_default());
        if bytes.len() as u64 > limit {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, too_large_message(limit)));
        }
        if count == 0 {
            return Ok(bytes);
        }
    }
}

fn too_large_message(limit: u64) -> String {
    match limit >> 20 {
        0 => format!("it is larger than {} KiB", limit >> 10),
        mebibytes => format!("it is larger than {mebibytes} MiB"),
    }
}

/// Waits a short time for bytes or for the end of a pipe or terminal.
fn wait_for_input(descriptor: BorrowedFd<'_>) -> io::Result<bool> {
    let timeout = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
    match poll(&mut [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)], Some(&timeout)) {
        Ok(count) => Ok(count > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Returns an error if a signal came. Returns none before [`end_at_signals`]: a signal then ends the process
/// itself.
pub fn check_signals() -> Result<()> {
    match SIGNALS.get().and_then(RunSignals::first) {
        None => Ok(()),
        Some(signal) => Err(Error::new(ErrorKind::Interrupted(signal), "interrupted")),
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn file_above_the_limit_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        std::fs::write(&path, "1234").unwrap();
        assert_eq!(read(&path, 4).unwrap(), b"1234");
        assert_eq!(read(&path, 3).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        let error = read(Path::new("/dev/zero"), 2 << 20).unwrap_err();
        assert_eq!(error.to_string(), "it is larger than 2 MiB");
        assert_eq!(read(directory.path(), 9).unwrap_err().kind(), io::ErrorKind::IsADirectory);
        assert_eq!(read(&directory.path().join("b"), 9).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn file_with_a_near_name_is_suggested() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        std::fs::write(path("manifest.yml"), "").unwrap();
        std::fs::write(path(".monopile.yml"), "").unwrap();
        let similar_name = |path: &Path| find_similar_name(path, ANY_FILE).map(PathBuf::from);
        assert_eq!(similar_name(&path("manifst.yml")), Some(path("manifest.yml")));
        assert_eq!(similar_name(&path(".monopil.yml")), Some(path(".monopile.yml")));
        for other_path in [path("creds.json"), path("monopile.yml"), path("manifest/x.yml"), "/".into()] {
            assert_eq!(similar_name(&other_path), None);
        }
        let other_kind = FileKind { can_match: |_| false, ..ANY_FILE };
        assert_eq!(find_similar_name(&path("manifst.yml"), other_kind), None);
        fs::write(path("ops.yml"), "").unwrap();
        assert_eq!(similar_name(&path("nops.yml")), Some(path("ops.yml")));
        let is_manifest: fn(&Path) -> bool = |path| path.ends_with("manifest.yml");
        let manifest_kind = FileKind { certainly_matches: is_manifest, ..ANY_FILE };
        assert_eq!(find_similar_name(&path("nops.yml"), manifest_kind), None);
    }

    #[test]
    fn waits_for_the_writer_of_a_pipe() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pipe");
        let status = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(status.success());
        let text = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(std::time::Duration::from_millis(120));
                std::fs::write(&path, "from the pipe").unwrap();
            });
            read_text(&path, 100).unwrap()
        });
        assert_eq!(text, "from the pipe");
    }
}
