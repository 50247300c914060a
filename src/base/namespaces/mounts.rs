//! Builds a tree of mounts, and makes it the root of this process.
//!
//! The files of the tree may be hostile: until the tree is the root, a link in it would lead to the machine's
//! own files. So [`create_directory`] and [`create_file`] follow no link.

use std::fs::{self, OpenOptions, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};

pub use rustix::mount::MountFlags;
use rustix::mount::{
    MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_bind_recursive, mount_change,
    mount_remount, unmount,
};
use rustix::process::{chdir, pivot_root};

const DEVICE_NODES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// Stops the propagation of mounts between this namespace and others.
pub fn make_private() -> Result<(), String> {
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(|errno| format!("making mounts private failed: {errno}"))
}

/// Returns the path of the directory `path` below `root`, and creates it if it is missing. Fails if a
/// component is a link. A new directory gets `mode`.
pub fn create_directory(root: &Path, path: &Path, mode: Option<u32>) -> Result<PathBuf, String> {
    let mut directory = root.to_owned();
    let mut is_new = false;
    for part in path.components() {
        let Component::Normal(part) = part else {
            return Err(format!("'{}' must be a path without '..'", path.display()));
        };
        directory.push(part);
        is_new = match fs::create_dir(&directory) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            Err(error) => return Err(format!("creating '/{}' failed: {error}", path.display())),
        };
        if !fs::symlink_metadata(&directory).is_ok_and(|metadata| metadata.is_dir()) {
            return Err(format!(
                "'/{}' is not a directory: the image or a process in it has replaced it",
                path.display()
            ));
        }
    }
    if let Some(mode) = mode.filter(|_| is_new) {
        fs::set_permissions(&directory, Permissions::from_mode(mode))
            .map_err(|error| format!("setting the mode of '/{}' failed: {error}", path.display()))?;
    }
    Ok(directory)
}

/// Returns the path of the file `path` below `root`, over which a file can be mounted. Creates an empty file
/// if it is missing. Fails if it is not a plain file, or if a component of the path is a link.
pub fn create_file(root: &Path, path: &Path) -> Result<PathBuf, String> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(format!("'{}' is not the path of a file", path.display()));
    };
    let path = create_directory(root, parent, None)?.join(name);
    match OpenOptions::new().write(true).create_new(true).mode(0o644).open(&path) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(format!("creating '{}' failed: {error}", path.display())),
    }
    match fs::symlink_metadata(&path) {
        Ok(metadata) if metadata.is_file() => Ok(path),
        _ => Err(format!("'{}' must be a plain file", path.display())),
    }
}

/// Mounts a file or directory at a second path.
pub fn bind(source: &Path, target: &Path) -> Result<(), String> {
    mount_bind(source, target)
        .map_err(|errno| format!("mounting '{}' on '{}' failed: {errno}", source.display(), target.display()))
}

/// Mounts a directory at a second path, with all mounts below it.
pub fn bind_all(source: &Path, target: &Path) -> Result<(), String> {
    mount_bind_recursive(source, target)
        .map_err(|errno| format!("mounting '{}' on '{}' failed: {errno}", source.display(), target.display()))
}

/// Mounts a new file system of a kind, such as a tmpfs.
pub fn mount_new(
    kind: &str,
    target: &Path,
    flags: MountFlags,
    options: Option<&std::ffi::CStr>,
) -> Result<(), String> {
    mount(kind, target, kind, flags, options)
        .map_err(|errno| format!("mounting a {kind} on '{}' failed: {errno}", target.display()))
}

/// Mounts `/dev` with a few harmless nodes.
pub fn mount_dev(root: &Path) -> Result<PathBuf, String> {
    let dev = create_directory(root, Path::new("dev"), None)?;
    mount_new("tmpfs", &dev, MountFlags::NOSUID, Some(c"mode=0755"))?;
    for node in DEVICE_NODES {
        let host = Path::new("/dev").join(node);
        if host.exists() {
            bind(&host, &create_file(&dev, Path::new(node))?)?;
        }
    }
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    let pts = create_directory(&dev, Path::new("pts"), None)?;
    // Group 5 is tty. The user namespace of an ordinary user lacks it.
    let with_group = c"newinstance,ptmxmode=0666,mode=0620,gid=5";
    if mount("devpts", &pts, "devpts", flags, Some(with_group)).is_err() {
        mount_new("devpts", &pts, flags, Some(c"newinstance,ptmxmode=0666,mode=0620"))?;
    }
    let shm = create_directory(&dev, Path::new("shm"), None)?;
    mount_new("tmpfs", &shm, MountFlags::NOSUID | MountFlags::NODEV, Some(c"mode=1777"))?;
    let links = [
        ("ptmx", "pts/ptmx"),
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ];
    for (name, target) in links {
        symlink(target, dev.join(name)).map_err(|error| format!("linking '/dev/{name}' failed: {error}"))?;
    }
    Ok(dev)
}

/// Mounts `/proc` of the new pid namespace. In containers that hide parts of `/proc` the kernel forbids that.
/// The function then mounts the machine's `/proc`, and returns a note that says so.
pub fn mount_proc(root: &Path) -> Result<Option<String>, String> {
    let proc = create_directory(root, Path::new("proc"), None)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    let Err(errno) = mount("proc", &proc, "proc", flags, None) else { return Ok(None) };
    bind_all(Path::new("/proc"), &proc)?;
    Ok(Some(format!(
        "mounting a /proc of its own is not permitted here ({errno}): it sees the host's, with the host's \
         pids"
    )))
}

/// Makes a tree the root of this process, and removes the old root from its namespace.
pub fn change_root(root: &Path) -> Result<(), String> {
    let step = |action: &'static str| move |errno: rustix::io::Errno| format!("{action} failed: {errno}");
    chdir(root).map_err(step("entering the tree"))?;
    // pivot_root(2), "pivot_root(".", ".")": the old root ends up on top of the new one.
    pivot_root(".", ".").map_err(step("pivot_root"))?;
    unmount(".", UnmountFlags::DETACH).map_err(step("leaving the host's tree"))?;
    chdir("/").map_err(step("entering '/'"))
}

/// Makes these mounts, and all mounts below them, read-only. The kernel makes a bind mount read-only only by
/// a remount, which must repeat the flags that a user namespace locks. `extra_flags` are further flags.
/// Returns a note for each mount that cannot be made read-only.
pub fn make_read_only(targets: &[PathBuf], extra_flags: MountFlags) -> Result<Vec<String>, String> {
    let mut notes = Vec::new();
    let table =
        fs::read("/proc/self/mountinfo").map_err(|error| format!("reading the mounts failed: {error}"))?;
    for line in table.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        let (Some(point), Some(options)) = (fields.get(4), fields.get(5)) else {
            return Err("/proc/self/mountinfo is not in the form of proc(5)".to_owned());
        };
        let point = unescape(point);
        let point = Path::new(std::ffi::OsStr::from_bytes(&point));
        if !targets.iter().any(|target| point.starts_with(target)) {
            continue;
        }
        let flags = flags_to_repeat(options) | MountFlags::BIND | MountFlags::RDONLY | extra_flags;
        if let Err(errno) = mount_remount(point, flags, "") {
            notes.push(format!("'{}' cannot be made read-only: {errno}", point.display()));
        }
    }
    Ok(notes)
}

/// Makes one mount read-only, and leaves mounts below it as they are. `flags` are its other flags.
pub fn make_one_read_only(target: &Path, flags: MountFlags) -> Result<(), String> {
    mount_remount(target, MountFlags::BIND | MountFlags::RDONLY | flags, "")
        .map_err(|errno| format!("'{}' cannot be made read-only: {errno}", target.display()))
}

/// Returns the flags of a mount for a call that must repeat them.
fn flags_to_repeat(options: &[u8]) -> MountFlags {
    options.split(|byte| *byte == b',').fold(MountFlags::empty(), |flags, option| {
        flags
            | match option {
                b"nosuid" => MountFlags::NOSUID,
                b"nodev" => MountFlags::NODEV,
                b"noexec" => MountFlags::NOEXEC,
                b"noatime" => MountFlags::NOATIME,
                b"nodiratime" => MountFlags::NODIRATIME,
                b"relatime" => MountFlags::RELATIME,
                _ => MountFlags::empty(),
            }
    })
}

/// Decodes the octal escapes of mountinfo, such as `\040` for a space.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut unescaped_text = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, tail)) = rest.split_first() {
        let code = tail
            .get(..3)
            .filter(|_| *first == b'\\')
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) => {
                unescaped_text.push(code);
                rest = &tail[3..];
            }
            None => {
                unescaped_text.push(*first);
                rest = tail;
            }
        }
    }
    unescaped_text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_are_unescaped() {
        assert_eq!(unescape(br"/a\040b\134c\x"), br"/a b\c\x");
    }

    #[test]
    fn links_in_the_tree_are_not_followed() {
        let tree = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        symlink(outside.path(), tree.path().join("var")).unwrap();
        symlink(outside.path().join("x"), tree.path().join("file")).unwrap();
        assert!(create_directory(tree.path(), Path::new("var/vcap"), None).is_err());
        assert!(create_directory(tree.path(), Path::new("a/../../b"), None).is_err());
        assert!(create_file(tree.path(), Path::new("file")).is_err());
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
        assert!(create_directory(tree.path(), Path::new("home/x"), Some(0o700)).is_ok());
    }
}
