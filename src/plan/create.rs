//! The plan of `create-env`.

use std::collections::BTreeSet;

use super::{DiskRef, Plan, Step};
use crate::artifact::Identity;
use crate::manifest::deployment::DiskSpec;
use crate::state::{Disk, State, Stemcell};

/// What the manifest asks for, as far as a plan depends on it.
#[derive(Debug, Clone)]
pub struct Wanted<'a> {
    /// SHA-512 of the interpolated manifest, hex.
    pub manifest_sha: &'a str,
    /// The stemcell.
    pub stemcell: &'a Identity,
    /// The releases.
    pub releases: &'a [Identity],
    /// The persistent disk, if any.
    pub disk: Option<&'a DiskSpec>,
}

/// What the operator asks for beyond the manifest.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Deploy even if nothing changed.
    pub recreate: bool,
    /// Move the data to a new disk.
    pub recreate_persistent_disks: bool,
    /// The VM on record is known not to exist any more.
    pub vm_is_gone: bool,
}

/// Plans a `create-env`.
pub fn create(state: &State, wanted: &Wanted<'_>, options: Options) -> Plan {
    let mut plan = Plan::default();
    let reason = match change(state, wanted, options) {
        Some(reason) => reason,
        None => return leftovers(state, plan),
    };

    let stemcell = state.stemcells.iter().find(|known| is_stemcell(known, wanted.stemcell));
    if stemcell.is_none() {
        plan.push(Step::CreateStemcell, format!("stemcell {} is not uploaded", describe(wanted.stemcell)));
    }
    if let Some(cid) = state.vm_cid() {
        plan.push(Step::StopVm { cid: cid.to_owned() }, reason.clone());
        plan.push(Step::DeleteVm { cid: cid.to_owned() }, reason.clone());
    }
    delete_earlier_vms(state, &mut plan);
    plan.push(Step::CreateVm, reason.clone());
    let current = state.current_disk();
    let superseded = wanted.disk.is_some_and(|spec| disk_steps(&mut plan, current, spec, options));
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
    delete_stemcells_but(stemcell, state, &mut plan);
    plan
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
fn disk_steps(plan: &mut Plan, current: Option<&Disk>, spec: &DiskSpec, options: Options) -> bool {
    let Some(current) = current else {
        plan.push(
            Step::CreateDisk(spec.clone()),
            format!("a persistent disk of {} MiB is wanted", spec.size),
        );
        plan.push(Step::AttachDisk(DiskRef::New), "it is new");
        return false;
    };
    plan.push(Step::AttachDisk(DiskRef::Existing(current.cid.clone())), "the VM is new");
    let reason = if options.recreate_persistent_disks {
        "--recreate-persistent-disks".to_owned()
    } else if current.size != spec.size {
        format!("its size changes from {} MiB to {} MiB", current.size, spec.size)
    } else if current.cloud_properties != spec.cloud_properties {
        "its cloud properties changed".to_owned()
    } else {
        return false;
    };
    plan.push(Step::CreateDisk(spec.clone()), reason.clone());
    plan.push(Step::AttachDisk(DiskRef::New), reason.clone());
    plan.push(Step::MigrateDisk, reason.clone());
    plan.push(Step::DetachDisk { cid: current.cid.clone() }, "its data is on the new disk");
    true
}

/// Why a deploy is needed; `None` when nothing changed.
fn change(state: &State, wanted: &Wanted<'_>, options: Options) -> Option<String> {
    if options.recreate {
        return Some("--recreate".to_owned());
    }
    if options.recreate_persistent_disks {
        return Some("--recreate-persistent-disks".to_owned());
    }
    if state.current_manifest_sha.is_empty() {
        let reason =
            if state.vm_cid().is_some() { "the last deploy did not finish" } else { "nothing is deployed" };
        return Some(reason.to_owned());
    }
    if state.vm_cid().is_none() {
        return Some("there is no VM".to_owned());
    }
    if options.vm_is_gone {
        return Some("the VM does not exist any more".to_owned());
    }
    if state.current_manifest_sha != wanted.manifest_sha {
        return Some("the manifest changed".to_owned());
    }
    if !state.current_stemcell().is_some_and(|current| is_stemcell(current, wanted.stemcell)) {
        return Some(format!("the stemcell changes to {}", describe(wanted.stemcell)));
    }
    let deployed: Vec<_> = state.current_releases().collect();
    for release in wanted.releases {
        let known = deployed.iter().find(|known| known.name == release.name);
        match known {
            None => return Some(format!("release {} is new", describe(release))),
            Some(known) if known.version != release.version => {
                return Some(format!(
                    "release {} changes from {} to {}",
                    release.name, known.version, release.version
                ));
            }
            Some(known) if differs(known.digest.as_deref(), release) => {
                return Some(format!("release {} has new content under the same version", describe(release)));
            }
            Some(_) => {}
        }
    }
    if deployed.len() > wanted.releases.len() {
        return Some("a release is no longer used".to_owned());
    }
    None
}

fn is_stemcell(known: &Stemcell, wanted: &Identity) -> bool {
    known.name == wanted.name && known.version == wanted.version && !differs(known.digest.as_deref(), wanted)
}

/// Records of other tools have no digest: then name and version must do.
fn differs(recorded: Option<&str>, wanted: &Identity) -> bool {
    recorded.is_some_and(|recorded| recorded != wanted.digest.to_string())
}

fn describe(identity: &Identity) -> String {
    format!("{}/{}", identity.name, identity.version)
}
