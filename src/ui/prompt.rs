//! Prompts on a terminal. Only this file uses dialoguer.

use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};

use base::text::clean;
use base::{Error, ErrorKind, Result};
use dialoguer::console::{Key, Term};

/// The message for Ctrl-C at a prompt, if nothing was done before it.
pub const NOTHING_DONE_MESSAGE: &str = "interrupted: nothing was done";

/// True while a prompt waits for an answer. It stays true after a signal at a prompt, which ends the run.
static IS_ASKING: AtomicBool = AtomicBool::new(false);

/// The columns that stay free for ` [y/N] ` and the answer.
const ANSWER_COLUMNS: usize = 12;
/// The maximum length of an answer. What is typed after it is ignored.
const MAX_ANSWER_BYTES: usize = 256;
/// Ctrl-D.
const END_OF_INPUT: char = '\u{4}';

/// Returns true while a prompt waits. The prompt then reports signals itself.
pub fn is_asking() -> bool {
    IS_ASKING.load(Ordering::SeqCst)
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
    interrupt_message: &'static str,
    mode: ReadMode,
    prompt: impl FnOnce() -> dialoguer::Result<T>,
) -> Result<T> {
    IS_ASKING.store(true, Ordering::SeqCst);
    if mode == ReadMode::Keys {
        discard_input();
    }
    let guard = guard::Guard::new(interrupt_message, mode)?;
    let answer = prompt();
    guard.release();
    let answer = answer.map_err(|error| prompt_error(error, action, interrupt_message));
    let ends_run = answer.as_ref().is_err_and(|error| matches!(error.kind(), ErrorKind::Interrupted(_)));
    IS_ASKING.store(ends_run, Ordering::SeqCst);
    answer
}

/// Asks a yes-or-no question on standard error. Enter ends the answer: `y` and `yes` in any case are yes,
/// `n`, `no` and an empty answer are no, and after any other answer the question is asked again. Ctrl-D on an
/// empty line is no. Ctrl-C is [`ErrorKind::Interrupted`](base::ErrorKind::Interrupted).
pub fn confirm(question: &str) -> Result<bool> {
    confirm_or(question, NOTHING_DONE_MESSAGE)
}

/// Like [`confirm`], with another message for Ctrl-C.
pub fn confirm_or(question: &str, interrupt_message: &'static str) -> Result<bool> {
    let question = clean(question);
    // The text before the last line break is not part of the question, and stays.
    let (introduction, question) = question.trim_end().rsplit_once('\n').unwrap_or(("", question.trim_end()));
    let columns = super::stdout_columns();
    let question = super::wrap(question, columns.saturating_sub(ANSWER_COLUMNS));
    let question = question.trim_end();
    ask("asking for confirmation", interrupt_message, ReadMode::Keys, || {
        if !introduction.is_empty() {
            let _ = writeln!(std::io::stderr(), "{}", super::wrap(introduction, columns).trim_end());
        }
        let term = Term::stderr();
        loop {
            term.write_str(&format!("{question} [y/N] "))?;
            let answer = read_answer(&term)?;
            // The question is erased and written again: with the answer, or below `answer y or n`.
            term.clear_line()?;
            term.clear_last_lines(rows(question, columns).saturating_sub(1))?;
            if let Some(answer) = parse_answer(&answer) {
                term.write_line(&format!("{question} {}", if answer { "yes" } else { "no" }))?;
                return Ok(answer);
            }
            term.write_line("answer y or n")?;
            discard_input();
        }
    })
}

/// Returns the number of rows of a question with its answer. A word that is longer than a row is broken.
fn rows(question: &str, columns: usize) -> usize {
    let last_index = question.lines().count().saturating_sub(1);
    let row_counts = question.lines().enumerate().map(|(index, line)| {
        let answer = if index == last_index { " [y/N] ".len() } else { 0 };
        (line.chars().count() + answer).div_ceil(columns.max(1)).max(1)
    });
    row_counts.sum()
}

/// Reads a line of keys and shows them. Ctrl-D ends an empty line.
fn read_answer(term: &Term) -> dialoguer::Result<String> {
    if !term.is_term() {
        return Err(std::io::Error::new(std::io::ErrorKind::NotConnected, "not a terminal").into());
    }
    let visible_columns = ANSWER_COLUMNS - " [y/N] ".len();
    let mut answer = String::new();
    loop {
        match term.read_key()? {
            Key::Enter => return Ok(answer),
            Key::Char(END_OF_INPUT) if answer.is_empty() => return Ok(answer),
            Key::Backspace if !answer.is_empty() => {
                let is_shown = answer.len() < visible_columns;
                answer.pop();
                if is_shown {
                    term.clear_chars(1)?;
                }
            }
            // Keys for which the line has no more room are read but not shown. An answer of that length is
            // neither yes nor no.
            Key::Char(key) if !key.is_control() && answer.len() < MAX_ANSWER_BYTES => {
                answer.push(key);
                if answer.len() < visible_columns {
                    term.write_str(key.encode_utf8(&mut [0; 4]))?;
                }
            }
            _ => {}
        }
    }
}

/// Discards what was typed or pasted before the question, so that it does not answer it.
fn discard_input() {
    // Without a terminal, the prompt fails by itself.
    let _ = rustix::termios::tcflush(rustix::stdio::stdin(), rustix::termios::QueueSelector::IFlush);
}

/// Returns true for yes and false for no. Returns `None` for an answer that is neither.
fn parse_answer(answer: &str) -> Option<bool> {
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Some(true),
        "" | "n" | "no" => Some(false),
        _ => None,
    }
}

/// Asks for a secret on standard error without showing it. Ctrl-C is an error as in [`confirm`]. The answer
/// may be empty.
pub fn ask_secret(question: &str) -> Result<String> {
    let question = clean(question);
    ask("asking for a secret", NOTHING_DONE_MESSAGE, ReadMode::Line, || {
        let prompt = dialoguer::Password::new().with_prompt(&*question);
        prompt.allow_empty_password(true).report(false).interact()
    })
}

fn prompt_error(
    dialoguer::Error::IO(error): dialoguer::Error,
    action: &str,
    interrupt_message: &str,
) -> Error {
    end_line();
    match error.kind() {
        std::io::ErrorKind::Interrupted => Error::new(ErrorKind::Interrupted(2), interrupt_message),
        _ => Error::io(action, error),
    }
}

/// Ends the line of a question without an answer.
fn end_line() {
    let _ = std::io::stderr().write_all(b"\n");
}

/// Handles signals during a prompt. If the prompt reads a Ctrl-C, it raises SIGINT and then fails. Any other
/// signal, or a Ctrl-C before the prompt reads, ends the process with the terminal restored.
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
        original_settings: Option<Termios>,
        is_released: Arc<AtomicBool>,
        signals: Handle,
    }

    impl Guard {
        pub(super) fn new(interrupt_message: &'static str, mode: ReadMode) -> Result<Guard> {
            let signal_error = |error| Error::io("watching for signals", error);
            let original_settings = tcgetattr(rustix::stdio::stdin()).ok();
            // The prompt shows what is typed. The terminal would show it again between two keys. A prompt for
            // keys also gets Ctrl-C as a key, from the moment it is shown.
            if let Some(mut silent_settings) = original_settings.clone() {
                silent_settings.local_modes.remove(LocalModes::ECHO);
                if mode == ReadMode::Keys {
                    silent_settings.local_modes.remove(LocalModes::ICANON | LocalModes::ISIG);
                }
                let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &silent_settings);
            }
            let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(signal_error)?;
            let guard = Guard {
                original_settings: original_settings.clone(),
                is_released: Arc::default(),
                signals: signals.handle(),
            };
            let is_released = Arc::clone(&guard.is_released);
            std::thread::Builder::new()
                .name("prompt-signals".into())
                .spawn(move || {
                    for signal in signals.forever() {
                        std::thread::sleep(INTERRUPT_TIMEOUT);
                        if is_released.load(Ordering::SeqCst) {
                            return;
                        }
                        leave(original_settings.as_ref(), signal, interrupt_message);
                    }
                })
                .map_err(signal_error)?;
            Ok(guard)
        }

        /// Ends the guard after the answer.
        pub(super) fn release(self) {
            self.is_released.store(true, Ordering::SeqCst);
            self.signals.close();
            restore(self.original_settings.as_ref());
        }
    }

    fn restore(settings: Option<&Termios>) {
        if let Some(settings) = settings {
            // After SIGHUP there may be no terminal to restore.
            let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, settings);
        }
    }

    fn leave(settings: Option<&Termios>, signal: i32, interrupt_message: &str) {
        restore(settings);
        super::end_line();
        let _ = writeln!(std::io::stderr(), "error: {interrupt_message}");
        // This fails only for unknown signals.
        let _ = signal_hook::low_level::emulate_default_handler(signal);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn only_y_and_yes_are_yes() {
        for yes in ["y", "Y", "yes", "YES", " yes "] {
            assert_eq!(super::parse_answer(yes), Some(true), "{yes}");
        }
        for no in ["", "n", "N", "no", " No "] {
            assert_eq!(super::parse_answer(no), Some(false), "{no}");
        }
        for other in ["not yet", "maybe", "nay", "yy", "yes please", "monopile history"] {
            assert_eq!(super::parse_answer(other), None, "{other}");
        }
    }
}
