//! `stop-env`: stops the jobs and keeps the VM and its disks.

use super::reachable::ReachableEnvironment;
use super::request::{JobsRequest, StopOptions};
use crate::agent::StopReason;
use crate::run_context::RunContext;
use base::Result;

/// Stops the jobs of the environment and returns a summary in one sentence.
pub fn stop_env(request: &JobsRequest, stop_options: StopOptions, run: &RunContext) -> Result<String> {
    let reachable = ReachableEnvironment::reach(run, &request.inputs, "stop-env", request.agent_timeout)?;
    reachable.check_has_jobs()?;
    let stage = run.reporter.stage("Stopping");
    reachable.jobs(run).stop(stop_options.drain(), StopReason::Stop, &stage)?;
    stage.finish();
    Ok("Stopped the jobs; start-env starts them again".to_owned())
}
