//! `start-env`: starts the jobs that `stop-env` stopped.

use super::existing::Existing;
use super::request::OnJobs;
use crate::environment::Environment;
use base::Result;

/// Starts the jobs of the environment; returns one sentence that says what came of it.
pub fn start_env(on: &OnJobs, environment: &Environment) -> Result<String> {
    let existing = Existing::reach(environment, &on.inputs, "start-env", on.agent_timeout)?;
    let starting = environment.reporter.stage("Starting");
    existing.jobs(environment).start(existing.deployment.update_watch_time, &starting)?;
    starting.finish();
    Ok("Started the jobs: all of them run".to_owned())
}
