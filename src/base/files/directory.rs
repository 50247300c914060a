//! Directories of files: their paths, their existence, and the files in them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::text::shell_word;

/// Returns the directory of a file; `.` for a bare name.
pub fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Fails if a directory that a command is about to write to does not exist. `option` is the option that names
/// it, or empty.
pub fn check_directory(directory: &Path, option: &str) -> Result<()> {
    match fs::metadata(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let path = directory.display().to_string();
            let option_phrase = if option.is_empty() { String::new() } else { format!(" for {option}") };
            Err(Error::invalid(format!("the directory '{path}'{option_phrase} does not exist"))
                .with_hint(format!("create it: `mkdir -p {}`", shell_word(&path))))
        }
        _ => Ok(()),
    }
}

/// Lists the files in `directory` with this extension in descending order of their names. Returns an empty
/// list if there is no such directory.
///
/// The names must begin with a time, so that the newest file comes first.
pub fn list_newest_first(directory: &Path, extension: &str) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let paths = entries.flatten().map(|entry| entry.path());
    let mut paths: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|actual| actual == extension)).collect();
    paths.sort();
    paths.reverse();
    Ok(paths)
}
