//! What the commands are asked to do, as `cli` hands it over.

use std::time::Duration;

use crate::plan::Strategy;
use erb::Mode;
use manifest::Inputs;

/// How to stop jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopping {
    /// `--skip-drain`: run neither pre-stop nor drain scripts.
    pub skip_drain: bool,
    /// `--drain-timeout`: how long jobs may drain before they are stopped all the same.
    pub drain_timeout: Duration,
}

impl Default for Stopping {
    fn default() -> Self {
        Stopping { skip_drain: false, drain_timeout: Duration::from_secs(30 * 60) }
    }
}

impl Stopping {
    /// How long to drain; none when not at all.
    pub(super) fn drain(&self) -> Option<Duration> {
        (!self.skip_drain).then_some(self.drain_timeout)
    }
}

/// How long the agent of an old VM may take to answer before the VM counts as dead.
pub(super) const AGENT_PATIENCE: Duration = Duration::from_secs(10);

/// `create-env`.
#[derive(Debug, Clone)]
pub struct CreateEnv {
    /// The manifest and what goes into it.
    pub inputs: Inputs,
    /// `--recreate`: deploy even if nothing changed.
    pub recreate: bool,
    /// `--recreate-persistent-disks`: move the data to a new disk.
    pub recreate_persistent_disks: bool,
    /// `--update-strategy`: how a change comes to a VM that exists.
    pub strategy: Strategy,
    /// Not `--no-verify`: where nothing changed, see whether VM and agent are still there.
    pub verify: bool,
    /// `--agent-timeout`: how long the new VM may take to boot.
    pub agent_timeout: Duration,
    /// How the jobs on the old VM are stopped.
    pub stopping: Stopping,
    /// `--forget-open-calls`: drop calls of an interrupted run whose outcome cannot be known.
    pub forget_open_calls: bool,
    /// `--templates`: what renders templates.
    pub templates: Mode,
    /// `--cpi-api-version`: the highest version spoken with the CPI.
    pub cpi_api_version: Option<u32>,
}

/// `delete-env`.
#[derive(Debug, Clone)]
pub struct DeleteEnv {
    /// The manifest and what goes into it.
    pub inputs: Inputs,
    /// How the jobs on the VM are stopped.
    pub stopping: Stopping,
    /// `--agent-timeout`: how long the agent may take to answer before the VM counts as dead.
    pub agent_timeout: Duration,
    /// `--forget-open-calls`: drop calls of an interrupted run whose outcome cannot be known.
    pub forget_open_calls: bool,
    /// `--allow-missing`: nothing to delete is a success.
    pub allow_missing: bool,
    /// `--templates`: what renders templates.
    pub templates: Mode,
    /// `--cpi-api-version`: the highest version spoken with the CPI.
    pub cpi_api_version: Option<u32>,
}

/// `stop-env`, `start-env` and `restart`: what is on a VM that stays.
#[derive(Debug, Clone)]
pub struct JobsRequest {
    /// The manifest and what goes into it.
    pub inputs: Inputs,
    /// `--agent-timeout`: how long the agent may take to answer.
    pub agent_timeout: Duration,
}
