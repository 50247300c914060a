//! The end of a run: the final event, and the exit code of the result.

use std::io::{self, IsTerminal as _, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::builder::styling::Styles;

use super::help;
use super::run_log::RunLog;
use super::session::{Session, has_colors, is_dumb};
use crate::ui;
use base::error::is_full;
use base::events::{Event, Reporter};
use base::timing::Counts;
use base::{ErrorKind, Result};

/// The output of a command that ran to its end, with the problem or the exit code that goes with it.
pub(super) enum CommandResult {
    /// A sentence for the end of the run.
    Summary(String),
    /// Text for standard output, printed unchanged.
    Output(Vec<u8>),
    /// Output, and a sentence for the history.
    Summarized(Vec<u8>, String),
    /// The document of `--json=bosh`, which the renderer prints.
    Document,
    /// Output, and the problem that it shows.
    Problem(Vec<u8>, base::Error),
    /// Output with an exit code of its own. A code other than 0 is not reported as an error.
    Verdict(Vec<u8>, u8),
}

impl CommandResult {
    /// Adds a problem that the output shows.
    pub(super) fn with_problem(self, error: base::Error) -> Self {
        match self {
            CommandResult::Output(bytes)
            | CommandResult::Summarized(bytes, _)
            | CommandResult::Problem(bytes, _)
            | CommandResult::Verdict(bytes, _) => CommandResult::Problem(bytes, error),
            CommandResult::Summary(_) | CommandResult::Document => CommandResult::Problem(Vec::new(), error),
        }
    }

    /// Adds a sentence for the history to output.
    pub(super) fn with_summary(self, summary: String) -> Self {
        match self {
            CommandResult::Output(bytes) => CommandResult::Summarized(bytes, summary),
            other => other,
        }
    }

    /// Encodes a document as JSON output.
    pub(super) fn json(document: &impl serde::Serialize) -> Result<Self> {
        let mut text = serde_json::to_string_pretty(document)
            .map_err(|error| base::Error::failure("encoding the result as JSON failed").with_source(error))?;
        text.push('\n');
        Ok(CommandResult::Output(base::text::escape_json(&text).into_owned().into_bytes()))
    }

    /// Adds an exit code to output.
    pub(super) fn with_exit_code(self, exit_code: u8) -> Self {
        match self {
            CommandResult::Output(bytes) => CommandResult::Verdict(bytes, exit_code),
            other => other,
        }
    }
}

/// Prints the result and returns the exit code.
pub(super) fn finish(session: &Session, result: Result<CommandResult>) -> ExitCode {
    let timings = session.clock.timings();
    let elapsed = timings.total;
    // Without calls, there are no timings.
    let timings = (timings.counts != Counts::default()).then(|| Box::new(timings));
    // The summary is shown after a run without output, and recorded in any case.
    let result = result.and_then(|result| match result {
        CommandResult::Summary(summary) => Ok((summary, true, 0)),
        CommandResult::Output(bytes) => write_output(&bytes).map(|()| (String::new(), false, 0)),
        CommandResult::Summarized(bytes, summary) => write_output(&bytes).map(|()| (summary, false, 0)),
        CommandResult::Document => Ok((String::new(), true, 0)),
        CommandResult::Problem(bytes, error) => write_output(&bytes).and(Err(error)),
        CommandResult::Verdict(bytes, exit_code) => {
            write_output(&bytes).map(|()| (String::new(), false, exit_code))
        }
    });
    let log = session.log();
    let log_path = log.and_then(RunLog::path).map(|path| path.display().to_string());
    let report = |has_failed| session.run_report(has_failed).map(Box::new);
    let code = match result {
        Ok((summary, false, exit_code)) => {
            session.end_record(exit_code, elapsed, &summary, false);
            ExitCode::from(exit_code)
        }
        Ok((summary, true, _)) => {
            session.end_record(0, elapsed, &summary, false);
            session.reporter.emit(Event::RunFinished {
                has_succeeded: true,
                summary,
                elapsed,
                errors: Vec::new(),
                notes: Vec::new(),
                hints: Vec::new(),
                exit_code: 0,
                timings,
                log: log_path,
                report: report(false),
            });
            ExitCode::SUCCESS
        }
        Err(error) => {
            let error = session.explain_full_disk(session.explain_interruption(error));
            let exit_code = error.kind().exit_code();
            let is_declined = error.kind() == ErrorKind::Declined;
            let report = report(!matches!(error.kind(), ErrorKind::Interrupted(_)));
            let is_invalid =
                matches!(error.kind(), ErrorKind::Usage | ErrorKind::Declined | ErrorKind::InvalidInput);
            // The log adds nothing to an error of the command line or the input.
            let log_path = log_path.filter(|_| !is_invalid || session.has_started_a_step());
            session.end_record(exit_code, elapsed, &error.summary(), is_declined);
            session.reporter.emit(Event::RunFinished {
                has_succeeded: false,
                summary: error.to_string(),
                elapsed,
                errors: error.chain(),
                notes: error.notes().to_vec(),
                hints: error.hints().to_vec(),
                exit_code,
                timings,
                log: log_path,
                report,
            });
            ExitCode::from(exit_code)
        }
    };
    if let Some(log) = log {
        log.finish();
    }
    code
}

/// Returns the exit code for a panic that the hook has reported.
pub(super) fn panic_exit_code() -> ExitCode {
    ExitCode::from(ErrorKind::Failure.exit_code())
}

/// Prints the help that `monopile help` asks for.
pub(super) fn print_help_page(error: &clap::Error) {
    let text = error.render();
    help::show_page(&if help::is_styled() { text.ansi().to_string() } else { text.to_string() });
}

/// Prints help, the version, or the error for an invalid command line.
pub(super) fn print_clap_error(error: &clap::Error, is_json: bool) -> ExitCode {
    if !error.use_stderr() {
        // A closed standard output does not fail `--help`.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let exit_code = ErrorKind::Usage.exit_code();
    // clap writes "tip" where other errors have "hint". Its text has the words of the command line.
    let text =
        plain_numbers(&base::text::clean(&error.render().to_string())).replace("\n  tip: ", "\n  hint: ");
    if is_json {
        let message = text.trim().split("\n\n").next().unwrap_or_default();
        let message = message.split("\n  hint: ").next().unwrap_or_default();
        let message = message.strip_prefix("error: ").unwrap_or(message).to_owned();
        let hints = text.lines().filter_map(|line| line.strip_prefix("  hint: "));
        let hints = hints.map(str::to_owned).collect();
        let sink: Arc<dyn base::events::Sink> = ui::create_renderer(
            ui::Options {
                format: ui::Format::Json,
                allows_color: false,
                shows_unicode: false,
                is_dumb: false,
                is_verbose: false,
                is_stdout_reserved: false,
                prints_stages: false,
            },
            base::redact::Redactor::default(),
        )
        .sink();
        Reporter::new(sink).emit(Event::RunFinished {
            has_succeeded: false,
            summary: message.clone(),
            elapsed: Duration::ZERO,
            errors: vec![message],
            notes: Vec::new(),
            hints,
            exit_code,
            timings: None,
            log: None,
            report: None,
        });
    } else {
        let text = match io::stderr().is_terminal().then(ui::stdout_columns) {
            Some(columns) => {
                let text = match text.lines().any(|line| ui::width(line) > columns) {
                    true => ui::wrap(&text, columns),
                    false => text,
                };
                if has_colors() && !is_dumb() { colored(&text) } else { text }
            }
            None => text,
        };
        // Standard error may be closed.
        let _ = io::stderr().write_all(text.as_bytes());
    }
    ExitCode::from(exit_code)
}

/// Returns the text of an error with the colors that clap gives to it. clap's own colored text would have the
/// control characters of the command line.
fn colored(text: &str) -> String {
    let styles = Styles::styled();
    let (error, hint) = (styles.get_error(), styles.get_valid());
    let text = match text.strip_prefix("error:") {
        Some(rest) => format!("{error}error:{error:#}{rest}"),
        None => text.to_owned(),
    };
    text.replace("\n  hint: ", &format!("\n  {hint}hint:{hint:#} "))
}

/// Replaces the standard library's words for an invalid number.
pub(super) fn plain_numbers(text: &str) -> String {
    [
        ("invalid digit found in string", "expected a whole number"),
        ("cannot parse integer from empty string", "expected a whole number"),
        ("number too large to fit in target type", "it is too large"),
        ("number too small to fit in target type", "it is too small"),
    ]
    .iter()
    .fold(text.to_owned(), |text, (words, plain)| text.replace(words, plain))
}

/// Writes output, as [`write_output_with`] does.
fn write_output(bytes: &[u8]) -> Result<()> {
    write_output_with(|out| out.write_all(bytes))
}

/// Writes the output that `write` makes. A reader that ends early (`| head`) is not an error. On a terminal,
/// removes control characters of foreign values. A pipe or file gets every byte.
pub(super) fn write_output_with(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let mut stdout = io::stdout().lock();
    let result = match stdout.is_terminal() {
        true => {
            let mut bytes = Vec::new();
            write(&mut bytes).and_then(|()| stdout.write_all(&ui::clean_bytes(&bytes)))
        }
        false => write(&mut stdout),
    };
    match result.and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(output_error(error)),
        _ => Ok(()),
    }
}

/// Returns the error for a failed write to standard output.
pub(super) fn output_error(error: io::Error) -> base::Error {
    let is_full = is_full(error.kind());
    let error = base::Error::failure("writing to standard output failed").with_source(error);
    match is_full {
        // The shell has chosen the file.
        true => error.with_hint(
            "free space on the file system of the file that standard output goes to, or redirect the output \
             to another file",
        ),
        false => error,
    }
}

/// Reports a panic as a bug with its place in the code. Release builds omit the message, because it may
/// hold values of the manifest.
pub(super) fn install_panic_hook() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic
            .location()
            .map(|location| format!(" at {}:{}", location.file(), location.line()))
            .unwrap_or_default();
        // The macro eprintln would panic again when standard error is closed.
        let _ = writeln!(
            io::stderr(),
            "monopile {}: this is a bug{place}. The state is intact: run the same command again.",
            env!("CARGO_PKG_VERSION"),
        );
        if cfg!(debug_assertions) {
            let _ = writeln!(io::stderr(), "{panic}");
        }
    }));
}
