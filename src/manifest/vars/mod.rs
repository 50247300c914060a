//! The operations on a vars store that `monopile vars` offers: list, get, check and rotate.

pub mod command;
pub mod report;
pub mod rotate;

use std::path::Path;

use base::text::shell_word;

/// Returns a command line of `monopile vars`. `word` is the one after the store, or empty.
fn command_line(command: &str, store: &Path, word: &str) -> String {
    let line = format!("monopile vars {command} {}", shell_word(&store.to_string_lossy()));
    if word.is_empty() { line } else { format!("{line} {}", shell_word(word)) }
}
