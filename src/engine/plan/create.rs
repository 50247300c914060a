//! Plans `create-env`.

use std::collections::BTreeSet;

use super::difference::DesiredLeaf;
use super::reasons::{
    MISSING_VM_REASON, Reason, collect_reasons, disk_change_reason, name_and_version, upload_reason,
};
use super::{COPIED_DATA_REASON, DiskRef, DiskUpdate, Plan, StemcellRef, Step};
use crate::state::{
    DiskRecord, State, StemcellHandle, StemcellRecord, VmHandle, VmProperties, VmPropertiesPart,
};
use artifact::ArtifactIdentity;
use base::{Error, Result};
use manifest::cpi_label;
use manifest::deployment::DiskSpec;

/// The parts of the manifest and its artifacts that a plan depends on.
#[derive(Debug, Clone)]
pub struct DesiredDeployment<'a> {
    /// SHA-512, hex, of the deploy text (`manifest::deploy_text`).
    pub deploy_digest: &'a str,
    /// The leaves of the interpolated manifest.
    pub leaves: &'a [DesiredLeaf],
    /// The VM properties of the manifest.
    pub vm_properties: &'a VmProperties,
    /// The stemcell that the manifest names.
    pub stemcell: &'a ArtifactIdentity,
    /// The releases, in the order of the manifest.
    pub releases: &'a [ArtifactIdentity],
    /// The persistent disk, if any.
    pub disk: Option<&'a DiskSpec>,
    /// The name of the CPI for the VM, disk and stemcell; `None` for the default CPI.
    pub cpi: Option<&'a str>,
    /// The name of the availability zone, if the manifest names one.
    pub az: Option<&'a str>,
}

/// The way in which an existing VM is changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UpdateStrategy {
    /// Updates the running VM if possible, and replaces it otherwise. If the last update failed and the jobs
    /// do not run, replaces it as well.
    #[default]
    Auto,
    /// Updates the running VM if possible, even if the last update failed.
    InPlace,
    /// Applies every change by replacing the VM. Does nothing if nothing changed, unlike
    /// [`PlanOptions::replaces_unchanged_vm`].
    NewVm,
}

/// Options of the operator, and findings about the VM on record.
#[derive(Debug, Clone, Default)]
pub struct PlanOptions {
    /// The command that the operator typed, such as `create-env`; empty only in tests.
    pub command: &'static str,
    /// True if the VM is replaced even if nothing changed.
    pub replaces_unchanged_vm: bool,
    /// True if the data moves to a new disk.
    pub recreate_persistent_disks: bool,
    /// The way in which an existing VM is changed.
    pub strategy: UpdateStrategy,
    /// True if a snapshot of the persistent disk is taken before the VM is replaced.
    pub takes_snapshot: bool,
    /// The current time, RFC 3339 UTC. Snapshots that were kept until an earlier time are deleted.
    pub now: String,
    /// True if the VM on record no longer exists.
    pub vm_is_gone: bool,
    /// The reason why the agent of the VM on record cannot be used, if it cannot.
    pub unusable_agent_reason: Option<String>,
    /// The state of the jobs if the last update in place failed and they do not run.
    pub jobs_after_failed_update: Option<String>,
}

/// Plans a `create-env`. Fails if the persistent disk would stay behind in another CPI or AZ, unless
/// `recreate_persistent_disks` is set.
pub fn create(state: &State, desired: &DesiredDeployment<'_>, options: &PlanOptions) -> Result<Plan> {
    let mut plan = Plan::default();
    let reasons = collect_reasons(state, desired, options);
    if reasons.is_empty() {
        return Ok(plan_cleanup(state, options, plan));
    }
    let keeps_vm =
        options.strategy != UpdateStrategy::NewVm && !reasons.iter().any(|reason| reason.replaces_vm);
    match state.vm_handle().filter(|_| keeps_vm) {
        Some(vm) => {
            plan_update(state, desired, &reasons, vm, &mut plan);
            Ok(plan_cleanup(state, options, plan))
        }
        None => {
            plan_new_vm(state, desired, &reasons, options, &mut plan)?;
            Ok(plan)
        }
    }
}

/// Plans an in-place update: the VM stays, and its jobs are deployed again.
fn plan_update(
    state: &State,
    desired: &DesiredDeployment<'_>,
    reasons: &[Reason],
    vm: VmHandle,
    plan: &mut Plan,
) {
    let property_digests = state.vm().and_then(|vm| vm.property_digests.as_ref());
    if property_digests.is_some_and(|property_digests| {
        property_digests.differences(desired.vm_properties).contains(&VmPropertiesPart::Tags)
    }) {
        plan.push(Step::SetMetadata(vm.clone()), "the tags change");
    }
    plan.push(Step::UpdateVm(vm), join_reasons(reasons));
}

/// Plans a new VM, and the deletion of the one on record, if any.
fn plan_new_vm(
    state: &State,
    desired: &DesiredDeployment<'_>,
    reasons: &[Reason],
    options: &PlanOptions,
    plan: &mut Plan,
) -> Result<()> {
    let reason = join_reasons(reasons);
    let stemcell = state.stemcell_at(desired.cpi, desired.stemcell);
    let stemcell_ref = match stemcell {
        Some(record) => StemcellRef::Existing(record.id.clone()),
        None => {
            let (cpi, stemcell) = (desired.cpi.map(str::to_owned), name_and_version(desired.stemcell));
            plan.push(Step::CreateStemcell { cpi, stemcell }, upload_reason(state, desired));
            StemcellRef::New
        }
    };
    if let Some(vm) = state.vm_handle() {
        match options.vm_is_gone {
            true => plan.push(Step::StopJobsIfPossible(vm.clone()), MISSING_VM_REASON),
            false => plan.push(Step::StopJobs(vm.clone()), reason.clone()),
        }
        if let Some(disk) = state.current_disk().filter(|_| options.takes_snapshot) {
            plan.push(Step::SnapshotDisk(disk.handle()), "requested by --snapshot");
        }
        plan.push_deletion(vm, reason.clone());
    }
    plan_deletion_of_earlier_vms(state, plan);
    plan.push(Step::CreateVm(stemcell_ref), reason.clone());
    let current_disk = state.current_disk();
    let deletion_reason = match desired.disk {
        Some(spec) => plan_disk(plan, state, spec, desired, options)?,
        None => None,
    };
    plan.push(Step::DeployJobs, reason);

    // The old disk is deleted last. Until the jobs run with the new disk, it holds the only proven copy.
    if let (Some(current_disk), Some(deletion_reason)) = (current_disk, deletion_reason) {
        plan.push_deletion(current_disk.handle(), deletion_reason);
    }

    // Disks that an earlier run left behind.
    for disk in state
        .disks
        .iter()
        .filter(|disk| Some(disk.id.as_str()) != current_disk.map(|disk| disk.id.as_str()) && !disk.is_kept())
    {
        plan.push_deletion(disk.handle(), "it is not in use");
    }
    plan_deletion_of_other_stemcells(stemcell.map(StemcellRecord::handle), state, plan);
    plan_deletion_of_expired_snapshots(state, options, plan);
    Ok(())
}

/// Joins the reasons in one line. If some need a new VM, the others are left out.
fn join_reasons(reasons: &[Reason]) -> String {
    let replaces_vm = reasons.iter().any(|reason| reason.replaces_vm);
    let texts: Vec<&str> = reasons
        .iter()
        .filter(|reason| reason.replaces_vm == replaces_vm)
        .map(|reason| reason.text.as_str())
        .collect();
    texts.join("; ")
}

/// Plans to delete resources that earlier runs could not delete, and those no longer in use.
fn plan_cleanup(state: &State, options: &PlanOptions, mut plan: Plan) -> Plan {
    plan_deletion_of_earlier_vms(state, &mut plan);
    // Without a current disk, an interrupted run may still need one of them.
    for disk in state.disks.iter().filter(|disk| {
        disk.id != state.current_disk_id && !state.current_disk_id.is_empty() && !disk.is_kept()
    }) {
        plan.push_deletion(disk.handle(), "it is not in use");
    }
    plan_deletion_of_other_stemcells(state.current_stemcell().map(StemcellRecord::handle), state, &mut plan);
    plan_deletion_of_expired_snapshots(state, options, &mut plan);
    plan
}

/// Plans to delete earlier VMs that may still exist.
fn plan_deletion_of_earlier_vms(state: &State, plan: &mut Plan) {
    for vm in state.undeleted_vms() {
        plan.push_deletion(vm, "an earlier run could not delete it");
    }
}

/// Plans to delete all stemcells except the one in use and those that an operator uploaded. Plans one
/// deletion per handle, because other tools may have recorded one stemcell under two versions.
fn plan_deletion_of_other_stemcells(stemcell_in_use: Option<StemcellHandle>, state: &State, plan: &mut Plan) {
    let mut planned_stemcells: BTreeSet<StemcellHandle> = stemcell_in_use.into_iter().collect();
    for record in &state.stemcells {
        if planned_stemcells.insert(record.handle()) && !record.is_kept {
            plan.push_deletion(record.handle(), "it is not in use any more");
        }
    }
}

/// Plans to delete the snapshots that were to be kept until a time before now.
fn plan_deletion_of_expired_snapshots(state: &State, options: &PlanOptions, plan: &mut Plan) {
    for snapshot in &state.monopile.snapshots {
        // Times of this form sort like text.
        if let Some(keep_until) = snapshot.keep_until.as_ref().filter(|keep_until| **keep_until < options.now)
        {
            plan.push_deletion(snapshot.handle(), format!("it was kept until {keep_until}"));
        }
    }
}

/// Plans how the new VM gets its persistent disk. Returns the reason to delete the current disk if a new one
/// supersedes it.
fn plan_disk(
    plan: &mut Plan,
    state: &State,
    spec: &DiskSpec,
    desired: &DesiredDeployment<'_>,
    options: &PlanOptions,
) -> Result<Option<String>> {
    let Some(current_disk) = state.current_disk() else {
        plan.push(Step::CreateDisk(spec.clone()), "the manifest has a persistent disk");
        plan.push(Step::AttachDisk(DiskRef::New), "the manifest has a persistent disk");
        plan.push(Step::UseDisk, "the manifest has a persistent disk");
        return Ok(None);
    };
    if let Some(move_text) = describe_impossible_move(current_disk, desired) {
        if !options.recreate_persistent_disks {
            return Err(left_behind_error(current_disk, &move_text));
        }
        let reason = format!(
            "disk {} cannot be moved: {move_text} (--recreate-persistent-disks)",
            current_disk.handle()
        );
        plan.push(Step::CreateDisk(spec.clone()), reason.clone());
        plan.push(Step::AttachDisk(DiskRef::New), reason.clone());
        plan.push(Step::UseDisk, reason);
        return Ok(Some(format!("it cannot be moved: {move_text} (--recreate-persistent-disks)")));
    }
    let update = DiskUpdate { disk: current_disk.handle(), size: current_disk.size, spec: spec.clone() };
    let change = disk_change_reason(state, desired);
    let is_smaller = spec.size < current_disk.size;
    let copy_reason = match change {
        _ if options.recreate_persistent_disks => Some("requested by --recreate-persistent-disks".to_owned()),
        Some(_) if is_smaller => {
            Some(format!("no disk can shrink from {} MiB to {} MiB", current_disk.size, spec.size))
        }
        Some(reason) => {
            let step = match current_disk.cloud_properties == spec.cloud_properties {
                true => Step::ResizeDisk(update.clone()),
                false => Step::UpdateDisk(update.clone()),
            };
            plan.push(step, reason);
            None
        }
        None => None,
    };
    plan.push(Step::AttachDisk(DiskRef::Existing(current_disk.handle())), "the VM is new");
    Ok(copy_reason.map(|reason| {
        plan.push_disk_copy(&update, &reason);
        COPIED_DATA_REASON.to_owned()
    }))
}

/// Returns a description of the move if the disk cannot follow the VM to its new CPI or AZ.
fn describe_impossible_move(disk: &DiskRecord, desired: &DesiredDeployment<'_>) -> Option<String> {
    if disk.cpi.as_deref() != desired.cpi {
        return Some(format!(
            "the environment moves from {} to {}",
            cpi_label(disk.cpi.as_deref()),
            cpi_label(desired.cpi)
        ));
    }
    match (disk.az.as_deref(), desired.az) {
        (Some(old_az), Some(new_az)) if old_az != new_az => {
            Some(format!("the environment moves from availability zone '{old_az}' to '{new_az}'"))
        }
        // An unknown AZ counts as the same.
        _ => None,
    }
}

/// Returns the disk that a move would leave behind, and whose data would be lost.
pub fn disk_left_behind<'s>(state: &'s State, desired: &DesiredDeployment<'_>) -> Option<&'s DiskRecord> {
    state
        .current_disk()
        .filter(|disk| desired.disk.is_some() && describe_impossible_move(disk, desired).is_some())
}

fn left_behind_error(disk: &DiskRecord, move_text: &str) -> Error {
    Error::invalid(format!("{move_text}, but its persistent disk {} cannot be moved", disk.handle()))
        .with_note("nothing was changed")
        .with_hint(
            "back up the data on the disk, then: `monopile SAME-COMMAND --recreate-persistent-disks`. It \
             creates an empty disk, and deletes the old one with its data once the jobs run",
        )
}
