//! Durable writes: a file is either what it was or what it was to become, never anything between.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Replaces `path` by `bytes`, mode 0600: a temporary file in the same directory is written and synced,
/// renamed over it, and the directory is synced.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let directory = parent(path);
    let mut temporary = tempfile::Builder::new()
        .prefix(&temporary_prefix(path))
        .suffix(TEMPORARY_SUFFIX)
        .permissions(fs::Permissions::from_mode(0o600))
        .tempfile_in(directory)?;
    temporary.write_all(bytes)?;
    temporary.as_file().sync_all()?;
    temporary.persist(path).map_err(|error| error.error)?;
    sync_directory(directory)
}

const TEMPORARY_SUFFIX: &str = ".tmp";

/// What the names of temporary files for `path` begin with, so that they can be told from those of others.
fn temporary_prefix(path: &Path) -> OsString {
    let mut prefix = OsString::from(".");
    prefix.push(path.file_name().unwrap_or_default());
    prefix.push(".");
    prefix
}

/// A fixed name for a temporary file beside `path` that is swept like the others; `purpose` tells them apart.
pub(super) fn temporary_path(path: &Path, purpose: &str) -> std::path::PathBuf {
    let mut name = temporary_prefix(path);
    name.push(purpose);
    name.push(TEMPORARY_SUFFIX);
    parent(path).join(name)
}

/// Removes what writers of `path` that were killed left behind. Whoever calls this must be its only writer.
pub(super) fn sweep_temporaries(path: &Path) -> io::Result<()> {
    let prefix = temporary_prefix(path);
    for entry in fs::read_dir(parent(path))? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.as_encoded_bytes();
        if name.starts_with(prefix.as_encoded_bytes()) && name.ends_with(TEMPORARY_SUFFIX.as_bytes()) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Makes names created in, renamed within or removed from `directory` durable.
pub(super) fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// Removes a file if it is there and makes that durable.
pub(super) fn remove_durably(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Ok(()) => sync_directory(parent(path)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Creates a file for a program of ours to write into; it must not exist yet. Mode 0600.
pub(super) fn create_private(path: &Path) -> io::Result<File> {
    File::options().write(true).create_new(true).mode(0o600).open(path)
}

/// The directory a file lies in; `.` for a bare name.
pub(super) fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
