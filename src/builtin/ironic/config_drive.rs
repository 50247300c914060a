//! The config drive: a volume with a file system labelled `config-2` that contains the agent's settings. The
//! settings source `ConfigDrive` of the agent reads it, as OpenStack stemcells configure it.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::storage::Storage;
use super::volume::VolumeName;
use crate::cpi::failure::{CpiFailure, CpiResult};
use base::JsonObject;

/// The size of the file system in KiB. The settings are a few KiB.
const DRIVE_KIB: u32 = 4096;

/// Creates the volume. mke2fs fills the file system while it creates it, so nothing is mounted.
pub(super) fn create_drive(
    storage: &dyn Storage,
    volume: &VolumeName,
    settings: &JsonObject,
) -> CpiResult<()> {
    // Only the owner can read the directory: the settings contain secrets.
    let scratch =
        tempfile::tempdir().map_err(|error| CpiFailure::io("creating a scratch directory", error))?;
    let tree = scratch.path().join("tree");
    let image = scratch.path().join("image");
    let metadata = json!({"instance-id": volume.cid(), "uuid": volume.cid()});
    for (path, content) in [
        ("ec2/latest/meta-data.json", &metadata),
        ("ec2/latest/user-data.json", &json!(settings)),
        ("openstack/latest/meta_data.json", &metadata),
        ("openstack/latest/user_data", &json!(settings)),
    ] {
        write(&tree.join(path), content)
            .map_err(|error| CpiFailure::io(format_args!("writing '{path}'"), error))?;
    }
    let output = Command::new("/usr/sbin/mke2fs")
        .args(["-q", "-t", "ext2", "-L", "config-2", "-E", "root_owner=0:0", "-d"])
        .args([&tree, &image])
        .arg(format!("{DRIVE_KIB}k"))
        .stdin(Stdio::null())
        .output()
        .map_err(|error| CpiFailure::io("running '/usr/sbin/mke2fs' (package e2fsprogs)", error))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        let reason = stderr.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no message").to_owned();
        return Err(CpiFailure::cloud(format!(
            "creating the config drive '{volume}' failed: mke2fs: {reason}"
        )));
    }
    storage.import(volume, &image)
}

fn write(path: &Path, content: &Value) -> std::io::Result<()> {
    fs::create_dir_all(base::files::durable::parent(path))?;
    fs::write(path, content.to_string())
}
