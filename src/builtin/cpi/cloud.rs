//! A cloud that is a directory: the creation and deletion of the directories of its objects, and their locks.
//! The `local` and the `qemu` CPI have such clouds.
//!
//! - An object exists if its directory is in the directory of its kind. One rename out of `staging/` creates
//!   it, and one rename back deletes it.
//! - Locks are flocks on the directories themselves. They end with their holder, and leave no lock files
//!   behind. Every call shares the lock on the root; only a call that removes empty directories holds it
//!   exclusively.
//! - Locks are taken in the order root, VM, disk.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::cid::{Cid, ObjectKind};
use super::failure::{CpiFailure, CpiResult};
use base::files;
use base::files::ID_FILE;
use base::files::durable::{create_private_directory, sync_parent};

/// Prepares a staged directory for its removal: stops a VM in it, and saves the disks in it.
pub(crate) type PrepareRemoval = fn(&Cloud, &Path) -> CpiResult<()>;

/// A file in the root with facts about this machine. A cloud with only this file and its id counts as empty
/// and is removed.
pub(crate) const ACCELERATOR_FILE: &str = "accelerator.json";

/// The open cloud. Its shared lock keeps other calls from removing the root.
pub(crate) struct Cloud {
    root: PathBuf,
    lock: File,
    prepare_removal: PrepareRemoval,
}

/// A directory that this process has locked exclusively.
pub(crate) struct ObjectLock {
    pub path: PathBuf,
    lock: File,
}

impl ObjectLock {
    /// Returns the lock as the standard input of a program that changes the object. The object stays locked
    /// until the program ends, even if this process is killed before.
    pub(crate) fn as_stdin(&self) -> CpiResult<Stdio> {
        let lock = self.lock.try_clone().map_err(|error| CpiFailure::io("passing on a lock", error))?;
        Ok(lock.into())
    }
}

impl Cloud {
    /// Opens the cloud in `root`, an absolute path. Returns `None` if the directory does not exist.
    pub(crate) fn open(root: &Path, prepare_removal: PrepareRemoval) -> CpiResult<Option<Cloud>> {
        let open = || -> io::Result<Option<Cloud>> {
            loop {
                let lock = match File::open(root) {
                    Ok(lock) => lock,
                    Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                    Err(error) => return Err(error),
                };
                lock.lock_shared()?;
                // Another call may have removed the directory before it was locked.
                if is_directory_in_place(&lock, root)? {
                    return Ok(Some(Cloud { root: root.to_owned(), lock, prepare_removal }));
                }
            }
        };
        open().map_err(|error| {
            CpiFailure::io(format_args!("opening the CPI's root '{}'", root.display()), error)
        })
    }

    /// Opens the cloud, and creates it if it does not exist.
    pub(crate) fn open_or_create(root: &Path, prepare_removal: PrepareRemoval) -> CpiResult<Cloud> {
        loop {
            create_private_directory(root).map_err(|error| {
                CpiFailure::io(format_args!("creating the CPI's root '{}'", root.display()), error)
            })?;
            if let Some(cloud) = Cloud::open(root, prepare_removal)? {
                cloud.ensure_id().map_err(|error| {
                    CpiFailure::io(
                        format_args!("writing the ID of the CPI's root '{}'", root.display()),
                        error,
                    )
                })?;
                return Ok(cloud);
            }
        }
    }

    /// Gives the cloud an id that identifies it to its users, unless it has one.
    fn ensure_id(&self) -> io::Result<()> {
        let path = self.root.join(ID_FILE);
        if path.exists() {
            return Ok(());
        }
        let id = uuid::Uuid::new_v4().to_string();
        let temporary_file = self.root.join(format!("{ID_FILE}.{id}"));
        fs::write(&temporary_file, format!("{id}\n"))?;
        // Another call may create the id at the same time; the first one takes precedence.
        match renameat_with(CWD, &temporary_file, CWD, &path, RenameFlags::NOREPLACE) {
            Err(rustix::io::Errno::EXIST) => fs::remove_file(&temporary_file),
            Err(errno) => Err(errno.into()),
            Ok(()) => sync_parent(&path),
        }
    }

    /// Removes the id and the facts about this machine if nothing else is left.
    fn remove_own_files(&self) {
        let Ok(names) = list_names(&self.root) else { return };
        if names.iter().all(|name| name.starts_with(ID_FILE) || name.contains(ACCELERATOR_FILE)) {
            for name in names {
                let _ = fs::remove_file(self.root.join(name));
            }
        }
    }

    /// Returns the path of an object, which need not exist.
    pub(crate) fn path(&self, cid: &Cid) -> PathBuf {
        self.root.join(cid.kind().directory()).join(cid.as_str())
    }

    /// Returns the path of an object that is being created or deleted.
    pub(crate) fn staged_path(&self, cid: &Cid) -> PathBuf {
        self.staging().join(cid.as_str())
    }

    /// Returns the directories of objects that are being created or deleted.
    pub(crate) fn staged_paths(&self) -> CpiResult<Vec<PathBuf>> {
        Ok(list_names(&self.staging())?.into_iter().map(|name| self.staging().join(name)).collect())
    }

    /// Returns true if an object with this CID exists.
    pub(crate) fn contains(&self, cid: &Cid) -> CpiResult<bool> {
        let path = self.path(cid);
        match fs::symlink_metadata(&path) {
            Ok(metadata) => Ok(metadata.is_dir()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(CpiFailure::io(format_args!("looking for '{}'", path.display()), error)),
        }
    }

    /// Returns the CIDs of all objects of one kind.
    pub(crate) fn list(&self, kind: ObjectKind) -> CpiResult<Vec<Cid>> {
        let path = self.root.join(kind.directory());
        Ok(list_names(&path)?.iter().filter_map(|name| kind.parse(name)).collect())
    }

    /// Locks an object, and waits for other holders. Returns `None` if it does not exist, or was deleted
    /// meanwhile.
    pub(crate) fn lock(&self, cid: &Cid) -> CpiResult<Option<ObjectLock>> {
        lock_directory(&self.path(cid), false)
            .map_err(|error| CpiFailure::io(format_args!("locking '{}'", self.path(cid).display()), error))
    }

    /// Locks an object, after other holders released it. Fails with "not found" if it does not exist.
    pub(crate) fn lock_existing(&self, cid: &Cid) -> CpiResult<ObjectLock> {
        self.lock(cid)?.ok_or_else(|| cid.not_found_error())
    }

    /// Creates an empty, locked directory in `staging/`, in which an object will be created.
    pub(crate) fn create_staging(&self, cid: &Cid) -> CpiResult<ObjectLock> {
        let path = self.staging().join(cid.as_str());
        let make = || -> io::Result<ObjectLock> {
            loop {
                create_private_directory(&self.staging())?;
                DirBuilder::new().mode(0o700).create(&path)?;
                // Another call may have removed the directory before it was locked.
                if let Some(lock) = lock_directory(&path, false)? {
                    return Ok(lock);
                }
            }
        };
        make().map_err(|error| CpiFailure::io(format_args!("creating '{}'", path.display()), error))
    }

    /// Moves a staged directory to its place. The object exists from then on.
    pub(crate) fn publish(&self, cid: &Cid, staging: ObjectLock) -> CpiResult<ObjectLock> {
        let path = self.path(cid);
        let publish = || -> io::Result<()> {
            create_private_directory(&self.root.join(cid.kind().directory()))?;
            renameat_with(CWD, &staging.path, CWD, &path, RenameFlags::NOREPLACE)?;
            sync_parent(&path)
        };
        publish().map_err(|error| {
            CpiFailure::io(format_args!("moving '{}' to '{}'", staging.path.display(), path.display()), error)
        })?;
        Ok(ObjectLock { path, lock: staging.lock })
    }

    /// Deletes an object: moves its directory to `staging/`, then removes it. The caller has stopped a VM,
    /// and has saved its disks.
    pub(crate) fn delete(&self, cid: &Cid, lock: ObjectLock) -> CpiResult<()> {
        let path = self.staging().join(cid.as_str());
        let unpublish = || -> io::Result<()> {
            create_private_directory(&self.staging())?;
            renameat_with(CWD, &lock.path, CWD, &path, RenameFlags::NOREPLACE)?;
            sync_parent(&lock.path)
        };
        unpublish()
            .map_err(|error| CpiFailure::io(format_args!("removing '{}'", lock.path.display()), error))?;
        self.remove_from_staging(&path)
    }

    /// Removes a staged directory whose object will not be created.
    pub(crate) fn remove_staged(&self, staging: ObjectLock) -> CpiResult<()> {
        self.remove_from_staging(&staging.path)
    }

    /// Removes the leftovers of killed calls from `staging/`, and returns their number.
    pub(crate) fn remove_leftovers(&self) -> CpiResult<usize> {
        let mut removed_count = 0;
        for name in list_names(&self.staging())? {
            let path = self.staging().join(name);
            // A locked directory belongs to a running call.
            match lock_directory(&path, true) {
                Ok(Some(_held)) => {
                    self.remove_from_staging(&path)?;
                    removed_count += 1;
                }
                Ok(None) => {}
                Err(error) => {
                    return Err(CpiFailure::io(format_args!("locking '{}'", path.display()), error));
                }
            }
        }
        Ok(removed_count)
    }

    /// Removes one directory of `staging/`.
    fn remove_from_staging(&self, path: &Path) -> CpiResult<()> {
        (self.prepare_removal)(self, path)?;
        let remove_error = |error| CpiFailure::io(format_args!("removing '{}'", path.display()), error);
        files::remove_tree(path).map_err(remove_error)?;
        sync_parent(path).map_err(remove_error)
    }

    /// Removes empty directories, including the root, unless another call is running.
    pub(crate) fn remove_if_empty(self) {
        if self.lock.try_lock().is_err() {
            return;
        }
        // A directory that is not empty, or cannot be removed, stays.
        for kind in ObjectKind::ALL {
            let _ = fs::remove_dir(self.root.join(kind.directory()));
        }
        let _ = fs::remove_dir(self.staging());
        self.remove_own_files();
        let _ = fs::remove_dir(&self.root);
    }

    fn staging(&self) -> PathBuf {
        self.root.join("staging")
    }
}

/// Returns the sorted names in a directory, or an empty list if it does not exist. Leaves out names that are
/// not UTF-8, because no object has such a name.
pub(crate) fn list_names(path: &Path) -> CpiResult<Vec<String>> {
    let read = || -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(path)? {
            names.extend(entry?.file_name().into_string());
        }
        names.sort();
        Ok(names)
    };
    match read() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        result => result.map_err(|error| CpiFailure::io(format_args!("listing '{}'", path.display()), error)),
    }
}

/// Locks a directory. Returns `None` if it does not exist. With `must_be_free`, also returns `None` if
/// another process holds the lock.
fn lock_directory(path: &Path, must_be_free: bool) -> io::Result<Option<ObjectLock>> {
    let lock = match File::open(path) {
        Ok(lock) => lock,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if must_be_free {
        match lock.try_lock() {
            Err(fs::TryLockError::WouldBlock) => return Ok(None),
            Err(fs::TryLockError::Error(error)) => return Err(error),
            Ok(()) => {}
        }
    } else {
        lock.lock()?;
    }
    // The previous holder may have moved the directory.
    Ok(is_directory_in_place(&lock, path)?.then(|| ObjectLock { path: path.to_owned(), lock }))
}

/// Returns true if `path` is the directory that was opened, and not a link to it.
fn is_directory_in_place(file: &File, path: &Path) -> io::Result<bool> {
    let metadata = file.metadata()?;
    match fs::symlink_metadata(path) {
        Ok(path_metadata) => Ok(files::is_same_file(&path_metadata, &metadata)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prepare_nothing(_: &Cloud, _: &Path) -> CpiResult<()> {
        Ok(())
    }

    #[test]
    fn staged_objects_are_invisible_and_leftovers_removed() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("cloud");
        assert!(Cloud::open(&root, prepare_nothing).unwrap().is_none());
        let cloud = Cloud::open_or_create(&root, prepare_nothing).unwrap();
        let cid = ObjectKind::Disk.new_cid();
        let staging = cloud.create_staging(&cid).unwrap();
        assert!(!cloud.contains(&cid).unwrap());
        assert_eq!(cloud.remove_leftovers().unwrap(), 0, "a locked staging directory was removed");
        drop(staging);
        assert_eq!(cloud.remove_leftovers().unwrap(), 1);

        let staging = cloud.create_staging(&cid).unwrap();
        let lock = cloud.publish(&cid, staging).unwrap();
        assert!(cloud.contains(&cid).unwrap());
        cloud.delete(&cid, lock).unwrap();
        assert!(!cloud.contains(&cid).unwrap());
        cloud.remove_if_empty();
        assert!(!root.exists());
    }

    #[test]
    fn root_is_kept_while_in_use_or_not_empty() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("cloud");
        let other = Cloud::open_or_create(&root, prepare_nothing).unwrap();
        Cloud::open_or_create(&root, prepare_nothing).unwrap().remove_if_empty();
        assert!(root.exists());
        let cid = ObjectKind::Stemcell.new_cid();
        let staging = other.create_staging(&cid).unwrap();
        other.publish(&cid, staging).unwrap();
        other.remove_if_empty();
        assert!(root.join("stemcells").join(cid.as_str()).exists());
        assert!(!root.join("staging").exists());
    }
}
