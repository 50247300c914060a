//! The outcome of a failed call: its error with hints, and the record of what a creating call may have made.

use std::fmt::Write as _;

use serde_json::Value;

use super::effect::Effect;
use crate::cpi::{self, CpiError, CpiErrorKind, MissingMethodConsequence};
use crate::cpi_set::with_cpi_context;
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

/// Records the suspect of a failed call. With the suspect, records that the CPI does not implement an
/// optional method. Records nothing for a call that leaves no suspect.
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

/// Returns the error for a call without a usable result. If [`record`] added a suspect, its steps come first:
/// a second call before them would make another resource.
pub(super) fn call_error(state: &State, effect: &Effect, arguments: &[Value], error: CpiError) -> Error {
    let suspect = match &error {
        CpiError::Answered { request_id, .. } => {
            state.monopile.suspects.iter().find(|suspect| suspect.request_id == *request_id)
        }
        _ => None,
    };
    let missing_stemcell =
        is_stemcell_missing(effect, &error).then(|| stemcell_of_vm(effect, arguments)).flatten();
    let lacks_method = error.kind() == Some(&CpiErrorKind::NotImplemented);
    let is_faulty_answer = matches!(&error, CpiError::NoAnswer { .. });
    let call_error = match suspect {
        Some(suspect) => error.with_first_hints(steps_for_suspect(state, effect, suspect)),
        None => error.into(),
    };
    let call_error = with_cpi_context(effect.cpi(), call_error);
    let call_error = match suspect {
        Some(suspect) => call_error.with_note(match lacks_method {
            true => format!(
                "`{}` may have created a {} before the CPI called a method that it lacks",
                effect.method(),
                suspect.kind
            ),
            false => match attempt_count(state, suspect) {
                1 => format!("the CPI may have created a {} before it failed", suspect.kind),
                count => format!("each of {count} failed calls may have created a {}", suspect.kind),
            },
        }),
        None if is_faulty_answer && effect.method().facts().changes_iaas => {
            call_error.with_rerun_hint(cpi::FAULTY_ANSWER_HINT)
        }
        None => call_error,
    };
    let call_error = match missing_stemcell {
        Some(stemcell) => call_error.with_hint(format!(
            "if the stemcell is gone, forget its record: `{}`; the next create-env uploads it again",
            forget_command_of(&stemcell)
        )),
        None => call_error,
    };
    match effect {
        Effect::ResizeDisk { .. } | Effect::UpdateDisk { .. } => call_error.with_hint(
            "to copy the data to a new disk instead: `monopile SAME-COMMAND --recreate-persistent-disks`",
        ),
        _ => call_error,
    }
}

/// Returns the number of failed calls that look like this one, with it.
fn attempt_count(state: &State, suspect: &Suspect) -> usize {
    let groups = SuspectGroup::all(&state.monopile.suspects);
    let mut groups = groups.iter().map(SuspectGroup::suspects);
    let has_suspect = |group: &&[&Suspect]| group.iter().any(|other| other.request_id == suspect.request_id);
    groups.find(has_suspect).map_or(1, <[_]>::len)
}

/// Returns the stemcell of a `create_vm`.
fn stemcell_of_vm(effect: &Effect, arguments: &[Value]) -> Option<Resource> {
    let cid = arguments.get(1)?.as_str()?.parse().ok()?;
    Some(StemcellHandle::new(cid, effect.cpi()).into())
}

/// Returns the steps after a call that failed and may have created something: look for it, then forget the
/// record. The CPI may have declared the error as passing, so that the call was repeated, and each attempt is
/// on record.
fn steps_for_suspect(state: &State, effect: &Effect, suspect: &Suspect) -> [String; 2] {
    if attempt_count(state, suspect) > 1 {
        let groups = SuspectGroup::all(&state.monopile.suspects);
        let possible_resources: Vec<String> = groups.iter().map(SuspectGroup::describe_in_iaas).collect();
        let mut suspects = groups.iter().flat_map(SuspectGroup::suspects);
        // No other environment has the agent ID of a VM.
        let exception = match suspects.all(|suspect| suspect.agent_id.is_some()) {
            true => "",
            false => ", unless another environment uses them",
        };
        return [
            format!(
                "look in the IaaS for {}; delete those that exist{exception}",
                possible_resources.join(", and ")
            ),
            format!("then forget the calls: `{}`", forget_command("--failed-calls")),
        ];
    }
    let condition = match effect {
        // The new disk may have the only copy of the data.
        Effect::UpdateDisk { disk, .. } => format!("only if disk {disk} still exists"),
        _ if suspect.agent_id.is_some() => "if it exists".to_owned(),
        _ => "if it exists, unless another environment uses it".to_owned(),
    };
    [
        format!(
            "look in the IaaS for {}, created shortly before {}; delete it {condition}",
            suspect.describe_in_iaas(),
            suspect.called_at
        ),
        forget_call_hint(suspect),
    ]
}

/// Returns the step after the operator has looked for what a failed call may have created.
pub(crate) fn forget_call_hint(suspect: &Suspect) -> String {
    format!("then forget the call: `{}`", forget_command(&format!("--call {}", suspect.request_id)))
}

/// Returns a `state forget` command with this option, to be completed with the manifest.
pub(crate) fn forget_command(option: &str) -> String {
    format!("monopile state forget MANIFEST {option}")
}

/// Returns the command that forgets the record of a resource, to be completed with the manifest.
pub(super) fn forget_command_of(resource: &Resource) -> String {
    let mut option = format!("--{} {}", resource.kind().name().to_lowercase(), shell_word(resource.cid()));
    if let Some(cpi) = resource.cpi() {
        let _ = write!(option, " --cpi {}", shell_word(cpi));
    }
    forget_command(&option)
}
