//! Diagnoses problems from the answers of the CPI and the agent.

use std::time::Duration;

use serde_json::json;

use super::super::UNFINISHED_DEPLOY;
use super::super::status::untracked_disk_hint;
use super::finding::{FAILED_CALL, Finding, FindingStatus};
use super::probe::Probe;
use super::{FailedCall, Problem, ProblemKind, ProblemSubject, Repair};
use crate::agent_client::{ForeignAgent, OtherAddress, identity, other_credentials};
use crate::cpi::{Answer, CpiError, Method};
use crate::cpi_set::{Presence, describe_off, with_cpi_context};
use crate::effects::{
    Contradiction, DENIED_MOUNT_NOTE, describe_denied_mount, describe_not_found, hint_for_denied_mount,
    probable_cause_of_denial,
};
use crate::jobs::AgentState;
use crate::protocol::DiskCid;
use crate::recovery::suspects::{self, AnsweringSuspect};
use crate::state::{DiskHandle, DiskRecord, Resource, Suspect, SuspectGroup, UndeployedBy, VmHandle};
use base::console::LastBoot;
use base::text::comma_list;
use base::{Error, Result};

/// The disks that are attached and mounted.
struct DisksInUse {
    /// The disks that the CPI has attached; `None` if it does not know.
    attached_disks: Option<Vec<DiskCid>>,
    /// The disks that the agent has mounted.
    mounted_disks: Vec<DiskCid>,
}

/// The result of a check.
pub(super) struct Diagnosis {
    /// Everything on record.
    pub(super) findings: Vec<Finding>,
    /// The problems, in the order in which they are repaired.
    pub(super) problems: Vec<Problem>,
    /// Hints for the operator about problems that no repair solves.
    pub(super) hints: Vec<String>,
    /// True if the agent failed at an address that is not on record, so the VM may be healthy.
    pub(super) has_other_address: bool,
    /// The resources about which the CPI could not be asked.
    pub(super) unchecked_resources: UncheckedResources,
    /// The change of the VM that did not finish.
    pub(super) unfinished_change: Option<UnfinishedChange>,
    /// False if the agent answers, and no jobs were deployed to the VM.
    pub(super) has_jobs: bool,
}

/// A change of an environment with a VM that did not finish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UnfinishedChange {
    Deploy,
    /// A `delete-env`.
    Deletion,
}

impl UnfinishedChange {
    /// Describes it as a sentence without its end.
    pub(super) fn description(self) -> &'static str {
        match self {
            UnfinishedChange::Deploy => UNFINISHED_DEPLOY,
            UnfinishedChange::Deletion => UndeployedBy::Deletion.reason(),
        }
    }

    /// Returns the commands that finish it.
    fn hints(self) -> &'static [&'static str] {
        match self {
            UnfinishedChange::Deploy => &["finish the last deploy: `monopile create-env MANIFEST`"],
            UnfinishedChange::Deletion => &[
                "to finish the deletion: `monopile delete-env MANIFEST`",
                "to keep the environment: `monopile create-env MANIFEST`",
            ],
        }
    }

    /// Returns the error for it.
    pub(super) fn error(self) -> Error {
        Error::failure(self.description()).with_hints(self.hints().iter().copied())
    }
}

/// Resources about which the CPI could not be asked, because its call failed.
#[derive(Debug, Default)]
pub(super) struct UncheckedResources {
    names: Vec<String>,
    /// The first reason.
    reason: String,
}

impl UncheckedResources {
    fn among(checked_resources: &[CheckedResource]) -> Self {
        let mut unchecked_resources = UncheckedResources::default();
        for CheckedResource { resource, presence, .. } in checked_resources {
            if let Presence::Unknown(doubt) = presence
                && doubt.is_failure
            {
                if unchecked_resources.names.is_empty() {
                    unchecked_resources.reason = doubt.to_string();
                }
                unchecked_resources.names.push(resource.to_string());
            }
        }
        unchecked_resources
    }

    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    fn description(&self) -> String {
        match self.names.as_slice() {
            [name] => format!("the CPI could not say whether {name} exists"),
            names => format!("the CPI could not say whether these exist: {}", comma_list(names)),
        }
    }

    /// Adds a hint to the error for problems whose repairs use a CPI that could not be asked.
    pub(super) fn explain(&self, error: Error) -> Error {
        match self.is_empty() {
            true => error,
            false => error.with_hint(
                "correct first why the CPI could not say what exists, such as credentials or permissions in \
                 its properties: the repairs use it as well",
            ),
        }
    }

    /// Returns the error, unless everything could be checked.
    pub(super) fn unchecked_error(&self) -> Option<Error> {
        (!self.is_empty()).then(|| {
            Error::failure(self.description()).with_source(self.reason.clone()).with_rerun_hint(
                "correct the cause, such as credentials or permissions in the CPI's properties, then run the \
                 same command again",
            )
        })
    }
}

/// A resource on record, and the answer of its CPI.
struct CheckedResource {
    resource: Resource,
    presence: Presence,
    /// True if it should be gone.
    is_to_be_deleted: bool,
}

impl CheckedResource {
    /// Returns true if the CPI denies a resource that should exist.
    fn is_denied(&self) -> bool {
        self.presence == Presence::Gone && !self.is_to_be_deleted
    }
}

/// Checks everything on record.
pub(super) fn diagnose(probe: &Probe<'_>, timeout: Duration) -> Result<Diagnosis> {
    let state = &probe.state;
    let checking = probe.run.reporter.begin_stage("Checking VM and disks");
    let checked_resources = state
        .resources()
        .map(|resource| {
            let presence = probe.executor.ask_presence(&checking, &resource)?;
            let is_to_be_deleted = state.undeleted(&resource).is_some();
            Ok(CheckedResource { resource, presence, is_to_be_deleted })
        })
        .collect::<Result<Vec<CheckedResource>>>()?;
    let find_resource = |resource: Resource| {
        checked_resources.iter().find(|checked_resource| checked_resource.resource == resource)
    };
    let disks = state.disks.iter().map(DiskRecord::handle);
    let denied_disks: Vec<DiskHandle> = disks
        .filter(|disk| find_resource(disk.clone().into()).is_some_and(CheckedResource::is_denied))
        .collect();
    let is_attachable = state.current_disk().is_none_or(|disk| !denied_disks.contains(&disk.handle()));
    let is_vm_found = state.vm_handle().is_some_and(|vm| {
        find_resource(vm.into()).is_some_and(|checked_vm| checked_vm.presence == Presence::Exists)
    });
    let mut evidence = AgentEvidence::default();
    let mut vm_problems = Vec::new();
    let mut untracked_disk_problems = Vec::new();
    let mut agent_finding = None;
    let mut hints = Vec::new();
    let mut has_other_address = false;
    let mut has_jobs = true;
    if let Some(vm) = state.vm_handle() {
        let checked_vm = find_resource(vm.clone().into());
        if checked_vm.is_some_and(CheckedResource::is_denied) {
            match Contradiction::detect(&probe.executor, &probe.agent, &vm, checking.reporter())? {
                Some(contradiction) => {
                    evidence.is_vm_alive = true;
                    agent_finding = Some(answering_agent_finding(probe, &vm));
                    hints.extend(contradiction.hints());
                    vm_problems.push(Problem {
                        kind: ProblemKind::Contradiction,
                        description: contradiction.describe(),
                        short_description: None,
                        subject: ProblemSubject::Vm(vm),
                        repairs: Vec::new(),
                    });
                }
                None => {
                    agent_finding = Some(silent_agent_finding(
                        &vm,
                        "it does not answer, and the CPI does not find its VM",
                    ));
                    vm_problems.push(Problem {
                        kind: ProblemKind::MissingVm,
                        description: describe_not_found(&vm.clone().into()),
                        short_description: None,
                        subject: ProblemSubject::Vm(vm),
                        repairs: vec![Repair::RecreateVm],
                    });
                }
            }
        } else if checked_vm.is_some_and(|checked_vm| checked_vm.presence != Presence::Gone) {
            match ask_mounted_disks(probe, &vm, timeout)? {
                Err(AgentProblem { problem, hints: agent_hints, other_answer }) => {
                    hints = agent_hints;
                    if let Some(other) = OtherAddress::find(probe.endpoint, &probe.state) {
                        probe.run.reporter.note(other.note());
                        hints = vec![OtherAddress::ADDRESS_HINT.to_owned()];
                        has_other_address = true;
                    }
                    agent_finding = Some(match problem.kind {
                        ProblemKind::StoppedVm => silent_agent_finding(
                            &vm,
                            &match other_answer {
                                Some(answer) => format!(
                                    "its VM is stopped, and another server has its address {}: {answer}",
                                    probe.agent.address()
                                ),
                                None => "it does not answer, because its VM is stopped".to_owned(),
                            },
                        ),
                        _ => Finding::of(&problem, AGENT_FINDING_KIND, vm.cid.to_string(), vm.cpi()),
                    });
                    vm_problems.push(problem);
                }
                Ok(mounted_disks) => {
                    agent_finding = Some(answering_agent_finding(probe, &vm));
                    has_jobs = !AgentState::fetch_lacks_jobs(&probe.agent, state)?;
                    evidence.mounted_disks.clone_from(&mounted_disks);
                    untracked_disk_problems = untracked_disks(&state.disks, &mounted_disks, &vm);
                    let in_use = DisksInUse {
                        attached_disks: ask_attached_disks(probe, &checking, &vm)?,
                        mounted_disks,
                    };
                    // A disk of another CPI is part of an unfinished move, which create-env completes.
                    let disk = state.disk_of_vm().map(DiskRecord::handle);
                    let disk = disk.filter(|disk| is_attachable && disk.cpi == vm.cpi);
                    vm_problems.extend(disk.and_then(|disk| disk_problem(disk, &in_use)));
                }
            }
        }
        // Without its disk on record, a new VM cannot be deployed.
        vm_problems.iter_mut().filter(|_| !is_attachable).for_each(|problem| {
            problem.repairs.retain(|repair| *repair != Repair::RecreateVm);
        });
    }
    checking.finish();
    let (call_problem, call_findings) = find_failed_calls(probe, &mut hints)?;
    let disk_problems: Vec<Problem> = denied_disks.into_iter().map(|disk| evidence.problem(disk)).collect();
    let is_contradicted = disk_problems.iter().any(|problem| problem.kind == ProblemKind::Contradiction);
    // A VM whose agent answers has the cause in its own problem.
    if !evidence.is_vm_alive {
        let denied_vm = vm_problems.iter().filter(|problem| problem.kind == ProblemKind::MissingVm);
        let denied_resources: Vec<Resource> =
            denied_vm.chain(&disk_problems).filter_map(|problem| problem.subject.resource()).collect();
        let changed_properties = |cpi: Option<&str>| probe.executor.find_changed_location_properties(cpi);
        let cause = probable_cause_of_denial(state, &denied_resources, changed_properties)?;
        let denied_mount = disk_problems
            .iter()
            .filter(|problem| problem.kind == ProblemKind::Contradiction && cause.is_none() && is_vm_found)
            .find_map(|problem| match &problem.subject {
                ProblemSubject::Disk(disk) => Some(disk),
                _ => None,
            });
        if let Some(disk) = denied_mount {
            probe.run.reporter.note(DENIED_MOUNT_NOTE);
            hints.push(hint_for_denied_mount(disk));
        } else if is_contradicted || cause.is_some() {
            let cpi = denied_resources.first().and_then(Resource::cpi);
            hints.push(probe.executor.cpis().misplacement_hint(cpi, &changed_properties(cpi)?));
        }
        if let Some(cause) = cause {
            probe.run.reporter.note(cause);
        }
    }
    hints.extend(untracked_disk_problems.iter().filter_map(|problem| match &problem.subject {
        ProblemSubject::Disk(disk) => Some(untracked_disk_hint(&disk.cid)),
        _ => None,
    }));
    let problems: Vec<Problem> = disk_problems
        .into_iter()
        .chain(untracked_disk_problems)
        .chain(vm_problems)
        .chain(call_problem)
        .collect();
    let detached_disk = state.detached_disk().map(|disk| Resource::Disk(disk.handle()));
    let resources = checked_resources.iter().map(|checked_resource| {
        let is_detached = detached_disk.as_ref() == Some(&checked_resource.resource);
        finding(checked_resource, is_detached, &problems)
    });
    let untracked_disk_problems =
        problems.iter().filter(|problem| problem.kind == ProblemKind::UntrackedDisk);
    let untracked_disk_findings = untracked_disk_problems.filter_map(|problem| {
        let resource = problem.subject.resource()?;
        Some(Finding::of(problem, resource.kind().name(), resource.cid().to_owned(), resource.cpi()))
    });
    let findings =
        resources.chain(untracked_disk_findings).chain(agent_finding).chain(call_findings).collect();
    let unchecked_resources = UncheckedResources::among(&checked_resources);
    if !problems.is_empty() && !unchecked_resources.is_empty() {
        probe.run.reporter.warn(format!(
            "{}: {}",
            unchecked_resources.description(),
            unchecked_resources.reason
        ));
    }
    // No deploy runs while the state is locked, so a VM without jobs also shows a run of another machine.
    let unfinished_change = match state.monopile.undeployed_by {
        Some(UndeployedBy::Deletion) if state.vm_handle().is_some() => Some(UnfinishedChange::Deletion),
        _ => (probe.has_unfinished_deploy || !has_jobs).then_some(UnfinishedChange::Deploy),
    };
    if let Some(unfinished_change) = unfinished_change.filter(|_| !problems.is_empty()) {
        probe.run.reporter.note(unfinished_change.description());
        hints.extend(unfinished_change.hints().iter().copied().map(str::to_owned));
    }
    Ok(Diagnosis {
        findings,
        problems,
        hints,
        has_other_address,
        unchecked_resources,
        unfinished_change,
        has_jobs,
    })
}

/// The kind of the findings about an agent.
const AGENT_FINDING_KIND: &str = "agent";

fn answering_agent_finding(probe: &Probe<'_>, vm: &VmHandle) -> Finding {
    let detail = format!("answers at {}", probe.agent.address());
    Finding::new(AGENT_FINDING_KIND, vm.cid.to_string(), vm.cpi(), FindingStatus::AsRecorded, detail)
}

/// Returns the finding of an agent that does not answer because of its VM, which has the problem.
fn silent_agent_finding(vm: &VmHandle, detail: &str) -> Finding {
    Finding::new(AGENT_FINDING_KIND, vm.cid.to_string(), vm.cpi(), FindingStatus::Drifted, detail.to_owned())
}

/// Returns the finding of a resource on record. `is_detached` is true for the disk that the VM was created
/// without.
fn finding(checked_resource: &CheckedResource, is_detached: bool, problems: &[Problem]) -> Finding {
    let resource = &checked_resource.resource;
    let (kind, cid, cpi) = (resource.kind().name(), resource.cid().to_owned(), resource.cpi());
    // The agent has a finding of its own.
    let agent_kinds =
        [ProblemKind::UnresponsiveAgent, ProblemKind::RefusedCredentials, ProblemKind::ForeignAgent];
    let mut resource_problems = problems.iter().filter(|problem| !agent_kinds.contains(&problem.kind));
    if let Some(problem) =
        resource_problems.find(|problem| problem.subject.resource().as_ref() == Some(resource))
    {
        return Finding::of(problem, kind, cid, cpi);
    }
    let (status, detail) = match &checked_resource.presence {
        // The resource was to be deleted, so this is the desired status.
        Presence::Gone => {
            (FindingStatus::AsRecorded, "it was to be deleted, and the CPI does not find it".to_owned())
        }
        Presence::Exists if checked_resource.is_to_be_deleted => {
            (FindingStatus::AsRecorded, "it was to be deleted; the next run tries again".to_owned())
        }
        Presence::Exists if is_detached => {
            (FindingStatus::AsRecorded, "it is kept with its data, detached from the VM".to_owned())
        }
        Presence::Exists => (FindingStatus::AsRecorded, String::new()),
        Presence::Unknown(doubt) if checked_resource.is_to_be_deleted => {
            (FindingStatus::Unknown, format!("it was to be deleted; the next run tries again; {doubt}"))
        }
        Presence::Unknown(doubt) => (FindingStatus::Unknown, doubt.to_string()),
    };
    Finding::new(kind, cid, cpi, status, detail)
}

/// Returns the failed calls that may have made something, and a problem if the VM of one of them answers.
/// Adds the hints for the problem.
fn find_failed_calls(probe: &Probe<'_>, hints: &mut Vec<String>) -> Result<(Option<Problem>, Vec<Finding>)> {
    let Probe { run, endpoint, state, .. } = probe;
    let answering_suspect = suspects::find_answering(run, &run.reporter, endpoint, state)?;
    let suspects = probe.state.monopile.suspects.iter();
    let (answering_suspects, other_suspects): (Vec<Suspect>, Vec<Suspect>) =
        suspects.cloned().partition(|suspect| {
            answering_suspect.as_ref().is_some_and(|answering_suspect| answering_suspect.suspect == suspect)
        });
    hints.extend(answering_suspect.iter().flat_map(AnsweringSuspect::hints));
    let problem = answering_suspect.map(|AnsweringSuspect { suspect, .. }| Problem {
        kind: ProblemKind::UntrackedVm,
        description: format!(
            "an untracked VM answers at {} (agent ID {}): {}",
            probe.agent.address(),
            suspect.agent_id.as_deref().unwrap_or_default(),
            identity::origin_of_suspect(suspect)
        ),
        short_description: Some(format!("an untracked VM answers at {}", probe.agent.address())),
        subject: ProblemSubject::Call(FailedCall {
            request_id: suspect.request_id.to_string(),
            cpi: suspect.cpi.clone(),
        }),
        repairs: Vec::new(),
    });
    let mut findings = Vec::new();
    for (suspects, problem) in [(&answering_suspects, problem.as_ref()), (&other_suspects, None)] {
        for group in SuspectGroup::all(suspects) {
            let Some(newest) = group.suspects().last() else { continue };
            let ids: Vec<&str> = group.suspects().iter().map(|suspect| suspect.request_id.as_str()).collect();
            let (kind, cid, cpi) = (FAILED_CALL, ids.join(", "), newest.cpi.as_deref());
            findings.push(match problem {
                Some(problem) => Finding::of(problem, kind, cid, cpi),
                None => {
                    let detail = format!("may have created {}", group.short_text());
                    Finding::new(kind, cid, cpi, FindingStatus::Unknown, detail)
                }
            });
        }
    }
    Ok((problem, findings))
}

/// The reports of the agent while a CPI denies resources.
#[derive(Default)]
struct AgentEvidence {
    /// True if the CPI denies the VM, and its agent answers.
    is_vm_alive: bool,
    /// The disks that the agent has mounted.
    mounted_disks: Vec<DiskCid>,
}

impl AgentEvidence {
    /// Returns the problem of a disk that the CPI denies. Its record may be dropped only if the agent does
    /// not contradict the CPI.
    fn problem(&self, disk: DiskHandle) -> Problem {
        let (kind, description, repairs) = if self.mounted_disks.contains(&disk.cid) {
            (ProblemKind::Contradiction, describe_denied_mount(&disk), Vec::new())
        } else if self.is_vm_alive {
            let description = format!(
                "the CPI says that neither the VM nor disk {disk} exists, but the VM's agent answers"
            );
            (ProblemKind::Contradiction, description, Vec::new())
        } else {
            let description = describe_not_found(&disk.clone().into());
            (ProblemKind::MissingDisk, description, vec![Repair::DeleteDiskReference])
        };
        let subject = ProblemSubject::Disk(disk);
        Problem { kind, subject, description, short_description: None, repairs }
    }
}

/// A problem of the agent, with hints for the operator.
struct AgentProblem {
    problem: Problem,
    hints: Vec<String>,
    /// The answer of another server at the address of a stopped VM.
    other_answer: Option<String>,
}

/// Asks the VM's own agent for its mounted disks.
fn ask_mounted_disks(
    probe: &Probe<'_>,
    vm: &VmHandle,
    timeout: Duration,
) -> Result<Result<Vec<DiskCid>, AgentProblem>> {
    let asking = probe.run.reporter.begin_stage("Asking the agent");
    let expected = probe.state.vm().map(|record| record.agent_id.clone());
    let answer = probe
        .agent
        .wait_until_ready(timeout, &mut |problem| asking.log_line(problem))
        .and_then(|()| expected.map_or(Ok(None), |expected| ForeignAgent::ask(&probe.agent, &expected)));
    let problem = |kind, description, short_description, repairs| {
        let (subject, short_description) = (ProblemSubject::Vm(vm.clone()), Some(short_description));
        Problem { kind, subject, description, short_description, repairs }
    };
    if !matches!(answer, Ok(None)) && probe.executor.cpis().is_off(vm)? {
        let other_answer = match &answer {
            Ok(other) => other.as_ref().map(|other| format!("it is another VM: {other}")),
            Err(error) => (!error.is_transient()).then(|| error.to_string()),
        };
        let repairs = vec![Repair::RebootVm, Repair::RecreateVm];
        let short_description = format!("VM {vm} is stopped");
        let problem = problem(ProblemKind::StoppedVm, describe_off(vm), short_description, repairs);
        return Ok(Err(AgentProblem { problem, hints: Vec::new(), other_answer }));
    }
    match answer {
        Ok(None) => {
            let mounted_disks = probe.agent.list_disk()?;
            asking.finish();
            Ok(Ok(mounted_disks))
        }
        Ok(Some(other)) => {
            let short_description = format!("another VM answers at {}", probe.agent.address());
            let description = format!("{short_description}: {other}");
            let problem = problem(ProblemKind::ForeignAgent, description, short_description, Vec::new());
            let hints = vec!["if that VM is not needed, delete it in the IaaS".to_owned()];
            Ok(Err(AgentProblem { problem, hints, other_answer: None }))
        }
        Err(error) if error.was_caused_by_this_run() => Err(error.into()),
        Err(error) if other_credentials::may_explain(&error, &probe.state, probe.run_credentials) => {
            // The VM is alive, and a new one would lose what is not on its persistent disk.
            let cause =
                other_credentials::explain_error(error, probe.run, &probe.state, probe.run_credentials);
            let refusal = format!("the agent of VM {vm} refuses the credentials of this run");
            let description = format!("{refusal}: {cause}");
            let hints = cause.hints().to_vec();
            let problem = problem(ProblemKind::RefusedCredentials, description, refusal, Vec::new());
            Ok(Err(AgentProblem { problem, hints, other_answer: None }))
        }
        Err(error) => {
            // Rebooting does not help if the agent is reachable but rejects requests.
            let repairs = match error.is_transient() {
                true => vec![Repair::RebootVm, Repair::RecreateVm],
                false => vec![Repair::RecreateVm],
            };
            let symptom = if error.is_transient() { "does not answer" } else { "cannot be used" };
            let boot = error.is_transient().then(|| probe.executor.read_last_boot(vm)).flatten();
            let boot_problem = boot.as_ref().and_then(LastBoot::problem);
            // The VM may write secrets to its console.
            let redacted_suffix = |text: String| format!("; {}", probe.run.redactor.redact(&text));
            let cause = boot_problem.map(|problem| redacted_suffix(problem.describe(vm.cid.as_str())));
            let short_description = format!("the agent of VM {vm} {symptom}");
            let description = format!("{short_description}: {error}{}", cause.unwrap_or_default());
            let hints = match error.is_transient() {
                true => Vec::new(),
                false => Error::from(error).hints().to_vec(),
            };
            let problem = problem(ProblemKind::UnresponsiveAgent, description, short_description, repairs);
            Ok(Err(AgentProblem { problem, hints, other_answer: None }))
        }
    }
}

/// Asks the CPI for the disks attached to the VM. Returns `None` if it does not know.
fn ask_attached_disks(
    probe: &Probe<'_>,
    stage: &base::events::Stage,
    vm: &VmHandle,
) -> Result<Option<Vec<DiskCid>>> {
    match probe.executor.call_unrecorded(vm.cpi(), stage, Method::GetDisks, vec![json!(vm.cid)])? {
        Ok(Answer::Disks(cids)) => Ok(Some(cids)),
        Ok(_) => Ok(None),
        Err(error @ CpiError::Killed { .. }) => Err(with_cpi_context(vm.cpi(), error)),
        Err(error) => {
            stage.log_line(error.to_string());
            Ok(None)
        }
    }
}

/// Returns a problem for each mounted disk that is not on record.
fn untracked_disks(disk_records: &[DiskRecord], mounted_disks: &[DiskCid], vm: &VmHandle) -> Vec<Problem> {
    let untracked_cids = mounted_disks.iter().filter(|cid| disk_records.iter().all(|disk| disk.cid != **cid));
    let problem = |cid: &DiskCid| Problem {
        kind: ProblemKind::UntrackedDisk,
        description: format!("disk '{cid}' is mounted on the VM, but not on record"),
        short_description: None,
        subject: ProblemSubject::Disk(DiskHandle::new(cid.clone(), vm.cpi())),
        repairs: Vec::new(),
    };
    untracked_cids.map(problem).collect()
}

/// Returns the problem of a disk that is not attached or not mounted. A disk that the agent has mounted
/// counts as attached, even if the CPI denies it: some CPIs answer `get_disks` with an empty list.
fn disk_problem(disk: DiskHandle, in_use: &DisksInUse) -> Option<Problem> {
    let contains = |cids: &[DiskCid]| cids.contains(&disk.cid);
    let problem = |kind, description: &str, repair| Problem {
        kind,
        description: format!("disk {disk} {description}"),
        short_description: None,
        subject: ProblemSubject::Disk(disk.clone()),
        repairs: vec![repair],
    };
    match (in_use.attached_disks.as_deref().map(contains), contains(&in_use.mounted_disks)) {
        (_, true) => None,
        (Some(false), false) => {
            Some(problem(ProblemKind::DetachedDisk, "is not attached to the VM", Repair::ReattachDisk))
        }
        // If the CPI does not know, the disk is only mounted, because some IaaSes reject the attachment of an
        // attached disk.
        (Some(true) | None, false) => {
            Some(problem(ProblemKind::UnmountedDisk, "is not mounted on the VM", Repair::MountDisk))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detached_and_unmounted_disks_are_problems() {
        let mismatch = |attached_disks: Option<&[&str]>, mounted_disks: &[&str]| {
            let disk_cids = |cids: &[&str]| cids.iter().map(|cid| cid.parse().unwrap()).collect::<Vec<_>>();
            disk_problem(
                DiskHandle::new("d".parse().unwrap(), None),
                &DisksInUse {
                    attached_disks: attached_disks.map(disk_cids),
                    mounted_disks: disk_cids(mounted_disks),
                },
            )
            .map(|problem| (problem.kind, problem.repairs))
        };
        assert_eq!(mismatch(Some(&["d"]), &["d"]), None);
        assert_eq!(mismatch(None, &["d"]), None);
        let detached_disk = Some((ProblemKind::DetachedDisk, vec![Repair::ReattachDisk]));
        assert_eq!(mismatch(Some(&["e"]), &[]), detached_disk);
        assert_eq!(mismatch(Some(&[]), &[]), detached_disk);
        assert_eq!(mismatch(Some(&[]), &["d"]), None, "a mounted disk is a problem");
        let unmounted_disk = Some((ProblemKind::UnmountedDisk, vec![Repair::MountDisk]));
        assert_eq!(mismatch(Some(&["d"]), &["e"]), unmounted_disk);
        assert_eq!(mismatch(None, &[]), unmounted_disk);
    }
}
