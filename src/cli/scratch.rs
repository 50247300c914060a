//! The scratch directory of a run: below `$TMPDIR` if that is set, else below the cache, because stemcells are
//! large and `/tmp` is often memory. It goes when the run ends.
//!
//! A run that was killed leaves its directory behind. The next one removes it after a day, if no run holds its
//! lock: not at once, because a CPI that outlived its run may still read an image there.

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
    /// Held as long as the run lives.
    _lock: Locked,
}

impl Scratch {
    pub(super) fn new(cache: &Path) -> Result<Scratch> {
        let base = paths::variable("TMPDIR").map(PathBuf::from).unwrap_or_else(|| cache.join("tmp"));
        Self::below(&paths::absolute(&base)?)
    }

    fn below(base: &Path) -> Result<Scratch> {
        let failed = |error| Error::io(format!("making a scratch directory in '{}'", base.display()), error);
        std::fs::create_dir_all(base).map_err(failed)?;
        sweep(base);
        let directory = tempfile::Builder::new()
            .prefix(PREFIX)
            // Rendered templates and a CPI's configuration lie there.
            .permissions(std::fs::Permissions::from_mode(0o700))
            .tempdir_in(base)
            .map_err(failed)?;
        let lock = Locked::from(File::create(directory.path().join(LOCK)).map_err(failed)?);
        match lock.try_lock() {
            // Nobody else knows the name yet. Where locks are not supported, sweeping is not possible either.
            Ok(()) | Err(TryLockError::WouldBlock | TryLockError::Error(_)) => {}
        }
        Ok(Scratch { directory, stays: false, _lock: lock })
    }

    /// Leaves the directory to the sweep of a later run.
    pub(super) fn leave(&mut self) {
        self.stays = true;
    }

    /// Leaves the directory when the run ends, and to whoever asked for it: without the lock file no other run
    /// takes it for one that was abandoned.
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
            // Packaging scripts may leave what is not theirs to remove.
            tracing::warn!(path = %self.directory.path().display(), %error, "scratch space stays behind");
        }
    }
}

/// Removes what killed runs left. Whatever cannot be removed (another user's, perhaps) stays.
fn sweep(base: &Path) {
    for entry in std::fs::read_dir(base).into_iter().flatten().flatten() {
        let ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        if ours && entry.file_type().is_ok_and(|kind| kind.is_dir()) && abandoned(&entry.path()) {
            tracing::info!(path = %entry.path().display(), "removing the scratch directory of a run that was killed");
            if let Err(error) = files::remove_tree(&entry.path()) {
                tracing::warn!(path = %entry.path().display(), %error, "it could not be removed");
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

    /// A directory as a run leaves it that was killed this long ago.
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
    fn a_run_takes_its_directory_with_it() {
        let base = tempfile::tempdir().unwrap();
        let scratch = Scratch::below(base.path()).unwrap();
        std::fs::write(scratch.path().join("image"), "x").unwrap();
        let mode = scratch.path().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "nobody else looks into it");
        drop(scratch);
        assert_eq!(std::fs::read_dir(base.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_is_to_be_kept_is_kept() {
        let base = tempfile::tempdir().unwrap();
        let mut scratch = Scratch::below(base.path()).unwrap();
        scratch.keep();
        let path = scratch.path().to_owned();
        drop(scratch);
        assert!(path.is_dir() && !abandoned(&path));
    }

    #[test]
    fn only_what_was_abandoned_is_removed() {
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
