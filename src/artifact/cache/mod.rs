//! The cache that runs share: downloads by their content, digests of files, and root file systems.
//!
//! Layout of the cache directory, in which other modules have directories of their own:
//!
//! - `downloads/<SHA-256>.tgz`, and beside it a `.json` with its URL and digests. The modification time of
//!   the `.json` is the time of the last use.
//! - `partial/<key>`: unfinished downloads, each locked by the process that works on it.
//! - `digests/<key>.json`: the digest of a file, valid while its [`Stamp`](super::Stamp) is the same.
//! - `userlands/<key>`: the root file systems in which CPIs run; see [`userland`](crate::userland).
//! - `lock`: held shared by every run that uses the cache, and exclusively by a run that prunes it.
//!
//! Files are written under another name and renamed, so that any number of processes can share a cache.

mod digests;
mod downloads;
mod identify;
mod maintenance;

use std::fs::{File, TryLockError};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::digest::{Algorithm, Digest};
use base::files::UnlockOnDrop;
use base::files::durable::create_private_directory;
use base::{Error, Result};

pub use identify::ArtifactKind;
pub use maintenance::{CacheEntry, DamagedEntry, PruneReport, VerifyReport, list, prune, verify};

const DOWNLOADS_DIRECTORY: &str = "downloads";
const PARTIAL_DOWNLOADS_DIRECTORY: &str = "partial";
pub(crate) const DIGESTS_DIRECTORY: &str = "digests";
const LOCK_FILE: &str = "lock";

/// An open cache. Other processes cannot prune it while this exists.
#[derive(Debug)]
pub struct Cache {
    root: PathBuf,
    _lock: Option<UnlockOnDrop>,
}

impl Cache {
    /// Opens the cache in the directory `root`, which is created if necessary. Waits while it is being
    /// pruned.
    pub fn open(root: &Path) -> Result<Self> {
        if root.is_file() {
            return Err(Error::failure(format!("the cache '{}' is a file, not a directory", root.display()))
                .with_hint("name a directory: `monopile SAME-COMMAND --cache-dir DIR`"));
        }
        create_private_directory(root)
            .map_err(|error| Error::io(format!("creating the cache '{}'", root.display()), error))
            .map_err(|error| error.with_path_hint(root, "--cache-dir DIR"))?;
        let lock = open_lock(root)?;
        // On a file system without locks, pruning fails and the cache works without a lock.
        let lock = lock.lock_shared().is_ok().then_some(lock);
        Ok(Cache { root: root.to_owned(), _lock: lock })
    }

    /// Returns the path of a directory in the cache, which is created if necessary.
    pub(crate) fn create_directory(&self, name: &str) -> Result<PathBuf> {
        let path = self.root.join(name);
        create_private_directory(&path)
            .map_err(|error| Error::io(format!("creating the directory '{}'", path.display()), error))
            .map_err(|error| error.with_path_hint(&path, "--cache-dir DIR"))?;
        Ok(path)
    }
}

fn open_lock(root: &Path) -> Result<UnlockOnDrop> {
    let path = root.join(LOCK_FILE);
    File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .map(UnlockOnDrop::from)
        .map_err(|error| Error::io(format!("opening '{}'", path.display()), error))
        .map_err(|error| error.with_path_hint(&path, "--cache-dir DIR"))
}

/// Takes the exclusive lock of the cache. Fails if another run uses the cache.
fn lock_exclusively(root: &Path) -> Result<UnlockOnDrop> {
    let lock = open_lock(root)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(Error::new(
            base::ErrorKind::Locked,
            format!("the cache '{}' is in use by another run", root.display()),
        )
        .with_rerun_hint("wait until the other run has ended, then run the same command again")),
        Err(TryLockError::Error(error)) => {
            Err(Error::io(format!("locking the cache '{}'", root.display()), error))
        }
    }
}

/// Returns a file name for `text`: the first 32 hex digits of its SHA-256.
pub(crate) fn key(text: &[u8]) -> String {
    let digest = Digest::compute(text, &[Algorithm::Sha256]);
    let digits = digest.hex(Algorithm::Sha256).unwrap_or_default();
    digits.get(..32).unwrap_or(digits).to_owned()
}

#[cfg(test)]
mod tests;
