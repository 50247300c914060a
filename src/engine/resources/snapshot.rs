//! `take-snapshot`: takes a snapshot of a persistent disk.

use serde_json::{Map, Value, json};

use super::target::TargetEnvironment;
use crate::effects::Effect;
use crate::protocol::{DiskCid, Unnamed};
use crate::run_context::RunContext;
use crate::state::{DiskHandle, DiskRecord, SnapshotHandle, SnapshotRecord, State};
use crate::{cpis, records};
use base::{Error, Result};
use manifest::Deployment;

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
    let opened = request.target_environment.open(run, "take-snapshot")?;
    if let Some(cpi) = &request.cpi {
        cpis::check_named_cpi(opened.cpi_parts.config.as_ref(), cpi)?;
    }
    let disk = match &request.disk {
        Some(cid) => {
            let disks = opened.store.state().disks.iter().map(DiskRecord::handle);
            records::find(disks, cid, request.cpi.as_deref())?
        }
        None => current(opened.store.state())?,
    };
    let metadata = metadata(opened.store.state(), &opened.loaded.deployment()?);
    let mut executor = request.target_environment.executor(run, &opened.cpi_parts, opened.store)?;
    let taking = run.reporter.stage(format!("Taking a snapshot of disk {disk}"));
    let record = SnapshotRecord {
        cid: Unnamed,
        cpi: disk.cpi.clone(),
        disk: disk.cid.clone(),
        created_at: base::encoding::now(),
        unknown: Map::new(),
    };
    let effect = Effect::SnapshotDisk { record };
    let answer = executor.perform(
        &taking,
        "requested on the command line",
        &effect,
        vec![json!(disk.cid), metadata],
    )?;
    taking.finish();
    match answer {
        crate::cpi::Answer::Snapshot(cid) => {
            Ok(format!("Took snapshot {} of disk '{}'", SnapshotHandle { cid, cpi: disk.cpi }, disk.cid))
        }
        other => Err(Error::environment(format!("{other:?} is not an answer to `snapshot_disk`"))),
    }
}

fn current(state: &State) -> Result<DiskHandle> {
    state.current_disk().map(DiskRecord::handle).ok_or_else(|| {
        Error::invalid("the environment has no persistent disk")
            .with_hint("name a disk; `monopile state show --only disks` lists them")
    })
}

/// Returns the metadata that the IaaS shows for the snapshot (docs-bosh,
/// `cpi-api-v1-method/snapshot-disk.md`).
fn metadata(state: &State, deployment: &Deployment) -> Value {
    let mut metadata = Map::new();
    metadata.insert("deployment".into(), json!(deployment.name));
    metadata.insert("job".into(), json!(deployment.group.name));
    metadata.insert("index".into(), json!("0"));
    metadata.insert("director_name".into(), json!("bosh-init"));
    metadata.insert("director_uuid".into(), json!(state.director_id));
    if let Some(vm) = state.vm() {
        metadata.insert("agent_id".into(), json!(vm.agent_id));
    }
    metadata.extend(deployment.tags.iter().map(|(key, value)| (key.clone(), json!(value))));
    Value::Object(metadata)
}
