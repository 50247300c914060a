//! VMs: a node that is claimed, booted from a clone of the stemcell, and given back.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::config_drive;
use super::leftovers;
use super::machine::{METADATA, Machine, capability, text};
use super::rpc::Call;
use super::storage::Login;
use super::volume::{Kind, Volume};
use crate::builtin::cpi::agent::Identity;
use crate::builtin::cpi::args::Hash;
use crate::builtin::cpi::failure::{Failure, Kind as FailureKind, Outcome};
use crate::ironic::{Collection, Filter, IronicError, Microversion, Object, Patch, Power, Provision};

/// The arguments of `create_vm`.
pub struct Wanted {
    pub agent_id: String,
    pub stemcell: Volume,
    pub cloud_properties: Hash,
    pub networks: Hash,
    pub env: Hash,
}

/// Provision states in which nothing is deployed.
const UNDEPLOYED: [&str; 3] = ["available", "manageable", "enroll"];
/// How often an allocation is tried that fails for a reason of Ironic's own.
const ALLOCATION_ATTEMPTS: u32 = 3;
/// How long one may take; it is a matter of a database.
const ALLOCATION_PATIENCE: Duration = Duration::from_secs(30);
const UNDECIDED: &str = "Ironic does not decide about the allocation";
const ALLOCATION_POLL: Duration = Duration::from_millis(200);

/// `create_vm`. Whatever fails, everything it made is unmade.
pub fn create(call: &mut Call, wanted: Wanted) -> Outcome<Value> {
    if call.storage.size(&wanted.stemcell)?.is_none() {
        return Err(wanted.stemcell.not_found());
    }
    leftovers::sweep(call)?;
    let cid = Volume::new(Kind::Root).cid();
    match make(call, &cid, wanted) {
        Ok(networks) => Ok(if call.v2 { json!([cid, networks]) } else { json!(cid) }),
        Err(failure) => {
            call.log(format_args!("VM '{cid}' could not be made: {failure}; undoing what was done"));
            if let Err(undoing) = delete(call, &cid) {
                let message = format!(
                    "{failure}; undoing it failed as well: {undoing}; delete_vm of '{cid}' tries again"
                );
                return Err(Failure { message, ..failure });
            }
            Err(failure)
        }
    }
}

fn make(call: &mut Call, cid: &str, wanted: Wanted) -> Outcome<Hash> {
    let failed = |message: String| Failure::new(FailureKind::VmCreationFailed, message);
    let extra = leftovers::mark(call, &wanted.agent_id)?;
    let node = claim(call, cid, &wanted.cloud_properties, extra)?;
    let machine = Machine::read(&call.ironic, &node)?;
    let name = format!(
        "node '{}'",
        [machine.text("name"), &node].into_iter().find(|name| !name.is_empty()).unwrap_or_default()
    );
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
    let (root, config) = (volume(Kind::Root)?, volume(Kind::Config)?);
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
    for (index, volume, kind) in [(0, &root, Kind::Root), (1, &config, Kind::Config)] {
        let login = Login::new(volume)?;
        let export = call.storage.export(volume, &initiators, &login)?;
        machine.add_target(&call.ironic, volume, kind, index, (&export, &login))?;
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
        .map_err(|error| failed(crate::Error::from(error).chain().join(": ")))?;
    leftovers::unmark(call, cid)?;
    call.log(format_args!("VM '{cid}' is deployed on {name} for agent '{}'", wanted.agent_id));
    Ok(networks)
}

/// Claims a node; its UUID.
fn claim(call: &mut Call, cid: &str, properties: &Hash, extra: Value) -> Outcome<String> {
    let wrong = |what: &str| Failure::call(format!("create_vm: cloud property {what}"));
    let class = properties.get("resource_class").and_then(Value::as_str).filter(|class| !class.is_empty());
    let class =
        class.ok_or_else(|| wrong("'resource_class' must name the class of nodes to take one from"))?;
    let traits = match properties.get("traits") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(traits)) if traits.iter().all(Value::is_string) => traits.clone(),
        Some(_) => return Err(wrong("'traits' must be an array of strings")),
    };
    let capabilities = match properties.get("capabilities") {
        None | Some(Value::Null) => Hash::new(),
        Some(Value::Object(capabilities)) if capabilities.values().all(Value::is_string) => {
            capabilities.clone()
        }
        Some(_) => return Err(wrong("'capabilities' must be a hash of strings")),
    };
    let filter = Filter {
        arguments: vec![("resource_class", class.to_owned()), ("provision_state", "available".to_owned())],
        detail: true,
        ..Filter::default()
    };
    let fits = |node: &Object| {
        let wanted = capabilities.iter();
        wanted.clone().all(|(name, value)| capability(node, name) == value.as_str())
            && node.get("maintenance") != Some(&json!(true))
            && node.get("instance_uuid").is_none_or(Value::is_null)
    };
    let none = || {
        let message = format!("no node of resource class '{class}' is available that has what is wanted");
        Failure::new(FailureKind::VmCreationFailed, message)
    };
    let candidates: Vec<String> = call
        .ironic
        .list(Collection::Nodes, &filter)?
        .iter()
        .filter(|node| fits(node))
        .map(|node| text(node, "uuid").to_owned())
        .collect();
    if candidates.is_empty() {
        return Err(none());
    }
    if call.ironic.version() < Microversion::ALLOCATIONS {
        return claim_by_hand(call, cid, &candidates, &traits)?.ok_or_else(none);
    }
    let mut allocation = Object::new();
    allocation.insert("uuid".into(), json!(cid));
    allocation.insert("resource_class".into(), json!(class));
    allocation.insert("traits".into(), Value::Array(traits));
    allocation.insert("candidate_nodes".into(), json!(candidates));
    allocation.insert("extra".into(), extra);
    let mut attempts = 1;
    loop {
        match allocate(call, cid, allocation.clone())? {
            Ok(node) => return Ok(node),
            // Not that there is no node, but that its database was busy, or something of the kind.
            Err(reason)
                if attempts < ALLOCATION_ATTEMPTS
                    && (reason.contains("Unexpected exception") || reason == UNDECIDED) =>
            {
                call.log(format_args!("the allocation failed and is tried again: {reason}"));
                call.ironic.delete(Collection::Allocations, cid)?;
                attempts += 1;
            }
            Err(reason) => return Err(Failure::new(FailureKind::VmCreationFailed, reason)),
        }
    }
}

/// Asks for an allocation and waits for its end: the node, or why there is none.
fn allocate(call: &Call, cid: &str, allocation: Object) -> Outcome<Result<String, String>> {
    call.ironic.create(Collection::Allocations, allocation)?;
    let begun = Instant::now();
    loop {
        let seen = call.ironic.get(Collection::Allocations, cid, &[])?;
        match text(&seen, "state") {
            "active" => return Ok(Ok(text(&seen, "node_uuid").to_owned())),
            "error" => return Ok(Err(text(&seen, "last_error").to_owned())),
            // A conductor that fails to write its decision leaves it at that.
            _ if begun.elapsed() > ALLOCATION_PATIENCE => return Ok(Err(UNDECIDED.to_owned())),
            _ => std::thread::sleep(ALLOCATION_POLL),
        }
    }
}

/// Without allocations whoever writes `instance_uuid` first has the node.
fn claim_by_hand(call: &Call, cid: &str, candidates: &[String], traits: &[Value]) -> Outcome<Option<String>> {
    if !traits.is_empty() {
        call.ironic.require(Microversion::ALLOCATIONS, "nodes by traits")?;
    }
    for node in candidates {
        match call.ironic.update(Collection::Nodes, node, &Patch::new().set(&["instance_uuid"], cid)) {
            Ok(_) => return Ok(Some(node.clone())),
            Err(IronicError::Refused { status: 409, .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
}

/// Networks with the addresses of the node's cards, by which the agent finds them.
fn with_addresses(call: &Call, node: &str, mut networks: Hash) -> Outcome<Hash> {
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
pub fn delete(call: &mut Call, cid: &str) -> Outcome<Value> {
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
    for kind in [Kind::Root, Kind::Config] {
        if let Some(volume) = Volume::parse(kind, cid) {
            call.storage.unexport(&volume)?;
            call.storage.delete(&volume)?;
        }
    }
    call.log(format_args!("VM '{cid}' deleted"));
    Ok(Value::Null)
}

/// Gives a node back: off, without volumes, undeployed.
fn release(call: &mut Call, machine: Machine) -> Outcome<()> {
    let node = machine.uuid.clone();
    // A deployment cannot be stopped while it is at work.
    let what = "to the end of what it does";
    let settled = call.ironic.wait(&node, call.deploy_patience, what, |node| {
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

/// `has_vm`.
pub fn has(call: &Call, cid: &str) -> Outcome<Value> {
    Ok(json!(Machine::of_vm(&call.ironic, cid)?.is_some()))
}

/// `reboot_vm`: on or off before, it is on afterwards. Off, it can let go of what was detached.
pub fn reboot(call: &mut Call, cid: &str) -> Outcome<Value> {
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
pub fn set_metadata(call: &Call, cid: &str, metadata: Hash) -> Outcome<Value> {
    let machine = require(call, cid)?;
    let patch = Patch::new().set(&["extra", METADATA], Value::Object(metadata));
    call.ironic.update(Collection::Nodes, &machine.uuid, &patch)?;
    Ok(Value::Null)
}

/// The node of a VM that must exist.
pub fn require(call: &Call, cid: &str) -> Outcome<Machine> {
    Machine::of_vm(&call.ironic, cid)?.ok_or_else(|| super::volume::not_found(Kind::Root, cid))
}
