//! The transitions of the state: what may happen to it, and when.

use serde_json::Value;

use super::file::{Disk, Kind, Release, State, Stemcell, Suspect, Undeleted, Vm};

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
    StemcellDeleted {
        /// Its CID.
        cid: String,
    },
    /// A VM was created and is now the VM of this environment.
    VmCreated(Box<Vm>),
    /// The VM is gone from the cloud.
    VmDeleted {
        /// Its CID.
        cid: String,
    },
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
        /// Its CID.
        cid: String,
        /// The hint, under contract v2 or when a CPI gives one anyway.
        hint: Option<Value>,
    },
    /// This disk record is the one in use.
    DiskUsed {
        /// The disk's CID.
        cid: String,
    },
    /// A disk is gone from the cloud.
    DiskDeleted {
        /// Its CID.
        cid: String,
    },
    /// A deletion did not come about. Its record stays, marked; a VM that the CPI does not find makes way for a new
    /// one.
    DeletionFailed(Undeleted),
    /// The CPI answered a creating call with an error. What it may have made all the same stays in sight.
    CreationFailed(Suspect),
    /// An operator says that nothing is left of what the call with this request id may have made.
    SuspectForgotten {
        /// The request id.
        request_id: String,
    },
    /// An operator says that something is no business of this environment any more.
    Forgotten {
        /// What.
        what: Kind,
        /// Its CID.
        cid: String,
    },
    /// An operator says that this VM, made by another run, is the VM of this environment.
    VmAdopted {
        /// Its CID.
        cid: String,
        /// More, where its agent was asked.
        vm: Option<Box<Vm>>,
    },
    /// An operator put this state in the place of the present one: an older version, or one made from CIDs.
    Replaced(Box<State>),
    /// A deploy begins: until it succeeds, nothing counts as deployed.
    DeployBegun,
    /// A deploy succeeded.
    Deployed {
        /// SHA-512 of the interpolated manifest, hex.
        manifest_sha: String,
        /// The releases it used, without ids.
        releases: Vec<Release>,
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
    #[error("VM '{existing}' is still recorded, so VM '{new}' cannot take its place")]
    VmExists {
        /// The VM on record.
        existing: String,
        /// The VM that was to be recorded.
        new: String,
    },
    /// Another host key than the one that was learned would hide that another machine answers.
    #[error("VM '{vm}' has another ssh host key on record")]
    HostKeyKnown {
        /// The VM's CID.
        vm: String,
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
                        self.unmark(Kind::Stemcell, &stemcell.cid);
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
            Change::StemcellDeleted { cid } => {
                not_empty("stemcell", &cid)?;
                if self.current_stemcell().is_some_and(|current| current.cid == cid) {
                    self.current_stemcell_id.clear();
                }
                self.unmark(Kind::Stemcell, &cid);
                self.stemcells.retain(|known| known.cid != cid);
            }
            Change::VmCreated(vm) => {
                not_empty("VM", &vm.cid)?;
                if let Some(existing) = self.vm_cid().filter(|existing| *existing != vm.cid) {
                    return Err(Rejected::VmExists { existing: existing.to_owned(), new: vm.cid });
                }
                // A CPI may give the CID of an earlier VM again.
                self.unmark(Kind::Vm, &vm.cid);
                self.current_vm_cid.clone_from(&vm.cid);
                self.monopile.vm = Some(*vm);
            }
            Change::VmDeleted { cid } => {
                not_empty("VM", &cid)?;
                let marked = self.undeleted(Kind::Vm, &cid).is_some();
                match self.vm_cid() {
                    Some(current) if current == cid => {
                        self.current_vm_cid.clear();
                        self.monopile.vm = None;
                    }
                    Some(_) if !marked => return Err(Rejected::Unknown { what: "VM", name: cid }),
                    _ => {}
                }
                self.unmark(Kind::Vm, &cid);
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
                if !self.disks.iter().any(|known| known.cid == disk.cid && known.cpi == disk.cpi) {
                    self.unmark(Kind::Disk, &disk.cid);
                    self.disks.push(disk);
                }
            }
            Change::DiskAttached { cid, hint } => {
                let disk = self.disks.iter_mut().find(|known| known.cid == cid);
                disk.ok_or(Rejected::Unknown { what: "disk", name: cid })?.hint = hint;
            }
            Change::DiskUsed { cid } => {
                let disk = self.disks.iter().find(|known| known.cid == cid);
                self.current_disk_id = disk.ok_or(Rejected::Unknown { what: "disk", name: cid })?.id.clone();
            }
            Change::DiskDeleted { cid } => {
                not_empty("disk", &cid)?;
                if self.current_disk().is_some_and(|current| current.cid == cid) {
                    self.current_disk_id.clear();
                }
                self.unmark(Kind::Disk, &cid);
                self.disks.retain(|known| known.cid != cid);
            }
            Change::DeletionFailed(undeleted) => {
                let (what, cid) = (undeleted.what, undeleted.cid.as_str());
                if !self.resources().any(|known| known == (what, cid)) {
                    return Err(Rejected::Unknown { what: what.name(), name: cid.to_owned() });
                }
                if self.vm_cid() == Some(cid) && what == Kind::Vm {
                    if !undeleted.not_found {
                        // It is the VM of this environment as before.
                        return Ok(());
                    }
                    self.current_vm_cid.clear();
                    self.monopile.vm = None;
                }
                self.unmark(what, cid);
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
            Change::Forgotten { what, cid } => {
                if !self.resources().any(|known| known == (what, cid.as_str())) {
                    return Err(Rejected::Unknown { what: what.name(), name: cid });
                }
                let used = match what {
                    Kind::Vm => self.vm_cid() == Some(&cid),
                    Kind::Disk => self.current_disk().is_some_and(|disk| disk.cid == cid),
                    Kind::Stemcell => self.current_stemcell().is_some_and(|stemcell| stemcell.cid == cid),
                };
                if used {
                    self.apply(Change::DeploymentForgotten)?;
                }
                self.apply(match what {
                    Kind::Vm => Change::VmDeleted { cid },
                    Kind::Disk => Change::DiskDeleted { cid },
                    Kind::Stemcell => Change::StemcellDeleted { cid },
                })?;
            }
            Change::VmAdopted { cid, vm } => {
                not_empty("VM", &cid)?;
                if let Some(existing) = self.vm_cid() {
                    return Err(Rejected::VmExists { existing: existing.to_owned(), new: cid });
                }
                self.monopile.vm = vm.map(|vm| Vm { cid: cid.clone(), ..*vm });
                self.current_vm_cid = cid;
            }
            Change::Replaced(state) => *self = *state,
            Change::DeployBegun | Change::DeploymentForgotten => {
                self.current_manifest_sha.clear();
                self.current_release_ids.clear();
                self.releases.clear();
            }
            Change::Deployed { manifest_sha, releases } => {
                self.current_release_ids = releases.iter().map(|release| release.id.clone()).collect();
                self.releases = releases;
                self.current_manifest_sha = manifest_sha;
            }
        }
        Ok(())
    }
}

impl State {
    /// What the mark was about is gone, or there again.
    fn unmark(&mut self, what: Kind, cid: &str) {
        self.monopile.undeleted.retain(|one| (one.what, one.cid.as_str()) != (what, cid));
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
        }))
    }

    fn disk(cid: &str) -> Disk {
        Disk {
            id: format!("id-of-{cid}"),
            cid: cid.into(),
            size: 1024,
            cloud_properties: serde_json::Map::new(),
            hint: None,
            cpi: None,
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
            Err(Rejected::VmExists { existing: "vm-1".into(), new: "vm-2".into() })
        );
        assert_eq!(state, before);
    }

    #[test]
    fn what_a_failed_call_may_have_made_stays_until_it_is_forgotten() {
        let mut state = State::new();
        let before = state.clone();
        let failed = Change::CreationFailed(Suspect {
            what: Kind::Vm,
            request_id: "r".into(),
            agent_id: Some("a".into()),
            looks_like: "a VM".into(),
            said: "no".into(),
            since: "2026-01-01T00:00:00Z".into(),
        });
        state.apply(failed.clone()).unwrap();
        state.apply(failed).unwrap();
        assert_eq!(state.monopile.suspects.len(), 1);
        assert!(state.suspected_vm("a").is_some() && state.suspected_vm("b").is_none());
        let read = State::parse(&state.to_bytes().unwrap()).unwrap();
        assert_eq!(read, state);
        state.apply(Change::SuspectForgotten { request_id: "other".into() }).unwrap();
        assert_eq!(state, read);
        state.apply(Change::SuspectForgotten { request_id: "r".into() }).unwrap();
        assert_eq!(state, before);
    }

    fn undeleted(what: Kind, cid: &str, not_found: bool) -> Change {
        let (said, since) = ("no".to_owned(), "2026-01-01T00:00:00Z".to_owned());
        Change::DeletionFailed(Undeleted { what, cid: cid.to_owned(), said, since, not_found })
    }

    #[test]
    fn a_vm_that_is_not_found_makes_way_and_stays_on_record() {
        let mut state = State::new();
        state.apply(vm("vm-1")).unwrap();
        state.apply(undeleted(Kind::Vm, "vm-1", false)).unwrap();
        assert_eq!(state.vm_cid(), Some("vm-1"), "it may still be there");
        state.apply(undeleted(Kind::Vm, "vm-1", true)).unwrap();
        assert_eq!((state.vm_cid(), state.vm()), (None, None));
        assert_eq!(state.undeleted_vms().collect::<Vec<_>>(), ["vm-1"]);
        assert!(!state.is_empty_of_resources());
        state.apply(vm("vm-2")).unwrap();
        State::parse(&state.to_bytes().unwrap()).unwrap();
        state.apply(Change::VmDeleted { cid: "vm-1".into() }).unwrap();
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
        assert!(state.undeleted(Kind::Disk, "disk-1").unwrap().not_found);
        state.apply(Change::DiskDeleted { cid: "disk-1".into() }).unwrap();
        assert!(state.monopile.undeleted.is_empty());
    }

    #[test]
    fn only_what_is_on_record_is_forgotten_and_then_nothing_counts_as_deployed() {
        let mut state = State::new();
        state.apply(vm("vm-1")).unwrap();
        state.apply(Change::DiskCreated(disk("disk-1"))).unwrap();
        state.apply(Change::DiskCreated(disk("disk-2"))).unwrap();
        state.apply(Change::DiskUsed { cid: "disk-1".into() }).unwrap();
        state.apply(Change::Deployed { manifest_sha: "abc".into(), releases: Vec::new() }).unwrap();
        let forget = |what, cid: &str| Change::Forgotten { what, cid: cid.to_owned() };
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
        let adopt = |cid: &str| Change::VmAdopted { cid: cid.to_owned(), vm: None };
        assert_eq!(state.apply(adopt("")), Err(Rejected::EmptyCid("VM")));
        state.apply(adopt("vm-1")).unwrap();
        assert!(state.apply(adopt("vm-2")).is_err());
        assert_eq!((state.vm_cid(), state.vm()), (Some("vm-1"), None));
    }

    #[test]
    fn empty_cids_never_enter_the_state() {
        let mut state = State::new();
        assert_eq!(state.apply(vm(" ")), Err(Rejected::EmptyCid("VM")));
        assert_eq!(state.apply(Change::DiskCreated(disk(""))), Err(Rejected::EmptyCid("disk")));
        assert_eq!(state.apply(Change::VmDeleted { cid: String::new() }), Err(Rejected::EmptyCid("VM")));
    }

    #[test]
    fn deleting_another_vm_than_the_recorded_one_is_refused() {
        let mut state = State::new();
        state.apply(vm("vm-1")).unwrap();
        assert!(state.apply(Change::VmDeleted { cid: "vm-2".into() }).is_err());
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
        state.apply(Change::VmDeleted { cid: "vm-1".into() }).unwrap();
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
        state.apply(Change::DiskUsed { cid: "disk-1".into() }).unwrap();
        state.apply(Change::DiskDeleted { cid: "disk-1".into() }).unwrap();
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
