//! `monopile restart`: stops the jobs and starts them again.

use clap::Args;

use super::StoppingArgs;
use super::finish::CommandResult;
use super::jobs_args::JobsArgs;
use super::session::Session;
use base::Result;
use engine::deploy;

#[derive(Debug, Clone, Args)]
pub(super) struct RestartArgs {
    #[command(flatten)]
    jobs: JobsArgs,

    #[command(flatten)]
    stopping: StoppingArgs,
}

impl RestartArgs {
    pub(super) fn run(self, session: &Session) -> Result<CommandResult> {
        let (request, prepared_run) = self.jobs.begin(session, "restart")?;
        deploy::restart(&request, self.stopping.options(), &prepared_run.run).map(CommandResult::Summary)
    }
}
