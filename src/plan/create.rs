//! The plan of `create-env`.

use std::collections::BTreeSet;

use super::difference::Leaf;
use super::reasons::{Reason, describe, disk_change, is_stemcell, reasons};
use super::{DiskRef, Plan, Step};
use crate::artifact::Identity;
use crate::manifest::deployment::DiskSpec;
use crate::state::{Ingredient, Ingredients, State, Stemcell};

/// What the manifest asks for, as far as a plan depends on it.
#[derive(Debug, Clone)]
pub struct Wanted<'a> {
    /// SHA-512 of the interpolated manifest, hex.
    pub manifest_sha: &'a str,
    /// The leaves of the interpolated manifest.
    pub leaves: &'a [Leaf],
    /// What the VM is to be made from.
    pub ingredients: &'a Ingredients,
    /// The stemcell.
    pub stemcell: &'a Identity,
    /// The releases.
    pub releases: &'a [Identity],
    /// The persistent disk, if any.
    pub disk: Option<&'a DiskSpec>,
}

/// How a change comes to a VM that exists.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
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

/// Plans a `create-env`.
pub fn create(state: &State, wanted: &Wanted<'_>, options: &Options) -> Plan {
    let mut plan = Plan::default();
    let reasons = reasons(state, wanted, options);
    if reasons.is_empty() {
        return leftovers(state, plan);
    }
    let keeps_vm = options.strategy == Strategy::InPlace && !reasons.iter().any(|reason| reason.needs_vm);
    match state.vm_cid().filter(|_| keeps_vm) {
        Some(cid) => update(state, wanted, &reasons, cid, plan),
        None => {
            recreate(state, wanted, &reasons, options, &mut plan);
            plan
        }
    }
}

/// The VM stays, and gets its jobs anew.
fn update(state: &State, wanted: &Wanted<'_>, reasons: &[Reason], cid: &str, mut plan: Plan) -> Plan {
    let made_of = state.vm().and_then(|vm| vm.made_of.as_ref());
    if made_of.is_some_and(|made_of| made_of.differences(wanted.ingredients).contains(&Ingredient::Tags)) {
        plan.push(Step::SetMetadata { cid: cid.to_owned() }, "the tags change");
    }
    plan.push(Step::UpdateVm { cid: cid.to_owned() }, why(reasons));
    leftovers(state, plan)
}

fn recreate(state: &State, wanted: &Wanted<'_>, reasons: &[Reason], options: &Options, plan: &mut Plan) {
    let reason = why(reasons);
    let stemcell = state.stemcells.iter().find(|known| is_stemcell(known, wanted.stemcell));
    if stemcell.is_none() {
        plan.push(Step::CreateStemcell, format!("stemcell {} is not uploaded", describe(wanted.stemcell)));
    }
    if let Some(cid) = state.vm_cid() {
        plan.push(Step::StopVm { cid: cid.to_owned() }, reason.clone());
        plan.push(Step::DeleteVm { cid: cid.to_owned() }, reason.clone());
    }
    delete_earlier_vms(state, plan);
    plan.push(Step::CreateVm, reason.clone());
    let current = state.current_disk();
    let superseded = wanted.disk.is_some_and(|spec| disk_steps(plan, state, spec, options));
    plan.push(Step::DeployJobs, reason);

    // The old disk goes last: until the jobs run on the new one, it is the only proven copy.
    if let Some(current) = current.filter(|_| superseded) {
        plan.push(Step::DeleteDisk { cid: current.cid.clone() }, "its data is on the new disk");
    }

    // What an earlier run left behind, or this one replaces.
    for disk in
        state.disks.iter().filter(|disk| Some(disk.id.as_str()) != current.map(|disk| disk.id.as_str()))
    {
        plan.push(Step::DeleteDisk { cid: disk.cid.clone() }, "it is not in use");
    }
    delete_stemcells_but(stemcell, state, plan);
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
    for disk in state
        .disks
        .iter()
        .filter(|disk| disk.id != state.current_disk_id && !state.current_disk_id.is_empty())
    {
        plan.push(Step::DeleteDisk { cid: disk.cid.clone() }, "it is not in use");
    }
    delete_stemcells_but(state.current_stemcell(), state, &mut plan);
    plan
}

/// VMs that were not found when they were to be deleted.
fn delete_earlier_vms(state: &State, plan: &mut Plan) {
    for cid in state.undeleted_vms() {
        plan.push(Step::DeleteVm { cid: cid.to_owned() }, "it may still exist");
    }
}

/// By CID and not by record: other tools may have recorded one stemcell of the IaaS under two versions.
fn delete_stemcells_but(used: Option<&Stemcell>, state: &State, plan: &mut Plan) {
    let mut kept: BTreeSet<&str> = used.map(|used| used.cid.as_str()).into_iter().collect();
    for known in &state.stemcells {
        if kept.insert(&known.cid) {
            plan.push(Step::DeleteStemcell { cid: known.cid.clone() }, "it is not in use any more");
        }
    }
}

/// Plans the disk's way to the new VM; says whether the current disk is superseded by a new one.
fn disk_steps(plan: &mut Plan, state: &State, spec: &DiskSpec, options: &Options) -> bool {
    let Some(current) = state.current_disk() else {
        plan.push(
            Step::CreateDisk(spec.clone()),
            format!("a persistent disk of {} MiB is wanted", spec.size),
        );
        plan.push(Step::AttachDisk(DiskRef::New), "it is new");
        return false;
    };
    plan.push(Step::AttachDisk(DiskRef::Existing(current.cid.clone())), "the VM is new");
    let asked = options.recreate_persistent_disks.then(|| "--recreate-persistent-disks".to_owned());
    let Some(reason) = asked.or_else(|| disk_change(state, Some(spec))) else { return false };
    plan.push(Step::CreateDisk(spec.clone()), reason.clone());
    plan.push(Step::AttachDisk(DiskRef::New), reason.clone());
    plan.push(Step::MigrateDisk, reason.clone());
    plan.push(Step::DetachDisk { cid: current.cid.clone() }, "its data is on the new disk");
    true
}
