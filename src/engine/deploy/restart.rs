//! `restart`: stops and starts the jobs in one command.

use super::boot;
use super::reachable::ReachableEnvironment;
use super::request::{JobsRequest, StopOptions};
use crate::agent_client::StopReason;
use crate::run_context::RunContext;
use base::events::Event;
use base::{ErrorKind, Result};

/// Restarts the jobs of the environment and returns a summary in one sentence.
pub fn restart(request: &JobsRequest, stop_options: StopOptions, run: &RunContext) -> Result<String> {
    let (inputs, timeout) = (&request.inputs, request.agent_timeout);
    let environment = ReachableEnvironment::reach(run, inputs, "restart", timeout, boot::off_error)?;
    environment.check_has_jobs()?;
    environment.check_disk()?;
    let jobs = environment.jobs(run);
    run.reporter.emit(Event::ChangeStarted);
    let stage = run.reporter.begin_stage("Stopping");
    jobs.stop(stop_options.drain_timeout(), StopReason::Stop, &stage)?;
    stage.finish();
    let starting = run.reporter.begin_stage("Starting");
    jobs.start(&environment.deployment, &starting).map_err(|error| {
        let error = error.with_note("the jobs were stopped");
        match error.kind() {
            ErrorKind::Interrupted(_) => error,
            _ => error.with_hint("correct the cause, then start them: `monopile start-env MANIFEST`"),
        }
    })?;
    starting.finish();
    Ok("Restarted the jobs: all of them run".to_owned())
}
