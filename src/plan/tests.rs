use serde_json::{Map, json};

use super::*;
use crate::artifact::{Digest, Identity};
use crate::cpi::Contract;
use crate::manifest::deployment::DiskSpec;
use crate::state::{Change, Disk, Handle, Release, State, Stemcell, Vm};

const SHA: &str = "0123";

fn digest(fill: char) -> Digest {
    fill.to_string().repeat(40).parse().unwrap()
}

fn identity(name: &str, version: &str, fill: char) -> Identity {
    Identity { name: name.into(), version: version.into(), digest: digest(fill), stamp: None }
}

fn spec(size: u64) -> DiskSpec {
    DiskSpec { size, cloud_properties: Map::new() }
}

fn handle(cid: &str) -> Handle {
    Handle::new(cid, None)
}

fn stemcell(cid: &str, version: &str, fill: char) -> Stemcell {
    Stemcell {
        id: format!("id-{cid}"),
        name: "jammy".into(),
        version: version.into(),
        api_version: Some(3),
        cid: cid.into(),
        cpi: None,
        digest: Some(digest(fill).to_string()),
        kept: false,
        unknown: Map::new(),
    }
}

fn disk(cid: &str, size: u64) -> Disk {
    Disk {
        id: format!("id-{cid}"),
        cid: cid.into(),
        size,
        cloud_properties: Map::new(),
        hint: Some(json!("/dev/x")),
        cpi: None,
        az: None,
        replaced_on: None,
        unknown: Map::new(),
    }
}

fn deployed() -> State {
    let mut state = State::new();
    let vm = Vm {
        cid: "vm-1".into(),
        agent_id: "a".into(),
        contract: Contract::V2,
        networks: None,
        cpi: None,
        ssh_host_key: None,
        instance: "bosh/0".into(),
    };
    let release = Release {
        id: "r".into(),
        name: "hello".into(),
        version: "1".into(),
        digest: Some(digest('b').to_string()),
        unknown: Map::new(),
    };
    for change in [
        Change::StemcellCreated(stemcell("sc-1", "1", 'a')),
        Change::VmCreated(Box::new(vm)),
        Change::StemcellUsed { id: "id-sc-1".into() },
        Change::DiskCreated(disk("disk-1", 1024)),
        Change::DiskUsed(handle("disk-1")),
        Change::Deployed { manifest_sha: SHA.into(), releases: vec![release] },
    ] {
        state.apply(change).unwrap();
    }
    state
}

struct Case {
    sha: &'static str,
    stemcell: Identity,
    releases: Vec<Identity>,
    disk: Option<DiskSpec>,
    options: Options,
    cpi: Option<&'static str>,
    az: Option<&'static str>,
}

impl Default for Case {
    fn default() -> Self {
        Case {
            sha: SHA,
            stemcell: identity("jammy", "1", 'a'),
            releases: vec![identity("hello", "1", 'b')],
            disk: Some(spec(1024)),
            options: Options::default(),
            cpi: None,
            az: None,
        }
    }
}

impl Case {
    fn plan(&self, state: &State) -> Plan {
        self.try_plan(state).unwrap()
    }

    fn try_plan(&self, state: &State) -> crate::Result<Plan> {
        let wanted = Wanted {
            manifest_sha: self.sha,
            stemcell: &self.stemcell,
            releases: &self.releases,
            disk: self.disk.as_ref(),
            cpi: self.cpi,
            az: self.az,
        };
        create(state, &wanted, self.options)
    }
}

fn steps(plan: &Plan) -> Vec<Step> {
    plan.steps.iter().map(|planned| planned.step.clone()).collect()
}

fn stop_and_delete() -> Vec<Step> {
    vec![Step::StopVm(handle("vm-1")), Step::Delete(Kind::Vm, handle("vm-1"))]
}

#[test]
fn nothing_changed_means_nothing_to_do() {
    assert!(Case::default().plan(&deployed()).is_empty());
}

#[test]
fn a_first_deploy_makes_everything() {
    let plan = Case::default().plan(&State::new());
    assert_eq!(
        steps(&plan),
        [
            Step::CreateStemcell,
            Step::CreateVm,
            Step::CreateDisk(spec(1024)),
            Step::AttachDisk(DiskRef::New),
            Step::UseDisk,
            Step::DeployJobs
        ]
    );
}

#[test]
fn every_change_has_its_reason_and_replaces_the_vm() {
    let changed = |case: Case, reason: &str| {
        let plan = case.plan(&deployed());
        let stop = plan.steps.iter().find(|planned| matches!(planned.step, Step::StopVm(_))).expect(reason);
        assert!(stop.reason.contains(reason), "{}", stop.reason);
        let steps = steps(&plan);
        let at = steps.iter().position(|step| *step == Step::CreateVm).expect(reason);
        assert_eq!(steps[at - 2..at], stop_and_delete());
    };
    changed(Case { sha: "other", ..Case::default() }, "the manifest changed");
    changed(Case { releases: vec![identity("hello", "2", 'c')], ..Case::default() }, "from 1 to 2");
    changed(
        Case { releases: vec![identity("hello", "1", 'c')], ..Case::default() },
        "new content under the same",
    );
    changed(Case { releases: Vec::new(), ..Case::default() }, "no longer used");
    changed(Case { stemcell: identity("jammy", "2", 'd'), ..Case::default() }, "stemcell changes to jammy/2");
    changed(
        Case { options: Options { recreate: true, ..Options::default() }, ..Case::default() },
        "--recreate",
    );
}

#[test]
fn a_vm_that_is_gone_is_replaced_and_its_disk_attached_again() {
    let options = Options { vm_is_gone: true, ..Options::default() };
    let plan = Case { options, ..Case::default() }.plan(&deployed());
    assert_eq!(plan.steps[0].reason, "the VM does not exist any more");
    let mut expected = stop_and_delete();
    expected.extend([
        Step::CreateVm,
        Step::AttachDisk(DiskRef::Existing(handle("disk-1"))),
        Step::DeployJobs,
    ]);
    assert_eq!(steps(&plan), expected);
    assert!(plan.deploys());
}

#[test]
fn an_earlier_vm_that_may_still_exist_is_tried_again_by_every_run() {
    let mut state = deployed();
    let mark = crate::state::Undeleted {
        what: Kind::Vm,
        cid: "vm-1".into(),
        cpi: None,
        said: "not found".into(),
        since: String::new(),
        not_found: true,
    };
    state.apply(Change::DeletionFailed(mark)).unwrap();
    let delete_it = Step::Delete(Kind::Vm, handle("vm-1"));
    let plan = Case::default().plan(&state);
    let steps = steps(&plan);
    let place = |step: &Step| steps.iter().position(|one| one == step).unwrap();
    assert!(place(&delete_it) < place(&Step::CreateVm), "{steps:?}");
    let vm = Vm {
        cid: "vm-2".into(),
        agent_id: "a".into(),
        contract: Contract::V2,
        networks: None,
        cpi: None,
        instance: "bosh/0".into(),
        ssh_host_key: None,
    };
    state.apply(Change::VmCreated(Box::new(vm))).unwrap();
    let manifest_sha = SHA.to_owned();
    let releases = deployed().releases;
    state.apply(Change::Deployed { manifest_sha, releases }).unwrap();
    let plan = Case::default().plan(&state);
    assert!(!plan.deploys());
    assert!(super::tests::steps(&delete(&state)).contains(&delete_it));
    assert_eq!(super::tests::steps(&plan), [delete_it]);
}

#[test]
fn a_retry_after_a_failed_deploy_deletes_neither_the_stemcell_in_use_nor_a_disk_with_data() {
    // A deploy with a new stemcell and a larger disk failed at any moment; then either manifest is tried.
    let old = Case { sha: "old", ..Case::default() };
    let new =
        Case { sha: "new", stemcell: identity("jammy", "2", 'd'), disk: Some(spec(2048)), ..Case::default() };
    let mut state = deployed();
    let vm = |cid: &str| {
        Change::VmCreated(Box::new(Vm {
            cid: cid.into(),
            agent_id: "a".into(),
            contract: Contract::V2,
            networks: None,
            cpi: None,
            instance: "bosh/0".into(),
            ssh_host_key: None,
        }))
    };
    for change in [
        Change::StemcellCreated(stemcell("sc-2", "2", 'd')),
        Change::DeployBegun,
        Change::VmDeleted(handle("vm-1")),
        vm("vm-2"),
        Change::StemcellUsed { id: "id-sc-2".into() },
        Change::DiskCreated(disk("disk-2", 2048)),
        Change::DiskUsed(handle("disk-2")),
    ] {
        state.apply(change).unwrap();
        for case in [&old, &new] {
            let steps = steps(&case.plan(&state));
            let at = |wanted: &Step| steps.iter().position(|step| step == wanted);
            let running = at(&Step::DeployJobs).unwrap();
            let wanted = if case.sha == "old" { "sc-1" } else { "sc-2" };
            assert_eq!(at(&Step::Delete(Kind::Stemcell, handle(wanted))), None, "{steps:?}");
            for deletion in steps
                .iter()
                .filter(|step| matches!(step, Step::Delete(Kind::Stemcell, _) | Step::Delete(Kind::Disk, _)))
            {
                assert!(at(deletion).unwrap() > running, "{deletion:?} before the jobs run: {steps:?}");
            }
            // The disk with the data is only deleted when it was migrated before.
            let data = state.current_disk().unwrap().handle();
            if let Some(deleted) = at(&Step::Delete(Kind::Disk, data)) {
                assert!(at(&Step::MigrateDisk).unwrap() < deleted, "{steps:?}");
            }
        }
    }
}

#[test]
fn a_new_stemcell_is_uploaded_before_and_the_old_one_deleted_after() {
    let plan = Case { stemcell: identity("jammy", "1", 'd'), ..Case::default() }.plan(&deployed());
    let steps = steps(&plan);
    assert_eq!(steps.first(), Some(&Step::CreateStemcell));
    assert_eq!(steps.last(), Some(&Step::Delete(Kind::Stemcell, handle("sc-1"))));
}

#[test]
fn a_resized_disk_is_migrated_and_the_old_one_deleted_only_after_the_jobs_run() {
    let plan = Case { sha: "other", disk: Some(spec(2048)), ..Case::default() }.plan(&deployed());
    let mut expected = stop_and_delete();
    expected.extend([
        Step::CreateVm,
        Step::AttachDisk(DiskRef::Existing(handle("disk-1"))),
        Step::CreateDisk(spec(2048)),
        Step::AttachDisk(DiskRef::New),
        Step::MigrateDisk,
        Step::UseDisk,
        Step::DetachDisk(handle("disk-1")),
        Step::DeployJobs,
        Step::Delete(Kind::Disk, handle("disk-1")),
    ]);
    assert_eq!(steps(&plan), expected);
}

#[test]
fn a_disk_that_is_no_longer_wanted_keeps_its_data() {
    let plan = Case { sha: "other", disk: None, ..Case::default() }.plan(&deployed());
    assert!(!steps(&plan).iter().any(|step| matches!(step, Step::Delete(Kind::Disk, _))));
}

#[test]
fn what_could_not_be_deleted_is_tried_again_even_when_nothing_changed() {
    let mut state = deployed();
    state.apply(Change::DiskCreated(disk("disk-0", 1))).unwrap();
    state.apply(Change::StemcellCreated(stemcell("sc-0", "0", 'e'))).unwrap();
    assert_eq!(
        steps(&Case::default().plan(&state)),
        [Step::Delete(Kind::Disk, handle("disk-0")), Step::Delete(Kind::Stemcell, handle("sc-0"))]
    );
}

#[test]
fn states_of_other_tools_have_no_digests_and_still_count() {
    let mut state = deployed();
    state.stemcells[0].digest = None;
    state.releases[0].digest = None;
    assert!(Case::default().plan(&state).is_empty());
}

#[test]
fn an_unfinished_deploy_is_done_again() {
    let mut state = deployed();
    state.apply(Change::DeployBegun).unwrap();
    let plan = Case::default().plan(&state);
    assert!(plan.steps[0].reason.contains("did not finish"), "{:?}", plan.steps[0]);
}

#[test]
fn delete_takes_all_that_is_on_record_in_the_right_order() {
    let mut expected = stop_and_delete();
    expected
        .extend([Step::Delete(Kind::Disk, handle("disk-1")), Step::Delete(Kind::Stemcell, handle("sc-1"))]);
    assert_eq!(steps(&delete(&deployed())), expected);
    assert!(delete(&State::new()).is_empty());
}

#[test]
fn a_stemcell_on_record_twice_is_kept_while_in_use_and_deleted_once() {
    // As other tools record a stemcell of the IaaS that two versions name.
    let mut state = deployed();
    state.stemcells.push(Stemcell { id: "id-older".into(), ..stemcell("sc-1", "0", 'c') });
    assert!(Case::default().plan(&state).is_empty());
    let deletions = |plan: &Plan| {
        plan.steps.iter().filter(|planned| matches!(planned.step, Step::Delete(Kind::Stemcell, _))).count()
    };
    assert_eq!(deletions(&delete(&state)), 1);
    let recreate = Options { recreate: true, ..Options::default() };
    assert_eq!(deletions(&Case { options: recreate, ..Case::default() }.plan(&state)), 0);
}

#[test]
fn a_move_leaves_no_disk_behind_unless_told_to() {
    let without_disk = || {
        let mut state = deployed();
        state.apply(Change::DiskDeleted(handle("disk-1"))).unwrap();
        state
    };
    let case = Case { cpi: Some("a"), disk: None, ..Case::default() };
    let plan = case.plan(&without_disk());
    assert_eq!(plan.steps[0].reason, "stemcell jammy/1 is not uploaded to CPI 'a'");
    assert_eq!(plan.steps[1].reason, "it moves from the default CPI to CPI 'a'");
    let mut expected = vec![Step::CreateStemcell];
    expected.extend(stop_and_delete());
    expected.extend([Step::CreateVm, Step::DeployJobs, Step::Delete(Kind::Stemcell, handle("sc-1"))]);
    assert_eq!(steps(&plan), expected);

    let mut moving = Case { cpi: Some("a"), ..Case::default() };
    let error = moving.try_plan(&deployed()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the environment moves from the default CPI to CPI 'a', and its persistent disk 'disk-1' cannot go along"
    );
    moving.options.recreate_persistent_disks = true;
    let mut expected = vec![Step::CreateStemcell];
    expected.extend(stop_and_delete());
    expected.extend([
        Step::CreateVm,
        Step::CreateDisk(spec(1024)),
        Step::AttachDisk(DiskRef::New),
        Step::UseDisk,
        Step::DeployJobs,
        Step::Delete(Kind::Disk, handle("disk-1")),
        Step::Delete(Kind::Stemcell, handle("sc-1")),
    ]);
    assert_eq!(steps(&moving.plan(&deployed())), expected);
}

#[test]
fn a_disk_stays_in_its_availability_zone() {
    let mut state = deployed();
    let case = |az: Option<&'static str>| Case { sha: "other", az, ..Case::default() };
    // It was made before the manifest had zones: it is where it is wanted, as far as anybody knows.
    case(Some("z1")).plan(&state);
    state.disks[0].az = Some("z1".into());
    case(Some("z1")).plan(&state);
    case(None).plan(&state);
    let error = case(Some("z2")).try_plan(&state).unwrap_err();
    assert!(error.to_string().contains("from AZ 'z1' to AZ 'z2'"), "{error}");
}

#[test]
fn a_move_that_did_not_finish_goes_on_with_the_new_disk_and_deletes_the_old_one() {
    let mut state = deployed();
    let new = Disk { cpi: Some("a".into()), ..disk("disk-2", 1024) };
    let used = new.handle();
    for change in [Change::DeployBegun, Change::DiskCreated(new), Change::DiskUsed(used.clone())] {
        state.apply(change).unwrap();
    }
    let steps = steps(&Case { cpi: Some("a"), ..Case::default() }.plan(&state));
    let at = |step: Step| steps.iter().position(|one| *one == step).unwrap();
    assert!(at(Step::AttachDisk(DiskRef::Existing(used))) < at(Step::DeployJobs));
    assert!(at(Step::Delete(Kind::Disk, handle("disk-1"))) > at(Step::DeployJobs));
}

#[test]
fn what_an_operator_put_aside_or_uploaded_stays() {
    let mut state = deployed();
    let put_aside = Disk { replaced_on: Some("vm-0".into()), ..disk("disk-0", 1024) };
    let uploaded = Stemcell { kept: true, ..stemcell("sc-0", "0", 'c') };
    for change in [
        Change::DiskCreated(put_aside),
        Change::DiskCreated(disk("disk-2", 1024)),
        Change::StemcellCreated(uploaded),
        Change::StemcellCreated(stemcell("sc-2", "2", 'd')),
    ] {
        state.apply(change).unwrap();
    }
    let unused = [Step::Delete(Kind::Disk, handle("disk-2")), Step::Delete(Kind::Stemcell, handle("sc-2"))];
    assert_eq!(steps(&Case::default().plan(&state)), unused);
    let deploy = steps(&Case { sha: "other", ..Case::default() }.plan(&state));
    assert_eq!(deploy[deploy.len() - 2..], unused);
    assert!(!deploy.contains(&Step::Delete(Kind::Disk, handle("disk-0"))), "{deploy:?}");
}

#[test]
fn of_two_uploads_of_one_stemcell_the_newer_is_used() {
    let mut state = deployed();
    let again =
        Stemcell { id: "id-again".into(), kept: true, cid: "sc-again".into(), ..state.stemcells[0].clone() };
    state.apply(Change::StemcellCreated(again)).unwrap();
    assert!(Case::default().plan(&state).is_empty(), "the VM was made from the older one");
    let steps = steps(&Case { sha: "other", ..Case::default() }.plan(&state));
    assert!(!steps.contains(&Step::CreateStemcell), "{steps:?}");
    assert_eq!(steps.last(), Some(&Step::Delete(Kind::Stemcell, handle("sc-1"))));
}
