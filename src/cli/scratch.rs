//! The scratch directory of a run: below `$TMPDIR` if it is set, otherwise below the cache, because stemcells
//! are large and `/tmp` is often in memory. It is removed at the end of the run.
//!
//! The directory of a killed run is removed by a later run. The killed run must have ended, and no CPI that
//! it started may still run, because such a CPI may read an image there.

use std::fs::{File, TryLockError};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::{env_vars, paths};
use base::files::durable::{create_private_directory, create_private_file};
use base::files::{UnlockOnDrop, scratch_claim};
use base::{Error, Result, files};

/// The start of the names of scratch directories.
const DIRECTORY_PREFIX: &str = "monopile-";
/// The lock of a run. A directory without it is not removed.
const LOCK_FILE: &str = ".lock";
/// The name of the lock before the run has taken it.
const NEW_LOCK_FILE: &str = ".lock-new";

/// A directory with mode 0700 that is removed when this is dropped.
pub(super) struct Scratch {
    directory: tempfile::TempDir,
    is_kept: bool,
    /// The lock of the directory, until the end of the run.
    _lock: UnlockOnDrop,
}

impl Scratch {
    pub(super) fn new(cache: &Path) -> Result<Scratch> {
        let base = env_vars::TMPDIR.value().map(PathBuf::from).unwrap_or_else(|| cache.join("tmp"));
        Self::create_below(&paths::absolute(&base)?)
    }

    fn create_below(base_directory: &Path) -> Result<Scratch> {
        let create_error = |error| {
            Error::io(format!("creating a scratch directory in '{}'", base_directory.display()), error)
                .with_path_hint(&base_directory.join(DIRECTORY_PREFIX), "TMPDIR=DIR")
        };
        create_private_directory(base_directory).map_err(create_error)?;
        clean_up(base_directory);
        let directory = tempfile::Builder::new()
            .prefix(DIRECTORY_PREFIX)
            // Rendered templates and the configuration of CPIs hold secrets.
            .permissions(std::fs::Permissions::from_mode(0o700))
            .tempdir_in(base_directory)
            .map_err(create_error)?;
        let new_lock = directory.path().join(NEW_LOCK_FILE);
        let lock = UnlockOnDrop::from(create_private_file(&new_lock).map_err(create_error)?);
        match lock.try_lock() {
            // The name is new, so the lock is free. On a file system without locks, `clean_up` removes no
            // directory.
            Ok(()) | Err(TryLockError::WouldBlock | TryLockError::Error(_)) => {}
        }
        // Another run can find the lock only from here on.
        std::fs::rename(&new_lock, directory.path().join(LOCK_FILE)).map_err(create_error)?;
        Ok(Scratch { directory, is_kept: false, _lock: lock })
    }

    /// Leaves the directory in place for a later run to remove.
    pub(super) fn leave(&mut self) {
        self.is_kept = true;
    }

    /// Keeps the directory for the operator. Without its lock file, no later run removes it.
    pub(super) fn keep(&mut self) {
        self.is_kept = true;
        let _ = std::fs::remove_file(self.directory.path().join(LOCK_FILE));
    }

    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Some(base) = self.directory.path().parent() {
            // A CPI of a killed run has ended by now, because this run waited for it.
            clean_up(base);
        }
        if self.is_kept {
            self.directory.disable_cleanup(true);
        } else if let Err(error) = remove(self.directory.path()) {
            // Packaging scripts may leave files that this user cannot remove.
            tracing::warn!(path = %self.directory.path().display(), %error, "removing the scratch directory \
                failed");
        }
    }
}

/// Removes the directories of killed runs. Those that cannot be removed stay.
fn clean_up(base_directory: &Path) {
    for entry in std::fs::read_dir(base_directory).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(DIRECTORY_PREFIX));
        if is_ours && entry.file_type().is_ok_and(|kind| kind.is_dir()) && is_abandoned(&entry.path()) {
            tracing::info!(path = %entry.path().display(), "removing the scratch directory of a run that was \
                killed");
            if let Err(error) = remove(&entry.path()) {
                tracing::warn!(path = %entry.path().display(), %error, "removing the scratch directory \
                    failed");
            }
        }
    }
}

/// Removes a scratch directory, its lock last. If the run is killed meanwhile, a later run removes the rest.
fn remove(directory: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(directory)?.flatten().filter(|entry| entry.file_name() != LOCK_FILE) {
        // What cannot be removed alone is reported below.
        let _ = files::remove_tree(&entry.path());
    }
    files::remove_tree(directory)
}

fn is_abandoned(directory: &Path) -> bool {
    let Ok(lock) = File::open(directory.join(LOCK_FILE)).map(UnlockOnDrop::from) else { return false };
    lock.try_lock().is_ok() && !scratch_claim::exists(directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates the directory of a killed run.
    fn create_abandoned(base: &Path) -> PathBuf {
        let mut scratch = Scratch::create_below(base).unwrap();
        scratch.leave();
        let path = scratch.path().to_owned();
        drop(scratch);
        std::fs::write(path.join("image"), "x").unwrap();
        path
    }

    #[test]
    fn run_removes_its_directory() {
        let base = tempfile::tempdir().unwrap();
        let scratch = Scratch::create_below(base.path()).unwrap();
        std::fs::write(scratch.path().join("image"), "x").unwrap();
        let mode = scratch.path().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "others have access to it");
        drop(scratch);
        assert_eq!(std::fs::read_dir(base.path()).unwrap().count(), 0);
    }

    #[test]
    fn kept_directory_stays() {
        let base = tempfile::tempdir().unwrap();
        let mut scratch = Scratch::create_below(base.path()).unwrap();
        scratch.keep();
        let path = scratch.path().to_owned();
        drop(scratch);
        assert!(path.is_dir() && !is_abandoned(&path));
    }

    #[test]
    fn only_abandoned_directories_are_removed() {
        let base = tempfile::tempdir().unwrap();
        let locked_directory = create_abandoned(base.path());
        let lock = File::open(locked_directory.join(LOCK_FILE)).unwrap();
        lock.lock().unwrap();
        let foreign = base.path().join("monopile-notes");
        std::fs::create_dir(&foreign).unwrap();
        let in_use = create_abandoned(base.path());
        let answer = base.path().join("answer");
        let cpi = UnlockOnDrop::from(File::create(&answer).unwrap());
        cpi.lock().unwrap();
        scratch_claim::record(&in_use, &[&answer]).unwrap();
        let old = create_abandoned(base.path());
        let run = Scratch::create_below(base.path()).unwrap();
        assert!(!old.exists());
        assert!(locked_directory.exists() && foreign.exists() && in_use.exists());
        drop(cpi);
        drop(run);
        drop(Scratch::create_below(base.path()).unwrap());
        assert!(!in_use.exists() && locked_directory.exists());
    }
}
