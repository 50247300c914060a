//! The VM on record and its agent, for commands that only talk to a running VM.

use std::time::Duration;

use super::boot;
use crate::agent_client::{Agent, resolve_endpoint, wait_for_own_agent};
use crate::jobs::{AgentState, Jobs};
use crate::prepare;
use crate::record_commands;
use crate::run_context::{RunContext, state_lock};
use crate::state::{DiskRecord, Store, VmHandle};
use base::{Error, Result};
use manifest::{Deployment, Inputs};

/// A locked environment whose agent answers.
pub(super) struct ReachableEnvironment {
    pub(super) deployment: Deployment,
    agent: Agent,
    instance: String,
    store: Store,
    /// True if this run booted the VM.
    pub(super) was_booted: bool,
}

impl ReachableEnvironment {
    /// Finds the VM on record and waits until its own agent answers. `off_error` is the error for a VM of
    /// this machine that is off.
    pub(super) fn reach(
        run: &RunContext,
        inputs: &Inputs,
        command: &str,
        timeout: Duration,
        off_error: fn(&VmHandle) -> Error,
    ) -> Result<Self> {
        Self::find(run, inputs, command, timeout, false, off_error)
    }

    /// As [`ReachableEnvironment::reach`], and boots a VM of this machine that is off.
    pub(super) fn boot(run: &RunContext, inputs: &Inputs, command: &str, timeout: Duration) -> Result<Self> {
        Self::find(run, inputs, command, timeout, true, boot::off_error)
    }

    /// Opens the state, boots the VM if it is off and `boots_vm` is set, and connects to its agent. A VM that
    /// was booted gets the time of a boot to answer.
    fn find(
        run: &RunContext,
        inputs: &Inputs,
        command: &str,
        timeout: Duration,
        boots_vm: bool,
        off_error: fn(&VmHandle) -> Error,
    ) -> Result<Self> {
        let store = state_lock::open(run, command)?;
        if !store.has_state() {
            return Err(state_lock::no_state_error(store.storage()));
        }
        run.reporter.report_state(store.storage());
        let validating = run.reporter.begin_stage("Validating");
        let state = store.state();
        let manifest = prepare::load_deployed(run, inputs, state)?;
        let deployment = manifest.deployment()?;
        let provider = &deployment.cloud_provider;
        let endpoint = resolve_endpoint(run, provider)?;
        let vm = record_commands::vm_on_record(run, state)?;
        let was_booted = boots_vm && boot::boot_if_off(run, inputs, &manifest, state, &validating)?;
        validating.finish();

        let timeout = if was_booted { timeout.max(boot::BOOT_TIMEOUT) } else { timeout };
        let agent = wait_for_own_agent(run, endpoint, state, &vm, &(&manifest).into(), timeout)
            .map_err(|error| boot::explain_if_off(error, off_error, run, inputs, &manifest, state))
            .map_err(|error| record_commands::explain_deletion(error, run, &vm))?;
        let instance = state.vm().map_or_else(|| deployment.instance(), |vm| vm.instance.clone());
        let instance = format!("instance '{instance}'");
        Ok(ReachableEnvironment { deployment, agent, instance, store, was_booted })
    }

    /// Checks that jobs were deployed to the VM.
    pub(super) fn check_has_jobs(&self) -> Result<()> {
        if AgentState::fetch_lacks_jobs(&self.agent, self.store.state())? {
            let problem = format!("{} has no jobs: the last deploy did not finish", self.instance);
            return Err(Error::failure(problem)
                .with_note("nothing was changed")
                .with_hint("finish it: `monopile create-env MANIFEST`"));
        }
        Ok(())
    }

    /// Asks the agent for the state of the jobs: `running`, `stopped`, `failing`…
    pub(super) fn fetch_job_state(&self) -> Result<String> {
        Ok(AgentState::fetch(&self.agent, self.store.state())?.job_state().to_owned())
    }

    /// Checks that the agent has mounted the persistent disk. Otherwise, jobs that start write to the VM's
    /// own disk.
    pub(super) fn check_disk(&self) -> Result<()> {
        let Some(disk) = self.store.state().disk_of_vm().map(DiskRecord::handle) else { return Ok(()) };
        if self.agent.list_disk()?.contains(&disk.cid) {
            return Ok(());
        }
        let problem =
            format!("disk {disk} is not mounted on the VM: the jobs would write to the VM's own disk");
        Err(Error::failure(problem)
            .with_note("no job was stopped or started")
            .with_hint("mount it and start the jobs: `monopile cloud-check MANIFEST`"))
    }

    /// Returns the jobs on the VM.
    pub(super) fn jobs<'j>(&'j self, run: &'j RunContext) -> Jobs<'j> {
        Jobs { run, agent: &self.agent, instance: self.instance.clone(), has_run_before: true }
    }
}
