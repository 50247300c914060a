//! Finds the reasons for a deploy, and which of them need a new VM.

use super::create::{Desired, Options};
use super::difference::{Difference, differences};
use crate::state::{IdentityMatch, State, VmSpecPart};
use artifact::Identity;
use manifest::cpi_label;

/// The number of manifest changes that a reason names.
const NAMED: usize = 3;

/// A reason to deploy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reason {
    /// The reason, in words for the operator.
    pub(super) text: String,
    /// True if the VM on record must be replaced.
    pub(super) needs_vm: bool,
}

fn vm(text: impl Into<String>) -> Reason {
    Reason { text: text.into(), needs_vm: true }
}

fn jobs(text: impl Into<String>) -> Reason {
    Reason { text: text.into(), needs_vm: false }
}

/// Returns the reasons for a deploy, those for a new VM first. Empty when nothing changed.
pub(super) fn reasons(state: &State, desired: &Desired<'_>, options: &Options) -> Vec<Reason> {
    let mut reasons = Vec::new();
    if options.recreate {
        reasons.push(vm("--recreate"));
    }
    if options.recreate_persistent_disks {
        reasons.push(vm("--recreate-persistent-disks"));
    }
    let unfinished = state.current_manifest_sha.is_empty();
    if state.vm_cid().is_none() {
        reasons.push(vm(if unfinished { "nothing is deployed" } else { "there is no VM" }));
        return reasons;
    }
    if options.vm_is_gone {
        reasons.push(vm("the VM does not exist any more"));
    }
    if unfinished {
        let ready = state.vm().is_some_and(|vm| vm.ready);
        reasons.push(Reason { text: "the last deploy did not finish".to_owned(), needs_vm: !ready });
    }
    let differences = known_differences(state, desired);
    if let Some(on_record) = state.vm_handle().filter(|on_record| on_record.cpi() != desired.cpi) {
        reasons.push(vm(format!(
            "it moves from {} to {}",
            cpi_label(on_record.cpi()),
            cpi_label(desired.cpi)
        )));
    } else if let Some(reason) = stemcell_change(state, desired) {
        let stemcell = |path: &str| path.contains("/stemcell/") || path.starts_with("/stemcells/");
        reasons.push(vm(named(reason, differences.as_deref(), stemcell)));
    }
    let manifest_changed = !unfinished && state.current_manifest_sha != desired.manifest_sha;
    if manifest_changed {
        reasons.push(jobs(manifest_change(differences.as_deref())));
    }
    if !unfinished {
        reasons.extend(release_changes(state, desired.releases).map(jobs));
    }
    if !reasons.is_empty() && !reasons.iter().any(|reason| reason.needs_vm) {
        reasons.extend(
            vm_changes(state, desired, differences.as_deref().unwrap_or_default()).into_iter().map(vm),
        );
        reasons.extend(disk_change(state, desired).map(vm));
        reasons.extend(
            options.agent_is_silent.as_ref().map(|why| vm(format!("its agent cannot be used: {why}"))),
        );
    }
    // The operator wants to know first why the VM must be replaced.
    reasons.sort_by_key(|reason| !reason.needs_vm);
    reasons
}

fn stemcell_change(state: &State, desired: &Desired<'_>) -> Option<String> {
    let current = state.current_stemcell();
    let to = describe(desired.stemcell);
    let Some(current) = current else { return Some(format!("the stemcell changes to {to}")) };
    match current.compare(desired.stemcell) {
        IdentityMatch::Same if current.cpi.as_deref() == desired.cpi => None,
        IdentityMatch::Same | IdentityMatch::OtherContent => Some(new_content("stemcell", desired.stemcell)),
        IdentityMatch::Other => {
            Some(format!("the stemcell changes from {}/{} to {to}", current.name, current.version))
        }
    }
}

/// Returns the reason to upload the stemcell, when no record matches it.
pub(super) fn upload(state: &State, desired: &Desired<'_>) -> String {
    if state.has_other_content_at(desired.cpi, desired.stemcell) {
        return new_content("stemcell", desired.stemcell);
    }
    let place = desired.cpi.map(|cpi| format!(" to CPI '{cpi}'")).unwrap_or_default();
    format!("stemcell {} is not uploaded{place}", describe(desired.stemcell))
}

fn new_content(what: &str, identity: &Identity) -> String {
    format!("{what} {} has new content under the same version", describe(identity))
}

fn manifest_change(differences: Option<&[Difference]>) -> String {
    match differences {
        None => "the manifest changed".to_owned(),
        Some([]) => "the order of something in the manifest changed".to_owned(),
        Some(differences) => name(differences.iter()),
    }
}

/// Returns the differences from the deployed manifest, if its leaves are on record.
fn known_differences(state: &State, desired: &Desired<'_>) -> Option<Vec<Difference>> {
    state.monopile.manifest.as_ref().map(|known| differences(known, desired.leaves))
}

/// Appends to a reason the manifest changes that caused it.
fn named(what: String, differences: Option<&[Difference]>, concerns: impl Fn(&str) -> bool) -> String {
    let concerned: Vec<&Difference> =
        differences.unwrap_or_default().iter().filter(|one| concerns(&one.path)).collect();
    match concerned.is_empty() {
        true => what,
        false => format!("{what}: {}", name(concerned.into_iter())),
    }
}

fn name<'d>(differences: impl ExactSizeIterator<Item = &'d Difference>) -> String {
    let more = differences.len().saturating_sub(NAMED);
    let mut named: Vec<String> = differences.take(NAMED).map(ToString::to_string).collect();
    if more > 0 {
        named.push(format!("and {more} more"));
    }
    named.join(", ")
}

/// Returns a reason for each part of the VM, except its tags, that differs from the time of its creation.
fn vm_changes(state: &State, desired: &Desired<'_>, differences: &[Difference]) -> Vec<String> {
    let Some(made_of) = state.vm().and_then(|vm| vm.made_of.as_ref()) else {
        return vec!["it is not on record what the VM was made from".to_owned()];
    };
    made_of
        .differences(desired.vm_spec)
        .into_iter()
        .filter_map(|part| {
            let (what, concerns): (&str, fn(&str) -> bool) = match part {
                VmSpecPart::Az => ("it moves to another AZ", |path| path.contains("/azs/")),
                VmSpecPart::CloudProperties => ("its cloud properties change", |path| {
                    path.starts_with("/resource_pools/") && path.contains("/cloud_properties")
                }),
                VmSpecPart::Networks => ("its networks change", |path| {
                    path.starts_with("/networks/")
                        || path.contains("/networks/")
                        || path.contains("/static_ips")
                }),
                VmSpecPart::Env => ("the environment of its agent changes", |path| {
                    path.starts_with("/resource_pools/") && path.contains("/env")
                }),
                VmSpecPart::Agent => {
                    ("the way its agent is reached changes", |path| path.starts_with("/cloud_provider/"))
                }
                VmSpecPart::PersistentDisk => (
                    match desired.disk {
                        Some(_) => "a persistent disk is wanted",
                        None => "no persistent disk is wanted any more",
                    },
                    |path| path.contains("/persistent_disk"),
                ),
                VmSpecPart::Tags => return None,
            };
            Some(named(what.to_owned(), Some(differences), concerns))
        })
        .collect()
}

/// Returns the reason why the persistent disk on record must be replaced, if it must.
pub(super) fn disk_change(state: &State, desired: &Desired<'_>) -> Option<String> {
    let (current, spec) = (state.current_disk()?, desired.disk?);
    let because = |what: String, leaf: &str| {
        let differences = known_differences(state, desired);
        let concerns = |path: &str| {
            path.contains("/persistent_disk") || (path.starts_with("/disk_pools/") && path.contains(leaf))
        };
        named(what, differences.as_deref(), concerns)
    };
    if current.size != spec.size {
        let (from, to) = (current.size, spec.size);
        return Some(because(
            format!("the size of its disk changes from {from} MiB to {to} MiB"),
            "/disk_size",
        ));
    }
    (current.cloud_properties != spec.cloud_properties)
        .then(|| because("the cloud properties of its disk change".to_owned(), "/cloud_properties"))
}

/// Returns the first reason why the releases differ from the deployed ones.
fn release_changes(state: &State, desired: &[Identity]) -> Option<String> {
    let deployed: Vec<_> = state.current_releases().collect();
    for release in desired {
        let known = deployed.iter().find(|known| known.name == release.name);
        match known {
            None => return Some(format!("release {} is new", describe(release))),
            Some(known) if known.version != release.version => {
                return Some(format!(
                    "release {} changes from {} to {}",
                    release.name, known.version, release.version
                ));
            }
            Some(known) if known.compare(release) == IdentityMatch::OtherContent => {
                return Some(new_content("release", release));
            }
            Some(_) => {}
        }
    }
    (deployed.len() > desired.len()).then(|| "a release is no longer used".to_owned())
}

pub(super) fn describe(identity: &Identity) -> String {
    format!("{}/{}", identity.name, identity.version)
}
