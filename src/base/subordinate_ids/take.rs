//! Gives files of subordinate ids to their user.

use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, chownat, openat, statat};
use rustix::process::{getegid, geteuid};

use super::{COMMAND, SubordinateIds};

impl SubordinateIds {
    /// Gives all files of these ids below `root` to this user. Does nothing if there are none.
    pub fn take_files(&self, root: &Path) -> io::Result<()> {
        if !self.owns_part_of(root, true) {
            return Ok(());
        }
        // Ordinary users cannot change owners, but root of a namespace with all the ids can.
        let result = match self.programs {
            None => take_tree(root),
            Some(_) => self.run_command(root),
        };
        match result {
            // Files that it could not reach may belong to the user.
            Err(_) if !self.owns_part_of(root, false) => Ok(()),
            result => result,
        }
    }

    /// Runs [`take_tree`] with all the ids.
    fn run_command(&self, root: &Path) -> io::Result<()> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(COMMAND).arg(root).env_clear();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let output = self.spawn(command)?.wait_with_output()?;
        match output.status.success() {
            true => Ok(()),
            false => Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
        }
    }
}

/// Gives all files of subordinate ids below `root` to this user, if the user has such ids.
pub fn take_files(root: &Path) -> io::Result<()> {
    match SubordinateIds::find() {
        Ok(subordinate_ids) => subordinate_ids.take_files(root),
        Err(_) => Ok(()),
    }
}

/// Makes the user of this process the owner of a tree. Leaves modes and contents as they are, and follows no
/// link. Returns the first error, after it has tried all files.
pub fn take_tree(root: &Path) -> io::Result<()> {
    let mut result = take(CWD, root);
    if !fs::symlink_metadata(root)?.is_dir() {
        return result;
    }
    let directory_flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // Directories that are being read, each in the one before it. Processes that change the tree meanwhile
    // cannot lead out of it.
    let mut directories = vec![Dir::new(openat(CWD, root, directory_flags, Mode::empty())?)?];
    while let Some(directory) = directories.last_mut() {
        let Some(entry) = directory.read() else {
            directories.pop();
            continue;
        };
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let parent = directory.fd()?;
        result = result.and(take(parent, name));
        let status = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if FileType::from_raw_mode(status.st_mode).is_dir() {
            match openat(parent, name, directory_flags, Mode::empty()).and_then(Dir::new) {
                Ok(child) => directories.push(child),
                Err(errno) => result = result.and(Err(errno.into())),
            }
        }
    }
    result
}

/// Makes the user of this process the owner of a file, unless the user is the owner already: a change of
/// owner also removes set-uid bits.
fn take(parent: impl rustix::fd::AsFd, name: impl rustix::path::Arg + Copy) -> io::Result<()> {
    let (uid, gid) = (geteuid(), getegid());
    let status = statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if (status.st_uid, status.st_gid) == (uid.as_raw(), gid.as_raw()) {
        return Ok(());
    }
    Ok(chownat(&parent, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};

    use super::*;

    #[test]
    fn tree_gets_one_owner() {
        if !geteuid().is_root() {
            eprintln!("not run: only root can change owners");
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::create_dir_all(path("tree/a/b")).unwrap();
        for name in ["outside", "tree/a/b/file", "tree/mine"] {
            fs::write(path(name), "x").unwrap();
        }
        symlink(path("outside"), path("tree/a/link")).unwrap();
        fs::set_permissions(path("tree/mine"), fs::Permissions::from_mode(0o4711)).unwrap();
        fs::set_permissions(path("tree/a/b"), fs::Permissions::from_mode(0o500)).unwrap();
        for name in ["outside", "tree", "tree/a", "tree/a/b", "tree/a/b/file"] {
            chown(path(name), Some(100_005), Some(100_006)).unwrap();
        }
        take_tree(&path("tree")).unwrap();
        let metadata = |name: &str| fs::symlink_metadata(path(name)).unwrap();
        for name in ["tree", "tree/a", "tree/a/b", "tree/a/b/file", "tree/a/link"] {
            assert_eq!((metadata(name).uid(), metadata(name).gid()), (0, getegid().as_raw()), "{name}");
        }
        assert_eq!(metadata("outside").uid(), 100_005, "the link was followed");
        assert_eq!(metadata("tree/mine").mode() & 0o7777, 0o4711);
        assert_eq!(metadata("tree/a/b").mode() & 0o7777, 0o500);
        take_tree(&path("tree/a/link")).unwrap();
    }
}
