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
        let (on, run_context) = self.jobs.begin(session, "start-env")?;
        deploy::start_env(&on, &run_context.run).map(CommandResult::Summary)
    }
}
