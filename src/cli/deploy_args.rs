//! The common arguments of `create-env` and `plan`.

use std::path::Path;
use std::time::Duration;

use clap::Args;

use super::choices::UpdateStrategy;
use super::environment_args::EnvironmentArgs;
use super::session::{RunContext, Session};
use super::{AgentArgs, StoppingArgs, duration};
use base::Result;
use engine::deploy;

/// The arguments of a deploy.
#[derive(Debug, Clone, Args)]
pub struct DeployArgs {
    #[command(flatten)]
    on: EnvironmentArgs,

    #[command(flatten)]
    agent: AgentArgs,

    /// Replace the VM even if nothing changed
    #[arg(long)]
    recreate: bool,

    /// Strategy to apply a change to an existing VM
    #[arg(long, value_enum, value_name = "STRATEGY", default_value_t)]
    update_strategy: UpdateStrategy,

    /// Replace persistent disks and copy their data
    #[arg(long)]
    recreate_persistent_disks: bool,

    /// Do not check VM and agent if nothing changed
    #[arg(long)]
    no_verify: bool,

    #[command(flatten)]
    stopping: StoppingArgs,

    /// Wait for the agent on the new VM at most this long
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = duration::parse)]
    agent_timeout: Duration,

    /// Forget open calls of an interrupted run with unknown outcome
    #[arg(long)]
    forget_open_calls: bool,

    /// Generate new credentials although none of the deployed ones is given
    #[arg(long)]
    new_credentials: bool,

    /// Create the VM although another one, which is not on record, answers at its address
    #[arg(long)]
    ignore_untracked_vm: bool,

    /// Keep the scratch directory of this run for debugging (it holds credentials)
    #[arg(long)]
    keep_workdir: bool,
}

impl DeployArgs {
    /// Returns the path of the manifest.
    pub(super) fn manifest(&self) -> &Path {
        self.on.manifest()
    }

    /// Prepares the request and its run context.
    pub(super) fn prepare(self, session: &Session) -> Result<(deploy::CreateEnv, RunContext)> {
        let (inputs, mut run_context) = self.on.begin(session, self.keep_workdir)?;
        self.agent.apply(&mut run_context.environment);
        let request = deploy::CreateEnv {
            inputs,
            recreate: self.recreate,
            recreate_persistent_disks: self.recreate_persistent_disks,
            strategy: self.update_strategy.into(),
            stopping: self.stopping.stopping(),
            verify: !self.no_verify,
            agent_timeout: self.agent_timeout,
            forget_open_calls: self.forget_open_calls,
            overrides: deploy::Overrides {
                new_credentials: self.new_credentials,
                untracked_vm: self.ignore_untracked_vm,
            },
            templates: self.on.templates.into(),
            cpi_api_version: self.on.cpi_api_version(),
        };
        Ok((request, run_context))
    }
}
