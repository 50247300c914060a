//! The transitions of the state, and the conditions under which they are allowed.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value};

use super::credentials::CredentialDigests;
use super::handle::{DiskHandle, Handle, Resource, SnapshotHandle, StemcellHandle, VmHandle};
use super::location::CpiLocation;
use super::records::{
    AbsentMethod, AgentTask, DiskRecord, ReleaseRecord, SnapshotRecord, State, StemcellRecord, Suspect,
    UndeletedResource, UndeployedBy, VmAtReplacement, VmRecord,
};
use super::salted_digests::{Leaves, VmProperties, VmPropertiesDigests};
use crate::protocol::{DiskCid, DiskHint, RequestId, VmCid};

/// One transition of the state. Applying the changes of a CPI's answer twice has the same effect as applying
/// them once, so a run that died between a write and its acknowledgement can repeat them. Changes of an
/// operator's command are never repeated: [`Change::Forgotten`] and [`Change::VmAdopted`] are rejected the
/// second time.
#[derive(Debug, Clone)]
pub enum Change {
    /// A stemcell was uploaded.
    StemcellCreated(StemcellRecord),
    /// This stemcell record is now the one in use.
    StemcellUsed {
        /// The record's id.
        id: String,
    },
    /// A stemcell was marked to stay although it is unused, or the mark was removed. Applies to all records
    /// of this CID.
    StemcellKept {
        /// The CID and the CPI of the marked records.
        stemcell: StemcellHandle,
        /// True if it stays.
        is_kept: bool,
    },
    /// A stemcell is gone from the cloud.
    StemcellDeleted(StemcellHandle),
    /// A VM was created and is now the VM of this environment.
    VmCreated(Box<VmRecord>),
    /// A VM is gone from the cloud.
    VmDeleted(VmHandle),
    /// The sshd of a VM showed its host key for the first time.
    HostKeyLearned {
        /// The VM, which must be the one on record.
        vm: VmCid,
        /// The key in OpenSSH format.
        key: String,
    },
    /// A disk was created.
    DiskCreated(DiskRecord),
    /// A disk was attached, and the CPI returned this disk hint.
    DiskAttached {
        /// The disk, which must be on record.
        disk: DiskHandle,
        /// The disk hint, under contract v2 or if a CPI returns one anyway.
        hint: Option<DiskHint>,
    },
    /// The CPI changed a disk in place.
    DiskUpdated {
        /// The disk under its CID before the change.
        disk: DiskHandle,
        /// The new size in MiB.
        size: u64,
        /// The new cloud properties; `None` if they stay.
        cloud_properties: Option<Map<String, Value>>,
        /// The new CID, if the CPI returned another one.
        renamed_disk: Option<RenamedDisk>,
    },
    /// This disk record is now the one in use.
    DiskUsed(DiskHandle),
    /// The operator chose this disk to replace the one in use, which is kept. The next create-env attaches
    /// it.
    DiskChosen(DiskHandle),
    /// A disk is gone from the cloud.
    DiskDeleted(DiskHandle),
    /// A snapshot of a disk was taken.
    SnapshotCreated(SnapshotRecord),
    /// A snapshot is gone from the cloud.
    SnapshotDeleted(SnapshotHandle),
    /// A CPI got another name (`migrated_from`). Its resources are the same as before.
    CpiRenamed {
        /// The old name; `None` for the default CPI.
        old_name: Option<String>,
        /// The name in the CPI config of this run.
        new_name: String,
    },
    /// A VM that was not on record is about to be deleted. It is on record from now on, until it is gone.
    VmDeletionBegun {
        /// Its handle.
        vm: VmHandle,
        /// The reason for its deletion.
        reason: String,
        /// The time at which the deletion began, RFC 3339 UTC.
        began_at: String,
    },
    /// A deletion failed. The record stays and is marked, unless it is that of the current VM. If the CPI
    /// does not find the current VM, it is no longer the current one, and is marked as well.
    DeletionFailed(UndeletedResource),
    /// The CPI answered a creating call with an error. It may have created something, which stays on record
    /// as a suspect.
    CreationFailed(Suspect),
    /// A CPI reported that it does not implement an optional method.
    MethodAbsent(AbsentMethod),
    /// The operator confirmed that no resource of the suspect with this request id is left.
    SuspectForgotten {
        /// The request id of the failed call.
        request_id: RequestId,
    },
    /// The operator removed a resource from the record without deleting it.
    Forgotten(Resource),
    /// The operator adopted a VM that another run created as the VM of this environment.
    VmAdopted {
        /// Its handle.
        handle: VmHandle,
        /// Its details, if its agent was asked.
        vm: Option<Box<VmRecord>>,
    },
    /// The operator replaced the state with an older version, or with one made from CIDs.
    Replaced(Box<State>),
    /// A deploy began. Nothing counts as deployed until it succeeds.
    DeployBegun {
        /// True if the VM on record stays, with its disks mounted.
        in_place: bool,
    },
    /// The first deploy begins with these values of declared variables, or a new VM gets them. Rejected if a
    /// VM and its values are on record.
    CredentialsChosen(CredentialDigests),
    /// The agent of the VM answers and its disks are mounted, so only the jobs may still be missing.
    VmReady,
    /// A CPI created a resource in this location.
    LocationRecorded(CpiLocation),
    /// The VM's agent began a long task, or the run that waited for the task saw its end.
    AgentTaskChanged(Option<AgentTask>),
    /// An update of the VM in place failed.
    UpdateFailed,
    /// The metadata of the VM was set again.
    MetadataSet(Box<VmProperties>),
    /// A deploy succeeded.
    Deployed {
        /// SHA-512, hex, of the deploy text (`manifest::deploy_text`).
        deploy_digest: String,
        /// The releases that it used.
        releases: Vec<ReleaseRecord>,
        /// The leaves of the manifest.
        manifest_leaves: Option<Leaves>,
        /// Salted digests of the values of declared variables.
        credential_digests: Option<CredentialDigests>,
        /// The durations of its steps and stages, by name.
        durations: BTreeMap<String, Duration>,
    },
    /// For this reason, the environment no longer counts as deployed, so the next create-env deploys.
    DeployRequired(UndeployedBy),
}

/// Another CID of an updated disk. The disk with the old CID may still exist, so it stays on record until an
/// operator deletes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenamedDisk {
    /// The new CID.
    pub cid: DiskCid,
    /// The id of a record for the old CID.
    pub old_record_id: String,
}

/// The reason why a change is not allowed in this state.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Rejection {
    /// Another VM is on record, and would be lost from the record.
    #[error("VM {existing_vm} is still on record, so VM {new_vm} cannot be recorded")]
    VmExists {
        /// The VM on record.
        existing_vm: VmHandle,
        /// The VM that should have been recorded.
        new_vm: VmHandle,
    },
    /// A different host key is on record. Accepting the new one would hide that another machine answers.
    #[error("VM '{vm}' has another ssh host key on record")]
    HostKeyDiffers {
        /// The VM's CID.
        vm: VmCid,
    },
    /// The credentials of this VM are on record. Without them, its agent could not be reached.
    #[error("VM {vm} is still on record, so the credentials of another VM cannot be recorded")]
    VmHasCredentials {
        /// The VM on record.
        vm: VmHandle,
    },
    /// Two resources would have the same handle.
    #[error("two {}s would have the CID {}", .0.kind(), .0.handle())]
    SameHandle(Resource),
    /// The change refers to a record that does not exist.
    #[error("no {kind} '{name}' is on record")]
    Unknown {
        /// The kind of the record, such as `VM`.
        kind: &'static str,
        /// Its CID or id.
        name: String,
    },
}

impl State {
    /// Applies a change, or rejects it and leaves the state as it was. All transitions go through this
    /// function.
    pub fn apply(&mut self, change: Change) -> Result<(), Rejection> {
        match change {
            Change::StemcellCreated(stemcell) => {
                let record = self
                    .stemcells
                    .iter_mut()
                    .find(|record| record.cid == stemcell.cid && record.cpi == stemcell.cpi);
                match record {
                    // The CPI returned a known CID for a new description. Some CPIs identify a stemcell by
                    // its content or name.
                    Some(record) => {
                        let id = std::mem::take(&mut record.id);
                        let unknown_keys = std::mem::take(&mut record.unknown_keys);
                        let is_kept = record.is_kept || stemcell.is_kept;
                        *record = StemcellRecord { id, is_kept, unknown_keys, ..stemcell };
                    }
                    None => {
                        self.remove_undeleted_mark(&stemcell.handle().into());
                        self.stemcells.push(stemcell);
                    }
                }
            }
            Change::StemcellUsed { id } => {
                if !self.stemcells.iter().any(|record| record.id == id) {
                    return Err(Rejection::Unknown { kind: "stemcell", name: id });
                }
                self.current_stemcell_id = id;
            }
            Change::StemcellKept { stemcell, is_kept } => {
                let mut records =
                    self.stemcells.iter_mut().filter(|record| record.handle() == stemcell).peekable();
                if records.peek().is_none() {
                    return Err(not_recorded_error(&stemcell.into()));
                }
                records.for_each(|record| record.is_kept = is_kept);
            }
            Change::StemcellDeleted(handle) => {
                if self.current_stemcell().is_some_and(|current| current.handle() == handle) {
                    self.current_stemcell_id.clear();
                }
                self.stemcells.retain(|record| record.handle() != handle);
                self.remove_undeleted_mark(&handle.into());
            }
            Change::VmCreated(vm) => {
                let handle = vm.handle();
                if let Some(existing_vm) = self.vm_handle().filter(|recorded_vm| *recorded_vm != handle) {
                    return Err(Rejection::VmExists { existing_vm, new_vm: handle });
                }
                // A CPI may reuse the CID of an earlier VM.
                self.remove_undeleted_mark(&handle.into());
                self.current_vm_cid = Some(vm.cid.clone());
                self.monopile.vm = Some(*vm);
                self.monopile.vm_without_details = None;
            }
            Change::VmDeleted(handle) => {
                let current_vm = self.vm_handle();
                let vm = Resource::Vm(handle);
                match current_vm.map(Resource::Vm) {
                    Some(current_vm) if current_vm == vm => self.remove_vm_record(),
                    Some(_) if self.undeleted(&vm).is_none() => return Err(not_recorded_error(&vm)),
                    _ => {}
                }
                self.remove_undeleted_mark(&vm);
            }
            Change::HostKeyLearned { vm, key } => {
                let vm_record = self.monopile.vm.as_mut().filter(|vm_record| vm_record.cid == vm);
                let vm_record = match vm_record.filter(|_| self.current_vm_cid.as_ref() == Some(&vm)) {
                    Some(vm_record) => vm_record,
                    None => return Err(Rejection::Unknown { kind: "VM", name: vm.to_string() }),
                };
                if vm_record.ssh_host_key.as_ref().is_some_and(|known_key| *known_key != key) {
                    return Err(Rejection::HostKeyDiffers { vm });
                }
                vm_record.ssh_host_key = Some(key);
            }
            Change::DiskCreated(disk) => {
                if self.disk(&disk.handle()).is_none() {
                    self.remove_undeleted_mark(&disk.handle().into());
                    self.disks.push(disk);
                }
            }
            Change::DiskAttached { disk, hint } => {
                let disk_record = self.disks.iter_mut().find(|disk_record| disk_record.handle() == disk);
                disk_record.ok_or_else(|| not_recorded_error(&disk.into()))?.hint = hint;
            }
            Change::DiskUpdated { disk, size, cloud_properties, renamed_disk } => {
                let disk = match renamed_disk {
                    Some(RenamedDisk { cid, old_record_id }) => {
                        self.rename_disk(&disk, cid, old_record_id)?
                    }
                    None => disk,
                };
                let disk_record = self.disks.iter_mut().find(|disk_record| disk_record.handle() == disk);
                let disk_record = disk_record.ok_or_else(|| not_recorded_error(&disk.into()))?;
                disk_record.size = size;
                if let Some(cloud_properties) = cloud_properties {
                    disk_record.cloud_properties = cloud_properties;
                }
            }
            Change::DiskUsed(handle) => {
                let disk = self.disks.iter_mut().find(|disk| disk.handle() == handle);
                let disk = disk.ok_or_else(|| not_recorded_error(&handle.clone().into()))?;
                disk.vm_at_replacement = None;
                self.current_disk_id = disk.id.clone();
                self.remove_undeleted_mark(&handle.into());
            }
            Change::DiskChosen(handle) => {
                let previous_disk_id = self.current_disk_id.clone();
                // If a disk already waits for the next VM, the current VM has another one.
                let vm = self.vm_cid().filter(|_| self.disk_left_on_vm().is_none());
                let vm_at_replacement = VmAtReplacement(vm.cloned());
                self.apply(Change::DiskUsed(handle))?;
                if previous_disk_id != self.current_disk_id {
                    let previous_disk = self.disks.iter_mut().find(|disk| disk.id == previous_disk_id);
                    previous_disk
                        .into_iter()
                        .for_each(|disk| disk.vm_at_replacement = Some(vm_at_replacement.clone()));
                    self.apply(Change::DeployRequired(UndeployedBy::DiskChoice))?;
                }
            }
            Change::DiskDeleted(handle) => {
                if self.current_disk().is_some_and(|current| current.handle() == handle) {
                    self.current_disk_id.clear();
                }
                self.disks.retain(|record| record.handle() != handle);
                self.remove_undeleted_mark(&handle.into());
            }
            Change::SnapshotCreated(snapshot) => {
                let handle = snapshot.handle();
                if !self.monopile.snapshots.iter().any(|record| record.handle() == handle) {
                    self.monopile.snapshots.push(snapshot);
                }
            }
            Change::SnapshotDeleted(handle) => {
                self.monopile.snapshots.retain(|record| record.handle() != handle);
                self.remove_undeleted_mark(&handle.into());
            }
            Change::CpiRenamed { old_name, new_name } => self.rename_cpi(old_name.as_deref(), &new_name)?,
            Change::VmDeletionBegun { vm, reason, began_at } => {
                let resource = Resource::Vm(vm);
                if !self.has_on_record(&resource) {
                    self.monopile.undeleted.push(UndeletedResource {
                        resource,
                        reason,
                        first_attempt_at: began_at,
                        was_not_found: false,
                        unknown_keys: Map::new(),
                    });
                }
            }
            Change::DeletionFailed(undeleted) => {
                let resource = &undeleted.resource;
                if !self.has_on_record(resource) {
                    return Err(not_recorded_error(resource));
                }
                if self.vm_handle().is_some_and(|vm| *resource == Resource::Vm(vm)) {
                    if !undeleted.was_not_found {
                        // The VM stays the VM of this environment.
                        return Ok(());
                    }
                    self.remove_vm_record();
                }
                let unknown_keys =
                    self.undeleted(resource).map(|mark| mark.unknown_keys.clone()).unwrap_or_default();
                self.remove_undeleted_mark(resource);
                self.monopile.undeleted.push(UndeletedResource { unknown_keys, ..undeleted });
            }
            Change::CreationFailed(suspect) => {
                if !self.monopile.suspects.iter().any(|record| record.request_id == suspect.request_id) {
                    self.monopile.suspects.push(suspect);
                }
            }
            Change::MethodAbsent(absent_method) => {
                if !self.monopile.absent_methods.contains(&absent_method) {
                    self.monopile.absent_methods.push(absent_method);
                }
            }
            Change::SuspectForgotten { request_id } => {
                self.monopile.suspects.retain(|record| record.request_id != request_id);
            }
            Change::Forgotten(resource) => {
                if !self.has_on_record(&resource) {
                    return Err(not_recorded_error(&resource));
                }
                let in_use = match &resource {
                    Resource::Vm(vm) => self.vm_handle().as_ref() == Some(vm),
                    Resource::Disk(disk) => {
                        self.current_disk().is_some_and(|record| record.handle() == *disk)
                    }
                    Resource::Stemcell(stemcell) => {
                        self.current_stemcell().is_some_and(|record| record.handle() == *stemcell)
                    }
                    Resource::Snapshot(_) => false,
                };
                if in_use {
                    let cause = match &resource {
                        Resource::Disk(_) => UndeployedBy::ForgottenDisk,
                        // A forgotten VM has this cause, too: a cause is shown only while a VM is on record,
                        // and the next VM gets another cause.
                        _ => UndeployedBy::ForgottenStemcell,
                    };
                    self.apply(Change::DeployRequired(cause))?;
                }
                self.apply(Change::deletion_of(resource))?;
            }
            Change::VmAdopted { handle, vm } => {
                if let Some(existing_vm) = self.vm_handle() {
                    return Err(Rejection::VmExists { existing_vm, new_vm: handle });
                }
                self.monopile.vm = vm.map(|vm| VmRecord { cid: handle.cid.clone(), ..*vm });
                self.current_vm_cid = Some(handle.cid.clone());
                self.monopile.undeployed_by = Some(UndeployedBy::Import);
                self.record_vm_cpi(handle);
            }
            Change::Replaced(state) => *self = *state,
            Change::DeployBegun { in_place: true } => {
                self.monopile.undeployed_by = None;
                self.clear_last_deploy();
            }
            change @ (Change::DeployBegun { .. } | Change::DeployRequired(_)) => {
                self.monopile.undeployed_by = match change {
                    Change::DeployRequired(UndeployedBy::Deletion) => Some(UndeployedBy::Deletion),
                    // A deploy that did not finish stays the reason.
                    Change::DeployRequired(cause) if !self.current_deploy_digest.is_empty() => Some(cause),
                    Change::DeployRequired(_) => self.monopile.undeployed_by,
                    _ => None,
                };
                self.clear_last_deploy();
                if let Some(vm) = &mut self.monopile.vm {
                    vm.is_ready = false;
                }
            }
            Change::CredentialsChosen(credential_digests) => {
                if let Some(vm) = self.vm_handle().filter(|_| self.monopile.credential_digests.is_some()) {
                    return Err(Rejection::VmHasCredentials { vm });
                }
                self.monopile.credential_digests = Some(credential_digests);
            }
            Change::VmReady => {
                if let Some(vm) = &mut self.monopile.vm {
                    vm.is_ready = true;
                }
            }
            Change::LocationRecorded(location) => {
                self.monopile.locations.retain(|record| record.cpi != location.cpi);
                self.monopile.locations.push(location);
            }
            Change::AgentTaskChanged(task) => self.monopile.agent_task = task,
            Change::UpdateFailed => self.monopile.vm_of_failed_update.clone_from(&self.current_vm_cid),
            Change::MetadataSet(properties) => {
                if let Some(vm) = &mut self.monopile.vm {
                    vm.property_digests = Some(VmPropertiesDigests::of(&properties));
                }
            }
            Change::Deployed { deploy_digest, releases, manifest_leaves, credential_digests, durations } => {
                self.monopile.durations.record(durations);
                self.monopile.vm_of_failed_update = None;
                self.monopile.undeployed_by = None;
                self.monopile.credential_digests = credential_digests;
                self.monopile.manifest_leaves = manifest_leaves;
                self.current_release_ids = releases.iter().map(|release| release.id.clone()).collect();
                self.releases = releases;
                self.current_deploy_digest = deploy_digest;
            }
        }
        Ok(())
    }
}

impl Change {
    /// Returns the change for a resource that is gone from the cloud.
    pub fn deletion_of(resource: Resource) -> Self {
        match resource {
            Resource::Vm(vm) => Change::VmDeleted(vm),
            Resource::Disk(disk) => Change::DiskDeleted(disk),
            Resource::Stemcell(stemcell) => Change::StemcellDeleted(stemcell),
            Resource::Snapshot(snapshot) => Change::SnapshotDeleted(snapshot),
        }
    }
}

impl State {
    /// Clears the digests and releases of the last deploy, so that the next create-env deploys.
    fn clear_last_deploy(&mut self) {
        self.current_deploy_digest.clear();
        self.current_release_ids.clear();
        self.releases.clear();
    }

    /// Removes the mark of an undeleted resource, which is gone or was recorded again.
    fn remove_undeleted_mark(&mut self, resource: &Resource) {
        self.monopile.undeleted.retain(|undeleted| undeleted.resource != *resource);
    }

    /// Removes the record of the VM of this environment.
    fn remove_vm_record(&mut self) {
        self.current_vm_cid = None;
        self.monopile.vm_of_failed_update = None;
        self.monopile.agent_task = None;
        self.monopile.vm = None;
        self.monopile.vm_without_details = None;
    }

    /// Records the CPI of the VM of this environment. Only the CID of the VM may be known.
    fn record_vm_cpi(&mut self, handle: VmHandle) {
        if let Some(vm) = self.monopile.vm.as_mut().filter(|vm| vm.cid == handle.cid) {
            vm.cpi.clone_from(&handle.cpi);
        }
        self.monopile.vm_without_details =
            Some(handle).filter(|handle| self.monopile.vm.is_none() && handle.cpi.is_some());
    }

    /// Gives a disk another CID, keeps the old CID on record with the id `old_record_id`, and returns the new
    /// handle. Without effect if that was done before.
    fn rename_disk(
        &mut self,
        disk: &DiskHandle,
        cid: DiskCid,
        old_record_id: String,
    ) -> Result<DiskHandle, Rejection> {
        let new_handle = Handle { cid, ..disk.clone() };
        if self.disks.iter().any(|record| record.id == old_record_id) {
            return Ok(new_handle);
        }
        if self.disk(&new_handle).is_some() {
            return Err(Rejection::SameHandle(new_handle.into()));
        }
        let disk_record = self.disks.iter_mut().find(|disk_record| disk_record.handle() == *disk);
        let disk_record = disk_record.ok_or_else(|| not_recorded_error(&disk.clone().into()))?;
        let old_cid = std::mem::replace(&mut disk_record.cid, new_handle.cid.clone());
        let old_record = DiskRecord {
            id: old_record_id,
            cid: old_cid,
            hint: None,
            vm_at_replacement: Some(VmAtReplacement(None)),
            ..disk_record.clone()
        };
        self.disks.push(old_record);
        self.remove_undeleted_mark(&new_handle.clone().into());
        Ok(new_handle)
    }

    /// Gives the resources of a CPI to the CPI with the new name. Fails if two would have the same handle.
    fn rename_cpi(&mut self, old_name: Option<&str>, new_name: &str) -> Result<(), Rejection> {
        for resource in self.resources().filter(|resource| resource.cpi() == old_name) {
            let renamed_resource = resource.at_cpi(Some(new_name));
            if !matches!(renamed_resource, Resource::Stemcell(_)) && self.has_on_record(&renamed_resource) {
                return Err(Rejection::SameHandle(renamed_resource));
            }
        }
        let rename_owner = |cpi: &mut Option<String>| {
            if cpi.as_deref() == old_name {
                *cpi = Some(new_name.to_owned());
            }
        };
        self.disks.iter_mut().for_each(|disk| rename_owner(&mut disk.cpi));
        self.stemcells.iter_mut().for_each(|stemcell| rename_owner(&mut stemcell.cpi));
        self.monopile.snapshots.iter_mut().for_each(|snapshot| rename_owner(&mut snapshot.cpi));
        for undeleted in
            self.monopile.undeleted.iter_mut().filter(|undeleted| undeleted.resource.cpi() == old_name)
        {
            undeleted.resource = undeleted.resource.at_cpi(Some(new_name));
        }
        self.monopile.suspects.iter_mut().for_each(|suspect| rename_owner(&mut suspect.cpi));
        self.monopile
            .absent_methods
            .iter_mut()
            .for_each(|absent_method| rename_owner(&mut absent_method.cpi));
        if self.location(old_name).is_some() {
            self.monopile.locations.retain(|location| location.cpi.as_deref() != Some(new_name));
            self.monopile.locations.iter_mut().for_each(|location| rename_owner(&mut location.cpi));
        }
        let vm = self.vm_handle().filter(|vm| vm.cpi() == old_name);
        if let Some(vm) = vm {
            self.record_vm_cpi(Handle::new(vm.cid, Some(new_name)));
        }
        Ok(())
    }
}

fn not_recorded_error(resource: &Resource) -> Rejection {
    Rejection::Unknown { kind: resource.kind().name(), name: resource.cid().to_owned() }
}

#[cfg(test)]
#[path = "change_tests.rs"]
mod tests;
