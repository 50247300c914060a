//! The machine that the agent runs on. A `local` VM has the kernel, the network and the files of its host,
//! and its init prepares everything; its disks are directories. A guest has a kernel of its own: the agent
//! reads its settings from a config drive, and prepares network and disks itself.

mod block_device;
mod config_drive;
mod directory;
mod network;
mod root_disk;

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use super::directories::Directories;
use super::disks::is_mount_point;
use super::settings::AgentSettings;
use base::error::ResultExt;
use base::{Error, Result};

/// The time until the kernel of a guest has found a device.
const DEVICE_TIMEOUT: Duration = Duration::from_secs(30);

/// The machine that the agent runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Platform {
    /// The namespaces of a `local` VM.
    Namespaces,
    /// A VM with a kernel of its own.
    Guest,
}

impl Platform {
    /// Puts the settings where the agent reads them, which is beside the file `settings`.
    pub(super) fn fetch_settings(self, settings: &Path) -> Result<()> {
        match self {
            Platform::Namespaces => Ok(()),
            Platform::Guest => {
                config_drive::fetch(settings).context(|| "Reading the config drive".to_owned())
            }
        }
    }

    /// Sets up the network and the name of the machine.
    pub(super) fn set_up_network(self, settings: &AgentSettings) -> Result<()> {
        match self {
            Platform::Namespaces => Ok(()),
            Platform::Guest => network::set_up(settings).context(|| "Setting up the network".to_owned()),
        }
    }

    /// Mounts the ephemeral disk. Without one, lets the root file system use the rest of the root disk.
    pub(super) fn set_up_data(self, settings: &AgentSettings, directories: &Directories) -> Result<()> {
        if self == Platform::Namespaces {
            return Ok(());
        }
        let (hint, data) = (&settings.disks.ephemeral, directories.base().join("data"));
        if hint.is_null() || hint.as_str() == Some("") {
            if let Err(error) = root_disk::grow() {
                // The VM works with less space.
                tracing::warn!(error = super::error_text(&error), "growing the root file system failed");
            }
            return Ok(());
        }
        if is_mount_point(&data)? {
            return Ok(());
        }
        self.wait_for_disk(hint)
            .and_then(|device| self.mount(&device, &data, directories))
            .context(|| "Setting up the ephemeral disk".to_owned())
    }

    /// Writes the files of the agent to the disks of a guest, which may lose its power.
    pub(super) fn sync(self) {
        match self {
            // The machine under the VM has other work.
            Platform::Namespaces => {}
            Platform::Guest => rustix::fs::sync(),
        }
    }

    /// Returns the directory or the device of the disk with this hint. Fails if it is missing.
    pub(super) fn find_disk(self, hint: &Value) -> Result<PathBuf> {
        match self {
            Platform::Namespaces => directory::find(hint),
            Platform::Guest => block_device::find(hint, Duration::ZERO),
        }
    }

    /// Like [`Platform::find_disk`], but waits for a disk that may just have been attached.
    pub(super) fn wait_for_disk(self, hint: &Value) -> Result<PathBuf> {
        match self {
            Platform::Namespaces => directory::find(hint),
            Platform::Guest => block_device::find(hint, DEVICE_TIMEOUT),
        }
    }

    /// Returns true if the disk is mounted at `target`.
    pub(super) fn is_mounted_at(self, disk_path: &Path, target: &Path) -> bool {
        match self {
            Platform::Namespaces => directory::is_mounted_at(disk_path, target),
            Platform::Guest => block_device::is_mounted_at(disk_path, target),
        }
    }

    /// Mounts the disk at `target`. Creates the file system of an empty disk, and grows that of a larger one.
    pub(super) fn mount(self, disk_path: &Path, target: &Path, directories: &Directories) -> Result<()> {
        if !target.is_dir() {
            super::directories::make_directory(target, 0o755)?;
        }
        match self {
            Platform::Namespaces => directory::mount(disk_path, target),
            Platform::Guest => block_device::mount(disk_path, target, directories),
        }
    }
}

/// Returns the first of these keys of a hint with its value. A hint that is a string is a path.
fn hint_part<'h, 'k>(hint: &'h Value, keys: &[&'k str]) -> Result<(&'k str, &'h str)> {
    let part = match hint {
        Value::String(path) => keys.iter().find(|key| **key == "path").map(|key| (*key, path.as_str())),
        Value::Object(map) => {
            keys.iter().find_map(|key| Some((*key, map.get(*key).and_then(Value::as_str)?)))
        }
        _ => None,
    };
    part.filter(|(_, value)| !value.is_empty()).ok_or_else(|| {
        // The error names only the keys, because values may be credentials.
        let hint_keys = match hint {
            Value::Object(map) => map.keys().cloned().collect::<Vec<_>>().join(", "),
            _ => "none".to_owned(),
        };
        let key_names = keys.iter().map(|key| format!("'{key}'")).collect::<Vec<_>>().join(" or ");
        Error::invalid(format!(
            "the disk hint has no {key_names}, which this agent needs (keys: {hint_keys})"
        ))
    })
}
