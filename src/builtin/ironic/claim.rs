//! Claims a node for a VM: by an allocation, or, if Ironic is too old for allocations, by setting
//! `instance_uuid`.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::leftovers;
use super::node::{capability, label, text};
use super::rpc::IronicCall;
use crate::cpi::failure::{CpiFailure, CpiResult, FailureKind};
use base::JsonObject;
use ironic::{Collection, IronicError, ListOptions, Microversion, Patch};

/// The number of attempts at an allocation that fails because of an internal error of Ironic.
const MAX_ALLOCATION_ATTEMPTS: u32 = 3;
/// The timeout of one attempt. Ironic decides from its database alone.
const ALLOCATION_TIMEOUT: Duration = Duration::from_secs(30);
/// The message after [`ALLOCATION_TIMEOUT`], whose duration it contains.
const UNDECIDED_MESSAGE: &str = "Ironic has not decided about the allocation after 30 s";
const POLL_PAUSE: Duration = Duration::from_millis(200);
/// The number of nodes that an error lists.
const MAX_LISTED_NODES: usize = 5;

/// Claims a node of the resource class in the cloud properties, and returns its UUID. `extra` is stored in
/// the allocation.
pub(super) fn claim(
    call: &mut IronicCall,
    cid: &str,
    properties: &JsonObject,
    extra: Value,
) -> CpiResult<String> {
    let property_error =
        |problem: &str| CpiFailure::invalid_call(format!("create_vm: cloud property {problem}"));
    let class = properties.get("resource_class").and_then(Value::as_str).filter(|class| !class.is_empty());
    let class = class
        .ok_or_else(|| property_error("'resource_class' must name the resource class of the node to use"))?;
    let traits = match properties.get("traits") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(traits)) if traits.iter().all(Value::is_string) => traits.clone(),
        Some(_) => return Err(property_error("'traits' must be a list of strings")),
    };
    let capabilities = match properties.get("capabilities") {
        None | Some(Value::Null) => JsonObject::new(),
        Some(Value::Object(capabilities)) if capabilities.values().all(Value::is_string) => {
            capabilities.clone()
        }
        Some(_) => return Err(property_error("'capabilities' must be an object of strings")),
    };
    let filter = ListOptions {
        filters: vec![("resource_class", class.to_owned()), ("provision_state", "available".to_owned())],
        returns_all_fields: true,
        ..ListOptions::default()
    };
    let candidates: Vec<String> = call
        .ironic
        .list(Collection::Nodes, &filter)?
        .iter()
        .filter(|node| obstacle(node, &capabilities).is_none())
        .map(|node| text(node, "uuid").to_owned())
        .collect();
    if candidates.is_empty() {
        return Err(fetch_no_node_error(call, class, &capabilities)?);
    }
    if call.ironic.version() < Microversion::ALLOCATIONS {
        return match claim_without_allocation(call, cid, &candidates, &traits)? {
            Some(node) => Ok(node),
            None => Err(fetch_no_node_error(call, class, &capabilities)?),
        };
    }
    let mut allocation = JsonObject::new();
    allocation.insert("uuid".into(), json!(cid));
    allocation.insert("resource_class".into(), json!(class));
    allocation.insert("traits".into(), Value::Array(traits));
    allocation.insert("candidate_nodes".into(), json!(candidates));
    allocation.insert("extra".into(), extra);
    let mut attempts = 1;
    loop {
        match allocate(call, cid, allocation.clone())? {
            Ok(node) => return Ok(node),
            // This is an internal error of Ironic, such as a busy database. There may be a free node.
            Err(reason)
                if attempts < MAX_ALLOCATION_ATTEMPTS
                    && (reason.contains("Unexpected exception") || reason == UNDECIDED_MESSAGE) =>
            {
                call.log(format_args!("the allocation failed, retrying: {reason}"));
                call.ironic.delete(Collection::Allocations, cid)?;
                attempts += 1;
            }
            Err(reason) => return Err(CpiFailure::new(FailureKind::VmCreationFailed, reason)),
        }
    }
}

/// Returns the reason why a node cannot be claimed, or `None` if it can.
fn obstacle(node: &JsonObject, capabilities: &JsonObject) -> Option<String> {
    if let Some(vm) = node.get("instance_uuid").and_then(Value::as_str) {
        return Some(format!("has VM '{vm}'"));
    }
    if node.get("maintenance") == Some(&json!(true)) {
        return Some("is in maintenance".to_owned());
    }
    if text(node, "provision_state") != "available" {
        return Some(format!("is '{}'", text(node, "provision_state")));
    }
    let missing_capability =
        capabilities.iter().find(|(name, value)| capability(node, name) != value.as_str());
    missing_capability
        .map(|(name, value)| format!("lacks the capability '{name}:{}'", value.as_str().unwrap_or_default()))
}

/// Returns the error for "no free node", with the reason for each node of the class. It names the agents of
/// VMs, so that the operator can find a VM whose CID was lost.
fn fetch_no_node_error(call: &IronicCall, class: &str, capabilities: &JsonObject) -> CpiResult<CpiFailure> {
    let class_filter = vec![("resource_class", class.to_owned())];
    let filter =
        ListOptions { filters: class_filter.clone(), returns_all_fields: true, ..ListOptions::default() };
    let nodes = call.ironic.list(Collection::Nodes, &filter)?;
    let allocations = match call.ironic.version() >= Microversion::ALLOCATIONS {
        true => {
            let filter = ListOptions { filters: class_filter, ..ListOptions::default() };
            call.ironic.list(Collection::Allocations, &filter)?
        }
        false => Vec::new(),
    };
    let agent = |node: &JsonObject| {
        let vm = text(node, "instance_uuid");
        let allocation = allocations.iter().find(|allocation| text(allocation, "uuid") == vm)?;
        Some(format!(" of agent '{}'", leftovers::agent_of(allocation)?))
    };
    let reasons = nodes.iter().take(MAX_LISTED_NODES).map(|node| {
        let reason = obstacle(node, capabilities).unwrap_or_else(|| "was claimed by another call".to_owned());
        format!("{} {reason}{}", label(node), agent(node).unwrap_or_default())
    });
    let mut reasons: Vec<String> = reasons.collect();
    match nodes.len() {
        0 => reasons.push("the class has no nodes".to_owned()),
        count if count > MAX_LISTED_NODES => reasons.push(format!("and {} more", count - MAX_LISTED_NODES)),
        _ => {}
    }
    let reasons = reasons.join(", ");
    let message = format!("no node of resource class '{class}' is available and suitable: {reasons}");
    Ok(CpiFailure::new(FailureKind::VmCreationFailed, message))
}

/// Creates an allocation and waits for the decision. Returns the UUID of the node, or Ironic's reason as the
/// inner error.
fn allocate(call: &IronicCall, cid: &str, allocation: JsonObject) -> CpiResult<Result<String, String>> {
    call.ironic.create(Collection::Allocations, allocation)?;
    let start = Instant::now();
    loop {
        let allocation = call.ironic.get(Collection::Allocations, cid, &[])?;
        match text(&allocation, "state") {
            "active" => return Ok(Ok(text(&allocation, "node_uuid").to_owned())),
            "error" => return Ok(Err(text(&allocation, "last_error").to_owned())),
            // A conductor that fails to write its decision does not repeat it.
            _ if start.elapsed() > ALLOCATION_TIMEOUT => return Ok(Err(UNDECIDED_MESSAGE.to_owned())),
            _ => std::thread::sleep(POLL_PAUSE),
        }
    }
}

/// Claims a node without an allocation: sets `instance_uuid`, which Ironic rejects if the node already has
/// one.
fn claim_without_allocation(
    call: &IronicCall,
    cid: &str,
    candidates: &[String],
    traits: &[Value],
) -> CpiResult<Option<String>> {
    if !traits.is_empty() {
        call.ironic.require(Microversion::ALLOCATIONS, "cloud properties 'traits'")?;
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
