//! `monopile stop-env`: stops the jobs.

use clap::Args;

use super::StoppingArgs;
use super::finish::CommandResult;
use super::jobs_args::JobsArgs;
use super::session::Session;
use base::Result;
use engine::deploy;

#[derive(Debug, Clone, Args)]
pub(super) struct StopEnvArgs {
    #[command(flatten)]
    jobs: JobsArgs,

    #[command(flatten)]
    stopping: StoppingArgs,
}

impl StopEnvArgs {
    pub(super) fn run(self, session: &Session) -> Result<CommandResult> {
        let (request, prepared_run) = self.jobs.begin(session, "stop-env")?;
        deploy::stop_env(&request, self.stopping.options(), &prepared_run.run).map(CommandResult::Summary)
    }
}
