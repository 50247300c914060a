//! Checks that an agent is the agent of the VM on record. Another VM may have its address and password. Until
//! the agent reports the id that was passed to `create_vm`, it gets only `ping` and `get_state`.

use std::fmt;

use serde_json::Value;

use crate::agent::{Agent, AgentError};
use crate::state::{State, Suspect};
use base::{Error, ErrorKind};

/// An agent with another id than the expected one.
pub(crate) struct ForeignAgent {
    id: String,
}

impl fmt::Display for ForeignAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.id.is_empty() {
            true => f.write_str("it gives no agent id"),
            false => write!(f, "its agent id is {}", self.id),
        }
    }
}

impl ForeignAgent {
    /// Returns the agent that gave this answer to `get_state`, unless its id is the expected one.
    fn find_in_answer(agent_state: &Value, expected_id: &str) -> Option<Self> {
        let id = id(agent_state);
        (id != expected_id).then(|| ForeignAgent { id: id.to_owned() })
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
            Some(suspect) => error.with_hint(answering_suspect_hint(suspect)),
            None => error.with_rerun_hint(
                "another VM has this address: find out to which environment it belongs, and give one of the \
                 two another address; or, if the other VM is not needed, delete it in the IaaS. Then run the \
                 same command again",
            ),
        }
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

/// Returns the hint for a suspect whose agent answers.
pub(crate) fn answering_suspect_hint(suspect: &Suspect) -> String {
    format!(
        "it is {}, which the failed request {} created ({}): delete it in the IaaS, then run the same \
         command again",
        suspect.how_to_find(),
        suspect.request_id,
        suspect.cpi_message
    )
}
