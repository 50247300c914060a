//! The VM on record and its agent, for commands that only speak to what is there.

use std::time::Duration;

use super::identity::Stranger;
use super::lifecycle::Jobs;
use super::lock;
use super::prepare;
use super::request::Environment;
use super::run::{connect, endpoint};
use crate::agent::{Agent, Endpoint};
use crate::state::{State, Store};
use base::{Error, Result};
use manifest::{Deployment, Inputs};

/// An environment whose agent answers, locked.
pub(super) struct Existing {
    pub(super) deployment: Deployment,
    agent: Agent,
    instance: String,
    _store: Store,
}

impl Existing {
    /// Finds the VM on record and waits until its own agent answers.
    pub(super) fn reach(
        environment: &Environment,
        inputs: &Inputs,
        command: &str,
        patience: Duration,
    ) -> Result<Self> {
        let store = lock::open(environment, command)?;
        if !store.exists() {
            return Err(Error::invalid(format!("there is no state '{}'", store.storage()))
                .with_hint("name the state file with --state if it is elsewhere"));
        }
        environment.reporter.note(format!("Deployment state: '{}'", store.storage()));
        let validating = environment.reporter.stage("Validating");
        let loaded = prepare::load(environment, inputs)?;
        let deployment = loaded.deployment()?;
        prepare::redact_provider(environment, &deployment.cloud_provider);
        let provider = &deployment.cloud_provider;
        let endpoint = endpoint(environment, provider)?;
        validating.finish();

        let state = store.state();
        let agent = contact(environment, endpoint, state, patience)?;
        let instance = state.vm().map_or_else(|| deployment.instance(), |vm| vm.instance.clone());
        Ok(Existing { deployment, agent, instance: format!("instance '{instance}'"), _store: store })
    }

    /// The jobs on it.
    pub(super) fn jobs<'j>(&'j self, environment: &'j Environment) -> Jobs<'j> {
        Jobs { environment, agent: &self.agent, instance: self.instance.clone() }
    }
}

/// The agent of the VM on record, once it answers and is known to be that VM's own.
pub(super) fn contact(
    environment: &Environment,
    endpoint: Endpoint,
    state: &State,
    patience: Duration,
) -> Result<Agent> {
    let Some(vm) = state.vm_handle() else {
        return Err(Error::invalid("no VM is on record").with_hint("create-env makes one"));
    };
    let agent = connect(environment, endpoint, state);
    let waiting = environment.reporter.stage(format!("Waiting for the agent on VM {vm}"));
    agent.wait_until_ready(patience, &mut |problem| waiting.log_line(problem))?;
    if let Some(expected) = state.vm().map(|vm| vm.agent_id.as_str())
        && let Some(stranger) = Stranger::ask(&agent, expected)?
    {
        return Err(stranger.error(&agent, state));
    }
    waiting.finish();
    Ok(agent)
}
