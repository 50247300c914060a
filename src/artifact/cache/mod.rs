//! What is kept from run to run: downloads by their content, and digests of files that need not be read again.
//!
//! Layout below the cache directory, of which other modules have parts of their own:
//!
//! - `downloads/<SHA-256>.tgz`, and beside it `.json`: where it came from, its digests. Its time of change is
//!   when it was last used.
//! - `partial/<key>`: downloads under way or broken off, locked by the process that works on them.
//! - `digests/<key>.json`: what a file hashes to, as long as its [`Stamp`](super::Stamp) is the same.
//! - `lock`: held shared by every run that uses the cache, exclusively by the one that prunes it.
//!
//! Files appear by rename, complete or not at all, so that any number of processes can share a cache.

mod digests;
mod downloads;
mod identify;
mod upkeep;

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use super::digest::{Algorithm, Digest};
use base::files::Locked;
use base::{Error, Result};

pub use identify::Kind;
pub use upkeep::{Entry, Pruned, list, prune};

const DOWNLOADS: &str = "downloads";
const PARTIAL: &str = "partial";
const DIGESTS: &str = "digests";
const LOCK: &str = "lock";

/// A cache in use: while this lives, nothing is pruned.
#[derive(Debug)]
pub struct Cache {
    root: PathBuf,
    _lock: Option<Locked>,
}

impl Cache {
    /// Uses the cache in the directory `root`, which is made if there is none. Waits while it is being pruned.
    pub fn open(root: &Path) -> Result<Self> {
        fs::create_dir_all(root)
            .map_err(|error| Error::io(format!("making the cache '{}'", root.display()), error))?;
        let lock = open_lock(root)?;
        // Where locks are not supported, pruning refuses to work.
        let lock = lock.lock_shared().is_ok().then_some(lock);
        Ok(Cache { root: root.to_owned(), _lock: lock })
    }

    /// A directory in the cache, made if there is none.
    fn directory(&self, name: &str) -> Result<PathBuf> {
        let path = self.root.join(name);
        fs::create_dir_all(&path)
            .map_err(|error| Error::io(format!("making the directory '{}'", path.display()), error))?;
        Ok(path)
    }
}

fn open_lock(root: &Path) -> Result<Locked> {
    let path = root.join(LOCK);
    File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map(Locked::from)
        .map_err(|error| Error::io(format!("opening '{}'", path.display()), error))
}

/// The cache, for nobody else; an error if another run uses it.
fn lock_exclusively(root: &Path) -> Result<Locked> {
    let lock = open_lock(root)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(Error::new(
            base::ErrorKind::Locked,
            format!("the cache '{}' is in use by another run", root.display()),
        )
        .with_hint("wait until it has ended")),
        Err(TryLockError::Error(error)) => {
            Err(Error::io(format!("locking the cache '{}'", root.display()), error))
        }
    }
}

/// A file name that stands for `text`.
fn key(text: &[u8]) -> String {
    let digest = Digest::of(text, &[Algorithm::Sha256]);
    let digits = digest.hex(Algorithm::Sha256).unwrap_or_default();
    digits.get(..32).unwrap_or(digits).to_owned()
}

/// Writes a file that appears complete or not at all.
fn write_whole(path: &Path, content: &[u8]) -> Result<()> {
    base::files::durable::write_atomically(path, content)
        .map_err(|error| Error::io(format!("writing '{}'", path.display()), error))
}

#[cfg(test)]
mod tests;
