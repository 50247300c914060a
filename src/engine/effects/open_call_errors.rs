//! The errors for a call that stays open.

use std::path::Path;

use super::effect::Effect;
use super::failed_call::forget_command;
use crate::state::{Intent, OpenCall};
use base::Error;
use base::files::input;
use base::text::shell_word;

/// The maximum size of a file that is compared with an error, in bytes. A longer one has more than the error.
const MAX_COMPARED_BYTES: u64 = 16 << 10;

/// Adds a note and a hint to the error for a call whose CPI process still runs.
pub(crate) fn explain_running_call(error: Error, effect: &Effect, open_call: &OpenCall) -> Error {
    let end = instruction_to_end(open_call);
    let next_action = match effect.creates() {
        true => "says what to look for in the IaaS",
        false => "makes the call again",
    };
    error
        .with_note(format!("the CPI's log of this call is in '{}'", open_call.log_path().display()))
        .with_hint(format!("if the CPI hangs, {end}; the next run then {next_action}"))
}

/// Describes how to end the CPI process of a call.
pub(crate) fn instruction_to_end(open_call: &OpenCall) -> String {
    let pids: Vec<String> = open_call.find_processes().iter().map(u32::to_string).collect();
    match pids.as_slice() {
        [] => "end its process".to_owned(),
        pids => format!("end its process: `kill {}`", pids.join(" ")),
    }
}

/// Returns the error for a call that may have created something with an unknown CID. `vm` is the CID of the
/// VM that the call created, if its agent named it.
pub(crate) fn unknown_outcome_error(
    effect: &Effect,
    open_call: &OpenCall,
    cause: Error,
    vm: Option<&str>,
) -> Error {
    let error = cause.context(format!("the outcome of the CPI's `{}` is unknown", effect.method()));
    let shown_text = error.chain().join("\n");
    // The files are on the machine that made the call.
    let paths = [open_call.answer_path(), open_call.log_path()];
    let files: Vec<String> = paths
        .iter()
        .filter(|path| shows_more(path, &shown_text))
        .map(|path| shell_word(&path.display().to_string()).into_owned())
        .collect();
    let is_explained = paths.iter().any(|path| has_content(path));
    let error = error
        .with_notes(is_explained.then(|| {
            format!("the next `{}` probably fails too, until the cause is corrected", effect.method())
        }))
        .with_hints((!files.is_empty()).then(|| format!("see why: `cat {}`", files.join(" "))));
    match vm {
        Some(vm) => {
            let cpi_option = effect.cpi().map(|cpi| format!(" --cpi {}", shell_word(cpi)));
            error
                .with_hint(format!(
                    "delete that VM, and forget the call: `monopile delete-vm MANIFEST {}{} \
                     --forget-open-calls`",
                    shell_word(vm),
                    cpi_option.unwrap_or_default()
                ))
                .with_rerun_hint("then run the same command again")
        }
        None => {
            let command = "then forget the call and continue: `monopile SAME-COMMAND --forget-open-calls`";
            let mut steps = steps_to_forget(effect, command);
            let last_step = steps.pop().unwrap_or_default();
            error.with_hints(steps).with_rerun_hint(last_step)
        }
    }
}

/// Returns the steps after a call with an unknown outcome: look for what it may have created, then this last
/// step, which forgets the call.
fn steps_to_forget(effect: &Effect, last_step: &str) -> Vec<String> {
    let place = effect.describe_in_iaas();
    match effect {
        // The new disk may have the only copy of the data.
        Effect::UpdateDisk { disk, .. } => vec![
            format!("look in the IaaS for {place}"),
            format!(
                "if disk {disk} is gone, the new disk has its data; record that: `monopile attach-disk \
                 MANIFEST CID --forget-open-calls`"
            ),
            format!("if disk {disk} exists, delete the new disk if there is one; {last_step}"),
        ],
        _ => vec![format!("look in the IaaS for {place}, and delete it if it exists"), last_step.to_owned()],
    }
}

/// Describes the steps after a call with an unknown outcome. The last one only forgets this call.
pub(crate) fn instructions_to_forget(intent: &Intent<Effect>) -> Vec<String> {
    let command = forget_command(&format!("--call {}", intent.request_id));
    steps_to_forget(&intent.effect, &format!("then forget the call: `{command}`"))
}

/// Returns true if a file has a line that is not in this text.
fn shows_more(path: &Path, shown_text: &str) -> bool {
    let Ok(text) = input::read_text(path, MAX_COMPARED_BYTES) else { return has_content(path) };
    !text.lines().all(|line| shown_text.contains(line.trim()))
}

fn has_content(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.len() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_is_named_only_if_it_has_more_than_the_error_shows() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("answer");
        let shown_text = "it begins: 'say \"no\"'\nthe end of the CPI's log:\nasking";
        assert!(!shows_more(&path, shown_text), "a missing log is said to show more");
        for (content, expected) in
            [("", false), ("say \"no\"\n", false), ("  asking\n\n", false), ("asking\nfor more\n", true)]
        {
            std::fs::write(&path, content).unwrap();
            assert_eq!(shows_more(&path, shown_text), expected, "{content}");
        }
        std::fs::write(&path, b"\xff").unwrap();
        assert!(shows_more(&path, shown_text));
    }
}
