//! The VM on record and its agent, for commands that only talk to a running VM.

use std::time::Duration;

use super::boot;
use crate::agent::{Agent, contact, endpoint};
use crate::jobs::Jobs;
use crate::prepare;
use crate::run_context::{RunContext, lock};
use crate::state::Store;
use base::{Error, Result};
use manifest::{Deployment, Inputs};

/// A locked environment whose agent answers.
pub(super) struct ReachableEnvironment {
    pub(super) deployment: Deployment,
    agent: Agent,
    instance: String,
    _store: Store,
}

impl ReachableEnvironment {
    /// Finds the VM on record and waits until its own agent answers.
    pub(super) fn reach(run: &RunContext, inputs: &Inputs, command: &str, timeout: Duration) -> Result<Self> {
        Self::find(run, inputs, command, timeout, false)
    }

    /// As [`ReachableEnvironment::reach`], and boots a VM of this machine that is off.
    pub(super) fn boot(run: &RunContext, inputs: &Inputs, command: &str, timeout: Duration) -> Result<Self> {
        Self::find(run, inputs, command, timeout, true)
    }

    /// Opens the state, boots the VM if it is off and `boots` is set, and connects to its agent. A VM that
    /// was booted gets the time of a boot to answer.
    fn find(
        run: &RunContext,
        inputs: &Inputs,
        command: &str,
        timeout: Duration,
        boots: bool,
    ) -> Result<Self> {
        let store = lock::open(run, command)?;
        if !store.exists() {
            return Err(Error::invalid(format!("there is no state '{}'", store.storage()))
                .with_hint("if the state file is elsewhere, name it with --state FILE"));
        }
        run.reporter.report_state(store.storage());
        let validating = run.reporter.stage("Validating");
        let state = store.state();
        let loaded = prepare::load_deployed(run, inputs, state)?;
        let deployment = loaded.deployment()?;
        let provider = &deployment.cloud_provider;
        let endpoint = endpoint(run, provider)?;
        let booted = boots && boot::boot_if_off(run, inputs, &loaded, state, &validating)?;
        validating.finish();

        let timeout = if booted { timeout.max(boot::TIMEOUT) } else { timeout };
        let agent = contact(run, endpoint, state, &(&loaded).into(), timeout)?;
        if booted {
            boot::check_disk(&agent, state)?;
        }
        let instance = state.vm().map_or_else(|| deployment.instance(), |vm| vm.instance.clone());
        Ok(ReachableEnvironment {
            deployment,
            agent,
            instance: format!("instance '{instance}'"),
            _store: store,
        })
    }

    /// Returns the jobs on the VM.
    pub(super) fn jobs<'j>(&'j self, run: &'j RunContext) -> Jobs<'j> {
        Jobs { run, agent: &self.agent, instance: self.instance.clone() }
    }
}
