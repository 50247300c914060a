//! Finds and deletes leftovers: VMs of `create_vm` calls that were killed or could not undo their work. These
//! calls did not return a CID, so their callers cannot delete the VMs.
//!
//! While a VM is being created, its allocation names the process that creates it. If that process has ended
//! and the allocation still names it, the VM is a leftover. Processes of another machine, boot or container
//! may still be running, so their allocations stay.

use serde_json::{Value, json};

use super::node::text;
use super::rpc::IronicCall;
use super::vm;
use crate::cpi::failure::{CpiFailure, CpiResult};
use crate::cpi::process::ProcessIdentity;
use base::JsonObject;
use ironic::{Collection, ListOptions, Microversion, Patch};

/// The key of an allocation's `extra` with the process that creates its VM.
const CREATOR_KEY: &str = "monopile_making";
/// The key with the agent id, by which the operator finds a VM whose CID was lost.
const AGENT_KEY: &str = "bosh_agent_id";

/// Returns true if leftovers can be found. This requires that Ironic can remove the process from an
/// allocation when the VM is complete.
pub(super) fn can_be_found(call: &IronicCall) -> bool {
    call.ironic.version() >= Microversion::ALLOCATION_CHANGES
}

/// Returns the `extra` for a new allocation: the agent id, and this process while it creates the VM.
pub(super) fn creator_extra(call: &IronicCall, agent_id: &str) -> CpiResult<Value> {
    let mut extra = json!({AGENT_KEY: agent_id});
    if can_be_found(call) {
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        let process =
            ProcessIdentity::of(pid).map_err(|error| CpiFailure::io("identifying this process", error))?;
        extra[CREATOR_KEY] = json!(process);
    }
    Ok(extra)
}

/// Removes the process from the allocation of a complete VM.
pub(super) fn remove_creator(call: &IronicCall, cid: &str) -> CpiResult<()> {
    if can_be_found(call) {
        let patch = Patch::new().remove(&["extra", CREATOR_KEY]);
        call.ironic.update(Collection::Allocations, cid, &patch)?;
    }
    Ok(())
}

/// Deletes the leftovers of earlier calls. A leftover that cannot be deleted is logged and does not fail the
/// call.
pub(super) fn clean_up(call: &mut IronicCall) -> CpiResult<()> {
    if !can_be_found(call) {
        return Ok(());
    }
    for allocation in call.ironic.list(Collection::Allocations, &ListOptions::default())? {
        if !is_leftover(&allocation).map_err(|error| CpiFailure::io("checking the process of a VM", error))? {
            continue;
        }
        let cid = text(&allocation, "uuid");
        call.log(format_args!("deleting VM '{cid}': the create_vm that created it ended without an answer"));
        if let Err(failure) = vm::delete_with_retries(call, cid) {
            call.log(format_args!("deleting VM '{cid}' failed; a later call tries again: {failure}"));
        }
    }
    Ok(())
}

/// Returns the agent id in an allocation of any state.
pub(super) fn agent_of(allocation: &JsonObject) -> Option<&str> {
    allocation.get("extra")?.get(AGENT_KEY)?.as_str()
}

fn is_leftover(allocation: &JsonObject) -> std::io::Result<bool> {
    let creator = allocation.get("extra").and_then(|extra| extra.get(CREATOR_KEY));
    match creator.and_then(|creator| serde_json::from_value::<ProcessIdentity>(creator.clone()).ok()) {
        Some(process) => process.has_ended_here(),
        None => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leftovers_belong_to_ended_processes_of_this_boot() {
        let is_left_by = |creator: Value| {
            let allocation = json!({"uuid": "u", "extra": {CREATOR_KEY: creator}});
            is_leftover(allocation.as_object().unwrap()).unwrap()
        };
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let identity = ProcessIdentity::of(child.id() as i32).unwrap();
        child.wait().unwrap();
        assert!(is_left_by(json!(identity)));
        assert!(!is_left_by(json!(ProcessIdentity { boot_id: "another".to_owned(), ..identity.clone() })));
        assert!(!is_left_by(json!(ProcessIdentity { pid_namespace: "another".to_owned(), ..identity })));
        assert!(!is_left_by(json!(ProcessIdentity::of(std::process::id() as i32).unwrap())));
        assert!(!is_left_by(json!("something else")) && !is_left_by(Value::Null));
    }
}
