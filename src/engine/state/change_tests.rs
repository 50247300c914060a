use serde_json::Value;

use super::*;
use crate::protocol::{CidKind, Contract, ResourceKind};
use crate::state::RunCredentials;
use manifest::VariableValue;

fn vm(cid: &str) -> Change {
    Change::VmCreated(Box::new(VmRecord {
        cid: cid.parse().unwrap(),
        agent_id: "agent".into(),
        contract: Contract::V2,
        networks: None,
        cpi: None,
        instance: "bosh/0".into(),
        ssh_host_key: None,
        property_digests: None,
        is_ready: false,
        unknown_keys: serde_json::Map::new(),
    }))
}

fn handle<K: CidKind>(cid: &str) -> Handle<K> {
    Handle::new(cid.parse().unwrap(), None)
}

fn disk(cid: &str) -> DiskRecord {
    DiskRecord {
        id: format!("id-of-{cid}"),
        cid: cid.parse().unwrap(),
        size: 1024,
        cloud_properties: serde_json::Map::new(),
        hint: None,
        cpi: None,
        az: None,
        vm_at_replacement: None,
        unknown_keys: serde_json::Map::new(),
    }
}

#[test]
fn rejects_a_second_vm() {
    let mut state = State::new();
    state.apply(vm("vm-1")).unwrap();
    state.apply(vm("vm-1")).unwrap();
    let state_before = state.clone();
    assert_eq!(
        state.apply(vm("vm-2")),
        Err(Rejection::VmExists { existing_vm: handle("vm-1"), new_vm: handle("vm-2") })
    );
    assert_eq!(state, state_before);
}

#[test]
fn credentials_of_a_vm_stay_on_record_with_it() {
    let credentials = |value: &str| {
        let mut run_credentials = RunCredentials::default();
        run_credentials.values.push(VariableValue {
            name: "password".into(),
            value: Some(value.into()),
            is_stored: true,
            was_rotated: false,
            is_for_agent: false,
        });
        CredentialDigests::of(&run_credentials).unwrap()
    };
    let mut state = State::new();
    for value in ["first", "second"] {
        state.apply(Change::CredentialsChosen(credentials(value))).unwrap();
    }
    state.apply(vm("vm-1")).unwrap();
    let state_before = state.clone();
    let other = state.apply(Change::CredentialsChosen(credentials("third")));
    assert_eq!(other, Err(Rejection::VmHasCredentials { vm: handle("vm-1") }));
    assert_eq!(state, state_before);
    // States of `bosh` have a VM without credentials.
    state.monopile.credential_digests = None;
    state.apply(Change::CredentialsChosen(credentials("third"))).unwrap();
    assert!(state.monopile.credential_digests.is_some());
}

fn suspect(cpi: Option<&str>) -> Suspect {
    Suspect {
        kind: ResourceKind::Vm,
        request_id: "r".parse().unwrap(),
        cpi: cpi.map(str::to_owned),
        agent_id: Some("a".into()),
        description: "a VM".into(),
        cpi_message: "no".into(),
        called_at: "2026-01-01T00:00:00Z".into(),
        unknown_keys: serde_json::Map::new(),
    }
}

#[test]
fn suspects_stay_until_they_are_forgotten() {
    let mut state = State::new();
    let state_before = state.clone();
    let failure = Change::CreationFailed(suspect(Some("old")));
    state.apply(failure.clone()).unwrap();
    state.apply(failure).unwrap();
    assert_eq!(state.monopile.suspects.len(), 1);
    assert!(state.suspected_vm("a").is_some() && state.suspected_vm("b").is_none());
    let read = State::parse(&state.to_bytes().unwrap()).unwrap();
    assert_eq!(read, state);
    state.apply(Change::SuspectForgotten { request_id: "other".parse().unwrap() }).unwrap();
    assert_eq!(state, read);
    let absent_method = AbsentMethod { method: "snapshot_disk".into(), cpi: Some("old".into()) };
    for _ in 0..2 {
        state.apply(Change::MethodAbsent(absent_method.clone())).unwrap();
    }
    assert_eq!(state.monopile.absent_methods, [absent_method]);
    assert_eq!(State::parse(&state.to_bytes().unwrap()).unwrap(), state);
    state.apply(Change::CpiRenamed { old_name: Some("old".into()), new_name: "new".into() }).unwrap();
    assert_eq!(state.monopile.suspects[0].cpi.as_deref(), Some("new"));
    assert_eq!(state.monopile.absent_methods[0].cpi.as_deref(), Some("new"));
    state.monopile.absent_methods.clear();
    state.apply(Change::SuspectForgotten { request_id: "r".parse().unwrap() }).unwrap();
    assert_eq!(state, state_before);
}

#[test]
fn disk_with_another_cid_keeps_the_old_one_on_record() {
    let mut state = State::new();
    state.apply(Change::DiskCreated(disk("disk-1"))).unwrap();
    state.apply(Change::DiskUsed(handle("disk-1"))).unwrap();
    let properties = serde_json::Map::from_iter([("type".to_owned(), "ssd".into())]);
    let update = |cid: &str, new_cid: Option<&str>| Change::DiskUpdated {
        disk: handle(cid),
        size: 2048,
        cloud_properties: new_cid.map(|_| properties.clone()),
        renamed_disk: new_cid
            .map(|cid| RenamedDisk { cid: cid.parse().unwrap(), old_record_id: "id-of-left".to_owned() }),
    };
    assert!(state.apply(update("disk-2", None)).is_err());
    for _ in 0..2 {
        state.apply(update("disk-1", None)).unwrap();
    }
    assert_eq!(state.disks, [DiskRecord { size: 2048, ..disk("disk-1") }]);

    // The state must not have two records of one disk.
    state.apply(Change::DiskCreated(disk("disk-2"))).unwrap();
    assert_eq!(
        state.apply(update("disk-1", Some("disk-2"))),
        Err(Rejection::SameHandle(Resource::Disk(handle("disk-2"))))
    );
    for _ in 0..2 {
        state.apply(update("disk-1", Some("disk-3"))).unwrap();
        let current_disk = state.current_disk().unwrap();
        assert_eq!((current_disk.cid.as_str(), &current_disk.cloud_properties), ("disk-3", &properties));
        let unused_disk = state.disk(&handle("disk-1")).unwrap();
        assert!(unused_disk.is_kept() && unused_disk.id == "id-of-left", "{unused_disk:?}");
        assert_eq!(state.disks.len(), 3);
    }
    assert_eq!(State::parse(&state.to_bytes().unwrap()).unwrap(), state);
}

fn undeleted(resource: Resource, was_not_found: bool) -> Change {
    Change::DeletionFailed(UndeletedResource {
        resource,
        reason: "no".to_owned(),
        first_attempt_at: "2026-01-01T00:00:00Z".to_owned(),
        was_not_found,
        unknown_keys: serde_json::Map::new(),
    })
}

fn vm_on_record(state: &State) -> Option<&str> {
    state.vm_cid().map(VmCid::as_str)
}

#[test]
fn vm_not_found_is_replaced_but_stays_on_record() {
    let mut state = State::new();
    state.apply(vm("vm-1")).unwrap();
    state.apply(undeleted(Resource::Vm(handle("vm-1")), false)).unwrap();
    assert_eq!(vm_on_record(&state), Some("vm-1"), "a VM that may exist was forgotten");
    state.apply(undeleted(Resource::Vm(handle("vm-1")), true)).unwrap();
    assert_eq!((state.vm_cid(), state.vm()), (None, None));
    assert_eq!(state.undeleted_vms().collect::<Vec<_>>(), [handle("vm-1")]);
    assert!(!state.is_empty_of_resources());
    state.apply(vm("vm-2")).unwrap();
    State::parse(&state.to_bytes().unwrap()).unwrap();
    state.apply(Change::VmDeleted(handle("vm-1"))).unwrap();
    assert_eq!((vm_on_record(&state), state.undeleted_vms().count()), (Some("vm-2"), 0));
}

#[test]
fn chosen_disk_is_used_by_the_next_deploy() {
    let mut state = State::new();
    state.apply(vm("vm-1")).unwrap();
    for cid in ["disk-1", "disk-2", "disk-3"] {
        state.apply(Change::DiskCreated(disk(cid))).unwrap();
    }
    state.apply(Change::DiskUsed(handle("disk-1"))).unwrap();
    state
        .apply(Change::Deployed {
            deploy_digest: "sha".into(),
            releases: Vec::new(),
            manifest_leaves: None,
            credential_digests: None,
            durations: BTreeMap::new(),
        })
        .unwrap();
    let state_before = state.clone();
    state.apply(Change::DiskChosen(handle("disk-1"))).unwrap();
    assert!(state.apply(Change::DiskChosen(handle("disk-4"))).is_err());
    assert_eq!(state, state_before);
    let kept_cids = |state: &State| -> Vec<String> {
        state.disks.iter().filter(|disk| disk.is_kept()).map(|disk| disk.cid.to_string()).collect()
    };
    state.apply(undeleted(Resource::Disk(handle("disk-2")), false)).unwrap();
    for _ in 0..2 {
        state.apply(Change::DiskChosen(handle("disk-2"))).unwrap();
        assert_eq!(kept_cids(&state), ["disk-1"]);
        assert!(state.current_deploy_digest.is_empty() && state.monopile.undeleted.is_empty());
    }
    // A disk that was chosen but never attached is not on the VM.
    state.apply(Change::DiskChosen(handle("disk-3"))).unwrap();
    assert_eq!(kept_cids(&state), ["disk-1", "disk-2"]);
    assert_eq!(state.disk_left_on_vm().map(DiskRecord::handle), Some(handle("disk-1")));
    let reparsed_state = State::parse(&state.to_bytes().unwrap()).unwrap();
    assert_eq!(reparsed_state, state);
    let mut restored_state = state.clone();
    restored_state.apply(Change::DiskChosen(handle("disk-1"))).unwrap();
    assert_eq!(
        (kept_cids(&restored_state), restored_state.disk_left_on_vm()),
        (vec!["disk-2".to_owned(), "disk-3".to_owned()], None)
    );
    state.apply(Change::VmDeleted(handle("vm-1"))).unwrap();
    state.apply(vm("vm-2")).unwrap();
    assert_eq!((state.disk_left_on_vm(), kept_cids(&state).len()), (None, 2));
}

#[test]
fn vm_whose_deletion_began_stays_on_record_until_it_is_deleted() {
    let deletion_begun = |cid: &str| {
        let (reason, began_at) = (String::new(), String::new());
        Change::VmDeletionBegun { vm: handle(cid), reason, began_at }
    };
    let mut state = State::new();
    state.apply(vm("vm-1")).unwrap();
    let state_before = state.clone();
    state.apply(deletion_begun("vm-1")).unwrap();
    assert_eq!(state, state_before, "the VM of the environment was changed");
    state.apply(deletion_begun("vm-2")).unwrap();
    state.apply(deletion_begun("vm-2")).unwrap();
    assert_eq!(state.undeleted_vms().collect::<Vec<_>>(), [handle("vm-2")]);
    state.apply(Change::VmDeleted(handle("vm-2"))).unwrap();
    assert_eq!(state, state_before);
}

#[test]
fn recreating_a_cid_clears_its_undeleted_mark() {
    let mut state = State::new();
    state.apply(vm("vm-1")).unwrap();
    state.apply(undeleted(Resource::Vm(handle("vm-1")), true)).unwrap();
    state.apply(vm("vm-1")).unwrap();
    assert_eq!((vm_on_record(&state), state.undeleted_vms().count()), (Some("vm-1"), 0));
}

#[test]
fn undeleted_mark_belongs_to_a_record() {
    let mut state = State::new();
    assert!(state.apply(undeleted(Resource::Disk(handle("disk-1")), true)).is_err());
    state.apply(Change::DiskCreated(disk("disk-1"))).unwrap();
    state.apply(undeleted(Resource::Disk(handle("disk-1")), false)).unwrap();
    state.apply(undeleted(Resource::Disk(handle("disk-1")), true)).unwrap();
    assert_eq!(state.monopile.undeleted.len(), 1);
    assert!(state.undeleted(&Resource::Disk(handle("disk-1"))).unwrap().was_not_found);
    state.apply(Change::DiskDeleted(handle("disk-1"))).unwrap();
    assert!(state.monopile.undeleted.is_empty());
}

#[test]
fn forgetting_needs_a_record_and_clears_the_deployed_mark() {
    let mut state = State::new();
    state.apply(vm("vm-1")).unwrap();
    state.apply(Change::DiskCreated(disk("disk-1"))).unwrap();
    state.apply(Change::DiskCreated(disk("disk-2"))).unwrap();
    state.apply(Change::DiskUsed(handle("disk-1"))).unwrap();
    state
        .apply(Change::Deployed {
            deploy_digest: "abc".into(),
            releases: Vec::new(),
            manifest_leaves: None,
            credential_digests: None,
            durations: BTreeMap::new(),
        })
        .unwrap();
    let forget = Change::Forgotten;
    assert!(state.apply(forget(Resource::Vm(handle("disk-1")))).is_err());
    state.apply(forget(Resource::Disk(handle("disk-2")))).unwrap();
    assert_eq!(state.current_deploy_digest, "abc", "an unused record made the environment undeployed");
    state.apply(forget(Resource::Disk(handle("disk-1")))).unwrap();
    assert_eq!((state.current_deploy_digest.as_str(), state.current_disk_id.as_str()), ("", ""));
    state.apply(forget(Resource::Vm(handle("vm-1")))).unwrap();
    assert!(state.is_empty_of_resources());
}

#[test]
fn adopts_a_vm_only_if_none_is_on_record() {
    let mut state = State::new();
    let adopt = |cid: &str| Change::VmAdopted { handle: handle(cid), vm: None };
    state.apply(adopt("vm-1")).unwrap();
    assert!(state.apply(adopt("vm-2")).is_err());
    assert_eq!((vm_on_record(&state), state.vm()), (Some("vm-1"), None));
}

/// Returns a state with a VM, and with two disks, of which the first is in use.
fn state_with_vm_and_disks() -> State {
    let mut state = State::new();
    state.apply(vm("vm-1")).unwrap();
    for cid in ["disk-1", "disk-2"] {
        state.apply(Change::DiskCreated(disk(cid))).unwrap();
    }
    state.apply(Change::DiskUsed(handle("disk-1"))).unwrap();
    state
}

fn stemcell(cpi: Option<&str>) -> StemcellRecord {
    StemcellRecord {
        id: format!("s-{cpi:?}"),
        name: "jammy".into(),
        version: "1".into(),
        api_version: Some(if cpi.is_some() { 3 } else { 2 }),
        cid: "same".parse().unwrap(),
        cpi: cpi.map(str::to_owned),
        digest: None,
        is_kept: false,
        unknown_keys: serde_json::Map::new(),
    }
}

#[test]
fn changes_of_answers_can_be_repeated() {
    let resize_change = |renamed_disk: Option<RenamedDisk>| Change::DiskUpdated {
        disk: handle("disk-1"),
        size: 2048,
        cloud_properties: None,
        renamed_disk,
    };
    let renamed_disk = RenamedDisk { cid: "disk-3".parse().unwrap(), old_record_id: "old".to_owned() };
    let absent_method = AbsentMethod { method: "snapshot_disk".into(), cpi: None };
    let mut state = state_with_vm_and_disks();
    for change in [
        Change::StemcellCreated(stemcell(None)),
        vm("vm-1"),
        Change::DiskCreated(disk("disk-4")),
        Change::DiskAttached { disk: handle("disk-1"), hint: None },
        Change::SnapshotCreated(SnapshotRecord::example("snapshot-1")),
        resize_change(None),
        resize_change(Some(renamed_disk)),
        Change::CreationFailed(suspect(None)),
        Change::MethodAbsent(absent_method),
        undeleted(Resource::Disk(handle("disk-2")), false),
        undeleted(Resource::Vm(handle("vm-1")), true),
        Change::VmDeleted(handle("vm-1")),
        Change::DiskDeleted(handle("disk-2")),
        Change::StemcellDeleted(handle("same")),
        Change::SnapshotDeleted(handle("snapshot-1")),
    ] {
        state.apply(change.clone()).unwrap();
        let once = state.clone();
        assert_eq!(state.apply(change.clone()), Ok(()), "{change:?}");
        assert_eq!(state, once, "{change:?}");
    }
}

#[test]
fn repeated_changes_of_an_operator_are_rejected_or_have_no_effect() {
    let mut initial_state = state_with_vm_and_disks();
    initial_state.apply(Change::StemcellCreated(stemcell(None))).unwrap();
    initial_state.apply(Change::CreationFailed(suspect(None))).unwrap();
    for (change, is_rejected) in [
        (Change::StemcellKept { stemcell: handle("same"), is_kept: true }, false),
        (Change::DiskChosen(handle("disk-2")), false),
        (Change::SuspectForgotten { request_id: "r".parse().unwrap() }, false),
        (Change::Replaced(Box::new(initial_state.clone())), false),
        (Change::Forgotten(Resource::Disk(handle("disk-2"))), true),
        (Change::Forgotten(Resource::Vm(handle("vm-1"))), true),
        (Change::VmAdopted { handle: handle("vm-2"), vm: None }, true),
    ] {
        let mut state = initial_state.clone();
        if matches!(change, Change::VmAdopted { .. }) {
            state.apply(Change::VmDeleted(handle("vm-1"))).unwrap();
        }
        state.apply(change.clone()).unwrap();
        let once = state.clone();
        assert_eq!(state.apply(change.clone()).is_err(), is_rejected, "{change:?}");
        assert_eq!(state, once, "{change:?}");
    }
}

/// Adds a stemcell, a disk and a snapshot of this CPI, with the same CIDs for every CPI.
fn add_resources_of_cpi(state: &mut State, cpi: Option<&str>) {
    let stemcell = stemcell(cpi);
    let cpi = cpi.map(str::to_owned);
    let (disk_cid, cpi_name) = ("same".parse().unwrap(), cpi.clone());
    let snapshot = SnapshotRecord { disk: disk_cid, cpi: cpi_name, ..SnapshotRecord::example("same") };
    state.apply(Change::StemcellCreated(stemcell)).unwrap();
    let disk = DiskRecord { id: format!("d-{cpi:?}"), cpi, ..disk("same") };
    state.apply(Change::DiskCreated(disk)).unwrap();
    state.apply(Change::SnapshotCreated(snapshot)).unwrap();
}

#[test]
fn same_cid_of_two_cpis_is_two_resources() {
    let mut state = State::new();
    add_resources_of_cpi(&mut state, None);
    add_resources_of_cpi(&mut state, Some("a"));
    assert_eq!(state.resources().count(), 6);
    assert_eq!((state.stemcell_api_version(None), state.stemcell_api_version(Some("a"))), (2, 3));
    let disk_of_a = DiskHandle::new("same".parse().unwrap(), Some("a"));
    let mark = UndeletedResource {
        resource: disk_of_a.clone().into(),
        reason: String::new(),
        first_attempt_at: String::new(),
        was_not_found: true,
        unknown_keys: serde_json::Map::new(),
    };
    state.apply(Change::DeletionFailed(mark)).unwrap();
    assert!(state.undeleted(&Resource::Disk(handle("same"))).is_none());
    state.apply(Change::DiskUsed(disk_of_a)).unwrap();
    state
        .apply(Change::DiskAttached { disk: handle("same"), hint: DiskHint::new(&"/dev/x".into()) })
        .unwrap();
    assert_eq!(state.current_disk().unwrap().hint, None);
    let same: [Resource; 3] = [
        Resource::Disk(handle("same")),
        Resource::Stemcell(handle("same")),
        Resource::Snapshot(handle("same")),
    ];
    for resource in same {
        state.apply(Change::deletion_of(resource.clone())).unwrap();
        assert!(
            state.has_on_record(&resource.at_cpi(Some("a"))) && !state.has_on_record(&resource),
            "{resource}"
        );
    }
    assert_eq!(State::parse(&state.to_bytes().unwrap()).unwrap(), state);
    let vm_of_a = VmHandle::new("same".parse().unwrap(), Some("a"));
    assert_eq!(
        state.apply(Change::VmAdopted { handle: vm_of_a.clone(), vm: None }).map(|()| state.vm_handle()),
        Ok(Some(vm_of_a))
    );
}

#[test]
fn renamed_cpi_keeps_its_resources() {
    let mut state = State::new();
    add_resources_of_cpi(&mut state, None);
    state.apply(vm("vm-1")).unwrap();
    state.apply(undeleted(Resource::Vm(handle("vm-1")), true)).unwrap();
    state.apply(vm("vm-2")).unwrap();
    let rename = |old_name: Option<&str>, new_name: &str| Change::CpiRenamed {
        old_name: old_name.map(str::to_owned),
        new_name: new_name.to_owned(),
    };
    state.apply(rename(Some("other"), "b")).unwrap();
    assert!(state.resources().all(|resource| resource.cpi().is_none()));
    state.apply(rename(None, "a")).unwrap();
    state.apply(rename(Some("a"), "b")).unwrap();
    let all: Vec<_> = state.resources().collect();
    assert_eq!(all.len(), 5);
    assert!(all.iter().all(|resource| resource.cpi() == Some("b")), "{all:?}");

    add_resources_of_cpi(&mut state, Some("c"));
    let state_before = state.clone();
    assert!(matches!(state.apply(rename(Some("c"), "b")), Err(Rejection::SameHandle(_))));
    assert_eq!(state, state_before);

    let mut state = State { current_vm_cid: Some("vm-9".parse().unwrap()), ..State::new() };
    state.apply(rename(None, "a")).unwrap();
    assert_eq!(state.vm_handle(), Some(Handle::new("vm-9".parse().unwrap(), Some("a"))));
    assert_eq!(State::parse(&state.to_bytes().unwrap()).unwrap(), state);
    state.apply(Change::VmDeleted(Handle::new("vm-9".parse().unwrap(), Some("a")))).unwrap();
    assert!(state.is_empty_of_resources() && state.monopile.vm_without_details.is_none());
}

#[test]
fn old_states_are_rewritten_byte_for_byte() {
    // A VM recorded by another tool, disks replaced with and without a VM, marks, suspects, snapshots.
    let text = r#"{
    "director_id": "d",
    "installation_id": "i",
    "current_vm_cid": "vm-9",
    "current_stemcell_id": "s",
    "current_disk_id": "x",
    "current_release_ids": [],
    "current_manifest_sha": "",
    "disks": [
        {
            "id": "x",
            "cid": "disk-9",
            "size": 5,
            "cloud_properties": {},
            "hint": {
                "path": "/dev/sdc",
                "lun": 1.0
            }
        },
        {
            "id": "y",
            "cid": "disk-8",
            "size": 5,
            "cloud_properties": {},
            "hint": "/dev/sdd",
            "cpi": "a",
            "vm_at_replacement": "vm-9"
        },
        {
            "id": "z",
            "cid": "disk-7",
            "size": 5,
            "cloud_properties": {},
            "vm_at_replacement": "",
            "more": 1
        }
    ],
    "stemcells": [
        {
            "id": "s",
            "name": "jammy",
            "version": "1",
            "cid": "sc-1"
        }
    ],
    "releases": [],
    "monopile": {
        "format": 2,
        "vm": {
            "cid": "vm-9",
            "agent_id": "agent",
            "contract": "v2",
            "networks": {
                "b": {
                    "ip": "192.0.2.2"
                },
                "a": {}
            },
            "instance": "bosh/0",
            "later": {
                "cid": "x"
            }
        },
        "vm_without_details": {
            "cid": "vm-9",
            "cpi": "a"
        },
        "snapshots": [
            {
                "cid": "snap-1",
                "disk": "disk-gone",
                "created_at": "2026-01-01T00:00:00Z"
            }
        ],
        "undeleted": [
            {
                "kind": "vm",
                "cid": "vm-8",
                "reason": "no",
                "first_attempt_at": "2026-01-01T00:00:00Z",
                "not_found": true
            },
            {
                "kind": "disk",
                "cid": "disk-8",
                "cpi": "a",
                "reason": "no",
                "first_attempt_at": "2026-01-01T00:00:00Z",
                "not_found": false,
                "later": [
                    1
                ]
            }
        ],
        "suspects": [
            {
                "kind": "vm",
                "request_id": "r",
                "agent_id": "other",
                "description": "a VM",
                "cpi_message": "no",
                "called_at": "2026-01-01T00:00:00Z",
                "later": true
            }
        ]
    },
    "later": null
}
"#;
    let state = State::parse(text.as_bytes()).unwrap();
    assert_eq!(String::from_utf8(state.to_bytes().unwrap()).unwrap(), text);

    // A change of one record leaves the keys of the others, and a second failure those of the same resource.
    let mut changed_state = state.clone();
    let disk = Resource::Disk(Handle::new("disk-8".parse().unwrap(), Some("a")));
    changed_state.apply(undeleted(disk.clone(), true)).unwrap();
    changed_state.apply(Change::VmReady).unwrap();
    changed_state.apply(Change::Forgotten(Resource::Disk(handle("disk-7")))).unwrap();
    let changed_state = State::parse(&changed_state.to_bytes().unwrap()).unwrap();
    assert_eq!(changed_state.undeleted(&disk).unwrap().unknown_keys["later"], serde_json::json!([1]));
    assert_eq!(changed_state.vm().unwrap().unknown_keys["later"]["cid"], "x");
    assert_eq!(changed_state.monopile.suspects[0].unknown_keys["later"], true);

    let none = State { director_id: "d".into(), ..State::default() };
    let text = String::from_utf8(none.to_bytes().unwrap()).unwrap();
    assert!(text.contains("\"current_vm_cid\": \"\","), "{text}");
    assert_eq!(State::parse(text.as_bytes()).unwrap(), none);
}

#[test]
fn reads_a_state_with_the_keys_of_format_1() {
    let text = r#"{
        "director_id": "d", "current_vm_cid": "vm-9", "current_manifest_sha": "",
        "disks": [{"id": "x", "cid": "disk-9", "size": 5, "cloud_properties": {}, "replaced_on": "vm-9"}],
        "monopile": {
            "format": 1,
            "vm": {
                "cid": "vm-9", "agent_id": "agent", "contract": "v2", "instance": "bosh/0",
                "made_of": {"salt": "00", "az": "1"}
            },
            "bare_vm": {"cid": "vm-9", "cpi": "a"},
            "undeleted": [
                {
                    "what": "vm", "cid": "vm-8", "said": "no", "since": "2026-01-01T00:00:00Z",
                    "not_found": true, "later": 1
                }
            ],
            "suspects": [
                {
                    "what": "vm", "request_id": "r", "looks_like": "a VM", "said": "no",
                    "since": "2026-01-01T00:00:00Z"
                }
            ],
            "places": [{"properties": {"salt": "00", "digests": {"root": "1"}}}],
            "update_failed": "vm-9",
            "manifest": {"salt": "00", "digests": {"/name": "1"}, "shown": {"/name": "bosh"}},
            "credentials": {"salt": "00", "digests": {"password": "1"}, "given": ["password"]}
        }
    }"#;
    let state = State::parse(text.as_bytes()).unwrap();
    let monopile = &state.monopile;
    assert!(state.disks[0].is_kept(), "the mark of a replaced disk is lost");
    assert!(state.vm().unwrap().property_digests.is_some(), "the digests of the VM are lost");
    assert_eq!(monopile.vm_without_details.as_ref().unwrap().cpi(), Some("a"));
    assert_eq!(monopile.undeleted[0].resource, Resource::Vm(handle("vm-8")));
    assert_eq!(monopile.undeleted[0].reason, "no");
    assert_eq!(monopile.undeleted[0].first_attempt_at, "2026-01-01T00:00:00Z");
    assert_eq!(monopile.undeleted[0].unknown_keys.keys().collect::<Vec<_>>(), ["later"]);
    assert_eq!((&*monopile.suspects[0].description, &*monopile.suspects[0].cpi_message), ("a VM", "no"));
    assert_eq!(monopile.suspects[0].called_at, "2026-01-01T00:00:00Z");
    assert_eq!(monopile.locations.len(), 1);
    assert_eq!(monopile.vm_of_failed_update.as_ref().unwrap().as_str(), "vm-9");
    assert_eq!(monopile.manifest_leaves.as_ref().unwrap().description("/name"), Some("bosh"));
    assert!(monopile.credential_digests.is_some(), "the digests of the credentials are lost");
    assert!(monopile.unknown_keys.is_empty(), "{:?}", monopile.unknown_keys);

    // The next write has the new keys only, and a version that reads only format 1 refuses it.
    let text = String::from_utf8(state.to_bytes().unwrap()).unwrap();
    assert!(text.contains("\"format\": 2"), "{text}");
    let old_keys = [
        "replaced_on",
        "made_of",
        "bare_vm",
        "what",
        "said",
        "since",
        "looks_like",
        "places",
        "update_failed",
        "manifest",
        "shown",
        "credentials",
        "given",
    ];
    for key in old_keys {
        assert!(!text.contains(&format!("\"{key}\":")), "{key} is still written: {text}");
    }
    assert_eq!(State::parse(text.as_bytes()).unwrap(), state);
}

#[test]
fn rejects_deletion_of_a_vm_that_is_not_on_record() {
    let mut state = State::new();
    state.apply(vm("vm-1")).unwrap();
    assert!(state.apply(Change::VmDeleted(handle("vm-2"))).is_err());
    assert_eq!(vm_on_record(&state), Some("vm-1"));
}

#[test]
fn host_key_is_recorded_once_per_vm() {
    let host_key_change = |vm: &str, key: &str| Change::HostKeyLearned {
        vm: vm.parse().unwrap(),
        key: format!("ssh-ed25519 {key}"),
    };
    let mut state = State::new();
    assert_eq!(
        state.apply(host_key_change("vm-1", "A")),
        Err(Rejection::Unknown { kind: "VM", name: "vm-1".into() })
    );
    state.apply(vm("vm-1")).unwrap();
    state.apply(host_key_change("vm-1", "A")).unwrap();
    state.apply(host_key_change("vm-1", "A")).unwrap();
    assert_eq!(
        state.apply(host_key_change("vm-1", "B")),
        Err(Rejection::HostKeyDiffers { vm: "vm-1".parse().unwrap() })
    );
    assert_eq!(state.vm().unwrap().ssh_host_key.as_deref(), Some("ssh-ed25519 A"));
    let reparsed_state = State::parse(&state.to_bytes().unwrap()).unwrap();
    assert_eq!(reparsed_state, state);
    state.apply(Change::VmDeleted(handle("vm-1"))).unwrap();
    state.apply(vm("vm-2")).unwrap();
    state.apply(host_key_change("vm-2", "B")).unwrap();
}

#[test]
fn reupload_with_the_same_cid_keeps_one_record() {
    let stemcell = |id: &str, version: &str| {
        Change::StemcellCreated(StemcellRecord {
            id: id.into(),
            name: "hello".into(),
            version: version.into(),
            api_version: Some(3),
            cid: "sc-1".parse().unwrap(),
            cpi: None,
            digest: None,
            is_kept: false,
            unknown_keys: serde_json::Map::new(),
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
fn reads_states_of_bosh_and_keeps_unknown_keys() {
    let text = br#"{
        "director_id": "d", "installation_id": "i", "current_vm_cid": "vm-9",
        "current_stemcell_id": "", "current_disk_id": "x", "current_release_ids": null,
        "current_manifest_sha": "", "releases": null, "stemcells": null, "later": {"a": [1]},
        "disks": [{"id": "x", "cid": "disk-9", "size": 5, "cloud_properties": {"type": "ssd"}, "more": 1}]
    }"#;
    let state = State::parse(text).unwrap();
    assert_eq!(vm_on_record(&state), Some("vm-9"));
    assert!(state.vm().is_none(), "the VM has details besides its CID");
    let json: Value = serde_json::from_slice(&state.to_bytes().unwrap()).unwrap();
    assert_eq!(json["later"]["a"][0], 1);
    assert_eq!(json["disks"][0]["more"], 1);
}

#[test]
fn rejects_inconsistent_states() {
    for (text, expected) in [
        (r#"{"director_id":"d","disks":[{"id":"x","cid":"","size":1}]}"#, "has no CID"),
        (r#"{"director_id":"d","current_disk_id":"y"}"#, "no disk has that id"),
        (r#"{"director_id":"d","monopile":{"format":99}}"#, "reads formats up to"),
        (r#"{"director_id":"d","disks":[{}]}"#, "line 1: `id` is missing"),
        (r#"{"director_id":"d","current_vm_cid":7}"#, "`current_vm_cid` must be a string, not the number 7"),
        (r#"{"director_id":"d","current_vm_cid":" "}"#, "`current_vm_cid` is blank"),
        ("{\"director_id\":\"d\",\n\"current_stemcell_id\":\"y\"}", "line 2: `current_stemcell_id` is 'y'"),
        (
            r#"{"director_id":"d","disks":[{"id":"x","cid":"a","size":1},{"id":"y","cid":"a","size":1}]}"#,
            "two disks have the CID 'a'",
        ),
        (
            r#"{"director_id":"d","disks":[{"id":"x","cid":"a","size":1},{"id":"x","cid":"b","size":1}]}"#,
            "two disks have the id 'x'",
        ),
        ("", "the file is empty"),
        ("{", "not valid JSON, line 1: it ends too early"),
    ] {
        let error = State::parse(text.as_bytes()).unwrap_err();
        assert!(error.to_string().contains(expected), "{text}: {error}");
    }
}
