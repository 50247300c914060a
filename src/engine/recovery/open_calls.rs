//! The effect of the next run on open calls, for commands that only report.

use super::resume::parse_answer;
use crate::effects::{Effect, failed_call};
use crate::state::call_rules::{self, CallOutcome, ConcludingStep};
use crate::state::{CallProgress, Intent, OpenCall, State};
use base::{Error, Result};

/// The way in which the next run that changes something treats an open call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenCallStatus {
    /// It settles the call: it records the outcome or, if the call had none, drops it. The plan then decides
    /// whether the call is made again.
    Settles,
    /// It waits for the CPI process.
    Running,
    /// It stops, because the outcome is unknown.
    Unknown,
}

/// Returns the status of an open call. Takes no lock, so it may change.
pub(crate) fn read_status(state: &State, intent: &Intent<Effect>, call: &OpenCall) -> Result<OpenCallStatus> {
    let read_error =
        |error| Error::io(format!("reading the answer to the call {}", intent.request_id), error);
    let outcome = match call.read_progress().map_err(read_error)? {
        CallProgress::Running => return Ok(OpenCallStatus::Running),
        CallProgress::NeverStarted => CallOutcome::NeverStarted,
        CallProgress::OnOtherMachine => CallOutcome::Unknown,
        CallProgress::Ended(bytes) => match parse_answer(intent, &bytes) {
            Ok(answer) if intent.effect.changes(&answer).is_ok() => CallOutcome::Answered,
            Ok(_) => CallOutcome::Unknown,
            Err(error) => failed_call::outcome(state, &intent.effect, &error),
        },
    };
    let concluding_steps = call_rules::concluding_steps(outcome, intent.effect.creates(), false);
    Ok(match concluding_steps.iter().any(|conclusion| matches!(conclusion, ConcludingStep::StayOpen)) {
        true => OpenCallStatus::Unknown,
        false => OpenCallStatus::Settles,
    })
}
