//! What `create-env` and `plan` are told alike.

use std::time::Duration;

use clap::Args;

use super::choices::UpdateStrategy;
use super::environment_args::EnvironmentArgs;
use super::session::{RunContext, Session};
use super::{AgentArgs, StoppingArgs, duration};
use base::Result;
use engine::deploy;

/// What is to be deployed, and how.
#[derive(Debug, Clone, Args)]
pub struct DeployArgs {
    #[command(flatten)]
    on: EnvironmentArgs,

    #[command(flatten)]
    agent: AgentArgs,

    /// Deploy even if nothing changed, with a new VM
    #[arg(long)]
    recreate: bool,

    /// How a change comes to a VM that exists
    #[arg(long, value_enum, value_name = "STRATEGY", default_value_t)]
    update_strategy: UpdateStrategy,

    /// Move the data of persistent disks to new ones
    #[arg(long)]
    recreate_persistent_disks: bool,

    /// If nothing changed, don't look whether VM and agent are still there
    #[arg(long)]
    no_verify: bool,

    #[command(flatten)]
    stopping: StoppingArgs,

    /// How long the agent on the new VM may take to answer
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = duration::parse)]
    agent_timeout: Duration,

    /// Drop calls of an interrupted run whose outcome cannot be known
    #[arg(long)]
    forget_open_calls: bool,

    /// Keep the scratch directory of this run, for a look at what went wrong; it holds credentials
    #[arg(long)]
    keep_workdir: bool,
}

impl DeployArgs {
    /// What the library is asked for, and what it needs for that.
    pub(super) fn prepare(self, session: &Session) -> Result<(deploy::CreateEnv, RunContext)> {
        let (inputs, mut surroundings) = self.on.begin(session, self.keep_workdir)?;
        self.agent.apply(&mut surroundings.environment);
        let request = deploy::CreateEnv {
            inputs,
            recreate: self.recreate,
            recreate_persistent_disks: self.recreate_persistent_disks,
            strategy: self.update_strategy.into(),
            stopping: self.stopping.stopping(),
            verify: !self.no_verify,
            agent_timeout: self.agent_timeout,
            forget_open_calls: self.forget_open_calls,
            templates: self.on.templates.into(),
            cpi_api_version: self.on.cpi_api_version(),
        };
        Ok((request, surroundings))
    }
}
