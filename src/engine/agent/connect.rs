//! The agent of the VM on record as a run reaches it.

use std::time::Duration;

use super::identity::ForeignAgent;
use super::{Agent, Endpoint};
use crate::environment::{Environment, signals};
use crate::state::State;
use base::{Error, Result};
use manifest::deployment::CloudProvider;

/// Where the agent is, and what vouches for it. Without that, `--insecure-agent` must have been given.
pub(crate) fn endpoint(environment: &Environment, provider: &CloudProvider) -> Result<Endpoint> {
    let ca = provider.cert.ca.as_deref().filter(|ca| !ca.trim().is_empty());
    match ca {
        None if environment.insecure_agent => {
            environment.reporter.warn(
                "`cloud_provider.cert.ca` is missing: any server at the address of `cloud_provider.mbus` is \
                 accepted as the agent, and gets its password (--insecure-agent)",
            );
            Endpoint::unverified(&provider.mbus, &environment.redactor)
        }
        ca => Endpoint::new(&provider.mbus, ca, &environment.redactor),
    }
}

/// A client of the agent that a signal can interrupt and the run's clock measures.
pub(crate) fn connect(environment: &Environment, endpoint: Endpoint, state: &State) -> Agent {
    let signalled = environment.clone();
    let interrupted = std::sync::Arc::new(move || signals::first(&signalled));
    Agent::new(endpoint, &state.director_id, interrupted, environment.clock.clone())
}

/// The agent of the VM on record, once it answers and is known to be that VM's own.
pub(crate) fn contact(
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
    ForeignAgent::check(&agent, state)?;
    waiting.finish();
    Ok(agent)
}
