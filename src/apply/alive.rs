//! A cheap look at an environment in which nothing changed: is its agent there? One message to it, and no CPI
//! process, while it answers.

use super::identity::Stranger;
use super::request::{AGENT_PATIENCE, Environment};
use super::run::connect;
use crate::agent::{Agent, AgentError, Endpoint};
use crate::state::State;
use crate::{Error, Result};

/// Asks the agent of the VM on record who it is and how its jobs are. Returns why it cannot be counted on: whether
/// its VM exists is then for the CPI to say.
pub(super) fn suspect(
    environment: &Environment,
    endpoint: &Endpoint,
    state: &State,
) -> Result<Option<Error>> {
    let Some(cid) = state.vm_cid() else { return Ok(None) };
    let looking = environment.reporter.stage(format!("Looking whether VM '{cid}' is alive"));
    let agent = connect(environment, endpoint.clone(), state);
    let seen = match ask(&agent, &mut |problem| looking.log_line(problem)) {
        Ok(seen) => seen,
        Err(error @ AgentError::Interrupted { .. }) => return Err(error.into()),
        Err(error) => return Ok(Some(error.into())),
    };
    if let Some(expected) = state.vm().map(|vm| vm.agent_id.as_str())
        && let Some(stranger) = Stranger::in_answer(&seen, expected)
    {
        return Ok(Some(stranger.error(&agent, state)));
    }
    let jobs = seen.get("job_state").and_then(serde_json::Value::as_str).unwrap_or("running");
    if jobs != "running" {
        environment.reporter.warn(format!(
            "the jobs are '{jobs}', not 'running': start-env starts them, --recreate makes a new VM"
        ));
    }
    looking.finish();
    Ok(None)
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
