//! The directories below the VM's base directory (`/var/vcap`), and helpers for files: atomic writes, modes,
//! the group `vcap`.
//!
//! Release jobs rely on this layout (docs-bosh, "vm-config").

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use base::files::durable::Replacement;
use base::{Error, Result, files};

/// The directories of one VM.
#[derive(Debug, Clone)]
pub(super) struct Directories {
    base: PathBuf,
    vcap_group: Option<u32>,
}

impl Directories {
    /// Returns the layout below `base`. Creates no directories, see [`Directories::set_up`].
    pub(super) fn new(base: &Path) -> Self {
        Directories { base: base.to_path_buf(), vcap_group: group_id("vcap") }
    }

    /// Returns the base directory, `/var/vcap` inside a VM.
    pub(super) fn base(&self) -> &Path {
        &self.base
    }

    /// Returns the directory of the agent's own files.
    pub(super) fn bosh(&self) -> PathBuf {
        self.base.join("bosh")
    }

    /// Returns the directory of the agent's own logs, which `fetch_logs agent` packs.
    pub(super) fn agent_logs(&self) -> PathBuf {
        self.base.join("bosh/log")
    }

    /// Returns the directory of links to the current jobs.
    pub(super) fn jobs(&self) -> PathBuf {
        self.base.join("jobs")
    }

    /// Returns the directory of links to the current packages.
    pub(super) fn packages(&self) -> PathBuf {
        self.base.join("packages")
    }

    /// Returns the directory of installed jobs, by name and digest of their version.
    pub(super) fn data_jobs(&self) -> PathBuf {
        self.base.join("data/jobs")
    }

    /// Returns the directory of installed packages, by name and digest of their version.
    pub(super) fn data_packages(&self) -> PathBuf {
        self.base.join("data/packages")
    }

    /// Returns the directory for sources of packages that are being compiled.
    pub(super) fn compile(&self) -> PathBuf {
        self.base.join("data/compile")
    }

    /// Returns the directory of the agent's blobstore.
    pub(super) fn blobs(&self) -> PathBuf {
        self.base.join("data/blobs")
    }

    /// Returns the directory for temporary files, on the file system of the other data.
    pub(super) fn tmp(&self) -> PathBuf {
        self.base.join("data/tmp")
    }

    /// Returns the directory of the logs of all jobs.
    pub(super) fn logs(&self) -> PathBuf {
        self.base.join("sys/log")
    }

    /// Returns the directory of the pid files of all jobs.
    pub(super) fn run(&self) -> PathBuf {
        self.base.join("sys/run")
    }

    /// Returns the directory of the job supervisor's files.
    pub(super) fn monit(&self) -> PathBuf {
        self.base.join("monit")
    }

    /// Returns the mount point of the persistent disk.
    pub(super) fn store(&self) -> PathBuf {
        self.base.join("store")
    }

    /// Returns the mount point of the new persistent disk during a migration.
    pub(super) fn store_migration(&self) -> PathBuf {
        self.base.join("store_migration_target")
    }

    /// Returns the directory of facts about the instance, readable by every job.
    pub(super) fn instance(&self) -> PathBuf {
        self.base.join("instance")
    }

    /// Returns the log, run and data directories of a job.
    pub(super) fn job_directories(&self, name: &str) -> [PathBuf; 3] {
        [
            self.base.join("data/sys/log").join(name),
            self.base.join("data/sys/run").join(name),
            self.base.join("data").join(name),
        ]
    }

    /// Creates the directories that every VM has.
    pub(super) fn set_up(&self) -> Result<()> {
        for (directory, mode) in [
            ("bosh", 0o755),
            ("bosh/log", 0o750),
            ("data", 0o755),
            ("data/sys", 0o755),
            ("data/sys/log", 0o755),
            ("data/sys/run", 0o755),
            ("data/jobs", 0o755),
            ("data/packages", 0o755),
            ("data/compile", 0o755),
            ("data/blobs", 0o700),
            ("data/tmp", 0o755),
            ("jobs", 0o755),
            ("packages", 0o755),
            ("monit", 0o700),
            ("monit/job", 0o700),
            ("instance", 0o755),
            ("store", 0o755),
        ] {
            let path = self.base.join(directory);
            if !path.is_dir() {
                make_directory(&path, mode)?;
                self.give_to_vcap(&path);
            }
        }
        self.link_sys()
    }

    /// Creates `sys` as a link to `data/sys`, so that logs are on the data disk.
    fn link_sys(&self) -> Result<()> {
        let link = self.base.join("sys");
        match fs::symlink_metadata(&link) {
            Ok(metadata) if metadata.is_symlink() => return Ok(()),
            // The stemcell may have a directory `sys`. It is replaced only if it is empty.
            Ok(_) => fs::remove_dir(&link)
                .map_err(|error| Error::io(format!("replacing '{}'", link.display()), error))?,
            Err(_) => {}
        }
        symlink(self.base.join("data/sys"), &link)
            .map_err(|error| Error::io(format!("linking '{}'", link.display()), error))
    }

    /// Sets the group of a path to `vcap`, if the group exists and the agent has the permission.
    pub(super) fn give_to_vcap(&self, path: &Path) {
        if let Some(group) = self.vcap_group
            && let Err(error) = std::os::unix::fs::lchown(path, None, Some(group))
        {
            tracing::debug!(path = %path.display(), %error, "setting the group to vcap failed");
        }
    }
}

/// Creates a directory and its parents, and sets its mode independently of the umask.
pub(super) fn make_directory(path: &Path, mode: u32) -> Result<()> {
    fs::create_dir_all(path)
        .map_err(|error| Error::io(format!("creating directory '{}'", path.display()), error))?;
    set_mode(path, mode)
}

/// Sets the permission bits of a file or directory.
pub(super) fn set_mode(path: &Path, mode: u32) -> Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
        .map_err(|error| Error::io(format!("setting the mode of '{}'", path.display()), error))
}

/// Replaces a file atomically.
pub(super) fn write_atomically(path: &Path, content: &[u8], mode: u32) -> Result<()> {
    Replacement::write(path, content, mode)
        .and_then(Replacement::put_in_place)
        .map(drop)
        .map_err(|error| Error::io(format!("writing '{}'", path.display()), error))
}

/// Sets the target of a link atomically. Creates the link if it does not exist.
pub(super) fn replace_link(target: &Path, link: &Path) -> Result<()> {
    let link_error =
        |error| Error::io(format!("linking '{}' to '{}'", link.display(), target.display()), error);
    if fs::read_link(link).is_ok_and(|current_target| current_target == target) {
        return Ok(());
    }
    let mut name = link.as_os_str().to_owned();
    name.push(format!(".{}", uuid::Uuid::new_v4().simple()));
    let new_link = PathBuf::from(name);
    symlink(target, &new_link).map_err(link_error)?;
    fs::rename(&new_link, link).map_err(|error| {
        let _ = fs::remove_file(&new_link);
        link_error(error)
    })
}

/// Removes a directory tree or a file, which need not exist.
pub(super) fn remove_tree(path: &Path) -> Result<()> {
    files::remove_tree(path).map_err(|error| Error::io(format!("removing '{}'", path.display()), error))
}

/// Returns true for a name that is safe as one path component: of a job, a package, a script or a blob.
pub(super) fn is_safe_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 200
        && !name.starts_with(['.', '-'])
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-' | b'+'))
}

/// Returns the numeric id of a group in `/etc/group`.
pub(super) fn group_id(name: &str) -> Option<u32> {
    field(&fs::read_to_string("/etc/group").ok()?, name, 2)?.parse().ok()
}

/// Returns the numeric ids of a user and its main group in `/etc/passwd`.
pub(super) fn user_ids(name: &str) -> Option<(u32, u32)> {
    let passwd = fs::read_to_string("/etc/passwd").ok()?;
    Some((field(&passwd, name, 2)?.parse().ok()?, field(&passwd, name, 3)?.parse().ok()?))
}

fn field<'a>(table: &'a str, name: &str, index: usize) -> Option<&'a str> {
    table.lines().find(|line| line.split(':').next() == Some(name))?.split(':').nth(index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_not_one_path_component_are_rejected() {
        for bad in ["", ".", "..", "a/b", "-rf", "a\0", "ü", ".hidden"] {
            assert!(!is_safe_name(bad), "{bad:?}");
        }
        for good in ["hello", "go-1.2", "a_b", "libstdc++"] {
            assert!(is_safe_name(good), "{good:?}");
        }
    }

    #[test]
    fn set_up_can_be_repeated_and_replaces_an_empty_sys() {
        let base = tempfile::tempdir().unwrap();
        fs::create_dir(base.path().join("sys")).unwrap();
        let directories = Directories::new(base.path());
        directories.set_up().unwrap();
        directories.set_up().unwrap();
        assert!(directories.logs().is_dir());
        assert_eq!(fs::read_link(base.path().join("sys")).unwrap(), base.path().join("data/sys"));
    }

    #[test]
    fn replacing_a_link_leaves_no_other_files() {
        let base = tempfile::tempdir().unwrap();
        let link = base.path().join("link");
        replace_link(Path::new("/one"), &link).unwrap();
        replace_link(Path::new("/two"), &link).unwrap();
        assert_eq!(fs::read_link(&link).unwrap(), Path::new("/two"));
        assert_eq!(fs::read_dir(base.path()).unwrap().count(), 1);
    }
}
