//! File locks that are released on drop.

use std::fs::File;
use std::ops::{Deref, DerefMut};

/// A file that may be locked (`flock`). Dropping it releases the lock.
///
/// Closing the file is not enough. The lock ends when all duplicates of the descriptor are closed, and a
/// child process may have one, even if another thread starts it.
#[derive(Debug)]
pub struct UnlockOnDrop(File);

impl From<File> for UnlockOnDrop {
    fn from(file: File) -> Self {
        UnlockOnDrop(file)
    }
}

impl Deref for UnlockOnDrop {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

impl DerefMut for UnlockOnDrop {
    fn deref_mut(&mut self) -> &mut File {
        &mut self.0
    }
}

impl Drop for UnlockOnDrop {
    fn drop(&mut self) {
        if let Err(error) = self.0.unlock() {
            tracing::debug!(%error, "cannot release a file lock");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drop_unlocks_even_if_a_duplicate_is_open() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let lock_file = UnlockOnDrop::from(File::create(&path).unwrap());
        lock_file.try_lock().unwrap();
        let second_descriptor = lock_file.try_clone().unwrap();
        assert!(File::open(&path).unwrap().try_lock().is_err());
        drop(lock_file);
        File::open(&path).unwrap().try_lock().unwrap();
        drop(second_descriptor);
    }
}
