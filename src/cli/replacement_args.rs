//! The common arguments of `recreate` and `cloud-check`.

use std::time::Duration;

use clap::Args;

use super::environment_args::EnvironmentArgs;
use super::open_calls_args::OpenCallsArgs;
use super::session::{PreparedRun, Session};
use super::{AgentArgs, StoppingArgs, duration};
use base::Result;
use engine::deploy;
use engine::plan::UpdateStrategy;

/// The arguments to replace a VM.
#[derive(Debug, Clone, Args)]
pub(super) struct ReplacementArgs {
    #[command(flatten)]
    target: EnvironmentArgs,

    #[command(flatten)]
    agent: AgentArgs,

    #[command(flatten)]
    stopping: StoppingArgs,

    /// Wait for the agent on the new VM at most this long
    #[arg(long, value_name = "DURATION", default_value = "10m",
          value_parser = duration::parse)]
    boot_timeout: Duration,

    #[command(flatten)]
    open_calls: OpenCallsArgs,
}

impl ReplacementArgs {
    /// Prepares the request of a command and its run context.
    pub(super) fn prepare(
        &self,
        session: &Session,
        command: &'static str,
    ) -> Result<(deploy::CreateEnvRequest, PreparedRun)> {
        let (inputs, mut prepared_run) = self.target.begin(session, false)?;
        self.agent.apply(&mut prepared_run.run);
        let request = deploy::CreateEnvRequest {
            command,
            inputs,
            replaces_unchanged_vm: true,
            vm_is_gone: false,
            recreate_persistent_disks: false,
            strategy: UpdateStrategy::NewVm,
            snapshot: deploy::SnapshotPolicy::Never,
            stop_options: self.stopping.options(),
            asks_agent_if_unchanged: true,
            boot_timeout: self.boot_timeout,
            forget_open_calls: self.open_calls.forget_open_calls,
            overrides: deploy::Overrides::default(),
            renderer_choice: self.target.renderer.into(),
            cpi_api_version: self.target.cpi_api_version(),
        };
        Ok((request, prepared_run))
    }
}
