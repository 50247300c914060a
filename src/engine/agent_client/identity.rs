//! Checks that an agent is the agent of the VM on record. Another VM may have its address and password. Until
//! the agent reports the id that was passed to `create_vm`, it gets only `ping` and `get_state`.

use std::fmt;

use serde_json::Value;

use crate::agent_client::{Agent, AgentError};
use crate::state::{State, Suspect};
use base::text::shell_word;
use base::{Error, ErrorKind};

/// An agent with another id than the expected one.
pub(crate) struct ForeignAgent {
    id: String,
    /// The CID of its VM, as far as the agent knows.
    vm: Option<String>,
}

impl fmt::Display for ForeignAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.id.is_empty() {
            true => f.write_str("it gives no agent ID"),
            false => write!(f, "its agent ID is {}", self.id),
        }
    }
}

impl ForeignAgent {
    /// Returns the agent that gave this answer to `get_state`, unless its id is the expected one.
    fn find_in_answer(agent_state: &Value, expected_id: &str) -> Option<Self> {
        let id = id(agent_state);
        let vm = vm_cid(agent_state).map(str::to_owned);
        (id != expected_id).then(|| ForeignAgent { id: id.to_owned(), vm })
    }

    /// Asks the agent for its id. Returns `None` if it is the expected one.
    pub(crate) fn ask(agent: &Agent, expected_id: &str) -> Result<Option<Self>, AgentError> {
        Ok(Self::find_in_answer(&agent.get_state()?, expected_id))
    }

    /// Asks the agent for its id. Fails unless it is the id on record. A VM of another tool may have no id on
    /// record; then any id passes.
    pub(crate) fn check(agent: &Agent, state: &State) -> base::Result<()> {
        match state.vm() {
            None => Ok(()),
            Some(_) => Self::check_answer(&agent.get_state()?, agent, state),
        }
    }

    /// Like [`Self::check`], for this answer to `get_state`.
    pub(crate) fn check_answer(agent_state: &Value, agent: &Agent, state: &State) -> base::Result<()> {
        match state.vm().and_then(|vm| Self::find_in_answer(agent_state, &vm.agent_id)) {
            None => Ok(()),
            Some(foreign) => Err(foreign.foreign_agent_error(agent, state)),
        }
    }

    /// Returns the error for a run that needs the agent of the VM on record.
    fn foreign_agent_error(&self, agent: &Agent, state: &State) -> Error {
        let vm = state.vm_handle().map(|vm| format!(" of VM {vm}")).unwrap_or_default();
        let expected_id = state.vm().map(|vm| vm.agent_id.as_str());
        let error = Error::new(
            ErrorKind::AgentUnreachable,
            format!(
                "the agent at {} is not the agent{vm}: {self}, not {}; nothing on its VM was changed",
                agent.address(),
                expected_id.unwrap_or_default()
            ),
        );
        match state.suspected_vm(&self.id) {
            Some(suspect) => error
                .with_note(origin_of_suspect(suspect))
                .with_hints(hints_for_suspect(suspect, self.vm.as_deref())),
            None => error
                .with_note(match &self.vm {
                    Some(vm) => format!("another VM has this address: its agent says that it is VM '{vm}'"),
                    None => "another VM has this address".to_owned(),
                })
                .with_hint("if another environment uses that VM, give one of the two another address")
                .with_hint(match &self.vm {
                    Some(vm) => format!(
                        "if no environment uses it, delete it: `monopile delete-vm MANIFEST {}`",
                        shell_word(vm)
                    ),
                    None => "if no environment uses it, delete it in the IaaS".to_owned(),
                }),
        }
        .with_rerun_hint("then run the same command again")
    }
}

/// Returns the id in the answer to `get_state`, or an empty string.
pub(crate) fn id(agent_state: &Value) -> &str {
    agent_state.get("agent_id").and_then(Value::as_str).unwrap_or_default()
}

/// Returns the CID of the VM in the answer to `get_state`, if the agent knows it.
pub(crate) fn vm_cid(agent_state: &Value) -> Option<&str> {
    let name =
        |key: &str| agent_state.pointer(key).and_then(Value::as_str).filter(|name| !name.trim().is_empty());
    name("/vm/id").or_else(|| name("/vm/name"))
}

/// Describes which failed call created a VM whose agent answers.
pub(crate) fn origin_of_suspect(suspect: &Suspect) -> String {
    format!("a failed call created it (request ID {}): {}", suspect.request_id, suspect.cpi_message)
}

/// Returns the steps for a suspect whose agent answers. `vm` is the CID of its VM, as far as the agent knows.
pub(crate) fn hints_for_suspect(suspect: &Suspect, vm: Option<&str>) -> Vec<String> {
    let cpi_option = suspect.cpi.as_ref().map(|cpi| format!(" --cpi {}", shell_word(cpi)));
    vec![
        match vm {
            Some(vm) => format!(
                "delete the untracked VM: `monopile delete-vm MANIFEST {}{}`",
                shell_word(vm),
                cpi_option.unwrap_or_default()
            ),
            None => format!("look in the IaaS for {}, and delete it", suspect.describe_in_iaas()),
        },
        format!("then forget the call: `monopile state forget MANIFEST --call {}`", suspect.request_id),
    ]
}
