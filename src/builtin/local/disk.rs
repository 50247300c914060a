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
use crate::cpi::attachment;
use crate::cpi::cid::{Cid, ObjectKind};
use crate::cpi::cloud::{Cloud, ObjectLock};
use crate::cpi::cloud_rpc::DiskAndVm;
use crate::cpi::failure::{CpiFailure, CpiResult};
use crate::cpi::records;
use base::JsonObject;
use base::files::durable::sync_parent;

/// The directory of the data, below the disk's directory, while the disk is detached.
pub(super) const DATA_DIRECTORY: &str = "data";

/// The record of a disk, stored beside its data.
#[derive(Debug, Serialize, Deserialize)]
struct LocalDiskRecord {
    cid: String,
    /// The size in MiB.
    size: u64,
    cloud_properties: JsonObject,
    #[serde(default)]
    metadata: JsonObject,
}

/// `create_disk`: creates an empty directory. It does not enforce the size.
pub(super) fn create(
    call: &mut LocalCall,
    cloud: &Cloud,
    size: u64,
    cloud_properties: JsonObject,
) -> CpiResult<Value> {
    let cid = ObjectKind::Disk.new_cid();
    let staging = cloud.create_staging(&cid)?;
    let data = staging.path.join(DATA_DIRECTORY);
    DirBuilder::new()
        .mode(0o755)
        .create(&data)
        // The mode of the top directory of a new file system. `create` applies the umask.
        .and_then(|()| fs::set_permissions(&data, Permissions::from_mode(0o755)))
        .map_err(|error| CpiFailure::io(format_args!("creating '{}'", data.display()), error))?;
    let record =
        LocalDiskRecord { cid: cid.to_string(), size, cloud_properties, metadata: JsonObject::new() };
    records::write(&staging, cid.kind(), &record)?;
    cloud.publish(&cid, staging)?;
    call.log(format_args!("disk '{cid}' of {size} MiB created"));
    Ok(json!(cid.as_str()))
}

/// Returns true if the disk has its data, which an operator may have removed.
pub(super) fn has_data(cloud: &Cloud, cid: &Cid) -> CpiResult<bool> {
    if cloud.lock(cid)?.is_none() {
        return Ok(false);
    }
    if find_data(cloud, cid)?.is_some() {
        return Ok(true);
    }
    // The data may be in a VM whose deletion was interrupted. It counts, because the next changing call moves
    // it back.
    Ok(cloud.staged_paths()?.iter().any(|vm| vm::device_path(vm, cid).is_dir()))
}

/// Returns the VM that has the disk's data. Returns `None` for a detached disk, and for one whose data is
/// missing. The caller must hold the disk.
pub(super) fn vm_that_blocks_deletion(cloud: &Cloud, cid: &Cid) -> CpiResult<Option<Cid>> {
    Ok(match find_data(cloud, cid)? {
        Some(DiskData::Attached(vm)) => Some(vm),
        Some(DiskData::Detached) | None => None,
    })
}

/// `resize_disk` and `update_disk`: grows a detached disk, and replaces its cloud properties if they are
/// given.
pub(super) fn update(
    cloud: &Cloud,
    cid: &Cid,
    size: u64,
    cloud_properties: Option<JsonObject>,
) -> CpiResult<()> {
    let lock = cloud.lock_existing(cid)?;
    let mut record: LocalDiskRecord = records::read(&lock, cid)?;
    attachment::check_before_resize(cid, vm_of_disk(cloud, cid)?.as_ref(), record.size, size)?;
    record.size = size;
    if let Some(cloud_properties) = cloud_properties {
        record.cloud_properties = cloud_properties;
    }
    records::write(&lock, cid.kind(), &record)
}

/// `attach_disk`: returns the disk hint under contract v2. Under contract v1, adds the disk to the agent's
/// settings.
pub(super) fn attach(call: &LocalCall, disk_and_vm: &DiskAndVm) -> CpiResult<Value> {
    let (disk, vm) = (&disk_and_vm.disk, &disk_and_vm.vm);
    if !disk_and_vm.is_attached {
        move_data(
            &disk_and_vm.disk_lock.path.join(DATA_DIRECTORY),
            &vm::device_path(&disk_and_vm.vm_lock.path, disk),
        )?;
    }
    if call.is_v2 {
        return Ok(hint(disk));
    }
    settings::add_disk(call, &disk_and_vm.vm_lock, vm, disk)?;
    Ok(Value::Null)
}

/// Returns the disk hint: the devices of a VM are below `/dev/monopile` inside it.
pub(super) fn hint(cid: &Cid) -> Value {
    json!({"path": format!("/dev/monopile/{cid}")})
}

/// `detach_disk`: moves the data of the disk back. Under contract v1, also removes the disk from the agent's
/// settings.
pub(super) fn detach(call: &LocalCall, disk_and_vm: &DiskAndVm) -> CpiResult<()> {
    let (disk, vm) = (&disk_and_vm.disk, &disk_and_vm.vm);
    if disk_and_vm.is_attached {
        if vm::has_mounted(&disk_and_vm.vm_lock, disk)? {
            return Err(CpiFailure::cloud(format!(
                "disk '{disk}' is still mounted in VM '{vm}': the agent must unmount it first"
            )));
        }
        move_data(
            &vm::device_path(&disk_and_vm.vm_lock.path, disk),
            &disk_and_vm.disk_lock.path.join(DATA_DIRECTORY),
        )?;
    }
    match call.is_v2 {
        true => Ok(()),
        false => settings::remove_disk(call, &disk_and_vm.vm_lock, vm, disk),
    }
}

/// Moves the data of a disk back from the devices of a VM that has ended.
pub(super) fn return_disk(cloud: &Cloud, device: &Path, cid: &Cid) -> CpiResult<()> {
    let lock = cloud.lock(cid)?.ok_or_else(|| {
        CpiFailure::cloud(format!(
            "'{}' has the data of a disk that does not exist: move it away, then run the same command again",
            device.display()
        ))
    })?;
    move_data(device, &lock.path.join(DATA_DIRECTORY))
}

/// Returns the current path of a disk's data. The caller must hold the disk.
pub(super) fn data_path(cloud: &Cloud, lock: &ObjectLock, cid: &Cid) -> CpiResult<PathBuf> {
    Ok(match vm_of_disk(cloud, cid)? {
        Some(vm) => vm::device_path(&cloud.path(&vm), cid),
        None => lock.path.join(DATA_DIRECTORY),
    })
}

/// The location of a disk's data.
enum DiskData {
    /// In the disk's own directory.
    Detached,
    /// In the devices of this VM.
    Attached(Cid),
}

/// Returns the VM that the disk is attached to. The caller must hold the disk.
pub(super) fn vm_of_disk(cloud: &Cloud, cid: &Cid) -> CpiResult<Option<Cid>> {
    match find_data(cloud, cid)? {
        Some(DiskData::Detached) => Ok(None),
        Some(DiskData::Attached(vm)) => Ok(Some(vm)),
        None => Err(CpiFailure::cloud(format!(
            "the data of disk '{cid}' is lost: it is neither in '{}' nor in any VM. To see what can be done: \
             `monopile cloud-check MANIFEST`",
            cloud.path(cid).join(DATA_DIRECTORY).display()
        ))),
    }
}

/// Returns the location of a disk's data, or `None` if it is lost. The caller must hold the disk.
fn find_data(cloud: &Cloud, cid: &Cid) -> CpiResult<Option<DiskData>> {
    let detached_data = cloud.path(cid).join(DATA_DIRECTORY);
    let is_dir = |path: &Path| match fs::symlink_metadata(path) {
        Ok(metadata) => Ok(metadata.is_dir()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(CpiFailure::io(format_args!("looking for '{}'", path.display()), error)),
    };
    if is_dir(&detached_data)? {
        return Ok(Some(DiskData::Detached));
    }
    for vm in cloud.list(ObjectKind::Vm)? {
        if is_dir(&vm::device_path(&cloud.path(&vm), cid))? {
            return Ok(Some(DiskData::Attached(vm)));
        }
    }
    Ok(None)
}

fn move_data(source: &Path, target: &Path) -> CpiResult<()> {
    let rename = || -> io::Result<()> {
        renameat_with(CWD, source, CWD, target, RenameFlags::NOREPLACE)?;
        sync_parent(target)?;
        sync_parent(source)
    };
    rename().map_err(|error| {
        CpiFailure::io(format_args!("moving '{}' to '{}'", source.display(), target.display()), error)
    })
}
