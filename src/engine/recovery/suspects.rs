//! Suspects: what failed calls may have created. A CPI that answers with an error has probably cleaned up, so
//! no run stops for a suspect. It stays on record, and every run reports it. A suspected VM is looked for
//! through its agent; a CPI cannot be asked about a disk or an image without a CID.

use crate::agent::{AgentError, Endpoint, connect, endpoint, identity};
use crate::effects::Effect;
use crate::environment::Environment;
use crate::prepare;
use crate::protocol::ResourceKind;
use crate::state::{State, Suspect};
use base::{Error, Result};
use manifest::Inputs;

/// The maximum number of suspects described in a report.
const TOLD: usize = 3;

/// Describes a suspect: how to find it, and the request id.
pub(crate) fn describe(suspect: &Suspect) -> String {
    format!("{} (request {}, {})", suspect.how_to_find(), suspect.request_id, suspect.since)
}

/// Warns about the suspects on record.
pub(crate) fn report(environment: &Environment, state: &State) {
    let suspects = &state.monopile.suspects;
    let newest: Vec<String> = suspects.iter().rev().take(TOLD).map(describe).collect();
    let (calls, more) = match suspects.len() {
        0 => return,
        1 => ("a call of an earlier run".to_owned(), String::new()),
        count if count <= TOLD => (format!("{count} calls of earlier runs"), String::new()),
        count => (format!("{count} calls of earlier runs"), format!("; and {} more", count - TOLD)),
    };
    environment.reporter.warn(format!(
        "{calls} failed and may have made something all the same: {}{more}. Look in the IaaS; `monopile \
         state show` says what the CPI said, `monopile state forget --call REQUEST-ID` drops the record",
        newest.join("; ")
    ));
}

/// Fails if the agent of a suspected VM answers while no VM is on record. Its CID is unknown, and a new VM
/// would conflict with it over the address.
pub(crate) fn look(environment: &Environment, endpoint: &Endpoint, state: &State) -> Result<()> {
    let Some(suspect) = find(environment, endpoint, state)? else { return Ok(()) };
    Err(Error::environment(format!(
        "a VM that is not on record is there: the agent at {} has the id {}, and nobody has the VM's CID",
        endpoint.address(),
        suspect.agent_id.as_deref().unwrap_or_default()
    ))
    .with_hint(identity::met(suspect)))
}

/// Like [`look`], but returns the suspect for the caller to judge.
pub(crate) fn find<'s>(
    environment: &Environment,
    endpoint: &Endpoint,
    state: &'s State,
) -> Result<Option<&'s Suspect>> {
    let any = state.monopile.suspects.iter().any(|one| one.what == ResourceKind::Vm);
    if !any || state.vm_cid().is_some() {
        return Ok(None);
    }
    let looking = environment.reporter.stage("Looking for a VM that a failed call may have made");
    let agent = connect(environment, endpoint.clone(), state);
    let seen = match agent.get_state() {
        Ok(seen) => seen,
        Err(error @ AgentError::Interrupted { .. }) => return Err(error.into()),
        Err(error) => {
            looking.skip(format!("its agent does not answer: {error}"));
            return Ok(None);
        }
    };
    let id = identity::id(&seen);
    let found = state.suspected_vm(id);
    match found {
        Some(_) => looking.finish(),
        None => looking.skip(format!("another agent answers at {}, with the id '{id}'", agent.address())),
    }
    Ok(found)
}

/// Looks for the VM of an unanswered `create_vm` call through its agent, and describes the result. The
/// address comes from the manifest, if that can be read.
pub(crate) fn sighting(
    environment: &Environment,
    inputs: &Inputs,
    state: &State,
    effect: &Effect,
) -> Option<String> {
    let Effect::CreateVm { record } = effect else { return None };
    let loaded = prepare::load(environment, inputs).ok()?;
    let provider = loaded.provider().ok()?;
    let agent = connect(environment, endpoint(environment, &provider).ok()?, state);
    Some(match agent.get_state() {
        Ok(seen) if identity::id(&seen) == record.agent_id => {
            format!("the VM is there: its agent answers at {}", agent.address())
        }
        Ok(seen) => format!(
            "another agent answers at {}, with the id '{}'; that says nothing about this VM",
            agent.address(),
            identity::id(&seen)
        ),
        Err(error) => format!("its agent does not answer, which does not mean that there is no VM: {error}"),
    })
}
