//! Diagnoses problems from the answers of CPI and agent.

use std::time::Duration;

use serde_json::json;

use super::repair::CheckContext;
use super::{Affected, Problem, ProblemKind, Repair};
use crate::agent::{AgentError, ForeignAgent};
use crate::cpi::{Answer, CpiError, Method};
use crate::cpis::{Presence, of_cpi};
use crate::protocol::DiskCid;
use crate::state::{Disk, DiskHandle, Resource, VmHandle};
use base::Result;

/// The disks that are attached and mounted.
struct DiskLocations {
    /// The disks that the CPI has attached; none if it cannot tell.
    attached: Option<Vec<DiskCid>>,
    /// The disks that the agent has mounted.
    mounted: Vec<DiskCid>,
}

/// Checks VM, agent and disks.
pub(super) fn diagnose(context: &CheckContext<'_>, patience: Duration) -> Result<Vec<Problem>> {
    let state = context.executor.state();
    let looking = context.environment.reporter.stage("Looking at VM and disks");
    let mut problems = Vec::new();
    let mut attachable = true;
    for disk in &state.disks {
        let handle = disk.handle();
        if context.executor.presence(&looking, &Resource::Disk(handle.clone()))? == Presence::Gone {
            attachable &= disk.id != state.current_disk_id;
            problems.push(Problem {
                kind: ProblemKind::MissingDisk,
                description: format!("disk {handle} does not exist, and what was on it is lost"),
                affected: Affected::Disk(handle),
                repairs: vec![Repair::DeleteDiskReference],
            });
        }
    }
    if let Some(vm) = state.vm_handle() {
        let mut of_vm = match context.executor.presence(&looking, &Resource::Vm(vm.clone()))? {
            Presence::Gone => vec![Problem {
                kind: ProblemKind::MissingVm,
                description: format!("VM {vm} does not exist"),
                affected: Affected::Vm(vm),
                repairs: vec![Repair::RecreateVm],
            }],
            Presence::There | Presence::Unknown(_) => match agent(context, &vm, patience)? {
                Err(problem) => vec![problem],
                Ok(mounted) => {
                    let locations = DiskLocations { attached: attached(context, &looking, &vm)?, mounted };
                    // A disk of another CPI is part of an unfinished move, which create-env completes.
                    let disk = state.current_disk().map(Disk::handle);
                    let disk = disk.filter(|disk| attachable && disk.cpi == vm.cpi);
                    disk.and_then(|disk| disk_problem(disk, &locations)).into_iter().collect()
                }
            },
        };
        // Without its disk on record, a new VM cannot be deployed.
        of_vm.iter_mut().filter(|_| !attachable).for_each(|problem| {
            problem.repairs.retain(|repair| *repair != Repair::RecreateVm);
        });
        problems.extend(of_vm);
    }
    looking.finish();
    Ok(problems)
}

/// Asks the VM's own agent for its mounted disks.
fn agent(
    context: &CheckContext<'_>,
    vm: &VmHandle,
    patience: Duration,
) -> Result<Result<Vec<DiskCid>, Problem>> {
    let asking = context.environment.reporter.stage("Asking the agent");
    let expected = context.executor.state().vm().map(|record| record.agent_id.clone());
    let answer = context
        .agent
        .wait_until_ready(patience, &mut |problem| asking.log_line(problem))
        .and_then(|()| expected.map_or(Ok(None), |expected| ForeignAgent::ask(&context.agent, &expected)));
    let problem = |kind, description, repairs| {
        let affected = Affected::Vm(vm.clone());
        Problem { kind, affected, description, repairs }
    };
    match answer {
        Ok(None) => {
            let mounted = context.agent.list_disk()?;
            asking.finish();
            Ok(Ok(mounted))
        }
        Ok(Some(other)) => Ok(Err(problem(
            ProblemKind::ForeignAgent,
            format!(
                "another VM answers at {}: {other}; find and remove it in the IaaS",
                context.agent.address()
            ),
            Vec::new(),
        ))),
        Err(error @ AgentError::Interrupted { .. }) => Err(error.into()),
        Err(error) => {
            // Rebooting does not help if the agent is reachable but refuses.
            let repairs = match error.may_pass() {
                true => vec![Repair::RebootVm, Repair::RecreateVm],
                false => vec![Repair::RecreateVm],
            };
            let description = format!("the agent of VM {vm} does not answer: {error}");
            Ok(Err(problem(ProblemKind::UnresponsiveAgent, description, repairs)))
        }
    }
}

/// Asks the CPI for the disks attached to the VM; none if it cannot tell.
fn attached(
    context: &CheckContext<'_>,
    stage: &base::events::Stage,
    vm: &VmHandle,
) -> Result<Option<Vec<DiskCid>>> {
    match context.executor.ask(vm.cpi(), stage, Method::GetDisks, vec![json!(vm.cid)])? {
        Ok(Answer::Disks(cids)) => Ok(Some(cids)),
        Ok(_) => Ok(None),
        Err(error @ CpiError::Abandoned { .. }) => Err(of_cpi(vm.cpi(), error)),
        Err(error) => {
            stage.log_line(error.to_string());
            Ok(None)
        }
    }
}

/// Returns the problem of a disk that is not attached or not mounted.
fn disk_problem(disk: DiskHandle, locations: &DiskLocations) -> Option<Problem> {
    let has = |cids: &[DiskCid]| cids.contains(&disk.cid);
    let problem = |kind, description: &str, repair| Problem {
        kind,
        description: format!("disk {disk} {description}"),
        affected: Affected::Disk(disk.clone()),
        repairs: vec![repair],
    };
    match (locations.attached.as_deref().map(has), has(&locations.mounted)) {
        (Some(false), _) => {
            Some(problem(ProblemKind::DetachedDisk, "is not attached to the VM", Repair::ReattachDisk))
        }
        // If the CPI cannot tell, the disk is only mounted: not every IaaS accepts the attachment of an
        // attached disk.
        (Some(true) | None, false) => {
            Some(problem(ProblemKind::UnmountedDisk, "is not mounted on the VM", Repair::MountDisk))
        }
        (Some(true) | None, true) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detached_and_unmounted_disks_are_problems() {
        let of = |attached: Option<&[&str]>, mounted: &[&str]| {
            let owned = |cids: &[&str]| cids.iter().map(|cid| cid.parse().unwrap()).collect::<Vec<_>>();
            disk_problem(
                DiskHandle::new("d".parse().unwrap(), None),
                &DiskLocations { attached: attached.map(owned), mounted: owned(mounted) },
            )
            .map(|problem| (problem.kind, problem.repairs))
        };
        assert_eq!(of(Some(&["d"]), &["d"]), None);
        assert_eq!(of(None, &["d"]), None);
        let detached = Some((ProblemKind::DetachedDisk, vec![Repair::ReattachDisk]));
        assert_eq!(of(Some(&["e"]), &[]), detached);
        assert_eq!(of(Some(&[]), &["d"]), detached);
        let unmounted = Some((ProblemKind::UnmountedDisk, vec![Repair::MountDisk]));
        assert_eq!(of(Some(&["d"]), &["e"]), unmounted);
        assert_eq!(of(None, &[]), unmounted);
    }
}
