//! The agent's settings on a volume of its own: a file system labelled `config-2`, with the files that the agent looks
//! for on a config drive (settings source `ConfigDrive` of the agent, as OpenStack stemcells set it up).

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::storage::Storage;
use super::volume::Volume;
use crate::cpi::args::Hash;
use crate::cpi::failure::{Failure, Outcome};

/// As large as the smallest file system that takes any settings, in KiB.
const SIZE: u32 = 4096;

/// Makes the volume. mke2fs fills the file system while making it, so nothing is mounted.
pub(super) fn make(storage: &dyn Storage, volume: &Volume, settings: &Hash) -> Outcome<()> {
    // With secrets in it: its owner's alone, and gone at the end.
    let scratch = tempfile::tempdir().map_err(|error| Failure::io("making a scratch directory", error))?;
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
            .map_err(|error| Failure::io(format_args!("writing '{path}'"), error))?;
    }
    let output = Command::new("/usr/sbin/mke2fs")
        .args(["-q", "-t", "ext2", "-L", "config-2", "-E", "root_owner=0:0", "-d"])
        .args([&tree, &image])
        .arg(format!("{SIZE}k"))
        .stdin(Stdio::null())
        .output()
        .map_err(|error| Failure::io("running 'mke2fs' (package e2fsprogs)", error))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        let reason = stderr.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no message").to_owned();
        return Err(Failure::cloud(format!("making the config drive failed: {reason}")));
    }
    storage.import(volume, &image)
}

fn write(path: &Path, content: &Value) -> std::io::Result<()> {
    fs::create_dir_all(base::files::durable::parent(path))?;
    fs::write(path, content.to_string())
}
