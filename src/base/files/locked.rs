//! Locked files that are free again when they are dropped.

use std::fs::File;
use std::ops::{Deref, DerefMut};

/// A file that may be locked (`flock`), and is locked no more once this is dropped.
///
/// Closing alone would not do: a lock belongs to the opened file, and a child that another thread is just starting,
/// or that was given the file, has it open as well.
#[derive(Debug)]
pub struct Locked(File);

impl From<File> for Locked {
    fn from(file: File) -> Self {
        Locked(file)
    }
}

impl Deref for Locked {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

impl DerefMut for Locked {
    fn deref_mut(&mut self) -> &mut File {
        &mut self.0
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        if let Err(error) = self.0.unlock() {
            tracing::debug!(%error, "a lock cannot be released");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_free_although_somebody_else_has_it_open() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let locked = Locked::from(File::create(&path).unwrap());
        locked.try_lock().unwrap();
        let elsewhere = locked.try_clone().unwrap();
        assert!(File::open(&path).unwrap().try_lock().is_err());
        drop(locked);
        File::open(&path).unwrap().try_lock().unwrap();
        drop(elsewhere);
    }
}
