//! Builds the file system of a userland and makes it the root of this process.
//!
//! The tree begins empty, in memory. Each entry of the root file system is mounted in it, read-only; a
//! directory in which something else must be mounted is created instead, and its entries are mounted one
//! by one. So the root file system itself is never changed, and its links are never followed.
//!
//! | path | content |
//! |---|---|
//! | `/dev` | a few harmless nodes, `pts`, `shm` |
//! | `/proc` | the processes of the userland; what would change this machine is read-only |
//! | `/run`, `/sys` | empty |
//! | `/tmp`, `/var/tmp`, the home directory | directories of the run, on disk |
//! | the mounts of the layout | files of this machine |
//! | all others | the root file system, read-only |

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use super::{Layout, MountPoint};
use base::namespaces::mounts::{self, MountFlags, bind, bind_all, mount_new};

/// The directories that are not those of the root file system.
const REPLACED_DIRECTORIES: [&str; 4] = ["dev", "proc", "run", "sys"];
/// Entries of `/proc` through which root of this machine could change it.
const PROTECTED_ENTRIES: [&str; 5] = ["bus", "fs", "irq", "sys", "sysrq-trigger"];

/// Builds the tree and makes it the root. Returns true if `/proc` shows only the processes of the userland.
pub(super) fn enter(layout: &Layout) -> Result<bool, String> {
    mounts::make_private()?;
    let scratch = layout.scratch.join("root");
    mount_new("tmpfs", &scratch, MountFlags::NOSUID | MountFlags::NODEV, Some(c"mode=0755"))?;
    // Mounts of a read-only mount are read-only as well.
    let source = mounts::create_directory(&scratch, Path::new("userland"), None)?;
    bind_all(&layout.root, &source)?;
    make_read_only(std::slice::from_ref(&source))?;
    let root = mounts::create_directory(&scratch, Path::new("root"), Some(0o755))?;
    bind(&root, &root)?;

    let targets: Vec<PathBuf> = layout.mounts.iter().map(|mount| relative(&mount.target)).collect();
    let mounted_paths = REPLACED_DIRECTORIES.iter().map(PathBuf::from).chain(targets.iter().cloned());
    fill(&root, Some(&source), &outermost_paths(mounted_paths.collect()))?;
    mounts::mount_dev(&root)?;
    let note = mounts::mount_proc(&root)?;
    for name in ["run", "sys"] {
        let directory = mounts::create_directory(&root, Path::new(name), None)?;
        mount_new("tmpfs", &directory, MountFlags::NOSUID | MountFlags::NODEV, Some(c"mode=0755"))?;
    }
    let mut read_only = Vec::new();
    for (mount, target) in layout.mounts.iter().zip(&targets) {
        let point = mount_file(&root, mount, target)?;
        if !mount.is_writable {
            read_only.push(point);
        }
    }
    for name in PROTECTED_ENTRIES {
        let path = root.join("proc").join(name);
        if path.exists() {
            bind(&path, &path)?;
            read_only.push(path);
        }
    }
    make_read_only(&read_only)?;
    mounts::make_one_read_only(&root, MountFlags::NOSUID | MountFlags::NODEV)?;
    mounts::change_root(&root)?;
    Ok(note.is_none())
}

/// Mounts a file of this machine, and returns its place in the tree.
fn mount_file(root: &Path, mount: &MountPoint, target: &Path) -> Result<PathBuf, String> {
    let metadata = fs::metadata(&mount.source)
        .map_err(|error| format!("reading '{}' failed: {error}", mount.source.display()))?;
    if metadata.is_dir() {
        let point = mounts::create_directory(root, target, Some(0o755))?;
        bind_all(&mount.source, &point)?;
        return Ok(point);
    }
    let point = mounts::create_file(root, target)?;
    bind(&mount.source, &point)?;
    Ok(point)
}

fn make_read_only(targets: &[PathBuf]) -> Result<(), String> {
    match mounts::make_read_only(targets, MountFlags::NOSUID | MountFlags::NODEV)?.first() {
        None => Ok(()),
        Some(problem) => Err(problem.clone()),
    }
}

fn relative(path: &Path) -> PathBuf {
    path.strip_prefix("/").unwrap_or(path).to_owned()
}

/// Returns the paths that are not below another one.
fn outermost_paths(mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    paths.sort();
    let mut outermost_paths: Vec<PathBuf> = Vec::new();
    for path in paths {
        if !outermost_paths.iter().any(|outer| path.starts_with(outer)) {
            outermost_paths.push(path);
        }
    }
    outermost_paths
}

/// Fills a new directory of the tree with the entries of `source`, except for `points`, relative paths at
/// which something else will be mounted.
fn fill(directory: &Path, source: Option<&Path>, points: &[PathBuf]) -> Result<(), String> {
    let mut points_by_entry: Vec<(PathBuf, Vec<PathBuf>)> = Vec::new();
    for point in points {
        let mut parts = point.components();
        let Some(first) = parts.next().map(|first| PathBuf::from(first.as_os_str())) else { continue };
        let rest = parts.as_path().to_owned();
        match points_by_entry.iter_mut().find(|(name, _)| *name == first) {
            Some((_, points)) => points.push(rest),
            None => points_by_entry.push((first, vec![rest])),
        }
    }
    let read_error =
        |path: &Path, error: std::io::Error| format!("reading '{}' failed: {error}", path.display());
    let entries = match source {
        Some(source) => fs::read_dir(source).map_err(|error| read_error(source, error))?.collect(),
        None => Vec::new(),
    };
    for entry in entries {
        let entry = entry.map_err(|error| read_error(source.unwrap_or(directory), error))?;
        let (path, name) = (entry.path(), PathBuf::from(entry.file_name()));
        if !points_by_entry.iter().any(|(other, _)| *other == name) {
            let kind = entry.file_type().map_err(|error| read_error(&path, error))?;
            show(&path, kind, &directory.join(name))?;
        }
    }
    for (name, points) in points_by_entry {
        // A point of its own is created when it is mounted.
        if points.iter().any(|point| point.as_os_str().is_empty()) {
            continue;
        }
        let inner = source.map(|source| source.join(&name));
        let metadata = inner.as_ref().and_then(|inner| fs::symlink_metadata(inner).ok());
        // A link or file that is where a directory should be is left out.
        let inner = inner.filter(|_| metadata.as_ref().is_some_and(fs::Metadata::is_dir));
        let mode = inner.as_ref().and(metadata).map_or(0o755, |metadata| metadata.permissions().mode());
        let subdirectory = mounts::create_directory(directory, &name, Some(0o755))?;
        fill(&subdirectory, inner.as_deref(), &points)?;
        fs::set_permissions(&subdirectory, Permissions::from_mode(mode & 0o1777 | 0o500))
            .map_err(|error| format!("setting the mode of '{}' failed: {error}", subdirectory.display()))?;
    }
    Ok(())
}

/// Shows one entry of the root file system at a path of the tree. Devices, fifos and sockets are left out.
fn show(path: &Path, kind: fs::FileType, target: &Path) -> Result<(), String> {
    let create_error = |error: std::io::Error| format!("creating '{}' failed: {error}", target.display());
    if kind.is_symlink() {
        return fs::read_link(path).and_then(|link| symlink(link, target)).map_err(create_error);
    }
    if kind.is_dir() {
        fs::create_dir(target).map_err(create_error)?;
        return bind_all(path, target);
    }
    if kind.is_file() {
        File::create_new(target).map_err(create_error)?;
        return bind(path, target);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_below_others_are_not_created_twice() {
        let paths = ["var/vcap/jobs", "tmp", "var/vcap", "var/vcapx"].map(PathBuf::from);
        assert_eq!(outermost_paths(paths.to_vec()), ["tmp", "var/vcap", "var/vcapx"].map(PathBuf::from));
    }
}
