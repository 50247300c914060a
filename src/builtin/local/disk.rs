//! Disks: a directory with the data, and a JSON document. The data directory is below `disks/<cid>`, or,
//! while the disk is attached, in the devices of one VM. One rename attaches or detaches a disk, so it cannot
//! be attached twice.
//!
//! The size of a disk is recorded but not enforced.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::rpc::LocalCall;
use super::{settings, vm};
use crate::cpi::cid::{Cid, ObjectKind};
use crate::cpi::cloud::{Cloud, ObjectLock};
use crate::cpi::failure::{CpiFailure, CpiResult, FailureKind};
use crate::cpi::files::{read_json, write_json};
use base::JsonObject;
use base::files::durable::sync_parent;

/// The directory of the data, below the disk's directory, while the disk is detached.
pub(super) const DATA: &str = "data";
const DOCUMENT_NAME: &str = "disk.json";

/// The record of a disk, stored beside its data.
#[derive(Debug, Serialize, Deserialize)]
struct DiskRecord {
    cid: String,
    /// The size in MiB.
    size: u64,
    cloud_properties: JsonObject,
    #[serde(default)]
    metadata: JsonObject,
}

/// `create_disk`.
pub(super) fn create(
    call: &mut LocalCall,
    cloud: &Cloud,
    size: u64,
    cloud_properties: JsonObject,
) -> CpiResult<Value> {
    let cid = ObjectKind::Disk.new_cid();
    let staged = cloud.stage(&cid)?;
    let data = staged.path.join(DATA);
    DirBuilder::new()
        .mode(0o755)
        .create(&data)
        // The mode of the top directory of a new file system. `create` applies the umask.
        .and_then(|()| fs::set_permissions(&data, Permissions::from_mode(0o755)))
        .map_err(|error| CpiFailure::io(format_args!("creating '{}'", data.display()), error))?;
    let document = DiskRecord { cid: cid.to_string(), size, cloud_properties, metadata: JsonObject::new() };
    write_json(&staged.path.join(DOCUMENT_NAME), &document)?;
    cloud.publish(&cid, staged)?;
    call.log(format_args!("disk '{cid}' of {size} MiB created"));
    Ok(json!(cid.as_str()))
}

/// `has_disk`: a disk whose data was removed by hand does not exist.
pub(super) fn exists(cloud: &Cloud, cid: &Cid) -> CpiResult<bool> {
    if cloud.hold(cid)?.is_none() {
        return Ok(false);
    }
    if find_data(cloud, cid)?.is_some() {
        return Ok(true);
    }
    // The data may be in a VM whose deletion was interrupted. It counts, because the next changing call moves
    // it back.
    Ok(cloud.staged()?.iter().any(|vm| vm::device(vm, cid).is_dir()))
}

/// `delete_disk`: fails while the disk is attached.
pub(super) fn delete(call: &mut LocalCall, cloud: &Cloud, cid: &Cid) -> CpiResult<()> {
    let Some(held) = cloud.hold(cid)? else {
        call.log(format_args!("disk '{cid}' does not exist: nothing to delete"));
        return Ok(());
    };
    match find_data(cloud, cid)? {
        Some(DiskData::Attached(vm)) => {
            Err(CpiFailure::cloud(format!("disk '{cid}' is attached to VM '{vm}': detach it first")))
        }
        Some(DiskData::Detached) | None => cloud.discard(cid, held),
    }
}

/// `resize_disk` and `update_disk`: grows a detached disk, and replaces its cloud properties if they are
/// given. Rejects other requests with `NotSupported`, so that the caller copies the data to a new disk.
pub(super) fn update(
    cloud: &Cloud,
    cid: &Cid,
    size: u64,
    cloud_properties: Option<JsonObject>,
) -> CpiResult<Value> {
    let held = cloud.require(cid)?;
    let mut document = document(&held, cid)?;
    let refuse = |why: String| Err(CpiFailure::new(FailureKind::NotSupported, format!("disk '{cid}' {why}")));
    if let Some(vm) = attached_to(cloud, cid)? {
        return refuse(format!("is attached to VM '{vm}': detach it to change it"));
    }
    if size < document.size {
        return refuse(format!("has {} MiB and cannot shrink to {size} MiB", document.size));
    }
    document.size = size;
    if let Some(cloud_properties) = cloud_properties {
        document.cloud_properties = cloud_properties;
    }
    write_json(&held.path.join(DOCUMENT_NAME), &document)?;
    Ok(Value::Null)
}

/// `set_disk_metadata`.
pub(super) fn set_metadata(cloud: &Cloud, cid: &Cid, metadata: JsonObject) -> CpiResult<Value> {
    let held = cloud.require(cid)?;
    let document = DiskRecord { metadata, ..document(&held, cid)? };
    write_json(&held.path.join(DOCUMENT_NAME), &document)?;
    Ok(Value::Null)
}

/// `attach_disk`: returns the disk hint under contract v2. Under contract v1, returns null and adds the disk
/// to the agent's settings. Succeeds if the disk is already attached to this VM.
pub(super) fn attach(call: &mut LocalCall, cloud: &Cloud, vm: &Cid, cid: &Cid) -> CpiResult<Value> {
    let holder = cloud.require(vm)?;
    let held = cloud.require(cid)?;
    match attached_to(cloud, cid)? {
        Some(other) if other == *vm => {
            call.log(format_args!("disk '{cid}' is attached to VM '{vm}' already"))
        }
        Some(other) => {
            return Err(CpiFailure::cloud(format!(
                "disk '{cid}' cannot be attached to VM '{vm}': it is attached to VM '{other}', detach it \
                    first"
            )));
        }
        None => {
            move_data(&held.path.join(DATA), &vm::device(&holder.path, cid))?;
            call.log(format_args!("disk '{cid}' attached to VM '{vm}'"));
        }
    }
    if call.is_v2 {
        return Ok(hint(cid));
    }
    settings::add_disk(call, &holder, vm, cid)?;
    Ok(Value::Null)
}

/// Returns the disk hint: the devices of a VM are below `/dev/monopile` inside it.
pub(super) fn hint(cid: &Cid) -> Value {
    json!({"path": format!("/dev/monopile/{cid}")})
}

/// `detach_disk`: succeeds if the disk is already detached.
pub(super) fn detach(call: &mut LocalCall, cloud: &Cloud, vm: &Cid, cid: &Cid) -> CpiResult<Value> {
    let holder = cloud.require(vm)?;
    let held = cloud.require(cid)?;
    match attached_to(cloud, cid)? {
        Some(other) if other == *vm => {
            if vm::mounts(&holder, cid)? {
                return Err(CpiFailure::cloud(format!(
                    "disk '{cid}' is still mounted in VM '{vm}': the agent must unmount it first"
                )));
            }
            move_data(&vm::device(&holder.path, cid), &held.path.join(DATA))?;
            call.log(format_args!("disk '{cid}' detached from VM '{vm}'"));
        }
        Some(other) => {
            return Err(CpiFailure::cloud(format!(
                "disk '{cid}' cannot be detached from VM '{vm}': it is attached to VM '{other}'"
            )));
        }
        None => call.log(format_args!("disk '{cid}' is detached already")),
    }
    if !call.is_v2 {
        settings::remove_disk(call, &holder, vm, cid)?;
    }
    Ok(Value::Null)
}

/// Moves the data of a disk back from the devices of a VM that has ended.
pub(super) fn give_back(cloud: &Cloud, device: &Path, cid: &Cid) -> CpiResult<()> {
    let held = cloud.hold(cid)?.ok_or_else(|| {
        CpiFailure::cloud(format!(
            "'{}' has the data of a disk that does not exist in this cloud: move it away, then try again",
            device.display()
        ))
    })?;
    move_data(device, &held.path.join(DATA))
}

/// Returns the current path of a disk's data. The caller must hold the disk.
pub(super) fn data(cloud: &Cloud, held: &ObjectLock, cid: &Cid) -> CpiResult<PathBuf> {
    Ok(match attached_to(cloud, cid)? {
        Some(vm) => vm::device(&cloud.path(&vm), cid),
        None => held.path.join(DATA),
    })
}

/// The place of a disk's data.
enum DiskData {
    /// In the disk's own directory.
    Detached,
    /// In the devices of this VM.
    Attached(Cid),
}

/// Returns the VM that the disk is attached to. The caller must hold the disk.
fn attached_to(cloud: &Cloud, cid: &Cid) -> CpiResult<Option<Cid>> {
    match find_data(cloud, cid)? {
        Some(DiskData::Detached) => Ok(None),
        Some(DiskData::Attached(vm)) => Ok(Some(vm)),
        None => Err(CpiFailure::cloud(format!(
            "the data of disk '{cid}' is lost: it is neither in '{}' nor in any VM; see what can be done: \
             `monopile cloud-check MANIFEST`",
            cloud.path(cid).join(DATA).display()
        ))),
    }
}

/// Returns the place of a disk's data, or `None` if it is lost. The caller must hold the disk.
fn find_data(cloud: &Cloud, cid: &Cid) -> CpiResult<Option<DiskData>> {
    let home = cloud.path(cid).join(DATA);
    let is_dir = |path: &Path| match fs::symlink_metadata(path) {
        Ok(metadata) => Ok(metadata.is_dir()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(CpiFailure::io(format_args!("looking for '{}'", path.display()), error)),
    };
    if is_dir(&home)? {
        return Ok(Some(DiskData::Detached));
    }
    for vm in cloud.list(ObjectKind::Vm)? {
        if is_dir(&vm::device(&cloud.path(&vm), cid))? {
            return Ok(Some(DiskData::Attached(vm)));
        }
    }
    Ok(None)
}

fn move_data(from: &Path, to: &Path) -> CpiResult<()> {
    let rename = || -> io::Result<()> {
        renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)?;
        sync_parent(to)?;
        sync_parent(from)
    };
    rename().map_err(|error| {
        CpiFailure::io(format_args!("moving '{}' to '{}'", from.display(), to.display()), error)
    })
}

fn document(held: &ObjectLock, cid: &Cid) -> CpiResult<DiskRecord> {
    read_json(&held.path.join(DOCUMENT_NAME))?.ok_or_else(|| {
        let path = held.path.join(DOCUMENT_NAME);
        CpiFailure::cloud(format!("the record of disk '{cid}' is missing: '{}'", path.display()))
    })
}
