//! Pure: what is (state) and what is wanted (manifest, artifacts) to an ordered list of steps, each with its
//! reason.
//!
//! [`create`] plans `create-env`, [`delete`] plans `delete-env`. Nothing here asks a CPI or an agent: what only
//! they know (whether a VM still runs) is found out by the step that needs it.

mod create;
mod delete;

pub use create::{Options, Wanted, create, loses};
pub use delete::delete;

use crate::manifest::deployment::DiskSpec;
use crate::state::{Handle, Kind};

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

/// What a step is about, where it may be something that an earlier step makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiskRef {
    /// This disk.
    Existing(Handle),
    /// The disk the last [`Step::CreateDisk`] made.
    New,
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Upload the stemcell.
    CreateStemcell,
    /// Run the stop half of the jobs' lifecycle on the VM on record and unmount its disks.
    StopVm(Handle),
    /// Delete something on record that is not in use (any more), or the VM of this environment.
    Delete(Kind, Handle),
    /// Create the VM and wait for its agent.
    CreateVm,
    /// Create a persistent disk.
    CreateDisk(DiskSpec),
    /// Attach a disk to the VM and have the agent mount it.
    AttachDisk(DiskRef),
    /// Copy the data of the mounted disk to the new one.
    MigrateDisk,
    /// Count the disk the last [`Step::CreateDisk`] made as the one in use.
    UseDisk,
    /// Take a disk off the VM.
    DetachDisk(Handle),
    /// Render, compile, upload and start the jobs.
    DeployJobs,
}

impl Plan {
    fn push(&mut self, step: Step, reason: impl Into<String>) {
        self.steps.push(Planned { step, reason: reason.into() });
    }

    fn delete(&mut self, what: Kind, handle: Handle, reason: impl Into<String>) {
        self.push(Step::Delete(what, handle), reason);
    }

    /// Whether it makes a VM, and does not only clear away.
    pub fn deploys(&self) -> bool {
        self.steps.iter().any(|planned| planned.step == Step::CreateVm)
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }
}

#[cfg(test)]
mod tests;
