//! Records what a failed creating call may have made, and reports it to the operator.

use std::fmt::Write as _;

use serde_json::Value;

use super::effect::Effect;
use crate::cpi::{self, CpiError, CpiErrorKind, MissingMethodConsequence};
use crate::cpi_set::with_cpi_context;
use crate::run_context::RunContext;
use crate::state::call_rules::CallOutcome;
use crate::state::{AbsentMethod, Change, Resource, State, StemcellHandle, Store, Suspect, SuspectGroup};
use base::redact::Redactor;
use base::text::shell_word;
use base::{Error, Result};

/// Returns the outcome of a failed call. A call that the CPI answered with an error made nothing if
/// - a built-in CPI states that;
/// - the error says that the CPI does not implement the method, and names it;
/// - the method is optional, and on record as absent;
/// - the CPI declines an `update_disk`, or does not find the stemcell of a VM.
pub(crate) fn outcome(state: &State, effect: &Effect, error: &CpiError) -> CallOutcome {
    match error {
        CpiError::Answered { made_nothing, .. } => {
            let absent_method = absent_method(effect, error);
            let is_recorded = absent_method
                .is_some_and(|absent_method| state.monopile.absent_methods.contains(&absent_method));
            let is_declined = matches!(effect, Effect::UpdateDisk { .. }) && declines(error);
            let lacks_stemcell = is_stemcell_missing(effect, error);
            let made_nothing =
                *made_nothing || is_recorded || is_declined || lacks_stemcell || error.lacks_called_method();
            CallOutcome::Failed { made_nothing }
        }
        // Only calls without an intent are killed, so an effect never ends with `Killed`.
        CpiError::NoAnswer { .. } | CpiError::Killed { .. } => CallOutcome::Unknown,
        CpiError::Abandoned { .. } => CallOutcome::Running,
        CpiError::NotSent { .. } | CpiError::NotStarted { .. } | CpiError::Local { .. } => {
            CallOutcome::NeverStarted
        }
    }
}

/// Records the suspect of a failed call, and the absence of an optional method that the CPI does not
/// implement.
pub(crate) fn record(
    redactor: &Redactor,
    store: &mut Store,
    effect: &Effect,
    error: &CpiError,
) -> Result<()> {
    let Some(suspect) = effect.suspect(error, &|text| redactor.clean_and_redact(text)) else { return Ok(()) };
    store.commit(Change::CreationFailed(suspect))?;
    match absent_method(effect, error) {
        Some(absent_method) => store.commit(Change::MethodAbsent(absent_method)),
        None => Ok(()),
    }
}

/// Returns true if the CPI does not implement the method, or does not support it for this resource.
pub(super) fn declines(error: &CpiError) -> bool {
    matches!(error.kind(), Some(CpiErrorKind::NotImplemented | CpiErrorKind::NotSupported))
}

/// Returns true if the CPI does not find the stemcell of a VM. It looks for it before it creates anything.
fn is_stemcell_missing(effect: &Effect, error: &CpiError) -> bool {
    matches!(effect, Effect::CreateVm { .. }) && error.kind() == Some(&CpiErrorKind::StemcellNotFound)
}

/// Returns the optional method that the CPI does not implement, if the error says so.
fn absent_method(effect: &Effect, error: &CpiError) -> Option<AbsentMethod> {
    let method = effect.method();
    let is_absent = error.kind() == Some(&CpiErrorKind::NotImplemented);
    (is_absent && method.facts().if_missing != MissingMethodConsequence::Breaks)
        .then(|| AbsentMethod { method: method.name().to_owned(), cpi: effect.cpi().map(str::to_owned) })
}

/// Returns the error for a call that the CPI answered with an error, with a hint about the suspect that
/// [`record`] added.
pub(super) fn call_error(
    run: &RunContext,
    state: &State,
    effect: &Effect,
    arguments: &[Value],
    error: CpiError,
) -> Error {
    let missing_stemcell =
        is_stemcell_missing(effect, &error).then(|| stemcell_of_vm(effect, arguments)).flatten();
    let suspect = match &error {
        CpiError::Answered { request_id, .. } => {
            state.monopile.suspects.iter().find(|suspect| suspect.request_id == *request_id)
        }
        _ => None,
    };
    let lacks_method = error.kind() == Some(&CpiErrorKind::NotImplemented);
    let is_faulty_answer = matches!(&error, CpiError::NoAnswer { .. });
    let error = with_cpi_context(effect.cpi(), error);
    let error = match effect {
        Effect::ResizeDisk { .. } | Effect::UpdateDisk { .. } => error.with_hint(
            "to copy the data to a new disk instead: `monopile SAME-COMMAND --recreate-persistent-disks`",
        ),
        _ => error,
    };
    let error = match missing_stemcell {
        Some(stemcell) => error.with_hint(format!(
            "if the image is gone, drop its record: `{}`; the next create-env uploads the stemcell again",
            forget_command_of(run, &stemcell)
        )),
        None => error,
    };
    match suspect {
        Some(suspect) => error
            .with_note(match lacks_method {
                true => format!(
                    "the CPI lacks a method, which may not be `{}`: it may have created something before it \
                     failed",
                    effect.method()
                ),
                false => "the CPI may have created something before it failed".to_owned(),
            })
            .with_hint(search_hint(run, state, suspect))
            .with_retry_hint(),
        None if is_faulty_answer && effect.method().facts().changes_iaas => {
            error.with_rerun_hint(cpi::FAULTY_ANSWER_HINT)
        }
        None => error,
    }
}

/// Returns the stemcell of a `create_vm`.
fn stemcell_of_vm(effect: &Effect, arguments: &[Value]) -> Option<Resource> {
    let cid = arguments.get(1)?.as_str()?.parse().ok()?;
    Some(StemcellHandle::new(cid, effect.cpi()).into())
}

/// Describes how to look for what a failed call may have created. The CPI may have declared the error as
/// passing, so that the call was repeated, and each attempt is on record.
fn search_hint(run: &RunContext, state: &State, suspect: &Suspect) -> String {
    let (advice, option) = match state.monopile.suspects.len() {
        1 => ("drop the record", format!("--call {}", suspect.request_id)),
        _ => ("drop the records of all failed calls", "--failed-calls".to_owned()),
    };
    let command = forget_command(run, &option);
    let groups = SuspectGroup::all(&state.monopile.suspects);
    let is_of_group = |group: &&SuspectGroup<'_>| {
        group.suspects().iter().any(|other| other.request_id == suspect.request_id)
    };
    match groups.iter().find(is_of_group) {
        Some(group) if group.suspects().len() > 1 => format!(
            "look in the IaaS for {}. Delete those that you find, unless another environment uses them. \
             Then, or if you find nothing, {advice}: `{command}`",
            group.how_to_find()
        ),
        _ => format!(
            "look in the IaaS for {}, created shortly before {}. If you find it, and no other environment \
             uses it, delete it. Then, or if you find nothing, {advice}: `{command}`",
            suspect.how_to_find(),
            suspect.called_at
        ),
    }
}

/// Returns a `state forget` command with this option, ready to paste.
pub(crate) fn forget_command(run: &RunContext, option: &str) -> String {
    let state = run.paths.state.to_string();
    format!("monopile state forget {option} --state {}", shell_word(&state))
}

/// Returns the command that drops the record of a resource, ready to paste.
pub(super) fn forget_command_of(run: &RunContext, resource: &Resource) -> String {
    let mut option = format!("--{} {}", resource.kind().name().to_lowercase(), shell_word(resource.cid()));
    if let Some(cpi) = resource.cpi() {
        let _ = write!(option, " --cpi {}", shell_word(cpi));
    }
    forget_command(run, &option)
}
