//! `start-env`: starts the jobs that `stop-env` stopped, and a VM of this machine that is off.

use super::reachable::ReachableEnvironment;
use super::request::JobsRequest;
use crate::run_context::RunContext;
use base::events::Event;
use base::{Error, Result};

/// Starts the jobs of the environment and returns a summary in one sentence.
pub fn start_env(request: &JobsRequest, run: &RunContext) -> Result<String> {
    let environment = ReachableEnvironment::boot(run, &request.inputs, "start-env", request.agent_timeout)?;
    environment.check_has_jobs()?;
    let had_started = !environment.was_booted && environment.fetch_job_state()? == "running";
    environment.check_disk()?;
    run.reporter.emit(Event::ChangeStarted);
    let starting = run.reporter.begin_stage("Starting");
    let jobs = environment.jobs(run);
    jobs.start(&environment.deployment, &starting).map_err(Error::with_retry_hint)?;
    starting.finish();
    Ok(if had_started { "All jobs were running already" } else { "Started all jobs" }.to_owned())
}
