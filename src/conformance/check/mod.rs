//! The conformance run: life-cycle checks under each contract, missing resources, repeated calls, parallel
//! calls and malformed input. All created resources are deleted at the end, even after failures.
//!
//! [`check`] runs it. `run` and `running_check` implement the run and its checks; `rpc`, `lifecycle` and
//! `missing_resources` are the checks. `ledger` tracks resources, `leftover_log` keeps them for the next run,
//! `report` and `junit` hold the results.

mod junit;
mod ledger;
mod leftover_log;
mod lifecycle;
mod missing_resources;
mod report;
mod rpc;
mod run;
mod running_check;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use junit::junit;
pub use report::{Check, Counts, Deviation, LastCall, LeftoverResource, Report, Timing, Verdict};

use super::cpi_under_test::CpiUnderTest;
use base::Result;
use base::events::Stage;
use engine::protocol::Contract;
use run::Run;

/// The settings of a run. A transcript stores them, so that a replay makes the same calls.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CheckSettings {
    /// The name of the CPI in the report.
    pub name: String,
    /// `--cpi-api-version`: the highest API version to use.
    pub highest_api_version: u32,
    /// `--contract`: the only contract to try.
    pub contract: Option<Contract>,
    /// The stemcell of VMs; without it, no VM is created.
    pub stemcell: Option<CheckStemcell>,
    /// `cloud_properties` of VMs.
    pub vm_cloud_properties: Map<String, Value>,
    /// Networks of VMs, as `create_vm` takes them.
    pub networks: Map<String, Value>,
    /// The environment (`env`) of VMs.
    pub env: Map<String, Value>,
    /// The size of disks, in MiB.
    pub disk_size: u64,
    /// `cloud_properties` of disks.
    pub disk_cloud_properties: Map<String, Value>,
    /// `--parallel`: the number of calls at once.
    #[serde(rename = "at_once")]
    pub parallel_call_count: usize,
    /// `--skip`: methods to leave out.
    pub skip: Vec<String>,
}

/// The unpacked stemcell from which the checks create VMs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CheckStemcell {
    /// The path of the image.
    pub image: PathBuf,
    /// The `cloud_properties` of `stemcell.MF`, the second argument of `create_stemcell`.
    pub cloud_properties: Value,
    /// The `api_version` of `stemcell.MF`, or 1.
    pub api_version: u32,
}

/// The context of a run: output, leftover log and signals.
pub struct CheckContext<'a> {
    /// The parent of one stage per check.
    pub stage: &'a Stage,
    /// The settings of the leftover log.
    pub leftover_log: Option<LeftoverLogSettings<'a>>,
    /// Returns the signal that interrupted the run, if any. Nothing more is created then, and all resources
    /// are deleted.
    pub signal_check: &'a (dyn Fn() -> Option<u8> + Sync),
    /// Returns true after a second signal: the run then does not wait for the call in flight.
    pub must_stop_waiting: &'a (dyn Fn() -> bool + Sync),
}

/// The settings of the leftover log of a run.
#[derive(Debug, Clone, Copy)]
pub struct LeftoverLogSettings<'a> {
    /// The directory, which is created if it is missing.
    pub directory: &'a Path,
    /// A stable name of the CPI.
    pub cpi: &'a str,
}

/// Runs all checks.
pub fn check(cpi: &CpiUnderTest, settings: &CheckSettings, context: &CheckContext<'_>) -> Result<Report> {
    if let Some(recorder) = &cpi.recorder {
        recorder.begin(settings)?;
    }
    let mut run = Run::begin(cpi, settings, context)?;
    rpc::check(&mut run);
    lifecycle::check(&mut run);
    run.end()
}
