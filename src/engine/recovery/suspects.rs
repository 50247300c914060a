//! Suspects: resources that failed calls may have created. A CPI that answers with an error has probably
//! cleaned up, so a suspect stops no run. It stays on record, and every run reports it. Runs look for a
//! suspected VM through its agent. They cannot ask a CPI about a disk or a stemcell without its CID.

use crate::agent_client::{Agent, AgentEndpoint, create_client, identity, resolve_endpoint};
use crate::effects::{Effect, failed_call};
use crate::prepare;
use crate::protocol::{RequestId, ResourceKind};
use crate::run_context::RunContext;
use crate::state::{Change, State, Store, Suspect, SuspectGroup};
use base::events::{Reporter, Warning};
use base::{Error, ErrorKind, Result};
use manifest::{Inputs, SavePolicy};

/// Warns about the suspects on record.
pub(crate) fn report(run: &RunContext, state: &State) {
    run.reporter.warn(match state.monopile.suspects.as_slice() {
        [] => return,
        [suspect] => Warning::new(format!(
            "a failed call of an earlier run may have created {}, shortly before {}",
            suspect.describe_in_iaas(),
            suspect.called_at
        ))
        .with_hint("look for it in the IaaS, and delete it if it is not needed")
        .with_hint(failed_call::forget_call_hint(suspect)),
        suspects => Warning::new(format!(
            "{} failed calls of earlier runs may have created {}",
            suspects.len(),
            count_by_kind(suspects)
        ))
        .with_hint("see what to look for in the IaaS: `monopile state show MANIFEST`")
        .with_hint(format!("once the IaaS has none of them, forget the calls: `{}`", forget_command())),
    });
}

/// Counts the resources that failed calls may have created, such as "up to 4 VMs and a stemcell".
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

/// Returns the command that forgets all suspects, to be completed with the manifest.
pub(crate) fn forget_command() -> String {
    failed_call::forget_command("--failed-calls")
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
    let possible_resources: Vec<String> = groups.iter().map(SuspectGroup::short_text).collect();
    let question = run.redactor.clean_and_redact(&format!(
        "The state still has {calls} on record, which may have created {}. Look in the IaaS first. Delete \
         the state?",
        possible_resources.join(", and ")
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

/// A suspected VM whose agent answers.
pub(crate) struct AnsweringSuspect<'s> {
    pub(crate) suspect: &'s Suspect,
    /// The CID of the VM, as far as the agent knows.
    vm: Option<String>,
}

impl AnsweringSuspect<'_> {
    /// Returns the steps for the operator.
    pub(crate) fn hints(&self) -> Vec<String> {
        identity::hints_for_suspect(self.suspect, self.vm.as_deref())
    }
}

/// Fails if the agent of a suspected VM answers while no VM is on record. A new VM would have the same
/// address.
pub(crate) fn check_suspected_vm(
    run: &RunContext,
    reporter: &Reporter,
    endpoint: &AgentEndpoint,
    state: &State,
) -> Result<()> {
    let Some(answering_suspect) = find_answering(run, reporter, endpoint, state)? else { return Ok(()) };
    let suspect = answering_suspect.suspect;
    Err(Error::failure(format!(
        "an untracked VM answers at {} (agent ID {})",
        endpoint.address(),
        suspect.agent_id.as_deref().unwrap_or_default()
    ))
    .with_note(identity::origin_of_suspect(suspect))
    .with_hints(answering_suspect.hints())
    .with_rerun_hint("then run the same command again"))
}

/// Like [`check_suspected_vm`], but returns the suspect for the caller to judge.
pub(crate) fn find_answering<'s>(
    run: &RunContext,
    reporter: &Reporter,
    endpoint: &AgentEndpoint,
    state: &'s State,
) -> Result<Option<AnsweringSuspect<'s>>> {
    let has_suspected_vm = state.monopile.suspects.iter().any(|suspect| suspect.kind == ResourceKind::Vm);
    if !has_suspected_vm || state.vm_cid().is_some() {
        return Ok(None);
    }
    let looking_for_vm = reporter.begin_stage("Looking for a VM that a failed call may have created");
    let agent = create_client(run, endpoint.clone(), state);
    let agent_state = match agent.get_state() {
        Ok(agent_state) => agent_state,
        Err(error) if error.was_caused_by_this_run() => return Err(error.into()),
        Err(error) => {
            looking_for_vm.give_up(format!("its agent does not answer: {error}"));
            return Ok(None);
        }
    };
    let id = identity::id(&agent_state);
    let Some(suspect) = state.suspected_vm(id) else {
        looking_for_vm.give_up(format!("another agent answers at {}, with the ID '{id}'", agent.address()));
        return Ok(None);
    };
    looking_for_vm.finish();
    Ok(Some(AnsweringSuspect { suspect, vm: identity::vm_cid(&agent_state).map(str::to_owned) }))
}

/// The result of looking for the VM of an unanswered `create_vm` call.
#[derive(Default)]
pub(super) struct VmSearch {
    /// The facts that are known then.
    pub(super) note: Option<String>,
    /// The CID of the VM, if its agent names it.
    pub(super) vm: Option<String>,
}

/// Looks for the VM of an unanswered `create_vm` call through its agent. Takes the address from the manifest,
/// if that can be read.
pub(super) fn search_vm(run: &RunContext, inputs: &Inputs, state: &State, effect: &Effect) -> VmSearch {
    let Effect::CreateVm { record, .. } = effect else { return VmSearch::default() };
    let Some(agent) = create_client_of_manifest(run, inputs, state) else { return VmSearch::default() };
    let address = agent.address();
    let (note, vm) = match agent.get_state() {
        Ok(agent_state) if identity::id(&agent_state) == record.agent_id => {
            match identity::vm_cid(&agent_state) {
                Some(vm) => (
                    format!("the VM exists: its agent answers at {address}, and says that it is VM '{vm}'"),
                    Some(vm.to_owned()),
                ),
                None => (format!("the VM exists: its agent answers at {address}"), None),
            }
        }
        Ok(agent_state) => (
            format!(
                "another VM's agent answers at {address} (agent ID '{}'), so it is unknown whether this VM \
                 exists",
                identity::id(&agent_state)
            ),
            None,
        ),
        Err(problem) => (format!("no agent could be asked; the VM may exist nevertheless: {problem}"), None),
    };
    VmSearch { note: Some(note), vm }
}

/// Returns the agent at the address of the manifest, if that can be read.
fn create_client_of_manifest(run: &RunContext, inputs: &Inputs, state: &State) -> Option<Agent> {
    let inputs = Inputs { save_policy: SavePolicy::Never, ..inputs.clone() };
    let manifest = prepare::load(run, &inputs).ok()?;
    let provider = manifest.provider().ok()?;
    Some(create_client(run, resolve_endpoint(run, &provider).ok()?, state))
}
