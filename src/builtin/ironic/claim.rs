//! A node for a VM: an allocation of Ironic's, or, where that has none, the first who writes its name.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::leftovers;
use super::machine::{capability, described, text};
use super::rpc::IronicCall;
use crate::cpi::args::Hash;
use crate::cpi::failure::{Failure, FailureKind, Outcome};
use ironic::{Collection, Filter, IronicError, Microversion, Object, Patch};

/// How often an allocation is tried that fails for a reason of Ironic's own.
const ALLOCATION_ATTEMPTS: u32 = 3;
/// How long one may take; it is a matter of a database.
const ALLOCATION_PATIENCE: Duration = Duration::from_secs(30);
const UNDECIDED: &str = "Ironic does not decide about the allocation";
const ALLOCATION_POLL: Duration = Duration::from_millis(200);
/// Of how many nodes it is told why they cannot be taken.
const TOLD_NODES: usize = 5;

/// Claims a node; its UUID.
pub(super) fn claim(call: &mut IronicCall, cid: &str, properties: &Hash, extra: Value) -> Outcome<String> {
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
    let candidates: Vec<String> = call
        .ironic
        .list(Collection::Nodes, &filter)?
        .iter()
        .filter(|node| lacks(node, &capabilities).is_none())
        .map(|node| text(node, "uuid").to_owned())
        .collect();
    if candidates.is_empty() {
        return Err(none(call, class, &capabilities)?);
    }
    if call.ironic.version() < Microversion::ALLOCATIONS {
        return match claim_by_hand(call, cid, &candidates, &traits)? {
            Some(node) => Ok(node),
            None => Err(none(call, class, &capabilities)?),
        };
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

/// Why a node cannot be taken; nothing if it can.
fn lacks(node: &Object, capabilities: &Hash) -> Option<String> {
    if let Some(vm) = node.get("instance_uuid").and_then(Value::as_str) {
        return Some(format!("has VM '{vm}'"));
    }
    if node.get("maintenance") == Some(&json!(true)) {
        return Some("is in maintenance".to_owned());
    }
    if text(node, "provision_state") != "available" {
        return Some(format!("is '{}'", text(node, "provision_state")));
    }
    let lacking = capabilities.iter().find(|(name, value)| capability(node, name) != value.as_str());
    lacking
        .map(|(name, value)| format!("lacks the capability '{name}:{}'", value.as_str().unwrap_or_default()))
}

/// The failure that says that there is no node, and why each one of the class is none. Of VMs the agent is told, by which
/// one is found that nobody knows the CID of.
fn none(call: &IronicCall, class: &str, capabilities: &Hash) -> Outcome<Failure> {
    let of_class = vec![("resource_class", class.to_owned())];
    let filter = Filter { arguments: of_class.clone(), detail: true, ..Filter::default() };
    let nodes = call.ironic.list(Collection::Nodes, &filter)?;
    let allocations = match call.ironic.version() >= Microversion::ALLOCATIONS {
        true => {
            let filter = Filter { arguments: of_class, ..Filter::default() };
            call.ironic.list(Collection::Allocations, &filter)?
        }
        false => Vec::new(),
    };
    let agent = |node: &Object| {
        let vm = text(node, "instance_uuid");
        let allocation = allocations.iter().find(|allocation| text(allocation, "uuid") == vm)?;
        Some(format!(" of agent '{}'", leftovers::agent_of(allocation)?))
    };
    let told = nodes.iter().take(TOLD_NODES).map(|node| {
        let reason = lacks(node, capabilities).unwrap_or_else(|| "was taken just now".to_owned());
        format!("{} {reason}{}", described(node), agent(node).unwrap_or_default())
    });
    let mut told: Vec<String> = told.collect();
    match nodes.len() {
        0 => told.push("there is none of that class".to_owned()),
        count if count > TOLD_NODES => told.push(format!("and {} more", count - TOLD_NODES)),
        _ => {}
    }
    let told = told.join(", ");
    let message = format!("no node of resource class '{class}' is available that has what is wanted: {told}");
    Ok(Failure::new(FailureKind::VmCreationFailed, message))
}

/// Asks for an allocation and waits for its end: the node, or why there is none.
fn allocate(call: &IronicCall, cid: &str, allocation: Object) -> Outcome<Result<String, String>> {
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
fn claim_by_hand(
    call: &IronicCall,
    cid: &str,
    candidates: &[String],
    traits: &[Value],
) -> Outcome<Option<String>> {
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
