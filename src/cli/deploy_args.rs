//! The common arguments of `create-env` and `plan`.

use std::path::Path;
use std::time::Duration;

use clap::Args;

use super::choices::UpdateStrategyValue;
use super::environment_args::EnvironmentArgs;
use super::open_calls_args::OpenCallsArgs;
use super::scratch_args::ScratchArgs;
use super::session::{PreparedRun, Session};
use super::snapshot_args::SnapshotArgs;
use super::{AgentArgs, StoppingArgs, duration};
use base::{Error, Result};
use engine::deploy;

/// The arguments of a deploy.
#[derive(Debug, Clone, Args)]
pub struct DeployArgs {
    #[command(flatten)]
    target: EnvironmentArgs,

    #[command(flatten)]
    agent: AgentArgs,

    /// Replace the VM even if nothing changed; its persistent disk keeps its data
    ///
    /// Stops the jobs, deletes the VM with all data outside the persistent disk, and creates a new one.
    #[arg(long)]
    recreate: bool,

    /// Apply changes to an existing VM with this strategy
    #[arg(long, value_enum, value_name = "STRATEGY", default_value_t)]
    update_strategy: UpdateStrategyValue,

    /// Replace persistent disks and copy their data
    ///
    /// Deletes the old disk after the copy, once the jobs run with the new one. Data cannot be copied to
    /// another CPI or availability zone: if the environment moves, the new disk is empty, and the old disk is
    /// deleted with its data. Back them up first.
    #[arg(long)]
    recreate_persistent_disks: bool,

    #[command(flatten)]
    snapshot: SnapshotArgs,

    /// Do not download stemcells, releases and userlands; fail if one is missing
    ///
    /// Uses the cache of this machine, and that of --cache if it is a directory.
    #[arg(long, hide_short_help = true)]
    offline: bool,

    /// Do not contact the agent if nothing changed
    #[arg(long, alias = "no-verify", hide_short_help = true)]
    skip_agent_check: bool,

    #[command(flatten)]
    stopping: StoppingArgs,

    /// Wait for the agent on the new VM at most this long
    ///
    /// The last attempt may take up to 10 seconds more.
    #[arg(long, alias = "agent-timeout", value_name = "DURATION", default_value = "10m",
          value_parser = duration::parse)]
    boot_timeout: Duration,

    #[command(flatten)]
    open_calls: OpenCallsArgs,

    /// Deploy new credentials if those of the deployed environment are missing
    ///
    /// Also accepts a vars store that is probably not of this environment. The agent of the VM refuses the
    /// new credentials, so the VM is replaced without stopping its jobs. Its persistent disk keeps its data.
    /// Look for the right vars store first.
    #[arg(long, hide_short_help = true)]
    new_credentials: bool,

    /// Create the VM even if one that is not on record answers at its address
    ///
    /// Both VMs then have the same address, and the other one stays until you delete it in the IaaS. To
    /// record it instead, use `monopile state import`.
    #[arg(long, hide_short_help = true)]
    ignore_untracked_vm: bool,

    #[command(flatten)]
    scratch: ScratchArgs,
}

impl DeployArgs {
    pub(super) fn manifest(&self) -> &Path {
        self.target.manifest()
    }

    /// Prepares the request and its run context.
    pub(super) fn prepare(self, session: &Session) -> Result<(deploy::CreateEnvRequest, PreparedRun)> {
        if self.recreate && matches!(self.update_strategy, UpdateStrategyValue::InPlace) {
            return Err(Error::usage(
                "--recreate replaces the VM, and --update-strategy in-place keeps it: give one of them",
            ));
        }
        let (inputs, mut prepared_run) = self.target.begin(session, self.scratch.keep_scratch)?;
        self.agent.apply(&mut prepared_run.run);
        if self.offline {
            prepared_run.run.forbid_downloads();
        }
        let request = deploy::CreateEnvRequest {
            command: "create-env",
            inputs,
            replaces_unchanged_vm: self.recreate,
            vm_is_gone: false,
            recreate_persistent_disks: self.recreate_persistent_disks,
            strategy: self.update_strategy.into(),
            snapshot: self.snapshot.policy(),
            stop_options: self.stopping.options(),
            asks_agent_if_unchanged: !self.skip_agent_check,
            boot_timeout: self.boot_timeout,
            forget_open_calls: self.open_calls.forget_open_calls,
            overrides: deploy::Overrides {
                accepts_new_credentials: self.new_credentials,
                ignores_untracked_vm: self.ignore_untracked_vm,
            },
            renderer_choice: self.target.renderer.into(),
            cpi_api_version: self.target.cpi_api_version(),
        };
        Ok((request, prepared_run))
    }
}
