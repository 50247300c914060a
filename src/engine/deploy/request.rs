//! The requests of the commands, as `cli` passes them.

use std::path::PathBuf;
use std::time::Duration;

use super::snapshot::SnapshotPolicy;
use crate::plan::UpdateStrategy;
use crate::prepare::Overrides;
use erb::RendererChoice;
use manifest::Inputs;

/// The way in which jobs are stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StopOptions {
    /// `--skip-drain`: run neither pre-stop nor drain scripts.
    pub skip_drain: bool,
    /// `--drain-timeout`: the time after which draining jobs are stopped anyway.
    pub drain_timeout: Duration,
}

impl Default for StopOptions {
    fn default() -> Self {
        StopOptions { skip_drain: false, drain_timeout: Duration::from_secs(30 * 60) }
    }
}

impl StopOptions {
    /// Returns the drain timeout; `None` means no draining.
    pub(super) fn drain_timeout(&self) -> Option<Duration> {
        (!self.skip_drain).then_some(self.drain_timeout)
    }
}

/// The time after which an old VM counts as dead if its agent does not answer.
pub(super) const OLD_AGENT_TIMEOUT: Duration = Duration::from_secs(10);

/// The request of `create-env`.
#[derive(Debug, Clone)]
pub struct CreateEnvRequest {
    /// The command that the operator typed, such as `recreate`, for the lock and the reasons of the plan.
    pub command: &'static str,
    /// The manifest, its ops files and variables.
    pub inputs: Inputs,
    /// `--recreate`: replace the VM even if nothing changed.
    pub replaces_unchanged_vm: bool,
    /// True if the VM on record does not exist, as `cloud-check` found.
    pub vm_is_gone: bool,
    /// `--recreate-persistent-disks`: move the data to a new disk.
    pub recreate_persistent_disks: bool,
    /// `--update-strategy`: how a change is applied to an existing VM.
    pub strategy: UpdateStrategy,
    /// `--snapshot`: the snapshot that the persistent disk gets before the VM is replaced.
    pub snapshot: SnapshotPolicy,
    /// False for `--skip-agent-check`: if nothing changed, the VM's agent is not asked.
    pub asks_agent_if_unchanged: bool,
    /// `--boot-timeout`: how long the agent may take to answer after a boot, or after a disk was attached.
    pub boot_timeout: Duration,
    /// The way in which the jobs on the VM are stopped.
    pub stop_options: StopOptions,
    /// `--forget-open-calls`: drop open calls of an earlier run whose outcome is unknown.
    pub forget_open_calls: bool,
    /// The checks that are overridden.
    pub overrides: Overrides,
    /// `--renderer`: the renderer for templates.
    pub renderer_choice: RendererChoice,
    /// `--cpi-api-version`: the highest API version to use with the CPI.
    pub cpi_api_version: Option<u32>,
}

/// The option of [`CreateEnvRequest::asks_agent_if_unchanged`] among the options of the steps.
pub(super) const SKIP_AGENT_CHECK: &str = "--skip-agent-check";

impl CreateEnvRequest {
    /// Returns the options on which the steps depend, as words of the command line.
    pub(super) fn step_options(&self) -> Vec<String> {
        let strategy = match self.strategy {
            UpdateStrategy::Auto => None,
            UpdateStrategy::InPlace => Some("--update-strategy in-place"),
            UpdateStrategy::NewVm => Some("--update-strategy recreate"),
        };
        let switches = [
            (self.replaces_unchanged_vm, "--recreate"),
            (self.recreate_persistent_disks, "--recreate-persistent-disks"),
            (!self.asks_agent_if_unchanged, SKIP_AGENT_CHECK),
            (self.stop_options.skip_drain, "--skip-drain"),
            (self.forget_open_calls, "--forget-open-calls"),
            (self.overrides.accepts_new_credentials, "--new-credentials"),
            (self.overrides.ignores_untracked_vm, "--ignore-untracked-vm"),
        ];
        let switches = switches.into_iter().filter(|(is_given, _)| *is_given).map(|(_, option)| option);
        let mut options: Vec<String> = switches.chain(strategy).map(str::to_owned).collect();
        match self.snapshot {
            SnapshotPolicy::Never => {}
            SnapshotPolicy::Keep => options.push("--snapshot".to_owned()),
            SnapshotPolicy::KeepFor(age) => options.push(format!("--snapshot={}s", age.as_secs())),
        }
        options
    }
}

/// The request of `delete-env`.
#[derive(Debug, Clone)]
pub struct DeleteEnvRequest {
    /// The manifest, its ops files and variables.
    pub inputs: Inputs,
    /// The resources that may be deleted, as [`Deletions`](super::Deletions) describes them: those that the
    /// operator confirmed, or none if there was nothing to ask. `None` if all may be deleted without a
    /// question.
    pub confirmed_resources: Option<Vec<String>>,
    /// The way in which the jobs on the VM are stopped.
    pub stop_options: StopOptions,
    /// `--agent-timeout`: how long the agent may take to answer before the VM counts as dead.
    pub agent_timeout: Duration,
    /// `--forget-open-calls`: drop open calls of an earlier run whose outcome is unknown.
    pub forget_open_calls: bool,
    /// `--allow-missing`: succeed if there is nothing to delete.
    pub allow_missing: bool,
    /// `--renderer`: the renderer for templates.
    pub renderer_choice: RendererChoice,
    /// `--cpi-api-version`: the highest API version to use with the CPI.
    pub cpi_api_version: Option<u32>,
    /// The directory with the records of runs.
    pub history_directory: Option<PathBuf>,
}

/// The request of `stop-env`, `start-env` and `restart`, which act on the jobs of a VM. `start-env` boots one
/// that is off.
#[derive(Debug, Clone)]
pub struct JobsRequest {
    /// The manifest, its ops files and variables.
    pub inputs: Inputs,
    /// `--agent-timeout`: how long the agent may take to answer.
    pub agent_timeout: Duration,
}
