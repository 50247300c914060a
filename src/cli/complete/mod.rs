//! Shell completion. The shell runs the program, which also offers values from the manifest and the state.
//!
//! [`script`] returns the script that a shell loads. It runs `MONOPILE_COMPLETE=SHELL monopile -- WORDS`,
//! which [`try_answer`] answers.

mod manifest;
mod record;
mod shells;
mod typed_command_line;
mod values;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Command;
use clap_complete::env::{Elvish, EnvCompleter, Fish, Powershell};

use super::env_vars::{COMPLETED_WORD, COMPLETING_SHELL};
use super::{grammar, help, paths};
use base::{Error, Result};
use shells::{BASH, ZSH};

pub(super) use self::manifest::job_names;

const SHELLS: [&dyn EnvCompleter; 5] = [&BASH, &ZSH, &Fish, &Powershell, &Elvish];

/// Returns the completion script of a shell.
pub(super) fn script(shell: &str) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    if let Some(shell) = SHELLS.iter().find(|candidate| candidate.name() == shell) {
        shell
            .write_registration(COMPLETING_SHELL.name, "monopile", "monopile", "monopile", &mut text)
            .map_err(|error| Error::io("writing a completion script", error))?;
    }
    Ok(text)
}

/// Hides the aliases of commands. They are offered only for a word with which no full name begins.
fn with_hidden_aliases(grammar: Command) -> Command {
    grammar.mut_subcommands(|command| {
        let aliases: Vec<String> = command.get_all_aliases().map(str::to_owned).collect();
        // `None` clears the list.
        command.visible_alias(None::<&str>).aliases(aliases)
    })
}

/// Removes the options from an answer, which has one candidate per line. Options are offered only after a
/// dash.
fn without_options(answer: &[u8]) -> Vec<u8> {
    let candidates = answer.split_inclusive(|byte| *byte == b'\n').filter(|line| !line.starts_with(b"-"));
    candidates.flatten().copied().collect()
}

/// Answers the request of a shell. Errors change only the exit code, because the operator is typing.
pub(super) fn try_answer(args: &[OsString]) -> Option<ExitCode> {
    let name = COMPLETING_SHELL.value()?;
    let words = args.get(1..)?.strip_prefix(&[OsString::from("--")])?;
    let shell = SHELLS.iter().find(|shell| shell.name() == name)?;
    let index = COMPLETED_WORD.value().and_then(|index| index.to_str()?.parse().ok());
    let index: usize = index.unwrap_or_else(|| words.len().saturating_sub(1));
    let mut other_words = words.to_vec();
    if index < other_words.len() {
        other_words.remove(index);
    }
    let is_option = words.get(index).is_some_and(|word| word.as_encoded_bytes().starts_with(b"-"));
    let grammar = values::with_values(with_hidden_aliases(grammar::for_words(words)), &other_words);
    let mut grammar = help::with_help_command(grammar, words);
    let working_directory = paths::working_directory().ok();
    let mut text = Vec::new();
    let result = shell
        .write_complete(&mut grammar, words.to_vec(), working_directory.as_deref(), &mut text)
        .and_then(|()| {
            let candidates = if is_option { text } else { without_options(&text) };
            std::io::Write::write_all(&mut std::io::stdout(), &candidates)
        });
    Some(if result.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
