//! Where the env file is: in the working directory, or in the nearest directory above that has one, as programs that
//! work in a tree of files look for theirs.

use std::path::PathBuf;

use crate::cli::paths;
use base::{Error, Result};

/// What it is called.
const FILE_NAME: &str = ".monopile.yml";

/// What was found.
pub(super) enum Found {
    /// No such file.
    Nothing,
    /// This one. Its path is relative in the working directory, and absolute above it.
    File(PathBuf),
    /// One that somebody else wrote: what it names would be deployed with this user's rights.
    Foreign(PathBuf),
}

/// Looks for it.
pub(super) fn find() -> Result<Found> {
    let here = paths::working_directory()?;
    for (above, directory) in here.ancestors().enumerate() {
        let path = directory.join(FILE_NAME);
        let metadata = match path.metadata() {
            Ok(metadata) => metadata,
            Err(error) if nothing_there(&error) => continue,
            Err(error) => return Err(Error::io(format!("looking at '{}'", path.display()), error)),
        };
        let shown = if above == 0 { PathBuf::from(FILE_NAME) } else { path };
        return Ok(if is_trusted(&metadata) { Found::File(shown) } else { Found::Foreign(shown) });
    }
    Ok(Found::Nothing)
}

/// A directory above that may not be looked into has nothing for this user.
fn nothing_there(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    matches!(error.kind(), NotFound | NotADirectory | PermissionDenied)
}

/// Whether this user, root, or the user who called `sudo` owns the file.
#[cfg(unix)]
fn is_trusted(metadata: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let me = rustix::process::geteuid();
    let owner = metadata.uid();
    let caller = || paths::variable("SUDO_UID").and_then(|uid| uid.to_str()?.parse().ok());
    owner == me.as_raw() || owner == 0 || (me.is_root() && Some(owner) == caller())
}

#[cfg(not(unix))]
fn is_trusted(_: &std::fs::Metadata) -> bool {
    true
}
