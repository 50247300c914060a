//! `stop-env`: stops the jobs and keeps the VM and its disks.

use super::boot;
use super::reachable::ReachableEnvironment;
use super::request::{JobsRequest, StopOptions};
use crate::agent_client::StopReason;
use crate::run_context::RunContext;
use crate::state::VmHandle;
use base::events::Event;
use base::{Error, Result};

/// Stops the jobs of the environment and returns a summary in one sentence.
pub fn stop_env(request: &JobsRequest, stop_options: StopOptions, run: &RunContext) -> Result<String> {
    let (inputs, timeout) = (&request.inputs, request.agent_timeout);
    let environment = ReachableEnvironment::reach(run, inputs, "stop-env", timeout, off_error)?;
    environment.check_has_jobs()?;
    let were_stopped = environment.fetch_job_state()? == "stopped";
    run.reporter.emit(Event::ChangeStarted);
    let stage = run.reporter.begin_stage("Stopping");
    environment.jobs(run).stop(stop_options.drain_timeout(), StopReason::Stop, &stage)?;
    stage.finish();
    let outcome = if were_stopped { "The jobs were stopped already" } else { "Stopped the jobs" };
    Ok(format!("{outcome}. To start them: `monopile start-env MANIFEST`"))
}

/// Returns the error for a VM that is off, and whose jobs therefore do not run.
fn off_error(vm: &VmHandle) -> Error {
    boot::off_error(vm).with_note("its jobs do not run, so there is nothing to stop")
}
