//! The end of a run: the final event, and the one place where a result becomes an exit code.

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use super::run_log::RunLog;
use super::session::Session;
use crate::ui;
use base::events::{Event, Reporter};
use base::timing::Counts;
use base::{ErrorKind, Result};

/// What a command that succeeded leaves to be shown.
pub(super) enum Finished {
    /// One sentence that says what came of it.
    Summary(String),
    /// The command's product, for standard output as it is.
    Output(Vec<u8>),
    /// The command's product, and what is wrong with what it shows.
    Finding(Vec<u8>, base::Error),
    /// A product that says itself how it went, and the exit code that says the same.
    Verdict(Vec<u8>, u8),
}

impl Finished {
    /// The same product, with what is wrong with what it shows.
    pub(super) fn but(self, error: base::Error) -> Self {
        match self {
            Finished::Output(bytes) | Finished::Finding(bytes, _) | Finished::Verdict(bytes, _) => {
                Finished::Finding(bytes, error)
            }
            Finished::Summary(_) => Finished::Finding(Vec::new(), error),
        }
    }

    /// A document for programs, on standard output.
    pub(super) fn json(document: &impl serde::Serialize) -> Result<Self> {
        let mut text = serde_json::to_string_pretty(document)
            .map_err(|error| base::Error::environment("the result has no JSON form").with_source(error))?;
        text.push('\n');
        Ok(Finished::Output(text.into_bytes()))
    }

    /// The same product, with an exit code that says how it went.
    pub(super) fn with_exit_code(self, exit_code: u8) -> Self {
        match self {
            Finished::Output(bytes) => Finished::Verdict(bytes, exit_code),
            other => other,
        }
    }
}

/// Shows the result and turns it into the exit code.
pub(super) fn finish(session: &Session, result: Result<Finished>) -> ExitCode {
    let timings = session.clock.timings();
    let elapsed = timings.total;
    // A command that asked nobody has nothing to split.
    let timings = (timings.counts != Counts::default()).then(|| Box::new(timings));
    let result = result.and_then(|finished| match finished {
        Finished::Summary(summary) => Ok((Some(summary), 0)),
        Finished::Output(bytes) => write_output(&bytes).map(|()| (None, 0)),
        Finished::Finding(bytes, error) => write_output(&bytes).and(Err(error)),
        Finished::Verdict(bytes, exit_code) => write_output(&bytes).map(|()| (None, exit_code)),
    });
    let log = session.log();
    let log_path = log.and_then(RunLog::path).map(|path| path.display().to_string());
    let report = |failed| session.report(failed).map(Box::new);
    let code = match result {
        Ok((None, exit_code)) => {
            session.end_record(exit_code, elapsed, "", false);
            ExitCode::from(exit_code)
        }
        Ok((Some(summary), _)) => {
            session.end_record(0, elapsed, &summary, false);
            session.reporter.emit(Event::RunFinished {
                success: true,
                summary,
                elapsed,
                errors: Vec::new(),
                hints: Vec::new(),
                exit_code: 0,
                timings,
                log: log_path,
                report: report(false),
            });
            ExitCode::SUCCESS
        }
        Err(error) => {
            let exit_code = error.kind().exit_code();
            let declined = error.kind() == ErrorKind::Declined;
            session.end_record(exit_code, elapsed, &error.chain().join(": "), declined);
            let mut hints = error.hints().to_vec();
            let log_hint = log_path.as_ref().filter(|_| !declined);
            hints.extend(log_hint.map(|path| format!("the log of this run is '{path}'")));
            session.reporter.emit(Event::RunFinished {
                success: false,
                summary: error.to_string(),
                elapsed,
                errors: error.chain(),
                hints,
                exit_code,
                timings,
                log: log_path,
                report: report(!matches!(error.kind(), ErrorKind::Interrupted(_))),
            });
            ExitCode::from(exit_code)
        }
    };
    if let Some(log) = log {
        log.finish();
    }
    code
}

/// A command that panicked, caught so that the exit code is ours: the hook has told.
pub(super) fn panicked() -> ExitCode {
    ExitCode::from(ErrorKind::Environment.exit_code())
}

/// A command line that clap refused, or help and version, which it also answers with an "error".
pub(super) fn usage(error: &clap::Error, json: bool) -> ExitCode {
    if !error.use_stderr() {
        // A closed standard output is no failure of `--help`.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let exit_code = ErrorKind::Usage.exit_code();
    if json {
        let text = error.render().to_string();
        let mut paragraphs = text.trim().splitn(2, "\n\n").map(str::to_owned);
        let message = paragraphs.next().unwrap_or_default();
        let message = message.strip_prefix("error: ").unwrap_or(&message).to_owned();
        let sink: Arc<dyn base::events::Sink> = ui::renderer(
            ui::Options {
                format: ui::Format::Json,
                color: false,
                unicode: false,
                dumb: false,
                verbose: false,
                product: false,
            },
            base::redact::Redactor::default(),
        )
        .sink();
        Reporter::new(sink).emit(Event::RunFinished {
            success: false,
            summary: message.clone(),
            elapsed: Duration::ZERO,
            errors: vec![message],
            hints: paragraphs.collect(),
            exit_code,
            timings: None,
            log: None,
            report: None,
        });
    } else {
        // Nothing is left to tell if standard error is closed.
        let _ = error.print();
    }
    ExitCode::from(exit_code)
}

/// Writes a command's product. A reader that went away early (`| head`) is no failure.
fn write_output(bytes: &[u8]) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(base::Error::io("writing to standard output", error))
        }
        _ => Ok(()),
    }
}

/// A panic is a bug of this program: it says so, briefly, and where. The message is left out of release
/// builds, because it may hold values of the manifest.
pub(super) fn install_panic_hook() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(|at| format!(" at {}:{}", at.file(), at.line())).unwrap_or_default();
        // Not eprintln!, which would panic again when standard error is closed.
        let _ = writeln!(
            std::io::stderr(),
            "monopile {}: this is a bug{place}. The state file and its journal are intact; run again to go on.",
            env!("CARGO_PKG_VERSION"),
        );
        if cfg!(debug_assertions) {
            let _ = writeln!(std::io::stderr(), "{panic}");
        }
    }));
}
