//! Builds the VM's file system: the host's userland, read-only, and directories of the VM.
//!
//! | path | content |
//! |---|---|
//! | `/usr /bin /sbin /lib* /opt /nix /gnu` | the host's, read-only; overlaid if the image has files there |
//! | `/etc` | the host's and a user `vcap`, below a writable overlay; a copy if overlayfs does not work |
//! | `/var /home /root /srv /mnt /tmp` | the VM's, on disk |
//! | `/run` | the VM's, in memory, with the files of the host's name resolution |
//! | `/dev` | a few harmless nodes, `pts`, `shm`, and the attached disks in `/dev/monopile` |
//! | `/proc` | the processes of the VM's pid namespace |
//! | `/sys` | the host's, read-only |
//!
//! The tree is built in `mnt` of the VM's directory, from `root`, which holds the VM's own files and starts
//! as a copy of the stemcell's image. It becomes `/` of the new mount namespace.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::mount::mount;

use super::init::AGENT_PROGRAM;
use base::namespaces::mounts::{self, MountFlags, bind, bind_all, mount_new};

/// The entries of the host's `/` that a VM sees.
const HOST_ENTRIES: [&str; 11] =
    ["bin", "etc", "gnu", "lib", "lib32", "lib64", "libx32", "nix", "opt", "sbin", "usr"];
/// The directories of the VM, with their modes.
const VM_DIRECTORIES: [(&str, u32); 15] = [
    ("var", 0o755),
    ("var/tmp", 0o1777),
    ("var/log", 0o755),
    ("var/lib", 0o755),
    ("var/cache", 0o755),
    ("var/vcap", 0o755),
    ("var/vcap/bosh", 0o755),
    ("var/vcap/bosh/bin", 0o755),
    ("var/vcap/data", 0o755),
    ("home", 0o755),
    ("home/vcap", 0o755),
    ("root", 0o700),
    ("srv", 0o755),
    ("mnt", 0o755),
    ("tmp", 0o1777),
];

/// Builds the tree and makes it the root of this process. Returns the limitations of the VM.
pub(super) fn enter(vm_directory: &Path, executable: &Path) -> Result<Vec<String>, String> {
    let tree = RootTree {
        own_files: vm_directory.join("root"),
        root: vm_directory.join("mnt"),
        work: vm_directory.join("work"),
    };
    let mut notes = Vec::new();
    mounts::make_private()?;
    for path in [&tree.own_files, &tree.root, &tree.work] {
        fs::create_dir_all(path).map_err(|error| format!("creating '{}' failed: {error}", path.display()))?;
    }
    fs::set_permissions(&tree.own_files, Permissions::from_mode(0o755))
        .map_err(|error| format!("setting the mode of '{}' failed: {error}", tree.own_files.display()))?;
    bind(&tree.own_files, &tree.root)?;
    for (path, mode) in VM_DIRECTORIES {
        tree.create_directory(path, Some(mode))?;
    }

    let mut read_only = Vec::new();
    for name in HOST_ENTRIES {
        read_only.extend(tree.add_host_entry(name, &mut notes)?);
    }
    tree.mount_run(&mut read_only)?;
    tree.mount_dev(&vm_directory.join("devices"))?;
    notes.extend(mounts::mount_proc(&tree.root)?);
    let sys = tree.create_directory("sys", None)?;
    bind_all(Path::new("/sys"), &sys)?;
    read_only.push(sys);
    let agent = tree.create_file(AGENT_PROGRAM.trim_start_matches('/'))?;
    bind(executable, &agent)?;
    read_only.push(agent);
    notes.extend(mounts::make_read_only(&read_only, MountFlags::empty())?);
    mounts::change_root(&tree.root)?;
    Ok(notes)
}

/// The directories of the file system that is built.
struct RootTree {
    /// The directory with the VM's own files.
    own_files: PathBuf,
    /// The mount point of the tree: `own_files` with all other parts mounted into it.
    root: PathBuf,
    /// The work directory of overlayfs, on the file system of `own_files`.
    work: PathBuf,
}

impl RootTree {
    /// Returns the path of a directory in the tree, and creates it if it is missing.
    fn create_directory(&self, path: &str, mode: Option<u32>) -> Result<PathBuf, String> {
        mounts::create_directory(&self.root, Path::new(path), mode)
    }

    /// Returns the path of an empty file in the tree, for mounting a file over it.
    fn create_file(&self, path: &str) -> Result<PathBuf, String> {
        mounts::create_file(&self.root, Path::new(path))
    }

    /// Adds one entry of the host's `/`. Returns the path that must be made read-only, if any.
    fn add_host_entry(&self, name: &str, notes: &mut Vec<String>) -> Result<Option<PathBuf>, String> {
        let host = Path::new("/").join(name);
        let Ok(metadata) = fs::symlink_metadata(&host) else { return Ok(None) };
        let own_path = self.own_files.join(name);
        let mine = fs::symlink_metadata(&own_path).ok();
        match mine {
            // The image has a link or a file with this name, which replaces the host's entry.
            Some(mine) if !mine.is_dir() => return Ok(None),
            None if metadata.is_symlink() => {
                return fs::read_link(&host)
                    .and_then(|target| symlink(target, &own_path))
                    .map(|()| None)
                    .map_err(|error| format!("linking '/{name}' for the VM failed: {error}"));
            }
            _ => {}
        }
        let host = fs::canonicalize(&host).map_err(|error| format!("resolving '/{name}' failed: {error}"))?;
        if !host.is_dir() {
            return Ok(None);
        }
        let image_has_files = fs::read_dir(&own_path).is_ok_and(|mut entries| entries.next().is_some());
        let target = self.create_directory(name, Some(0o755))?;
        if name != "etc" && !image_has_files {
            bind_all(&host, &target)?;
            return Ok(Some(target));
        }
        if name == "etc" {
            self.add_vcap(&host).map_err(|error| format!("adding the user 'vcap' failed: {error}"))?;
        }
        match self.mount_overlay(&host, name, &target) {
            Ok(()) => Ok(None),
            Err(_) if name == "etc" => {
                notes.push("overlayfs does not work here: the VM has a copy of the host's /etc".to_owned());
                self.copy_etc(&host).map(|()| None)
            }
            Err(error) => Err(format!(
                "the stemcell's image has files below '/{name}', which needs overlayfs above the host's: \
                    {error}"
            )),
        }
    }

    /// Adds the user and group `vcap`, which every stemcell has. The user namespace of an ordinary user has
    /// only one id, so `vcap` is another name for root there.
    fn add_vcap(&self, host: &Path) -> io::Result<()> {
        let read = |name: &str| fs::read_to_string(host.join(name)).unwrap_or_default();
        let (passwd, group) = (read("passwd"), read("group"));
        let maps_one_id = fs::read_to_string("/proc/self/uid_map")?.split_whitespace().nth(2) == Some("1");
        let id = if maps_one_id { 0 } else { free_id(&passwd, &group) };
        let lines = [
            ("passwd", passwd, format!("vcap:*:{id}:{id}:BOSH System User:/home/vcap:/bin/bash")),
            ("group", group, format!("vcap:*:{id}:")),
        ];
        for (name, mut text, line) in lines {
            let own_path = self.own_files.join("etc").join(name);
            // A file of the image or of an earlier boot takes precedence.
            if fs::symlink_metadata(&own_path).is_ok() || text.lines().any(|line| line.starts_with("vcap:")) {
                continue;
            }
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            fs::write(&own_path, format!("{text}{line}\n"))?;
        }
        Ok(())
    }

    /// Mounts an overlay of the VM's own files above the host's.
    fn mount_overlay(&self, host: &Path, name: &str, target: &Path) -> Result<(), String> {
        let work = self.work.join(name);
        fs::create_dir_all(&work).map_err(|error| error.to_string())?;
        let mut options = Vec::new();
        for (key, path) in
            [("lowerdir=", host), (",upperdir=", &self.own_files.join(name)), (",workdir=", &work)]
        {
            options.extend_from_slice(key.as_bytes());
            for byte in path.as_os_str().as_bytes() {
                if b",:\\".contains(byte) {
                    options.push(b'\\');
                }
                options.push(*byte);
            }
        }
        let plain_options = std::ffi::CString::new(options.clone()).map_err(|error| error.to_string())?;
        let flags = MountFlags::NODEV;
        if mount("overlay", target, "overlay", flags, Some(plain_options.as_c_str())).is_ok() {
            return Ok(());
        }
        // In a user namespace, overlayfs needs attributes that ordinary users may write.
        options.extend_from_slice(b",userxattr");
        let user_options = std::ffi::CString::new(options).map_err(|error| error.to_string())?;
        mount("overlay", target, "overlay", flags, Some(user_options.as_c_str()))
            .map_err(|errno| errno.to_string())
    }

    /// Copies the readable files of the host's `/etc` at the first boot. Files of the image stay.
    fn copy_etc(&self, host: &Path) -> Result<(), String> {
        let marker = self.work.join("etc-copied");
        if marker.exists() {
            return Ok(());
        }
        copy_missing(host, &self.own_files.join("etc"))
            .and_then(|()| fs::write(&marker, ""))
            .map_err(|error| format!("copying /etc for the VM failed: {error}"))
    }

    /// Mounts `/run`. If `/etc/resolv.conf` is a link into the host's `/run`, mounts its directory there.
    fn mount_run(&self, read_only: &mut Vec<PathBuf>) -> Result<(), String> {
        let run = self.create_directory("run", None)?;
        mount_new("tmpfs", &run, MountFlags::NOSUID | MountFlags::NODEV, Some(c"mode=0755"))?;
        self.create_directory("run/lock", Some(0o1777))?;
        let Ok(resolver) = fs::canonicalize("/etc/resolv.conf") else { return Ok(()) };
        let Some(inside) = resolver.strip_prefix("/run").ok().and_then(Path::to_str) else { return Ok(()) };
        let mount_point = match inside.rsplit_once('/') {
            // The directory is mounted, because the file may be replaced. It also has the sockets of the
            // resolver.
            Some((parent, _)) => {
                let target = self.create_directory(&format!("run/{parent}"), Some(0o755))?;
                bind_all(&Path::new("/run").join(parent), &target)?;
                target
            }
            None => {
                let target = self.create_file(&format!("run/{inside}"))?;
                bind(&resolver, &target)?;
                target
            }
        };
        read_only.push(mount_point);
        Ok(())
    }

    fn mount_dev(&self, devices: &Path) -> Result<(), String> {
        mounts::mount_dev(&self.root)?;
        // The directory itself is mounted, because attaching renames disks into it from outside.
        bind(devices, &self.create_directory("dev/monopile", None)?)
    }
}

/// Returns the first id from 1000 on that no user and no group has.
fn free_id(passwd: &str, group: &str) -> u32 {
    let ids_in_use: BTreeSet<u32> =
        passwd.lines().chain(group.lines()).filter_map(|line| line.split(':').nth(2)?.parse().ok()).collect();
    (1000..u32::MAX).find(|id| !ids_in_use.contains(id)).unwrap_or(1000)
}

/// Copies files that are missing in `target_root`. Skips files that this user may not read.
fn copy_missing(source_root: &Path, target_root: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(source_root) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let target_path = target_root.join(entry.file_name());
        let existing_metadata = fs::symlink_metadata(&target_path).ok();
        let kind = entry.file_type()?;
        if kind.is_dir() {
            match existing_metadata {
                None => fs::create_dir(&target_path)?,
                Some(metadata) if metadata.is_dir() => {}
                Some(_) => continue,
            }
            copy_missing(&entry.path(), &target_path)?;
        } else if existing_metadata.is_none() && kind.is_symlink() {
            symlink(fs::read_link(entry.path())?, &target_path)?;
        } else if existing_metadata.is_none() && kind.is_file() {
            match fs::copy(entry.path(), &target_path) {
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
                result => drop(result?),
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vcap_gets_an_unused_id() {
        assert_eq!(free_id("root:x:0:0::/root:/bin/sh\na:x:1000:7::/:/b", "g:x:1001:\n+::\n"), 1002);
        let (own_files, host) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir(own_files.path().join("etc")).unwrap();
        fs::write(own_files.path().join("etc/group"), "mine").unwrap();
        fs::write(host.path().join("passwd"), "root:x:0:0::/root:/bin/sh").unwrap();
        let tree = RootTree {
            own_files: own_files.path().into(),
            root: own_files.path().into(),
            work: own_files.path().into(),
        };
        tree.add_vcap(host.path()).unwrap();
        let passwd = fs::read_to_string(own_files.path().join("etc/passwd")).unwrap();
        assert!(passwd.starts_with("root:x:0:0::/root:/bin/sh\nvcap:*:"), "{passwd}");
        assert_eq!(fs::read_to_string(own_files.path().join("etc/group")).unwrap(), "mine");
    }

    #[test]
    fn copy_keeps_existing_files() {
        let (source, target) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir(source.path().join("d")).unwrap();
        fs::write(source.path().join("d/a"), "host").unwrap();
        fs::write(source.path().join("b"), "host").unwrap();
        symlink("b", source.path().join("l")).unwrap();
        fs::write(target.path().join("b"), "image").unwrap();
        copy_missing(source.path(), target.path()).unwrap();
        assert_eq!(fs::read_to_string(target.path().join("l")).unwrap(), "image");
        assert_eq!(fs::read_to_string(target.path().join("d/a")).unwrap(), "host");
    }
}
