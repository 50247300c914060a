//! Prompts on a terminal. Only this file uses dialoguer.

use std::fmt::Write;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};

use base::text::clean;
use base::{Error, ErrorKind, Result};

/// The message for Ctrl-C at a prompt, if nothing was done before it.
pub const NOTHING_DONE: &str = "interrupted: nothing was done";

/// True while a prompt waits for an answer. It stays true after a signal at a prompt, which ends the run.
static ASKING: AtomicBool = AtomicBool::new(false);

/// The columns that stay free for ` [y/N] ` and the answer.
const ANSWER_COLUMNS: usize = 8;

/// Returns true while a prompt waits. The prompt then reports signals itself.
pub fn is_asking() -> bool {
    ASKING.load(Ordering::SeqCst)
}

/// The way in which a prompt reads.
#[derive(Clone, Copy, PartialEq)]
enum ReadMode {
    Keys,
    Line,
}

/// Shows a prompt, and returns its answer.
fn ask<T>(
    action: &str,
    interrupted: &'static str,
    mode: ReadMode,
    prompt: impl FnOnce() -> dialoguer::Result<T>,
) -> Result<T> {
    ASKING.store(true, Ordering::SeqCst);
    if mode == ReadMode::Keys {
        discard_input();
    }
    #[cfg(unix)]
    let guard = guard::Guard::new(interrupted, mode)?;
    let answer = prompt();
    #[cfg(unix)]
    guard.release();
    let answer = answer.map_err(|error| prompt_error(error, action, interrupted));
    let ends_run = answer.as_ref().is_err_and(|error| matches!(error.kind(), ErrorKind::Interrupted(_)));
    ASKING.store(ends_run, Ordering::SeqCst);
    answer
}

/// Asks a yes-or-no question on standard error. Enter ends the answer: `y` and `yes` in any case are yes,
/// every other answer is no. Ctrl-C is [`ErrorKind::Interrupted`](base::ErrorKind::Interrupted).
pub fn confirm(question: &str) -> Result<bool> {
    confirm_or(question, NOTHING_DONE)
}

/// Like [`confirm`], with another message for Ctrl-C.
pub fn confirm_or(question: &str, interrupted: &'static str) -> Result<bool> {
    let question = clean(question);
    // dialoguer would repeat a question of several lines, so it gets only the last one.
    let lines = super::wrap(&question, super::stdout_columns().saturating_sub(ANSWER_COLUMNS));
    let (before, last) = lines.trim_end().rsplit_once('\n').unwrap_or(("", lines.trim_end()));
    ask("asking for confirmation", interrupted, ReadMode::Keys, || {
        if !before.is_empty() {
            let _ = writeln!(std::io::stderr(), "{before}");
        }
        let input = dialoguer::Input::<String>::with_theme(&YesOrNo).with_prompt(last);
        input.allow_empty(true).interact().map(|answer| is_yes(&answer))
    })
}

/// Discards what was typed or pasted before the question, so that it does not answer it.
fn discard_input() {
    // Without a terminal, the prompt fails by itself.
    #[cfg(unix)]
    let _ = rustix::termios::tcflush(rustix::stdio::stdin(), rustix::termios::QueueSelector::IFlush);
}

fn is_yes(answer: &str) -> bool {
    ["y", "yes"].iter().any(|yes| answer.trim().eq_ignore_ascii_case(yes))
}

/// Shows a question with `[y/N]`, and after the answer with `yes` or `no`.
struct YesOrNo;

impl dialoguer::theme::Theme for YesOrNo {
    fn format_input_prompt(&self, to: &mut dyn Write, question: &str, _: Option<&str>) -> std::fmt::Result {
        write!(to, "{question} [y/N] ")
    }

    fn format_input_prompt_selection(
        &self,
        to: &mut dyn Write,
        question: &str,
        answer: &str,
    ) -> std::fmt::Result {
        write!(to, "{question} {}", if is_yes(answer) { "yes" } else { "no" })
    }
}

/// Asks for a secret on standard error without showing it. Ctrl-C is an error as in [`confirm`]. The answer
/// may be empty.
pub fn secret(question: &str) -> Result<String> {
    let question = clean(question);
    ask("asking for a secret", NOTHING_DONE, ReadMode::Line, || {
        let prompt = dialoguer::Password::new().with_prompt(&*question);
        prompt.allow_empty_password(true).report(false).interact()
    })
}

fn prompt_error(dialoguer::Error::IO(error): dialoguer::Error, action: &str, interrupted: &str) -> Error {
    end_line();
    match error.kind() {
        std::io::ErrorKind::Interrupted => Error::new(ErrorKind::Interrupted(2), interrupted),
        _ => Error::io(action, error),
    }
}

/// Ends the line of a question without an answer.
fn end_line() {
    let _ = std::io::stderr().write_all(b"\n");
}

/// Handles signals during a prompt. If the prompt reads a Ctrl-C, it raises SIGINT and then fails. Any other
/// signal, or a Ctrl-C before the prompt reads, ends the process with the terminal restored.
#[cfg(unix)]
mod guard {
    use std::io::Write as _;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    use signal_hook::iterator::{Handle, Signals};

    use super::ReadMode;
    use base::{Error, Result};

    /// The time in which a Ctrl-C that the prompt has read becomes its error, with a margin.
    const INTERRUPT_TIMEOUT: Duration = Duration::from_millis(300);

    pub(super) struct Guard {
        /// The settings of the terminal before the prompt.
        before: Option<Termios>,
        released: Arc<AtomicBool>,
        signals: Handle,
    }

    impl Guard {
        pub(super) fn new(interrupted: &'static str, mode: ReadMode) -> Result<Guard> {
            let failed = |error| Error::io("watching for signals", error);
            let before = tcgetattr(rustix::stdio::stdin()).ok();
            // The prompt shows what is typed. The terminal would show it again between two keys. A prompt for
            // keys also gets Ctrl-C as a key, from the moment it is shown.
            if let Some(mut silent) = before.clone() {
                silent.local_modes.remove(LocalModes::ECHO);
                if mode == ReadMode::Keys {
                    silent.local_modes.remove(LocalModes::ICANON | LocalModes::ISIG);
                }
                let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &silent);
            }
            let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(failed)?;
            let guard = Guard { before: before.clone(), released: Arc::default(), signals: signals.handle() };
            let released = Arc::clone(&guard.released);
            std::thread::Builder::new()
                .name("prompt-signals".into())
                .spawn(move || {
                    for signal in signals.forever() {
                        std::thread::sleep(INTERRUPT_TIMEOUT);
                        if released.load(Ordering::SeqCst) {
                            return;
                        }
                        leave(before.as_ref(), signal, interrupted);
                    }
                })
                .map_err(failed)?;
            Ok(guard)
        }

        /// Ends the guard after the answer.
        pub(super) fn release(self) {
            self.released.store(true, Ordering::SeqCst);
            self.signals.close();
            restore(self.before.as_ref());
        }
    }

    fn restore(before: Option<&Termios>) {
        if let Some(before) = before {
            // After SIGHUP there may be no terminal to restore.
            let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, before);
        }
    }

    fn leave(before: Option<&Termios>, signal: i32, interrupted: &str) {
        restore(before);
        super::end_line();
        let _ = writeln!(std::io::stderr(), "error: {interrupted}");
        // This fails only for unknown signals.
        let _ = signal_hook::low_level::emulate_default_handler(signal);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn only_y_and_yes_are_yes() {
        for yes in ["y", "Y", "yes", "YES", " yes "] {
            assert!(super::is_yes(yes), "{yes}");
        }
        for no in ["", "n", "not yet", "maybe", "nay", "yy", "yes please", "monopile history", "\u{4}"] {
            assert!(!super::is_yes(no), "{no}");
        }
    }
}
