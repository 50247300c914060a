//! Completion: the shell asks the program what can come next, so that it offers the job names of this manifest, the
//! paths in it, the variables it still lacks.
//!
//! [`script`] is what a shell loads. It runs the program with `MONOPILE_COMPLETE=SHELL monopile -- WORDS`, which
//! [`try_answer`] answers.

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

/// Set by the scripts to the shell that asks.
const VARIABLE: &str = "MONOPILE_COMPLETE";
/// Set by most of the scripts to which of the words, from 0, is to be completed; else it is the last.
const INDEX: &str = "_CLAP_COMPLETE_INDEX";

const SHELLS: [&dyn EnvCompleter; 5] = [&BASH, &ZSH, &Fish, &Powershell, &Elvish];

/// The script of a shell.
pub(super) fn script(shell: &str) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    if let Some(shell) = SHELLS.iter().find(|known| known.name() == shell) {
        shell
            .write_registration(VARIABLE, "monopile", "monopile", "monopile", &mut text)
            .map_err(|error| Error::io("writing a completion script", error))?;
    }
    Ok(text)
}

/// Answers a shell, if one asks. What goes wrong is told by the exit code alone: a person is typing.
pub(super) fn try_answer(args: &[OsString]) -> Option<ExitCode> {
    let asks = paths::variable(VARIABLE)?;
    let words = args.get(1..)?.strip_prefix(&[OsString::from("--")])?;
    let shell = SHELLS.iter().find(|shell| shell.name() == asks)?;
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
