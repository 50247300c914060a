//! Compares the state with the manifest and its artifacts, and returns an ordered list of steps with reasons.
//!
//! [`create()`] plans `create-env`, [`delete()`] plans `delete-env`. A plan is made without I/O. Facts that
//! only a CPI or an agent knows, such as whether a VM still runs, are arguments, or the step that needs them
//! finds them out.

mod create;
mod delete;
mod difference;
mod reasons;

use std::collections::BTreeSet;
use std::time::Duration;

pub use create::{DesiredDeployment, PlanOptions, UpdateStrategy, create, disk_left_behind};
pub use delete::delete;
pub use difference::{DesiredLeaf, Difference, LeafChange, differences};

use base::events::{ReportedStep, StepText};
use manifest::deployment::DiskSpec;

use crate::state::{DiskHandle, Durations, Resource, VmHandle};

/// The key in [`Durations`] for the time without running jobs during an in-place update.
pub const DOWNTIME_IN_PLACE: &str = "interruption_in_place";
/// The key in [`Durations`] for the time without running jobs while a VM was replaced.
pub const DOWNTIME_BY_NEW_VM: &str = "interruption_by_new_vm";
/// The reason to delete a disk whose data was copied.
const COPIED_DATA_REASON: &str = "its data is on the new disk";

/// The steps in order. Empty if there is nothing to deploy and nothing to delete.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Plan {
    /// The steps, in the order in which they are taken.
    pub steps: Vec<PlannedStep>,
}

/// A step with its reason.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedStep {
    /// The action and what it acts on.
    pub step: Step,
    /// The reason, as text for the operator.
    pub reason: String,
}

/// The stemcell of a new VM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StemcellRef {
    /// The record with this id.
    Existing(String),
    /// The stemcell that [`Step::CreateStemcell`] uploads.
    New,
}

/// The disk of a step: one on record, or one that an earlier step creates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiskRef {
    /// A disk on record.
    Existing(DiskHandle),
    /// The disk that the last [`Step::CreateDisk`] created.
    New,
}

/// A change of a disk on record.
#[derive(Debug, Clone, PartialEq)]
pub struct DiskUpdate {
    /// The disk.
    pub disk: DiskHandle,
    /// Its size on record, in MiB.
    pub size: u64,
    /// The disk that the manifest describes.
    pub spec: DiskSpec,
}

/// One action of a plan.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Uploads the stemcell.
    CreateStemcell {
        /// The CPI to upload it to; `None` for the default CPI.
        cpi: Option<String>,
        /// Its name and version: `NAME/VERSION`.
        stemcell: String,
    },
    /// Stops the jobs on the VM on record, with their lifecycle scripts, and unmounts its disks.
    StopJobs(VmHandle),
    /// Like `StopJobs`, if the stop is expected to fail: the VM is gone, or its agent cannot be used. The run
    /// tries the stop nevertheless.
    StopJobsIfPossible(VmHandle),
    /// Takes a snapshot of a disk, if the CPI can.
    SnapshotDisk(DiskHandle),
    /// Deletes a resource on record. `create-env` deletes the VM and unused resources, `delete-env` all.
    Delete(Resource),
    /// Creates the VM from this stemcell, with the stemcell's CPI, and waits for its agent.
    CreateVm(StemcellRef),
    /// Sets the metadata of the VM on record again.
    SetMetadata(VmHandle),
    /// Updates the VM on record in place, so that it runs the desired jobs.
    UpdateVm(VmHandle),
    /// Records the manifest as deployed while the jobs on the VM on record run on.
    KeepJobs(VmHandle),
    /// Creates a persistent disk.
    CreateDisk(DiskSpec),
    /// Grows a detached disk in place. If the CPI cannot, the run goes on with [`Plan::with_disk_copy`].
    ResizeDisk(DiskUpdate),
    /// Like `ResizeDisk`, and changes the cloud properties.
    UpdateDisk(DiskUpdate),
    /// Attaches a disk to the VM and has the agent mount it.
    AttachDisk(DiskRef),
    /// Copies the data of the mounted disk to the new one.
    MigrateDisk,
    /// Switches to the disk that the last [`Step::CreateDisk`] created.
    UseDisk,
    /// Detaches a disk from the VM.
    DetachDisk(DiskHandle),
    /// Renders, compiles, uploads and starts the jobs.
    DeployJobs,
}

/// The way in which a step deploys the manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DeployKind {
    NewVm,
    /// It updates the VM on record.
    InPlace,
    /// It records the manifest, and the jobs run on.
    KeptJobs,
}

impl Step {
    /// Returns the name of this kind of step, as used in events and in [`Durations`].
    pub fn name(&self) -> &'static str {
        match self {
            Step::CreateStemcell { .. } => "create_stemcell",
            Step::StopJobs(_) | Step::StopJobsIfPossible(_) => "stop_vm",
            Step::SnapshotDisk(_) => "snapshot_disk",
            Step::Delete(Resource::Vm(_)) => "delete_vm",
            Step::CreateVm(_) => "create_vm",
            Step::SetMetadata(_) => "set_metadata",
            Step::UpdateVm(_) => "update_vm",
            Step::KeepJobs(_) => "keep_jobs",
            Step::CreateDisk(_) => "create_disk",
            Step::ResizeDisk(_) => "resize_disk",
            Step::UpdateDisk(_) => "update_disk",
            Step::AttachDisk(_) => "attach_disk",
            Step::MigrateDisk => "migrate_disk",
            Step::UseDisk => "use_disk",
            Step::DetachDisk(_) => "detach_disk",
            Step::DeployJobs => "deploy_jobs",
            Step::Delete(Resource::Disk(_)) => "delete_disk",
            Step::Delete(Resource::Stemcell(_)) => "delete_stemcell",
            Step::Delete(Resource::Snapshot(_)) => "delete_snapshot",
        }
    }

    /// Describes the step for the operator.
    pub fn describe(&self, instance: &str) -> String {
        let action = self.text(instance).imperative;
        match self {
            Step::ResizeDisk(_) | Step::UpdateDisk(_) => {
                format!("{action} if the CPI can, otherwise copy its data to a new disk and delete it")
            }
            Step::StopJobsIfPossible(_) => format!("{action} if possible"),
            _ => action,
        }
    }

    /// Returns the words for the step before and after it is taken or skipped.
    pub fn text(&self, instance: &str) -> StepText {
        let (verb, past, object) = match self {
            Step::CreateStemcell { stemcell, .. } => ("Upload", "Uploaded", format!("stemcell {stemcell}")),
            Step::StopJobs(vm) | Step::StopJobsIfPossible(vm) => {
                ("Stop", "Stopped", format!("the jobs on VM {vm}"))
            }
            Step::SnapshotDisk(disk) => ("Take", "Took", format!("a snapshot of disk {disk}")),
            Step::CreateVm(_) => ("Create", "Created", format!("the VM of '{instance}'")),
            Step::SetMetadata(vm) => ("Set", "Set", format!("the metadata of VM {vm}")),
            Step::UpdateVm(vm) => {
                let jobs = format!("the jobs of '{instance}'");
                return StepText {
                    imperative: format!("Stop {jobs}, update them in place on VM {vm}, and start them"),
                    past_tense: format!("Stopped {jobs}, updated them in place on VM {vm}, and started them"),
                    negation: format!("Did not update {jobs} on VM {vm}"),
                };
            }
            Step::KeepJobs(vm) => ("Record", "Recorded", format!("the manifest; the jobs on VM {vm} run on")),
            Step::CreateDisk(spec) => ("Create", "Created", format!("a disk of {} MiB", spec.size)),
            Step::ResizeDisk(DiskUpdate { disk, spec, .. }) => {
                ("Grow", "Grew", format!("disk {disk} to {} MiB in place", spec.size))
            }
            Step::UpdateDisk(DiskUpdate { disk, .. }) => {
                ("Change", "Changed", format!("disk {disk} in place"))
            }
            Step::AttachDisk(DiskRef::Existing(disk)) => ("Attach", "Attached", format!("disk {disk}")),
            Step::AttachDisk(DiskRef::New) => ("Attach", "Attached", "the new disk".to_owned()),
            Step::MigrateDisk => ("Copy", "Copied", "the data to the new disk".to_owned()),
            Step::UseDisk => ("Record", "Recorded", "the new disk as the persistent disk".to_owned()),
            Step::DetachDisk(disk) => ("Detach", "Detached", format!("disk {disk}")),
            Step::DeployJobs => {
                let jobs = format!("the jobs of '{instance}'");
                return StepText {
                    imperative: format!("Deploy {jobs} and start them"),
                    past_tense: format!("Deployed {jobs} and started them"),
                    negation: format!("Did not deploy {jobs}"),
                };
            }
            Step::Delete(resource) => ("Delete", "Deleted", resource.to_string()),
        };
        StepText {
            imperative: format!("{verb} {object}"),
            past_tense: format!("{past} {object}"),
            negation: format!("Did not {} {object}", verb.to_lowercase()),
        }
    }

    /// Returns the way in which the step deploys the manifest, if it does.
    fn deploy_kind(&self) -> Option<DeployKind> {
        match self {
            Step::CreateVm(_) => Some(DeployKind::NewVm),
            Step::UpdateVm(_) => Some(DeployKind::InPlace),
            Step::KeepJobs(_) => Some(DeployKind::KeptJobs),
            // The jobs of a new VM are a part of its deploy.
            Step::DeployJobs
            | Step::CreateStemcell { .. }
            | Step::StopJobs(_)
            | Step::StopJobsIfPossible(_)
            | Step::SnapshotDisk(_)
            | Step::Delete(_)
            | Step::SetMetadata(_)
            | Step::CreateDisk(_)
            | Step::ResizeDisk(_)
            | Step::UpdateDisk(_)
            | Step::AttachDisk(_)
            | Step::MigrateDisk
            | Step::UseDisk
            | Step::DetachDisk(_) => None,
        }
    }

    /// Returns true if the operator has to confirm the step, because it stops running jobs or deletes a VM or
    /// a disk.
    fn needs_confirmation(&self) -> bool {
        match self {
            Step::StopJobs(_) | Step::StopJobsIfPossible(_) | Step::UpdateVm(_) => true,
            Step::Delete(Resource::Vm(_) | Resource::Disk(_)) => true,
            Step::Delete(Resource::Stemcell(_) | Resource::Snapshot(_)) => false,
            // An earlier step has stopped the jobs that use the disk.
            Step::CreateDisk(_) | Step::ResizeDisk(_) | Step::UpdateDisk(_) | Step::AttachDisk(_) => false,
            Step::MigrateDisk | Step::UseDisk | Step::DetachDisk(_) | Step::SnapshotDisk(_) => false,
            Step::CreateStemcell { .. } | Step::CreateVm(_) | Step::SetMetadata(_) => false,
            Step::KeepJobs(_) | Step::DeployJobs => false,
        }
    }

    /// Returns true if the step of a deploy only deletes an unused resource: a disk, stemcell or snapshot.
    pub fn only_cleans_up(&self) -> bool {
        matches!(self, Step::Delete(Resource::Disk(_) | Resource::Stemcell(_) | Resource::Snapshot(_)))
    }
}

impl Plan {
    /// Returns the steps as reported to the operator for this instance.
    pub fn reported_steps(&self, instance: &str) -> Vec<ReportedStep> {
        let report_step = |planned_step: &PlannedStep| ReportedStep {
            step_kind: planned_step.step.name().to_owned(),
            description: planned_step.step.describe(instance),
            reason: planned_step.reason.clone(),
        };
        self.steps.iter().map(report_step).collect()
    }

    /// Estimates the duration from earlier runs. Returns `None` if a step was never measured, if no step
    /// counts, or if the plan expects that the jobs cannot be stopped: the time that it waits for their agent
    /// is unknown. Steps that delete unused resources do not count, because the jobs do not wait for them.
    pub fn usual_duration(&self, durations: &Durations) -> Option<Duration> {
        let steps =
            self.steps.iter().map(|planned_step| &planned_step.step).filter(|step| !step.only_cleans_up());
        let names: BTreeSet<&str> = steps.map(Step::name).collect();
        if names.is_empty() || self.expects_stop_failure() {
            return None;
        }
        names.into_iter().map(|name| durations.usual_duration(name)).sum()
    }

    /// Estimates the downtime of the jobs from earlier runs. Returns `None` if it is unknown, as for jobs
    /// that can probably not be stopped, or if the plan concerns no running VM.
    pub fn downtime(&self, durations: &Durations) -> Option<Duration> {
        let has_stop = self.steps.iter().any(|planned_step| matches!(planned_step.step, Step::StopJobs(_)));
        let name = match self.updates_in_place() {
            true => DOWNTIME_IN_PLACE,
            false if has_stop => DOWNTIME_BY_NEW_VM,
            false => return None,
        };
        durations.usual_duration(name)
    }

    fn push(&mut self, step: Step, reason: impl Into<String>) {
        self.steps.push(PlannedStep { step, reason: reason.into() });
    }

    fn push_deletion(&mut self, resource: impl Into<Resource>, reason: impl Into<String>) {
        self.push(Step::Delete(resource.into()), reason);
    }

    /// Adds the steps that copy the data of the attached disk to a new one.
    fn push_disk_copy(&mut self, DiskUpdate { disk, size, spec }: &DiskUpdate, reason: &str) {
        self.push(Step::CreateDisk(spec.clone()), reason);
        self.push(Step::AttachDisk(DiskRef::New), reason);
        self.push(Step::MigrateDisk, format!("from {size} MiB to {} MiB", spec.size));
        self.push(Step::UseDisk, "it has the data");
        self.push(Step::DetachDisk(disk.clone()), COPIED_DATA_REASON);
    }

    /// Returns the plan for a CPI that cannot take the step with this index, which changes a disk in place.
    /// It copies the data to a new disk, and deletes the old one once the jobs run.
    #[must_use]
    pub fn with_disk_copy(&self, step_index: usize) -> Plan {
        let Some(Step::ResizeDisk(update) | Step::UpdateDisk(update)) =
            self.steps.get(step_index).map(|planned_step| &planned_step.step)
        else {
            return self.clone();
        };
        let attach_step = Step::AttachDisk(DiskRef::Existing(update.disk.clone()));
        let mut plan = Plan::default();
        for planned_step in &self.steps {
            plan.steps.push(planned_step.clone());
            if planned_step.step == attach_step {
                plan.push_disk_copy(update, "the CPI cannot change the disk in place");
            }
            if planned_step.step == Step::DeployJobs {
                plan.push_deletion(update.disk.clone(), COPIED_DATA_REASON);
            }
        }
        plan
    }

    /// Replaces the step `UpdateVm` by `KeepJobs`, for a manifest that changes neither jobs nor packages.
    pub fn keep_jobs(&mut self) {
        for planned_step in &mut self.steps {
            if let Step::UpdateVm(vm) = &planned_step.step {
                planned_step.step = Step::KeepJobs(vm.clone());
            }
        }
    }

    /// Replaces the step `StopJobs` by `StopJobsIfPossible`, with the reason why the agent cannot be used.
    pub fn expect_stop_failure(&mut self, reason: &str) {
        for planned_step in &mut self.steps {
            if let Step::StopJobs(vm) = &planned_step.step {
                planned_step.step = Step::StopJobsIfPossible(vm.clone());
                planned_step.reason = format!("at present, {reason}");
            }
        }
    }

    fn expects_stop_failure(&self) -> bool {
        self.steps.iter().any(|planned_step| matches!(planned_step.step, Step::StopJobsIfPossible(_)))
    }

    /// Returns true if the plan records a manifest while the jobs run on.
    pub fn keeps_jobs(&self) -> bool {
        self.deploys_by(DeployKind::KeptJobs)
    }

    /// Returns true if the plan deploys jobs. A plan that only cleans up does not.
    pub fn deploys_jobs(&self) -> bool {
        self.creates_vm() || self.updates_in_place()
    }

    /// Returns true if the plan creates a VM.
    pub fn creates_vm(&self) -> bool {
        self.deploys_by(DeployKind::NewVm)
    }

    /// Returns true if the plan updates a VM in place.
    pub fn updates_in_place(&self) -> bool {
        self.deploys_by(DeployKind::InPlace)
    }

    fn deploys_by(&self, deploy_kind: DeployKind) -> bool {
        self.steps.iter().any(|planned_step| planned_step.step.deploy_kind() == Some(deploy_kind))
    }

    /// Returns true if the operator has to confirm the plan, because it stops running jobs or deletes a VM or
    /// a disk.
    pub fn needs_confirmation(&self) -> bool {
        self.steps.iter().any(|planned_step| planned_step.step.needs_confirmation())
    }

    /// Returns true if there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }
}

#[cfg(test)]
mod tests;
