//! Pure: what is (state) and what is wanted (manifest, artifacts) to an ordered list of steps, each with its
//! reason.
//!
//! [`create`] plans `create-env`, [`delete`] plans `delete-env`. Nothing here asks a CPI or an agent: what only
//! they know (whether a VM still runs) is found out by the step that needs it.

mod create;
mod delete;
mod difference;
mod reasons;

use std::collections::BTreeSet;
use std::time::Duration;

pub use create::{Desired, Options, Strategy, create, loses};
pub use delete::delete;
pub use difference::{Alteration, Difference, Leaf, differences};

use base::events::AnnouncedStep;
use manifest::deployment::DiskSpec;

use crate::state::{DiskHandle, Durations, Resource, VmHandle};

/// The name under which it is recorded how long no job ran while a VM was updated.
pub const INTERRUPTION_IN_PLACE: &str = "interruption_in_place";
/// The same, while a VM was replaced.
pub const INTERRUPTION_BY_NEW_VM: &str = "interruption_by_new_vm";

/// What to do, in order. Empty when nothing changed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Plan {
    /// The steps.
    pub steps: Vec<Planned>,
}

/// A step and why it is taken.
#[derive(Debug, Clone, PartialEq)]
pub struct Planned {
    /// What to do.
    pub step: Step,
    /// Why, for a person.
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

/// What a step is about, where it may be something that an earlier step makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiskRef {
    /// This disk.
    Existing(DiskHandle),
    /// The disk the last [`Step::CreateDisk`] made.
    New,
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Upload the stemcell.
    CreateStemcell {
        /// The CPI to upload it to; none for the default CPI.
        cpi: Option<String>,
    },
    /// Run the stop half of the jobs' lifecycle on the VM on record and unmount its disks.
    StopVm(VmHandle),
    /// Delete something on record that is not in use (any more), or the VM of this environment.
    Delete(Resource),
    /// Create the VM from this stemcell, by the stemcell's CPI, and wait for its agent.
    CreateVm(StemcellRef),
    /// Set the metadata of the VM on record again.
    SetMetadata(VmHandle),
    /// Bring the VM on record, while it lives, to run the jobs as they are wanted.
    UpdateVm(VmHandle),
    /// Create a persistent disk.
    CreateDisk(DiskSpec),
    /// Attach a disk to the VM and have the agent mount it.
    AttachDisk(DiskRef),
    /// Copy the data of the mounted disk to the new one.
    MigrateDisk,
    /// Count the disk the last [`Step::CreateDisk`] made as the one in use.
    UseDisk,
    /// Take a disk off the VM.
    DetachDisk(DiskHandle),
    /// Render, compile, upload and start the jobs.
    DeployJobs,
}

impl Step {
    /// What steps of its kind are called, by programs and in the record of how long they take.
    pub fn name(&self) -> &'static str {
        match self {
            Step::CreateStemcell { .. } => "create_stemcell",
            Step::StopVm(_) => "stop_vm",
            Step::Delete(Resource::Vm(_)) => "delete_vm",
            Step::CreateVm(_) => "create_vm",
            Step::SetMetadata(_) => "set_metadata",
            Step::UpdateVm(_) => "update_vm",
            Step::CreateDisk(_) => "create_disk",
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
}

impl Step {
    /// What it does to this instance, for a person.
    pub fn describe(&self, instance: &str) -> String {
        match self {
            Step::CreateStemcell { .. } => "Upload the stemcell".to_owned(),
            Step::StopVm(vm) => format!("Stop the jobs on VM {vm}"),
            Step::CreateVm(_) => format!("Create the VM of '{instance}'"),
            Step::SetMetadata(vm) => format!("Set the metadata of VM {vm}"),
            Step::UpdateVm(vm) => format!("Update '{instance}' in place on VM {vm}"),
            Step::CreateDisk(spec) => format!("Create a disk of {} MiB", spec.size),
            Step::AttachDisk(DiskRef::Existing(disk)) => format!("Attach disk {disk}"),
            Step::AttachDisk(DiskRef::New) => "Attach the new disk".to_owned(),
            Step::MigrateDisk => "Copy the data to the new disk".to_owned(),
            Step::UseDisk => "Count the new disk as the one in use".to_owned(),
            Step::DetachDisk(disk) => format!("Detach disk {disk}"),
            Step::DeployJobs => format!("Bring the jobs of '{instance}' to the VM and start them"),
            Step::Delete(resource) => format!("Delete {resource}"),
        }
    }

    /// Whether it only deletes what nothing uses.
    pub fn clears_away(&self) -> bool {
        matches!(self, Step::Delete(Resource::Disk(_) | Resource::Stemcell(_) | Resource::Snapshot(_)))
    }
}

impl Plan {
    /// The steps as they are announced for this instance.
    pub fn announced(&self, instance: &str) -> Vec<AnnouncedStep> {
        let announced = |planned: &Planned| AnnouncedStep {
            step: planned.step.name().to_owned(),
            what: planned.step.describe(instance),
            reason: planned.reason.clone(),
        };
        self.steps.iter().map(announced).collect()
    }

    /// How long it may take, by how long its steps usually take; none where one of them was never measured. Clearing
    /// away does not count: it keeps nobody waiting.
    pub fn usual(&self, durations: &Durations) -> Option<Duration> {
        let steps = self.steps.iter().map(|planned| &planned.step).filter(|step| !step.clears_away());
        let names: BTreeSet<&str> = steps.map(Step::name).collect();
        if names.is_empty() {
            return None;
        }
        names.into_iter().map(|name| durations.usual(name)).sum()
    }

    /// How long no job may run, by how long it usually is; none where that is not known or nothing runs that could be
    /// interrupted.
    pub fn interruption(&self, durations: &Durations) -> Option<Duration> {
        let stops = self.steps.iter().any(|planned| matches!(planned.step, Step::StopVm(_)));
        let name = match self.updates_in_place() {
            true => INTERRUPTION_IN_PLACE,
            false if stops => INTERRUPTION_BY_NEW_VM,
            false => return None,
        };
        durations.usual(name)
    }

    fn push(&mut self, step: Step, reason: impl Into<String>) {
        self.steps.push(Planned { step, reason: reason.into() });
    }

    fn delete(&mut self, resource: impl Into<Resource>, reason: impl Into<String>) {
        self.push(Step::Delete(resource.into()), reason);
    }

    /// Whether it brings jobs to run, and does not only clear away.
    pub fn deploys(&self) -> bool {
        self.makes_vm() || self.updates_in_place()
    }

    /// Whether it makes a VM.
    pub fn makes_vm(&self) -> bool {
        self.steps.iter().any(|planned| matches!(planned.step, Step::CreateVm(_)))
    }

    /// Whether it changes a VM that stays.
    pub fn updates_in_place(&self) -> bool {
        self.steps.iter().any(|planned| matches!(planned.step, Step::UpdateVm(_)))
    }

    /// Whether something that runs is stopped, or something that exists is deleted.
    pub fn interrupts(&self) -> bool {
        self.steps.iter().any(|planned| {
            matches!(
                planned.step,
                Step::StopVm(_) | Step::UpdateVm(_) | Step::Delete(Resource::Vm(_) | Resource::Disk(_))
            )
        })
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }
}

#[cfg(test)]
mod tests;
