//! Copies a disk's content with types, modes, owners, times, soft and hard links, extended attributes and
//! holes. The copy can be repeated after an interruption.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, Timespec, Timestamps, XattrFlags};
use rustix::io::Errno;

use super::process::TaskControl;
use base::{Error, Result};

/// Copies all files below `from` into `to`, and syncs the file system of `to`.
pub(super) fn copy_tree(from: &Path, to: &Path, task: &TaskControl) -> Result<()> {
    let mut links = HashMap::new();
    let mut directories = Vec::new();
    for entry in walkdir::WalkDir::new(from).same_file_system(true) {
        task.check()?;
        let entry = entry
            .map_err(|error| Error::failure(format!("reading '{}'", from.display())).with_source(error))?;
        let Ok(relative) = entry.path().strip_prefix(from) else { continue };
        let target = to.join(relative);
        let copy_error =
            |error: std::io::Error| Error::io(format!("copying '{}'", entry.path().display()), error);
        let meta = fs::symlink_metadata(entry.path()).map_err(copy_error)?;
        if meta.is_dir() {
            if !fs::symlink_metadata(&target).is_ok_and(|target_meta| target_meta.is_dir()) {
                remove(&target).map_err(copy_error)?;
                fs::create_dir(&target).map_err(copy_error)?;
            }
            directories.push((entry.path().to_path_buf(), target, meta));
            continue;
        }
        remove(&target).map_err(copy_error)?;
        if meta.nlink() > 1
            && let Some(first) = links.get(&(meta.dev(), meta.ino()))
        {
            fs::hard_link::<&PathBuf, _>(first, &target).map_err(copy_error)?;
            continue;
        }
        copy_one(entry.path(), &target, &meta, task).map_err(copy_error)?;
        task.check()?;
        attributes(entry.path(), &target, &meta).map_err(copy_error)?;
        links.insert((meta.dev(), meta.ino()), target);
    }
    // Directories come last, innermost first, because new entries change their times, and their modes may
    // forbid new entries.
    for (source, target, meta) in directories.iter().rev() {
        attributes(source, target, meta)
            .map_err(|error| Error::io(format!("copying the attributes of '{}'", source.display()), error))?;
    }
    let synced = File::open(to).and_then(|directory| Ok(rustix::fs::syncfs(directory)?));
    synced.map_err(|error| Error::io(format!("syncing '{}'", to.display()), error))
}

fn copy_one(source: &Path, target: &Path, meta: &Metadata, task: &TaskControl) -> std::io::Result<()> {
    let kind = meta.file_type();
    if kind.is_symlink() {
        return symlink(fs::read_link(source)?, target);
    }
    if kind.is_file() {
        return copy_content(source, target, meta.len(), task);
    }
    let node_type = if kind.is_fifo() {
        FileType::Fifo
    } else if kind.is_char_device() {
        FileType::CharacterDevice
    } else if kind.is_block_device() {
        FileType::BlockDevice
    } else {
        // Sockets are copied as nodes. The processes that listened on them have been stopped.
        FileType::Socket
    };
    rustix::fs::mknodat(CWD, target, node_type, Mode::RUSR | Mode::WUSR, meta.rdev())?;
    Ok(())
}

/// Copies a file without its holes, so that a sparse file stays sparse. Stops if the task is cancelled.
fn copy_content(source: &Path, target: &Path, length: u64, task: &TaskControl) -> std::io::Result<()> {
    let mut from = File::open(source)?;
    let mut to = File::create_new(target)?;
    to.set_len(length)?;
    let mut buffer = vec![0; 1 << 20];
    let mut position = 0;
    while position < length && !task.is_cancelled() {
        let start = match rustix::fs::seek(&from, rustix::fs::SeekFrom::Data(position)) {
            Ok(start) => start,
            // The rest of the file is a hole.
            Err(Errno::NXIO) => break,
            Err(Errno::INVAL) => position,
            Err(error) => return Err(error.into()),
        };
        let end = rustix::fs::seek(&from, rustix::fs::SeekFrom::Hole(start)).unwrap_or(length).max(start + 1);
        from.seek(SeekFrom::Start(start))?;
        to.seek(SeekFrom::Start(start))?;
        position = start;
        while position < end && !task.is_cancelled() {
            let chunk_length = buffer.len().min(usize::try_from(end - position).unwrap_or(usize::MAX));
            let count = from.read(&mut buffer[..chunk_length])?;
            if count == 0 {
                return Ok(());
            }
            to.write_all(&buffer[..count])?;
            position += count as u64;
        }
    }
    Ok(())
}

fn attributes(source: &Path, target: &Path, meta: &Metadata) -> std::io::Result<()> {
    match lchown(target, Some(meta.uid()), Some(meta.gid())) {
        // The user namespace of an ordinary user maps only some owners.
        Err(error) if !matches!(Errno::from_io_error(&error), Some(Errno::PERM | Errno::INVAL)) => {
            return Err(error);
        }
        _ => {}
    }
    copy_xattrs(source, target)?;
    // The mode follows the owner, because a change of the owner clears set-user-id.
    if !meta.is_symlink() {
        fs::set_permissions(target, fs::Permissions::from_mode(meta.mode() & 0o7777))?;
    }
    let times = Timestamps {
        last_access: Timespec { tv_sec: meta.atime(), tv_nsec: meta.atime_nsec() },
        last_modification: Timespec { tv_sec: meta.mtime(), tv_nsec: meta.mtime_nsec() },
    };
    rustix::fs::utimensat(CWD, target, &times, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(())
}

fn copy_xattrs(source: &Path, target: &Path) -> std::io::Result<()> {
    let mut names = vec![0; 64 * 1024];
    let length = match rustix::fs::llistxattr(source, &mut names[..]) {
        Ok(length) => length,
        Err(Errno::OPNOTSUPP | Errno::PERM) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let mut value = vec![0; 64 * 1024];
    for name in names[..length].split(|b| *b == 0).filter(|name| !name.is_empty()) {
        let name = OsString::from_vec(name.to_vec());
        let size = rustix::fs::lgetxattr(source, name.as_os_str(), &mut value[..])?;
        match rustix::fs::lsetxattr(target, name.as_os_str(), &value[..size], XattrFlags::empty()) {
            Ok(()) => {}
            Err(Errno::OPNOTSUPP | Errno::PERM) => tracing::warn!(
                path = %target.display(), name = %name.to_string_lossy(), "copying an extended attribute is \
                    not permitted"
            ),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Removes a file or a directory tree, if it exists.
fn remove(target: &Path) -> std::io::Result<()> {
    match fs::symlink_metadata(target) {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(target),
        Ok(_) => fs::remove_file(target),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_is_complete_and_can_be_repeated() {
        let directory = tempfile::tempdir().unwrap();
        let (from, to) = (directory.path().join("from"), directory.path().join("to"));
        fs::create_dir_all(from.join("deep/er")).unwrap();
        fs::create_dir(&to).unwrap();
        fs::write(from.join("deep/file"), "content").unwrap();
        fs::hard_link(from.join("deep/file"), from.join("hard")).unwrap();
        symlink("deep/file", from.join("soft")).unwrap();
        symlink("/nowhere", from.join("dangling")).unwrap();
        rustix::fs::mknodat(CWD, from.join("fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        let mut sparse = File::create(from.join("sparse")).unwrap();
        sparse.seek(SeekFrom::Start(32 << 20)).unwrap();
        sparse.write_all(b"end").unwrap();
        sparse.set_len(64 << 20).unwrap();
        drop(sparse);
        fs::set_permissions(from.join("deep/file"), fs::Permissions::from_mode(0o4751)).unwrap();
        fs::set_permissions(from.join("deep/er"), fs::Permissions::from_mode(0o1700)).unwrap();
        let _ = rustix::fs::lsetxattr(from.join("deep/file"), "user.mark", b"yes", XattrFlags::empty());

        for _ in 0..2 {
            copy_tree(&from, &to, &TaskControl::default()).unwrap();
            let meta = |path: &str| fs::symlink_metadata(to.join(path)).unwrap();
            assert_eq!(fs::read(to.join("deep/file")).unwrap(), b"content");
            assert_eq!(meta("hard").ino(), meta("deep/file").ino());
            assert_eq!(fs::read_link(to.join("soft")).unwrap(), Path::new("deep/file"));
            assert_eq!(fs::read_link(to.join("dangling")).unwrap(), Path::new("/nowhere"));
            assert!(meta("fifo").file_type().is_fifo());
            assert_eq!(meta("deep/file").mode() & 0o7777, 0o4751);
            assert_eq!(meta("deep/er").mode() & 0o7777, 0o1700);
            for path in ["deep", "deep/file", "soft"] {
                let source = fs::symlink_metadata(from.join(path)).unwrap();
                assert_eq!(meta(path).mtime_nsec(), source.mtime_nsec(), "{path}");
                assert_eq!((meta(path).uid(), meta(path).gid()), (source.uid(), source.gid()));
            }
            assert_eq!(meta("sparse").len(), 64 << 20);
            assert!(meta("sparse").blocks() * 512 < 8 << 20, "holes stay holes");
            let mut tail = Vec::new();
            let mut sparse = File::open(to.join("sparse")).unwrap();
            sparse.seek(SeekFrom::Start(32 << 20)).unwrap();
            sparse.take(3).read_to_end(&mut tail).unwrap();
            assert_eq!(tail, b"end");
            let mut value = [0; 16];
            if let Ok(size) = rustix::fs::lgetxattr(from.join("deep/file"), "user.mark", &mut value[..]) {
                assert_eq!(
                    rustix::fs::lgetxattr(to.join("deep/file"), "user.mark", &mut value[..]),
                    Ok(size)
                );
            }
        }
    }

    #[test]
    fn cancelled_copy_stops() {
        let directory = tempfile::tempdir().unwrap();
        let task = TaskControl::default();
        task.cancel();
        copy_tree(directory.path(), directory.path(), &task).unwrap_err();
    }
}
