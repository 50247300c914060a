//! Repairs problems, with the state locked and every effect announced in the journal.

use serde_json::json;

use super::{Affected, CloudCheck, Problem, Repair};
use crate::agent::{Agent, Before, Endpoint, ForeignAgent, connect, endpoint};
use crate::cpi::Method;
use crate::cpis::{self, Cpis, OwnedParts, of_cpi};
use crate::deploy::disk;
use crate::effects::{Executor, Registry};
use crate::environment::Environment;
use crate::environment::lock::{self, no_state};
use crate::jobs::Jobs;
use crate::state::{Change, DiskHandle, Resource, Store, VmHandle};
use crate::{prepare, recovery};
use base::events::Stage;
use base::{Error, Result};
use manifest::Deployment;

/// A locked environment with everything needed to diagnose and repair it.
pub(super) struct CheckContext<'a> {
    pub(super) environment: &'a Environment,
    pub(super) executor: Executor<'a>,
    pub(super) agent: Agent,
    request: &'a CloudCheck,
    deployment: &'a Deployment,
    registry: Option<Registry<'a>>,
}

/// The inputs of a check, read from the manifest.
pub(super) struct CheckInputs {
    deployment: Deployment,
    endpoint: Endpoint,
    cpi_parts: OwnedParts,
}

/// The outcome of a repair.
pub(super) enum Outcome {
    /// The repair is done.
    Done,
    /// A new VM must be created, in a run of its own.
    NeedsNewVm,
}

impl CheckInputs {
    /// Locks the state, settles open calls, and reads the manifest.
    pub(super) fn open(request: &CloudCheck, environment: &Environment) -> Result<(Store, Self)> {
        let deploy = &request.deploy;
        let mut store = lock::open(environment, "cloud-check")?;
        if !store.exists() {
            return Err(no_state(store.storage()));
        }
        recovery::settle_open_calls(environment, &deploy.inputs, &mut store, deploy.forget_open_calls)?;
        let validating = environment.reporter.stage("Validating");
        let loaded = prepare::load(environment, &deploy.inputs)?;
        let deployment = loaded.deployment()?;
        let cpi_parts =
            OwnedParts::open(environment, &deploy.inputs, deploy.templates, &loaded, &validating)?;
        let endpoint = endpoint(environment, &cpi_parts.provider)?;
        cpis::rename(environment, cpi_parts.config.as_ref(), &mut store)?;
        validating.finish();
        Ok((store, CheckInputs { deployment, endpoint, cpi_parts }))
    }
}

impl<'a> CheckContext<'a> {
    /// Connects the CPI of the VM; others follow when they are needed.
    pub(super) fn open(
        request: &'a CloudCheck,
        environment: &'a Environment,
        check_inputs: &'a CheckInputs,
        store: Store,
    ) -> Result<Self> {
        let deploy = &request.deploy;
        let cpis =
            Cpis::find(environment, check_inputs.cpi_parts.parts(), store.state(), deploy.cpi_api_version)?;
        // The CPI of the VM comes first.
        let first = store.state().resources().next().and_then(|vm| vm.cpi().map(str::to_owned));
        let first = first.as_deref();
        let contract = cpis.get(first)?.contract();
        let mut executor = Executor::new(environment, cpis, store);
        let manifest = &deploy.inputs.manifest;
        let registry = Registry::start(
            environment,
            &check_inputs.cpi_parts.provider,
            manifest,
            contract,
            &mut executor,
        )?;
        let agent = connect(environment, check_inputs.endpoint.clone(), executor.state());
        Ok(CheckContext {
            environment,
            executor,
            agent,
            request,
            deployment: &check_inputs.deployment,
            registry,
        })
    }

    /// Does the chosen repair.
    pub(super) fn repair(&mut self, problem: &Problem, repair: Repair) -> Result<Outcome> {
        let repairing = self.environment.reporter.stage(format!("Repairing: {}", problem.description));
        match (repair, &problem.affected) {
            (Repair::RecreateVm, _) => {
                repairing.finish();
                return Ok(Outcome::NeedsNewVm);
            }
            (Repair::RebootVm, Affected::Vm(vm)) => self.reboot(vm, &repairing)?,
            (Repair::ReattachDisk | Repair::MountDisk, Affected::Disk(disk)) => {
                self.mount(disk, repair, &repairing)?;
            }
            (Repair::DeleteDiskReference, Affected::Disk(disk)) => {
                self.executor.commit(Change::Forgotten(Resource::Disk(disk.clone())))?;
            }
            (Repair::RebootVm, Affected::Disk(_)) => return Err(not_for(repair, "disk")),
            (Repair::ReattachDisk | Repair::MountDisk | Repair::DeleteDiskReference, Affected::Vm(_)) => {
                return Err(not_for(repair, "VM"));
            }
        }
        repairing.finish();
        Ok(Outcome::Done)
    }

    fn reboot(&self, vm: &VmHandle, stage: &Stage) -> Result<()> {
        let rebooting = stage.reporter().stage(format!("Rebooting VM {vm}"));
        let asked = self.executor.ask(vm.cpi(), &rebooting, Method::RebootVm, vec![json!(vm.cid)])?;
        asked.map_err(|error| of_cpi(vm.cpi(), error))?;
        rebooting.finish();
        let waiting = stage.reporter().stage(format!("Waiting for the agent on VM {vm}"));
        let patience = self.request.deploy.agent_timeout;
        let tunnel = self.registry.as_ref().and_then(|known| known.begin(self.executor.state(), patience));
        self.agent.wait_until_ready(patience, &mut |problem| waiting.log_line(problem))?;
        drop(tunnel);
        self.check_own()?;
        waiting.finish();
        // Jobs must not start without their disk. That is a problem of its own, which is found next.
        let disk = self.executor.state().current_disk().map(|disk| disk.cid.clone());
        if let Some(disk) = disk
            && !self.agent.list_disk()?.contains(&disk)
        {
            return Ok(());
        }
        self.jobs().start(self.deployment.update_watch_time, stage)
    }

    /// Attaches or mounts a disk. The jobs are stopped first, so that they do not write below the mount
    /// point, and without draining, because their data is on the lost disk.
    fn mount(&mut self, disk: &DiskHandle, repair: Repair, stage: &Stage) -> Result<()> {
        self.check_own()?;
        self.jobs().stop(None, Before::Stop, stage)?;
        let patience = self.request.deploy.agent_timeout;
        if repair == Repair::ReattachDisk {
            let (deployment, agent) = (self.deployment, &self.agent);
            // An agent that still has the lost disk mounted would not mount it again.
            if agent.list_disk()?.contains(&disk.cid) {
                agent.unmount_disk(&disk.cid)?;
            }
            let why = "it is not attached (cloud-check)";
            disk::attach(deployment, patience, &mut self.executor, agent, disk, why, stage)?;
        } else {
            let mounting = stage.reporter().stage(format!("Mounting disk {disk}"));
            disk::mount(&self.executor, &self.agent, disk)?;
            mounting.finish();
        }
        self.jobs().start(self.deployment.update_watch_time, stage)
    }

    /// Checks that the agent is the VM's own, so that no other agent gets instructions.
    fn check_own(&self) -> Result<()> {
        let Some(expected) = self.executor.state().vm().map(|vm| vm.agent_id.as_str()) else { return Ok(()) };
        match ForeignAgent::ask(&self.agent, expected)? {
            None => Ok(()),
            Some(other) => {
                Err(Error::environment(format!("the agent that answers is not the VM's own: {other}")))
            }
        }
    }

    fn jobs(&self) -> Jobs<'_> {
        let instance = self.deployment.instance();
        Jobs { environment: self.environment, agent: &self.agent, instance: format!("instance '{instance}'") }
    }
}

fn not_for(repair: Repair, what: &str) -> Error {
    Error::environment(format!("'{}' does not repair a {what}", repair.name()))
}
