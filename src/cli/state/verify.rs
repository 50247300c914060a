//! The hidden command `monopile state verify`, which is the same as `cloud-check --report`.

use clap::Args;

use crate::cli::AgentArgs;
use crate::cli::agent_args::AgentTimeoutArgs;
use crate::cli::cloud_check;
use crate::cli::env_vars;
use crate::cli::environment_args::EnvironmentArgs;
use crate::cli::finish::CommandResult;
use crate::cli::session::Session;
use base::Result;
use engine::inspection::ReportRequest;

/// List everything on record with its actual status; the same as `cloud-check --report`
#[derive(Debug, Clone, Args)]
pub(super) struct VerifyArgs {
    #[command(flatten)]
    target: EnvironmentArgs,

    #[command(flatten)]
    timeout_args: AgentTimeoutArgs,

    #[command(flatten)]
    agent: AgentArgs,
}

impl VerifyArgs {
    pub(super) fn run(self, session: &Session) -> Result<CommandResult> {
        session.begin_log("cloud-check");
        let (inputs, mut prepared_run) = self.target.begin(session, false)?;
        self.agent.apply(&mut prepared_run.run);
        let request = ReportRequest {
            inputs,
            renderer_choice: self.target.renderer.into(),
            cpi_api_version: self.target.cpi_api_version(),
            agent_timeout: self.timeout_args.agent_timeout,
            history_directory: env_vars::HISTORY.path().ok(),
        };
        cloud_check::report(&request, &prepared_run.run, session)
    }
}
