//! `stop-env`: stops the jobs and keeps the VM and its disks.

use super::reachable::ReachableEnvironment;
use super::request::{JobsRequest, StopOptions};
use crate::agent::StopReason;
use crate::environment::Environment;
use base::Result;

/// Stops the jobs of the environment and returns a summary in one sentence.
pub fn stop_env(on: &JobsRequest, stopping: StopOptions, environment: &Environment) -> Result<String> {
    let reachable = ReachableEnvironment::reach(environment, &on.inputs, "stop-env", on.agent_timeout)?;
    let stage = environment.reporter.stage("Stopping");
    reachable.jobs(environment).stop(stopping.drain(), StopReason::Stop, &stage)?;
    stage.finish();
    Ok("Stopped the jobs; start-env starts them again".to_owned())
}
