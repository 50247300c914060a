//! VMs: a node that is claimed, booted from a clone of the stemcell, and given back.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::claim::claim;
use super::config_drive;
use super::leftovers;
use super::machine::{METADATA, Machine, text};
use super::rpc::IronicCall;
use super::storage::{FIRMWARE_ROOM, Login};
use super::volume::{Volume, VolumeKind};
use crate::cpi::agent::Identity;
use crate::cpi::args::Hash;
use crate::cpi::failure::{Failure, FailureKind, Outcome};
use ironic::{Collection, Filter, Microversion, Patch, Power, Provision};

/// The arguments of `create_vm`.
pub(super) struct Wanted {
    pub agent_id: String,
    pub stemcell: Volume,
    pub cloud_properties: Hash,
    pub networks: Hash,
    pub env: Hash,
}

/// Provision states in which nothing is deployed.
const UNDEPLOYED: [&str; 3] = ["available", "manageable", "enroll"];
/// After how long a deletion that failed is tried again: at first, and at most.
const DELETION_PAUSE: Duration = Duration::from_secs(1);
const DELETION_PAUSE_LIMIT: Duration = Duration::from_secs(10);

/// `create_vm`. Whatever fails, everything it made is unmade.
pub(super) fn create(call: &mut IronicCall, wanted: Wanted) -> Outcome<Value> {
    if call.storage.size(&wanted.stemcell)?.is_none() {
        return Err(wanted.stemcell.not_found());
    }
    leftovers::sweep(call)?;
    let cid = Volume::new(VolumeKind::Root).cid();
    match make(call, &cid, wanted) {
        Ok(networks) => Ok(if call.v2 { json!([cid, networks]) } else { json!(cid) }),
        Err(failure) => {
            call.log(format_args!("VM '{cid}' could not be made: {failure}; undoing what was done"));
            match delete_patiently(call, &cid) {
                Ok(_) => Err(failure),
                Err(undoing) => Err(not_undone(call, &cid, failure, undoing)),
            }
        }
    }
}

/// What to say when undoing fails, too: what is left, and who takes it away. Trying again helps, and does no harm, where
/// that finds what is left.
fn not_undone(call: &mut IronicCall, cid: &str, failure: Failure, undoing: Failure) -> Failure {
    // It has been waited for.
    call.ironic.set_outage_patience(Duration::ZERO);
    let parts = parts(call, cid).into_iter().filter_map(|(what, there)| match there {
        Ok(true) => Some(what),
        Ok(false) => None,
        Err(_) => Some(format!("perhaps {what}")),
    });
    let left = parts.collect::<Vec<_>>().join(", ");
    let found = leftovers::are_found(call);
    let next = match found {
        true => "the next create_vm, delete_vm or delete_stemcell from here takes that away, and so does ",
        false => "what takes that away is ",
    };
    Failure {
        message: format!(
            "{failure}; undoing it failed as well: {undoing}; what is left: {left}; {next}delete_vm of '{cid}'"
        ),
        ok_to_retry: found && undoing.ok_to_retry,
        ..failure
    }
}

/// What there may be of a VM, all of which `delete_vm` takes away: in words, and whether it is there.
fn parts(call: &IronicCall, cid: &str) -> Vec<(String, Outcome<bool>)> {
    let machine = Machine::of_vm(&call.ironic, cid);
    let node = match &machine {
        Ok(Some(machine)) => machine.described(),
        _ => format!("the node whose instance_uuid is '{cid}'"),
    };
    let mut parts = vec![(node, machine.map(|machine| machine.is_some()))];
    if call.ironic.version() >= Microversion::ALLOCATIONS {
        let allocation = call.ironic.find(Collection::Allocations, cid);
        let there = allocation.map(|allocation| allocation.is_some()).map_err(Failure::from);
        parts.push((format!("allocation '{cid}'"), there));
    }
    for volume in volumes(cid) {
        let there = call.storage.size(&volume).map(|size| size.is_some());
        parts.push((format!("volume '{volume}'"), there));
    }
    parts
}

/// The volumes that are a VM's own.
fn volumes(cid: &str) -> impl Iterator<Item = Volume> {
    [VolumeKind::Root, VolumeKind::Config].into_iter().filter_map(|kind| Volume::parse(kind, cid))
}

fn make(call: &mut IronicCall, cid: &str, wanted: Wanted) -> Outcome<Hash> {
    let failed = |message: String| Failure::new(FailureKind::VmCreationFailed, message);
    let extra = leftovers::mark(call, &wanted.agent_id)?;
    let node = claim(call, cid, &wanted.cloud_properties, extra)?;
    let machine = Machine::read(&call.ironic, &node)?;
    let name = machine.described();
    call.log(format_args!("VM '{cid}' gets {name}"));

    if !["", "external"].contains(&machine.text("storage_interface")) {
        let found = machine.text("storage_interface");
        return Err(failed(format!(
            "{name} has the storage interface '{found}'; booting from volume needs 'external'"
        )));
    }
    let initiators =
        machine.initiators(&call.ironic)?.map_err(|lacking| failed(format!("{name} has {lacking}")))?;
    if !machine.is_off() {
        call.ironic.power(&node, Power::Off, call.power_patience)?;
    }

    // Cannot fail: the CID was made of one.
    let volume = |kind| Volume::parse(kind, cid).ok_or_else(|| Failure::cloud("a CID that is none"));
    let (root, config) = (volume(VolumeKind::Root)?, volume(VolumeKind::Config)?);
    call.storage.copy(&wanted.stemcell, &root)?;
    if let Some(size) = wanted.cloud_properties.get("root_disk_size") {
        let size = size
            .as_u64()
            .ok_or_else(|| Failure::call("create_vm: root_disk_size must be a number of MiB"))?;
        call.storage.grow(&root, size)?;
    }
    let networks = with_addresses(call, &node, wanted.networks)?;
    let settings = call.config.agent.settings(Identity {
        agent_id: &wanted.agent_id,
        vm_cid: cid,
        networks: &networks,
        env: wanted.env,
        ntp: &call.config.ntp,
    })?;
    config_drive::make(call.storage.as_ref(), &config, &settings)?;
    let mut firmware_bytes = initiators.firmware_bytes();
    for (index, volume, kind) in [(0, &root, VolumeKind::Root), (1, &config, VolumeKind::Config)] {
        let login = Login::new(volume)?;
        let export = call.storage.export(volume, &initiators, &login)?;
        firmware_bytes += export.firmware_bytes(&login);
        machine.add_target(&call.ironic, volume, kind, index, (&export, &login))?;
    }

    if firmware_bytes > FIRMWARE_ROOM && machine.capability("boot_mode") != Some("uefi") {
        call.log(format_args!(
            "{name} will not boot with BIOS: its initiator's name, the names of its targets and their logins take {firmware_bytes} bytes, and iPXE has room for {FIRMWARE_ROOM}; shorten `storage.iqn` or the initiator's name"
        ));
    }

    let fitness = call.ironic.validate(&node)?;
    for interface in ["boot", "deploy", "network", "power", "storage"] {
        let found = fitness.get(interface);
        if found.and_then(|found| found.get("result")) != Some(&json!(true)) {
            let reason = found.and_then(|found| found.get("reason")).and_then(Value::as_str);
            let reason = reason.unwrap_or("no reason given");
            return Err(failed(format!("{name} is not fit to be deployed: {interface}: {reason}")));
        }
    }
    call.ironic
        .provision(&node, Provision::Active, call.deploy_patience)
        .map_err(|error| Failure { kind: FailureKind::VmCreationFailed, ..Failure::from(error) })?;
    leftovers::unmark(call, cid)?;
    call.log(format_args!("VM '{cid}' is deployed on {name} for agent '{}'", wanted.agent_id));
    Ok(networks)
}

/// Networks with the addresses of the node's cards, by which the agent finds them.
fn with_addresses(call: &IronicCall, node: &str, mut networks: Hash) -> Outcome<Hash> {
    let ports = call.ironic.list(Collection::Ports, &Filter::of_node(node))?;
    let mut addresses = ports.iter().map(|port| text(port, "address").to_owned());
    for (name, network) in &mut networks {
        let Value::Object(network) = network else {
            return Err(Failure::call(format!("create_vm: network '{name}' must be a hash")));
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

/// `delete_vm`: everything that can be found from the CID is unmade, in an order that a killed call can be repeated in.
/// Connectors stay, and so do disks.
pub(super) fn delete(call: &mut IronicCall, cid: &str) -> Outcome<Value> {
    if let Some(machine) = Machine::of_vm(&call.ironic, cid)? {
        release(call, machine)?;
    } else {
        call.log(format_args!("no node has VM '{cid}'"));
    }
    if call.ironic.version() >= Microversion::ALLOCATIONS {
        match call.ironic.delete(Collection::Allocations, cid) {
            Err(error) if !error.is_not_found() => return Err(error.into()),
            _ => {}
        }
    } else if let Some(machine) = Machine::of_vm(&call.ironic, cid)? {
        call.ironic.update(Collection::Nodes, &machine.uuid, &Patch::new().remove(&["instance_uuid"]))?;
    }
    for volume in volumes(cid) {
        call.storage.unexport(&volume)?;
        call.storage.delete(&volume)?;
    }
    call.log(format_args!("VM '{cid}' deleted"));
    Ok(Value::Null)
}

/// The same, again while what fails may pass by itself.
pub(super) fn delete_patiently(call: &mut IronicCall, cid: &str) -> Outcome<Value> {
    let begun = Instant::now();
    let mut pause = DELETION_PAUSE;
    loop {
        match delete(call, cid) {
            Err(failure) if failure.ok_to_retry && begun.elapsed() < call.outage_patience => {
                call.log(format_args!("VM '{cid}' cannot be deleted yet: {failure}; trying again"));
                std::thread::sleep(pause);
                pause = DELETION_PAUSE_LIMIT.min(pause * 2);
            }
            done => return done,
        }
    }
}

/// Gives a node back: off, without volumes, undeployed.
fn release(call: &mut IronicCall, machine: Machine) -> Outcome<()> {
    let node = machine.uuid.clone();
    // Ironic cannot abort a running deployment.
    let idle = "done with its current operation";
    let settled = call.ironic.wait(&node, call.deploy_patience, idle, |node| {
        let state = text(node, "provision_state");
        Ok(!["deploying", "deleting", "cleaning"].contains(&state) && text(node, "reservation").is_empty())
    })?;
    let machine = Machine { uuid: node.clone(), object: settled };
    if !machine.is_off() {
        call.ironic.power(&node, Power::Off, call.power_patience)?;
    }
    for target in machine.targets(&call.ironic)? {
        call.storage.unexport(&target.volume)?;
        machine.remove_target(&call.ironic, &target.uuid)?;
    }
    let machine = Machine::read(&call.ironic, &node)?;
    machine.reconcile(&call.ironic)?;
    Machine::read(&call.ironic, &node)?.clear_extra(&call.ironic)?;
    if !UNDEPLOYED.contains(&machine.text("provision_state")) {
        call.ironic.provision(&node, Provision::Deleted, call.deploy_patience)?;
    }
    Ok(())
}

/// `has_vm`: whether anything of it is there. Who asks after a deletion that failed forgets the VM when told no.
pub(super) fn has(call: &IronicCall, cid: &str) -> Outcome<Value> {
    for (_, there) in parts(call, cid) {
        if there? {
            return Ok(json!(true));
        }
    }
    Ok(json!(false))
}

/// `reboot_vm`: on or off before, it is on afterwards. Off, it can let go of what was detached.
pub(super) fn reboot(call: &mut IronicCall, cid: &str) -> Outcome<Value> {
    let machine = require(call, cid)?;
    if machine.pending().is_empty() && !machine.is_off() {
        call.ironic.power(&machine.uuid, Power::Reboot, call.power_patience)?;
    } else {
        if !machine.is_off() {
            call.ironic.power(&machine.uuid, Power::Off, call.power_patience)?;
        }
        let gone = machine.reconcile(&call.ironic)?;
        call.ironic.power(&machine.uuid, Power::On, call.power_patience)?;
        call.log(format_args!("{gone} targets of disks that were detached are gone"));
    }
    call.log(format_args!("VM '{cid}' booted again"));
    Ok(Value::Null)
}

/// `set_vm_metadata`.
pub(super) fn set_metadata(call: &IronicCall, cid: &str, metadata: Hash) -> Outcome<Value> {
    let machine = require(call, cid)?;
    let patch = Patch::new().set(&["extra", METADATA], Value::Object(metadata));
    call.ironic.update(Collection::Nodes, &machine.uuid, &patch)?;
    Ok(Value::Null)
}

/// The node of a VM that must exist.
pub(super) fn require(call: &IronicCall, cid: &str) -> Outcome<Machine> {
    Machine::of_vm(&call.ironic, cid)?.ok_or_else(|| super::volume::not_found(VolumeKind::Root, cid))
}
