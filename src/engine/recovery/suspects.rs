//! What calls that failed may have made all the same. A CPI that answers with an error is believed to have cleaned up,
//! so no run stops for it; but it stays on record, is told by every run, and is looked for where anybody can be asked:
//! a VM by its agent. No CPI can be asked about a disk or an image without its CID.

use crate::agent::{AgentError, Endpoint, connect, endpoint, identity};
use crate::effects::Effect;
use crate::environment::Environment;
use crate::prepare;
use crate::protocol::ResourceKind;
use crate::state::{State, Suspect};
use base::{Error, Result};
use manifest::Inputs;

/// How many are told in full.
const TOLD: usize = 3;

/// One of them in words: what to look for, and by which request.
pub(crate) fn describe(suspect: &Suspect) -> String {
    format!("{} (request {}, {})", suspect.how_to_find(), suspect.request_id, suspect.since)
}

/// Tells what is on record.
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
        "{calls} failed and may have made something all the same: {}{more}. Look in the IaaS; `monopile state show` says \
         what the CPI said, `monopile state forget --call REQUEST-ID` drops the record",
        newest.join("; ")
    ));
}

/// Looks for a VM that a failed call may have made, where no VM is on record: its agent would answer at the address of
/// the one to come. One that is there is an error, since nobody has its CID, and a second VM would fight it for the
/// address.
pub(crate) fn look(environment: &Environment, endpoint: &Endpoint, state: &State) -> Result<()> {
    let Some(suspect) = find(environment, endpoint, state)? else { return Ok(()) };
    Err(Error::environment(format!(
        "a VM that is not on record is there: the agent at {} has the id {}, and nobody has the VM's CID",
        endpoint.address(),
        suspect.agent_id.as_deref().unwrap_or_default()
    ))
    .with_hint(identity::met(suspect)))
}

/// As [`look`], with what was found for the caller to judge.
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

/// Whether the VM that a call without an answer was to make is there, as far as its agent can be met at the address in
/// the manifest, if that can be read.
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
