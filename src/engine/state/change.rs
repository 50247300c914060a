//! The transitions of the state: what may happen to it, and when.

use std::collections::BTreeMap;
use std::time::Duration;

use super::file::{Disk, Release, ReplacedOn, Snapshot, State, Stemcell, Suspect, Undeleted, Vm};
use super::handle::{DiskHandle, Handle, Resource, SnapshotHandle, StemcellHandle, VmHandle};
use super::salted::{Leaves, VmSpec, VmSpecDigests};
use crate::protocol::{DiskHint, RequestId, VmCid};

/// One thing that happened in the world, or was decided about it. Applying the same change twice is the same
/// as applying it once, so that a run that died between a write and its acknowledgement can repeat it.
#[derive(Debug, Clone)]
pub enum Change {
    /// A stemcell was uploaded.
    StemcellCreated(Stemcell),
    /// This stemcell record is the one in use.
    StemcellUsed {
        /// The record's id.
        id: String,
    },
    /// Whether this stemcell stays although nothing uses it. All records of it are meant: other tools may have
    /// recorded one stemcell under two versions.
    StemcellKept {
        /// Its handle.
        stemcell: StemcellHandle,
        /// Whether it stays.
        kept: bool,
    },
    /// A stemcell is gone from the cloud.
    StemcellDeleted(StemcellHandle),
    /// A VM was created and is now the VM of this environment.
    VmCreated(Box<Vm>),
    /// The VM is gone from the cloud.
    VmDeleted(VmHandle),
    /// The sshd of a VM showed its host key for the first time.
    HostKeyLearned {
        /// The VM's CID.
        vm: VmCid,
        /// The key in OpenSSH's notation.
        key: String,
    },
    /// A disk was created.
    DiskCreated(Disk),
    /// A disk was attached, and the CPI gave this hint for the agent.
    DiskAttached {
        /// Its handle.
        disk: DiskHandle,
        /// The hint, under contract v2 or when a CPI gives one anyway.
        hint: Option<DiskHint>,
    },
    /// This disk record is the one in use.
    DiskUsed(DiskHandle),
    /// An operator says that this disk takes the place of the one in use, which is kept; the next create-env attaches
    /// it.
    DiskChosen(DiskHandle),
    /// A disk is gone from the cloud.
    DiskDeleted(DiskHandle),
    /// A snapshot of a disk was taken.
    SnapshotCreated(Snapshot),
    /// A snapshot is gone from the cloud.
    SnapshotDeleted(SnapshotHandle),
    /// A CPI is called otherwise from now on (`migrated_from`), and what it knows is the same as before.
    CpiRenamed {
        /// What it was called; none for the default CPI.
        from: Option<String>,
        /// What it is called.
        to: String,
    },
    /// A VM that is not on record is about to be deleted: until it is gone, it is.
    VmOrphaned {
        /// Its handle.
        vm: VmHandle,
        /// Why it is deleted.
        said: String,
        /// When that began, RFC 3339 UTC.
        since: String,
    },
    /// A deletion did not come about. Its record stays, marked; a VM that the CPI does not find makes way for a new
    /// one.
    DeletionFailed(Undeleted),
    /// The CPI answered a creating call with an error. What it may have made all the same stays in sight.
    CreationFailed(Suspect),
    /// An operator says that nothing is left of what the call with this request id may have made.
    SuspectForgotten {
        /// The request id.
        request_id: RequestId,
    },
    /// An operator says that something is no business of this environment any more.
    Forgotten(Resource),
    /// An operator says that this VM, made by another run, is the VM of this environment.
    VmAdopted {
        /// Its handle.
        handle: VmHandle,
        /// More, where its agent was asked.
        vm: Option<Box<Vm>>,
    },
    /// An operator put this state in the place of the present one: an older version, or one made from CIDs.
    Replaced(Box<State>),
    /// A deploy begins: until it succeeds, nothing counts as deployed.
    DeployBegun {
        /// The VM on record stays, with its disks mounted.
        in_place: bool,
    },
    /// The agent of the VM answers and its disks are mounted: only the jobs may be missing from now on.
    VmReady,
    /// The metadata of the VM was set again.
    MetadataSet(Box<VmSpec>),
    /// A deploy succeeded.
    Deployed {
        /// SHA-512 of the interpolated manifest, hex.
        manifest_sha: String,
        /// The releases it used, without ids.
        releases: Vec<Release>,
        /// The leaves of the manifest.
        manifest: Option<Leaves>,
        /// How long its steps and stages took, by their names.
        durations: BTreeMap<String, Duration>,
    },
    /// The jobs were stopped or lost on purpose: the next create-env must deploy.
    DeploymentForgotten,
}

/// Why a change cannot happen to this state.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Rejected {
    /// A second VM would make the first one a leak.
    #[error("VM {existing} is still recorded, so VM {new} cannot take its place")]
    VmExists {
        /// The VM on record.
        existing: VmHandle,
        /// The VM that was to be recorded.
        new: VmHandle,
    },
    /// Another host key than the one that was learned would hide that another machine answers.
    #[error("VM '{vm}' has another ssh host key on record")]
    HostKeyKnown {
        /// The VM's CID.
        vm: VmCid,
    },
    /// Two disks or snapshots would have the same name.
    #[error("two {}s would be called {}", .0.kind(), .0.handle())]
    SameName(Resource),
    /// The change names something that is not on record.
    #[error("no {what} '{name}' is recorded")]
    Unknown {
        /// Stemcell, VM or disk.
        what: &'static str,
        /// Its CID or id.
        name: String,
    },
}

impl State {
    /// The one transition function: applies a change or rejects it and leaves the state as it was.
    pub fn apply(&mut self, change: Change) -> Result<(), Rejected> {
        match change {
            Change::StemcellCreated(stemcell) => {
                let known = self
                    .stemcells
                    .iter_mut()
                    .find(|known| known.cid == stemcell.cid && known.cpi == stemcell.cpi);
                match known {
                    // The same thing under a new description: a CPI may know a stemcell by its content or name.
                    Some(known) => {
                        let id = std::mem::take(&mut known.id);
                        let unknown = std::mem::take(&mut known.unknown);
                        let kept = known.kept || stemcell.kept;
                        *known = Stemcell { id, kept, unknown, ..stemcell };
                    }
                    None => {
                        self.unmark(&stemcell.handle().into());
                        self.stemcells.push(stemcell);
                    }
                }
            }
            Change::StemcellUsed { id } => {
                if !self.stemcells.iter().any(|known| known.id == id) {
                    return Err(Rejected::Unknown { what: "stemcell", name: id });
                }
                self.current_stemcell_id = id;
            }
            Change::StemcellKept { stemcell, kept } => {
                let mut known =
                    self.stemcells.iter_mut().filter(|known| known.handle() == stemcell).peekable();
                if known.peek().is_none() {
                    return Err(not_recorded(&stemcell.into()));
                }
                known.for_each(|known| known.kept = kept);
            }
            Change::StemcellDeleted(handle) => {
                if self.current_stemcell().is_some_and(|current| current.handle() == handle) {
                    self.current_stemcell_id.clear();
                }
                self.stemcells.retain(|known| known.handle() != handle);
                self.unmark(&handle.into());
            }
            Change::VmCreated(vm) => {
                let handle = vm.handle();
                if let Some(existing) = self.vm_handle().filter(|existing| *existing != handle) {
                    return Err(Rejected::VmExists { existing, new: handle });
                }
                // A CPI may give the CID of an earlier VM again.
                self.unmark(&handle.into());
                self.current_vm_cid = Some(vm.cid.clone());
                self.monopile.vm = Some(*vm);
                self.monopile.bare_vm = None;
            }
            Change::VmDeleted(handle) => {
                let current = self.vm_handle();
                let vm = Resource::Vm(handle);
                match current.map(Resource::Vm) {
                    Some(current) if current == vm => self.forget_vm(),
                    Some(_) if self.undeleted(&vm).is_none() => return Err(not_recorded(&vm)),
                    _ => {}
                }
                self.unmark(&vm);
            }
            Change::HostKeyLearned { vm, key } => {
                let known = self.monopile.vm.as_mut().filter(|known| known.cid == vm);
                let known = match known.filter(|_| self.current_vm_cid.as_ref() == Some(&vm)) {
                    Some(known) => known,
                    None => return Err(Rejected::Unknown { what: "VM", name: vm.to_string() }),
                };
                if known.ssh_host_key.as_ref().is_some_and(|known| *known != key) {
                    return Err(Rejected::HostKeyKnown { vm });
                }
                known.ssh_host_key = Some(key);
            }
            Change::DiskCreated(disk) => {
                if self.disk(&disk.handle()).is_none() {
                    self.unmark(&disk.handle().into());
                    self.disks.push(disk);
                }
            }
            Change::DiskAttached { disk, hint } => {
                let known = self.disks.iter_mut().find(|known| known.handle() == disk);
                known.ok_or_else(|| not_recorded(&disk.into()))?.hint = hint;
            }
            Change::DiskUsed(handle) => {
                let disk = self.disks.iter_mut().find(|disk| disk.handle() == handle);
                let disk = disk.ok_or_else(|| not_recorded(&handle.clone().into()))?;
                disk.replaced_on = None;
                self.current_disk_id = disk.id.clone();
                self.unmark(&handle.into());
            }
            Change::DiskChosen(handle) => {
                let before = self.current_disk_id.clone();
                // Where a disk waits already for the next VM, the present one has another.
                let vm = self.vm_cid().filter(|_| self.disk_left_on_vm().is_none());
                let replaced_on = ReplacedOn(vm.cloned());
                self.apply(Change::DiskUsed(handle))?;
                if before != self.current_disk_id {
                    let before = self.disks.iter_mut().find(|disk| disk.id == before);
                    before.into_iter().for_each(|disk| disk.replaced_on = Some(replaced_on.clone()));
                    self.apply(Change::DeploymentForgotten)?;
                }
            }
            Change::DiskDeleted(handle) => {
                if self.current_disk().is_some_and(|current| current.handle() == handle) {
                    self.current_disk_id.clear();
                }
                self.disks.retain(|known| known.handle() != handle);
                self.unmark(&handle.into());
            }
            Change::SnapshotCreated(snapshot) => {
                let handle = snapshot.handle();
                if !self.monopile.snapshots.iter().any(|known| known.handle() == handle) {
                    self.monopile.snapshots.push(snapshot);
                }
            }
            Change::SnapshotDeleted(handle) => {
                self.monopile.snapshots.retain(|known| known.handle() != handle);
                self.unmark(&handle.into());
            }
            Change::CpiRenamed { from, to } => self.rename_cpi(from.as_deref(), &to)?,
            Change::VmOrphaned { vm, said, since } => {
                let resource = Resource::Vm(vm);
                if !self.records(&resource) {
                    self.monopile.undeleted.push(Undeleted { resource, said, since, not_found: false });
                }
            }
            Change::DeletionFailed(undeleted) => {
                let resource = &undeleted.resource;
                if !self.records(resource) {
                    return Err(not_recorded(resource));
                }
                if self.vm_handle().is_some_and(|vm| *resource == Resource::Vm(vm)) {
                    if !undeleted.not_found {
                        // It is the VM of this environment as before.
                        return Ok(());
                    }
                    self.forget_vm();
                }
                self.unmark(resource);
                self.monopile.undeleted.push(undeleted);
            }
            Change::CreationFailed(suspect) => {
                if !self.monopile.suspects.iter().any(|known| known.request_id == suspect.request_id) {
                    self.monopile.suspects.push(suspect);
                }
            }
            Change::SuspectForgotten { request_id } => {
                self.monopile.suspects.retain(|known| known.request_id != request_id);
            }
            Change::Forgotten(resource) => {
                if !self.records(&resource) {
                    return Err(not_recorded(&resource));
                }
                let used = match &resource {
                    Resource::Vm(vm) => self.vm_handle().as_ref() == Some(vm),
                    Resource::Disk(disk) => self.current_disk().is_some_and(|known| known.handle() == *disk),
                    Resource::Stemcell(stemcell) => {
                        self.current_stemcell().is_some_and(|known| known.handle() == *stemcell)
                    }
                    Resource::Snapshot(_) => false,
                };
                if used {
                    self.apply(Change::DeploymentForgotten)?;
                }
                self.apply(Change::deleted(resource))?;
            }
            Change::VmAdopted { handle, vm } => {
                if let Some(existing) = self.vm_handle() {
                    return Err(Rejected::VmExists { existing, new: handle });
                }
                self.monopile.vm = vm.map(|vm| Vm { cid: handle.cid.clone(), ..*vm });
                self.current_vm_cid = Some(handle.cid.clone());
                self.own_vm(handle);
            }
            Change::Replaced(state) => *self = *state,
            Change::DeployBegun { in_place: true } => self.nothing_is_deployed(),
            Change::DeployBegun { in_place: false } | Change::DeploymentForgotten => {
                self.nothing_is_deployed();
                if let Some(vm) = &mut self.monopile.vm {
                    vm.ready = false;
                }
            }
            Change::VmReady => {
                if let Some(vm) = &mut self.monopile.vm {
                    vm.ready = true;
                }
            }
            Change::MetadataSet(ingredients) => {
                if let Some(vm) = &mut self.monopile.vm {
                    vm.made_of = Some(VmSpecDigests::of(&ingredients));
                }
            }
            Change::Deployed { manifest_sha, releases, manifest, durations } => {
                self.monopile.durations.record(durations);
                self.monopile.manifest = manifest;
                self.current_release_ids = releases.iter().map(|release| release.id.clone()).collect();
                self.releases = releases;
                self.current_manifest_sha = manifest_sha;
            }
        }
        Ok(())
    }
}

impl Change {
    /// That this is gone from the cloud.
    pub fn deleted(resource: Resource) -> Self {
        match resource {
            Resource::Vm(vm) => Change::VmDeleted(vm),
            Resource::Disk(disk) => Change::DiskDeleted(disk),
            Resource::Stemcell(stemcell) => Change::StemcellDeleted(stemcell),
            Resource::Snapshot(snapshot) => Change::SnapshotDeleted(snapshot),
        }
    }
}

impl State {
    fn nothing_is_deployed(&mut self) {
        self.current_manifest_sha.clear();
        self.current_release_ids.clear();
        self.releases.clear();
    }

    /// What the mark was about is gone, or there again.
    fn unmark(&mut self, resource: &Resource) {
        self.monopile.undeleted.retain(|one| one.resource != *resource);
    }

    /// There is no VM of this environment any more.
    fn forget_vm(&mut self) {
        self.current_vm_cid = None;
        self.monopile.vm = None;
        self.monopile.bare_vm = None;
    }

    /// Records the CPI of the VM of this environment, of which there may be no more than its CID.
    fn own_vm(&mut self, handle: VmHandle) {
        if let Some(vm) = self.monopile.vm.as_mut().filter(|vm| vm.cid == handle.cid) {
            vm.cpi.clone_from(&handle.cpi);
        }
        self.monopile.bare_vm =
            Some(handle).filter(|handle| self.monopile.vm.is_none() && handle.cpi.is_some());
    }

    fn rename_cpi(&mut self, from: Option<&str>, to: &str) -> Result<(), Rejected> {
        for resource in self.resources().filter(|resource| resource.cpi() == from) {
            let same = resource.at_cpi(Some(to));
            if !matches!(same, Resource::Stemcell(_)) && self.records(&same) {
                return Err(Rejected::SameName(same));
            }
        }
        let adopt = |cpi: &mut Option<String>| {
            if cpi.as_deref() == from {
                *cpi = Some(to.to_owned());
            }
        };
        self.disks.iter_mut().for_each(|disk| adopt(&mut disk.cpi));
        self.stemcells.iter_mut().for_each(|stemcell| adopt(&mut stemcell.cpi));
        self.monopile.snapshots.iter_mut().for_each(|snapshot| adopt(&mut snapshot.cpi));
        for one in self.monopile.undeleted.iter_mut().filter(|one| one.resource.cpi() == from) {
            one.resource = one.resource.at_cpi(Some(to));
        }
        self.monopile.suspects.iter_mut().for_each(|one| adopt(&mut one.cpi));
        let vm = self.vm_handle().filter(|vm| vm.cpi() == from);
        if let Some(vm) = vm {
            self.own_vm(Handle::new(vm.cid, Some(to)));
        }
        Ok(())
    }
}

fn not_recorded(resource: &Resource) -> Rejected {
    Rejected::Unknown { what: resource.kind().name(), name: resource.cid().to_owned() }
}

#[cfg(test)]
#[path = "change_tests.rs"]
mod tests;
