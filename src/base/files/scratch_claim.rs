//! Claims on a scratch directory by processes that can outlive its run.
//!
//! A CPI may read an image or its configuration there. Before it is started, the run records a list of files.
//! The process keeps one of them locked, and the directory must stay for that time.

use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::durable::create_private_directory;
use super::input;
use super::unlock_on_drop::UnlockOnDrop;

/// The directory of claims in a scratch directory.
const CLAIMS_DIRECTORY: &str = ".claims";
/// The maximum size of a claim in bytes.
const MAX_CLAIM_BYTES: u64 = 64 << 10;

/// Records that a process is about to use `scratch`. The process holds a lock on one of the `lock_files`.
#[expect(clippy::disallowed_methods, reason = "a run in another directory reads these paths")]
pub fn record(scratch: &Path, lock_files: &[&Path]) -> io::Result<()> {
    let directory = scratch.join(CLAIMS_DIRECTORY);
    create_private_directory(&directory)?;
    let mut text = Vec::new();
    for path in lock_files {
        text.extend_from_slice(std::path::absolute(path)?.as_os_str().as_bytes());
        text.push(0);
    }
    let mut claim = tempfile::Builder::new().prefix("claim-").tempfile_in(&directory)?;
    claim.write_all(&text)?;
    claim.keep().map(drop).map_err(|error| error.error)
}

/// Returns true if a process that claimed `scratch` still runs, or if this is unknown.
pub fn exists(scratch: &Path) -> bool {
    let entries = match fs::read_dir(scratch.join(CLAIMS_DIRECTORY)) {
        Err(error) => return error.kind() != io::ErrorKind::NotFound,
        Ok(entries) => entries,
    };
    entries.flatten().any(|entry| match input::read(&entry.path(), MAX_CLAIM_BYTES) {
        Ok(text) => {
            let mut paths = text.split(|byte| *byte == 0).filter(|path| !path.is_empty());
            paths.any(|path| is_locked(Path::new(OsStr::from_bytes(path))))
        }
        Err(_) => true,
    })
}

fn is_locked(path: &Path) -> bool {
    File::open(path)
        .map(UnlockOnDrop::from)
        .is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claim_ends_with_its_lock() {
        let directory = tempfile::tempdir().unwrap();
        assert!(!exists(directory.path()));
        let [old_path, new_path] = ["before", "after"].map(|name| directory.path().join(name));
        let answer = UnlockOnDrop::from(File::create(&old_path).unwrap());
        answer.lock().unwrap();
        record(directory.path(), &[&old_path, &new_path]).unwrap();
        assert!(exists(directory.path()));
        fs::rename(&old_path, &new_path).unwrap();
        assert!(exists(directory.path()));
        drop(answer);
        assert!(!exists(directory.path()));
    }
}
