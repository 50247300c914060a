//! `stop-env`: stops the jobs and leaves VM and disks as they are.

use super::existing::Existing;
use super::request::{Environment, StopEnv};
use crate::Result;
use crate::agent::Before;

/// Stops the jobs of the environment; returns one sentence that says what came of it.
pub fn stop_env(request: &StopEnv, environment: &Environment) -> Result<String> {
    let existing = Existing::reach(environment, &request.inputs, "stop-env", request.agent_timeout)?;
    let stopping = environment.reporter.stage("Stopping");
    existing.jobs(environment).stop(request.stopping.drain(), Before::Stop, &stopping)?;
    stopping.finish();
    Ok("Stopped the jobs; start-env starts them again".to_owned())
}
