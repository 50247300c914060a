//! What calls of `create_vm` have left behind that were killed, or could not undo what they did. Nobody has been told
//! their VM's CID, so nobody will ask for it to be deleted.
//!
//! While a VM is being made, its allocation says by which process. One whose process has ended without taking that
//! away is a leftover. A process of another machine, boot or container may be at work: its allocation is left alone.

use serde_json::{Value, json};

use super::machine::text;
use super::rpc::IronicCall;
use super::vm;
use crate::cpi::failure::{Failure, Outcome};
use crate::cpi::process::Identity;
use ironic::{Collection, Filter, Microversion, Object, Patch};

/// The key of an allocation's `extra` with the process that makes its VM.
const MAKING: &str = "monopile_making";
/// The key with the agent's ID, by which a VM is looked for whose CID nobody knows.
const AGENT: &str = "bosh_agent_id";

/// Whether leftovers are found again: whether Ironic takes the note, and takes it away again.
pub(super) fn are_found(call: &IronicCall) -> bool {
    call.ironic.version() >= Microversion::ALLOCATION_CHANGES
}

/// The `extra` of the allocation of a VM that is being made.
pub(super) fn mark(call: &IronicCall, agent_id: &str) -> Outcome<Value> {
    let mut extra = json!({AGENT: agent_id});
    if are_found(call) {
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        let process = Identity::of(pid).map_err(|error| Failure::io("looking at this process", error))?;
        extra[MAKING] = json!(process);
    }
    Ok(extra)
}

/// The VM is made.
pub(super) fn unmark(call: &IronicCall, cid: &str) -> Outcome<()> {
    if are_found(call) {
        let patch = Patch::new().remove(&["extra", MAKING]);
        call.ironic.update(Collection::Allocations, cid, &patch)?;
    }
    Ok(())
}

/// Deletes what killed calls left. That it cannot be done now is no reason not to do what was asked.
pub(super) fn sweep(call: &mut IronicCall) -> Outcome<()> {
    if !are_found(call) {
        return Ok(());
    }
    for allocation in call.ironic.list(Collection::Allocations, &Filter::default())? {
        if !is_leftover(&allocation).map_err(|error| Failure::io("looking for a process", error))? {
            continue;
        }
        let cid = text(&allocation, "uuid");
        call.log(format_args!("VM '{cid}' was being made by a call that has ended: deleting it"));
        if let Err(failure) = vm::delete_patiently(call, cid) {
            call.log(format_args!("it stays for now: {failure}"));
        }
    }
    Ok(())
}

/// The agent's ID in an allocation, however that ended.
pub(super) fn agent_of(allocation: &Object) -> Option<&str> {
    allocation.get("extra")?.get(AGENT)?.as_str()
}

fn is_leftover(allocation: &Object) -> std::io::Result<bool> {
    let making = allocation.get("extra").and_then(|extra| extra.get(MAKING));
    match making.and_then(|making| serde_json::from_value::<Identity>(making.clone()).ok()) {
        Some(process) => process.has_ended_here(),
        None => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_dead_process_of_this_machine_was_making_is_a_leftover() {
        let of = |making: Value| {
            let allocation = json!({"uuid": "u", "extra": {MAKING: making}});
            is_leftover(allocation.as_object().unwrap()).unwrap()
        };
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let identity = Identity::of(child.id() as i32).unwrap();
        child.wait().unwrap();
        assert!(of(json!(identity)));
        assert!(!of(json!(Identity { boot_id: "another".to_owned(), ..identity.clone() })));
        assert!(!of(json!(Identity { pid_namespace: "another".to_owned(), ..identity })));
        assert!(!of(json!(Identity::of(std::process::id() as i32).unwrap())));
        assert!(!of(json!("something else")) && !of(Value::Null));
    }
}
