//! The plan of `create-env`.

use std::collections::BTreeSet;

use super::difference::Leaf;
use super::reasons::{Reason, disk_change, reasons, upload};
use super::{DiskRef, Plan, StemcellRef, Step};
use crate::state::{Disk, State, Stemcell, StemcellHandle, VmHandle, VmSpec, VmSpecPart};
use artifact::Identity;
use base::{Error, Result};
use manifest::cpi_label;
use manifest::deployment::DiskSpec;

/// The desired state by the manifest, as far as a plan depends on it.
#[derive(Debug, Clone)]
pub struct Desired<'a> {
    /// SHA-512 of the interpolated manifest, hex.
    pub manifest_sha: &'a str,
    /// The leaves of the interpolated manifest.
    pub leaves: &'a [Leaf],
    /// The description of the VM.
    pub vm_spec: &'a VmSpec,
    /// The stemcell.
    pub stemcell: &'a Identity,
    /// The releases.
    pub releases: &'a [Identity],
    /// The persistent disk, if any.
    pub disk: Option<&'a DiskSpec>,
    /// The name of the CPI that VM, disk and stemcell are to be of; none for the default CPI.
    pub cpi: Option<&'a str>,
    /// The name of the availability zone, where the manifest has such.
    pub az: Option<&'a str>,
}

/// How a change comes to a VM that exists.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Strategy {
    /// In the VM that runs where that is possible; else with a new one
    #[default]
    InPlace,
    /// Always with a new VM
    Recreate,
}

/// What the operator asks for beyond the manifest, and what was found out.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Deploy even if nothing changed.
    pub recreate: bool,
    /// Move the data to a new disk.
    pub recreate_persistent_disks: bool,
    /// How a change comes to a VM that exists.
    pub strategy: Strategy,
    /// The VM on record is known not to exist any more.
    pub vm_is_gone: bool,
    /// Why the agent of the VM on record cannot be counted on.
    pub agent_is_silent: Option<String>,
}

/// Plans a `create-env`. A persistent disk that would stay behind in another CPI or AZ is an error, unless its data
/// may be lost.
pub fn create(state: &State, desired: &Desired<'_>, options: &Options) -> Result<Plan> {
    let mut plan = Plan::default();
    let reasons = reasons(state, desired, options);
    if reasons.is_empty() {
        return Ok(leftovers(state, plan));
    }
    let keeps_vm = options.strategy == Strategy::InPlace && !reasons.iter().any(|reason| reason.needs_vm);
    match state.vm_handle().filter(|_| keeps_vm) {
        Some(vm) => Ok(update(state, desired, &reasons, vm, plan)),
        None => {
            recreate(state, desired, &reasons, options, &mut plan)?;
            Ok(plan)
        }
    }
}

/// The VM stays, and gets its jobs anew.
fn update(state: &State, desired: &Desired<'_>, reasons: &[Reason], vm: VmHandle, mut plan: Plan) -> Plan {
    let made_of = state.vm().and_then(|vm| vm.made_of.as_ref());
    if made_of.is_some_and(|made_of| made_of.differences(desired.vm_spec).contains(&VmSpecPart::Tags)) {
        plan.push(Step::SetMetadata(vm.clone()), "the tags change");
    }
    plan.push(Step::UpdateVm(vm), why(reasons));
    leftovers(state, plan)
}

fn recreate(
    state: &State,
    desired: &Desired<'_>,
    reasons: &[Reason],
    options: &Options,
    plan: &mut Plan,
) -> Result<()> {
    let reason = why(reasons);
    let stemcell = state.stemcell_at(desired.cpi, desired.stemcell);
    let made_from = match stemcell {
        Some(known) => StemcellRef::Existing(known.id.clone()),
        None => {
            plan.push(Step::CreateStemcell { cpi: desired.cpi.map(str::to_owned) }, upload(state, desired));
            StemcellRef::New
        }
    };
    if let Some(vm) = state.vm_handle() {
        plan.push(Step::StopVm(vm.clone()), reason.clone());
        plan.delete(vm, reason.clone());
    }
    delete_earlier_vms(state, plan);
    plan.push(Step::CreateVm(made_from), reason.clone());
    let current = state.current_disk();
    let superseded = match desired.disk {
        Some(spec) => disk_steps(plan, state, spec, desired, options)?,
        None => None,
    };
    plan.push(Step::DeployJobs, reason);

    // The old disk goes last: until the jobs run on the new one, it is the only proven copy.
    if let (Some(current), Some(why)) = (current, superseded) {
        plan.delete(current.handle(), why);
    }

    // What an earlier run left behind, or this one replaces.
    for disk in state
        .disks
        .iter()
        .filter(|disk| Some(disk.id.as_str()) != current.map(|disk| disk.id.as_str()) && !disk.is_kept())
    {
        plan.delete(disk.handle(), "it is not in use");
    }
    delete_stemcells_but(stemcell.map(Stemcell::handle), state, plan);
    Ok(())
}

/// The reasons in one line. Where some need a new VM, the others do not matter.
fn why(reasons: &[Reason]) -> String {
    let needs_vm = reasons.iter().any(|reason| reason.needs_vm);
    let texts: Vec<&str> =
        reasons.iter().filter(|one| one.needs_vm == needs_vm).map(|one| one.text.as_str()).collect();
    texts.join("; ")
}

/// When nothing changed, what earlier runs could not delete is tried again.
fn leftovers(state: &State, mut plan: Plan) -> Plan {
    delete_earlier_vms(state, &mut plan);
    for disk in state.disks.iter().filter(|disk| {
        disk.id != state.current_disk_id && !state.current_disk_id.is_empty() && !disk.is_kept()
    }) {
        plan.delete(disk.handle(), "it is not in use");
    }
    delete_stemcells_but(state.current_stemcell().map(Stemcell::handle), state, &mut plan);
    plan
}

/// VMs that were not found when they were to be deleted.
fn delete_earlier_vms(state: &State, plan: &mut Plan) {
    for vm in state.undeleted_vms() {
        plan.delete(vm, "it may still exist");
    }
}

/// By CID and not by record: other tools may have recorded one stemcell of the IaaS under two versions. What an
/// operator uploaded stays.
fn delete_stemcells_but(used: Option<StemcellHandle>, state: &State, plan: &mut Plan) {
    let mut kept: BTreeSet<StemcellHandle> = used.into_iter().collect();
    for known in &state.stemcells {
        if kept.insert(known.handle()) && !known.kept {
            plan.delete(known.handle(), "it is not in use any more");
        }
    }
}

/// Plans the disk's way to the new VM; says whether the current disk is superseded by a new one, and why.
fn disk_steps(
    plan: &mut Plan,
    state: &State,
    spec: &DiskSpec,
    desired: &Desired<'_>,
    options: &Options,
) -> Result<Option<String>> {
    let Some(current) = state.current_disk() else {
        plan.push(
            Step::CreateDisk(spec.clone()),
            format!("a persistent disk of {} MiB is wanted", spec.size),
        );
        plan.push(Step::AttachDisk(DiskRef::New), "it is new");
        plan.push(Step::UseDisk, "it is new");
        return Ok(None);
    };
    if let Some(away) = stays_behind(current, desired) {
        if !options.recreate_persistent_disks {
            return Err(left_behind(current, &away));
        }
        let reason = format!("disk {} stays behind: {away} (--recreate-persistent-disks)", current.handle());
        plan.push(Step::CreateDisk(spec.clone()), reason.clone());
        plan.push(Step::AttachDisk(DiskRef::New), reason.clone());
        plan.push(Step::UseDisk, reason);
        return Ok(Some(format!("it stays behind: {away} (--recreate-persistent-disks)")));
    }
    plan.push(Step::AttachDisk(DiskRef::Existing(current.handle())), "the VM is new");
    let asked = options.recreate_persistent_disks.then(|| "--recreate-persistent-disks".to_owned());
    let Some(reason) = asked.or_else(|| disk_change(state, desired)) else { return Ok(None) };
    plan.push(Step::CreateDisk(spec.clone()), reason.clone());
    plan.push(Step::AttachDisk(DiskRef::New), reason);
    plan.push(Step::MigrateDisk, format!("from {} MiB to {} MiB", current.size, spec.size));
    plan.push(Step::UseDisk, "it has the data");
    plan.push(Step::DetachDisk(current.handle()), "its data is on the new disk");
    Ok(Some("its data is on the new disk".to_owned()))
}

/// Whether a disk cannot follow to where the VM is wanted: in words, from where to where that is.
fn stays_behind(disk: &Disk, desired: &Desired<'_>) -> Option<String> {
    if disk.cpi.as_deref() != desired.cpi {
        return Some(format!(
            "the environment moves from {} to {}",
            cpi_label(disk.cpi.as_deref()),
            cpi_label(desired.cpi)
        ));
    }
    match (disk.az.as_deref(), desired.az) {
        (Some(from), Some(to)) if from != to => {
            Some(format!("the environment moves from AZ '{from}' to AZ '{to}'"))
        }
        // Where one of them is not known, it is taken for the same.
        _ => None,
    }
}

/// The disk that a move would leave behind, whose data is lost then.
pub fn loses<'s>(state: &'s State, desired: &Desired<'_>) -> Option<&'s Disk> {
    state.current_disk().filter(|disk| desired.disk.is_some() && stays_behind(disk, desired).is_some())
}

fn left_behind(disk: &Disk, away: &str) -> Error {
    Error::invalid(format!("{away}, and its persistent disk {} cannot go along", disk.handle()))
        .with_hint("nothing was changed")
        .with_hint(
            "back up what is on the disk; --recreate-persistent-disks then begins with an empty one and deletes \
             the old one, with its data, once the jobs run",
        )
}
