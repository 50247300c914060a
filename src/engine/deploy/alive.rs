//! A cheap look at the VM on record: is its agent there? One message to it, and no CPI process, while it answers.

use super::request::AGENT_PATIENCE;
use crate::agent::{Agent, AgentError, Endpoint, ForeignAgent, connect};
use crate::environment::Environment;
use crate::state::State;
use base::{Error, Result};

/// The result of asking the agent of the VM on record.
pub(super) enum Liveness {
    /// Its agent answers, and says that its jobs are so.
    Alive {
        /// `running`, `stopped`, `failing`…
        jobs: String,
    },
    /// Its agent does not answer, or another one does. The CPI may know whether the VM exists.
    Unreachable(Error),
}

/// Asks the agent of the VM on record who it is and how its jobs are; `None` when there is no VM.
pub(super) fn look(
    environment: &Environment,
    endpoint: &Endpoint,
    state: &State,
) -> Result<Option<Liveness>> {
    let Some(cid) = state.vm_cid() else { return Ok(None) };
    let looking = environment.reporter.stage(format!("Looking whether VM '{cid}' is alive"));
    let agent = connect(environment, endpoint.clone(), state);
    let seen = match ask(&agent, &mut |problem| looking.log_line(problem)) {
        Ok(seen) => seen,
        Err(error @ AgentError::Interrupted { .. }) => return Err(error.into()),
        Err(error) => return Ok(Some(Liveness::Unreachable(error.into()))),
    };
    if let Err(foreign) = ForeignAgent::check_answer(&seen, &agent, state) {
        return Ok(Some(Liveness::Unreachable(foreign)));
    }
    let jobs = seen.get("job_state").and_then(serde_json::Value::as_str).unwrap_or("running").to_owned();
    looking.finish();
    Ok(Some(Liveness::Alive { jobs }))
}

/// One message while the agent is well; some patience with one that may be starting again.
fn ask(agent: &Agent, on_problem: &mut dyn FnMut(String)) -> Result<serde_json::Value, AgentError> {
    match agent.get_state() {
        Err(error) if error.may_pass() => {
            on_problem(error.to_string());
            agent.wait_until_ready(AGENT_PATIENCE, on_problem)?;
            agent.get_state()
        }
        outcome => outcome,
    }
}
