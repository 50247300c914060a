//! The transitions of the state: what may happen to it, and when.

use std::collections::BTreeMap;

use serde_json::Value;

use super::file::{Disk, Kind, Release, Snapshot, State, Stemcell, Undeleted, Vm};
use super::handle::Handle;
use super::salted::{Ingredients, Leaves, MadeOf};

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
    /// A stemcell is gone from the cloud.
    StemcellDeleted(Handle),
    /// A VM was created and is now the VM of this environment.
    VmCreated(Box<Vm>),
    /// The VM is gone from the cloud.
    VmDeleted(Handle),
    /// The sshd of a VM showed its host key for the first time.
    HostKeyLearned {
        /// The VM's CID.
        vm: String,
        /// The key in OpenSSH's notation.
        key: String,
    },
    /// A disk was created.
    DiskCreated(Disk),
    /// A disk was attached, and the CPI gave this hint for the agent.
    DiskAttached {
        /// What it is called.
        disk: Handle,
        /// The hint, under contract v2 or when a CPI gives one anyway.
        hint: Option<Value>,
    },
    /// This disk record is the one in use.
    DiskUsed(Handle),
    /// A disk is gone from the cloud.
    DiskDeleted(Handle),
    /// A snapshot of a disk was taken.
    SnapshotCreated(Snapshot),
    /// A snapshot is gone from the cloud.
    SnapshotDeleted(Handle),
    /// A CPI is called otherwise from now on (`migrated_from`), and what it knows is the same as before.
    CpiRenamed {
        /// What it was called; none for the default CPI.
        from: Option<String>,
        /// What it is called.
        to: String,
    },
    /// A deletion did not come about. Its record stays, marked; a VM that the CPI does not find makes way for a new
    /// one.
    DeletionFailed(Undeleted),
    /// An operator says that something is no business of this environment any more.
    Forgotten {
        /// What.
        what: Kind,
        /// What it is called.
        handle: Handle,
    },
    /// An operator says that this VM, made by another run, is the VM of this environment.
    VmAdopted {
        /// What it is called.
        handle: Handle,
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
    MetadataSet(Box<Ingredients>),
    /// A deploy succeeded.
    Deployed {
        /// SHA-512 of the interpolated manifest, hex.
        manifest_sha: String,
        /// The releases it used, without ids.
        releases: Vec<Release>,
        /// The leaves of the manifest.
        manifest: Option<Leaves>,
        /// How long its steps took, in milliseconds, by their names.
        durations: BTreeMap<String, u64>,
    },
    /// The jobs were stopped or lost on purpose: the next create-env must deploy.
    DeploymentForgotten,
}

/// Why a change cannot happen to this state.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Rejected {
    /// An empty CID came from somewhere: it would name nothing, or everything.
    #[error("a {0} with an empty CID cannot be recorded")]
    EmptyCid(&'static str),
    /// A second VM would make the first one a leak.
    #[error("VM {existing} is still recorded, so VM {new} cannot take its place")]
    VmExists {
        /// The VM on record.
        existing: Handle,
        /// The VM that was to be recorded.
        new: Handle,
    },
    /// Another host key than the one that was learned would hide that another machine answers.
    #[error("VM '{vm}' has another ssh host key on record")]
    HostKeyKnown {
        /// The VM's CID.
        vm: String,
    },
    /// Two things would have the same name.
    #[error("two {what}s would be called {handle}")]
    SameName {
        /// Disk or snapshot.
        what: &'static str,
        /// What both would be called.
        handle: Handle,
    },
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
                not_empty("stemcell", &stemcell.cid)?;
                let known = self
                    .stemcells
                    .iter_mut()
                    .find(|known| known.cid == stemcell.cid && known.cpi == stemcell.cpi);
                match known {
                    // The same thing under a new description: a CPI may know a stemcell by its content or name.
                    Some(known) => {
                        let id = std::mem::take(&mut known.id);
                        let unknown = std::mem::take(&mut known.unknown);
                        *known = Stemcell { id, unknown, ..stemcell };
                    }
                    None => {
                        self.unmark(Kind::Stemcell, &stemcell.handle());
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
            Change::StemcellDeleted(handle) => {
                not_empty("stemcell", &handle.cid)?;
                if self.current_stemcell().is_some_and(|current| current.handle() == handle) {
                    self.current_stemcell_id.clear();
                }
                self.unmark(Kind::Stemcell, &handle);
                self.stemcells.retain(|known| known.handle() != handle);
            }
            Change::VmCreated(vm) => {
                not_empty("VM", &vm.cid)?;
                let handle = Handle::new(&vm.cid, vm.cpi.as_deref());
                if let Some(existing) = self.vm_handle().filter(|existing| *existing != handle) {
                    return Err(Rejected::VmExists { existing, new: handle });
                }
                // A CPI may give the CID of an earlier VM again.
                self.unmark(Kind::Vm, &handle);
                self.current_vm_cid.clone_from(&vm.cid);
                self.monopile.vm = Some(*vm);
                self.monopile.bare_vm = None;
            }
            Change::VmDeleted(handle) => {
                not_empty("VM", &handle.cid)?;
                let marked = self.undeleted(Kind::Vm, &handle).is_some();
                match self.vm_handle() {
                    Some(current) if current == handle => {
                        self.forget_vm();
                    }
                    Some(_) if !marked => return Err(Rejected::Unknown { what: "VM", name: handle.cid }),
                    _ => {}
                }
                self.unmark(Kind::Vm, &handle);
            }
            Change::HostKeyLearned { vm, key } => {
                let known = self.monopile.vm.as_mut().filter(|known| known.cid == vm);
                let known = match known.filter(|_| self.current_vm_cid == vm) {
                    Some(known) => known,
                    None => return Err(Rejected::Unknown { what: "VM", name: vm }),
                };
                if known.ssh_host_key.as_ref().is_some_and(|known| *known != key) {
                    return Err(Rejected::HostKeyKnown { vm });
                }
                known.ssh_host_key = Some(key);
            }
            Change::DiskCreated(disk) => {
                not_empty("disk", &disk.cid)?;
                if self.disk(&disk.handle()).is_none() {
                    self.unmark(Kind::Disk, &disk.handle());
                    self.disks.push(disk);
                }
            }
            Change::DiskAttached { disk, hint } => {
                let known = self.disks.iter_mut().find(|known| known.handle() == disk);
                known.ok_or(Rejected::Unknown { what: "disk", name: disk.cid })?.hint = hint;
            }
            Change::DiskUsed(handle) => {
                let disk = self.disk(&handle);
                self.current_disk_id =
                    disk.ok_or(Rejected::Unknown { what: "disk", name: handle.cid })?.id.clone();
            }
            Change::DiskDeleted(handle) => {
                not_empty("disk", &handle.cid)?;
                if self.current_disk().is_some_and(|current| current.handle() == handle) {
                    self.current_disk_id.clear();
                }
                self.unmark(Kind::Disk, &handle);
                self.disks.retain(|known| known.handle() != handle);
            }
            Change::SnapshotCreated(snapshot) => {
                not_empty("snapshot", &snapshot.cid)?;
                let handle = snapshot.handle();
                if !self.monopile.snapshots.iter().any(|known| known.handle() == handle) {
                    self.monopile.snapshots.push(snapshot);
                }
            }
            Change::SnapshotDeleted(handle) => {
                not_empty("snapshot", &handle.cid)?;
                self.unmark(Kind::Snapshot, &handle);
                self.monopile.snapshots.retain(|known| known.handle() != handle);
            }
            Change::CpiRenamed { from, to } => self.rename_cpi(from.as_deref(), &to)?,
            Change::DeletionFailed(undeleted) => {
                let (what, handle) = (undeleted.what, undeleted.handle());
                if !self.records(what, &handle) {
                    return Err(Rejected::Unknown { what: what.name(), name: handle.cid });
                }
                if what == Kind::Vm && self.vm_handle().as_ref() == Some(&handle) {
                    if !undeleted.not_found {
                        // It is the VM of this environment as before.
                        return Ok(());
                    }
                    self.forget_vm();
                }
                self.unmark(what, &handle);
                self.monopile.undeleted.push(undeleted);
            }
            Change::Forgotten { what, handle } => {
                if !self.records(what, &handle) {
                    return Err(Rejected::Unknown { what: what.name(), name: handle.cid });
                }
                let used = match what {
                    Kind::Vm => self.vm_handle().as_ref() == Some(&handle),
                    Kind::Disk => self.current_disk().is_some_and(|disk| disk.handle() == handle),
                    Kind::Stemcell => self.current_stemcell().is_some_and(|known| known.handle() == handle),
                    Kind::Snapshot => false,
                };
                if used {
                    self.apply(Change::DeploymentForgotten)?;
                }
                self.apply(Change::deleted(what, handle))?;
            }
            Change::VmAdopted { handle, vm } => {
                not_empty("VM", &handle.cid)?;
                if let Some(existing) = self.vm_handle() {
                    return Err(Rejected::VmExists { existing, new: handle });
                }
                self.monopile.vm = vm.map(|vm| Vm { cid: handle.cid.clone(), ..*vm });
                self.current_vm_cid.clone_from(&handle.cid);
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
                    vm.made_of = Some(MadeOf::of(&ingredients));
                }
            }
            Change::Deployed { manifest_sha, releases, manifest, durations } => {
                self.monopile.durations.extend(durations);
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
    pub fn deleted(what: Kind, handle: Handle) -> Self {
        match what {
            Kind::Vm => Change::VmDeleted(handle),
            Kind::Disk => Change::DiskDeleted(handle),
            Kind::Stemcell => Change::StemcellDeleted(handle),
            Kind::Snapshot => Change::SnapshotDeleted(handle),
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
    fn unmark(&mut self, what: Kind, handle: &Handle) {
        self.monopile.undeleted.retain(|one| !one.is(what, handle));
    }

    /// There is no VM of this environment any more.
    fn forget_vm(&mut self) {
        self.current_vm_cid.clear();
        self.monopile.vm = None;
        self.monopile.bare_vm = None;
    }

    /// Records the CPI of the VM of this environment, of which there may be no more than its CID.
    fn own_vm(&mut self, handle: Handle) {
        if let Some(vm) = self.monopile.vm.as_mut().filter(|vm| vm.cid == handle.cid) {
            vm.cpi.clone_from(&handle.cpi);
        }
        self.monopile.bare_vm =
            Some(handle).filter(|handle| self.monopile.vm.is_none() && handle.cpi.is_some());
    }

    fn rename_cpi(&mut self, from: Option<&str>, to: &str) -> Result<(), Rejected> {
        let renamed = |cid: &str| Handle::new(cid, Some(to));
        for (what, handle) in self.resources().filter(|(_, handle)| handle.cpi() == from) {
            let same = renamed(&handle.cid);
            if what != Kind::Stemcell && self.records(what, &same) {
                return Err(Rejected::SameName { what: what.name(), handle: same });
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
        self.monopile.undeleted.iter_mut().for_each(|one| adopt(&mut one.cpi));
        let vm = self.vm_handle().filter(|vm| vm.cpi() == from);
        if let Some(vm) = vm {
            self.own_vm(Handle::new(vm.cid, Some(to)));
        }
        Ok(())
    }
}

fn not_empty(what: &'static str, cid: &str) -> Result<(), Rejected> {
    if cid.trim().is_empty() { Err(Rejected::EmptyCid(what)) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpi::Contract;

    fn vm(cid: &str) -> Change {
        Change::VmCreated(Box::new(Vm {
            cid: cid.into(),
            agent_id: "agent".into(),
            contract: Contract::V2,
            networks: None,
            cpi: None,
            instance: "bosh/0".into(),
            ssh_host_key: None,
            made_of: None,
            ready: false,
        }))
    }

    fn handle(cid: &str) -> Handle {
        Handle::new(cid, None)
    }

    fn disk(cid: &str) -> Disk {
        Disk {
            id: format!("id-of-{cid}"),
            cid: cid.into(),
            size: 1024,
            cloud_properties: serde_json::Map::new(),
            hint: None,
            cpi: None,
            az: None,
            unknown: serde_json::Map::new(),
        }
    }

    #[test]
    fn a_second_vm_is_refused_because_the_first_would_be_forgotten() {
        let mut state = State::new();
        state.apply(vm("vm-1")).unwrap();
        state.apply(vm("vm-1")).unwrap();
        let before = state.clone();
        assert_eq!(
            state.apply(vm("vm-2")),
            Err(Rejected::VmExists { existing: handle("vm-1"), new: handle("vm-2") })
        );
        assert_eq!(state, before);
    }

    fn undeleted(what: Kind, cid: &str, not_found: bool) -> Change {
        let (said, since, cpi) = ("no".to_owned(), "2026-01-01T00:00:00Z".to_owned(), None);
        Change::DeletionFailed(Undeleted { what, cid: cid.to_owned(), cpi, said, since, not_found })
    }

    #[test]
    fn a_vm_that_is_not_found_makes_way_and_stays_on_record() {
        let mut state = State::new();
        state.apply(vm("vm-1")).unwrap();
        state.apply(undeleted(Kind::Vm, "vm-1", false)).unwrap();
        assert_eq!(state.vm_cid(), Some("vm-1"), "it may still be there");
        state.apply(undeleted(Kind::Vm, "vm-1", true)).unwrap();
        assert_eq!((state.vm_cid(), state.vm()), (None, None));
        assert_eq!(state.undeleted_vms().collect::<Vec<_>>(), [handle("vm-1")]);
        assert!(!state.is_empty_of_resources());
        state.apply(vm("vm-2")).unwrap();
        State::parse(&state.to_bytes().unwrap()).unwrap();
        state.apply(Change::VmDeleted(handle("vm-1"))).unwrap();
        assert_eq!((state.vm_cid(), state.undeleted_vms().count()), (Some("vm-2"), 0));
    }

    #[test]
    fn a_cid_that_is_given_again_is_no_leftover() {
        let mut state = State::new();
        state.apply(vm("vm-1")).unwrap();
        state.apply(undeleted(Kind::Vm, "vm-1", true)).unwrap();
        state.apply(vm("vm-1")).unwrap();
        assert_eq!((state.vm_cid(), state.undeleted_vms().count()), (Some("vm-1"), 0));
    }

    #[test]
    fn a_mark_goes_with_its_record_and_needs_one() {
        let mut state = State::new();
        assert!(state.apply(undeleted(Kind::Disk, "disk-1", true)).is_err());
        state.apply(Change::DiskCreated(disk("disk-1"))).unwrap();
        state.apply(undeleted(Kind::Disk, "disk-1", false)).unwrap();
        state.apply(undeleted(Kind::Disk, "disk-1", true)).unwrap();
        assert_eq!(state.monopile.undeleted.len(), 1);
        assert!(state.undeleted(Kind::Disk, &handle("disk-1")).unwrap().not_found);
        state.apply(Change::DiskDeleted(handle("disk-1"))).unwrap();
        assert!(state.monopile.undeleted.is_empty());
    }

    #[test]
    fn only_what_is_on_record_is_forgotten_and_then_nothing_counts_as_deployed() {
        let mut state = State::new();
        state.apply(vm("vm-1")).unwrap();
        state.apply(Change::DiskCreated(disk("disk-1"))).unwrap();
        state.apply(Change::DiskCreated(disk("disk-2"))).unwrap();
        state.apply(Change::DiskUsed(handle("disk-1"))).unwrap();
        state
            .apply(Change::Deployed {
                manifest_sha: "abc".into(),
                releases: Vec::new(),
                manifest: None,
                durations: BTreeMap::new(),
            })
            .unwrap();
        let forget = |what, cid: &str| Change::Forgotten { what, handle: handle(cid) };
        assert!(state.apply(forget(Kind::Vm, "disk-1")).is_err());
        assert!(state.apply(forget(Kind::Disk, "")).is_err());
        state.apply(forget(Kind::Disk, "disk-2")).unwrap();
        assert_eq!(state.current_manifest_sha, "abc", "it was not in use");
        state.apply(forget(Kind::Disk, "disk-1")).unwrap();
        assert_eq!((state.current_manifest_sha.as_str(), state.current_disk_id.as_str()), ("", ""));
        state.apply(forget(Kind::Vm, "vm-1")).unwrap();
        assert!(state.is_empty_of_resources());
    }

    #[test]
    fn a_vm_is_adopted_only_where_there_is_none() {
        let mut state = State::new();
        let adopt = |cid: &str| Change::VmAdopted { handle: handle(cid), vm: None };
        assert_eq!(state.apply(adopt("")), Err(Rejected::EmptyCid("VM")));
        state.apply(adopt("vm-1")).unwrap();
        assert!(state.apply(adopt("vm-2")).is_err());
        assert_eq!((state.vm_cid(), state.vm()), (Some("vm-1"), None));
    }

    /// One disk, stemcell and VM with the same CIDs, of this CPI.
    fn of_cpi(state: &mut State, cpi: Option<&str>) {
        let cpi = cpi.map(str::to_owned);
        let stemcell = Stemcell {
            id: format!("s-{cpi:?}"),
            name: "jammy".into(),
            version: "1".into(),
            api_version: Some(if cpi.is_some() { 3 } else { 2 }),
            cid: "same".into(),
            cpi: cpi.clone(),
            digest: None,
            unknown: serde_json::Map::new(),
        };
        let snapshot = Snapshot {
            cid: "same".into(),
            cpi: cpi.clone(),
            disk: "same".into(),
            created_at: String::new(),
            unknown: serde_json::Map::new(),
        };
        state.apply(Change::StemcellCreated(stemcell)).unwrap();
        let disk = Disk { id: format!("d-{cpi:?}"), cpi, ..disk("same") };
        state.apply(Change::DiskCreated(disk)).unwrap();
        state.apply(Change::SnapshotCreated(snapshot)).unwrap();
    }

    #[test]
    fn what_two_cpis_call_the_same_is_two_things() {
        let mut state = State::new();
        of_cpi(&mut state, None);
        of_cpi(&mut state, Some("a"));
        assert_eq!(state.resources().count(), 6);
        assert_eq!((state.stemcell_api_version(None), state.stemcell_api_version(Some("a"))), (2, 3));
        let mark = Undeleted {
            what: Kind::Disk,
            cid: "same".into(),
            cpi: Some("a".into()),
            said: String::new(),
            since: String::new(),
            not_found: true,
        };
        state.apply(Change::DeletionFailed(mark)).unwrap();
        let of_a = Handle::new("same", Some("a"));
        assert!(state.undeleted(Kind::Disk, &handle("same")).is_none());
        state.apply(Change::DiskUsed(of_a.clone())).unwrap();
        state.apply(Change::DiskAttached { disk: handle("same"), hint: Some("/dev/x".into()) }).unwrap();
        assert_eq!(state.current_disk().unwrap().hint, None);
        for what in [Kind::Disk, Kind::Stemcell, Kind::Snapshot] {
            state.apply(Change::deleted(what, handle("same"))).unwrap();
            assert!(state.records(what, &of_a) && !state.records(what, &handle("same")), "{what}");
        }
        assert_eq!(State::parse(&state.to_bytes().unwrap()).unwrap(), state);
        assert_eq!(
            state.apply(Change::VmAdopted { handle: of_a.clone(), vm: None }).map(|()| state.vm_handle()),
            Ok(Some(of_a))
        );
    }

    #[test]
    fn a_renamed_cpi_keeps_all_that_it_knows() {
        let mut state = State::new();
        of_cpi(&mut state, None);
        state.apply(vm("vm-1")).unwrap();
        state.apply(undeleted(Kind::Vm, "vm-1", true)).unwrap();
        state.apply(vm("vm-2")).unwrap();
        let rename = |from: Option<&str>, to: &str| Change::CpiRenamed {
            from: from.map(str::to_owned),
            to: to.to_owned(),
        };
        state.apply(rename(Some("other"), "b")).unwrap();
        assert!(state.resources().all(|(_, handle)| handle.cpi().is_none()));
        state.apply(rename(None, "a")).unwrap();
        state.apply(rename(Some("a"), "b")).unwrap();
        let all: Vec<_> = state.resources().collect();
        assert_eq!(all.len(), 5);
        assert!(all.iter().all(|(_, handle)| handle.cpi() == Some("b")), "{all:?}");

        of_cpi(&mut state, Some("c"));
        let before = state.clone();
        assert!(matches!(state.apply(rename(Some("c"), "b")), Err(Rejected::SameName { .. })));
        assert_eq!(state, before);

        let mut bare = State { current_vm_cid: "vm-9".into(), ..State::new() };
        bare.apply(rename(None, "a")).unwrap();
        assert_eq!(bare.vm_handle(), Some(Handle::new("vm-9", Some("a"))));
        assert_eq!(State::parse(&bare.to_bytes().unwrap()).unwrap(), bare);
        bare.apply(Change::VmDeleted(Handle::new("vm-9", Some("a")))).unwrap();
        assert!(bare.is_empty_of_resources() && bare.monopile.bare_vm.is_none());
    }

    #[test]
    fn empty_cids_never_enter_the_state() {
        let mut state = State::new();
        assert_eq!(state.apply(vm(" ")), Err(Rejected::EmptyCid("VM")));
        assert_eq!(state.apply(Change::DiskCreated(disk(""))), Err(Rejected::EmptyCid("disk")));
        assert_eq!(state.apply(Change::VmDeleted(handle(""))), Err(Rejected::EmptyCid("VM")));
    }

    #[test]
    fn deleting_another_vm_than_the_recorded_one_is_refused() {
        let mut state = State::new();
        state.apply(vm("vm-1")).unwrap();
        assert!(state.apply(Change::VmDeleted(handle("vm-2"))).is_err());
        assert_eq!(state.vm_cid(), Some("vm-1"));
    }

    #[test]
    fn a_host_key_is_learned_once_and_goes_with_its_vm() {
        let learned =
            |vm: &str, key: &str| Change::HostKeyLearned { vm: vm.into(), key: format!("ssh-ed25519 {key}") };
        let mut state = State::new();
        assert_eq!(
            state.apply(learned("vm-1", "A")),
            Err(Rejected::Unknown { what: "VM", name: "vm-1".into() })
        );
        state.apply(vm("vm-1")).unwrap();
        state.apply(learned("vm-1", "A")).unwrap();
        state.apply(learned("vm-1", "A")).unwrap();
        assert_eq!(state.apply(learned("vm-1", "B")), Err(Rejected::HostKeyKnown { vm: "vm-1".into() }));
        assert_eq!(state.vm().unwrap().ssh_host_key.as_deref(), Some("ssh-ed25519 A"));
        let again = State::parse(&state.to_bytes().unwrap()).unwrap();
        assert_eq!(again, state);
        state.apply(Change::VmDeleted(handle("vm-1"))).unwrap();
        state.apply(vm("vm-2")).unwrap();
        state.apply(learned("vm-2", "B")).unwrap();
    }

    #[test]
    fn a_stemcell_uploaded_again_under_the_same_cid_stays_one_record() {
        let stemcell = |id: &str, version: &str| {
            Change::StemcellCreated(Stemcell {
                id: id.into(),
                name: "hello".into(),
                version: version.into(),
                api_version: Some(3),
                cid: "sc-1".into(),
                cpi: None,
                digest: None,
                unknown: serde_json::Map::new(),
            })
        };
        let mut state = State::new();
        state.apply(stemcell("a", "1")).unwrap();
        state.apply(Change::StemcellUsed { id: "a".into() }).unwrap();
        state.apply(stemcell("b", "2")).unwrap();
        assert_eq!(state.stemcells.len(), 1);
        assert_eq!(state.current_stemcell().unwrap().version, "2");
    }

    #[test]
    fn deleting_the_current_disk_clears_the_reference() {
        let mut state = State::new();
        state.apply(Change::DiskCreated(disk("disk-1"))).unwrap();
        state.apply(Change::DiskUsed(handle("disk-1"))).unwrap();
        state.apply(Change::DiskDeleted(handle("disk-1"))).unwrap();
        assert_eq!(state.current_disk_id, "");
        assert!(state.disks.is_empty());
        State::parse(&state.to_bytes().unwrap()).unwrap();
    }

    #[test]
    fn what_bosh_wrote_is_read_and_foreign_keys_survive() {
        let text = br#"{
            "director_id": "d", "installation_id": "i", "current_vm_cid": "vm-9",
            "current_stemcell_id": "", "current_disk_id": "x", "current_release_ids": null,
            "current_manifest_sha": "", "releases": null, "stemcells": null, "later": {"a": [1]},
            "disks": [{"id": "x", "cid": "disk-9", "size": 5, "cloud_properties": {"type": "ssd"}, "more": 1}]
        }"#;
        let state = State::parse(text).unwrap();
        assert_eq!(state.vm_cid(), Some("vm-9"));
        assert!(state.vm().is_none(), "only the CID is known of it");
        let written: Value = serde_json::from_slice(&state.to_bytes().unwrap()).unwrap();
        assert_eq!(written["later"]["a"][0], 1);
        assert_eq!(written["disks"][0]["more"], 1);
    }

    #[test]
    fn states_that_cannot_be_meant_are_refused() {
        for (text, expected) in [
            (r#"{"director_id":"d","disks":[{"id":"x","cid":"","size":1}]}"#, "has no CID"),
            (r#"{"director_id":"d","current_disk_id":"y"}"#, "no disk has that id"),
            (r#"{"director_id":"d","monopile":{"format":99}}"#, "knows formats up to"),
            (r#"{"director_id":"d","disks":[{}]}"#, "not a valid state"),
            (r#"{"director_id":"d","current_vm_cid":7}"#, "not a valid state"),
            (r#"{"director_id":"d","current_vm_cid":" "}"#, "line 1: `current_vm_cid` is blank"),
            (
                "{\"director_id\":\"d\",\n\"current_stemcell_id\":\"y\"}",
                "line 2: `current_stemcell_id` is 'y'",
            ),
            (
                r#"{"director_id":"d","disks":[{"id":"x","cid":"a","size":1},{"id":"y","cid":"a","size":1}]}"#,
                "two disks have the CID 'a'",
            ),
            (
                r#"{"director_id":"d","disks":[{"id":"x","cid":"a","size":1},{"id":"x","cid":"b","size":1}]}"#,
                "two disks have the id 'x'",
            ),
            ("", "not a valid state"),
        ] {
            let error = State::parse(text.as_bytes()).unwrap_err();
            assert!(error.to_string().contains(expected), "{text}: {error}");
        }
    }
}
