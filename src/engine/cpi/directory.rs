//! Directories that only this user can access.

use std::path::Path;

use base::files::durable;
use base::{Error, Result};

/// Creates a directory that only this user can access, because it may hold credentials, and its parents.
pub(crate) fn create_private_directory(path: &Path) -> Result<()> {
    durable::create_private_directory(path)
        .map_err(|error| Error::io(format!("creating '{}'", path.display()), error))
}
