//! Disks: an image, and a JSON document. A file in the directory `devices` of a VM attaches a disk to it. A
//! running VM gets and gives back its disks while it runs.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::command_line::{self, DISK_SLOTS};
use super::image::Images;
use super::process;
use super::properties::{self, MAX_DISK_MIB};
use super::qmp::Qmp;
use super::rpc::QemuCall;
use crate::cpi::cid::{Cid, ObjectKind};
use crate::cpi::cloud::{Cloud, ObjectLock, names};
use crate::cpi::failure::{CpiFailure, CpiResult, FailureKind};
use crate::cpi::files::{private_dir, read_json, write_json};
use base::JsonObject;
use base::files::durable::sync_parent;

/// The image, in the directory of a disk or snapshot.
pub(super) const IMAGE: &str = "disk.qcow2";
/// The directory of attached disks, in the directory of a VM.
const DEVICES: &str = "devices";
const DOCUMENT_NAME: &str = "disk.json";
/// The length of a serial number of a virtio disk. The agent compares that many characters.
const SERIAL_CHARS: usize = 20;

/// The record of a disk, stored beside its image.
#[derive(Debug, Serialize, Deserialize)]
struct DiskRecord {
    cid: String,
    /// The size in MiB.
    size: u64,
    #[serde(default)]
    metadata: JsonObject,
}

/// `create_disk`.
pub(super) fn create(
    call: &mut QemuCall,
    cloud: &Cloud,
    size: u64,
    cloud_properties: &JsonObject,
) -> CpiResult<Value> {
    let images = (|| {
        properties::check_disk("create_disk", cloud_properties)?;
        check_size("create_disk", size)?;
        Images::new(&call.programs())
    })()
    .map_err(CpiFailure::before_any_effect)?;
    let cid = ObjectKind::Disk.new_cid();
    let staged = cloud.stage(&cid)?;
    if let Err(failure) = images.create(&staged.path.join(IMAGE), size) {
        cloud.sweep_one(staged)?;
        return Err(failure);
    }
    let document = DiskRecord { cid: cid.to_string(), size, metadata: JsonObject::new() };
    write_json(&staged.path.join(DOCUMENT_NAME), &document)?;
    cloud.publish(&cid, staged)?;
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

/// `has_disk`: a disk whose image was removed by hand does not exist.
pub(super) fn exists(cloud: &Cloud, cid: &Cid) -> CpiResult<bool> {
    Ok(cloud.has(cid)? && cloud.path(cid).join(IMAGE).is_file())
}

/// `delete_disk`: fails while the disk is attached.
pub(super) fn delete(call: &mut QemuCall, cloud: &Cloud, cid: &Cid) -> CpiResult<()> {
    let Some(held) = cloud.hold(cid)? else {
        call.log(format_args!("disk '{cid}' does not exist: nothing to delete"));
        return Ok(());
    };
    match attached_to(cloud, cid)? {
        Some(vm) => Err(CpiFailure::cloud(format!("disk '{cid}' is attached to VM '{vm}': detach it first"))),
        None => cloud.discard(cid, held),
    }
}

/// `resize_disk` and `update_disk`: grows a detached disk. Rejects other requests with `NotSupported`, so
/// that the caller copies the data to a new disk.
pub(super) fn update(
    call: &QemuCall,
    cloud: &Cloud,
    cid: &Cid,
    size: u64,
    cloud_properties: Option<&JsonObject>,
) -> CpiResult<Value> {
    let held = cloud.require(cid)?;
    let mut document = document(&held, cid)?;
    if let Some(cloud_properties) = cloud_properties {
        properties::check_disk("update_disk", cloud_properties)?;
    }
    check_size("resize_disk", size)?;
    let refuse = |why: String| Err(CpiFailure::new(FailureKind::NotSupported, format!("disk '{cid}' {why}")));
    if let Some(vm) = attached_to(cloud, cid)? {
        return refuse(format!("is attached to VM '{vm}': detach it to change it"));
    }
    if size < document.size {
        return refuse(format!("has {} MiB and cannot shrink to {size} MiB", document.size));
    }
    if size > document.size {
        Images::new(&call.programs())?.resize(&held.path.join(IMAGE), size)?;
        document.size = size;
        write_json(&held.path.join(DOCUMENT_NAME), &document)?;
    }
    Ok(Value::Null)
}

/// `set_disk_metadata`.
pub(super) fn set_metadata(cloud: &Cloud, cid: &Cid, metadata: JsonObject) -> CpiResult<Value> {
    let held = cloud.require(cid)?;
    let document = DiskRecord { metadata, ..document(&held, cid)? };
    write_json(&held.path.join(DOCUMENT_NAME), &document)?;
    Ok(Value::Null)
}

/// `attach_disk`: returns the disk hint under contract v2, and null under contract v1. Succeeds if the disk
/// is already attached to this VM.
pub(super) fn attach(call: &mut QemuCall, cloud: &Cloud, vm: &Cid, cid: &Cid) -> CpiResult<Value> {
    let holder = cloud.require(vm)?;
    let held = cloud.require(cid)?;
    match attached_to(cloud, cid)? {
        Some(other) if other == *vm => {
            call.log(format_args!("disk '{cid}' is attached to VM '{vm}' already"))
        }
        Some(other) => {
            return Err(CpiFailure::cloud(format!(
                "disk '{cid}' cannot be attached to VM '{vm}': it is attached to VM '{other}', detach \
                 it first"
            )));
        }
        None => {}
    }
    if !held.path.join(IMAGE).is_file() {
        return Err(CpiFailure::cloud(format!(
            "the image of disk '{cid}' is lost: '{}'",
            held.path.join(IMAGE).display()
        )));
    }
    record_device(&holder.path, cid)
        .map_err(|error| CpiFailure::io(format_args!("recording disk '{cid}' at VM '{vm}'"), error))?;
    if process::is_running(&holder.path)? {
        plug_in(&holder.path, cid).inspect_err(|_| {
            // The disk stays attached on record if this fails, and a repeated call plugs it in.
            let _ = fs::remove_file(device_path(&holder.path, cid));
        })?;
    }
    call.log(format_args!("disk '{cid}' attached to VM '{vm}'"));
    Ok(if call.is_v2 { hint(cid) } else { Value::Null })
}

/// `detach_disk`: succeeds if the disk is already detached.
pub(super) fn detach(call: &mut QemuCall, cloud: &Cloud, vm: &Cid, cid: &Cid) -> CpiResult<Value> {
    let holder = cloud.require(vm)?;
    let _held = cloud.require(cid)?;
    match attached_to(cloud, cid)? {
        Some(other) if other == *vm => {
            if process::is_running(&holder.path)? {
                unplug(&holder.path, cid, call.config.guest_timeout())?;
            }
            let path = device_path(&holder.path, cid);
            fs::remove_file(&path)
                .and_then(|()| sync_parent(&path))
                .map_err(|error| CpiFailure::io(format_args!("removing '{}'", path.display()), error))?;
            call.log(format_args!("disk '{cid}' detached from VM '{vm}'"));
        }
        Some(other) => {
            return Err(CpiFailure::cloud(format!(
                "disk '{cid}' cannot be detached from VM '{vm}': it is attached to VM '{other}'"
            )));
        }
        None => call.log(format_args!("disk '{cid}' is detached already")),
    }
    Ok(Value::Null)
}

/// Returns the disks attached to the VM in this directory.
pub(super) fn of_vm(vm: &Path) -> CpiResult<Vec<Cid>> {
    Ok(names(&vm.join(DEVICES))?.iter().filter_map(|name| ObjectKind::Disk.parse(name)).collect())
}

/// Returns the VM that the disk is attached to. The caller must hold the disk.
pub(super) fn attached_to(cloud: &Cloud, cid: &Cid) -> CpiResult<Option<Cid>> {
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

fn device_path(vm: &Path, disk: &Cid) -> PathBuf {
    vm.join(DEVICES).join(disk.as_str())
}

fn record_device(vm: &Path, disk: &Cid) -> io::Result<()> {
    private_dir(&vm.join(DEVICES))?;
    let path = device_path(vm, disk);
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
    let path = format!("../../{}/{disk}/{IMAGE}", ObjectKind::Disk.directory());
    command_line::node(&node_name(disk), "qcow2", &path, false)
}

/// Returns the name of that image in QEMU, which has at most 31 characters.
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
fn plug_in(vm: &Path, disk: &Cid) -> CpiResult<()> {
    let mut qmp = Qmp::connect(vm)?;
    if has_device(&mut qmp, disk)? {
        return Ok(());
    }
    let slot = free_slot(&mut qmp)?;
    if !has_node(&mut qmp, disk)? {
        qmp.run("blockdev-add", &node(disk))?;
    }
    if let Err(failure) = qmp.run("device_add", &device(disk, slot)) {
        // Otherwise QEMU would hold the image. The first error matters.
        let _ = qmp.run("blockdev-del", &json!({"node-name": node_name(disk)}));
        return Err(failure);
    }
    Ok(())
}

/// Returns a free slot for a disk.
fn free_slot(qmp: &mut Qmp) -> CpiResult<u8> {
    let buses = qmp.run("query-pci", &json!({}))?;
    let devices = buses.pointer("/0/devices").and_then(Value::as_array);
    let used: Vec<u64> = devices.into_iter().flatten().filter_map(|device| device["slot"].as_u64()).collect();
    DISK_SLOTS.into_iter().find(|slot| !used.contains(&u64::from(*slot))).ok_or_else(|| {
        let most = DISK_SLOTS.count();
        CpiFailure::cloud(format!(
            "a VM of the 'qemu' CPI can have {most} persistent disks: detach one first"
        ))
    })
}

/// Asks the guest to release a disk, and takes it out of a running VM.
fn unplug(vm: &Path, disk: &Cid, limit: Duration) -> CpiResult<()> {
    let mut qmp = Qmp::connect(vm)?;
    if has_device(&mut qmp, disk)? {
        // The command fails if an earlier call has asked already. The event comes in any case.
        let asked = qmp.run("device_del", &json!({"id": disk.as_str()}));
        let is_release =
            |event: &Value| event["event"] == "DEVICE_DELETED" && event["data"]["device"] == disk.as_str();
        if !qmp.wait_for(limit, is_release)? && has_device(&mut qmp, disk)? {
            let why = asked.err().map(|failure| format!("{failure}; ")).unwrap_or_default();
            return Err(CpiFailure {
                ok_to_retry: true,
                ..CpiFailure::cloud(format!(
                    "the VM did not release disk '{disk}' within {} s: {why}{}",
                    limit.as_secs(),
                    process::state(vm)
                ))
            });
        }
    }
    if has_node(&mut qmp, disk)? {
        qmp.run("blockdev-del", &json!({"node-name": node_name(disk)}))?;
    }
    Ok(())
}

fn has_device(qmp: &mut Qmp, disk: &Cid) -> CpiResult<bool> {
    let devices = qmp.run("qom-list", &json!({"path": "/machine/peripheral"}))?;
    let is_it = |device: &Value| device["name"] == disk.as_str();
    Ok(devices.as_array().is_some_and(|devices| devices.iter().any(is_it)))
}

fn has_node(qmp: &mut Qmp, disk: &Cid) -> CpiResult<bool> {
    let nodes = qmp.run("query-named-block-nodes", &json!({"flat": true}))?;
    let name = node_name(disk);
    Ok(nodes.as_array().is_some_and(|nodes| nodes.iter().any(|node| node["node-name"] == name.as_str())))
}

fn document(held: &ObjectLock, cid: &Cid) -> CpiResult<DiskRecord> {
    read_json(&held.path.join(DOCUMENT_NAME))?.ok_or_else(|| {
        let path = held.path.join(DOCUMENT_NAME);
        CpiFailure::cloud(format!("the record of disk '{cid}' is missing: '{}'", path.display()))
    })
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
