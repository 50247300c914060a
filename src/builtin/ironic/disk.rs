//! Persistent disks and their snapshots.

use serde_json::{Value, json};

use super::node::{Node, own_disk, text};
use super::rpc::IronicCall;
use super::storage::{Export, Initiators, Login};
use super::vm;
use super::volume::{VolumeKind, VolumeName};
use crate::cpi::failure::{CpiFailure, CpiResult, FailureKind};
use ironic::{Collection, ListOptions};

/// `create_disk`: creates a volume and returns its CID. Only `attach_disk` exports it.
pub(super) fn create(call: &mut IronicCall, mib: u64) -> CpiResult<Value> {
    let volume = VolumeName::new(VolumeKind::Disk);
    call.storage.create(&volume, mib)?;
    call.log(format_args!("disk '{}' of {mib} MiB created", volume.cid()));
    Ok(json!(volume.cid()))
}

/// `delete_disk`: fails while the disk is attached.
pub(super) fn delete(call: &mut IronicCall, disk: &VolumeName) -> CpiResult<Value> {
    if let Some(node) = find_holder(call, disk)? {
        return Err(CpiFailure::cloud(format!(
            "disk '{}' is attached to node '{node}': detach it first",
            disk.cid()
        )));
    }
    call.storage.unexport(disk)?;
    call.storage.delete(disk)?;
    call.log(format_args!("disk '{}' deleted", disk.cid()));
    Ok(Value::Null)
}

/// `has_disk`: returns true if the volume exists, attached or not.
pub(super) fn exists(call: &IronicCall, disk: &VolumeName) -> CpiResult<Value> {
    Ok(json!(call.storage.size(disk)?.is_some()))
}

/// `resize_disk`: grows a detached disk. Rejects shrinking with `NotSupported`, so that the caller copies the
/// data to a new disk.
pub(super) fn resize(call: &mut IronicCall, disk: &VolumeName, mib: u64) -> CpiResult<Value> {
    let size = call.storage.size(disk)?.ok_or_else(|| disk.not_found_error())?;
    if let Some(node) = find_holder(call, disk)? {
        return Err(CpiFailure::cloud(format!(
            "disk '{}' is attached to node '{node}': detach it first",
            disk.cid()
        )));
    }
    if mib.saturating_mul(1 << 20) < size {
        let (cid, current) = (disk.cid(), size.div_ceil(1 << 20));
        let message = format!("disk '{cid}' has {current} MiB and cannot be made smaller ({mib} MiB)");
        return Err(CpiFailure::new(FailureKind::NotSupported, message));
    }
    call.storage.grow(disk, mib)?;
    Ok(Value::Null)
}

/// `attach_disk`: exports the disk to the VM alone, and makes it the next free target of the node. Works
/// while the machine is on. Returns the disk hint under contract v2.
pub(super) fn attach(call: &mut IronicCall, cid: &str, disk: &VolumeName) -> CpiResult<Value> {
    let node = vm::find_node(call, cid)?;
    if call.storage.size(disk)?.is_none() {
        return Err(disk.not_found_error());
    }
    if let Some(other) = find_holder(call, disk)?.filter(|holder| *holder != node.uuid) {
        let cid = disk.cid();
        return Err(CpiFailure::cloud(format!(
            "disk '{cid}' is attached to another node, '{other}': detach it first"
        )));
    }
    if node.is_off() {
        node.delete_detached_targets(&call.ironic)?;
    }
    let login = Login::new(disk)?;
    let initiators = node
        .list_initiators(&call.ironic)?
        .map_err(|missing| CpiFailure::cloud(format!("node '{}' has {missing}", node.uuid)))?;
    let export = call.storage.export(disk, &initiators, &login)?;
    let is_attached = node.list_targets(&call.ironic)?.iter().any(|target| target.volume == *disk);
    if !is_attached {
        let targets = node.list_all_targets(&call.ironic)?;
        let boot_indices: Vec<u64> =
            targets.iter().filter_map(|target| target.get("boot_index").and_then(Value::as_u64)).collect();
        // 0 is reserved for the volume that the machine boots from.
        let index = (1..).find(|index| !boot_indices.contains(index)).unwrap_or(1);
        let result = node.add_target(&call.ironic, disk, VolumeKind::Disk, index, &export, &login);
        if let Err(failure) = result {
            call.storage.unexport(disk)?;
            return Err(failure);
        }
    }
    call.log(format_args!("disk '{}' attached to VM '{cid}'", disk.cid()));
    let is_root_remote =
        node.list_targets(&call.ironic)?.iter().any(|target| target.kind == VolumeKind::Root);
    let hint = hint(&export, &login, &initiators, is_root_remote);
    Ok(if call.is_v2 { hint } else { Value::Null })
}

/// Returns the disk hint, in the form of the agent's disk settings. The key `target` holds the portal.
///
/// The agent's iSCSI code closes all sessions first. That would cut off a root on iSCSI, so such a VM gets
/// the device path.
fn hint(export: &Export, login: &Login, initiators: &Initiators, is_root_remote: bool) -> Value {
    let first_text = |texts: &[String]| texts.first().cloned().unwrap_or_default();
    match (export, initiators) {
        (Export::Iscsi(export), Initiators::Iscsi(names)) if !is_root_remote => json!({"iscsi_settings": {
            "initiator_name": first_text(names), "username": login.user, "password": login.password,
            "target": first_text(&export.portals),
        }}),
        (Export::Iscsi(export), _) => {
            let (portal, iqn) = (first_text(&export.portals), first_text(&export.iqns));
            let lun = export.luns.first().copied().unwrap_or_default();
            json!({"path": format!("/dev/disk/by-path/ip-{portal}-iscsi-{iqn}-lun-{lun}")})
        }
        (Export::FibreChannel(export), _) => json!({"path": export.path}),
    }
}

/// `detach_disk`: withdraws the export first, because Ironic may refuse to delete the target.
pub(super) fn detach(call: &mut IronicCall, cid: &str, disk: &VolumeName) -> CpiResult<Value> {
    let node = vm::find_node(call, cid)?;
    let Some(target) = node.list_targets(&call.ironic)?.into_iter().find(|target| target.volume == *disk)
    else {
        if call.storage.size(disk)?.is_none() {
            return Err(disk.not_found_error());
        }
        call.log(format_args!("disk '{}' is not attached to VM '{cid}'", disk.cid()));
        return Ok(Value::Null);
    };
    call.storage.unexport(disk)?;
    if node.remove_target(&call.ironic, &target.uuid)? {
        call.log(format_args!("disk '{}' detached from VM '{cid}'", disk.cid()));
    } else {
        call.log(format_args!(
            "disk '{}' detached from VM '{cid}'; Ironic keeps its target until the node is off",
            disk.cid()
        ));
    }
    Ok(Value::Null)
}

/// `get_disks`: returns the persistent disks among the targets of the node.
pub(super) fn list_disks(call: &IronicCall, cid: &str) -> CpiResult<Value> {
    let node = vm::find_node(call, cid)?;
    let targets = node.list_targets(&call.ironic)?;
    let disks = targets.iter().filter(|target| target.kind == VolumeKind::Disk);
    Ok(disks.map(|target| json!(target.volume.cid())).collect())
}

/// `snapshot_disk`. The copy of an attached disk is crash-consistent, as after a power failure.
pub(super) fn snapshot(call: &mut IronicCall, disk: &VolumeName) -> CpiResult<Value> {
    let snapshot = VolumeName::new(VolumeKind::Snapshot);
    call.storage.copy(disk, &snapshot)?;
    call.log(format_args!("snapshot '{}' of disk '{}' created", snapshot.cid(), disk.cid()));
    Ok(json!(snapshot.cid()))
}

/// `delete_snapshot`: deletes the copy of the disk.
pub(super) fn delete_snapshot(call: &mut IronicCall, snapshot: &VolumeName) -> CpiResult<Value> {
    call.storage.delete(snapshot)?;
    Ok(Value::Null)
}

/// Returns the UUID of the node that the disk is attached to.
fn find_holder(call: &IronicCall, disk: &VolumeName) -> CpiResult<Option<String>> {
    let filter = ListOptions { returns_all_fields: true, ..ListOptions::default() };
    for target in call.ironic.list(Collection::Targets, &filter)? {
        if own_disk(&target) != Some(*disk) {
            continue;
        }
        let node = Node::read(&call.ironic, text(&target, "node_uuid"))?;
        if !node.detached_targets().iter().any(|uuid| uuid == text(&target, "uuid")) {
            return Ok(Some(node.uuid));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ironic::storage::Iscsi;

    #[test]
    fn hint_has_a_path_only_if_the_root_is_on_iscsi() {
        let export = Export::Iscsi(Iscsi {
            portals: vec!["10.0.0.2:3260".to_owned(), "10.0.1.2:3260".to_owned()],
            iqns: vec!["iqn.x:disk".to_owned(); 2],
            luns: vec![1, 1],
        });
        let login = Login { user: "u".to_owned(), password: "p".to_owned() };
        let initiators = Initiators::Iscsi(vec!["iqn.y".to_owned()]);
        let path = "/dev/disk/by-path/ip-10.0.0.2:3260-iscsi-iqn.x:disk-lun-1";
        assert_eq!(hint(&export, &login, &initiators, true), json!({"path": path}));
        let settings =
            json!({"initiator_name": "iqn.y", "username": "u", "password": "p", "target": "10.0.0.2:3260"});
        assert_eq!(hint(&export, &login, &initiators, false), json!({"iscsi_settings": settings}));
        let properties = export.properties(&login);
        assert_eq!(properties["target_portals"], json!(["10.0.0.2:3260", "10.0.1.2:3260"]));
        assert_eq!(properties["target_luns"], json!([1, 1]));
    }
}
