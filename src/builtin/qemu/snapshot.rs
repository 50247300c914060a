//! Snapshots: copies of a disk's image, attached or not.

use std::time::Duration;

use serde_json::{Value, json};

use super::command_line;
use super::disk;
use super::image::QemuImg;
use super::process;
use super::qmp::Qmp;
use super::rpc::QemuCall;
use crate::cpi::cid::{Cid, ObjectKind};
use crate::cpi::cloud::Cloud;
use crate::cpi::failure::{CpiFailure, CpiResult};
use crate::cpi::records;
use base::JsonObject;

/// The name of the copy in QEMU, and of the job that writes it.
const SNAPSHOT_JOB_ID: &str = "snapshot";
const COPY_TIMEOUT: Duration = Duration::from_secs(1800);

/// `snapshot_disk`. The copy of an attached disk is crash-consistent, as after a power failure. A caller that
/// needs a consistent copy stops the jobs first.
pub(super) fn create(
    call: &mut QemuCall,
    cloud: &Cloud,
    disk: &Cid,
    metadata: JsonObject,
) -> CpiResult<Value> {
    let (vm_lock, disk_lock, qemu_img) = (|| {
        // Locks are taken in the order VM, disk.
        let vm = disk::vm_of_disk(cloud, disk)?;
        let vm_lock = vm.map(|vm| cloud.lock_existing(&vm)).transpose()?;
        Ok((vm_lock, cloud.lock_existing(disk)?, QemuImg::new(&call.programs())?))
    })()
    .map_err(CpiFailure::before_any_effect)?;
    let running_vm = match &vm_lock {
        Some(vm) => process::is_running(&vm.path)?.then_some(vm),
        None => None,
    };
    let cid = ObjectKind::Snapshot.new_cid();
    let staging = cloud.create_staging(&cid)?;
    let image = staging.path.join(disk::IMAGE_FILE);
    let result = match running_vm {
        Some(vm) => qemu_img
            .read_info_while_in_use(&disk_lock.path.join(disk::IMAGE_FILE))
            .and_then(|info| qemu_img.create_bytes(&image, info.virtual_size))
            .and_then(|()| copy_while_running(&mut Qmp::connect(&vm.path)?, disk, &cid)),
        None => qemu_img.convert(&disk_lock.path.join(disk::IMAGE_FILE), "qcow2", &image),
    };
    if let Err(failure) = result {
        cloud.remove_staged(staging)?;
        return Err(failure);
    }
    let record = json!({"cid": cid.as_str(), "disk_cid": disk.as_str(), "metadata": metadata});
    records::write(&staging, cid.kind(), &record)?;
    cloud.publish(&cid, staging)?;
    call.log(format_args!("snapshot '{cid}' of disk '{disk}' created"));
    Ok(json!(cid.as_str()))
}

/// Lets QEMU copy the disk of a running VM to the image of the staged snapshot.
fn copy_while_running(qmp: &mut Qmp, disk: &Cid, snapshot: &Cid) -> CpiResult<()> {
    let path = format!("../../staging/{snapshot}/{}", disk::IMAGE_FILE);
    // A killed call may have left the job and its target node.
    let _ = qmp.run("job-cancel", &json!({"id": SNAPSHOT_JOB_ID}));
    let _ = qmp.run("blockdev-del", &json!({"node-name": SNAPSHOT_JOB_ID}));
    qmp.run("blockdev-add", &command_line::node(SNAPSHOT_JOB_ID, "qcow2", &path, false))?;
    let copy_result = (|| {
        let (id, device) = (SNAPSHOT_JOB_ID, disk::node_name(disk));
        let job = json!({"job-id": id, "device": device, "target": id, "sync": "full"});
        qmp.run("blockdev-backup", &job)?;
        let is_end = |event: &Value| {
            ["BLOCK_JOB_COMPLETED", "BLOCK_JOB_CANCELLED"].iter().any(|name| event["event"] == *name)
                && event["data"]["device"] == SNAPSHOT_JOB_ID
        };
        if !qmp.wait_for(COPY_TIMEOUT, is_end)? {
            let timeout = COPY_TIMEOUT.as_secs();
            let _ = qmp.run("job-cancel", &json!({"id": SNAPSHOT_JOB_ID}));
            return Err(CpiFailure::cloud(format!(
                "the copy of disk '{disk}' did not end within {timeout} s"
            )));
        }
        match qmp.take_event(is_end).as_ref().and_then(|event| event["data"]["error"].as_str()) {
            Some(error) => Err(CpiFailure::cloud(format!("copying disk '{disk}' failed: {error}"))),
            None => Ok(()),
        }
    })();
    let removal_result = qmp.run("blockdev-del", &json!({"node-name": SNAPSHOT_JOB_ID}));
    copy_result.and(removal_result.map(drop))
}
