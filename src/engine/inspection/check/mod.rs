//! `cloud-check`: what became of VM, agent and disks behind the program's back, and how it is put right.
//!
//! The CPI and the agent are asked; whoever called decides about each problem that has a remedy; after each repair
//! everything is looked at again, because one problem may have hidden another.

mod diagnose;
mod repair;

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::deploy::{CreateEnv, renew};
use crate::environment::{Environment, Paths, signals};
use crate::prepare::obtain::create_directory;
use crate::state::{DiskHandle, VmHandle};
use base::{Error, ErrorKind, Result};

/// `cloud-check`.
#[derive(Debug, Clone)]
pub struct CloudCheck {
    /// How a VM that has to be made again is made.
    pub deploy: CreateEnv,
    /// `--agent-timeout`: how long an agent may take to answer before it counts as dead.
    pub agent_timeout: Duration,
}

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProblemKind {
    /// The VM does not exist.
    MissingVm,
    /// The VM exists, and its agent does not answer.
    UnresponsiveAgent,
    /// Another VM's agent answers at its address.
    ForeignAgent,
    /// A disk does not exist.
    MissingDisk,
    /// A disk exists and is not attached to the VM.
    DetachedDisk,
    /// A disk is attached and the agent has not mounted it.
    UnmountedDisk,
}

/// What can be done about it. The names are those of `--resolution`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Repair {
    /// Boot the VM again.
    RebootVm,
    /// Make a new VM for what is deployed.
    RecreateVm,
    /// Attach and mount the disk.
    ReattachDisk,
    /// Mount the disk.
    MountDisk,
    /// Forget the disk.
    DeleteDiskReference,
}

impl Repair {
    /// Every one of them.
    pub const ALL: [Repair; 5] = [
        Repair::RebootVm,
        Repair::RecreateVm,
        Repair::ReattachDisk,
        Repair::MountDisk,
        Repair::DeleteDiskReference,
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Repair::RebootVm => "reboot_vm",
            Repair::RecreateVm => "recreate_vm",
            Repair::ReattachDisk => "reattach_disk",
            Repair::MountDisk => "mount_disk",
            Repair::DeleteDiskReference => "delete_disk_reference",
        }
    }

    /// Whether it can be done without asking: nothing is lost by it that is not lost already.
    pub fn is_safe(self) -> bool {
        self != Repair::DeleteDiskReference
    }

    /// As a question to whoever decides.
    pub fn question(self, problem: &Problem) -> String {
        let handle = &problem.affected;
        match self {
            Repair::RebootVm => format!("Reboot VM {handle}?"),
            Repair::RecreateVm => format!("Make a new VM in the place of {handle}?"),
            Repair::ReattachDisk => {
                format!("Stop the jobs, attach disk {handle} to the VM, and start the jobs again?")
            }
            Repair::MountDisk => format!("Stop the jobs, mount disk {handle}, and start the jobs again?"),
            Repair::DeleteDiskReference => {
                format!("Forget disk {handle}? The next VM that is made gets a new and empty one")
            }
        }
    }
}

/// Something that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// What is wrong.
    pub kind: ProblemKind,
    /// The VM or disk that it is about.
    #[serde(flatten)]
    pub affected: Affected,
    /// More, in words.
    pub description: String,
    /// What can be done about it, the gentlest first.
    pub repairs: Vec<Repair>,
}

/// The VM or disk that a problem is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Affected {
    /// A VM.
    Vm(VmHandle),
    /// A disk.
    Disk(DiskHandle),
}

impl fmt::Display for Affected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Affected::Vm(vm) => vm.fmt(f),
            Affected::Disk(disk) => disk.fmt(f),
        }
    }
}

/// A problem and what came of it.
#[derive(Debug, Serialize)]
pub struct Treated {
    /// The problem.
    #[serde(flatten)]
    pub problem: Problem,
    /// What was done, in order.
    pub tried: Vec<Tried>,
    /// Whether the problem is gone.
    pub solved: bool,
}

/// A repair that was tried.
#[derive(Debug, Serialize)]
pub struct Tried {
    /// Which.
    pub repair: Repair,
    /// Why it failed, if it did.
    pub error: Option<String>,
}

/// What came of it all.
#[derive(Debug, Default)]
pub struct CloudChecked {
    /// Every problem that was found.
    pub problems: Vec<Treated>,
}

/// Decides what is done about a problem with these repairs, none of which was tried yet; nothing, if none is chosen.
pub(super) type Choose<'a> = &'a mut dyn FnMut(&Problem, &[Repair]) -> Result<Option<Repair>>;

impl CloudChecked {
    /// The error for what is still wrong, if anything is.
    pub fn remaining(&self) -> Option<Error> {
        let left: Vec<&str> = self
            .problems
            .iter()
            .filter(|treated| !treated.solved)
            .map(|treated| treated.problem.description.as_str())
            .collect();
        (!left.is_empty()).then(|| Error::new(ErrorKind::Drift, left.join("; ")))
    }
}

/// Looks for problems and has those repaired that `choose` names a repair for.
pub fn cloud_check(
    request: &CloudCheck,
    environment: &Environment,
    choose: Choose<'_>,
) -> Result<CloudChecked> {
    let mut checked = CloudChecked::default();
    for number in 1.. {
        signals::check(environment)?;
        let here = apart(environment, &format!("look-{number}"))?;
        let (store, check_inputs) = repair::CheckInputs::open(request, &here)?;
        let mut context = repair::CheckContext::open(request, &here, &check_inputs, store)?;
        let problems = diagnose::diagnose(&context, request.agent_timeout)?;
        for treated in &mut checked.problems {
            treated.solved = !problems.iter().any(|problem| is_same(problem, &treated.problem));
        }
        let mut chosen = None;
        for problem in problems {
            let index = match checked.problems.iter().position(|known| is_same(&known.problem, &problem)) {
                Some(index) => {
                    // What can be done about it may be more than before.
                    checked.problems[index].problem = problem;
                    index
                }
                None => {
                    checked.problems.push(Treated { problem, tried: Vec::new(), solved: false });
                    checked.problems.len() - 1
                }
            };
            let treated = &checked.problems[index];
            let is_new = |repair: &Repair| !treated.tried.iter().any(|tried| tried.repair == *repair);
            let left: Vec<Repair> = treated.problem.repairs.iter().copied().filter(is_new).collect();
            if left.is_empty() {
                continue;
            }
            if let Some(repair) = choose(&treated.problem, &left)? {
                chosen = Some((index, repair));
                break;
            }
        }
        let Some((index, repair)) = chosen else { break };
        let treated = &mut checked.problems[index];
        let outcome = context.repair(&treated.problem, repair);
        let state = context.executor.state().clone();
        drop(context);
        let outcome = match outcome {
            // Only after the lock is free again: it is a run of its own. It has been agreed to.
            Ok(repair::Outcome::NeedsNewVm) => {
                let there = apart(environment, &format!("renewal-{number}"))?;
                renew(&request.deploy, &Environment { confirm: None, ..there }, &state).map(drop)
            }
            outcome => outcome.map(drop),
        };
        let error = match outcome {
            Ok(()) => None,
            Err(error) if matches!(error.kind(), ErrorKind::Interrupted(_) | ErrorKind::InvalidInput) => {
                return Err(error);
            }
            Err(error) => {
                let text = error.chain().join(": ");
                environment.reporter.warn(format!("'{}' did not help: {text}", repair.name()));
                Some(text)
            }
        };
        treated.tried.push(Tried { repair, error });
    }
    Ok(checked)
}

/// Scratch space of its own, for what cannot be unpacked twice into the same place.
fn apart(environment: &Environment, name: &str) -> Result<Environment> {
    let work = environment.paths.work.join(name);
    create_directory(&work)?;
    let paths = Paths { work, ..environment.paths.clone() };
    Ok(Environment { paths, ..environment.clone() })
}

fn is_same(one: &Problem, other: &Problem) -> bool {
    one.kind == other.kind && one.affected == other.affected
}
