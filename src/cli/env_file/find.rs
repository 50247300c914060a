//! Finds the env file in the working directory, or in the nearest directory above it that has one.
//!
//! The file is opened once. All decisions are about the opened file: its owner, its content, and its real
//! directory.

use std::fs::{File, Metadata};
use std::path::{Path, PathBuf};

use crate::cli::{env_vars, paths};
use base::files::input;
use base::{Error, Result};

/// The name of env files.
pub(in crate::cli) const FILE_NAME: &str = ".monopile.yml";

/// The env file that was found in the working directory or above it.
pub(super) enum SearchResult {
    /// There is no env file.
    Nothing,
    /// The env file.
    File(OpenedEnvFile),
    /// An env file that another user owns or linked to. It must not choose the environment of this user.
    Foreign(PathBuf),
}

/// An env file that is open.
pub(in crate::cli) struct OpenedEnvFile {
    /// Its path in messages: relative in the working directory, and absolute above it.
    pub(super) display_path: PathBuf,
    pub(super) file: File,
    /// Its path without symbolic links.
    pub(super) real_path: PathBuf,
}

impl OpenedEnvFile {
    /// Opens the env file that the operator named, in any directory and with any owner.
    pub(super) fn named(path: &Path) -> Result<OpenedEnvFile> {
        let read_error = |error| input::read_error("env file", path, error);
        let file = input::open(path).map_err(read_error)?;
        // A pipe of the shell (`<(…)`) has no real path.
        let real_path = paths::real_or_absolute(path).map_err(read_error)?;
        Ok(OpenedEnvFile { display_path: path.to_owned(), file, real_path })
    }

    /// Returns the path for a command line: absolute, without symbolic links.
    pub(super) fn for_shell(&self) -> String {
        base::text::shell_word(&self.real_path.display().to_string()).into_owned()
    }
}

/// Searches for the env file.
pub(super) fn find() -> Result<SearchResult> {
    let working_directory = paths::working_directory()?;
    for (level, directory) in working_directory.ancestors().enumerate() {
        let path = directory.join(FILE_NAME);
        let entry_metadata = match path.symlink_metadata() {
            Ok(entry_metadata) => entry_metadata,
            Err(error) if is_absent(&error) => continue,
            Err(error) => return Err(Error::io(format!("checking '{}'", path.display()), error)),
        };
        let display_path = if level == 0 { PathBuf::from(FILE_NAME) } else { path.clone() };
        if !is_ours(&entry_metadata) {
            return Ok(SearchResult::Foreign(display_path));
        }
        let read_error = |error| {
            Error::io(format!("reading env file '{}'", display_path.display()), error)
                .with_path_hint(&display_path, "")
        };
        let file = match input::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(read_error(error)),
        };
        let metadata = file.metadata().map_err(read_error)?;
        if !is_ours(&metadata) {
            return Ok(SearchResult::Foreign(display_path));
        }
        let real_path = path.canonicalize().map_err(read_error)?;
        if !base::files::is_same_file(&real_path.metadata().map_err(read_error)?, &metadata) {
            return Err(Error::failure(format!(
                "env file '{}' was replaced while it was read",
                display_path.display()
            ))
            .with_hint("run the same command again"));
        }
        // Paths in the file are relative to its directory, so a link from elsewhere would give them another
        // meaning than the author intended.
        let root = directory.canonicalize().map_err(read_error)?;
        if !real_path.starts_with(&root) {
            return Err(Error::invalid(format!(
                "env file '{}' is a link to '{}', outside of its directory",
                display_path.display(),
                real_path.display()
            ))
            .with_hint(format!(
                "to use that file: `monopile SAME-COMMAND --env-file {}`",
                shell_word(&real_path)
            )));
        }
        return Ok(SearchResult::File(OpenedEnvFile { display_path, file, real_path }));
    }
    Ok(SearchResult::Nothing)
}

fn shell_word(path: &Path) -> String {
    base::text::shell_word(&path.display().to_string()).into_owned()
}

/// Returns true if the file does not exist, or is not accessible to this user.
fn is_absent(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    matches!(error.kind(), NotFound | NotADirectory | PermissionDenied)
}

/// Returns true if this user, root, or the caller of `sudo` owns the file.
fn is_ours(metadata: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let me = rustix::process::geteuid();
    let owner = metadata.uid();
    let caller = || env_vars::SUDO_UID.value().and_then(|uid| uid.to_str()?.parse().ok());
    owner == me.as_raw() || owner == 0 || (me.is_root() && Some(owner) == caller())
}
