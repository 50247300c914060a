//! Settles the calls that an earlier run left open.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::suspects;
use crate::agent_client::Backoff;
use crate::cpi::{self, CallLog, CpiError, RERUN_WAITS_HINT, StopCause, read_answer};
use crate::cpi_set;
use crate::effects::{Effect, explain_running_call, failed_call, instruction_to_end, unknown_outcome_error};
use crate::prepare;
use crate::registry_server::CallRegistry;
use crate::run_context::{RunContext, signals};
use crate::state::call_rules::{self, CallOutcome, ConcludingStep};
use crate::state::{CallProgress, Change, Holder, Intent, OpenCall, Store, wait_for_answer};
use base::events::{Stage, Warning};
use base::text::shell_word;
use base::timing::Activity;
use base::{Error, ErrorKind, Result};
use manifest::Inputs;

/// Records the answers to calls of earlier runs in the state. With `may_forget`, drops calls with an unknown
/// outcome instead of failing.
pub(crate) fn settle_open_calls(
    run: &RunContext,
    inputs: &Inputs,
    store: &mut Store,
    may_forget: bool,
) -> Result<()> {
    for disk in &store.state().disks {
        disk.hint.iter().for_each(|hint| prepare::register_hint_secrets(run, hint));
    }
    let open_calls = store.read_open_calls::<Effect>()?;
    if !open_calls.is_empty() {
        // The manifest is not loaded yet, but errors of the CPI may quote its secrets.
        manifest::register_secrets(inputs, &run.redactor);
    }
    for (intent, open_call) in open_calls {
        settle_open_call(run, inputs, store, &intent, open_call, may_forget)?;
    }
    Ok(())
}

/// Settles one open call: waits for its process, reads the answer, and takes the steps that end the call.
fn settle_open_call(
    run: &RunContext,
    inputs: &Inputs,
    store: &mut Store,
    intent: &Intent<Effect>,
    open_call: OpenCall,
    may_forget: bool,
) -> Result<()> {
    let stage = run
        .reporter
        .begin_stage(format!("Recording the outcome of the `{}` of an earlier run", intent.method));
    let wait_result = wait_for_call(run, store, intent, &open_call, may_forget)?;
    let is_on_other_machine = matches!(wait_result, WaitResult::OnOtherMachine);
    let open_call_outcome = read_outcome(run, store, intent, &open_call, wait_result, &stage);
    let outcome = match &open_call_outcome {
        OpenCallOutcome::NeverStarted => CallOutcome::NeverStarted,
        OpenCallOutcome::Answered(_) => CallOutcome::Answered,
        OpenCallOutcome::Failed(error) => failed_call::outcome(store.state(), &intent.effect, error),
    };
    let is_forgotten = outcome == CallOutcome::Unknown && intent.effect.creates() && may_forget;
    if is_forgotten {
        run.reporter.warn(format!(
            "forgetting the `{}` of an earlier run (request ID {}): {} may exist, and is not on record",
            intent.method,
            intent.request_id,
            intent.effect.describe_in_iaas()
        ));
    }
    for step in call_rules::concluding_steps(outcome, intent.effect.creates(), may_forget) {
        match (step, &open_call_outcome) {
            (ConcludingStep::Record, OpenCallOutcome::Answered(changes)) => {
                changes.iter().try_for_each(|change| store.commit(change.clone()))?;
            }
            (ConcludingStep::RecordSuspect, OpenCallOutcome::Failed(error)) => {
                failed_call::record(&run.redactor, store, &intent.effect, error)?;
            }
            (ConcludingStep::Record | ConcludingStep::RecordSuspect, _) => {}
            (ConcludingStep::Settle, _) => open_call.settle()?,
            (ConcludingStep::StayOpen, _) => {
                let error = open_call_outcome.into_error(intent);
                return Err(stays_open_error(
                    run,
                    inputs,
                    store,
                    intent,
                    &open_call,
                    error,
                    is_on_other_machine,
                ));
            }
        }
    }
    match open_call_outcome {
        OpenCallOutcome::NeverStarted => stage.skip("the CPI had not been called"),
        OpenCallOutcome::Answered(_) => stage.finish(),
        OpenCallOutcome::Failed(_) if is_forgotten => stage.give_up("forgotten"),
        OpenCallOutcome::Failed(CpiError::NoAnswer { problem, .. }) => {
            stage.give_up(format!("the CPI gave no usable answer: {problem}"));
        }
        // This run's plan decides whether the call is made again.
        OpenCallOutcome::Failed(error) => stage.give_up(error.to_string()),
    }
    Ok(())
}

/// The outcome of an open call, with the data to record or report it.
enum OpenCallOutcome {
    /// The call was never made.
    NeverStarted,
    /// The changes that follow from its answer.
    Answered(Vec<Change>),
    /// The error that the CPI answered with, or the problem with its answer.
    Failed(CpiError),
}

impl OpenCallOutcome {
    /// Returns the error for a call that stays open.
    fn into_error(self, intent: &Intent<Effect>) -> CpiError {
        match self {
            OpenCallOutcome::Failed(error) => error,
            OpenCallOutcome::NeverStarted | OpenCallOutcome::Answered(_) => {
                no_answer_error(intent, "it stays open".to_owned())
            }
        }
    }
}

fn no_answer_error(intent: &Intent<Effect>, problem: String) -> CpiError {
    CpiError::no_answer(intent.effect.method(), &intent.request_id, problem)
}

/// Reads the answer to a call and its log.
fn read_outcome(
    run: &RunContext,
    store: &Store,
    intent: &Intent<Effect>,
    open_call: &OpenCall,
    wait_result: WaitResult,
    stage: &Stage,
) -> OpenCallOutcome {
    let mut log = Vec::new();
    let answer = match wait_result {
        WaitResult::NeverStarted => return OpenCallOutcome::NeverStarted,
        WaitResult::Ended(bytes) => {
            let mut call_log = CallLog::open(&open_call.log_path());
            call_log.read_whole(&bytes, &mut |line| log.push(line.to_owned()));
            let end = cpi::read_kept_end(&open_call.end_path()).or_else(|| {
                bytes.trim_ascii().is_empty().then(|| "its process ended without an answer".to_owned())
            });
            parse_answer(intent, &bytes).map_err(|error| error.with_end(end, call_log.tail()))
        }
        WaitResult::OnOtherMachine => {
            let caller = intent
                .holder
                .as_ref()
                .map_or_else(|| "a run on another machine".to_owned(), Holder::to_string);
            let no_answer_problem = format!("the call was made by {caller}, and its answer has not arrived");
            Err(no_answer_error(intent, no_answer_problem))
        }
    };
    let answer = answer.map(|answer| try_changes(run, store, intent, &answer));
    // Only now does the redactor know the credentials in the answer to `attach_disk`.
    log.iter().for_each(|line| cpi_set::show_log_line(run, stage, line));
    match answer {
        Ok(Ok(changes)) => OpenCallOutcome::Answered(changes),
        Ok(Err(problem)) => OpenCallOutcome::Failed(no_answer_error(intent, problem)),
        Err(error) => OpenCallOutcome::Failed(error),
    }
}

/// Returns the error for a call that stays open. It describes the resource that the call may have created.
fn stays_open_error(
    run: &RunContext,
    inputs: &Inputs,
    store: &Store,
    intent: &Intent<Effect>,
    open_call: &OpenCall,
    cause: CpiError,
    is_on_other_machine: bool,
) -> Error {
    open_call.redact(&run.redactor);
    let mut error = Error::from(cause);
    if is_on_other_machine {
        let host = intent.holder.as_ref().map_or("that machine", |holder| holder.host.as_str());
        error = error.with_hint(format!(
            "if {host} can be reached again later, wait for it: it delivers the answer, and the same command \
             then continues"
        ));
    }
    let search = suspects::search_vm(run, inputs, store.state(), &intent.effect);
    let caller = intent.holder.as_ref().map_or_else(|| "an earlier run".to_owned(), Holder::to_string);
    unknown_outcome_error(&intent.effect, open_call, error, search.vm.as_deref())
        .with_note(format!("the call is of {caller}: this run did not call the CPI again"))
        .with_notes(search.note)
}

/// Reads the answer to a call by the terms under which it was made.
pub(super) fn parse_answer(intent: &Intent<Effect>, bytes: &[u8]) -> Result<cpi::Answer, CpiError> {
    read_answer(bytes, intent.effect.method(), &intent.request_id, intent.terms)
}

/// The result of waiting for a call of an earlier run.
enum WaitResult {
    /// The call was never made.
    NeverStarted,
    /// The bytes that the CPI process wrote.
    Ended(Vec<u8>),
    /// Another machine was to make the call, and its answer is not in the journal.
    OnOtherMachine,
}

/// Waits until the call's process has ended. `may_forget` applies only after that.
fn wait_for_call(
    run: &RunContext,
    store: &Store,
    intent: &Intent<Effect>,
    open_call: &OpenCall,
    may_forget: bool,
) -> Result<WaitResult> {
    let read_error =
        |error| Error::io(format!("reading the answer to the call {}", intent.request_id), error);
    let mut backoff = Backoff::up_to(Duration::from_millis(250));
    // The CPI process may need the registry while this run waits for it.
    let mut registry = None;
    let mut is_reported = false;
    let start = Instant::now();
    wait_for_answer(
        || match open_call.read_progress().map_err(read_error)? {
            CallProgress::NeverStarted => Ok(Some(WaitResult::NeverStarted)),
            CallProgress::Ended(bytes) => Ok(Some(WaitResult::Ended(bytes))),
            CallProgress::OnOtherMachine => Ok(Some(WaitResult::OnOtherMachine)),
            CallProgress::Running => Ok(None),
        },
        || {
            cpi::truncate_oversized_answer(&open_call.answer_path());
            let bytes = open_call.read_answer_so_far().map_err(read_error)?;
            let is_complete = matches!(parse_answer(intent, &bytes), Ok(_) | Err(CpiError::Answered { .. }));
            Ok(is_complete.then_some(WaitResult::Ended(bytes)))
        },
        || {
            if registry.is_none() {
                registry = open_registry(run, store, intent, is_reported);
            }
            if !is_reported {
                is_reported = true;
                // The call goes on, even if this run ends.
                run.signals.begin_change();
                let (method, end) = (&intent.method, instruction_to_end(open_call));
                if may_forget {
                    let warning = Warning::new(format!(
                        "--forget-open-calls does not apply to the `{method}` of an earlier run while it \
                         is still running"
                    ));
                    run.reporter.warn(warning.with_hint(format!("wait for it, or {end}")));
                }
                let warning = Warning::new(format!(
                    "waiting for the `{method}` of an earlier run, which is still running"
                ));
                let log_path = open_call.log_path().display().to_string();
                run.reporter.warn(
                    warning
                        .with_hint(format!("see its log: `tail -f {}`", shell_word(&log_path)))
                        .with_hint(format!("if the CPI hangs, {end}")),
                );
            }
            signals::check_may_continue(run)
                .map_err(|error| explain_interrupted_wait(error, intent, open_call))?;
            if let Some(timeout) = run.cpi_timeout.filter(|timeout| start.elapsed() >= *timeout) {
                run.left_cpi_running.store(true, Ordering::SeqCst);
                let method = intent.effect.method();
                let (request_id, cause) = (intent.request_id.clone(), StopCause::Timeout(timeout));
                let error = CpiError::Abandoned { method, request_id, cause };
                return Err(explain_running_call(error.into(), &intent.effect, open_call));
            }
            backoff.pause(&run.clock, Activity::Pause);
            Ok(())
        },
    )
}

/// Names the call that a signal did not let the run wait for. Other errors stay as they are.
fn explain_interrupted_wait(error: Error, intent: &Intent<Effect>, open_call: &OpenCall) -> Error {
    let ErrorKind::Interrupted(_) = error.kind() else { return error };
    let method = &intent.method;
    let wait_error =
        Error::new(error.kind(), format!("interrupted while waiting for the `{method}` of an earlier run"))
            .with_rerun_hint(RERUN_WAITS_HINT);
    explain_running_call(wait_error, &intent.effect, open_call)
}

/// Starts the registry again, at the endpoint that the CPI process and its VM use. Reports a failure once,
/// unless `is_reported`.
fn open_registry(
    run: &RunContext,
    store: &Store,
    intent: &Intent<Effect>,
    is_reported: bool,
) -> Option<CallRegistry> {
    let endpoint = intent.registry.clone()?;
    match CallRegistry::start_again(endpoint, store.journal().registry_document()) {
        Ok(registry) => Some(registry),
        Err(error) => {
            if !is_reported {
                run.reporter.warn(format!(
                    "the registry that the CPI process of an earlier run needs cannot be started again \
                     yet: {}",
                    error.chain().join(": ")
                ));
            }
            None
        }
    }
}

/// Returns the changes that follow from an answer, after trying them on a copy of the state.
fn try_changes(
    run: &RunContext,
    store: &Store,
    intent: &Intent<Effect>,
    answer: &cpi::Answer,
) -> Result<Vec<Change>, String> {
    if let cpi::Answer::Hint(Some(hint)) = answer {
        prepare::register_hint_secrets(run, hint);
    }
    let changes = intent.effect.changes(answer)?;
    let mut trial_state = store.state().clone();
    for change in &changes {
        trial_state.apply(change.clone()).map_err(|rejection| rejection.to_string())?;
    }
    Ok(changes)
}
