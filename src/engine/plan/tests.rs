use std::collections::BTreeMap;

use serde_json::{Map, json};

use super::*;
use crate::protocol::{CidKind, Contract, DiskHint};
use crate::state::{
    Change, DiskRecord, Handle, Leaves, ReleaseRecord, Resource, SnapshotRecord, State, StemcellRecord,
    UndeployedBy, VmAtReplacement, VmProperties, VmPropertiesDigests, VmRecord,
};
use artifact::{ArtifactIdentity, Digest};
use manifest::deployment::DiskSpec;

const SHA: &str = "0123";

fn digest(fill: char) -> Digest {
    fill.to_string().repeat(40).parse().unwrap()
}

fn identity(name: &str, version: &str, fill: char) -> ArtifactIdentity {
    ArtifactIdentity { name: name.into(), version: version.into(), digest: digest(fill), stamp: None }
}

fn spec(size: u64) -> DiskSpec {
    DiskSpec { size, cloud_properties: Map::new() }
}

fn handle<K: CidKind>(cid: &str) -> Handle<K> {
    Handle::new(cid.parse().unwrap(), None)
}

fn stemcell(cid: &str, version: &str, fill: char) -> StemcellRecord {
    StemcellRecord {
        id: format!("id-{cid}"),
        name: "jammy".into(),
        version: version.into(),
        api_version: Some(3),
        cid: cid.parse().unwrap(),
        cpi: None,
        digest: Some(digest(fill).to_string()),
        is_kept: false,
        unknown_keys: Map::new(),
    }
}

fn disk(cid: &str, size: u64) -> DiskRecord {
    DiskRecord {
        id: format!("id-{cid}"),
        cid: cid.parse().unwrap(),
        size,
        cloud_properties: Map::new(),
        hint: DiskHint::new(&json!("/dev/x")),
        cpi: None,
        az: None,
        vm_at_replacement: None,
        unknown_keys: Map::new(),
    }
}

fn vm_properties() -> VmProperties {
    VmProperties {
        cloud_properties: json!({"type": "small"}),
        persistent_disk: json!(true),
        ..VmProperties::default()
    }
}

fn leaf(path: &str, value: &str) -> DesiredLeaf {
    DesiredLeaf { path: path.into(), value: value.into(), is_secret: false }
}

/// Returns the state after a deploy of [`vm_properties`] with one disk.
fn deployed_state() -> State {
    let mut state = State::new();
    let vm = VmRecord {
        cid: "vm-1".parse().unwrap(),
        agent_id: "a".into(),
        contract: Contract::V2,
        networks: None,
        cpi: None,
        ssh_host_key: None,
        instance: "bosh/0".into(),
        property_digests: Some(VmPropertiesDigests::of(&vm_properties())),
        is_ready: true,
        unknown_keys: Map::new(),
    };
    let release = ReleaseRecord {
        id: "r".into(),
        name: "hello".into(),
        version: "1".into(),
        digest: Some(digest('b').to_string()),
        unknown_keys: Map::new(),
    };
    for change in [
        Change::StemcellCreated(stemcell("sc-1", "1", 'a')),
        Change::VmCreated(Box::new(vm)),
        Change::StemcellUsed { id: "id-sc-1".into() },
        Change::DiskCreated(disk("disk-1", 1024)),
        Change::DiskUsed(handle("disk-1")),
        Change::Deployed {
            deploy_digest: SHA.into(),
            releases: vec![release],
            manifest_leaves: Some(Leaves::of([
                ("/properties/port", "1"),
                ("/resource_pools/name=vms/env/a", "1"),
            ])),
            credential_digests: None,
            durations: [("update_vm", 10), (DOWNTIME_IN_PLACE, 4)]
                .map(|(name, milliseconds)| (name.to_owned(), Duration::from_millis(milliseconds)))
                .into(),
        },
    ] {
        state.apply(change).unwrap();
    }
    state
}

struct Case {
    sha: &'static str,
    stemcell: ArtifactIdentity,
    releases: Vec<ArtifactIdentity>,
    disk: Option<DiskSpec>,
    leaves: Vec<DesiredLeaf>,
    vm_properties: VmProperties,
    options: PlanOptions,
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
            leaves: vec![leaf("/properties/port", "1"), leaf("/resource_pools/name=vms/env/a", "1")],
            vm_properties: vm_properties(),
            options: PlanOptions::default(),
            cpi: None,
            az: None,
        }
    }
}

impl Case {
    fn plan(&self, state: &State) -> Plan {
        self.try_plan(state).unwrap()
    }

    fn try_plan(&self, state: &State) -> base::Result<Plan> {
        let vm_properties = VmProperties { az: json!(self.az), ..self.vm_properties.clone() };
        let desired = DesiredDeployment {
            deploy_digest: self.sha,
            leaves: &self.leaves,
            vm_properties: &vm_properties,
            stemcell: &self.stemcell,
            releases: &self.releases,
            disk: self.disk.as_ref(),
            cpi: self.cpi,
            az: self.az,
        };
        create(state, &desired, &self.options)
    }
}

fn steps(plan: &Plan) -> Vec<Step> {
    plan.steps.iter().map(|planned_step| planned_step.step.clone()).collect()
}

fn stop_and_delete() -> Vec<Step> {
    vec![Step::StopJobs(handle("vm-1")), Step::Delete(Resource::Vm(handle("vm-1")))]
}

#[test]
fn unchanged_environment_gives_an_empty_plan() {
    assert!(Case::default().plan(&deployed_state()).is_empty());
}

#[test]
fn first_deploy_creates_everything() {
    let plan = Case::default().plan(&State::new());
    let [create_stemcell, create_vm] = create_with_stemcell(None);
    assert_eq!(
        steps(&plan),
        [
            create_stemcell,
            create_vm,
            Step::CreateDisk(spec(1024)),
            Step::AttachDisk(DiskRef::New),
            Step::UseDisk,
            Step::DeployJobs
        ]
    );
}

/// Returns the step that creates the VM from the stemcell on record.
fn create_vm() -> Step {
    Step::CreateVm(StemcellRef::Existing("id-sc-1".into()))
}

/// Returns the steps that upload the stemcell to a CPI and create the VM from it.
fn create_with_stemcell(cpi: Option<&str>) -> [Step; 2] {
    [
        Step::CreateStemcell { cpi: cpi.map(str::to_owned), stemcell: "jammy/1".into() },
        Step::CreateVm(StemcellRef::New),
    ]
}

/// Returns a case in which a property of a job has changed.
fn other_port() -> Case {
    let leaves = vec![leaf("/properties/port", "2"), leaf("/resource_pools/name=vms/env/a", "1")];
    Case { sha: "other", leaves, ..Case::default() }
}

#[test]
fn job_changes_update_in_place() {
    let check_reason = |case: Case, reason: &str| {
        let plan = case.plan(&deployed_state());
        assert_eq!(steps(&plan), [Step::UpdateVm(handle("vm-1"))]);
        assert_eq!(plan.steps[0].reason, reason);
        let recreate = PlanOptions { strategy: UpdateStrategy::NewVm, ..PlanOptions::default() };
        let plan = Case { options: recreate, ..case }.plan(&deployed_state());
        assert_eq!(steps(&plan)[..3], [stop_and_delete(), vec![create_vm()]].concat());
        assert_eq!(plan.steps[0].reason, reason);
    };
    check_reason(other_port(), "the manifest changed");
    check_reason(
        Case { sha: "other", ..Case::default() },
        "only the order of entries in the manifest changed",
    );
    check_reason(
        Case { releases: vec![identity("hello", "2", 'c')], ..Case::default() },
        "release hello changes from 1 to 2",
    );
    check_reason(
        Case { releases: vec![identity("hello", "1", 'c')], ..Case::default() },
        "release hello/1 has new content under the same version",
    );
    check_reason(Case { releases: Vec::new(), ..Case::default() }, "a release is no longer used");
}

#[test]
fn update_that_keeps_the_jobs_does_not_interrupt() {
    let tags = VmProperties { tags: json!({"team": "b"}), ..vm_properties() };
    let mut plan = Case { vm_properties: tags, ..other_port() }.plan(&deployed_state());
    assert_eq!(steps(&plan), [Step::SetMetadata(handle("vm-1")), Step::UpdateVm(handle("vm-1"))]);
    assert!(plan.needs_confirmation() && !plan.keeps_jobs());
    plan.keep_jobs();
    assert_eq!(steps(&plan), [Step::SetMetadata(handle("vm-1")), Step::KeepJobs(handle("vm-1"))]);
    assert!(plan.keeps_jobs() && !plan.needs_confirmation() && !plan.deploys_jobs());
    assert_eq!(plan.steps[1].reason, "the manifest changed");
    assert_eq!(plan.downtime(&deployed_state().monopile.durations), None);
}

#[test]
fn changed_vm_properties_recreate_the_vm() {
    let check_reason = |case: Case, reason: &str| {
        let plan = case.plan(&deployed_state());
        let index = steps(&plan).iter().position(|step| matches!(step, Step::CreateVm(_))).expect(reason);
        assert_eq!(steps(&plan)[index - 2..index], stop_and_delete());
        assert_eq!(plan.steps[index].reason, reason);
    };
    let with_properties = |change: &dyn Fn(&mut VmProperties)| {
        let mut vm_properties = vm_properties();
        change(&mut vm_properties);
        Case { vm_properties, ..other_port() }
    };
    check_reason(
        Case { stemcell: identity("jammy", "2", 'd'), ..Case::default() },
        "the stemcell changes from jammy/1 to jammy/2",
    );
    check_reason(
        Case { stemcell: identity("jammy", "1", 'd'), ..Case::default() },
        "stemcell jammy/1 has new content under the same version",
    );
    check_reason(
        Case {
            options: PlanOptions { replaces_unchanged_vm: true, ..PlanOptions::default() },
            ..Case::default()
        },
        "requested by --recreate",
    );
    check_reason(
        with_properties(&|properties| properties.cloud_properties = json!({"type": "large"})),
        "its cloud properties change",
    );
    check_reason(
        with_properties(&|properties| properties.networks = json!({"b": {}})),
        "its networks change",
    );
    check_reason(
        with_properties(&|properties| properties.agent = json!({"mbus": "x"})),
        "the settings of its agent change",
    );
    check_reason(
        Case { disk: Some(spec(2048)), ..other_port() },
        "the size of its disk changes from 1024 MiB to 2048 MiB",
    );
    check_reason(
        Case { disk: None, ..with_properties(&|properties| properties.persistent_disk = json!(false)) },
        "the manifest has no persistent disk any more",
    );
    let silent =
        PlanOptions { unusable_agent_reason: Some("its agent is silent".into()), ..PlanOptions::default() };
    check_reason(Case { options: silent, ..other_port() }, "its agent is silent");
    let mut env = with_properties(&|properties| properties.env = json!({"a": 2}));
    env.leaves[1].value = "2".into();
    check_reason(env, "its `env` changes");
}

#[test]
fn vm_with_unknown_properties_is_replaced_on_any_change() {
    let mut state = deployed_state();
    state.monopile.vm.as_mut().unwrap().property_digests = None;
    assert!(Case::default().plan(&state).is_empty());
    let plan = other_port().plan(&state);
    assert_eq!(plan.steps[0].reason, "the state does not record how the VM was created");
    assert!(plan.creates_vm());
}

#[test]
fn changed_tags_do_not_recreate_the_vm() {
    let vm_properties = VmProperties { tags: json!({"a": "b"}), ..vm_properties() };
    let plan = Case { vm_properties, ..other_port() }.plan(&deployed_state());
    assert_eq!(steps(&plan), [Step::SetMetadata(handle("vm-1")), Step::UpdateVm(handle("vm-1"))]);
}

#[test]
fn downtime_is_estimated_from_earlier_runs() {
    let state = deployed_state();
    let durations = &state.monopile.durations;
    assert_eq!(other_port().plan(&state).downtime(durations), Some(Duration::from_millis(4)));
    let recreate = PlanOptions { replaces_unchanged_vm: true, ..PlanOptions::default() };
    assert_eq!(Case { options: recreate, ..Case::default() }.plan(&state).downtime(durations), None);
    assert_eq!(Case::default().plan(&State::new()).downtime(durations), None);
}

#[test]
fn missing_vm_is_replaced_and_its_disk_reattached() {
    let options = PlanOptions { vm_is_gone: true, ..PlanOptions::default() };
    let plan = Case { options, ..Case::default() }.plan(&deployed_state());
    assert_eq!(plan.steps[0].reason, "the CPI does not find the VM");
    let expected = [
        Step::StopJobsIfPossible(handle("vm-1")),
        Step::Delete(Resource::Vm(handle("vm-1"))),
        create_vm(),
        Step::AttachDisk(DiskRef::Existing(handle("disk-1"))),
        Step::DeployJobs,
    ];
    assert_eq!(steps(&plan), expected);
    assert!(plan.deploys_jobs());
}

#[test]
fn undeleted_earlier_vm_is_retried_by_every_run() {
    let mut state = deployed_state();
    let mark = crate::state::UndeletedResource {
        resource: Resource::Vm(handle("vm-1")),
        reason: "not found".into(),
        first_attempt_at: String::new(),
        was_not_found: true,
        unknown_keys: Map::new(),
    };
    state.apply(Change::DeletionFailed(mark)).unwrap();
    let delete_it = Step::Delete(Resource::Vm(handle("vm-1")));
    let plan = Case::default().plan(&state);
    let steps = steps(&plan);
    let position = |step: &Step| steps.iter().position(|candidate| candidate == step).unwrap();
    assert!(position(&delete_it) < position(&create_vm()), "{steps:?}");
    let vm = VmRecord {
        cid: "vm-2".parse().unwrap(),
        agent_id: "a".into(),
        contract: Contract::V2,
        networks: None,
        cpi: None,
        instance: "bosh/0".into(),
        ssh_host_key: None,
        property_digests: None,
        is_ready: false,
        unknown_keys: Map::new(),
    };
    state.apply(Change::VmCreated(Box::new(vm))).unwrap();
    let deploy_digest = SHA.to_owned();
    let releases = deployed_state().releases;
    let (manifest_leaves, credential_digests, durations) = (None, None, BTreeMap::new());
    state
        .apply(Change::Deployed { deploy_digest, releases, manifest_leaves, credential_digests, durations })
        .unwrap();
    let plan = Case::default().plan(&state);
    assert!(!plan.deploys_jobs());
    assert!(super::tests::steps(&delete(&state)).contains(&delete_it));
    assert_eq!(super::tests::steps(&plan), [delete_it]);
}

#[test]
fn retry_keeps_the_stemcell_in_use_and_disks_with_data() {
    // Simulates a deploy with a new stemcell and a larger disk that failed at any step, then a retry with
    // either manifest.
    let old_case = Case { sha: "old", ..Case::default() };
    let new_case =
        Case { sha: "new", stemcell: identity("jammy", "2", 'd'), disk: Some(spec(2048)), ..Case::default() };
    let mut state = deployed_state();
    let vm = |cid: &str| {
        Change::VmCreated(Box::new(VmRecord {
            cid: cid.parse().unwrap(),
            agent_id: "a".into(),
            contract: Contract::V2,
            networks: None,
            cpi: None,
            instance: "bosh/0".into(),
            ssh_host_key: None,
            property_digests: Some(VmPropertiesDigests::of(&vm_properties())),
            is_ready: false,
            unknown_keys: Map::new(),
        }))
    };
    for change in [
        Change::DeployBegun { in_place: false },
        Change::StemcellCreated(stemcell("sc-2", "2", 'd')),
        Change::VmDeleted(handle("vm-1")),
        vm("vm-2"),
        Change::StemcellUsed { id: "id-sc-2".into() },
        Change::DiskCreated(disk("disk-2", 2048)),
        Change::DiskUsed(handle("disk-2")),
    ] {
        state.apply(change).unwrap();
        for case in [&old_case, &new_case] {
            let steps = steps(&case.plan(&state));
            let index_of = |expected: &Step| steps.iter().position(|step| step == expected);
            let deploy_index = index_of(&Step::DeployJobs).unwrap();
            let stemcell_cid = if case.sha == "old" { "sc-1" } else { "sc-2" };
            assert_eq!(index_of(&Step::Delete(Resource::Stemcell(handle(stemcell_cid)))), None, "{steps:?}");
            for deletion in steps.iter().filter(|step| {
                matches!(step, Step::Delete(Resource::Stemcell(_)) | Step::Delete(Resource::Disk(_)))
            }) {
                assert!(
                    index_of(deletion).unwrap() > deploy_index,
                    "{deletion:?} before the jobs run: {steps:?}"
                );
            }
            // The disk with the data may be deleted only after its migration.
            let data = state.current_disk().unwrap().handle();
            if let Some(deletion_index) = index_of(&Step::Delete(Resource::Disk(data))) {
                assert!(index_of(&Step::MigrateDisk).unwrap() < deletion_index, "{steps:?}");
            }
            let declined_index = steps.iter().position(|step| matches!(step, Step::ResizeDisk(_)));
            if let Some(declined_index) = declined_index {
                let steps_with_copy = super::tests::steps(&case.plan(&state).with_disk_copy(declined_index));
                let index_of =
                    |wanted_step: &Step| steps_with_copy.iter().position(|step| step == wanted_step).unwrap();
                let data = state.current_disk().unwrap().handle();
                let order =
                    [Step::MigrateDisk, Step::UseDisk, Step::DeployJobs, Step::Delete(Resource::Disk(data))];
                assert!(order.iter().map(index_of).is_sorted(), "{steps_with_copy:?}");
            }
        }
    }
}

#[test]
fn new_stemcell_is_uploaded_first_and_old_one_deleted_last() {
    let plan = Case { stemcell: identity("jammy", "1", 'd'), ..Case::default() }.plan(&deployed_state());
    let steps = steps(&plan);
    let [create_stemcell, create_vm] = create_with_stemcell(None);
    assert_eq!(steps.first(), Some(&create_stemcell));
    assert!(steps.contains(&create_vm), "{steps:?}");
    assert_eq!(steps.last(), Some(&Step::Delete(Resource::Stemcell(handle("sc-1")))));
}

/// Returns the steps of a plan with a new VM and a copy of its disk, and those of a step in place before it.
fn copies_disk(in_place: Option<Step>, new_spec: &DiskSpec) -> Vec<Step> {
    let mut expected = stop_and_delete();
    expected.push(create_vm());
    expected.extend(in_place);
    expected.extend([
        Step::AttachDisk(DiskRef::Existing(handle("disk-1"))),
        Step::CreateDisk(new_spec.clone()),
        Step::AttachDisk(DiskRef::New),
        Step::MigrateDisk,
        Step::UseDisk,
        Step::DetachDisk(handle("disk-1")),
        Step::DeployJobs,
        Step::Delete(Resource::Disk(handle("disk-1"))),
    ]);
    expected
}

#[test]
fn shrunk_disk_is_migrated_and_old_one_deleted_last() {
    let plan = Case { sha: "other", disk: Some(spec(512)), ..Case::default() }.plan(&deployed_state());
    assert_eq!(steps(&plan), copies_disk(None, &spec(512)));
    assert_eq!(plan.steps[4].reason, "no disk can shrink from 1024 MiB to 512 MiB");
    let options = PlanOptions { recreate_persistent_disks: true, ..PlanOptions::default() };
    let plan =
        Case { sha: "other", disk: Some(spec(2048)), options, ..Case::default() }.plan(&deployed_state());
    assert_eq!(steps(&plan), copies_disk(None, &spec(2048)));
}

#[test]
fn changed_disk_stays_unless_the_cpi_declines() {
    let update = |spec: DiskSpec| DiskUpdate { disk: handle("disk-1"), size: 1024, spec };
    let ssd =
        |size| DiskSpec { cloud_properties: Map::from_iter([("type".into(), json!("ssd"))]), ..spec(size) };
    for (disk_spec, step, reason) in [
        (
            spec(2048),
            Step::ResizeDisk(update(spec(2048))),
            "the size of its disk changes from 1024 MiB to 2048 MiB",
        ),
        (ssd(1024), Step::UpdateDisk(update(ssd(1024))), "the cloud properties of its disk change"),
        (
            ssd(2048),
            Step::UpdateDisk(update(ssd(2048))),
            "the size of its disk changes from 1024 MiB to 2048 MiB",
        ),
    ] {
        let plan =
            Case { sha: "other", disk: Some(disk_spec.clone()), ..Case::default() }.plan(&deployed_state());
        let mut expected = stop_and_delete();
        let attach = Step::AttachDisk(DiskRef::Existing(handle("disk-1")));
        expected.extend([create_vm(), step.clone(), attach, Step::DeployJobs]);
        assert_eq!(steps(&plan), expected);
        assert_eq!(plan.steps[3].reason, reason);
        assert!(step.describe("bosh/0").contains("in place if the CPI can, otherwise copy its data"));
        assert_eq!(steps(&plan.with_disk_copy(3)), copies_disk(Some(step), &disk_spec));
        assert_eq!(plan.with_disk_copy(0), plan, "a step that changes no disk was replaced");
    }
}

#[test]
fn snapshot_comes_before_the_vm_is_replaced_and_goes_when_its_time_is_over() {
    let mut state = deployed_state();
    let snapshot = Step::SnapshotDisk(handle("disk-1"));
    let options =
        |now: &str| PlanOptions { takes_snapshot: true, now: now.to_owned(), ..PlanOptions::default() };
    let case = |options| Case { sha: "other", disk: Some(spec(2048)), options, ..Case::default() };
    let planned_steps = steps(&case(options("")).plan(&state));
    let [stop, delete] = stop_and_delete().try_into().unwrap();
    assert_eq!(planned_steps[..3], [stop, snapshot.clone(), delete]);
    let in_place = Case { options: options(""), ..other_port() }.plan(&state);
    assert_eq!(
        steps(&in_place),
        [Step::UpdateVm(handle("vm-1"))],
        "a snapshot is taken although the disk is not in danger"
    );

    let kept_until = |cid: &str, keep_until: Option<&str>| {
        let keep_until = keep_until.map(str::to_owned);
        Change::SnapshotCreated(SnapshotRecord { keep_until, ..SnapshotRecord::example(cid) })
    };
    state.apply(kept_until("snap-1", Some("2026-01-08T00:00:00Z"))).unwrap();
    state.apply(kept_until("snap-2", None)).unwrap();
    let delete = Step::Delete(Resource::Snapshot(handle("snap-1")));
    for (now, expected) in [("2026-01-08T00:00:00Z", false), ("2026-01-08T00:00:01Z", true)] {
        let clean_up = Case { options: options(now), ..Case::default() }.plan(&state);
        assert_eq!(steps(&clean_up), Vec::from_iter(expected.then(|| delete.clone())), "{now}");
        let recreate = steps(&case(options(now)).plan(&state));
        assert_eq!(recreate.last() == Some(&delete), expected, "{now}: {recreate:?}");
    }
}

#[test]
fn disk_removed_from_the_manifest_is_kept() {
    let plan = Case { sha: "other", disk: None, ..Case::default() }.plan(&deployed_state());
    assert!(!steps(&plan).iter().any(|step| matches!(step, Step::Delete(Resource::Disk(_)))));
}

#[test]
fn unused_records_are_deleted_even_when_nothing_changed() {
    let mut state = deployed_state();
    state.apply(Change::DiskCreated(disk("disk-0", 1))).unwrap();
    state.apply(Change::StemcellCreated(stemcell("sc-0", "0", 'e'))).unwrap();
    assert_eq!(
        steps(&Case::default().plan(&state)),
        [Step::Delete(Resource::Disk(handle("disk-0"))), Step::Delete(Resource::Stemcell(handle("sc-0")))]
    );
}

#[test]
fn records_without_digests_match_by_name_and_version() {
    let mut state = deployed_state();
    state.stemcells[0].digest = None;
    state.releases[0].digest = None;
    assert!(Case::default().plan(&state).is_empty());
}

#[test]
fn unfinished_deploy_continues_if_the_vm_is_ready() {
    let mut state = deployed_state();
    state.apply(Change::DeployBegun { in_place: true }).unwrap();
    let plan = Case::default().plan(&state);
    assert_eq!(steps(&plan), [Step::UpdateVm(handle("vm-1"))]);
    assert_eq!(plan.steps[0].reason, "the last deploy did not finish");
    state.apply(Change::DeployBegun { in_place: false }).unwrap();
    let plan = Case::default().plan(&state);
    assert!(plan.creates_vm());
    assert_eq!(plan.steps[0].reason, "the last deploy did not finish");
    // A first deploy that ended in `create_vm` has recorded no stemcell as current.
    state.current_stemcell_id.clear();
    let plan = Case::default().plan(&state);
    let create = plan.steps.iter().find(|planned_step| planned_step.step == create_vm()).unwrap();
    assert_eq!(create.reason, "the last deploy did not finish");
}

#[test]
fn finished_deploy_is_not_blamed_for_later_changes() {
    for (cause, reason) in [
        (UndeployedBy::Deletion, "a delete-env began, but did not finish"),
        (UndeployedBy::DiskChoice, "attach-disk chose another disk"),
        (UndeployedBy::ForgottenStemcell, "the record of its stemcell was forgotten"),
    ] {
        let mut state = deployed_state();
        state.apply(Change::DeployRequired(cause)).unwrap();
        let plan = Case::default().plan(&state);
        assert!(plan.creates_vm());
        assert_eq!(plan.steps[0].reason, reason);
        assert_eq!(state.unfinished_reason(), Some(reason));
        state.apply(Change::DeployBegun { in_place: false }).unwrap();
        assert_eq!(state.unfinished_reason(), Some("the last deploy did not finish"));
        // A deletion is the newer cause.
        state.apply(Change::DeployRequired(cause)).unwrap();
        let is_deletion = cause == UndeployedBy::Deletion;
        assert_eq!(state.unfinished_reason() == Some(reason), is_deletion);
    }
}

#[test]
fn cause_of_a_forgotten_vm_is_never_shown() {
    let mut state = deployed_state();
    state.apply(Change::Forgotten(state.vm_handle().unwrap().into())).unwrap();
    assert_eq!(state.unfinished_reason(), None);
    assert_eq!(Case::default().plan(&state).steps[0].reason, "no VM is on record");
    let mut imported_state = state.clone();
    imported_state.apply(Change::VmAdopted { handle: handle("vm-2"), vm: None }).unwrap();
    assert_eq!(imported_state.unfinished_reason(), Some("its VM was recorded by `state import`"));
    state.apply(Change::DeployBegun { in_place: false }).unwrap();
    assert_eq!(state.monopile.undeployed_by, None);
}

#[test]
fn delete_plans_all_records_in_order() {
    let mut expected = stop_and_delete();
    expected.extend([
        Step::Delete(Resource::Disk(handle("disk-1"))),
        Step::Delete(Resource::Stemcell(handle("sc-1"))),
    ]);
    assert_eq!(steps(&delete(&deployed_state())), expected);
    assert!(delete(&State::new()).is_empty());
}

#[test]
fn duplicate_stemcell_record_is_deleted_once() {
    // Other tools record one stemcell of the IaaS twice if two versions name it.
    let mut state = deployed_state();
    state.stemcells.push(StemcellRecord { id: "id-older".into(), ..stemcell("sc-1", "0", 'c') });
    assert!(Case::default().plan(&state).is_empty());
    let deletions = |plan: &Plan| {
        plan.steps
            .iter()
            .filter(|planned_step| matches!(planned_step.step, Step::Delete(Resource::Stemcell(_))))
            .count()
    };
    assert_eq!(deletions(&delete(&state)), 1);
    let recreate = PlanOptions { replaces_unchanged_vm: true, ..PlanOptions::default() };
    assert_eq!(deletions(&Case { options: recreate, ..Case::default() }.plan(&state)), 0);
}

#[test]
fn moving_needs_an_option_to_leave_a_disk_behind() {
    let without_disk = || {
        let mut state = deployed_state();
        state.apply(Change::DiskDeleted(handle("disk-1"))).unwrap();
        state
    };
    let case = Case { cpi: Some("a"), disk: None, ..Case::default() };
    let plan = case.plan(&without_disk());
    assert_eq!(plan.steps[0].reason, "it is not uploaded to CPI 'a'");
    assert_eq!(plan.steps[1].reason, "the VM moves from the default CPI to CPI 'a'");
    let [create_stemcell, create_vm] = create_with_stemcell(Some("a"));
    let mut expected = vec![create_stemcell.clone()];
    expected.extend(stop_and_delete());
    expected.extend([create_vm.clone(), Step::DeployJobs, Step::Delete(Resource::Stemcell(handle("sc-1")))]);
    assert_eq!(steps(&plan), expected);

    let mut moved_case = Case { cpi: Some("a"), ..Case::default() };
    let error = moved_case.try_plan(&deployed_state()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the environment moves from the default CPI to CPI 'a', but its persistent disk 'disk-1' cannot \
         be moved"
    );
    moved_case.options.recreate_persistent_disks = true;
    let mut expected = vec![create_stemcell];
    expected.extend(stop_and_delete());
    expected.extend([
        create_vm,
        Step::CreateDisk(spec(1024)),
        Step::AttachDisk(DiskRef::New),
        Step::UseDisk,
        Step::DeployJobs,
        Step::Delete(Resource::Disk(handle("disk-1"))),
        Step::Delete(Resource::Stemcell(handle("sc-1"))),
    ]);
    assert_eq!(steps(&moved_case.plan(&deployed_state())), expected);
}

#[test]
fn disk_cannot_change_its_availability_zone() {
    let mut state = deployed_state();
    let case = |az: Option<&'static str>| Case { sha: "other", az, ..Case::default() };
    // The disk is older than the zones in the manifest, so its zone is unknown and counts as the desired one.
    case(Some("z1")).plan(&state);
    state.disks[0].az = Some("z1".into());
    case(Some("z1")).plan(&state);
    case(None).plan(&state);
    let error = case(Some("z2")).try_plan(&state).unwrap_err();
    assert!(error.to_string().contains("from availability zone 'z1' to 'z2'"), "{error}");
}

#[test]
fn interrupted_move_continues_with_the_new_disk() {
    let mut state = deployed_state();
    let new_disk = DiskRecord { cpi: Some("a".into()), ..disk("disk-2", 1024) };
    let new_handle = new_disk.handle();
    for change in [
        Change::DeployBegun { in_place: false },
        Change::DiskCreated(new_disk),
        Change::DiskUsed(new_handle.clone()),
    ] {
        state.apply(change).unwrap();
    }
    let steps = steps(&Case { cpi: Some("a"), ..Case::default() }.plan(&state));
    let index_of = |step: Step| steps.iter().position(|candidate| *candidate == step).unwrap();
    assert!(index_of(Step::AttachDisk(DiskRef::Existing(new_handle))) < index_of(Step::DeployJobs));
    assert!(index_of(Step::Delete(Resource::Disk(handle("disk-1")))) > index_of(Step::DeployJobs));
}

#[test]
fn replaced_disks_and_uploaded_stemcells_are_kept() {
    let mut state = deployed_state();
    let put_aside = DiskRecord {
        vm_at_replacement: Some(VmAtReplacement(Some("vm-0".parse().unwrap()))),
        ..disk("disk-0", 1024)
    };
    let kept_stemcell = StemcellRecord { is_kept: true, ..stemcell("sc-0", "0", 'c') };
    for change in [
        Change::DiskCreated(put_aside),
        Change::DiskCreated(disk("disk-2", 1024)),
        Change::StemcellCreated(kept_stemcell),
        Change::StemcellCreated(stemcell("sc-2", "2", 'd')),
    ] {
        state.apply(change).unwrap();
    }
    let deletions =
        [Step::Delete(Resource::Disk(handle("disk-2"))), Step::Delete(Resource::Stemcell(handle("sc-2")))];
    assert_eq!(steps(&Case::default().plan(&state)), deletions);
    let deploy = steps(&Case { sha: "other", ..Case::default() }.plan(&state));
    assert_eq!(deploy[deploy.len() - 2..], deletions);
    assert!(!deploy.contains(&Step::Delete(Resource::Disk(handle("disk-0")))), "{deploy:?}");
}

#[test]
fn newer_upload_of_a_stemcell_is_used() {
    let mut state = deployed_state();
    let second_stemcell = StemcellRecord {
        id: "id-again".into(),
        is_kept: true,
        cid: "sc-again".parse().unwrap(),
        ..state.stemcells[0].clone()
    };
    state.apply(Change::StemcellCreated(second_stemcell)).unwrap();
    assert!(Case::default().plan(&state).is_empty(), "an upload that the VM does not use led to a plan");
    let recreate = PlanOptions { replaces_unchanged_vm: true, ..PlanOptions::default() };
    let steps = steps(&Case { options: recreate, ..Case::default() }.plan(&state));
    let newer = Step::CreateVm(StemcellRef::Existing("id-again".into()));
    assert!(steps.contains(&newer), "{steps:?}");
    assert_eq!(steps.last(), Some(&Step::Delete(Resource::Stemcell(handle("sc-1")))));
}
