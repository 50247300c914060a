//! Takes snapshots of persistent disks.

use std::time::Duration;

use serde_json::{Map, Value, json};
use time::OffsetDateTime;

use crate::effects::{Effect, Executor};
use crate::protocol::Unnamed;
use crate::state::{DiskHandle, SnapshotRecord, State};
use base::Result;
use base::events::Stage;
use manifest::Deployment;

/// The snapshot of the persistent disk that a `create-env` takes before it replaces the VM.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SnapshotPolicy {
    /// None.
    #[default]
    Never,
    /// One that stays until an operator deletes it.
    Keep,
    /// One that a `create-env` deletes after this time.
    KeepFor(Duration),
}

impl SnapshotPolicy {
    /// Returns true if a snapshot is taken.
    pub(super) fn is_taken(self) -> bool {
        self != SnapshotPolicy::Never
    }

    /// Returns the time until which a snapshot taken now is kept, if it is limited.
    fn end_time(self) -> Option<String> {
        let SnapshotPolicy::KeepFor(time) = self else { return None };
        let end_time = OffsetDateTime::now_utc().checked_add(time.try_into().ok()?)?;
        Some(base::encoding::rfc3339(end_time))
    }
}

/// Takes a snapshot of the disk of a stopped VM. Warns if the CPI cannot.
pub(super) fn take(
    executor: &mut Executor<'_>,
    deployment: &Deployment,
    disk: &DiskHandle,
    policy: SnapshotPolicy,
    reason: &str,
    stage: &Stage,
) -> Result<()> {
    let taking =
        stage.reporter().begin_timed_stage("snapshot_disk", format!("Taking a snapshot of disk {disk}"));
    let (effect, arguments) = effect(executor.state(), deployment, disk, policy);
    match executor.perform_if_supported(&taking, reason, &effect, arguments)? {
        Ok(_) => taking.finish(),
        Err(error) => {
            stage
                .reporter()
                .warn(format!("disk {disk} has no snapshot, because the CPI cannot take one: {error}"));
            taking.skip("the CPI cannot take snapshots");
        }
    }
    Ok(())
}

/// Returns the effect that takes a snapshot of a disk, with the arguments of its call.
pub(crate) fn effect(
    state: &State,
    deployment: &Deployment,
    disk: &DiskHandle,
    policy: SnapshotPolicy,
) -> (Effect, Vec<Value>) {
    let record = SnapshotRecord {
        cid: Unnamed,
        cpi: disk.cpi.clone(),
        disk: disk.cid.clone(),
        created_at: base::encoding::now(),
        keep_until: policy.end_time(),
        unknown_keys: Map::new(),
    };
    (Effect::SnapshotDisk { record }, vec![json!(disk.cid), metadata(state, deployment)])
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
