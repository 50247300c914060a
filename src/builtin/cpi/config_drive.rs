//! The config drive: an image of a file system labelled `config-2` that contains the agent's settings. The
//! settings source `ConfigDrive` of the agent reads it, as OpenStack stemcells configure it.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use super::failure::{CpiFailure, CpiResult};
use super::programs;
use base::JsonObject;

/// The program that creates the file system.
const MKE2FS_PROGRAM: &str = "/usr/sbin/mke2fs";
/// The size of the file system in KiB. The settings are a few KiB.
const DRIVE_KIB: u32 = 4096;
const MKE2FS_TIMEOUT: Duration = Duration::from_secs(60);

/// Creates the image for the VM `cid` at `image`. mke2fs fills the file system while it creates it, so
/// nothing is mounted.
pub(crate) fn create_image(image: &Path, cid: &str, settings: &JsonObject) -> CpiResult<()> {
    // Only the owner can read the directory: the settings contain secrets. It is removed with the directory
    // of the image if this call is killed.
    let scratch = tempfile::tempdir_in(base::files::directory::parent(image))
        .map_err(|error| CpiFailure::io("creating a scratch directory", error))?;
    let metadata = json!({"instance-id": cid, "uuid": cid});
    for (path, content) in [
        ("ec2/latest/meta-data.json", &metadata),
        // Agents differ in the name that they read.
        ("ec2/latest/user-data", &json!(settings)),
        ("ec2/latest/user-data.json", &json!(settings)),
        ("openstack/latest/meta_data.json", &metadata),
        ("openstack/latest/user_data", &json!(settings)),
    ] {
        write(&scratch.path().join(path), content)
            .map_err(|error| CpiFailure::io(format_args!("writing '{path}'"), error))?;
    }
    let mut command = Command::new(MKE2FS_PROGRAM);
    command.args(["-q", "-t", "ext2", "-L", "config-2", "-E", "root_owner=0:0", "-d"]);
    command.args([scratch.path(), image]).arg(format!("{DRIVE_KIB}k"));
    let output = programs::run(&mut command, MKE2FS_TIMEOUT).map_err(|error| {
        CpiFailure::io(format_args!("running '{MKE2FS_PROGRAM}' (package e2fsprogs)"), error)
    })?;
    if !output.status.success() {
        let reason = output.reason();
        return Err(CpiFailure::cloud(format!(
            "creating the config drive '{}' failed: mke2fs: {reason}",
            image.display()
        )));
    }
    Ok(())
}

fn write(path: &Path, content: &Value) -> std::io::Result<()> {
    fs::create_dir_all(base::files::directory::parent(path))?;
    fs::write(path, content.to_string())
}
