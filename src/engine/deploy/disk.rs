//! Creates, changes, attaches, migrates and detaches persistent disks.

use std::time::Duration;

use serde_json::{Map, json};

use super::run::DeployRun;
use super::vm;
use crate::agent_client::{Agent, ForeignAgent};
use crate::cpi_set::Presence;
use crate::effects::{Effect, Executor};
use crate::plan::{DiskUpdate, Step};
use crate::protocol::{Contract, Unnamed};
use crate::state::{AgentTask, Change, DiskHandle, DiskRecord, Resource};
use base::events::{Event, Stage, Warning};
use base::text;
use base::{Error, Result};
use manifest::Deployment;
use manifest::deployment::DiskSpec;

/// Creates a disk with the VM's CPI, and records this availability zone with it.
pub(super) fn create(
    executor: &mut Executor<'_>,
    spec: &DiskSpec,
    az: Option<&str>,
    reason: &str,
    stage: &Stage,
) -> Result<DiskHandle> {
    let creating =
        stage.reporter().begin_timed_stage("create_disk", format!("Creating disk ({} MiB)", spec.size));
    let id = uuid::Uuid::new_v4().to_string();
    let vm = vm::handle(executor)?;
    let record = DiskRecord {
        id: id.clone(),
        cid: Unnamed,
        size: spec.size,
        cloud_properties: spec.cloud_properties.clone(),
        hint: None,
        cpi: vm.cpi,
        az: az.map(str::to_owned),
        vm_at_replacement: None,
        unknown_keys: Map::new(),
    };
    let arguments = vec![json!(spec.size), json!(spec.cloud_properties), json!(vm.cid)];
    executor.perform(&creating, reason, &Effect::CreateDisk { record }, arguments)?;
    let disk = executor.state().disks.iter().find(|disk| disk.id == id).map(DiskRecord::handle).ok_or_else(
        || Error::failure("the CPI answered `create_disk` with the CID of a disk already on record"),
    )?;
    creating.finish();
    Ok(disk)
}

/// Changes the detached disk of the environment in place, and returns its handle, because the CPI may rename
/// it. Returns `None` if the CPI cannot change it.
pub(super) fn update(
    executor: &mut Executor<'_>,
    step: &Step,
    DiskUpdate { disk, spec, .. }: &DiskUpdate,
    reason: &str,
    stage: &Stage,
) -> Result<Option<DiskHandle>> {
    let updating = stage
        .reporter()
        .begin_timed_stage(step.name(), format!("Changing disk {disk} in place ({} MiB)", spec.size));
    let (disk, size, cloud_properties) = (disk.clone(), spec.size, spec.cloud_properties.clone());
    let mut arguments = vec![json!(disk.cid), json!(size)];
    let effect = match step {
        Step::UpdateDisk(_) => {
            arguments.push(json!(cloud_properties));
            let old_record_id = uuid::Uuid::new_v4().to_string();
            Effect::UpdateDisk { disk: disk.clone(), size, cloud_properties, old_record_id }
        }
        _ => Effect::ResizeDisk { disk: disk.clone(), size },
    };
    if let Err(error) = executor.perform_if_supported(&updating, reason, &effect, arguments)? {
        updating.give_up(format!("the CPI cannot, so the data is copied to a new disk: {error}"));
        return Ok(None);
    }
    drop_replaced_disk(executor, &disk, &updating)?;
    updating.finish();
    Ok(executor.state().current_disk().map(DiskRecord::handle))
}

/// Drops the record of a disk that the CPI replaced with another one, if the CPI has deleted it.
fn drop_replaced_disk(executor: &mut Executor<'_>, disk: &DiskHandle, stage: &Stage) -> Result<()> {
    if !executor.state().disk(disk).is_some_and(DiskRecord::is_kept) {
        return Ok(());
    }
    match executor.ask_presence(stage, &Resource::Disk(disk.clone()))? {
        Presence::Gone => executor.commit(Change::DiskDeleted(disk.clone())),
        Presence::Exists | Presence::Unknown(_) => {
            let warning = Warning::new(format!(
                "the CPI has replaced disk {disk}, which may still exist: it stays on record"
            ));
            stage.reporter().warn(warning.with_hint(format!(
                "to delete it: `monopile delete-disk MANIFEST {}`",
                text::shell_word(disk.cid.as_str())
            )));
            Ok(())
        }
    }
}

/// The settings of an attachment.
pub(crate) struct AttachSettings<'a> {
    /// The deployment whose name is in the metadata of the disk.
    pub(crate) deployment: &'a Deployment,
    /// The timeout of the wait for the agent.
    pub(crate) timeout: Duration,
}

/// Attaches a disk to the VM and has the agent mount it. Calls `on_attached` when the attachment is on
/// record.
pub(crate) fn attach(
    settings: &AttachSettings<'_>,
    executor: &mut Executor<'_>,
    agent: &Agent,
    disk: &DiskHandle,
    reason: &str,
    stage: &Stage,
    on_attached: &dyn Fn(),
) -> Result<()> {
    let vm = vm::handle(executor)?;
    let attaching = stage
        .reporter()
        .begin_timed_stage("attach_disk", format!("Attaching disk '{}' to VM {vm}", disk.cid));
    let effect = Effect::AttachDisk { vm: vm.cid.clone(), disk: disk.clone() };
    executor.perform(&attaching, reason, &effect, vec![json!(vm.cid), json!(disk.cid)])?;
    on_attached();
    let metadata = vm::disk_metadata(settings.deployment);
    executor.set_disk_metadata(&attaching, disk, metadata)?;
    wait_for_agent(settings.timeout, executor, agent, &attaching)?;
    mount(executor, agent, disk)?;
    attaching.finish();
    Ok(())
}

/// Has the agent mount an attached disk.
pub(crate) fn mount(executor: &Executor<'_>, agent: &Agent, disk: &DiskHandle) -> Result<()> {
    let hint = executor.state().disk(disk).and_then(|record| record.hint.clone());
    let cid = &disk.cid;
    let agent_hint = hint.filter(|_| executor.state().vm().is_some_and(|vm| vm.contract == Contract::V2));
    match agent_hint {
        // An agent without `add_persistent_disk` gets the hint with `mount_disk`.
        Some(hint) if !agent.add_persistent_disk(cid, &hint)? => agent.mount_disk(cid, Some(&hint))?,
        _ => agent.mount_disk(cid, None)?,
    }
    Ok(())
}

/// Copies the data of the mounted disk to the disk attached last.
pub(super) fn migrate(
    executor: &mut Executor<'_>,
    agent: &Agent,
    new_disk: &DiskHandle,
    stage: &Stage,
) -> Result<()> {
    let migrating =
        stage.reporter().begin_timed_stage("migrate_disk", format!("Migrating disk content to {new_disk}"));
    let vm = vm::handle(executor)?.cid;
    // The agent continues if this run is interrupted, and no disk may be unmounted meanwhile.
    agent.migrate_disk(|task| {
        let task = AgentTask { vm, method: "migrate_disk".to_owned(), id: task.to_owned() };
        executor.commit(Change::AgentTaskChanged(Some(task)))
    })?;
    executor.commit(Change::AgentTaskChanged(None))?;
    migrating.finish();
    Ok(())
}

/// Detaches a disk from the VM.
pub(super) fn detach(
    deploy_run: &DeployRun<'_>,
    executor: &mut Executor<'_>,
    agent: &Agent,
    disk: &DiskHandle,
    reason: &str,
    stage: &Stage,
) -> Result<()> {
    let vm = vm::handle(executor)?;
    let detaching = stage.reporter().begin_timed_stage("detach_disk", format!("Detaching disk {disk}"));
    agent.remove_persistent_disk(&disk.cid)?;
    let effect = Effect::DetachDisk { vm: vm.cid.clone(), disk: disk.clone() };
    executor.perform(&detaching, reason, &effect, vec![json!(vm.cid), json!(disk.cid)])?;
    stage.reporter().emit(Event::StepApplied);
    wait_for_agent(deploy_run.boot_timeout, executor, agent, &detaching)?;
    detaching.finish();
    Ok(())
}

/// Waits until the VM's own agent answers again after a disk was attached or detached. Some CPIs restart or
/// recreate the VM to attach or detach a disk. The wait is a stage of its own, so that the operator sees its
/// reason.
fn wait_for_agent(timeout: Duration, executor: &Executor<'_>, agent: &Agent, stage: &Stage) -> Result<()> {
    let mut wait_stage: Option<Stage> = None;
    agent.wait_until_ready(timeout, &mut |problem| {
        let wait_stage = wait_stage.get_or_insert_with(|| {
            stage.reporter().begin_stage("Waiting for the agent: the CPI has restarted or recreated the VM")
        });
        wait_stage.log_line(problem);
    })?;
    if let Some(wait_stage) = wait_stage {
        wait_stage.finish();
    }
    ForeignAgent::check(agent, executor.state())
}
