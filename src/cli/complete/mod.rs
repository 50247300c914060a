//! Shell completion. The shell asks the program, which offers values from manifest and state as well.
//!
//! [`script`] returns the script that a shell loads. It runs `MONOPILE_COMPLETE=SHELL monopile -- WORDS`,
//! which [`try_answer`] answers.

mod manifest;
mod record;
mod shells;
mod typed;
mod values;

use std::ffi::OsString;
use std::process::ExitCode;

use clap_complete::env::{Elvish, EnvCompleter, Fish, Powershell};

use super::{grammar, paths};
use base::{Error, Result};
use shells::{BASH, ZSH};

/// The variable with the name of the shell.
const VARIABLE: &str = "MONOPILE_COMPLETE";
/// The variable with the index of the word to complete. Without it, the last word is completed.
const INDEX: &str = "_CLAP_COMPLETE_INDEX";

const SHELLS: [&dyn EnvCompleter; 5] = [&BASH, &ZSH, &Fish, &Powershell, &Elvish];

/// Returns the completion script of a shell.
pub(super) fn script(shell: &str) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    if let Some(shell) = SHELLS.iter().find(|known| known.name() == shell) {
        shell
            .write_registration(VARIABLE, "monopile", "monopile", "monopile", &mut text)
            .map_err(|error| Error::io("writing a completion script", error))?;
    }
    Ok(text)
}

/// Answers the request of a shell. Errors show in the exit code only, because a user is typing.
pub(super) fn try_answer(args: &[OsString]) -> Option<ExitCode> {
    let name = paths::variable(VARIABLE)?;
    let words = args.get(1..)?.strip_prefix(&[OsString::from("--")])?;
    let shell = SHELLS.iter().find(|shell| shell.name() == name)?;
    let index = paths::variable(INDEX).and_then(|index| index.to_str()?.parse().ok());
    let index: usize = index.unwrap_or_else(|| words.len().saturating_sub(1));
    let mut others = words.to_vec();
    if index < others.len() {
        others.remove(index);
    }
    let mut grammar = values::with_values(grammar::for_words(words), &others);
    let here = paths::working_directory().ok();
    let mut text = Vec::new();
    let answered = shell
        .write_complete(&mut grammar, words.to_vec(), here.as_deref(), &mut text)
        .and_then(|()| std::io::Write::write_all(&mut std::io::stdout(), &text));
    Some(if answered.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
