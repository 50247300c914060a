//! A cheap check of the VM on record: usually one message to its agent, and no CPI process.

use super::request::OLD_AGENT_TIMEOUT;
use crate::agent_client::other_credentials::OtherCredentials;
use crate::agent_client::{Agent, AgentEndpoint, AgentError, OtherAddress, create_client};
use crate::jobs::AgentState;
use crate::run_context::RunContext;
use crate::state::{RunCredentials, State};
use base::events::{Stage, Warning};
use base::{Error, Result};

/// The answer of the agent of the VM on record.
pub(super) enum Liveness {
    /// Its agent answers.
    Alive(AgentState),
    /// Its agent does not answer, or another agent answers. The CPI may know whether the VM exists.
    Unusable(UnusableAgent),
}

/// An agent that did not answer as expected.
pub(super) struct UnusableAgent {
    /// The cause.
    pub(super) error: Error,
    /// True if nothing came from it; false if it refuses, or another agent answers.
    is_silent: bool,
    /// True if it refuses the credentials of this run, which differ from the deployed ones.
    pub(super) has_other_credentials: bool,
    /// The address at which this run looked for it, if that is not on record.
    pub(super) other_address: Option<OtherAddress>,
}

impl UnusableAgent {
    /// Returns the predicate for messages about the agent.
    pub(super) fn predicate(&self) -> &'static str {
        if self.is_silent { "does not answer" } else { "cannot be used" }
    }

    /// Returns the warning that the VM is replaced, although the change needs only its agent.
    pub(super) fn replacement_warning(&self) -> Warning {
        const PROBLEM: &str = "the VM cannot be updated in place";
        match &self.other_address {
            Some(other) => Warning::new(format!("{PROBLEM}: {}: {}", other.note(), self.error))
                .with_hint(OtherAddress::ADDRESS_HINT),
            None => Warning::new(format!("{PROBLEM}: {}", self.error)),
        }
    }

    /// Returns the warning that the jobs run until their VM is replaced.
    pub(super) fn running_jobs_warning(&self) -> Warning {
        const RISK: &str = "the jobs cannot be stopped before the VM is replaced";
        let (predicate, error) = (self.predicate(), &self.error);
        match &self.other_address {
            Some(other) => {
                Warning::new(format!("{RISK}: {}, where the agent {predicate}: {error}", other.note()))
                    .with_hint(OtherAddress::ADDRESS_HINT)
            }
            None => Warning::new(format!("{RISK}, because its agent {predicate}: {error}"))
                .with_hint("to see more first: `monopile cloud-check MANIFEST --report`"),
        }
    }
}

/// Asks the agent of the VM on record for its id and the state of its jobs, as a part of `stage`. Returns
/// `None` if there is no VM. The credentials of this run explain a refusal.
pub(super) fn fetch_liveness(
    run: &RunContext,
    endpoint: &AgentEndpoint,
    state: &State,
    run_credentials: &RunCredentials,
    stage: &Stage,
) -> Result<Option<Liveness>> {
    let Some(cid) = state.vm_cid() else { return Ok(None) };
    let checking = stage.reporter().begin_stage(format!("Checking whether VM '{cid}' is alive"));
    let agent = create_client(run, endpoint.clone(), state);
    let other_address = OtherAddress::find(endpoint, state);
    let agent_answer = match ask(&agent, &mut |problem| checking.log_line(problem)) {
        Ok(agent_answer) => agent_answer,
        Err(error) if error.was_caused_by_this_run() => return Err(error.into()),
        Err(error) => {
            let is_silent = error.is_transient();
            let other_credentials = OtherCredentials::explain(&error, run, state, run_credentials);
            let has_other_credentials = other_credentials.is_some();
            let error = other_credentials.map_or_else(|| error.into(), Error::from);
            checking.give_up(if is_silent {
                "its agent does not answer"
            } else {
                "its agent cannot be used"
            });
            let unusable_agent = UnusableAgent { error, is_silent, has_other_credentials, other_address };
            return Ok(Some(Liveness::Unusable(unusable_agent)));
        }
    };
    match AgentState::from_answer(agent_answer, &agent, state) {
        Ok(agent_state) => {
            checking.finish();
            Ok(Some(Liveness::Alive(agent_state)))
        }
        Err(error) => {
            checking.give_up("its agent cannot be used");
            let unusable_agent =
                UnusableAgent { error, is_silent: false, has_other_credentials: false, other_address };
            Ok(Some(Liveness::Unusable(unusable_agent)))
        }
    }
}

/// Sends one message to the agent. If it fails, waits for an agent that may be restarting.
fn ask(agent: &Agent, on_problem: &mut dyn FnMut(String)) -> Result<serde_json::Value, AgentError> {
    match agent.get_state() {
        Err(error) if error.is_transient() => {
            on_problem(error.to_string());
            agent.wait_until_ready(OLD_AGENT_TIMEOUT, on_problem)?;
            agent.get_state()
        }
        outcome => outcome,
    }
}
