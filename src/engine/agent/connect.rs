//! Connections of a run to the agent of the VM on record.

use std::time::Duration;

use super::identity::ForeignAgent;
use super::{Agent, Endpoint, LIMITS, Limits};
use crate::environment::{Environment, signals};
use crate::state::State;
use base::{Error, Result};
use manifest::deployment::{CloudProvider, PreviousAgent};

/// Returns address, credentials and CA of the agent. Without a CA, `--insecure-agent` is required.
pub(crate) fn endpoint(environment: &Environment, provider: &CloudProvider) -> Result<Endpoint> {
    let ca = provider.cert.ca.as_deref().filter(|ca| !ca.trim().is_empty());
    let mut endpoint = match ca {
        None if environment.insecure_agent => {
            environment.reporter.warn(
                "`cloud_provider.cert.ca` is missing: any server at the address of `cloud_provider.mbus` is \
                 accepted as the agent, and gets its password (--insecure-agent)",
            );
            Endpoint::unverified(&provider.mbus, &environment.redactor)
        }
        ca => Endpoint::new(&provider.mbus, ca, &environment.redactor),
    }?;
    // Earlier values are optional, so invalid ones are no error.
    for PreviousAgent { mbus, ca, certificate } in &provider.previous {
        match Endpoint::new(mbus, ca.as_deref(), &environment.redactor) {
            Ok(previous) => endpoint.add_previous(previous.knowing(certificate.as_deref())),
            Err(error) => tracing::info!(%error, "earlier credentials of the agent are ignored"),
        }
    }
    Ok(endpoint)
}

/// Returns a client of the agent. A signal interrupts it, and its waits are measured with the run's clock.
pub(crate) fn connect(environment: &Environment, endpoint: Endpoint, state: &State) -> Agent {
    with_limits(environment, endpoint, state, LIMITS)
}

/// As [`connect`], with a limit for each message, including the connection.
pub(crate) fn connect_within(
    environment: &Environment,
    endpoint: Endpoint,
    state: &State,
    limit: Duration,
) -> Agent {
    with_limits(environment, endpoint, state, Limits { connect: limit, message: limit, ..LIMITS })
}

fn with_limits(environment: &Environment, endpoint: Endpoint, state: &State, limits: Limits) -> Agent {
    let signalled = environment.clone();
    let interrupted = std::sync::Arc::new(move || signals::first(&signalled));
    Agent::with_limits(endpoint, &state.director_id, interrupted, environment.clock.clone(), limits)
}

/// Waits for the agent of the VM on record, checks its id, and returns a client.
pub(crate) fn contact(
    environment: &Environment,
    endpoint: Endpoint,
    state: &State,
    patience: Duration,
) -> Result<Agent> {
    let Some(vm) = state.vm_handle() else {
        return Err(Error::invalid("no VM is on record").with_hint("`monopile create-env` creates one"));
    };
    let agent = connect(environment, endpoint, state);
    let waiting = environment.reporter.stage(format!("Waiting for the agent on VM {vm}"));
    agent.wait_until_ready(patience, &mut |problem| waiting.log_line(problem))?;
    ForeignAgent::check(&agent, state)?;
    waiting.finish();
    Ok(agent)
}
