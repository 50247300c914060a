//! `attach-disk`: makes another disk the persistent disk, from the next create-env on.
//!
//! A disk changes only together with the VM: the next create-env stops the jobs, creates a new VM and
//! attaches the chosen disk to it. The replaced disk is kept until `delete-disk`.

use serde_json::Map;

use super::target::TargetEnvironment;
use crate::cpi_set::{self, Presence};
use crate::effects::Executor;
use crate::protocol::DiskCid;
use crate::record_commands;
use crate::run_context::RunContext;
use crate::state::{Change, DiskHandle, DiskRecord, Resource, VmAtReplacement};
use base::{Error, Result};
use manifest::deployment::DiskSpec;
use manifest::{Deployment, cpi_label};

/// The request of `attach-disk`.
#[derive(Debug, Clone)]
pub struct AttachDiskRequest {
    /// The environment whose state has the disk.
    pub target_environment: TargetEnvironment,
    /// The disk's CID.
    pub disk: DiskCid,
    /// `--cpi`: the CPI of the disk; the empty name is the default CPI.
    pub cpi: Option<String>,
}

/// Records the choice of the disk and returns a summary in one sentence.
pub fn attach_disk(request: &AttachDiskRequest, run: &RunContext) -> Result<String> {
    let environment = request.target_environment.open(run, "attach-disk")?;
    let deployment = environment.manifest.deployment()?;
    let Some(spec) = &deployment.disk else {
        return Err(Error::invalid("the manifest has no persistent disk, so none can be attached")
            .with_note("nothing was changed")
            .with_hint("give the instance group a `persistent_disk` or a disk pool"));
    };
    cpi_set::check_az(environment.cpi_inputs.config.as_ref(), deployment.az.as_ref())?;
    let cpi_name = match request.cpi.as_deref() {
        Some(cpi) => cpi_set::check_named_cpi(environment.cpi_inputs.config.as_ref(), cpi)?,
        None => deployment.cpi(),
    };
    let (cid, disks) = (&request.disk, &environment.store.state().disks);
    let recorded_disk =
        match record_commands::find(disks.iter().map(DiskRecord::handle), cid, request.cpi.as_deref()) {
            Ok(handle) => Some(handle),
            Err(error) if disks.iter().any(|disk| disk.cid == *cid) => return Err(error),
            Err(_) => None,
        };
    let handle = recorded_disk.clone().unwrap_or_else(|| DiskHandle::new(cid.clone(), cpi_name));
    check_location(environment.store.state().disk(&handle), &handle, &deployment)?;
    if environment.store.state().current_disk().is_some_and(|disk| disk.handle() == handle) {
        return Ok(format!("Disk {handle} is the persistent disk of this environment already"));
    }
    let mut executor =
        request.target_environment.create_executor(run, &environment.cpi_inputs, environment.store)?;
    check_presence(&executor, run, &handle, recorded_disk.is_some())?;
    if recorded_disk.is_none() {
        take_on_record(&mut executor, run, &handle, spec, &deployment)?;
    }
    let previous_disk = executor.state().current_disk().map(DiskRecord::handle);
    executor.commit(Change::DiskChosen(handle.clone()))?;
    let kept_disk_note = match previous_disk {
        Some(previous_disk) => format!("; disk {previous_disk} is kept until delete-disk"),
        None => String::new(),
    };
    Ok(format!("The next create-env attaches disk {handle}{kept_disk_note}"))
}

/// Checks that the disk is at the VM's CPI and in its availability zone, because a disk cannot be moved to
/// another one.
fn check_location(record: Option<&DiskRecord>, handle: &DiskHandle, deployment: &Deployment) -> Result<()> {
    let az = deployment.az.as_ref().map(|az| az.name.as_str());
    let mismatch = match record.and_then(|disk| disk.az.as_deref()) {
        _ if handle.cpi() != deployment.cpi() => {
            format!(
                "belongs to {}, but the VM belongs to {}",
                cpi_label(handle.cpi()),
                cpi_label(deployment.cpi())
            )
        }
        Some(disk_az) if az.is_some_and(|az| az != disk_az) => {
            format!("is in availability zone '{disk_az}', but the VM is in '{}'", az.unwrap_or_default())
        }
        _ => return Ok(()),
    };
    Err(Error::invalid(format!("disk '{}' {mismatch}, so it cannot be attached", handle.cid))
        .with_note("nothing was changed")
        .with_hint("list the disks: `monopile disks MANIFEST`"))
}

/// Checks that the disk exists. If the CPI does not know, accepts a disk on record with a warning, and fails
/// for any other disk.
fn check_presence(
    executor: &Executor<'_>,
    run: &RunContext,
    disk: &DiskHandle,
    is_recorded: bool,
) -> Result<()> {
    executor.cpis().connect_in_own_stage(disk.cpi())?;
    let asking = run.reporter.begin_stage(format!("Asking the CPI for disk {disk}"));
    match executor.ask_presence(&asking, &Resource::Disk(disk.clone()))? {
        Presence::Exists => {}
        Presence::Unknown(doubt) if is_recorded => {
            run.reporter.warn(format!("disk {disk} is accepted without a check: {doubt}"));
        }
        Presence::Gone => {
            asking.give_up("not found");
            let missing_error =
                Error::invalid(format!("the CPI does not find disk {disk}")).with_note("nothing was changed");
            return Err(match is_recorded {
                true => missing_error.with_hint("see what can be done: `monopile cloud-check MANIFEST`"),
                false => missing_error
                    .with_hint("check the CID in the IaaS; the disks on record: `monopile disks MANIFEST`"),
            });
        }
        Presence::Unknown(doubt) => {
            return Err(Error::failure(format!("it is unknown whether disk {disk} exists"))
                .with_source(doubt.to_string())
                .with_note("nothing was changed")
                .with_retry_hint());
        }
    }
    asking.finish();
    Ok(())
}

/// Records a disk that was created elsewhere, with the size and properties of the manifest's persistent disk.
/// It is recorded as kept, because a disk that is neither used nor kept would be deleted.
fn take_on_record(
    executor: &mut Executor<'_>,
    run: &RunContext,
    handle: &DiskHandle,
    spec: &DiskSpec,
    deployment: &Deployment,
) -> Result<()> {
    run.reporter.note(format!(
        "disk {handle} is not on record: assuming the size in the manifest, {} MiB",
        spec.size
    ));
    executor.commit(Change::DiskCreated(DiskRecord {
        id: uuid::Uuid::new_v4().to_string(),
        cid: handle.cid.clone(),
        size: spec.size,
        cloud_properties: spec.cloud_properties.clone(),
        hint: None,
        cpi: handle.cpi.clone(),
        az: deployment.az.as_ref().map(|az| az.name.clone()),
        vm_at_replacement: Some(VmAtReplacement(None)),
        unknown_keys: Map::new(),
    }))
}
