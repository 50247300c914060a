//! `state forget`: forgets a record on request. The resource may still exist.

use super::{AskConsent, ConsentRequest, find_any};
use crate::effects::{Effect, failed_call::forget_command, instruction_to_end};
use crate::protocol::{AnyCid, RequestId};
use crate::run_context::RunContext;
use crate::run_context::state_lock::{self, no_state_error};
use crate::state::{CallProgress, Change, DiskHandle, Intent, Resource, State, StemcellHandle, SuspectGroup};
use base::text;
use base::{Error, Result};

/// The record to forget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ForgettableRecord {
    /// The resource with this CID, at this CPI or at the only one that has it on record.
    Resource(AnyCid, Option<String>),
    /// The open or failed call with this request id.
    Call(RequestId),
    /// All failed calls.
    FailedCalls,
}

/// The hint for a call that is not on record.
const SHOW_HINT: &str = "see what is on record: `monopile state show MANIFEST`";

/// Describes what the next create-env does without the record of a resource that is in use.
fn next_deploy(state: &State, resource: &Resource) -> String {
    let is_disk = |disk: &DiskHandle| state.current_disk().is_some_and(|current| current.handle() == *disk);
    let is_stemcell = |stemcell: &StemcellHandle| {
        state.current_stemcell().is_some_and(|current| current.handle() == *stemcell)
    };
    match (resource, state.vm_handle()) {
        (Resource::Vm(handle), Some(vm)) if *handle == vm => {
            "; it is the VM of this environment: the next create-env creates another one, with the same \
             address and persistent disk"
                .to_owned()
        }
        (Resource::Disk(disk), Some(vm)) if is_disk(disk) => format!(
            "; it is the persistent disk of VM {vm}: the next create-env replaces the VM and creates an \
             empty disk"
        ),
        (Resource::Disk(disk), None) if is_disk(disk) => {
            "; it is the persistent disk: the next create-env creates an empty one".to_owned()
        }
        (Resource::Stemcell(stemcell), Some(vm)) if is_stemcell(stemcell) => format!(
            "; VM {vm} was created from it: the next create-env uploads the stemcell again and replaces \
             the VM"
        ),
        _ => String::new(),
    }
}

/// Forgets a record and returns a summary in one sentence.
pub fn forget(run: &RunContext, record: &ForgettableRecord, ask_consent: AskConsent<'_>) -> Result<String> {
    let mut store = state_lock::open(run, "state forget")?;
    let open_calls = store.read_open_calls::<Effect>()?;
    if !store.has_state() && open_calls.is_empty() {
        return Err(no_state_error(store.storage()));
    }
    match record {
        ForgettableRecord::Resource(cid, cpi) => {
            let resource = find_any(store.state(), cid, cpi.as_deref())?;
            ask_consent(&ConsentRequest {
                change: format!("forgetting {resource}"),
                consequence: format!(
                    "{resource} stays in the IaaS if it exists, and no run of monopile will delete it{}",
                    next_deploy(store.state(), &resource)
                ),
                question: "Forget it?".to_owned(),
            })?;
            let (kind, cid) = (resource.kind(), resource.cid().to_owned());
            store.commit(Change::Forgotten(resource))?;
            Ok(format!(
                "Forgot {kind} '{cid}'; the previous state is kept (`monopile state backup` lists it)"
            ))
        }
        ForgettableRecord::FailedCalls => {
            let suspects = store.state().monopile.suspects.clone();
            if suspects.is_empty() {
                let error = open_calls.iter().fold(
                    Error::invalid("no failed call is on record"),
                    |error, (Intent { method, request_id, .. }, _)| {
                        let option = format!("--call {request_id}");
                        error
                            .with_note(format!("an open call is on record: `{method}`, request {request_id}"))
                            .with_hint(format!("to forget it: `{}`", forget_command(&option)))
                    },
                );
                return Err(if open_calls.is_empty() { error.with_hint(SHOW_HINT) } else { error });
            }
            let calls = match suspects.len() {
                1 => "1 failed call".to_owned(),
                count => format!("{count} failed calls"),
            };
            let places_to_look: Vec<String> =
                SuspectGroup::all(&suspects).iter().map(SuspectGroup::describe_in_iaas).collect();
            let places_to_look = places_to_look.join("; ");
            ask_consent(&ConsentRequest {
                change: format!("forgetting {calls}"),
                consequence: format!("these stay in the IaaS if they exist: {places_to_look}"),
                question: format!("Forget {calls}?"),
            })?;
            for suspect in suspects {
                store.commit(Change::SuspectForgotten { request_id: suspect.request_id })?;
            }
            Ok(format!("Forgot {calls}, which may have created: {places_to_look}"))
        }
        ForgettableRecord::Call(id) => {
            let suspects = &store.state().monopile.suspects;
            if let Some(suspect) = suspects.iter().find(|suspect| suspect.request_id == *id).cloned() {
                ask_consent(&ConsentRequest {
                    change: format!("forgetting the failed call {id}"),
                    consequence: format!(
                        "this stays in the IaaS if it exists: {}",
                        suspect.describe_in_iaas()
                    ),
                    question: "Forget the failed call?".to_owned(),
                })?;
                store.commit(Change::SuspectForgotten { request_id: id.clone() })?;
                return Ok(format!(
                    "Forgot the failed call, which may have created: {}",
                    suspect.describe_in_iaas()
                ));
            }
            let failed_ids = suspects.iter().map(|suspect| suspect.request_id.to_string());
            let request_ids: Vec<String> = open_calls
                .iter()
                .map(|(intent, _)| intent.request_id.to_string())
                .chain(failed_ids)
                .collect();
            let Some((intent, call)) = open_calls.into_iter().find(|(intent, _)| intent.request_id == *id)
            else {
                let error = Error::invalid(format!("no open or failed call '{id}' is on record"))
                    .with_nearest(id.as_str(), request_ids.iter().map(String::as_str), || {
                        (!request_ids.is_empty())
                            .then(|| format!("on record: {}", text::comma_list(&request_ids)))
                    });
                return Err(error.with_hint(SHOW_HINT));
            };
            let read_error = |error| Error::io(format!("reading the answer to call {id}"), error);
            if matches!(call.read_progress().map_err(read_error)?, CallProgress::Running) {
                return Err(Error::failure(format!(
                    "the CPI process of call {id} is still running, so the call cannot be forgotten yet"
                ))
                .with_hint("to wait for its answer, and record it: `monopile create-env MANIFEST`")
                .with_hint(format!("if the CPI hangs, {}", instruction_to_end(&call))));
            }
            let possible_creation = intent.effect.describe_in_iaas();
            ask_consent(&ConsentRequest {
                change: format!("forgetting the call of `{}`", intent.method),
                consequence: format!("this stays in the IaaS if it exists: {possible_creation}"),
                question: format!("Forget the call of `{}`?", intent.method),
            })?;
            call.settle()?;
            Ok(format!("Forgot the call of `{}`, which may have created: {possible_creation}", intent.method))
        }
    }
}
