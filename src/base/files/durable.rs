//! Durable and atomic writes: after a crash a file has either its old content or its new one.
//!
//! Use [`write_atomically`], or [`Replacement`] if something must happen between writing and renaming.
//! [`remove_temporaries`] removes the temporary files of a killed writer.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{self as unix, DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::directory::parent;

/// Replaces the content of `path` with `bytes`, and sets the mode 0600. The owner stays, if this process may
/// set it.
///
/// Writes and syncs a temporary file in the same directory, renames it to `path`, and syncs the directory.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    Replacement::write(path, bytes, 0o600)?.put_in_place().map(drop)
}

/// Like [`write_atomically`], but gives the file the owner of `model`.
pub fn write_atomically_owned_like(path: &Path, bytes: &[u8], model: &Path) -> io::Result<()> {
    let replacement = Replacement::write(path, bytes, 0o600)?;
    give_file_to_owner_of(replacement.file(), model)?;
    replacement.put_in_place().map(drop)
}

/// Gives a file to the owner and group of `model`, so that files that root writes still belong to the user.
/// Does nothing if `model` does not exist or the process lacks the permission.
pub fn give_file_to_owner_of(file: &File, model: &Path) -> io::Result<()> {
    match other_owner(&file.metadata()?, model) {
        Some((user, group)) => ignore_denial(unix::fchown(file, Some(user), Some(group))),
        None => Ok(()),
    }
}

/// Like [`give_file_to_owner_of`], for a directory.
pub fn give_directory_to_owner_of(directory: &Path, model: &Path) -> io::Result<()> {
    match other_owner(&fs::symlink_metadata(directory)?, model) {
        Some((user, group)) => ignore_denial(unix::lchown(directory, Some(user), Some(group))),
        None => Ok(()),
    }
}

/// Returns the owner and group of `model`, unless the file already has them.
fn other_owner(metadata: &fs::Metadata, model: &Path) -> Option<(u32, u32)> {
    let model = fs::metadata(model).ok()?;
    let owner = (model.uid(), model.gid());
    (owner != (metadata.uid(), metadata.gid())).then_some(owner)
}

fn ignore_denial(outcome: io::Result<()>) -> io::Result<()> {
    match outcome {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        outcome => outcome,
    }
}

/// Applies `change` to a text file and writes the result with mode 0600, unless the text is unchanged.
///
/// Keeps only the last 64 MiB of a longer file. Does nothing if the file does not exist.
pub fn rewrite(path: &Path, change: &dyn Fn(&str) -> String) -> io::Result<()> {
    const MAX_KEPT_BYTES: u64 = 64 << 20;
    let mut file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        result => result?,
    };
    let start = file.metadata()?.len().saturating_sub(MAX_KEPT_BYTES);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(MAX_KEPT_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let new_text = change(&text);
    if start == 0 && new_text == text { Ok(()) } else { write_atomically(path, new_text.as_bytes()) }
}

/// A temporary file that is written and synced beside the file to replace. Dropping it removes it.
pub struct Replacement {
    temporary_file: tempfile::NamedTempFile,
    path: PathBuf,
}

impl Replacement {
    /// Writes the new content and mode of `path` to a temporary file.
    pub fn write(path: &Path, bytes: &[u8], mode: u32) -> io::Result<Self> {
        let mut temporary_file = tempfile::Builder::new()
            .prefix(&temporary_prefix(path))
            .suffix(TEMPORARY_SUFFIX)
            .permissions(fs::Permissions::from_mode(0o600))
            .tempfile_in(parent(path))?;
        temporary_file.write_all(bytes)?;
        give_file_to_owner_of(temporary_file.as_file(), path)?;
        if mode != 0o600 {
            // Set after the creation, because the umask applies to the mode of new files.
            temporary_file.as_file().set_permissions(fs::Permissions::from_mode(mode))?;
        }
        temporary_file.as_file().sync_all()?;
        Ok(Replacement { temporary_file, path: path.to_owned() })
    }

    /// Returns the temporary file, so that the caller can lock it.
    pub fn file(&self) -> &File {
        self.temporary_file.as_file()
    }

    /// Renames the temporary file to the final path and syncs the directory.
    pub fn put_in_place(self) -> io::Result<File> {
        let file = self.temporary_file.persist(&self.path).map_err(|error| error.error)?;
        sync_parent(&self.path)?;
        Ok(file)
    }
}

const TEMPORARY_SUFFIX: &str = ".tmp";

/// Returns the prefix of the names of temporary files for `path`.
fn temporary_prefix(path: &Path) -> OsString {
    let mut prefix = OsString::from(".");
    prefix.push(path.file_name().unwrap_or_default());
    prefix.push(".");
    prefix
}

/// Returns a fixed path for a temporary file beside `path`, which [`remove_temporaries`] also removes.
/// `purpose` is a part of its name and must not contain a dot.
pub fn temporary_path(path: &Path, purpose: &str) -> PathBuf {
    let mut name = temporary_prefix(path);
    name.push(purpose);
    name.push(TEMPORARY_SUFFIX);
    parent(path).join(name)
}

/// Removes the temporary files for `path`, which killed writers leave behind. The caller must be the only
/// writer of `path`.
pub fn remove_temporaries(path: &Path) -> io::Result<()> {
    let prefix = temporary_prefix(path);
    for entry in fs::read_dir(parent(path))? {
        let entry = entry?;
        let name = entry.file_name();
        let random_part = name
            .as_encoded_bytes()
            .strip_prefix(prefix.as_encoded_bytes())
            .and_then(|rest| rest.strip_suffix(TEMPORARY_SUFFIX.as_bytes()));
        // A dot in this part means that the temporary file belongs to a longer file name.
        if random_part.is_some_and(|random_part| !random_part.contains(&b'.')) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Syncs a directory, which makes created, renamed and removed names in it durable.
pub fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// Syncs the directory of `path`, which makes the creation, renaming or removal of `path` durable.
pub fn sync_parent(path: &Path) -> io::Result<()> {
    sync_directory(parent(path))
}

/// Removes a file and syncs its directory. Does nothing if the file does not exist.
pub fn remove_durably(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Ok(()) => sync_parent(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Creates a file with mode 0600 and opens it for writing. Fails if it exists.
pub fn create_private_file(path: &Path) -> io::Result<File> {
    File::options().write(true).create_new(true).mode(0o600).open(path)
}

/// Creates a directory and its missing parents, each with mode 0700 without the bits of the umask. Succeeds
/// if the directory exists.
pub fn create_private_directory(path: &Path) -> io::Result<()> {
    let result = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    result.map_err(|error| match error.kind() {
        // Missing parents are created, so this is a file system such as `/proc`.
        io::ErrorKind::NotFound => {
            io::Error::new(io::ErrorKind::NotFound, "the system does not allow a directory there")
        }
        _ => error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replacing_sets_the_mode_and_leaves_no_temporary_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        write_atomically(&path, b"one").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        drop(Replacement::write(&path, b"never", 0o644).unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"one");
        Replacement::write(&path, b"two", 0o644).unwrap().put_in_place().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn rewrite_skips_unchanged_text() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        rewrite(&path, &|_| String::new()).unwrap();
        assert!(!path.exists());
        fs::write(&path, b"a secret \xff").unwrap();
        let inode = || std::os::unix::fs::MetadataExt::ino(&fs::metadata(&path).unwrap());
        let inode_before = inode();
        rewrite(&path, &str::to_owned).unwrap();
        assert_eq!(inode(), inode_before);
        rewrite(&path, &|text| text.replace("secret", "x")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "a x \u{fffd}");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn removes_temporary_files_of_this_path_only() {
        let directory = tempfile::tempdir().unwrap();
        for name in [".a.yml.Xy3.tmp", ".a.yml.old.Xy3.tmp", ".b.yml.Xy3.tmp", "a.yml.Xy3.tmp"] {
            fs::write(directory.path().join(name), "").unwrap();
        }
        remove_temporaries(&directory.path().join("a.yml")).unwrap();
        assert!(!directory.path().join(".a.yml.Xy3.tmp").exists());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 3);
    }
}
