//! Suspects: resources that failed calls may have created. A CPI that answers with an error has probably
//! cleaned up, so a suspect stops no run. It stays on record, and every run reports it. Runs look for a
//! suspected VM through its agent. They cannot ask a CPI about a disk or a stemcell without its CID.

use crate::agent::{Agent, AgentEndpoint, connect, endpoint, identity};
use crate::effects::{Effect, failed_call};
use crate::prepare;
use crate::protocol::{RequestId, ResourceKind};
use crate::run_context::RunContext;
use crate::state::{Change, State, Store, Suspect, SuspectGroup};
use base::events::Reporter;
use base::{Error, ErrorKind, Result};
use manifest::Inputs;

/// Describes groups of suspects: how to find them, and the last request.
fn describe_groups<'g>(groups: impl Iterator<Item = &'g SuspectGroup<'g>>) -> String {
    let texts: Vec<String> =
        groups.map(|group| format!("{} ({})", group.in_short(), group.last_request())).collect();
    texts.join("; ")
}

/// Warns about the suspects on record.
pub(crate) fn report(run: &RunContext, state: &State) {
    let suspects = &state.monopile.suspects;
    let calls = match suspects.len() {
        0 => return,
        1 => "a call of an earlier run".to_owned(),
        count => format!("{count} calls of earlier runs"),
    };
    let them = if suspects.len() == 1 { "it" } else { "them" };
    run.reporter.warn(format!(
        "{calls} failed but may have created something: {}. Look for {them} in the IaaS: `monopile state \
         show MANIFEST` has the details. Then drop the records: `{}`",
        match suspects.len() {
            1 => describe_groups(SuspectGroup::all(suspects).iter()),
            _ => count_by_kind(suspects),
        },
        forget_command(run)
    ));
}

/// Counts the resources that failed calls may have created, such as "up to 4 VMs and 1 stemcell".
fn count_by_kind(suspects: &[Suspect]) -> String {
    let mut counts: Vec<(ResourceKind, usize)> = Vec::new();
    for suspect in suspects {
        match counts.iter_mut().find(|(kind, _)| *kind == suspect.kind) {
            Some((_, count)) => *count += 1,
            None => counts.push((suspect.kind, 1)),
        }
    }
    let texts: Vec<String> = counts
        .into_iter()
        .map(|(kind, count)| match count {
            1 => format!("a {kind}"),
            count => format!("up to {count} {kind}s"),
        })
        .collect();
    base::text::and_list(&texts)
}

/// Returns the command that drops all suspects, ready to paste.
pub(crate) fn forget_command(run: &RunContext) -> String {
    failed_call::forget_command(run, "--failed-calls")
}

/// Asks the operator at the terminal whether to forget all suspects. Without a terminal, it neither asks nor
/// forgets, because `-n` confirms only the action that the command is named after. Returns true if they were
/// forgotten.
pub(crate) fn ask_to_forget(run: &RunContext, store: &mut Store) -> Result<bool> {
    let Some(confirm) = &run.confirm else { return Ok(false) };
    let suspects = &store.state().monopile.suspects;
    let calls = match suspects.len() {
        1 => "a failed call".to_owned(),
        count => format!("{count} failed calls"),
    };
    let groups = SuspectGroup::all(suspects);
    let question = run.redactor.clean_and_redact(&format!(
        "The state still has {calls} on record: {} may exist. Check the IaaS first. Delete the state?",
        describe_groups(groups.iter())
    ));
    if !confirm(&question)? {
        return Err(Error::new(ErrorKind::Declined, "not confirmed: the state was kept"));
    }
    let ids: Vec<RequestId> = suspects.iter().map(|suspect| suspect.request_id.clone()).collect();
    for request_id in ids {
        store.commit(Change::SuspectForgotten { request_id })?;
    }
    Ok(true)
}

/// Fails if the agent of a suspected VM answers while no VM is on record. The CID of the VM is unknown, and a
/// new VM would have the same address.
pub(crate) fn check_suspected_vm(
    run: &RunContext,
    reporter: &Reporter,
    endpoint: &AgentEndpoint,
    state: &State,
) -> Result<()> {
    let Some(suspect) = find_answering(run, reporter, endpoint, state)? else { return Ok(()) };
    Err(Error::failure(format!(
        "an untracked VM answers at {} (agent id {}); its CID is unknown",
        endpoint.address(),
        suspect.agent_id.as_deref().unwrap_or_default()
    ))
    .with_hint(identity::answering_suspect_hint(suspect)))
}

/// Like [`check_suspected_vm`], but returns the suspect for the caller to judge.
pub(crate) fn find_answering<'s>(
    run: &RunContext,
    reporter: &Reporter,
    endpoint: &AgentEndpoint,
    state: &'s State,
) -> Result<Option<&'s Suspect>> {
    let has_suspected_vm = state.monopile.suspects.iter().any(|suspect| suspect.kind == ResourceKind::Vm);
    if !has_suspected_vm || state.vm_cid().is_some() {
        return Ok(None);
    }
    let looking_for_vm = reporter.stage("Looking for a VM that a failed call may have created");
    let agent = connect(run, endpoint.clone(), state);
    let agent_state = match agent.get_state() {
        Ok(agent_state) => agent_state,
        Err(error) if error.is_of_this_run() => return Err(error.into()),
        Err(error) => {
            looking_for_vm.give_up(format!("its agent does not answer: {error}"));
            return Ok(None);
        }
    };
    let id = identity::id(&agent_state);
    let suspect = state.suspected_vm(id);
    match suspect {
        Some(_) => looking_for_vm.finish(),
        None => {
            looking_for_vm
                .give_up(format!("another agent answers at {}, with the id '{id}'", agent.address()));
        }
    }
    Ok(suspect)
}

/// Looks for the VM of an unanswered `create_vm` call through its agent. Adds to the error what is known
/// then, and the CID to look for in the IaaS. Takes the address from the manifest, if that can be read.
pub(crate) fn with_vm_search(
    error: Error,
    run: &RunContext,
    inputs: &Inputs,
    state: &State,
    effect: &Effect,
) -> Error {
    let Effect::CreateVm { record, .. } = effect else { return error };
    let Some(agent) = connect_agent_of_manifest(run, inputs, state) else { return error };
    let address = agent.address();
    match agent.get_state() {
        Ok(agent_state) if identity::id(&agent_state) == record.agent_id => {
            let error = error.with_note(format!("the VM exists: its agent answers at {address}"));
            match identity::vm_cid(&agent_state) {
                Some(cid) => error.with_note(format!("its agent says that it is VM '{cid}'")),
                None => error,
            }
        }
        Ok(agent_state) => error.with_note(format!(
            "another VM's agent answers at {address} (agent id '{}'), so it is unknown whether this VM \
             exists",
            identity::id(&agent_state)
        )),
        Err(problem) => {
            error.with_note(format!("the agent of that VM does not answer, but the VM may exist: {problem}"))
        }
    }
}

/// Returns the agent at the address of the manifest, if that can be read.
fn connect_agent_of_manifest(run: &RunContext, inputs: &Inputs, state: &State) -> Option<Agent> {
    let inputs = Inputs { discards_generated: true, ..inputs.clone() };
    let manifest = prepare::load(run, &inputs).ok()?;
    let provider = manifest.provider().ok()?;
    Some(connect(run, endpoint(run, &provider).ok()?, state))
}
