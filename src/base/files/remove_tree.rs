//! Removes directory trees, including read-only ones.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::subordinate_ids;

/// Removes a file, a link or a directory tree. Does not follow links. Succeeds if `path` does not exist.
///
/// Also removes trees with read-only directories, such as Go's module cache and overlayfs, and with files of
/// the user's subordinate ids.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    let result = match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => match fs::remove_dir_all(path) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                // If this fails, one of the next steps fails as well.
                let _ = subordinate_ids::take_files(path);
                make_writable(path)?;
                fs::remove_dir_all(path)
            }
            outcome => outcome,
        },
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    }
}

/// Sets the mode 0700 on every directory of a tree, before the directory is read.
fn make_writable(root: &Path) -> io::Result<()> {
    let mut unread_directories = vec![root.to_owned()];
    while let Some(directory) = unread_directories.pop() {
        fs::set_permissions(&directory, Permissions::from_mode(0o700))?;
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                unread_directories.push(entry.path());
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn read_only_trees_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let tree = directory.path().join("tree");
        fs::create_dir_all(tree.join("a/b")).unwrap();
        fs::write(tree.join("a/b/file"), "x").unwrap();
        for path in ["a/b", "a", ""] {
            fs::set_permissions(tree.join(path), Permissions::from_mode(0o000)).unwrap();
        }
        // `remove_tree` does not need this function when the test runs as root, so it is also called
        // directly.
        make_writable(&tree).unwrap();
        assert_eq!(fs::metadata(tree.join("a/b")).unwrap().permissions().mode() & 0o777, 0o700);
        fs::set_permissions(tree.join("a/b"), Permissions::from_mode(0o500)).unwrap();
        remove_tree(&tree).unwrap();
        assert!(!tree.exists());
        remove_tree(&tree).unwrap();
    }

    #[test]
    fn links_are_removed_but_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let outside = directory.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("precious"), "x").unwrap();
        let tree = directory.path().join("tree");
        fs::create_dir(&tree).unwrap();
        symlink(&outside, tree.join("link")).unwrap();
        make_writable(&tree).unwrap();
        remove_tree(&tree).unwrap();
        symlink("/nowhere", directory.path().join("dangling")).unwrap();
        remove_tree(&directory.path().join("dangling")).unwrap();
        assert!(outside.join("precious").exists() && fs::read_dir(directory.path()).unwrap().count() == 1);
    }
}
