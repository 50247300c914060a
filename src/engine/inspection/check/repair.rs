//! Repairs problems, with the state locked and every effect announced in the journal.

use serde_json::json;

use super::probe::{CloudCheckInputs, Probe};
use super::{CloudCheckRequest, Problem, ProblemSubject, Repair};
use crate::agent_client::{ForeignAgent, StopReason};
use crate::cpi::Method;
use crate::cpi_set::{self, with_cpi_context};
use crate::deploy::disk::{self, AttachSettings};
use crate::effects::{Effect, RunRegistry};
use crate::jobs::{AgentState, Jobs};
use crate::recovery;
use crate::run_context::RunContext;
use crate::run_context::state_lock::{self, no_state_error};
use crate::state::{Change, DiskHandle, Resource, Store, VmHandle};
use base::events::{Event, Stage};
use base::{Error, Result};
use manifest::Deployment;

/// A locked environment with everything needed to diagnose and repair it.
pub(super) struct RepairContext<'a> {
    pub(super) probe: Probe<'a>,
    request: &'a CloudCheckRequest,
    deployment: &'a Deployment,
    registry: Option<RunRegistry<'a>>,
}

/// The result of a repair that did not fail.
pub(super) enum RepairOutcome {
    Done,
    /// A new VM must be created, in a run of its own.
    NeedsNewVm,
}

/// Locks the state, settles open calls, and reads the manifest.
pub(super) fn prepare(
    request: &CloudCheckRequest,
    run: &RunContext,
) -> Result<(Store, CloudCheckInputs, Deployment)> {
    let deploy = &request.deploy;
    let mut store = open(run)?;
    recovery::settle_open_calls(run, &deploy.inputs, &mut store, deploy.forget_open_calls)?;
    let validating = run.reporter.begin_stage("Validating");
    let (check_inputs, manifest) =
        CloudCheckInputs::load(&request.report_request(), run, store.state(), &validating)?;
    let deployment = manifest.deployment()?;
    cpi_set::record_migrated_from(run, check_inputs.cpi_inputs.config.as_ref(), &mut store)?;
    validating.finish();
    Ok((store, check_inputs, deployment))
}

/// Locks the state. Fails if it does not exist, unless a run was interrupted before it wrote one.
pub(super) fn open(run: &RunContext) -> Result<Store> {
    let store = state_lock::open(run, "cloud-check")?;
    match store.has_state() || !store.read_open_calls::<Effect>()?.is_empty() {
        true => Ok(store),
        false => Err(no_state_error(store.storage())),
    }
}

impl<'a> RepairContext<'a> {
    /// Connects the CPI of the VM, or of another resource if there is none, and starts its registry.
    pub(super) fn open(
        request: &'a CloudCheckRequest,
        run: &'a RunContext,
        check_inputs: &'a CloudCheckInputs,
        deployment: &'a Deployment,
        store: Store,
    ) -> Result<Self> {
        let state = store.state().clone();
        let mut probe = Probe::open(&request.report_request(), run, check_inputs, state, store)?;
        // The first resource on record is the VM, if there is one.
        let first_cpi = probe.state.resources().next().and_then(|resource| resource.cpi().map(str::to_owned));
        let contract = probe.executor.cpis().connect_in_own_stage(first_cpi.as_deref())?.contract();
        let registry = RunRegistry::start(
            run,
            &check_inputs.cpi_inputs.provider,
            &request.deploy.inputs.manifest,
            contract,
            &mut probe.executor,
        )?;
        Ok(RepairContext { probe, request, deployment, registry })
    }

    /// Makes the chosen repair.
    pub(super) fn repair(&mut self, problem: &Problem, repair: Repair) -> Result<RepairOutcome> {
        // A new VM has the steps of a plan.
        if repair != Repair::RecreateVm {
            self.probe.run.reporter.emit(Event::ChangeStarted);
        }
        let name = format!("Repairing: {}", repair.describe(problem));
        let repairing = self.probe.run.reporter.begin_stage(name);
        match (repair, &problem.subject) {
            (Repair::RecreateVm, _) => {
                repairing.skip("the deploy that follows does it");
                return Ok(RepairOutcome::NeedsNewVm);
            }
            (Repair::RebootVm, ProblemSubject::Vm(vm)) => self.reboot(vm, &repairing)?,
            (Repair::ReattachDisk | Repair::MountDisk, ProblemSubject::Disk(disk)) => {
                self.mount(disk, repair, &repairing)?;
            }
            (Repair::DeleteDiskReference, ProblemSubject::Disk(disk)) => {
                self.probe.executor.commit(Change::Forgotten(Resource::Disk(disk.clone())))?;
            }
            (Repair::RebootVm, ProblemSubject::Disk(_)) => {
                return Err(unsuitable_repair_error(repair, "disk"));
            }
            (
                Repair::ReattachDisk | Repair::MountDisk | Repair::DeleteDiskReference,
                ProblemSubject::Vm(_),
            ) => {
                return Err(unsuitable_repair_error(repair, "VM"));
            }
            (_, ProblemSubject::Call(_)) => return Err(unsuitable_repair_error(repair, "failed call")),
        }
        repairing.finish();
        Ok(RepairOutcome::Done)
    }

    fn reboot(&self, vm: &VmHandle, stage: &Stage) -> Result<()> {
        let rebooting = stage.reporter().begin_stage(format!("Rebooting VM {vm}"));
        let arguments = vec![json!(vm.cid)];
        let answer =
            self.probe.executor.call_unrecorded(vm.cpi(), &rebooting, Method::RebootVm, arguments)?;
        answer.map_err(|error| with_cpi_context(vm.cpi(), error))?;
        rebooting.finish();
        let wait_stage = stage.reporter().begin_stage(format!("Waiting for the agent on VM {vm}"));
        let timeout = self.request.deploy.boot_timeout;
        let tunnel = self
            .registry
            .as_ref()
            .and_then(|registry| registry.begin_tunnel(self.probe.executor.state(), timeout));
        self.probe.agent.wait_until_ready(timeout, &mut |problem| wait_stage.log_line(problem))?;
        drop(tunnel);
        self.check_own_agent()?;
        wait_stage.finish();
        // Jobs must not start without their disk. That is a problem of its own, which is found next.
        let disk = self.probe.executor.state().disk_of_vm().map(|disk| disk.cid.clone());
        if let Some(disk) = disk
            && !self.probe.agent.list_disk()?.contains(&disk)
        {
            return Ok(());
        }
        self.start_jobs(stage)
    }

    /// Attaches or mounts a disk. Stops the jobs first, so that they do not write below the mount point, but
    /// does not drain them, because their data is on the lost disk.
    fn mount(&mut self, disk: &DiskHandle, repair: Repair, stage: &Stage) -> Result<()> {
        self.check_own_agent()?;
        if self.fetch_has_jobs()? {
            self.jobs().stop(None, StopReason::Stop, stage)?;
        }
        let timeout = self.request.deploy.boot_timeout;
        if repair == Repair::ReattachDisk {
            let attach_settings = AttachSettings { deployment: self.deployment, timeout };
            let probe = &mut self.probe;
            let reason = "it is not attached (cloud-check)";
            disk::attach(&attach_settings, &mut probe.executor, &probe.agent, disk, reason, stage, &|| ())?;
        } else {
            let mounting = stage.reporter().begin_stage(format!("Mounting disk {disk}"));
            disk::mount(&self.probe.executor, &self.probe.agent, disk)?;
            mounting.finish();
        }
        self.start_jobs(stage)
    }

    /// Returns false if no jobs were deployed to the VM, so that none can be stopped or started.
    fn fetch_has_jobs(&self) -> Result<bool> {
        Ok(!AgentState::fetch_lacks_jobs(&self.probe.agent, self.probe.executor.state())?)
    }

    fn start_jobs(&self, stage: &Stage) -> Result<()> {
        if !self.fetch_has_jobs()? {
            return Ok(());
        }
        self.jobs().start(self.deployment, stage)
    }

    /// Checks that the agent is the VM's own, so that no other agent gets instructions.
    fn check_own_agent(&self) -> Result<()> {
        ForeignAgent::check(&self.probe.agent, self.probe.executor.state())
    }

    fn jobs(&self) -> Jobs<'_> {
        let instance = format!("instance '{}'", self.deployment.instance());
        Jobs { run: self.probe.run, agent: &self.probe.agent, instance, has_run_before: true }
    }
}

fn unsuitable_repair_error(repair: Repair, kind: &str) -> Error {
    Error::failure(format!("'{}' does not repair a {kind}", repair.name()))
}
