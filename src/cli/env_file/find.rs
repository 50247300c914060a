//! Finds the env file in the working directory, or in the nearest directory above that has one.

use std::path::PathBuf;

use crate::cli::paths;
use base::{Error, Result};

/// The name of env files.
const FILE_NAME: &str = ".monopile.yml";

/// The result of the search.
pub(super) enum Found {
    /// There is no env file.
    Nothing,
    /// The env file. Its path is relative in the working directory, and absolute above it.
    File(PathBuf),
    /// An env file of another user, which must not choose what this user deploys.
    Foreign(PathBuf),
}

/// Searches for the env file.
pub(super) fn find() -> Result<Found> {
    let here = paths::working_directory()?;
    for (above, directory) in here.ancestors().enumerate() {
        let path = directory.join(FILE_NAME);
        let metadata = match path.metadata() {
            Ok(metadata) => metadata,
            Err(error) if is_absent(&error) => continue,
            Err(error) => return Err(Error::io(format!("checking '{}'", path.display()), error)),
        };
        let shown = if above == 0 { PathBuf::from(FILE_NAME) } else { path };
        return Ok(if is_trusted(&metadata) { Found::File(shown) } else { Found::Foreign(shown) });
    }
    Ok(Found::Nothing)
}

/// Returns true if the file does not exist, or is not accessible to this user.
fn is_absent(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    matches!(error.kind(), NotFound | NotADirectory | PermissionDenied)
}

/// Returns true if this user, root, or the caller of `sudo` owns the file.
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
