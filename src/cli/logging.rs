//! The log: redacted `tracing` events, to a file (`BOSH_LOG_PATH`) or standard error.
//!
//! Like the log of the bosh CLI, it is off by default. `BOSH_LOG_LEVEL` (`debug`, `info`, `warn`, `error`,
//! `none`) or a repeated `--verbose` (twice: debug, three times: trace) enables it; `run_log` keeps another
//! log of each run.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;

use super::env_vars;
use super::globals::{Globals, LogFormat};
use super::run_log::RunLog;
use crate::ui::Renderer;
use base::redact::Redactor;

/// The targets that the log of a run contains: the crates of the workspace, and the log lines of CPIs.
const OWN_TARGETS: [&str; 11] =
    ["artifact", "base", "builtin", "cpi", "engine", "erb", "ironic", "manifest", "monopile", "net", "yaml"];

/// Installs the log of a run and, if it has one, its run log.
pub(super) fn install(globals: &Globals, redactor: &Redactor, renderer: &Renderer, run_log: Option<&RunLog>) {
    let level = match globals.verbose {
        0 | 1 => read_level().unwrap_or(LevelFilter::OFF),
        2 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    if level == LevelFilter::OFF && run_log.is_none() {
        return;
    }
    let target = match env_vars::LOG_PATH.value().map(PathBuf::from) {
        None => LogTarget::Renderer(renderer.clone()),
        Some(path) => match open_log_file(&path) {
            Ok(file) => LogTarget::File(Arc::new(file)),
            Err(error) => {
                renderer.log_line(&format!(
                    "writing the log to '{}' (BOSH_LOG_PATH) failed: {error}",
                    path.display()
                ));
                LogTarget::Renderer(renderer.clone())
            }
        },
    };
    let writer = |target| LogWriter { target, redactor: redactor.clone() };
    let requested_layer = (level != LevelFilter::OFF)
        .then(|| line_layer(globals.log_format, writer(target)).with_filter(level));
    let run_log_layer = run_log.map(|log| {
        // Third-party crates log nothing about the environment.
        let own_targets = Targets::new().with_targets(OWN_TARGETS.map(|target| (target, LevelFilter::DEBUG)));
        line_layer(LogFormat::Text, writer(LogTarget::RunLog(log.clone()))).with_filter(own_targets)
    });
    let subscriber = tracing_subscriber::registry().with(requested_layer).with(run_log_layer);
    // This fails only if a subscriber is already set, and this function runs once per process.
    let _ = tracing::subscriber::set_global_default(subscriber);
}

/// Returns the layer that writes events as lines of a format.
fn line_layer<S>(format: LogFormat, writer: LogWriter) -> Box<dyn Layer<S> + Send + Sync>
where
    S: tracing::Subscriber + for<'span> LookupSpan<'span>,
{
    let layer = tracing_subscriber::fmt::layer().with_ansi(false).with_timer(RunTime).with_writer(writer);
    match format {
        LogFormat::Text => layer.boxed(),
        LogFormat::Json => layer.json().boxed(),
    }
}

/// Installs the log of an internal command on standard error.
pub(super) fn install_internal() {
    let level = read_level().unwrap_or(LevelFilter::INFO);
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_ansi(false)
        .with_writer(std::io::stderr)
        .finish();
    // This fails only if a subscriber is already set.
    let _ = tracing::subscriber::set_global_default(subscriber);
}

fn read_level() -> Option<LevelFilter> {
    match env_vars::LOG_LEVEL.value()?.to_str()?.to_ascii_lowercase().as_str() {
        "trace" => Some(LevelFilter::TRACE),
        "debug" => Some(LevelFilter::DEBUG),
        "info" => Some(LevelFilter::INFO),
        "warn" => Some(LevelFilter::WARN),
        "error" => Some(LevelFilter::ERROR),
        _ => Some(LevelFilter::OFF),
    }
}

/// Returns a warning if the variable for the level has an unknown value.
pub(super) fn unknown_level_warning() -> Option<String> {
    let level = env_vars::LOG_LEVEL.value()?.to_string_lossy().into_owned();
    let known_levels = ["", "trace", "debug", "info", "warn", "error", "none", "off"];
    (!known_levels.contains(&level.to_ascii_lowercase().as_str())).then(|| {
        format!(
            "BOSH_LOG_LEVEL is '{level}', so nothing is logged: set it to debug, info, warn, error or none"
        )
    })
}

/// Opens a log file that only its owner can read.
fn open_log_file(path: &std::path::Path) -> std::io::Result<std::fs::File> {
    let mut options = std::fs::OpenOptions::new();
    options.create(true).append(true);
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Writes times in the format of all other output.
struct RunTime;

impl FormatTime for RunTime {
    fn format_time(&self, writer: &mut Writer<'_>) -> std::fmt::Result {
        writer.write_str(&base::encoding::now())
    }
}

/// The destination of log lines.
#[derive(Clone)]
enum LogTarget {
    RunLog(RunLog),
    Renderer(Renderer),
    File(Arc<std::fs::File>),
}

/// Makes a [`LogLine`] for each event. The run log and the renderer redact what they get; a file gets
/// redacted text.
#[derive(Clone)]
struct LogWriter {
    target: LogTarget,
    redactor: Redactor,
}

/// Collects the text of one event, and writes it at once when it is dropped.
struct LogLine<'a> {
    writer: &'a LogWriter,
    text: Vec<u8>,
}

impl<'a> MakeWriter<'a> for LogWriter {
    type Writer = LogLine<'a>;

    fn make_writer(&'a self) -> LogLine<'a> {
        LogLine { writer: self, text: Vec::new() }
    }
}

impl Write for LogLine<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Drop for LogLine<'_> {
    fn drop(&mut self) {
        let text = String::from_utf8_lossy(&self.text);
        match &self.writer.target {
            LogTarget::RunLog(log) => log.write(&text),
            LogTarget::Renderer(renderer) => renderer.log_line(text.trim_end()),
            LogTarget::File(file) => {
                let text = self.writer.redactor.clean_and_redact(text.trim_end());
                // A log that cannot be written must not stop the run.
                drop(file.as_ref().write_all(format!("{text}\n").as_bytes()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::OWN_TARGETS;

    #[test]
    fn run_log_covers_every_crate_of_the_workspace() {
        let manifest = include_str!("../../Cargo.toml");
        let members = manifest.lines().find(|line| line.starts_with("members = ")).unwrap();
        let names = members.split('"').skip(1).step_by(2).map(|folder| folder.trim_start_matches("src/"));
        // A table of numbers, which logs nothing.
        let names = names.filter(|name| *name != "crc_fast");
        for name in names.chain(["monopile"]) {
            assert!(OWN_TARGETS.contains(&name), "{name}");
        }
    }
}
