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

/// Copies all files below `source_root` into `target_root`, and syncs the file system of `target_root`.
pub(super) fn copy_disk(source_root: &Path, target_root: &Path, task: &TaskControl) -> Result<()> {
    let mut links = HashMap::new();
    let mut directories = Vec::new();
    for entry in walkdir::WalkDir::new(source_root).same_file_system(true) {
        task.check()?;
        let entry = entry.map_err(|error| {
            Error::failure(format!("reading '{}'", source_root.display())).with_source(error)
        })?;
        let Ok(relative) = entry.path().strip_prefix(source_root) else { continue };
        let target_path = target_root.join(relative);
        let copy_error =
            |error: std::io::Error| Error::io(format!("copying '{}'", entry.path().display()), error);
        let metadata = fs::symlink_metadata(entry.path()).map_err(copy_error)?;
        if metadata.is_dir() {
            if !fs::symlink_metadata(&target_path).is_ok_and(|target_meta| target_meta.is_dir()) {
                remove(&target_path).map_err(copy_error)?;
                fs::create_dir(&target_path).map_err(copy_error)?;
            }
            directories.push((entry.path().to_path_buf(), target_path, metadata));
            continue;
        }
        remove(&target_path).map_err(copy_error)?;
        if metadata.nlink() > 1
            && let Some(first) = links.get(&(metadata.dev(), metadata.ino()))
        {
            fs::hard_link::<&PathBuf, _>(first, &target_path).map_err(copy_error)?;
            continue;
        }
        copy_one(entry.path(), &target_path, &metadata, task).map_err(copy_error)?;
        task.check()?;
        copy_attributes(entry.path(), &target_path, &metadata).map_err(copy_error)?;
        links.insert((metadata.dev(), metadata.ino()), target_path);
    }
    // Directories come last, innermost first, because new entries change their times, and their modes may
    // forbid new entries.
    for (source, target_path, metadata) in directories.iter().rev() {
        copy_attributes(source, target_path, metadata)
            .map_err(|error| Error::io(format!("copying the attributes of '{}'", source.display()), error))?;
    }
    let sync_result = File::open(target_root).and_then(|directory| Ok(rustix::fs::syncfs(directory)?));
    sync_result.map_err(|error| Error::io(format!("syncing '{}'", target_root.display()), error))
}

fn copy_one(source: &Path, target: &Path, metadata: &Metadata, task: &TaskControl) -> std::io::Result<()> {
    let kind = metadata.file_type();
    if kind.is_symlink() {
        return symlink(fs::read_link(source)?, target);
    }
    if kind.is_file() {
        return copy_content(source, target, metadata.len(), task);
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
    rustix::fs::mknodat(CWD, target, node_type, Mode::RUSR | Mode::WUSR, metadata.rdev())?;
    Ok(())
}

/// Copies a file without its holes, so that a sparse file stays sparse. Stops if the task is cancelled.
fn copy_content(source: &Path, target: &Path, length: u64, task: &TaskControl) -> std::io::Result<()> {
    let mut source_file = File::open(source)?;
    let mut target_file = File::create_new(target)?;
    target_file.set_len(length)?;
    let mut buffer = vec![0; 1 << 20];
    let mut position = 0;
    while position < length && !task.is_cancelled() {
        let start = match rustix::fs::seek(&source_file, rustix::fs::SeekFrom::Data(position)) {
            Ok(start) => start,
            // The rest of the file is a hole.
            Err(Errno::NXIO) => break,
            // The file system cannot tell: the rest of the file is copied whole.
            Err(Errno::INVAL) => position,
            Err(error) => return Err(error.into()),
        };
        // A file that shrinks meanwhile may have its hole at `start`, and the loop must go on.
        let end = rustix::fs::seek(&source_file, rustix::fs::SeekFrom::Hole(start))
            .unwrap_or(length)
            .max(start + 1);
        source_file.seek(SeekFrom::Start(start))?;
        target_file.seek(SeekFrom::Start(start))?;
        position = start;
        while position < end && !task.is_cancelled() {
            let chunk_length = buffer.len().min(usize::try_from(end - position).unwrap_or(usize::MAX));
            let count = source_file.read(&mut buffer[..chunk_length])?;
            if count == 0 {
                return Ok(());
            }
            target_file.write_all(&buffer[..count])?;
            position += count as u64;
        }
    }
    Ok(())
}

/// Copies owner, extended attributes, mode and times of a file or directory.
fn copy_attributes(source: &Path, target: &Path, metadata: &Metadata) -> std::io::Result<()> {
    match lchown(target, Some(metadata.uid()), Some(metadata.gid())) {
        // The user namespace of an ordinary user maps only some owners.
        Err(error) if !matches!(Errno::from_io_error(&error), Some(Errno::PERM | Errno::INVAL)) => {
            return Err(error);
        }
        _ => {}
    }
    copy_xattrs(source, target)?;
    // The mode follows the owner, because a change of the owner clears set-user-id.
    if !metadata.is_symlink() {
        fs::set_permissions(target, fs::Permissions::from_mode(metadata.mode() & 0o7777))?;
    }
    let times = Timestamps {
        last_access: Timespec { tv_sec: metadata.atime(), tv_nsec: metadata.atime_nsec() },
        last_modification: Timespec { tv_sec: metadata.mtime(), tv_nsec: metadata.mtime_nsec() },
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
    for name in names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
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
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(target),
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
        let (source, target) = (directory.path().join("from"), directory.path().join("to"));
        fs::create_dir_all(source.join("deep/er")).unwrap();
        fs::create_dir(&target).unwrap();
        fs::write(source.join("deep/file"), "content").unwrap();
        fs::hard_link(source.join("deep/file"), source.join("hard")).unwrap();
        symlink("deep/file", source.join("soft")).unwrap();
        symlink("/nowhere", source.join("dangling")).unwrap();
        rustix::fs::mknodat(CWD, source.join("fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        let mut sparse = File::create(source.join("sparse")).unwrap();
        sparse.seek(SeekFrom::Start(32 << 20)).unwrap();
        sparse.write_all(b"end").unwrap();
        sparse.set_len(64 << 20).unwrap();
        drop(sparse);
        fs::set_permissions(source.join("deep/file"), fs::Permissions::from_mode(0o4751)).unwrap();
        fs::set_permissions(source.join("deep/er"), fs::Permissions::from_mode(0o1700)).unwrap();
        let _ = rustix::fs::lsetxattr(source.join("deep/file"), "user.mark", b"yes", XattrFlags::empty());

        for _ in 0..2 {
            copy_disk(&source, &target, &TaskControl::default()).unwrap();
            let metadata = |path: &str| fs::symlink_metadata(target.join(path)).unwrap();
            assert_eq!(fs::read(target.join("deep/file")).unwrap(), b"content");
            assert_eq!(metadata("hard").ino(), metadata("deep/file").ino());
            assert_eq!(fs::read_link(target.join("soft")).unwrap(), Path::new("deep/file"));
            assert_eq!(fs::read_link(target.join("dangling")).unwrap(), Path::new("/nowhere"));
            assert!(metadata("fifo").file_type().is_fifo());
            assert_eq!(metadata("deep/file").mode() & 0o7777, 0o4751);
            assert_eq!(metadata("deep/er").mode() & 0o7777, 0o1700);
            for path in ["deep", "deep/file", "soft"] {
                let source_meta = fs::symlink_metadata(source.join(path)).unwrap();
                assert_eq!(metadata(path).mtime_nsec(), source_meta.mtime_nsec(), "{path}");
                assert_eq!(
                    (metadata(path).uid(), metadata(path).gid()),
                    (source_meta.uid(), source_meta.gid())
                );
            }
            assert_eq!(metadata("sparse").len(), 64 << 20);
            assert!(metadata("sparse").blocks() * 512 < 8 << 20, "the copy has no holes");
            let mut tail = Vec::new();
            let mut sparse = File::open(target.join("sparse")).unwrap();
            sparse.seek(SeekFrom::Start(32 << 20)).unwrap();
            sparse.take(3).read_to_end(&mut tail).unwrap();
            assert_eq!(tail, b"end");
            let mut value = [0; 16];
            if let Ok(size) = rustix::fs::lgetxattr(source.join("deep/file"), "user.mark", &mut value[..]) {
                assert_eq!(
                    rustix::fs::lgetxattr(target.join("deep/file"), "user.mark", &mut value[..]),
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
        copy_disk(directory.path(), directory.path(), &task).unwrap_err();
    }
}
