//! Persistent disks. A disk is mounted at `store`, or at `store_migration_target` during a migration.
//!
//! The file system shows which disk is mounted. The agent records only the disk that belongs to `store`, to
//! mount it again after a restart. `platform` finds and mounts disks.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use serde_json::Value;

use super::directories::{self, Directories};
use super::disk_copy;
use super::platform::Platform;
use super::process::TaskControl;
use super::settings::AgentSettings;
use base::error::ResultExt;
use base::files::{JsonLayout, read_json, write_json};
use base::{Error, Result};

/// The number of attempts to unmount a busy disk.
const MAX_UNMOUNT_ATTEMPTS: u32 = 8;
/// The first pause between two attempts to unmount a busy disk. It doubles each time.
const FIRST_BUSY_PAUSE: Duration = Duration::from_millis(20);

/// The disks of the VM.
pub(super) struct Disks {
    platform: Platform,
    directories: Directories,
    /// Guards the file of hints.
    hints_lock: Mutex<()>,
}

impl Disks {
    /// Creates the disks of the VM with these directories.
    pub(super) fn new(platform: Platform, directories: Directories) -> Self {
        Disks { platform, directories, hints_lock: Mutex::new(()) }
    }

    pub(super) fn store_hint(&self, cid: &str, hint: &Value) -> Result<()> {
        if cid.is_empty() {
            return Err(Error::invalid("Saving persistent disk hints: the disk CID is empty"));
        }
        self.change_hints(|hints| {
            hints.insert(cid.to_owned(), hint.clone());
        })
        .context(|| "Saving persistent disk hints".to_owned())
    }

    /// Removes the hint of a disk, and the record that this disk is mounted on `store`.
    pub(super) fn remove_hint(&self, cid: &str) -> Result<()> {
        self.change_hints(|hints| {
            hints.remove(cid);
        })
        .context(|| "Removing persistent disk hints".to_owned())?;
        if self.read_disk_on_store().as_deref() == Some(cid) {
            let path = self.disk_on_store_path();
            fs::remove_file(&path)
                .map_err(|error| Error::io(format!("removing '{}'", path.display()), error))?;
        }
        Ok(())
    }

    /// Returns the CIDs of all mounted disks.
    pub(super) fn mounted_cids(&self, settings: &AgentSettings) -> Result<Vec<String>> {
        let hints = self.all_hints(settings)?;
        Ok(hints
            .into_iter()
            .filter(|(_, hint)| {
                self.platform.find_disk(hint).is_ok_and(|disk| self.mount_point_of(&disk).is_some())
            })
            .map(|(cid, _)| cid)
            .collect())
    }

    /// Mounts a disk on `store`, or on the migration target if another disk is mounted on `store`.
    pub(super) fn mount(&self, settings: &AgentSettings, cid: &str) -> Result<()> {
        let hint = self.hint(settings, cid).context(|| "Reading persistent disk settings".to_owned())?;
        let disk = self
            .platform
            .wait_for_disk(&hint)
            .context(|| "Mounting persistent disk: Getting real device path".to_owned())?;
        if let Some(mount_point) = self.mount_point_of(&disk) {
            tracing::info!(cid, mount_point = %mount_point.display(), "already mounted");
            return Ok(());
        }
        let store = self.directories.store();
        if is_mount_point(&store)? {
            let target = self.directories.store_migration();
            if is_mount_point(&target)? {
                return Err(Error::failure(
                    "Mounting persistent disk: two other disks are mounted: unmount one first",
                ));
            }
            return self.platform.mount(&disk, &target, &self.directories);
        }
        self.platform.mount(&disk, &store, &self.directories)?;
        self.set_disk_on_store(cid)
    }

    /// Unmounts a disk. Returns true if it was mounted, and a description of the disk.
    pub(super) fn unmount(
        &self,
        settings: &AgentSettings,
        cid: &str,
        task: &TaskControl,
    ) -> Result<(bool, String)> {
        let hint = self.hint(settings, cid).context(|| "Getting persistent disk settings".to_owned())?;
        let disk = format!("disk '{cid}'");
        let mount_point = match self.platform.find_disk(&hint) {
            Ok(disk) => self.mount_point_of(&disk),
            Err(error) => {
                // The disk was detached while it was mounted. Its mount on `store` must still be removed.
                tracing::warn!(cid, error = %super::error_text(&error), "the device of a disk is missing");
                let store = self.directories.store();
                (self.read_disk_on_store().as_deref() == Some(cid) && is_mount_point(&store)?)
                    .then_some(store)
            }
        };
        let Some(mount_point) = mount_point else { return Ok((false, disk)) };
        unmount(&mount_point, task).context(|| "Unmounting persistent disk".to_owned())?;
        Ok((true, disk))
    }

    /// Copies all data from the disk on `store` to the disk on the migration target, and mounts the new disk
    /// on `store`.
    pub(super) fn migrate(&self, settings: &AgentSettings, task: &TaskControl) -> Result<()> {
        let (store, target) = (self.directories.store(), self.directories.store_migration());
        for mount_point in [&store, &target] {
            if !is_mount_point(mount_point)? {
                return Err(Error::failure(format!(
                    "no disk is mounted on '{}': mount the old disk, then the new one",
                    mount_point.display()
                )));
            }
        }
        let (cid, disk) = self
            .all_hints(settings)?
            .into_iter()
            .filter_map(|(cid, hint)| Some((cid, self.platform.find_disk(&hint).ok()?)))
            .find(|(_, disk)| self.platform.is_mounted_at(disk, &target))
            .ok_or_else(|| {
                Error::failure(format!("no disk hint names the disk on '{}'", target.display()))
            })?;
        let is_read_only =
            set_read_only(&store, true).context(|| "Remounting persistent disk as readonly".to_owned())?;
        let result = disk_copy::copy_disk(&store, &target, task)
            .context(|| "Copying files from old disk to new disk".to_owned());
        if let Err(error) = result {
            if is_read_only && let Err(undo_error) = set_read_only(&store, false) {
                let error = super::error_text(&undo_error);
                tracing::error!(%error, "making the old disk writable again failed");
            }
            return Err(error);
        }
        // From here on, a restarted agent mounts the new disk.
        self.set_disk_on_store(&cid)?;
        unmount(&store, task).context(|| "Unmounting old persistent disk".to_owned())?;
        unmount(&target, task).context(|| "Remounting new disk on original mountpoint".to_owned())?;
        self.platform
            .mount(&disk, &store, &self.directories)
            .context(|| "Remounting new disk on original mountpoint".to_owned())
    }

    /// Mounts the disk that was on `store` before a restart of the VM or the agent.
    pub(super) fn restore(&self, settings: &AgentSettings) -> Result<()> {
        let Some(cid) = self.read_disk_on_store() else { return Ok(()) };
        let hint = self.hint(settings, &cid)?;
        let disk = self.platform.wait_for_disk(&hint)?;
        let store = self.directories.store();
        if is_mount_point(&store)? {
            return Ok(());
        }
        // If the agent was killed at the end of a migration, the disk is still on the migration target.
        if self.mount_point_of(&disk).is_some() {
            unmount(&self.directories.store_migration(), &TaskControl::default())?;
        }
        self.platform.mount(&disk, &store, &self.directories)
    }

    fn hint(&self, settings: &AgentSettings, cid: &str) -> Result<Value> {
        self.all_hints(settings)?.remove(cid).ok_or_else(|| {
            Error::invalid(format!("Persistent disk with volume id '{cid}' could not be found"))
        })
    }

    /// Returns all hints by CID. Hints from `add_persistent_disk` take precedence over those in the settings.
    fn all_hints(&self, settings: &AgentSettings) -> Result<BTreeMap<String, Value>> {
        let mut hints: BTreeMap<_, _> = settings.disks.persistent.clone().into_iter().collect();
        let _guard = self.hints_lock.lock();
        hints.extend(read_json::<BTreeMap<String, Value>>(&self.hints_path())?.unwrap_or_default());
        Ok(hints)
    }

    fn change_hints(&self, change: impl FnOnce(&mut BTreeMap<String, Value>)) -> Result<()> {
        let _guard = self.hints_lock.lock();
        let mut hints = read_json(&self.hints_path())?.unwrap_or_default();
        change(&mut hints);
        write_json(&self.hints_path(), &hints, JsonLayout::Compact)
    }

    fn hints_path(&self) -> PathBuf {
        self.directories.bosh().join("persistent_disk_hints.json")
    }

    fn disk_on_store_path(&self) -> PathBuf {
        self.directories.bosh().join("managed_disk_settings.json")
    }

    fn read_disk_on_store(&self) -> Option<String> {
        fs::read_to_string(self.disk_on_store_path()).ok().filter(|cid| !cid.is_empty())
    }

    fn set_disk_on_store(&self, cid: &str) -> Result<()> {
        directories::write_atomically(&self.disk_on_store_path(), cid.as_bytes(), 0o600)
            .context(|| "Writing managed_disk_settings.json".to_owned())
    }

    /// Returns the path at which the disk is mounted.
    fn mount_point_of(&self, disk_path: &Path) -> Option<PathBuf> {
        let mount_points = [self.directories.store(), self.directories.store_migration()];
        mount_points.into_iter().find(|path| self.platform.is_mounted_at(disk_path, path))
    }
}

/// Returns true if the path is a mount point in the kernel's table.
pub(super) fn is_mount_point(path: &Path) -> Result<bool> {
    let Ok(path) = fs::canonicalize(path) else { return Ok(false) };
    let table =
        fs::read("/proc/self/mountinfo").map_err(|error| Error::io("reading /proc/self/mountinfo", error))?;
    let escaped_path = escape(path.as_os_str().as_encoded_bytes());
    Ok(table
        .split(|byte| *byte == b'\n')
        .filter_map(|line| line.split(|byte| *byte == b' ').nth(4))
        .any(|mount_point| mount_point == escaped_path))
}

/// Escapes spaces, tabs, line ends and backslashes like the kernel's table.
fn escape(path: &[u8]) -> Vec<u8> {
    let mut escaped_path = Vec::with_capacity(path.len());
    for byte in path {
        match byte {
            b' ' | b'\t' | b'\n' | b'\\' => escaped_path.extend(format!("\\{byte:03o}").into_bytes()),
            byte => escaped_path.push(*byte),
        }
    }
    escaped_path
}

/// Unmounts a file system. Retries for some seconds while it is busy, because processes may be ending.
fn unmount(mount_point: &Path, task: &TaskControl) -> Result<()> {
    let mut pause = FIRST_BUSY_PAUSE;
    for _ in 0..MAX_UNMOUNT_ATTEMPTS {
        match rustix::mount::unmount(mount_point, UnmountFlags::NOFOLLOW) {
            Ok(()) => return Ok(()),
            Err(Errno::BUSY) => task.sleep(pause)?,
            Err(error) => {
                return Err(Error::io(format!("unmounting '{}'", mount_point.display()), error.into()));
            }
        }
        pause *= 2;
    }
    Err(Error::failure(format!(
        "unmounting '{}' failed: it is in use by {}",
        mount_point.display(),
        find_users(mount_point)
    )))
}

/// Returns the processes that use a mount, for the error.
fn find_users(mount_point: &Path) -> String {
    let mut process_names = Vec::new();
    for process in super::packages::list(Path::new("/proc")) {
        let pid = process.file_name();
        if !pid.as_encoded_bytes().iter().all(u8::is_ascii_digit) {
            continue;
        }
        let directory = process.path();
        let open_files = super::packages::list(&directory.join("fd")).into_iter().map(|fd| fd.path());
        let has_file_there = open_files
            .chain([directory.join("cwd"), directory.join("exe")])
            .any(|link| fs::read_link(link).is_ok_and(|target| target.starts_with(mount_point)));
        if has_file_there {
            let name = fs::read_to_string(directory.join("comm")).unwrap_or_default();
            process_names.push(format!("{} ({})", pid.to_string_lossy(), name.trim()));
        }
    }
    if process_names.is_empty() { "a process outside this VM".to_owned() } else { process_names.join(", ") }
}

/// Makes a mount read-only or writable. Returns false if the kernel does not permit that in this user
/// namespace. The mount may then stay writable, because the jobs are stopped.
fn set_read_only(mount_point: &Path, is_read_only: bool) -> Result<bool> {
    let current_flags = rustix::fs::statvfs(mount_point)
        .map_err(|error| {
            Error::io(format!("reading the mount flags of '{}'", mount_point.display()), error.into())
        })?
        .f_flag;
    // A remount must repeat the flags that the user namespace locks.
    let mut flags = MountFlags::BIND;
    for (stat_flag, flag) in [
        (rustix::fs::StatVfsMountFlags::NOSUID, MountFlags::NOSUID),
        (rustix::fs::StatVfsMountFlags::NODEV, MountFlags::NODEV),
        (rustix::fs::StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
        (rustix::fs::StatVfsMountFlags::NOATIME, MountFlags::NOATIME),
        (rustix::fs::StatVfsMountFlags::NODIRATIME, MountFlags::NODIRATIME),
        (rustix::fs::StatVfsMountFlags::RELATIME, MountFlags::RELATIME),
    ] {
        if current_flags.contains(stat_flag) {
            flags |= flag;
        }
    }
    if is_read_only {
        flags |= MountFlags::RDONLY;
    }
    match rustix::mount::mount_remount(mount_point, flags, "") {
        Ok(()) => Ok(true),
        Err(Errno::PERM | Errno::INVAL) => {
            tracing::warn!(mount_point = %mount_point.display(), "changing the flags of a mount is not \
                permitted");
            Ok(false)
        }
        Err(error) => Err(Error::io(format!("remounting '{}'", mount_point.display()), error.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_are_found_in_the_mount_table() {
        assert!(is_mount_point(Path::new("/proc")).unwrap());
        assert!(!is_mount_point(Path::new("/proc/self")).unwrap());
        assert_eq!(escape(b"/a b\\c"), b"/a\\040b\\134c");
    }
}
