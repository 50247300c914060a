//! Durable writes: a file is either what it was or what it was to become, never anything between.
//!
//! [`write_atomically`] for a file of one's own; [`Replacement`] where something has to happen between the
//! writing and the renaming. [`sweep_temporaries`] clears up after a writer that was killed.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Replaces `path` by `bytes`, mode 0600: a temporary file in the same directory is written and synced,
/// renamed over it, and the directory is synced.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    Replacement::write(path, bytes, 0o600)?.put_in_place().map(drop)
}

/// Rewrites a file of text, mode 0600, where `change` makes something else of it; of a very long one the end.
pub fn rewrite(path: &Path, change: &dyn Fn(&str) -> String) -> io::Result<()> {
    const LIMIT: u64 = 64 << 20;
    let mut file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened?,
    };
    let skipped = file.metadata()?.len().saturating_sub(LIMIT);
    file.seek(SeekFrom::Start(skipped))?;
    let mut bytes = Vec::new();
    file.take(LIMIT).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let changed = change(&text);
    if skipped == 0 && changed == text { Ok(()) } else { write_atomically(path, changed.as_bytes()) }
}

/// A file written and synced beside the one it is to replace. Dropped, it goes.
pub struct Replacement {
    temporary: tempfile::NamedTempFile,
    path: PathBuf,
}

impl Replacement {
    /// Writes what is to stand at `path`, with this mode.
    pub fn write(path: &Path, bytes: &[u8], mode: u32) -> io::Result<Self> {
        let mut temporary = tempfile::Builder::new()
            .prefix(&temporary_prefix(path))
            .suffix(TEMPORARY_SUFFIX)
            .permissions(fs::Permissions::from_mode(0o600))
            .tempfile_in(parent(path))?;
        temporary.write_all(bytes)?;
        if mode != 0o600 {
            // Set, not asked for at the opening: whatever the umask.
            temporary.as_file().set_permissions(fs::Permissions::from_mode(mode))?;
        }
        temporary.as_file().sync_all()?;
        Ok(Replacement { temporary, path: path.to_owned() })
    }

    /// The file, to lock it.
    pub fn file(&self) -> &File {
        self.temporary.as_file()
    }

    /// Renames it over the old file; durable when this returns.
    pub fn put_in_place(self) -> io::Result<File> {
        let file = self.temporary.persist(&self.path).map_err(|error| error.error)?;
        sync_parent(&self.path)?;
        Ok(file)
    }
}

const TEMPORARY_SUFFIX: &str = ".tmp";

/// What the names of temporary files for `path` begin with, so that they can be told from those of others.
fn temporary_prefix(path: &Path) -> OsString {
    let mut prefix = OsString::from(".");
    prefix.push(path.file_name().unwrap_or_default());
    prefix.push(".");
    prefix
}

/// A fixed name for a temporary file beside `path` that is swept like the others; `purpose`, without a dot,
/// tells them apart.
pub fn temporary_path(path: &Path, purpose: &str) -> PathBuf {
    let mut name = temporary_prefix(path);
    name.push(purpose);
    name.push(TEMPORARY_SUFFIX);
    parent(path).join(name)
}

/// Removes what writers of `path` that were killed left behind. Whoever calls this must be its only writer.
pub fn sweep_temporaries(path: &Path) -> io::Result<()> {
    let prefix = temporary_prefix(path);
    for entry in fs::read_dir(parent(path))? {
        let entry = entry?;
        let name = entry.file_name();
        let random = name
            .as_encoded_bytes()
            .strip_prefix(prefix.as_encoded_bytes())
            .and_then(|rest| rest.strip_suffix(TEMPORARY_SUFFIX.as_bytes()));
        // With a dot in it it is of a file whose name only begins like this one's.
        if random.is_some_and(|random| !random.contains(&b'.')) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Makes names created in, renamed within or removed from `directory` durable.
pub fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// Makes the creation, renaming or removal of `path` durable.
pub fn sync_parent(path: &Path) -> io::Result<()> {
    sync_directory(parent(path))
}

/// Removes a file if it is there and makes that durable.
pub fn remove_durably(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Ok(()) => sync_parent(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// The files in `directory` whose names have this extension and begin with a time, newest first; none when there is no
/// such directory.
pub fn newest_first(directory: &Path, extension: &str) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let paths = entries.flatten().map(|entry| entry.path());
    let mut paths: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|found| found == extension)).collect();
    paths.sort();
    paths.reverse();
    Ok(paths)
}

/// Creates a file for a program of ours to write into; it must not exist yet. Mode 0600.
pub fn create_private(path: &Path) -> io::Result<File> {
    File::options().write(true).create_new(true).mode(0o600).open(path)
}

/// The directory a file lies in; `.` for a bare name.
pub fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_gets_its_mode_and_leaves_nothing_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        write_atomically(&path, b"one").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        drop(Replacement::write(&path, b"never", 0o644).unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"one");
        Replacement::write(&path, b"two", 0o644).unwrap().put_in_place().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_text_is_rewritten_where_it_changes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        rewrite(&path, &|_| String::new()).unwrap();
        assert!(!path.exists());
        fs::write(&path, b"a secret \xff").unwrap();
        let inode = || std::os::unix::fs::MetadataExt::ino(&fs::metadata(&path).unwrap());
        let before = inode();
        rewrite(&path, &str::to_owned).unwrap();
        assert_eq!(inode(), before);
        rewrite(&path, &|text| text.replace("secret", "x")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "a x \u{fffd}");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn only_what_was_to_become_this_very_file_is_swept() {
        let dir = tempfile::tempdir().unwrap();
        for name in [".a.yml.Xy3.tmp", ".a.yml.old.Xy3.tmp", ".b.yml.Xy3.tmp", "a.yml.Xy3.tmp"] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        sweep_temporaries(&dir.path().join("a.yml")).unwrap();
        assert!(!dir.path().join(".a.yml.Xy3.tmp").exists());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3);
    }
}
