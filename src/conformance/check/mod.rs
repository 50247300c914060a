//! The conformance run: a CPI is led through a whole life, twice if it speaks both contracts, is asked for what does
//! not exist, for the same again, for several things at once and for nonsense, and everything that it made is
//! deleted at the end, whatever happens.
//!
//! [`check`] runs it. `run` and `step` are the machinery, `rpc`, `life` and `ids` the checks, `ledger` knows what was
//! made, `diary` keeps it for the next run, `report` and `junit` say how it went.

mod diary;
mod ids;
mod junit;
mod ledger;
mod life;
mod report;
mod rpc;
mod run;
mod step;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use junit::junit;
pub use report::{Check, Counts, Left, Report, Timing, Verdict};

use super::bench::Bench;
use base::Result;
use base::events::Stage;
use engine::protocol::Contract;
use run::Run;

/// What the run asks for. Kept in a transcript, so that a replay asks for the same.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CheckSettings {
    /// What the CPI is called in the report.
    pub name: String,
    /// `--cpi-api-version`: the highest API version to use.
    pub highest_api_version: u32,
    /// `--contract`: the only contract to try.
    pub contract: Option<Contract>,
    /// The stemcell that VMs are made from; without one there are none.
    pub stemcell: Option<StemcellImage>,
    /// `cloud_properties` of VMs.
    pub vm_cloud_properties: Map<String, Value>,
    /// Their networks, as `create_vm` takes them.
    pub networks: Map<String, Value>,
    /// Their environment.
    pub env: Map<String, Value>,
    /// Size of disks, in MiB.
    pub disk_size: u64,
    /// `cloud_properties` of disks.
    pub disk_cloud_properties: Map<String, Value>,
    /// `--parallel`: how many calls at once.
    pub at_once: usize,
    /// `--skip`: methods to leave out.
    pub skip: Vec<String>,
}

/// An unpacked stemcell.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StemcellImage {
    /// Its image.
    pub image: PathBuf,
    /// Its `cloud_properties`.
    pub cloud_properties: Value,
    /// Its `api_version`.
    pub api_version: u32,
}

/// What the run is watched by.
pub struct CheckContext<'a> {
    /// Gets a stage per check.
    pub stage: &'a Stage,
    /// Where it is noted what exists, for the next run if this one is killed; and whose it is.
    pub notes: Option<Notes<'a>>,
    /// The signal that asks for an end, if one came: nothing new is made, and all is deleted.
    pub interrupted: &'a (dyn Fn() -> Option<u8> + Sync),
    /// Whether not even the call in flight is to be waited for.
    pub insisted: &'a (dyn Fn() -> bool + Sync),
}

/// Where a run notes what it has made.
#[derive(Debug, Clone, Copy)]
pub struct Notes<'a> {
    /// The directory; it is made when it is not there.
    pub directory: &'a Path,
    /// The CPI, by a name that the next run gives it too.
    pub cpi: &'a str,
}

/// Puts the CPI to the test.
pub fn check(bench: &Bench, settings: &CheckSettings, surroundings: &CheckContext<'_>) -> Result<Report> {
    if let Some(recorder) = &bench.recorder {
        recorder.begin(settings)?;
    }
    let mut run = Run::begin(bench, settings, surroundings)?;
    rpc::check(&mut run);
    life::check(&mut run);
    run.end()
}
