//! Disks: an image, and a JSON document. A file in the directory `devices` of a VM attaches a disk to it.
//! Disks are attached and detached while the VM runs.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::command_line::{self, DISK_SLOTS};
use super::image::QemuImg;
use super::process;
use super::properties::{MAX_DISK_MIB, refuse_disk_properties};
use super::qmp::Qmp;
use super::rpc::QemuCall;
use crate::cpi::attachment;
use crate::cpi::cid::{Cid, ObjectKind};
use crate::cpi::cloud::{Cloud, list_names};
use crate::cpi::cloud_rpc::DiskAndVm;
use crate::cpi::failure::{CpiFailure, CpiResult};
use crate::cpi::records;
use base::JsonObject;
use base::files::durable::{create_private_directory, sync_parent};

/// The image, in the directory of a disk or snapshot.
pub(super) const IMAGE_FILE: &str = "disk.qcow2";
/// The directory of attached disks, in the directory of a VM.
const DEVICES_DIRECTORY: &str = "devices";
/// The length of a serial number of a virtio disk. The agent compares that many characters.
const SERIAL_CHARS: usize = 20;

/// The record of a disk, stored beside its image.
#[derive(Debug, Serialize, Deserialize)]
struct QemuDiskRecord {
    cid: String,
    /// The size in MiB.
    size: u64,
    #[serde(default)]
    metadata: JsonObject,
}

/// `create_disk`: makes an empty image.
pub(super) fn create(
    call: &mut QemuCall,
    cloud: &Cloud,
    size: u64,
    cloud_properties: &JsonObject,
) -> CpiResult<Value> {
    let qemu_img = (|| {
        refuse_disk_properties("create_disk", cloud_properties)?;
        check_size("create_disk", size)?;
        QemuImg::new(&call.programs())
    })()
    .map_err(CpiFailure::before_any_effect)?;
    let cid = ObjectKind::Disk.new_cid();
    let staging = cloud.create_staging(&cid)?;
    if let Err(failure) = qemu_img.create(&staging.path.join(IMAGE_FILE), size) {
        cloud.remove_staged(staging)?;
        return Err(failure);
    }
    let record = QemuDiskRecord { cid: cid.to_string(), size, metadata: JsonObject::new() };
    records::write(&staging, cid.kind(), &record)?;
    cloud.publish(&cid, staging)?;
    call.log(format_args!("disk '{cid}' of {size} MiB created"));
    Ok(json!(cid.as_str()))
}

fn check_size(method: &str, size: u64) -> CpiResult<()> {
    match size > MAX_DISK_MIB {
        true => Err(CpiFailure::invalid_call(format!(
            "{method}: a disk of {size} MiB is larger than the maximum of {MAX_DISK_MIB} MiB"
        ))),
        false => Ok(()),
    }
}

/// Returns true if the disk in this directory has its image, which an operator may have removed.
pub(super) fn has_image(directory: &Path) -> bool {
    directory.join(IMAGE_FILE).is_file()
}

/// `resize_disk` and `update_disk`: grow a detached disk.
pub(super) fn update(
    call: &QemuCall,
    cloud: &Cloud,
    cid: &Cid,
    size: u64,
    cloud_properties: Option<&JsonObject>,
) -> CpiResult<()> {
    let lock = cloud.lock_existing(cid)?;
    let mut record: QemuDiskRecord = records::read(&lock, cid)?;
    match cloud_properties {
        Some(cloud_properties) => {
            refuse_disk_properties("update_disk", cloud_properties)?;
            check_size("update_disk", size)?;
        }
        None => check_size("resize_disk", size)?,
    }
    attachment::check_before_resize(cid, vm_of_disk(cloud, cid)?.as_ref(), record.size, size)?;
    if size > record.size {
        QemuImg::new(&call.programs())?.resize(&lock, &lock.path.join(IMAGE_FILE), size)?;
        record.size = size;
        records::write(&lock, cid.kind(), &record)?;
    }
    Ok(())
}

/// `attach_disk`: returns the disk hint under contract v2, and null under contract v1. A repeated
/// call plugs the disk in if an earlier one was interrupted.
pub(super) fn attach(call: &QemuCall, disk_and_vm: &DiskAndVm) -> CpiResult<Value> {
    let (vm, disk) = (&disk_and_vm.vm_lock.path, &disk_and_vm.disk);
    if !has_image(&disk_and_vm.disk_lock.path) {
        let path = disk_and_vm.disk_lock.path.join(IMAGE_FILE);
        return Err(CpiFailure::cloud(format!("the image of disk '{disk}' is lost: '{}'", path.display())));
    }
    record_device(vm, disk).map_err(|error| {
        CpiFailure::io(format_args!("recording disk '{disk}' at VM '{}'", disk_and_vm.vm), error)
    })?;
    if process::is_running(vm)? {
        plug_in(vm, disk).inspect_err(|_| {
            // The disk stays attached on record if this fails, and a repeated call plugs it in.
            let _ = fs::remove_file(device_path(vm, disk));
        })?;
    }
    Ok(if call.is_v2 { hint(disk) } else { Value::Null })
}

/// `detach_disk`: also succeeds if the disk is not attached.
pub(super) fn detach(call: &QemuCall, disk_and_vm: &DiskAndVm) -> CpiResult<()> {
    let (vm, disk) = (&disk_and_vm.vm_lock.path, &disk_and_vm.disk);
    if !disk_and_vm.is_attached {
        return Ok(());
    }
    if process::is_running(vm)? {
        unplug(vm, disk, call.config.guest_timeout())?;
    }
    let path = device_path(vm, disk);
    fs::remove_file(&path)
        .and_then(|()| sync_parent(&path))
        .map_err(|error| CpiFailure::io(format_args!("removing '{}'", path.display()), error))
}

/// Returns the CIDs of the disks attached to the VM in this directory.
pub(super) fn attached_disks(vm_directory: &Path) -> CpiResult<Vec<Cid>> {
    Ok(list_names(&vm_directory.join(DEVICES_DIRECTORY))?
        .iter()
        .filter_map(|name| ObjectKind::Disk.parse(name))
        .collect())
}

/// Returns the VM that the disk is attached to. The caller must hold the disk.
pub(super) fn vm_of_disk(cloud: &Cloud, cid: &Cid) -> CpiResult<Option<Cid>> {
    for vm in cloud.list(ObjectKind::Vm)? {
        let path = device_path(&cloud.path(&vm), cid);
        match fs::symlink_metadata(&path) {
            Ok(_) => return Ok(Some(vm)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                return Err(CpiFailure::io(format_args!("looking for '{}'", path.display()), error));
            }
        }
    }
    Ok(None)
}

fn device_path(vm_directory: &Path, disk: &Cid) -> PathBuf {
    vm_directory.join(DEVICES_DIRECTORY).join(disk.as_str())
}

fn record_device(vm_directory: &Path, disk: &Cid) -> io::Result<()> {
    create_private_directory(&vm_directory.join(DEVICES_DIRECTORY))?;
    let path = device_path(vm_directory, disk);
    OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path)?.sync_all()?;
    sync_parent(&path)
}

/// Returns the serial number of a disk, by which the agent finds it.
pub(super) fn serial(disk: &Cid) -> String {
    let digits = disk.as_str().chars().filter(char::is_ascii_hexdigit);
    // The prefix `disk-` has the digit `d`.
    digits.skip(1).take(SERIAL_CHARS).collect()
}

/// Returns the disk hint: the agent looks for a device with this id in `/dev/disk/by-id`.
fn hint(disk: &Cid) -> Value {
    json!({"id": serial(disk)})
}

/// Describes the image of a disk for QEMU.
pub(super) fn node(disk: &Cid) -> Value {
    let path = format!("../../{}/{disk}/{IMAGE_FILE}", ObjectKind::Disk.directory());
    command_line::node(&node_name(disk), "qcow2", &path, false)
}

/// Returns the name of a disk's image in QEMU, which has at most 31 characters.
pub(super) fn node_name(disk: &Cid) -> String {
    format!("disk-{}", serial(disk))
}

/// Describes the device of a disk in this slot of the PCI bus for QEMU.
pub(super) fn device(disk: &Cid, slot: u8) -> Value {
    json!({
        "driver": "virtio-blk-pci",
        "id": disk.as_str(),
        "bus": "pci.0",
        "addr": format!("{slot:#x}"),
        "drive": node_name(disk),
        "serial": serial(disk),
    })
}

/// Plugs a disk into a running VM, unless it is plugged in.
fn plug_in(vm_directory: &Path, disk: &Cid) -> CpiResult<()> {
    let mut qmp = Qmp::connect(vm_directory)?;
    if fetch_has_device(&mut qmp, disk)? {
        return Ok(());
    }
    let slot = fetch_free_slot(&mut qmp)?;
    if !fetch_has_node(&mut qmp, disk)? {
        qmp.run("blockdev-add", &node(disk))?;
    }
    if let Err(failure) = qmp.run("device_add", &device(disk, slot)) {
        // Without this, QEMU would hold the image. The error of `device_add` is the one to report.
        let _ = qmp.run("blockdev-del", &json!({"node-name": node_name(disk)}));
        return Err(failure);
    }
    Ok(())
}

/// Returns a free slot for a disk.
fn fetch_free_slot(qmp: &mut Qmp) -> CpiResult<u8> {
    let buses = qmp.run("query-pci", &json!({}))?;
    let devices = buses.pointer("/0/devices").and_then(Value::as_array);
    let used_slots: Vec<u64> =
        devices.into_iter().flatten().filter_map(|device| device["slot"].as_u64()).collect();
    DISK_SLOTS.into_iter().find(|slot| !used_slots.contains(&u64::from(*slot))).ok_or_else(|| {
        let max_count = DISK_SLOTS.count();
        CpiFailure::cloud(format!(
            "a VM of the 'qemu' CPI can have {max_count} persistent and extra disks together: detach one \
             first"
        ))
    })
}

/// Asks the guest to release a disk, and takes it out of a running VM.
fn unplug(vm: &Path, disk: &Cid, timeout: Duration) -> CpiResult<()> {
    let mut qmp = Qmp::connect(vm)?;
    if fetch_has_device(&mut qmp, disk)? {
        // The command fails if an earlier call has asked already. The event comes in any case.
        let unplug_result = qmp.run("device_del", &json!({"id": disk.as_str()}));
        let is_release =
            |event: &Value| event["event"] == "DEVICE_DELETED" && event["data"]["device"] == disk.as_str();
        if !qmp.wait_for(timeout, is_release)? && fetch_has_device(&mut qmp, disk)? {
            let reason = unplug_result.err().map(|failure| format!("{failure}; ")).unwrap_or_default();
            return Err(CpiFailure {
                ok_to_retry: true,
                ..CpiFailure::cloud(format!(
                    "the VM did not release disk '{disk}' within {} s: {reason}{}",
                    timeout.as_secs(),
                    process::describe_state(vm)
                ))
            });
        }
    }
    if fetch_has_node(&mut qmp, disk)? {
        qmp.run("blockdev-del", &json!({"node-name": node_name(disk)}))?;
    }
    Ok(())
}

fn fetch_has_device(qmp: &mut Qmp, disk: &Cid) -> CpiResult<bool> {
    let devices = qmp.run("qom-list", &json!({"path": "/machine/peripheral"}))?;
    let has_name_of_disk = |device: &Value| device["name"] == disk.as_str();
    Ok(devices.as_array().is_some_and(|devices| devices.iter().any(has_name_of_disk)))
}

fn fetch_has_node(qmp: &mut Qmp, disk: &Cid) -> CpiResult<bool> {
    let nodes = qmp.run("query-named-block-nodes", &json!({"flat": true}))?;
    let name = node_name(disk);
    Ok(nodes.as_array().is_some_and(|nodes| nodes.iter().any(|node| node["node-name"] == name.as_str())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serial_has_the_length_that_the_agent_compares() {
        let cid = ObjectKind::Disk.parse("disk-01234567-89ab-4def-8123-456789abcdef").unwrap();
        assert_eq!(serial(&cid), "0123456789ab4def8123");
        assert_eq!(hint(&cid), json!({"id": "0123456789ab4def8123"}));
        assert!(node_name(&cid).len() <= 31);
    }
}
