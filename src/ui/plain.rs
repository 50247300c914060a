//! Text for logs: a timestamped line for the start and end of each stage, and for the result. A long stage
//! prints a line every minute, because CI systems kill silent jobs.

use std::io::IsTerminal as _;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::canvas;
use super::renderer::{Options, RenderSink};
use super::stage_tree::StageTree;
use super::styled::Styled;
use super::summary;
use super::text::{self, Color, OutputStreams, paint};
use base::events::{Event, Outcome, RunReport, Sink};

/// A running stage that prints nothing for this long gets a line.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(60);
/// The minimum usual duration that is shown at the start of a stage.
const LONG_STAGE_DURATION: Duration = Duration::from_secs(10);

/// The renderer for logs.
pub(super) struct Plain {
    inner: Arc<Inner>,
}

/// The renderer, which the heartbeat thread shares.
struct Inner {
    options: Options,
    output: OutputStreams,
    state: Mutex<PlainState>,
    /// Wakes the heartbeat thread at the end of the run.
    run_end: Condvar,
}

/// The running stages, and the state of the heartbeat thread.
#[derive(Default)]
struct PlainState {
    tree: StageTree,
    has_heartbeat_thread: bool,
    has_run_ended: bool,
}

impl Plain {
    pub(super) fn new(options: Options, output: OutputStreams) -> Self {
        Plain { inner: Arc::new(Inner { options, output, state: Mutex::default(), run_end: Condvar::new() }) }
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        self.inner.lock().has_run_ended = true;
        self.inner.run_end.notify_all();
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, PlainState> {
        self.state.lock()
    }

    /// Prints the line of a stage, unless the command prints no stages and `--verbose` is not set.
    fn print_stage_line(&self, depth: usize, text: &str) {
        if self.options.prints_stages || self.options.is_verbose {
            self.output.print_out(&format!("{}{}{text}", self.time(), "  ".repeat(depth)));
        }
    }

    /// Returns the time at the start of a line.
    fn time(&self) -> String {
        match self.output.is_stdout_reserved {
            true => String::new(),
            false => format!("{} ", paint(self.options.allows_color, Color::Dim, &base::encoding::now())),
        }
    }

    fn receive(self: &Arc<Self>, event: &Event) {
        let color = self.options.allows_color;
        let mut state = self.lock();
        match event {
            Event::StageStarted { id, parent, name, usual_duration } => {
                let stage = state.tree.start(*id, *parent, name, *usual_duration);
                let expectation = usual_duration
                    .filter(|duration| *duration >= LONG_STAGE_DURATION)
                    .map(|duration| format!(" usually {}", base::text::format_duration(duration)))
                    .unwrap_or_default();
                self.print_stage_line(stage.depth, &format!("{} ...{expectation}", stage.name));
                if !state.has_heartbeat_thread {
                    state.has_heartbeat_thread = true;
                    start_heartbeat_thread(self);
                }
            }
            Event::StageProgress { id, amount, total, unit } => {
                if let Some(stage) = state.tree.get_mut(*id) {
                    stage.advance(*amount, *total, *unit, Instant::now());
                }
            }
            Event::StageLog { id, line } => {
                let line = base::text::clean_line(line);
                if let Some(stage) = state.tree.get_mut(*id) {
                    if self.options.is_verbose {
                        stage.last_printed = Instant::now();
                        self.print_stage_line(stage.depth, &format!("  | {line}"));
                    }
                    stage.last_log_line = Some(line);
                }
            }
            Event::StageFinished { id, outcome, elapsed } => {
                if let Some(stage) = state.tree.finish(*id) {
                    let time = base::text::format_duration(*elapsed);
                    let outcome = match outcome {
                        Outcome::Done => format!("{} in {time}", paint(color, Color::Green, "done")),
                        Outcome::Skipped { reason } => {
                            format!("skipped ({})", base::text::clean_line(reason))
                        }
                        Outcome::Unsuccessful { reason } => base::text::clean_line(reason),
                        Outcome::Failed => format!("{} after {time}", paint(color, Color::Red, "failed")),
                    };
                    self.print_stage_line(stage.depth, &format!("{}: {outcome}", stage.name));
                }
            }
            // The stages show each step.
            Event::Planned { .. } | Event::StepStarted { .. } | Event::StepApplied | Event::ChangeStarted => {
            }
            Event::PlanShown { lines } => {
                for line in lines {
                    self.output.print_out(&format!("{}{}", self.time(), base::text::clean_line(line)));
                }
            }
            Event::State { path } => {
                self.output.print_out(&format!("{}state: {}", self.time(), base::text::clean_line(path)));
            }
            Event::Note { text } => {
                let text = base::text::clean(text);
                let text = format!("note: {text}");
                let lines: Vec<Styled> = text.lines().map(Styled::plain).collect();
                self.output.print_out(&self.format_message(&lines));
            }
            Event::Warning(warning) => {
                self.output.print_err(&self.format_message(&text::warning_lines(warning)));
            }
            Event::RunFinished { has_succeeded: true, summary, elapsed, exit_code, report, log, .. } => {
                self.print_summary(report.as_deref(), *exit_code, *elapsed);
                let label = paint(color, Color::Green, "Succeeded");
                let summary = base::text::clean(summary);
                self.output.print_out(&format!(
                    "{}{label} in {}: {summary}",
                    self.time(),
                    base::text::format_duration(*elapsed)
                ));
                if let Some(log) = log {
                    self.output.print_out(&format!("{}log: {}", self.time(), base::text::clean_line(log)));
                }
            }
            Event::RunFinished { errors, notes, hints, elapsed, exit_code, report, log, .. } => {
                self.print_summary(report.as_deref(), *exit_code, *elapsed);
                let lines = text::failure_lines(errors, notes, hints, log.as_deref());
                let lines: Vec<String> = lines.iter().flat_map(|line| self.fit(line)).collect();
                // Programs look for `error:` at the start of a line.
                self.output.print_err(&lines.join("\n"));
            }
        }
    }

    /// Formats a note or warning.
    fn format_message(&self, lines: &[Styled]) -> String {
        let lines: Vec<String> = lines.iter().flat_map(|line| self.fit(line)).collect();
        format!("{}{}", self.time(), lines.join("\n"))
    }

    /// Breaks a line of a message to fit a terminal. Lines for logs stay whole.
    fn fit(&self, line: &Styled) -> Vec<String> {
        let color = self.options.allows_color;
        match self.output.is_stdout_reserved && std::io::stderr().is_terminal() {
            true => line.wrap_words(canvas::stderr_size().0.into(), 4, color),
            false => vec![line.to_text(color)],
        }
    }

    /// Prints the summary before the result.
    fn print_summary(&self, report: Option<&RunReport>, exit_code: u8, elapsed: Duration) {
        let shows_all = self.options.is_verbose || elapsed >= summary::LONG_RUN_DURATION;
        let lines = report.map(|report| summary::lines(report, exit_code, shows_all));
        for (line, _) in lines.unwrap_or_default() {
            self.output.print_out(&line.to_text(self.options.allows_color));
        }
    }

    fn print_heartbeats(&self, state: &mut PlainState) {
        for stage in state.tree.take_quiet_stages(HEARTBEAT_INTERVAL) {
            let mut line = format!(
                "{}: still running after {}",
                stage.name,
                base::text::format_duration(stage.elapsed())
            );
            if let Some(usual_duration) = stage.usual_duration {
                line.push_str(&format!(", usually {}", base::text::format_duration(usual_duration)));
            }
            if let Some(amount) = stage.amount(Instant::now()) {
                line.push_str(&format!(", {amount}"));
            }
            if let Some(log_line) = &stage.last_log_line {
                line.push_str(&format!("; last: {log_line}"));
            }
            self.output.print_out(&format!("{}{}{line}", self.time(), "  ".repeat(stage.depth)));
        }
    }
}

/// Starts the heartbeat thread, which ends with the renderer. Without a thread there are no heartbeats.
fn start_heartbeat_thread(inner: &Arc<Inner>) {
    let weak: Weak<Inner> = Arc::downgrade(inner);
    let thread = move || {
        while let Some(inner) = weak.upgrade() {
            let mut state = inner.lock();
            inner.run_end.wait_while_for(&mut state, |state| !state.has_run_ended, HEARTBEAT_INTERVAL / 12);
            if state.has_run_ended {
                return;
            }
            inner.print_heartbeats(&mut state);
        }
    };
    let _ = std::thread::Builder::new().name("heartbeat".into()).spawn(thread);
}

impl Sink for Plain {
    fn receive(&self, event: &Event) {
        self.inner.receive(event);
    }
}

impl RenderSink for Plain {
    fn log_line(&self, line: &str) {
        self.inner.output.print_err(&base::text::clean(line));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ui::Format;
    use base::events::{Reporter, Unit, Warning};

    /// Returns the output of a run with two nested stages, without times.
    fn output_of_run(is_verbose: bool, is_stdout_reserved: bool) -> String {
        let captured_lines = Arc::<Mutex<Vec<String>>>::default();
        let output = OutputStreams { is_stdout_reserved, captured_lines: Some(Arc::clone(&captured_lines)) };
        let options = Options {
            format: Format::Plain,
            allows_color: false,
            shows_unicode: true,
            is_dumb: false,
            is_verbose,
            is_stdout_reserved,
            prints_stages: !is_stdout_reserved,
        };
        let reporter = Reporter::new(Arc::new(Plain::new(options, output)));
        let deploying = reporter.begin_stage("deploying");
        let creating = deploying.reporter().begin_stage("creating VM");
        creating.log_line("\x1b[1mRunInstances\x1b[0m\r");
        creating.finish();
        deploying.reporter().begin_stage("creating disk").skip("unchanged");
        deploying.reporter().begin_stage("waiting").give_up("no answer after 10 s");
        reporter.note("the state is in x.json");
        reporter.warn(Warning::new("expires soon").with_hint("renew it"));
        drop(deploying);
        reporter.emit(Event::RunFinished {
            has_succeeded: false,
            summary: "it failed".to_owned(),
            elapsed: Duration::from_secs(3),
            errors: vec!["it failed".to_owned(), "because".to_owned()],
            notes: vec!["nothing was changed".to_owned()],
            hints: vec!["look".to_owned()],
            exit_code: 1,
            timings: None,
            log: None,
            report: None,
        });
        reporter.emit(Event::RunFinished {
            has_succeeded: true,
            summary: "it runs".to_owned(),
            elapsed: Duration::from_secs(75),
            errors: Vec::new(),
            notes: Vec::new(),
            hints: Vec::new(),
            exit_code: 0,
            timings: None,
            log: None,
            report: None,
        });
        let lines = captured_lines.lock().join("\n");
        let time = regex::Regex::new(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ").unwrap();
        let lines = time.replace_all(&lines, "T").into_owned();
        regex::Regex::new(r"\d+\.\d s").unwrap().replace_all(&lines, "N s").into_owned()
    }

    #[test]
    fn every_start_and_end_has_a_line() {
        insta::assert_snapshot!(output_of_run(false, false), @r"
        out T deploying ...
        out T   creating VM ...
        out T   creating VM: done in N s
        out T   creating disk ...
        out T   creating disk: skipped (unchanged)
        out T   waiting ...
        out T   waiting: no answer after 10 s
        out T note: the state is in x.json
        err T warning: expires soon
          hint: renew it
        out T deploying: failed after N s
        err error: it failed
          cause: because
          note: nothing was changed
          hint: look
        out T Succeeded in 1 min 15 s: it runs
        ");
    }

    #[test]
    fn verbose_prints_log_lines() {
        let lines = output_of_run(true, false);
        assert!(lines.contains("out T     | RunInstances\n"), "{lines}");
    }

    #[test]
    fn stages_are_hidden_if_standard_output_is_reserved() {
        insta::assert_snapshot!(output_of_run(false, true), @r"
        err note: the state is in x.json
        err warning: expires soon
          hint: renew it
        err error: it failed
          cause: because
          note: nothing was changed
          hint: look
        err Succeeded in 1 min 15 s: it runs
        ");
    }

    #[test]
    fn long_stage_prints_a_heartbeat() {
        let mut tree = StageTree::default();
        tree.start(1, None, "deploying", None);
        tree.start(2, Some(1), "uploading", Some(Duration::from_secs(75)));
        let stage = tree.get_mut(2).unwrap();
        stage.last_log_line = Some("part 3".to_owned());
        stage.advance(3, Some(7), Unit::Items, Instant::now());
        stage.start -= Duration::from_secs(90);
        let captured_lines = Arc::<Mutex<Vec<String>>>::default();
        let output =
            OutputStreams { is_stdout_reserved: false, captured_lines: Some(Arc::clone(&captured_lines)) };
        let options = Options {
            format: Format::Plain,
            allows_color: false,
            shows_unicode: true,
            is_dumb: false,
            is_verbose: false,
            is_stdout_reserved: false,
            prints_stages: true,
        };
        let plain = Plain::new(options, output);
        let mut state = PlainState { tree, ..PlainState::default() };
        plain.inner.print_heartbeats(&mut state);
        assert_eq!(captured_lines.lock().len(), 0, "a line was printed before its interval was over");
        state.tree.get_mut(2).unwrap().last_printed -= HEARTBEAT_INTERVAL;
        plain.inner.print_heartbeats(&mut state);
        plain.inner.print_heartbeats(&mut state);
        let captured_lines = captured_lines.lock();
        assert_eq!(captured_lines.len(), 1, "{captured_lines:?}");
        assert!(
            captured_lines[0].ends_with(
                "Z   uploading: still running after 1 min 30 s, usually 1 min 15 s, 3/7; last: part 3"
            ),
            "{captured_lines:?}"
        );
    }
}
