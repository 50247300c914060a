//! Opens files of a tree whose links may point anywhere.

use std::fs::File;
use std::io;
use std::path::Path;

/// Opens a file for reading as a process whose root is `root` would: links stay inside.
#[cfg(target_os = "linux")]
pub fn open_inside(root: &Path, path: &Path) -> io::Result<File> {
    use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
    let directory = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = openat(CWD, root, directory, Mode::empty())?;
    // A fifo must not block.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    Ok(openat2(root, path, flags, Mode::empty(), resolve)?.into())
}

/// Always fails, because only Linux can keep links inside.
#[cfg(not(target_os = "linux"))]
pub fn open_inside(_root: &Path, _path: &Path) -> io::Result<File> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "only Linux opens files inside another root"))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::Read;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_stay_inside() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("etc/alternatives")).unwrap();
        std::fs::write(root.path().join("etc/passwd"), "inside").unwrap();
        for (link, target) in [("absolute", "/etc/passwd"), ("up", "../../../../etc/passwd")] {
            symlink(target, root.path().join(link)).unwrap();
            let mut text = String::new();
            open_inside(root.path(), Path::new(link)).unwrap().read_to_string(&mut text).unwrap();
            assert_eq!(text, "inside");
        }
        symlink("/proc/self/root/etc/passwd", root.path().join("magic")).unwrap();
        assert!(open_inside(root.path(), Path::new("magic")).is_err());
    }
}
