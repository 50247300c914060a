//! Finds the reasons for a deploy, and which of them need a new VM.

use super::create::{DesiredDeployment, PlanOptions};
use super::difference::differences;
use crate::state::{IdentityMatch, State, VmPropertiesPart};
use artifact::ArtifactIdentity;
use manifest::cpi_label;

/// The reason to replace a VM that the CPI does not have.
pub(super) const MISSING_VM_REASON: &str = "the CPI does not find the VM";

/// A reason to deploy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reason {
    /// The reason, as text for the operator.
    pub(super) text: String,
    /// True if the VM on record, if there is one, must be replaced.
    pub(super) replaces_vm: bool,
}

fn replacement_reason(text: impl Into<String>) -> Reason {
    Reason { text: text.into(), replaces_vm: true }
}

fn jobs_reason(text: impl Into<String>) -> Reason {
    Reason { text: text.into(), replaces_vm: false }
}

/// Returns the reasons for a deploy, those for a new VM first. The list is empty if nothing changed.
pub(super) fn collect_reasons(
    state: &State,
    desired: &DesiredDeployment<'_>,
    options: &PlanOptions,
) -> Vec<Reason> {
    let mut reasons = Vec::new();
    if options.replaces_unchanged_vm {
        reasons.push(match options.command {
            "" | "create-env" => replacement_reason("requested by --recreate"),
            command => replacement_reason(format!("requested by {command}")),
        });
    }
    if options.recreate_persistent_disks {
        reasons.push(replacement_reason("requested by --recreate-persistent-disks"));
    }
    let is_unfinished = state.current_deploy_digest.is_empty();
    let is_ready = state.vm().is_some_and(|vm| vm.is_ready);
    if state.vm_cid().is_none() {
        let is_new = is_unfinished && state.current_disk().is_none();
        reasons.push(replacement_reason(if is_new { "nothing is deployed" } else { "no VM is on record" }));
        return reasons;
    }
    if options.vm_is_gone {
        reasons.push(replacement_reason(MISSING_VM_REASON));
    }
    if let Some(text) = state.unfinished_reason() {
        reasons.push(Reason { text: text.to_owned(), replaces_vm: !is_ready });
    }
    if let Some(recorded_vm) = state.vm_handle().filter(|recorded_vm| recorded_vm.cpi() != desired.cpi) {
        reasons.push(replacement_reason(format!(
            "the VM moves from {} to {}",
            cpi_label(recorded_vm.cpi()),
            cpi_label(desired.cpi)
        )));
    } else if state.current_stemcell().is_none() && is_unfinished && !is_ready {
        // The stemcell of a VM is recorded as current once the VM is ready.
    } else if let Some(reason) = stemcell_change_reason(state, desired) {
        reasons.push(replacement_reason(reason));
    }
    let has_manifest_changed = !is_unfinished && state.current_deploy_digest != desired.deploy_digest;
    if has_manifest_changed {
        reasons.push(jobs_reason(manifest_change_reason(state, desired)));
    }
    if !is_unfinished {
        reasons.extend(release_change_reason(state, desired.releases).map(jobs_reason));
    }
    // A difference of the VM or the disk alone is no reason to deploy: the manifest would have changed too.
    if !reasons.is_empty() && !reasons.iter().any(|reason| reason.replaces_vm) {
        reasons.extend(vm_change_reasons(state, desired).into_iter().map(replacement_reason));
        reasons.extend(disk_change_reason(state, desired).map(replacement_reason));
        reasons.extend(options.unusable_agent_reason.as_ref().map(|text| replacement_reason(text.clone())));
        reasons.extend(options.jobs_after_failed_update.as_ref().map(|jobs| {
            replacement_reason(format!(
                "the last update in place failed, and the jobs are '{jobs}' (--update-strategy in-place \
                 tries again on the same VM)"
            ))
        }));
    }
    // The operator wants to know first why the VM must be replaced.
    reasons.sort_by_key(|reason| !reason.replaces_vm);
    reasons
}

fn stemcell_change_reason(state: &State, desired: &DesiredDeployment<'_>) -> Option<String> {
    let current_stemcell = state.current_stemcell();
    let new_name = name_and_version(desired.stemcell);
    let Some(current_stemcell) = current_stemcell else {
        return Some(format!("the stemcell changes to {new_name}"));
    };
    match current_stemcell.compare(desired.stemcell) {
        IdentityMatch::Same if current_stemcell.cpi.as_deref() == desired.cpi => None,
        IdentityMatch::Same | IdentityMatch::OtherContent => {
            Some(new_content_reason("stemcell", desired.stemcell))
        }
        IdentityMatch::Other => Some(format!(
            "the stemcell changes from {}/{} to {new_name}",
            current_stemcell.name, current_stemcell.version
        )),
    }
}

/// Returns the reason to upload the stemcell if no record matches it.
pub(super) fn upload_reason(state: &State, desired: &DesiredDeployment<'_>) -> String {
    if state.has_other_content_at(desired.cpi, desired.stemcell) {
        return new_content_reason("stemcell", desired.stemcell);
    }
    let destination = desired.cpi.map(|cpi| format!(" to CPI '{cpi}'")).unwrap_or_default();
    format!("it is not uploaded{destination}")
}

fn new_content_reason(kind: &str, identity: &ArtifactIdentity) -> String {
    format!("{kind} {} has new content under the same version", name_and_version(identity))
}

/// Returns the reason for a changed manifest. The plan lists the changes.
fn manifest_change_reason(state: &State, desired: &DesiredDeployment<'_>) -> String {
    let deployed_leaves = state.monopile.manifest_leaves.as_ref();
    let has_same_leaves =
        deployed_leaves.is_some_and(|leaves| differences(leaves, desired.leaves).is_empty());
    let reason = if has_same_leaves {
        "only the order of entries in the manifest changed"
    } else {
        "the manifest changed"
    };
    reason.to_owned()
}

/// Returns a reason for each part of the VM, except its tags, that has changed since its creation.
fn vm_change_reasons(state: &State, desired: &DesiredDeployment<'_>) -> Vec<String> {
    let Some(property_digests) = state.vm().and_then(|vm| vm.property_digests.as_ref()) else {
        return vec!["the state does not record how the VM was created".to_owned()];
    };
    let reason = |part| match part {
        VmPropertiesPart::Az => Some("it moves to another availability zone"),
        VmPropertiesPart::CloudProperties => Some("its cloud properties change"),
        VmPropertiesPart::Networks => Some("its networks change"),
        VmPropertiesPart::Env => Some("its `env` changes"),
        VmPropertiesPart::Agent => Some("the settings of its agent change"),
        VmPropertiesPart::PersistentDisk if desired.disk.is_some() => {
            Some("the manifest now has a persistent disk")
        }
        VmPropertiesPart::PersistentDisk => Some("the manifest has no persistent disk any more"),
        VmPropertiesPart::Tags => None,
    };
    property_digests
        .differences(desired.vm_properties)
        .into_iter()
        .filter_map(reason)
        .map(str::to_owned)
        .collect()
}

/// Returns the reason why the persistent disk on record must change, if it must.
pub(super) fn disk_change_reason(state: &State, desired: &DesiredDeployment<'_>) -> Option<String> {
    let (current, spec) = (state.current_disk()?, desired.disk?);
    if current.size != spec.size {
        let (old_size, new_size) = (current.size, spec.size);
        return Some(format!("the size of its disk changes from {old_size} MiB to {new_size} MiB"));
    }
    (current.cloud_properties != spec.cloud_properties)
        .then(|| "the cloud properties of its disk change".to_owned())
}

/// Returns the first reason why the releases differ from the deployed ones.
fn release_change_reason(state: &State, desired: &[ArtifactIdentity]) -> Option<String> {
    let deployed_releases: Vec<_> = state.current_releases().collect();
    for release in desired {
        let deployed_release = deployed_releases.iter().find(|candidate| candidate.name == release.name);
        match deployed_release {
            None => return Some(format!("release {} is new", name_and_version(release))),
            Some(deployed_release) if deployed_release.version != release.version => {
                return Some(format!(
                    "release {} changes from {} to {}",
                    release.name, deployed_release.version, release.version
                ));
            }
            Some(deployed_release) if deployed_release.compare(release) == IdentityMatch::OtherContent => {
                return Some(new_content_reason("release", release));
            }
            Some(_) => {}
        }
    }
    (deployed_releases.len() > desired.len()).then(|| "a release is no longer used".to_owned())
}

/// Returns the name and version of an artifact as text.
pub(super) fn name_and_version(identity: &ArtifactIdentity) -> String {
    format!("{}/{}", identity.name, identity.version)
}
