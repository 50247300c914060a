//! The plan of `create-env`.

use std::collections::BTreeSet;

use super::{DiskRef, Plan, Step};
use crate::artifact::Identity;
use crate::manifest::deployment::DiskSpec;
use crate::state::{Disk, Handle, Kind, State, Stemcell};
use crate::{Error, Result};

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
    /// The name of the CPI that VM, disk and stemcell are to be of; none for the default CPI.
    pub cpi: Option<&'a str>,
    /// The name of the availability zone, where the manifest has such.
    pub az: Option<&'a str>,
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

/// Plans a `create-env`. A persistent disk that would stay behind in another CPI or AZ is an error, unless its data
/// may be lost.
pub fn create(state: &State, wanted: &Wanted<'_>, options: Options) -> Result<Plan> {
    let mut plan = Plan::default();
    let reason = match change(state, wanted, options) {
        Some(reason) => reason,
        None => return Ok(leftovers(state, plan)),
    };

    // The newest one: `upload-stemcell --fix` leaves the one that it replaces while the VM is made from it.
    let stemcell = state.stemcells.iter().rev().find(|known| is_stemcell(known, wanted));
    if stemcell.is_none() {
        let place = wanted.cpi.map(|cpi| format!(" to CPI '{cpi}'")).unwrap_or_default();
        let reason = format!("stemcell {} is not uploaded{place}", describe(wanted.stemcell));
        plan.push(Step::CreateStemcell, reason);
    }
    if let Some(vm) = state.vm_handle() {
        plan.push(Step::StopVm(vm.clone()), reason.clone());
        plan.delete(Kind::Vm, vm, reason.clone());
    }
    delete_earlier_vms(state, &mut plan);
    plan.push(Step::CreateVm, reason.clone());
    let current = state.current_disk();
    let superseded = match wanted.disk {
        Some(spec) => disk_steps(&mut plan, current, spec, wanted, options)?,
        None => None,
    };
    plan.push(Step::DeployJobs, reason);

    // The old disk goes last: until the jobs run on the new one, it is the only proven copy.
    if let (Some(current), Some(why)) = (current, superseded) {
        plan.delete(Kind::Disk, current.handle(), why);
    }

    // What an earlier run left behind, or this one replaces.
    for disk in state
        .disks
        .iter()
        .filter(|disk| Some(disk.id.as_str()) != current.map(|disk| disk.id.as_str()) && !disk.is_kept())
    {
        plan.delete(Kind::Disk, disk.handle(), "it is not in use");
    }
    delete_stemcells_but(stemcell.map(Stemcell::handle), state, &mut plan);
    Ok(plan)
}

/// When nothing changed, what earlier runs could not delete is tried again.
fn leftovers(state: &State, mut plan: Plan) -> Plan {
    delete_earlier_vms(state, &mut plan);
    for disk in state.disks.iter().filter(|disk| {
        disk.id != state.current_disk_id && !state.current_disk_id.is_empty() && !disk.is_kept()
    }) {
        plan.delete(Kind::Disk, disk.handle(), "it is not in use");
    }
    delete_stemcells_but(state.current_stemcell().map(Stemcell::handle), state, &mut plan);
    plan
}

/// VMs that were not found when they were to be deleted.
fn delete_earlier_vms(state: &State, plan: &mut Plan) {
    for vm in state.undeleted_vms() {
        plan.delete(Kind::Vm, vm, "it may still exist");
    }
}

/// By CID and not by record: other tools may have recorded one stemcell of the IaaS under two versions. What an
/// operator uploaded stays.
fn delete_stemcells_but(used: Option<Handle>, state: &State, plan: &mut Plan) {
    let mut kept: BTreeSet<Handle> = used.into_iter().collect();
    for known in &state.stemcells {
        if kept.insert(known.handle()) && !known.kept {
            plan.delete(Kind::Stemcell, known.handle(), "it is not in use any more");
        }
    }
}

/// Plans the disk's way to the new VM; says whether the current disk is superseded by a new one, and why.
fn disk_steps(
    plan: &mut Plan,
    current: Option<&Disk>,
    spec: &DiskSpec,
    wanted: &Wanted<'_>,
    options: Options,
) -> Result<Option<String>> {
    let Some(current) = current else {
        plan.push(
            Step::CreateDisk(spec.clone()),
            format!("a persistent disk of {} MiB is wanted", spec.size),
        );
        plan.push(Step::AttachDisk(DiskRef::New), "it is new");
        plan.push(Step::UseDisk, "it is new");
        return Ok(None);
    };
    if let Some(away) = stays_behind(current, wanted) {
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
    let reason = if options.recreate_persistent_disks {
        "--recreate-persistent-disks".to_owned()
    } else if current.size != spec.size {
        format!("its size changes from {} MiB to {} MiB", current.size, spec.size)
    } else if current.cloud_properties != spec.cloud_properties {
        "its cloud properties changed".to_owned()
    } else {
        return Ok(None);
    };
    plan.push(Step::CreateDisk(spec.clone()), reason.clone());
    plan.push(Step::AttachDisk(DiskRef::New), reason.clone());
    plan.push(Step::MigrateDisk, reason.clone());
    plan.push(Step::UseDisk, "it has the data");
    plan.push(Step::DetachDisk(current.handle()), "its data is on the new disk");
    Ok(Some("its data is on the new disk".to_owned()))
}

/// Whether a disk cannot follow to where the VM is wanted: in words, from where to where that is.
fn stays_behind(disk: &Disk, wanted: &Wanted<'_>) -> Option<String> {
    if disk.cpi.as_deref() != wanted.cpi {
        return Some(format!(
            "the environment moves from {} to {}",
            cpi_name(disk.cpi.as_deref()),
            cpi_name(wanted.cpi)
        ));
    }
    match (disk.az.as_deref(), wanted.az) {
        (Some(from), Some(to)) if from != to => {
            Some(format!("the environment moves from AZ '{from}' to AZ '{to}'"))
        }
        // Where one of them is not known, it is taken for the same.
        _ => None,
    }
}

/// The disk that a move would leave behind, whose data is lost then.
pub fn loses<'s>(state: &'s State, wanted: &Wanted<'_>) -> Option<&'s Disk> {
    state.current_disk().filter(|disk| wanted.disk.is_some() && stays_behind(disk, wanted).is_some())
}

fn left_behind(disk: &Disk, away: &str) -> Error {
    Error::invalid(format!("{away}, and its persistent disk {} cannot go along", disk.handle()))
        .with_hint("nothing was changed")
        .with_hint(
            "back up what is on the disk; --recreate-persistent-disks then begins with an empty one and deletes \
             the old one, with its data, once the jobs run",
        )
}

fn cpi_name(cpi: Option<&str>) -> String {
    cpi.map_or_else(|| "the default CPI".to_owned(), |cpi| format!("CPI '{cpi}'"))
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
    if let Some(vm) = state.vm_handle().filter(|vm| vm.cpi() != wanted.cpi) {
        return Some(format!("it moves from {} to {}", cpi_name(vm.cpi()), cpi_name(wanted.cpi)));
    }
    if state.current_manifest_sha != wanted.manifest_sha {
        return Some("the manifest changed".to_owned());
    }
    if !state.current_stemcell().is_some_and(|current| is_stemcell(current, wanted)) {
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

fn is_stemcell(known: &Stemcell, wanted: &Wanted<'_>) -> bool {
    let identity = wanted.stemcell;
    known.cpi.as_deref() == wanted.cpi
        && known.name == identity.name
        && known.version == identity.version
        && !differs(known.digest.as_deref(), identity)
}

/// Records of other tools have no digest: then name and version must do.
fn differs(recorded: Option<&str>, wanted: &Identity) -> bool {
    recorded.is_some_and(|recorded| recorded != wanted.digest.to_string())
}

fn describe(identity: &Identity) -> String {
    format!("{}/{}", identity.name, identity.version)
}
