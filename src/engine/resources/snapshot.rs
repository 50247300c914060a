//! `take-snapshot`: takes a snapshot of a persistent disk.

use super::target::TargetEnvironment;
use crate::deploy::{SnapshotPolicy, snapshot};
use crate::protocol::DiskCid;
use crate::run_context::RunContext;
use crate::state::{DiskHandle, DiskRecord, SnapshotHandle, State};
use crate::{cpi_set, record_commands};
use base::{Error, Result};

/// The request of `take-snapshot`.
#[derive(Debug, Clone)]
pub struct TakeSnapshotRequest {
    /// The environment.
    pub target_environment: TargetEnvironment,
    /// The CID of the disk; by default the persistent disk of the environment.
    pub disk: Option<DiskCid>,
    /// `--cpi`: the CPI of the disk; the empty name is the default CPI.
    pub cpi: Option<String>,
}

/// Takes a snapshot of the disk and returns a summary in one sentence.
pub fn take_snapshot(request: &TakeSnapshotRequest, run: &RunContext) -> Result<String> {
    let environment = request.target_environment.open(run, "take-snapshot")?;
    if let Some(cpi) = &request.cpi {
        cpi_set::check_named_cpi(environment.cpi_inputs.config.as_ref(), cpi)?;
    }
    let disk = match &request.disk {
        Some(cid) => {
            let disks = environment.store.state().disks.iter().map(DiskRecord::handle);
            record_commands::find(disks, cid, request.cpi.as_deref())?
        }
        None => current(environment.store.state())?,
    };
    let (effect, arguments) = snapshot::effect(
        environment.store.state(),
        &environment.manifest.deployment()?,
        &disk,
        SnapshotPolicy::Keep,
    );
    let mut executor =
        request.target_environment.create_executor(run, &environment.cpi_inputs, environment.store)?;
    let taking = run.reporter.begin_stage(format!("Taking a snapshot of disk {disk}"));
    let answer = executor.perform(&taking, "requested on the command line", &effect, arguments)?;
    taking.finish();
    match answer {
        crate::cpi::Answer::Snapshot(cid) => {
            Ok(format!("Took snapshot {} of disk '{}'", SnapshotHandle { cid, cpi: disk.cpi }, disk.cid))
        }
        other => Err(Error::failure(format!("{other:?} is not an answer to `snapshot_disk`"))),
    }
}

fn current(state: &State) -> Result<DiskHandle> {
    state.current_disk().map(DiskRecord::handle).ok_or_else(|| {
        Error::invalid("the environment has no persistent disk")
            .with_hint("list the disks, and name one: `monopile disks MANIFEST`")
    })
}
