//! Shows the text of `monopile help` through a pager, if standard output is a terminal.

use std::io::{IsTerminal as _, Write as _};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::cli::env_vars::PAGER;
use crate::cli::session::{has_colors, is_dumb};

/// The pager without `PAGER`: ends if the text fits on the screen, and shows colours.
const DEFAULT_PAGER: [&str; 2] = ["less", "-FRX"];

/// Returns true if a text may have colours and bold words.
pub(in crate::cli) fn is_styled() -> bool {
    std::io::stdout().is_terminal() && has_colors() && !is_dumb()
}

/// Prints a text. A missing pager is no error, and a closed standard output neither.
pub(in crate::cli) fn show_page(text: &str) {
    let is_paged = std::io::stdout().is_terminal() && !is_dumb() && show_in_pager(text);
    if !is_paged {
        let _ = std::io::stdout().write_all(text.as_bytes());
    }
}

/// Shows a text in the pager until the operator ends it. Returns false if the pager cannot be started.
fn show_in_pager(text: &str) -> bool {
    let pager_words = PAGER.value().and_then(|value| shell_words::split(value.to_str()?).ok());
    let words = pager_words
        .filter(|words| !words.is_empty())
        .unwrap_or_else(|| DEFAULT_PAGER.map(str::to_owned).to_vec());
    let Some((program, arguments)) = words.split_first() else { return false };
    // Ctrl-C in the pager must not end this process, which would leave the pager without its terminal.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::new(AtomicBool::new(false)));
    let Ok(mut pager) = Command::new(program).args(arguments).stdin(Stdio::piped()).spawn() else {
        return false;
    };
    if let Some(mut input) = pager.stdin.take() {
        // The operator may leave before the end of the text.
        let _ = input.write_all(text.as_bytes());
    }
    let _ = pager.wait();
    true
}
