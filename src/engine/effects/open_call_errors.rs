//! The errors for a call that stays open.

use std::path::Path;

use super::effect::Effect;
use crate::state::OpenCall;
use base::Error;
use base::text::shell_word;

/// Adds a note and a hint to the error for a call whose CPI process still runs.
pub(crate) fn explain_running_call(error: Error, effect: &Effect, open_call: &OpenCall) -> Error {
    let end = how_to_end(open_call);
    let next_action = match effect.creates() {
        true => "says what to look for in the IaaS",
        false => "makes the call again",
    };
    error
        .with_note(format!("the CPI's log of this call is '{}'", open_call.log_path().display()))
        .with_hint(format!("if the CPI hangs, {end}; the next run then {next_action}"))
}

/// Describes how to end the CPI process of a call.
pub(crate) fn how_to_end(open_call: &OpenCall) -> String {
    let pids: Vec<String> = open_call.processes().iter().map(u32::to_string).collect();
    match pids.as_slice() {
        [] => "end its process".to_owned(),
        pids => format!("end its process: `kill {}`", pids.join(" ")),
    }
}

/// Returns the error for a call that may have created something with an unknown CID.
pub(crate) fn unknown_outcome_error(effect: &Effect, open_call: &OpenCall, cause: Error) -> Error {
    let mut error = cause.context(format!("the outcome of the CPI's `{}` is unknown", effect.method()));
    // The files are on the machine that made the call.
    let mut files = Vec::new();
    for (path, part) in [(open_call.answer_path(), "answer to"), (open_call.log_path(), "log of")] {
        if has_content(&path) {
            files.push(shell_word(&path.display().to_string()).into_owned());
            error = error.with_note(format!("the CPI's {part} this call is in '{}'", path.display()));
        }
    }
    if !files.is_empty() {
        let paths = files.join(" ");
        error = error.with_hint(format!(
            "look for the cause, and correct it first, or the next call fails as well: `cat {paths}`"
        ));
    }
    error.with_rerun_hint(how_to_forget(effect, "`monopile SAME-COMMAND --forget-open-calls`"))
}

/// Describes how to look for what an unanswered call may have created, and the command to run then.
pub(crate) fn how_to_forget(effect: &Effect, command: &str) -> String {
    let advice = match effect {
        // The new disk may have the only copy of the data.
        Effect::UpdateDisk { disk, .. } => format!(
            "If disk {disk} is gone, the other disk has its data: `monopile attach-disk MANIFEST CID \
             --forget-open-calls`. Otherwise delete the other disk, if there is one, then run {command}"
        ),
        _ => format!("If you find it, delete it there. Then, or if you found nothing, run {command}"),
    };
    format!("look in the IaaS for {}. {advice}", effect.how_to_find())
}

fn has_content(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.len() > 0)
}
