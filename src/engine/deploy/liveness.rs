//! A cheap check of the VM on record: one message to its agent, and no CPI process.

use super::request::OLD_AGENT_TIMEOUT;
use crate::agent::{Agent, AgentEndpoint, AgentError, ForeignAgent, connect};
use crate::run_context::RunContext;
use crate::state::State;
use base::{Error, Result};

/// The answer of the agent of the VM on record.
pub(super) enum Liveness {
    /// Its agent answers and reports the state of its jobs.
    Alive {
        /// `running`, `stopped`, `failing`…
        jobs: String,
    },
    /// Its agent does not answer, or another agent answers. The CPI may know whether the VM exists.
    Unreachable(UnreachableAgent),
}

/// An agent that cannot be asked.
pub(super) struct UnreachableAgent {
    /// The cause.
    pub(super) error: Error,
    /// True if nothing came from it; false if it refuses, or another agent answers.
    silent: bool,
}

impl UnreachableAgent {
    /// Returns the predicate for messages about the agent.
    pub(super) fn trouble(&self) -> &'static str {
        if self.silent { "does not answer" } else { "cannot be used" }
    }
}

/// Asks the agent of the VM on record for its id and the state of its jobs. Returns `None` if there is no VM.
pub(super) fn check_liveness(
    run: &RunContext,
    endpoint: &AgentEndpoint,
    state: &State,
) -> Result<Option<Liveness>> {
    let Some(cid) = state.vm_cid() else { return Ok(None) };
    let looking = run.reporter.stage(format!("Checking whether VM '{cid}' is alive"));
    let agent = connect(run, endpoint.clone(), state);
    let seen = match ask(&agent, &mut |problem| looking.log_line(problem)) {
        Ok(seen) => seen,
        Err(error) if error.is_of_this_run() => return Err(error.into()),
        Err(error) => {
            let silent = error.is_transient();
            return Ok(Some(Liveness::Unreachable(UnreachableAgent { error: error.into(), silent })));
        }
    };
    if let Err(foreign) = ForeignAgent::check_answer(&seen, &agent, state) {
        return Ok(Some(Liveness::Unreachable(UnreachableAgent { error: foreign, silent: false })));
    }
    let jobs = seen.get("job_state").and_then(serde_json::Value::as_str).unwrap_or("running").to_owned();
    looking.finish();
    Ok(Some(Liveness::Alive { jobs }))
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
