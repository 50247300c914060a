//! The scratch directory of a run: below `$TMPDIR` if it is set, otherwise below the cache, because stemcells
//! are large and `/tmp` is often in memory. It is removed at the end of the run.
//!
//! The directory of a killed run is removed by a later run, a day after its end. Until then a CPI that
//! outlived its run may still read an image there.

use std::fs::{File, TryLockError};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::paths;
use base::files::Locked;
use base::{Error, Result, files};

const PREFIX: &str = "monopile-";
const LOCK: &str = ".lock";
const ABANDONED_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// A directory with mode 0700 that is removed when this is dropped.
pub(super) struct Scratch {
    directory: tempfile::TempDir,
    stays: bool,
    /// Held until the end of the run.
    _lock: Locked,
}

impl Scratch {
    pub(super) fn new(cache: &Path) -> Result<Scratch> {
        let base = paths::variable("TMPDIR").map(PathBuf::from).unwrap_or_else(|| cache.join("tmp"));
        Self::below(&paths::absolute(&base)?)
    }

    fn below(base: &Path) -> Result<Scratch> {
        let failed =
            |error| Error::io(format!("creating a scratch directory in '{}'", base.display()), error);
        std::fs::create_dir_all(base).map_err(failed)?;
        sweep(base);
        let directory = tempfile::Builder::new()
            .prefix(PREFIX)
            // Rendered templates and the configuration of CPIs hold secrets.
            .permissions(std::fs::Permissions::from_mode(0o700))
            .tempdir_in(base)
            .map_err(failed)?;
        let lock = Locked::from(File::create(directory.path().join(LOCK)).map_err(failed)?);
        match lock.try_lock() {
            // The name is new, so the lock is free. Without lock support there is no sweep either.
            Ok(()) | Err(TryLockError::WouldBlock | TryLockError::Error(_)) => {}
        }
        Ok(Scratch { directory, stays: false, _lock: lock })
    }

    /// Leaves the directory for a later run to remove.
    pub(super) fn leave(&mut self) {
        self.stays = true;
    }

    /// Keeps the directory for the operator. Without its lock file no later run removes it.
    pub(super) fn keep(&mut self) {
        self.stays = true;
        let _ = std::fs::remove_file(self.directory.path().join(LOCK));
    }

    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.stays {
            self.directory.disable_cleanup(true);
        } else if let Err(error) = files::remove_tree(self.directory.path()) {
            // Packaging scripts may leave files that this user cannot remove.
            tracing::warn!(path = %self.directory.path().display(), %error, "removing the scratch directory \
                failed");
        }
    }
}

/// Removes the directories of killed runs. Those that cannot be removed stay.
fn sweep(base: &Path) {
    for entry in std::fs::read_dir(base).into_iter().flatten().flatten() {
        let ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        if ours && entry.file_type().is_ok_and(|kind| kind.is_dir()) && abandoned(&entry.path()) {
            tracing::info!(path = %entry.path().display(), "removing the scratch directory of a run that was \
                killed");
            if let Err(error) = files::remove_tree(&entry.path()) {
                tracing::warn!(path = %entry.path().display(), %error, "removing the scratch directory \
                    failed");
            }
        }
    }
}

fn abandoned(directory: &Path) -> bool {
    let Ok(lock) = File::open(directory.join(LOCK)).map(Locked::from) else { return false };
    let age =
        lock.metadata().and_then(|metadata| metadata.modified()).ok().and_then(|time| time.elapsed().ok());
    age.is_some_and(|age| age > ABANDONED_AFTER) && lock.try_lock().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    /// Creates the directory of a run that was killed this long ago.
    fn left(base: &Path, age: Duration) -> PathBuf {
        let mut scratch = Scratch::below(base).unwrap();
        scratch.leave();
        let path = scratch.path().to_owned();
        drop(scratch);
        std::fs::write(path.join("image"), "x").unwrap();
        File::open(path.join(LOCK)).unwrap().set_modified(SystemTime::now() - age).unwrap();
        path
    }

    #[test]
    fn a_run_removes_its_directory() {
        let base = tempfile::tempdir().unwrap();
        let scratch = Scratch::below(base.path()).unwrap();
        std::fs::write(scratch.path().join("image"), "x").unwrap();
        let mode = scratch.path().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "only the owner may read it");
        drop(scratch);
        assert_eq!(std::fs::read_dir(base.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_kept_directory_stays() {
        let base = tempfile::tempdir().unwrap();
        let mut scratch = Scratch::below(base.path()).unwrap();
        scratch.keep();
        let path = scratch.path().to_owned();
        drop(scratch);
        assert!(path.is_dir() && !abandoned(&path));
    }

    #[test]
    fn only_abandoned_directories_are_removed() {
        let base = tempfile::tempdir().unwrap();
        let day = ABANDONED_AFTER + Duration::from_secs(1);
        let recent = left(base.path(), Duration::from_secs(60));
        let held = left(base.path(), Duration::ZERO);
        let lock = File::open(held.join(LOCK)).unwrap();
        lock.lock().unwrap();
        lock.set_modified(SystemTime::now() - day).unwrap();
        let foreign = base.path().join("monopile-notes");
        std::fs::create_dir(&foreign).unwrap();
        let old = left(base.path(), day);
        drop(Scratch::below(base.path()).unwrap());
        assert!(!old.exists());
        assert!(recent.exists() && held.exists() && foreign.exists());
    }
}
