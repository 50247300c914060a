//! `cloud-check`: compares everything on record with the answers of the CPI and the agent, and repairs the
//! VM, its agent and its disks.
//!
//! [`create_report`] changes nothing. With [`cloud_check`], the caller chooses a repair for each problem that
//! can be repaired. After each repair everything is checked again, because one problem may have hidden
//! another.

mod diagnose;
mod finding;
mod probe;
mod repair;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use crate::cpi::create_private_directory;
use crate::cpi_set;
use crate::deploy::{CreateEnvRequest, recreate_even_unfinished};
use crate::effects::{Effect, instructions_to_forget};
use crate::recovery::open_calls::{self, OpenCallStatus};
use crate::run_context::{Paths, RunContext, signals};
use crate::state::{DiskHandle, Resource, SuspectGroup, VmHandle};
use base::{Error, ErrorKind, Result, text};
use diagnose::{Diagnosis, UncheckedResources, UnfinishedChange};
use erb::RendererChoice;
use manifest::Inputs;
use probe::{CloudCheckInputs, Probe};

pub use finding::{CloudReport, Finding, FindingStatus};

/// The request of `cloud-check --report`.
#[derive(Debug, Clone)]
pub struct ReportRequest {
    /// The manifest, its ops files and variables.
    pub inputs: Inputs,
    /// `--renderer`: the renderer for the CPI's templates.
    pub renderer_choice: RendererChoice,
    /// `--cpi-api-version`: the highest API version to use with the CPI.
    pub cpi_api_version: Option<u32>,
    /// `--agent-timeout`: how long an agent may take to answer before it counts as dead.
    pub agent_timeout: Duration,
    /// The directory with the records of runs.
    pub history_directory: Option<PathBuf>,
}

/// The request of `cloud-check`.
#[derive(Debug, Clone)]
pub struct CloudCheckRequest {
    /// The request for creating a new VM.
    pub deploy: CreateEnvRequest,
    /// `--agent-timeout`: how long an agent may take to answer before it counts as dead.
    pub agent_timeout: Duration,
    /// The directory with the records of runs.
    pub history_directory: Option<PathBuf>,
}

impl CloudCheckRequest {
    /// Returns the request for a check that repairs nothing.
    pub fn report_request(&self) -> ReportRequest {
        ReportRequest {
            inputs: self.deploy.inputs.clone(),
            renderer_choice: self.deploy.renderer_choice,
            cpi_api_version: self.deploy.cpi_api_version,
            agent_timeout: self.agent_timeout,
            history_directory: self.history_directory.clone(),
        }
    }
}

/// The kind of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProblemKind {
    /// The CPI does not find the VM.
    MissingVm,
    /// The VM is on this machine, and its processes have ended.
    StoppedVm,
    /// The VM exists, and its agent does not answer.
    UnresponsiveAgent,
    /// The agent refuses the credentials of this run, which are not known to be the deployed ones.
    RefusedCredentials,
    /// Another VM's agent answers at its address.
    ForeignAgent,
    /// The CPI does not find a disk.
    MissingDisk,
    /// A disk exists and is not attached to the VM.
    DetachedDisk,
    /// A disk is attached and the agent has not mounted it.
    UnmountedDisk,
    /// The CPI denies a VM or disk, and the agent shows that it exists. Nothing is repaired.
    Contradiction,
    /// The agent has mounted a disk that is not on record.
    UntrackedDisk,
    /// The VM of a failed call answers, and its CID is unknown.
    UntrackedVm,
}

/// A repair for a problem. The names are those of `--resolution`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Repair {
    /// Boots the VM again.
    RebootVm,
    /// Creates a new VM for the deployed manifest.
    RecreateVm,
    /// Attaches and mounts the disk.
    ReattachDisk,
    /// Mounts the disk.
    MountDisk,
    /// Forgets the record of the disk.
    DeleteDiskReference,
}

impl Repair {
    /// All repairs.
    pub const ALL: [Repair; 5] = [
        Repair::RebootVm,
        Repair::RecreateVm,
        Repair::ReattachDisk,
        Repair::MountDisk,
        Repair::DeleteDiskReference,
    ];

    /// Returns its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Repair::RebootVm => "reboot_vm",
            Repair::RecreateVm => "recreate_vm",
            Repair::ReattachDisk => "reattach_disk",
            Repair::MountDisk => "mount_disk",
            Repair::DeleteDiskReference => "delete_disk_reference",
        }
    }

    /// Returns true if the repair may be made without asking: it loses no disk. [`Repair::RecreateVm`] is
    /// offered for a VM that does not exist or does not work, and deletes what is left of it.
    pub fn is_safe(self) -> bool {
        match self {
            Repair::RebootVm | Repair::RecreateVm | Repair::ReattachDisk | Repair::MountDisk => true,
            Repair::DeleteDiskReference => false,
        }
    }

    /// Describes the repair of this problem: "reboot VM 'vm-1'".
    fn describe(self, problem: &Problem) -> String {
        let handle = &problem.subject;
        match self {
            Repair::RebootVm => format!("reboot VM {handle}"),
            Repair::RecreateVm => format!("create a new VM in place of VM {handle}"),
            Repair::ReattachDisk => format!("attach disk {handle}"),
            Repair::MountDisk => format!("mount disk {handle}"),
            Repair::DeleteDiskReference => format!("forget disk {handle}"),
        }
    }

    /// Returns the question to ask the operator.
    pub fn question(self, choice: &RepairChoice<'_>) -> String {
        let handle = &choice.problem.subject;
        match self {
            Repair::RebootVm => "Reboot the VM?".to_owned(),
            Repair::RecreateVm if choice.has_disk => {
                "Create a new VM in its place (the persistent disk keeps its data)?".to_owned()
            }
            Repair::RecreateVm => "Create a new VM in its place?".to_owned(),
            Repair::ReattachDisk if !choice.has_jobs => {
                format!("No jobs are deployed to the VM. Attach disk {handle} to it?")
            }
            Repair::MountDisk if !choice.has_jobs => {
                format!("No jobs are deployed to the VM. Mount disk {handle} on it?")
            }
            Repair::ReattachDisk => {
                format!("Stop the jobs, attach disk {handle} to the VM, and start the jobs again?")
            }
            Repair::MountDisk => format!("Stop the jobs, mount disk {handle}, and start the jobs again?"),
            Repair::DeleteDiskReference => {
                format!("The next VM gets a new, empty disk. Forget disk {handle}?")
            }
        }
    }
}

/// A problem that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Its kind.
    pub kind: ProblemKind,
    /// The affected VM, disk or call.
    #[serde(flatten)]
    pub subject: ProblemSubject,
    /// A description as text.
    pub description: String,
    /// The problem in a few words, if the description has more.
    #[serde(skip)]
    pub short_description: Option<String>,
    /// The possible repairs, the least disruptive first.
    pub repairs: Vec<Repair>,
}

impl Problem {
    /// Returns the problem in a few words: "disk 'disk-1' is not mounted on the VM".
    fn short_text(&self) -> &str {
        self.short_description.as_deref().unwrap_or(&self.description)
    }
}

/// The VM, disk or call that a problem affects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum ProblemSubject {
    /// A VM.
    Vm(VmHandle),
    /// A disk on record, or one that the agent has mounted.
    Disk(DiskHandle),
    /// A failed call.
    Call(FailedCall),
}

/// A failed call that made something whose CID is unknown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FailedCall {
    /// The id of the call.
    pub request_id: String,
    /// The name of the CPI; `None` for the default CPI.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpi: Option<String>,
}

impl ProblemSubject {
    /// Returns the resource; `None` for a call.
    fn resource(&self) -> Option<Resource> {
        match self {
            ProblemSubject::Vm(vm) => Some(vm.clone().into()),
            ProblemSubject::Disk(disk) => Some(disk.clone().into()),
            ProblemSubject::Call(_) => None,
        }
    }
}

impl fmt::Display for ProblemSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProblemSubject::Vm(vm) => vm.fmt(f),
            ProblemSubject::Disk(disk) => disk.fmt(f),
            ProblemSubject::Call(call) => write!(f, "request {}", call.request_id),
        }
    }
}

/// A problem with the repairs that were tried.
#[derive(Debug, Serialize)]
pub struct TreatedProblem {
    /// The problem.
    #[serde(flatten)]
    pub problem: Problem,
    /// The repairs that were tried, in order.
    pub attempts: Vec<RepairAttempt>,
    /// True if the problem is gone.
    #[serde(rename = "solved")]
    pub is_solved: bool,
    /// True if the operator declined the repairs that were left.
    #[serde(skip)]
    pub is_declined: bool,
}

impl TreatedProblem {
    /// Returns the possible repairs that were not tried yet.
    fn untried(&self) -> impl Iterator<Item = Repair> {
        let is_new = |repair: &Repair| !self.attempts.iter().any(|attempt| attempt.repair == *repair);
        self.problem.repairs.iter().copied().filter(is_new)
    }
}

/// A problem for which a repair is to be chosen.
pub struct RepairChoice<'a> {
    /// The problem.
    pub problem: &'a Problem,
    /// The untried repairs, the least disruptive first.
    pub repairs: &'a [Repair],
    /// True if the VM has a persistent disk.
    pub has_disk: bool,
    /// False if no jobs were deployed to the VM.
    pub has_jobs: bool,
}

/// The answer to a [`RepairChoice`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// The operator chose this repair.
    Repair(Repair),
    /// The operator declined all of them.
    Declined,
    /// The problem stays as it is, because no repair was requested.
    Leave,
}

/// An attempted repair.
#[derive(Debug, Serialize)]
pub struct RepairAttempt {
    /// The repair.
    pub repair: Repair,
    /// The error, if it failed.
    pub error: Option<String>,
}

/// The result of a cloud-check.
#[derive(Debug, Default)]
pub struct CloudCheckResult {
    /// All problems that were found.
    pub problems: Vec<TreatedProblem>,
    /// Hints for the operator about problems that no repair solves.
    hints: Vec<String>,
    /// True if the agent failed at an address that is not on record, so the VM may be healthy.
    has_other_address: bool,
    /// The error of the deploy that was to create a new VM, if it failed.
    failed_deploy: Option<Error>,
    /// True if a resource or a call is on record.
    is_anything_on_record: bool,
    /// True if a VM is on record.
    has_vm: bool,
    /// The resources that are still to be deleted, such as "stemcell 'stem-1'".
    undeleted: Vec<String>,
    /// Descriptions of what failed calls may have created.
    suspects: Vec<String>,
    /// The resources about which the CPI could not be asked.
    unchecked_resources: UncheckedResources,
    /// The change of the VM that did not finish.
    unfinished_change: Option<UnfinishedChange>,
}

/// Chooses among the untried repairs of a problem.
pub(super) type ChooseRepair<'a> = &'a mut dyn FnMut(&RepairChoice<'_>) -> Result<Decision>;

/// The hints for a disk that is lost.
const FORGET_DISK_HINTS: [&str; 2] = [
    "only if the IaaS does not show the disk, forget its record: `monopile cloud-check MANIFEST --resolution \
     delete_disk_reference`",
    "then deploy with an empty disk: `monopile create-env MANIFEST`",
];

impl CloudCheckResult {
    /// Returns the error for unsolved problems, or else for what could not be checked, or for a change that
    /// did not finish. The caller shows the problems themselves.
    pub fn remaining_error(&self) -> Option<Error> {
        self.unsolved_error()
            .or_else(|| self.unchecked_resources.unchecked_error())
            .or_else(|| self.unfinished_change.map(UnfinishedChange::error))
    }

    /// Returns the verdict if no problem was found.
    pub fn summary_without_problems(&self) -> Option<String> {
        let verdict = match self {
            CloudCheckResult { problems, .. } if !problems.is_empty() => return None,
            CloudCheckResult { is_anything_on_record: false, .. } => {
                "Nothing is on record, so there is nothing to check."
            }
            CloudCheckResult { unchecked_resources, .. } if !unchecked_resources.is_empty() => {
                "No problem found, but not everything could be checked."
            }
            CloudCheckResult { has_vm: false, suspects, .. } if !suspects.is_empty() => "No VM is on record.",
            CloudCheckResult { has_vm: false, .. } => {
                "No VM is on record, and no problem was found with the rest."
            }
            CloudCheckResult { unfinished_change: Some(unfinished_change), .. } => {
                &format!("VM, agent and disks are as recorded, but {}.", unfinished_change.description())
            }
            CloudCheckResult { suspects, .. } if !suspects.is_empty() => {
                "VM, agent and disks are as recorded."
            }
            CloudCheckResult { .. } => "No problem found with VM, agent and disks.",
        };
        let mut lines = vec![verdict.to_owned()];
        if !self.undeleted.is_empty() {
            let undeleted = text::comma_list(&self.undeleted);
            lines.push(format!(
                "Still to be deleted: {undeleted}. The next create-env or delete-env tries again."
            ));
        }
        if !self.suspects.is_empty() {
            lines.push(format!(
                "Failed calls may have created {}. Look for it in the IaaS: `monopile state show MANIFEST` \
                 has the details. Then forget the records: `monopile state forget MANIFEST --failed-calls`",
                text::comma_list(&self.suspects)
            ));
        }
        Some(lines.join("\n"))
    }

    fn unsolved_error(&self) -> Option<Error> {
        let unsolved_problems: Vec<&TreatedProblem> =
            self.problems.iter().filter(|treated_problem| !treated_problem.is_solved).collect();
        let first_problem = unsolved_problems.first()?;
        let problems: Vec<&str> =
            unsolved_problems.iter().map(|treated_problem| treated_problem.problem.short_text()).collect();
        let error = Error::new(ErrorKind::Drift, format!("not repaired: {}", text::comma_list(&problems)));
        // The repair that just failed would fail again, until its cause is corrected.
        if let Some(failed_deploy) = &self.failed_deploy {
            return Some(error.with_advice_of(failed_deploy).with_retry_hint());
        }
        let error = self.unchecked_resources.explain(error).with_hints(&self.hints);
        let error = match first_problem.untried().find(|repair| repair.is_safe()) {
            Some(repair) if !self.has_other_address => error.with_hint(format!(
                "to repair it without a question: `monopile cloud-check MANIFEST --resolution {}`",
                repair.name()
            )),
            _ => error,
        };
        let is_lost = |treated_problem: &&TreatedProblem| {
            treated_problem.problem.repairs.contains(&Repair::DeleteDiskReference)
        };
        Some(match unsolved_problems.iter().any(is_lost) {
            true => error.with_hints(FORGET_DISK_HINTS),
            false if error.hints().is_empty() => error.with_hint(
                "see everything on record with its actual status: `monopile cloud-check MANIFEST --report`",
            ),
            false => error,
        })
    }

    /// Returns the names of the repairs that were made.
    fn made_repairs(&self) -> Vec<&'static str> {
        let attempts = self.problems.iter().flat_map(|treated_problem| &treated_problem.attempts);
        attempts.filter(|attempt| attempt.error.is_none()).map(|attempt| attempt.repair.name()).collect()
    }

    /// Returns true if `--auto` could solve one of the unsolved problems. Returns false if the VM may be
    /// healthy at another address, or if a new VM could not be deployed.
    pub fn has_safe_repairs(&self) -> bool {
        if self.has_other_address || self.failed_deploy.is_some() {
            return false;
        }
        let is_safe = |treated_problem: &TreatedProblem| treated_problem.untried().any(Repair::is_safe);
        self.problems.iter().any(|treated_problem| !treated_problem.is_solved && is_safe(treated_problem))
    }
}

/// Compares everything on record with the answers of the CPI and the agent. Changes nothing, not even the
/// state.
pub fn create_report(request: &ReportRequest, run: &RunContext) -> Result<CloudReport> {
    let store = repair::open(run)?;
    let open_calls = store.read_open_calls::<Effect>()?;
    let validating = run.reporter.begin_stage("Validating");
    let (check_inputs, _) = CloudCheckInputs::load(request, run, store.state(), &validating)?;
    // Renames by `migrated_from` apply here; the next run that changes something records them.
    let (state, _) = cpi_set::apply_migrated_from(check_inputs.cpi_inputs.config.as_ref(), store.state())?;
    let probe = Probe::open(request, run, &check_inputs, state, store)?;
    probe.executor.cpis().install_all_of(&probe.state, &validating)?;
    validating.finish();
    let Diagnosis {
        mut findings, mut hints, has_other_address, unchecked_resources, unfinished_change, ..
    } = diagnose::diagnose(&probe, request.agent_timeout)?;
    for (intent, call) in &open_calls {
        let (cid, cpi) = (intent.request_id.to_string(), intent.cpi.as_deref());
        let method = &intent.method;
        let (status, detail) = match open_calls::read_status(&probe.state, intent, call)? {
            OpenCallStatus::Settles => (
                FindingStatus::Unknown,
                format!(
                    "`{method}` of an earlier run: the next create-env or delete-env records its outcome"
                ),
            ),
            OpenCallStatus::Running => (
                FindingStatus::Unknown,
                format!(
                    "`{method}` of an earlier run is still running: the next create-env or delete-env waits \
                     for it"
                ),
            ),
            OpenCallStatus::Unknown => {
                hints.extend(instructions_to_forget(intent));
                let possible_creation = intent.effect.describe_in_iaas();
                (FindingStatus::Drifted, format!("it may have created {possible_creation}"))
            }
        };
        let short_description = match status {
            FindingStatus::Drifted => Some(format!("the outcome of `{method}` is unknown")),
            FindingStatus::AsRecorded | FindingStatus::Unknown => None,
        };
        let call_finding = Finding::new(finding::OPEN_CALL, cid, cpi, status, detail);
        findings.push(Finding { short_description, ..call_finding });
    }
    Ok(CloudReport { findings, hints, has_other_address, unchecked_resources, unfinished_change })
}

/// Finds problems, and makes the repairs that `choose` selects.
pub fn cloud_check(
    request: &CloudCheckRequest,
    run: &RunContext,
    choose: ChooseRepair<'_>,
) -> Result<CloudCheckResult> {
    let mut result = CloudCheckResult::default();
    match check_and_repair(request, run, choose, &mut result) {
        Ok(()) => Ok(result),
        Err(error) if result.made_repairs().is_empty() => Err(error),
        Err(error) => {
            Err(error.with_note(format!("repairs made before: {}", result.made_repairs().join(", "))))
        }
    }
}

/// Adds the problems and repairs to `result`, also if it fails.
fn check_and_repair(
    request: &CloudCheckRequest,
    run: &RunContext,
    choose: ChooseRepair<'_>,
    result: &mut CloudCheckResult,
) -> Result<()> {
    let mut has_recreated_vm = false;
    for number in 1.. {
        signals::check_may_continue(run)?;
        let check_run = with_own_scratch(run, &format!("look-{number}"))?;
        let (store, check_inputs, deployment) = repair::prepare(request, &check_run)?;
        let mut context =
            repair::RepairContext::open(request, &check_run, &check_inputs, &deployment, store)?;
        let Diagnosis {
            findings,
            problems,
            hints,
            has_other_address,
            unchecked_resources,
            unfinished_change,
            has_jobs,
        } = diagnose::diagnose(&context.probe, request.agent_timeout)?;
        result.hints = hints;
        result.has_other_address = has_other_address;
        result.is_anything_on_record = !findings.is_empty();
        let state = &context.probe.state;
        result.has_vm = state.vm_handle().is_some();
        let undeleted = state.monopile.undeleted.iter();
        result.undeleted = undeleted.map(|undeleted| undeleted.resource.to_string()).collect();
        let suspects = SuspectGroup::all(&state.monopile.suspects);
        result.suspects = suspects.iter().map(SuspectGroup::short_text).collect();
        result.unchecked_resources = unchecked_resources;
        result.unfinished_change = unfinished_change;
        for treated_problem in &mut result.problems {
            treated_problem.is_solved =
                !problems.iter().any(|problem| is_same(problem, &treated_problem.problem));
        }
        let mut choice = None;
        for problem in problems {
            let index = match result
                .problems
                .iter()
                .position(|treated_problem| is_same(&treated_problem.problem, &problem))
            {
                Some(index) => {
                    // Other repairs may be possible than before.
                    result.problems[index].problem = problem;
                    index
                }
                None => {
                    result.problems.push(TreatedProblem {
                        problem,
                        attempts: Vec::new(),
                        is_solved: false,
                        is_declined: false,
                    });
                    result.problems.len() - 1
                }
            };
            let treated_problem = &mut result.problems[index];
            // A new VM has another CID, so its problem counts as a new one. Without a limit, a CPI that
            // denies every VM would get one after the other.
            let is_possible = |repair: &Repair| !(has_recreated_vm && *repair == Repair::RecreateVm);
            let possible_repairs: Vec<Repair> = treated_problem.untried().filter(is_possible).collect();
            if possible_repairs.is_empty() {
                continue;
            }
            let has_disk = context.probe.executor.state().current_disk().is_some();
            let repair_choice = RepairChoice {
                problem: &treated_problem.problem,
                repairs: &possible_repairs,
                has_disk,
                has_jobs,
            };
            match choose(&repair_choice)? {
                Decision::Repair(repair) => {
                    choice = Some((index, repair));
                    break;
                }
                Decision::Declined => treated_problem.is_declined = true,
                Decision::Leave => {}
            }
        }
        let Some((index, repair)) = choice else { break };
        has_recreated_vm |= repair == Repair::RecreateVm;
        let treated_problem = &mut result.problems[index];
        let outcome = context.repair(&treated_problem.problem, repair);
        let state = context.probe.executor.state().clone();
        drop(context);
        let outcome = match outcome {
            // A separate run creates the new VM, so the lock must be free again. The operator has already
            // confirmed it.
            Ok(repair::RepairOutcome::NeedsNewVm) => {
                let recreate_run = with_own_scratch(run, &format!("new-vm-{number}"))?;
                let vm_is_gone = treated_problem.problem.kind == ProblemKind::MissingVm;
                let request = CreateEnvRequest { vm_is_gone, ..request.deploy.clone() };
                recreate_even_unfinished(&request, &RunContext { confirm: None, ..recreate_run }, &state)
                    .map(drop)
            }
            outcome => outcome.map(drop),
        };
        let mut failed_deploy = None;
        let error = match outcome {
            Ok(()) => None,
            Err(error) if matches!(error.kind(), ErrorKind::Interrupted(_)) => {
                let has_hint = !error.hints().is_empty();
                let error = error.context(format!("repair '{}' was interrupted", repair.name()));
                return Err(match has_hint {
                    true => error,
                    false => error.with_rerun_hint("to continue: `monopile SAME-COMMAND`"),
                });
            }
            Err(error) if error.kind() == ErrorKind::InvalidInput => return Err(error),
            Err(error) => {
                let text = error.chain().join(": ");
                run.reporter.warn(format!("repair '{}' failed: {text}", repair.name()));
                failed_deploy = (repair == Repair::RecreateVm).then_some(error);
                Some(text)
            }
        };
        treated_problem.attempts.push(RepairAttempt { repair, error });
        // The VM may be another one now, or gone, and its deploy is not finished: the next deploy continues.
        if failed_deploy.is_some() {
            result.failed_deploy = failed_deploy;
            break;
        }
    }
    Ok(())
}

/// Returns the run context with a scratch directory of its own, because the same directory cannot be unpacked
/// into twice.
fn with_own_scratch(run: &RunContext, name: &str) -> Result<RunContext> {
    let scratch = run.paths.scratch.join(name);
    create_private_directory(&scratch)?;
    let paths = Paths { scratch, ..run.paths.clone() };
    Ok(RunContext { paths, ..run.clone() })
}

fn is_same(one: &Problem, other: &Problem) -> bool {
    one.kind == other.kind && one.subject == other.subject
}
