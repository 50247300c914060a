//! `monopile start-env`: starts the jobs that stop-env stopped.

use clap::Args;

use super::finish::CommandResult;
use super::jobs_args::JobsArgs;
use super::session::Session;
use base::Result;
use engine::deploy;

#[derive(Debug, Clone, Args)]
pub(super) struct StartEnvArgs {
    #[command(flatten)]
    jobs: JobsArgs,
}

impl StartEnvArgs {
    pub(super) fn run(self, session: &Session) -> Result<CommandResult> {
        let (request, prepared_run) = self.jobs.begin(session, "start-env")?;
        deploy::start_env(&request, &prepared_run.run).map(CommandResult::Summary)
    }
}
