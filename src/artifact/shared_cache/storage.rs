//! The storage of a shared cache. Buckets are opened by the crate `engine`, which has their client.

use std::fs::{self, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use base::error::os_problem;
use base::files::durable::sync_parent;
use base::files::input;

/// The start of the names of files that are being written.
const TEMPORARY_PREFIX: &str = ".new-";

/// A part of an object.
#[derive(Debug)]
pub struct ObjectPart {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// The size of the whole object in bytes.
    pub total: u64,
}

/// An object in a list of objects.
#[derive(Debug, Clone)]
pub struct StoredObject {
    /// Its name without the folder.
    pub name: String,
    /// Its size in bytes.
    pub size: u64,
    /// The time at which it was written.
    pub write_time: SystemTime,
}

/// The objects of a shared cache. Names of objects are relative paths with `/`.
///
/// Each request has a timeout, and ends early at a signal. An error names the object.
pub trait SharedStorage: Send + Sync {
    /// Reads at most `length` bytes of an object from `offset` on. Returns `None` if there is no such object.
    fn read(&self, object: &str, offset: u64, length: u64) -> io::Result<Option<ObjectPart>>;

    /// Creates or replaces an object. Readers see either all of `content`, which has `size` bytes, or
    /// nothing.
    fn write(&self, object: &str, content: &mut dyn Read, size: u64) -> io::Result<()>;

    /// Lists the objects in a folder.
    fn list(&self, folder: &str) -> io::Result<Vec<StoredObject>>;

    /// Removes an object, if it exists.
    fn remove(&self, object: &str) -> io::Result<()>;
}

/// A shared cache in a directory, such as a mounted one.
#[derive(Debug)]
pub struct SharedDirectory {
    root: PathBuf,
    /// True if a missing `root` is created, and false if it is an error.
    creates_root: bool,
}

impl SharedDirectory {
    /// Returns the storage in the directory `root`. If `creates_root` is true, a missing directory is
    /// created.
    pub fn new(root: &Path, creates_root: bool) -> Self {
        SharedDirectory { root: root.to_owned(), creates_root }
    }

    fn read_part(&self, path: &Path, offset: u64, length: u64) -> io::Result<Option<ObjectPart>> {
        // Opening does not wait for the writer of a fifo that another user may have made there.
        let Some(file) = self.unless_missing(input::open(path))? else { return Ok(None) };
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        let total = metadata.len();
        let count = length.min(total.saturating_sub(offset));
        let mut bytes = vec![0; usize::try_from(count).map_err(io::Error::other)?];
        file.read_exact_at(&mut bytes, offset)?;
        Ok(Some(ObjectPart { bytes, total }))
    }

    /// Returns `None` if a file or folder does not exist. Fails if the whole directory does not exist.
    fn unless_missing<T>(&self, result: io::Result<T>) -> io::Result<Option<T>> {
        match result {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                match self.creates_root || self.root.is_dir() {
                    true => Ok(None),
                    false => Err(io::Error::new(
                        io::ErrorKind::NotFound,
                        format!("the directory '{}' does not exist", self.root.display()),
                    )),
                }
            }
            result => result.map(Some),
        }
    }

    fn list_folder(&self, folder: &Path) -> io::Result<Vec<StoredObject>> {
        let mut objects = Vec::new();
        for entry in self.unless_missing(fs::read_dir(folder))?.into_iter().flatten() {
            let entry = entry?;
            // A file may be removed while the folder is read.
            let metadata = entry.metadata().ok().filter(fs::Metadata::is_file);
            if let (Some(metadata), Ok(name)) = (metadata, entry.file_name().into_string())
                && !name.starts_with(TEMPORARY_PREFIX)
            {
                objects.push(StoredObject { name, size: metadata.len(), write_time: metadata.modified()? });
            }
        }
        Ok(objects)
    }

    fn write_whole(path: &Path, content: &mut dyn Read) -> io::Result<()> {
        let parent = base::files::directory::parent(path);
        // Other users read the files, so the umask alone decides about their modes.
        fs::create_dir_all(parent)?;
        let mut file = tempfile::Builder::new()
            .prefix(TEMPORARY_PREFIX)
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(parent)?;
        io::copy(content, file.as_file_mut())?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|error| error.error)?;
        sync_parent(path)
    }
}

impl SharedStorage for SharedDirectory {
    fn read(&self, object: &str, offset: u64, length: u64) -> io::Result<Option<ObjectPart>> {
        let path = self.root.join(object);
        self.read_part(&path, offset, length).map_err(|error| with_path("reading", &path, error))
    }

    fn write(&self, object: &str, content: &mut dyn Read, _size: u64) -> io::Result<()> {
        let path = self.root.join(object);
        SharedDirectory::write_whole(&path, content).map_err(|error| with_path("writing", &path, error))
    }

    fn list(&self, folder: &str) -> io::Result<Vec<StoredObject>> {
        let path = self.root.join(folder);
        self.list_folder(&path).map_err(|error| with_path("listing", &path, error))
    }

    fn remove(&self, object: &str) -> io::Result<()> {
        let path = self.root.join(object);
        self.unless_missing(fs::remove_file(&path))
            .map(drop)
            .map_err(|error| with_path("removing", &path, error))
    }
}

/// Adds the path to an error.
fn with_path(action: &str, path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{action} '{}': {}", path.display(), os_problem(&error)))
}
