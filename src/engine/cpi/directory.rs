//! Directories for a CPI, its packages and its jobs.

use std::path::Path;

use base::files::durable;
use base::{Error, Result};

/// Creates a directory that only this user can access, because it may hold credentials, and its parents.
pub(crate) fn create_private_directory(path: &Path) -> Result<()> {
    durable::create_private_directory(path)
        .map_err(|error| Error::io(format!("making '{}'", path.display()), error))
}
