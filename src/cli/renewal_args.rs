//! How a VM is made anew: what `recreate` and `cloud-check` are told alike.

use std::time::Duration;

use clap::Args;

use super::environment_args::EnvironmentArgs;
use super::session::{RunContext, Session};
use super::{AgentArgs, StoppingArgs, duration};
use base::Result;
use engine::deploy;
use engine::plan::Strategy;

/// What is deployed, and how a new VM for it is made.
#[derive(Debug, Clone, Args)]
pub(super) struct RenewalArgs {
    #[command(flatten)]
    on: EnvironmentArgs,

    #[command(flatten)]
    agent: AgentArgs,

    #[command(flatten)]
    stopping: StoppingArgs,

    /// How long the agent on the new VM may take to answer
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = duration::parse)]
    boot_timeout: Duration,

    /// Drop calls of an interrupted run whose outcome cannot be known
    #[arg(long)]
    forget_open_calls: bool,
}

impl RenewalArgs {
    /// What the library is asked for, and what it needs for that.
    pub(super) fn prepare(&self, session: &Session) -> Result<(deploy::CreateEnv, RunContext)> {
        let (inputs, mut surroundings) = self.on.begin(session, false)?;
        self.agent.apply(&mut surroundings.environment);
        let request = deploy::CreateEnv {
            inputs,
            recreate: true,
            recreate_persistent_disks: false,
            strategy: Strategy::Recreate,
            stopping: self.stopping.stopping(),
            verify: true,
            agent_timeout: self.boot_timeout,
            forget_open_calls: self.forget_open_calls,
            templates: self.on.templates.into(),
            cpi_api_version: self.on.cpi_api_version(),
        };
        Ok((request, surroundings))
    }
}
