//! VMs: claims a node, boots it from a clone of the stemcell, and returns the node to Ironic.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::claim::claim;
use super::config_drive;
use super::leftovers;
use super::node::{METADATA_KEY, Node, text};
use super::rpc::IronicCall;
use super::storage::{FIRMWARE_ROOM_BYTES, Login};
use super::volume::{VolumeKind, VolumeName};
use crate::cpi::agent_settings::AgentSettingsInput;
use crate::cpi::failure::{CpiFailure, CpiResult, FailureKind};
use base::JsonObject;
use ironic::{Collection, ListOptions, Microversion, Patch, Power, Provision};

/// The arguments of `create_vm` of this CPI, which takes no disks.
pub(super) struct IronicVmArguments {
    pub agent_id: String,
    pub stemcell: VolumeName,
    pub cloud_properties: JsonObject,
    pub networks: JsonObject,
    pub env: JsonObject,
}

/// Provision states in which nothing is deployed.
const UNDEPLOYED_STATES: [&str; 3] = ["available", "manageable", "enroll"];
/// The pause before the first retry of a deletion. It doubles up to a limit.
const FIRST_DELETION_PAUSE: Duration = Duration::from_secs(1);
const MAX_DELETION_PAUSE: Duration = Duration::from_secs(10);

/// `create_vm`: returns the CID and, under contract v2, the networks. After an error, deletes everything that
/// it created.
pub(super) fn create(call: &mut IronicCall, arguments: IronicVmArguments) -> CpiResult<Value> {
    if call.storage.size(&arguments.stemcell)?.is_none() {
        return Err(arguments.stemcell.not_found_error());
    }
    leftovers::clean_up(call)?;
    let cid = VolumeName::new(VolumeKind::Root).cid();
    match deploy_vm(call, &cid, arguments) {
        Ok(networks) => Ok(if call.is_v2 { json!([cid, networks]) } else { json!(cid) }),
        Err(failure) => {
            call.log(format_args!("creating VM '{cid}' failed: {failure}; deleting its parts"));
            match delete_with_retries(call, &cid) {
                Ok(_) => Err(failure),
                Err(cleanup_failure) => Err(cleanup_error(call, &cid, failure, cleanup_failure)),
            }
        }
    }
}

/// Returns the error of a `create_vm` that failed and could not delete the parts of the VM. It lists the
/// parts, and the calls that delete them. The caller may retry if the retry finds these parts as leftovers.
fn cleanup_error(
    call: &mut IronicCall,
    cid: &str,
    failure: CpiFailure,
    cleanup_failure: CpiFailure,
) -> CpiFailure {
    // The deletion has already waited for the server.
    call.ironic.set_outage_timeout(Duration::ZERO);
    let parts = find_parts(call, cid).into_iter().filter_map(|(part, exists)| match exists {
        Ok(true) => Some(part),
        Ok(false) => None,
        Err(_) => Some(format!("perhaps {part}")),
    });
    let leftovers = parts.collect::<Vec<_>>().join(", ");
    let can_be_found_later = leftovers::can_be_found(call);
    let retry_note = match can_be_found_later {
        true => "the next create_vm, delete_vm or delete_stemcell from this machine deletes it, and so does ",
        false => "to delete it, call ",
    };
    CpiFailure {
        message: format!(
            "{failure}; cleaning up failed too: {cleanup_failure}; left over: {leftovers}; \
             {retry_note}delete_vm of '{cid}'"
        ),
        ok_to_retry: can_be_found_later && cleanup_failure.ok_to_retry,
        made_nothing: false,
        ..failure
    }
}

/// Looks for the parts of a VM that `delete_vm` deletes. Returns a description of each possible part, and
/// true if the part exists.
fn find_parts(call: &IronicCall, cid: &str) -> Vec<(String, CpiResult<bool>)> {
    let node = Node::find_by_vm(&call.ironic, cid);
    let name = match &node {
        Ok(Some(node)) => node.label(),
        _ => format!("the node whose instance_uuid is '{cid}'"),
    };
    let mut parts = vec![(name, node.map(|node| node.is_some()))];
    if call.ironic.version() >= Microversion::ALLOCATIONS {
        let allocation = call.ironic.find(Collection::Allocations, cid);
        let exists = allocation.map(|allocation| allocation.is_some()).map_err(CpiFailure::from);
        parts.push((format!("allocation '{cid}'"), exists));
    }
    for volume in volumes(cid) {
        let exists = call.storage.size(&volume).map(|size| size.is_some());
        parts.push((format!("volume '{volume}'"), exists));
    }
    parts
}

/// Returns the volumes that belong to a VM: root and config drive.
fn volumes(cid: &str) -> impl Iterator<Item = VolumeName> {
    [VolumeKind::Root, VolumeKind::Config].into_iter().filter_map(|kind| VolumeName::parse(kind, cid))
}

/// Creates the parts of a VM and deploys it. Returns its networks. The caller deletes the parts after an
/// error.
fn deploy_vm(call: &mut IronicCall, cid: &str, arguments: IronicVmArguments) -> CpiResult<JsonObject> {
    let creation_error = |message: String| CpiFailure::new(FailureKind::VmCreationFailed, message);
    let extra = leftovers::creator_extra(call, &arguments.agent_id)?;
    let node_uuid = claim(call, cid, &arguments.cloud_properties, extra)?;
    let node = Node::read(&call.ironic, &node_uuid)?;
    let name = node.label();
    call.log(format_args!("VM '{cid}' uses {name}"));

    if !["", "external"].contains(&node.text("storage_interface")) {
        let storage_interface = node.text("storage_interface");
        return Err(creation_error(format!(
            "{name} has the storage interface '{storage_interface}'; booting from volume needs 'external'"
        )));
    }
    let initiators = node
        .list_initiators(&call.ironic)?
        .map_err(|missing| creation_error(format!("{name} has {missing}")))?;
    if !node.is_off() {
        call.ironic.set_power(&node_uuid, Power::Off, call.power_timeout)?;
    }

    // This cannot fail, because `create` took the CID from a volume.
    let volume = |kind| {
        VolumeName::parse(kind, cid).ok_or_else(|| CpiFailure::cloud(format!("'{cid}' is not a UUID")))
    };
    let (root, config) = (volume(VolumeKind::Root)?, volume(VolumeKind::Config)?);
    call.storage.copy(&arguments.stemcell, &root)?;
    if let Some(size) = arguments.cloud_properties.get("root_disk_size") {
        let size = size.as_u64().ok_or_else(|| {
            CpiFailure::invalid_call("create_vm: root_disk_size must be a whole number of MiB")
        })?;
        call.storage.grow(&root, size)?;
    }
    let networks = add_mac_addresses(call, &node_uuid, arguments.networks)?;
    let settings = call.config.agent.settings(AgentSettingsInput {
        agent_id: &arguments.agent_id,
        vm_cid: cid,
        networks: &networks,
        env: arguments.env,
        ntp: &call.config.ntp,
    })?;
    config_drive::create_drive(call.storage.as_ref(), &config, &settings)?;
    let mut firmware_bytes = initiators.firmware_bytes();
    for (index, volume, kind) in [(0, &root, VolumeKind::Root), (1, &config, VolumeKind::Config)] {
        let login = Login::new(volume)?;
        let export = call.storage.export(volume, &initiators, &login)?;
        firmware_bytes += export.firmware_bytes(&login);
        node.add_target(&call.ironic, volume, kind, index, &export, &login)?;
    }

    if firmware_bytes > FIRMWARE_ROOM_BYTES && node.capability("boot_mode") != Some("uefi") {
        call.log(format_args!(
            "{name} will not boot with BIOS: the names of its initiator and targets and their logins take \
             {firmware_bytes} bytes, and iPXE has room for {FIRMWARE_ROOM_BYTES}; shorten `storage.iqn` or \
             the initiator's name, or set the capability boot_mode:uefi if the machine boots with UEFI"
        ));
    }

    let verdicts = call.ironic.validate(&node_uuid)?;
    for interface in ["boot", "deploy", "network", "power", "storage"] {
        let verdict = verdicts.get(interface);
        if verdict.and_then(|verdict| verdict.get("result")) != Some(&json!(true)) {
            let reason = verdict.and_then(|verdict| verdict.get("reason")).and_then(Value::as_str);
            let reason = reason.unwrap_or("no reason given");
            return Err(creation_error(format!(
                "{name} cannot be deployed: its {interface} interface: {reason}"
            )));
        }
    }
    call.ironic
        .provision(&node_uuid, Provision::Active, call.deploy_timeout)
        .map_err(|error| CpiFailure { kind: FailureKind::VmCreationFailed, ..CpiFailure::from(error) })?;
    leftovers::remove_creator(call, cid)?;
    call.log(format_args!("VM '{cid}' is deployed on {name} for agent '{}'", arguments.agent_id));
    Ok(networks)
}

/// Adds the MAC addresses of the node's ports to networks that have none. The agent finds network cards by
/// these addresses.
fn add_mac_addresses(call: &IronicCall, node: &str, mut networks: JsonObject) -> CpiResult<JsonObject> {
    let ports = call.ironic.list(Collection::Ports, &ListOptions::for_node(node))?;
    let mut addresses = ports.iter().map(|port| text(port, "address").to_owned());
    for (name, network) in &mut networks {
        let Value::Object(network) = network else {
            return Err(CpiFailure::invalid_call(format!("create_vm: network '{name}' must be an object")));
        };
        let is_card = network.get("type").and_then(Value::as_str) != Some("vip");
        if is_card
            && network.get("mac").is_none_or(Value::is_null)
            && let Some(address) = addresses.next()
        {
            network.insert("mac".to_owned(), json!(address));
        }
    }
    Ok(networks)
}

/// `delete_vm`: deletes everything that can be found from the CID. Connectors and persistent disks stay.
///
/// The call can be repeated if it is killed: `instance_uuid` is cleared only after everything that is found
/// through it is deleted.
pub(super) fn delete(call: &mut IronicCall, cid: &str) -> CpiResult<Value> {
    if let Some(node) = Node::find_by_vm(&call.ironic, cid)? {
        return_node(call, node)?;
    } else {
        call.log(format_args!("VM '{cid}' has no node"));
    }
    if call.ironic.version() >= Microversion::ALLOCATIONS {
        match call.ironic.delete(Collection::Allocations, cid) {
            Err(error) if !error.is_not_found() => return Err(error.into()),
            _ => {}
        }
    } else if let Some(node) = Node::find_by_vm(&call.ironic, cid)? {
        call.ironic.update(Collection::Nodes, &node.uuid, &Patch::new().remove(&["instance_uuid"]))?;
    }
    for volume in volumes(cid) {
        call.storage.unexport(&volume)?;
        call.storage.delete(&volume)?;
    }
    call.log(format_args!("VM '{cid}' deleted"));
    Ok(Value::Null)
}

/// Like [`delete`], but retries temporary errors for `outage_timeout`.
pub(super) fn delete_with_retries(call: &mut IronicCall, cid: &str) -> CpiResult<Value> {
    let start = Instant::now();
    let mut pause = FIRST_DELETION_PAUSE;
    loop {
        match delete(call, cid) {
            Err(failure) if failure.ok_to_retry && start.elapsed() < call.outage_timeout => {
                call.log(format_args!("deleting VM '{cid}' failed, retrying: {failure}"));
                std::thread::sleep(pause);
                pause = MAX_DELETION_PAUSE.min(pause * 2);
            }
            result => return result,
        }
    }
}

/// Returns a node to Ironic: powers it off, deletes its targets and undeploys it.
fn return_node(call: &mut IronicCall, node: Node) -> CpiResult<()> {
    let uuid = node.uuid;
    // Ironic cannot abort a running deployment.
    let idle = "done with its current operation";
    let object = call.ironic.wait(&uuid, call.deploy_timeout, idle, |node| {
        let state = text(node, "provision_state");
        Ok(!["deploying", "deleting", "cleaning"].contains(&state) && text(node, "reservation").is_empty())
    })?;
    let node = Node { uuid, object };
    if !node.is_off() {
        call.ironic.set_power(&node.uuid, Power::Off, call.power_timeout)?;
    }
    for target in node.list_targets(&call.ironic)? {
        call.storage.unexport(&target.volume)?;
        node.remove_target(&call.ironic, &target.uuid)?;
    }
    let node = Node::read(&call.ironic, &node.uuid)?;
    node.delete_detached_targets(&call.ironic)?;
    Node::read(&call.ironic, &node.uuid)?.clear_extra(&call.ironic)?;
    if !UNDEPLOYED_STATES.contains(&node.text("provision_state")) {
        call.ironic.provision(&node.uuid, Provision::Deleted, call.deploy_timeout)?;
    }
    Ok(())
}

/// `has_vm`: returns true if any part of the VM exists. If the answer is false after a failed `delete_vm`,
/// the caller forgets its record of the VM, so no part may remain.
pub(super) fn exists(call: &IronicCall, cid: &str) -> CpiResult<Value> {
    for (_, exists) in find_parts(call, cid) {
        if exists? {
            return Ok(json!(true));
        }
    }
    Ok(json!(false))
}

/// `reboot_vm`: leaves the machine on, even if it was off. If there are detached targets to delete, powers
/// the machine off first.
pub(super) fn reboot(call: &mut IronicCall, cid: &str) -> CpiResult<Value> {
    let node = find_node(call, cid)?;
    if node.detached_targets().is_empty() && !node.is_off() {
        call.ironic.set_power(&node.uuid, Power::Reboot, call.power_timeout)?;
    } else {
        if !node.is_off() {
            call.ironic.set_power(&node.uuid, Power::Off, call.power_timeout)?;
        }
        let deleted_count = node.delete_detached_targets(&call.ironic)?;
        call.ironic.set_power(&node.uuid, Power::On, call.power_timeout)?;
        call.log(format_args!("{deleted_count} targets of detached disks deleted"));
    }
    call.log(format_args!("VM '{cid}' rebooted"));
    Ok(Value::Null)
}

/// `set_vm_metadata`: replaces the metadata in `extra` of the node.
pub(super) fn set_metadata(call: &IronicCall, cid: &str, metadata: JsonObject) -> CpiResult<Value> {
    let node = find_node(call, cid)?;
    let patch = Patch::new().set(&["extra", METADATA_KEY], Value::Object(metadata));
    call.ironic.update(Collection::Nodes, &node.uuid, &patch)?;
    Ok(Value::Null)
}

/// Returns the node of a VM, or the error "VM not found".
pub(super) fn find_node(call: &IronicCall, cid: &str) -> CpiResult<Node> {
    Node::find_by_vm(&call.ironic, cid)?.ok_or_else(|| super::volume::not_found_error(VolumeKind::Root, cid))
}
