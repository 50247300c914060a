//! `start-env`: starts the jobs that `stop-env` stopped.

use super::reachable::ReachableEnvironment;
use super::request::JobsRequest;
use crate::environment::Environment;
use base::Result;

/// Starts the jobs of the environment and returns a summary in one sentence.
pub fn start_env(on: &JobsRequest, environment: &Environment) -> Result<String> {
    let reachable = ReachableEnvironment::reach(environment, &on.inputs, "start-env", on.agent_timeout)?;
    let starting = environment.reporter.stage("Starting");
    reachable.jobs(environment).start(reachable.deployment.update_watch_time, &starting)?;
    starting.finish();
    Ok("Started the jobs: all of them run".to_owned())
}
