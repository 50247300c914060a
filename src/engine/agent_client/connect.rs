//! Connections of a run to the agent of the VM on record.

use std::time::Duration;

use super::identity::ForeignAgent;
use super::other_credentials;
use super::{AGENT_TIMEOUTS, Agent, AgentEndpoint, AgentTimeouts, OtherAddress};
use crate::run_context::{self, RunContext};
use crate::state::{RunCredentials, State, VmHandle};
use artifact::AgentProxy;
use base::error::ResultExt as _;
use base::{Error, ErrorKind, Result};
use manifest::deployment::{CloudProvider, PreviousAgent};

/// Returns the address, credentials and CA of the agent, and the proxy on the way to it. Without a CA,
/// `--insecure-agent` is required.
pub(crate) fn resolve_endpoint(run: &RunContext, provider: &CloudProvider) -> Result<AgentEndpoint> {
    let ca = provider.cert.ca.as_deref().filter(|ca| !ca.trim().is_empty());
    let unverified_endpoint = AgentEndpoint::unverified(&provider.mbus, &run.redactor)
        .context(|| format!("{}: the agent's address cannot be used", provider.mbus_place))?;
    let mut endpoint = if ca.is_none() && run.insecure_agent {
        run.reporter.warn(
            "`cloud_provider.cert.ca` is missing: any server at the address of `cloud_provider.mbus` is \
             accepted as the agent, and gets its password (--insecure-agent)",
        );
        unverified_endpoint
    } else {
        unverified_endpoint.verified_by(ca).map_err(|error| unusable_ca_error(provider, error))?
    };
    let interrupt_check = run_context::interrupt_check(&run.signals);
    if let Some((proxy, secrets)) = AgentProxy::from_variables(&run.env_vars, interrupt_check)? {
        secrets.iter().for_each(|secret| run.redactor.add(secret));
        endpoint.proxy = Some(proxy);
    }
    // Earlier values are optional, so invalid ones are no error.
    for PreviousAgent { mbus, ca, certificate } in &provider.previous_agents {
        match AgentEndpoint::new(mbus, ca.as_deref(), &run.redactor) {
            Ok(previous_endpoint) => {
                endpoint.add_previous(previous_endpoint.with_known_certificate(certificate.as_deref()))
            }
            Err(error) => tracing::info!(%error, "earlier credentials of the agent are ignored"),
        }
    }
    Ok(endpoint)
}

/// Returns the error for a CA that cannot be used. Names the variable that has it or should have it.
fn unusable_ca_error(provider: &CloudProvider, error: Error) -> Error {
    let error = error.context(format!("{}: the agent's certificate cannot be verified", provider.cert_place));
    match &provider.ca_variable {
        Some(variable) => variable.explain(error),
        None if provider.cert.ca.is_none() => error
            .with_hint("set `cloud_provider.cert` to the certificate variable that `env.bosh.mbus.cert` uses")
            .with_hint(
                "to skip the verification, only where no other server can answer at the agent's address: \
                 `monopile SAME-COMMAND --insecure-agent`",
            ),
        None => error,
    }
}

/// Returns a client of the agent. A signal interrupts it, and its waits are measured with the run's clock.
pub(crate) fn create_client(run: &RunContext, endpoint: AgentEndpoint, state: &State) -> Agent {
    with_timeouts(run, endpoint, state, AGENT_TIMEOUTS)
}

/// Like [`create_client`], with a timeout for each message, including the connection.
pub(crate) fn create_client_with_timeout(
    run: &RunContext,
    endpoint: AgentEndpoint,
    state: &State,
    timeout: Duration,
) -> Agent {
    with_timeouts(
        run,
        endpoint,
        state,
        AgentTimeouts { connect: timeout, message: timeout, ..AGENT_TIMEOUTS },
    )
}

fn with_timeouts(run: &RunContext, endpoint: AgentEndpoint, state: &State, timeouts: AgentTimeouts) -> Agent {
    let run_for_signal = run.clone();
    let signal_check = std::sync::Arc::new(move || run_for_signal.signal());
    Agent::with_timeouts(endpoint, &state.director_id, signal_check, run.clock.clone(), timeouts)
}

/// Returns the hint for an agent that does not answer. A first deploy that did not finish left nothing to
/// repair.
pub(crate) fn hint_for_silent_agent(state: &State) -> &'static str {
    match state.was_ever_deployed() {
        true => "see what can be done: `monopile cloud-check MANIFEST`",
        false => "no deploy has finished yet; to continue: `monopile create-env MANIFEST`",
    }
}

/// Waits for the agent of the VM on record, checks its id, and returns a client. The credentials of this run
/// explain a refusal.
pub(crate) fn wait_for_own_agent(
    run: &RunContext,
    endpoint: AgentEndpoint,
    state: &State,
    vm: &VmHandle,
    run_credentials: &RunCredentials,
    timeout: Duration,
) -> Result<Agent> {
    let other_address = OtherAddress::find(&endpoint, state);
    let connect = AGENT_TIMEOUTS.connect.min(timeout);
    let agent = with_timeouts(run, endpoint, state, AgentTimeouts { connect, ..AGENT_TIMEOUTS });
    let wait_stage = run.reporter.begin_stage(format!("Waiting for the agent on VM {vm}"));
    agent.wait_until_ready(timeout, &mut |problem| wait_stage.log_line(problem)).map_err(|error| {
        if error.was_caused_by_this_run() {
            return other_credentials::explain_error(error, run, state, run_credentials);
        }
        match (error.is_transient(), &other_address) {
            (true, Some(other)) => {
                let silence_error = Error::new(ErrorKind::AgentUnreachable, error.to_string());
                other.explain(silence_error.context(format!("the agent of VM {vm} does not answer")))
            }
            (true, None) => Error::from(error)
                .context(format!("the agent of VM {vm} does not answer"))
                .with_hint(hint_for_silent_agent(state)),
            (false, Some(other)) => {
                other.explain(other_credentials::explain_error(error, run, state, run_credentials))
            }
            (false, None) => other_credentials::explain_error(error, run, state, run_credentials)
                .context(format!("the agent of VM {vm} cannot be used")),
        }
    })?;
    ForeignAgent::check(&agent, state).map_err(|error| match &other_address {
        Some(other) => other.explain(error),
        None => error,
    })?;
    wait_stage.finish();
    Ok(agent)
}
