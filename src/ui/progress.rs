//! The view for terminals: finished stages scroll up as a tree above the live [`frame`](super::frame), which
//! is redrawn every 100 ms and after events, at most 20 times a second. Only this file and the canvas use
//! indicatif.
//!
//! Lasting lines go to standard output, the live part to standard error. If standard error is no terminal
//! (`--tty` in a CI job), only the tree is printed, with the starts of stages.

use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use parking_lot::Mutex;

use super::canvas::{self, Canvas};
use super::frame::{self, CurrentStep, TerminalSpace};
use super::renderer::{Options, RenderSink};
use super::stage_tree::StageTree;
use super::styled::{NO_BREAK_SPACE, Styled};
use super::summary;
use super::text::{self, Color, OutputStreams};
use base::events::{Event, Outcome, Sink, StageId};

/// The time between two drawings without an event.
const TICK_INTERVAL: Duration = Duration::from_millis(100);
/// The maximum number of drawings per second.
const MAX_DRAWS_PER_SECOND: u8 = 20;

/// The renderer for terminals.
pub(super) struct Progress {
    options: Options,
    output: OutputStreams,
    is_live: bool,
    /// The live part. Do not hold the state lock while drawing.
    bar: ProgressBar,
    state: Arc<Mutex<DisplayState>>,
    /// The lock of the thread that renders an event, so that lasting lines keep the order of events.
    event_order: Mutex<()>,
}

/// The part of the run that is shown: its stages, and the current step.
#[derive(Default)]
struct DisplayState {
    tree: StageTree,
    step: Option<CurrentStep>,
    /// The stage of the last heading. Lines of other stages name their parent.
    heading: Option<StageId>,
}

/// The lasting lines of an event, each with the indentation of its continuation lines.
type LastingLines = Vec<(Styled, usize)>;

impl Progress {
    pub(super) fn new(options: Options, output: OutputStreams) -> Self {
        let is_live = canvas::can_redraw() && !options.is_dumb;
        let target = match is_live {
            true => ProgressDrawTarget::term_like_with_hz(Box::new(Canvas::default()), MAX_DRAWS_PER_SECOND),
            false => ProgressDrawTarget::hidden(),
        };
        Progress::with_target(options, output, is_live, target)
    }

    fn with_target(
        options: Options,
        output: OutputStreams,
        is_live: bool,
        target: ProgressDrawTarget,
    ) -> Self {
        let state = Arc::<Mutex<DisplayState>>::default();
        let shared_state = Arc::clone(&state);
        let frame = move |_: &ProgressState, writer: &mut dyn std::fmt::Write| {
            let (columns, rows) = canvas::stderr_size();
            let space = TerminalSpace {
                columns: columns.into(),
                rows: rows.into(),
                shows_colors: options.allows_color,
                shows_unicode: options.shows_unicode,
            };
            let state = shared_state.lock();
            let _ = writer
                .write_str(&frame::lines(&state.tree, state.step.as_ref(), space, Instant::now()).join("\n"));
        };
        let style =
            ProgressStyle::with_template("{frame}").unwrap_or_else(|_| ProgressStyle::default_spinner());
        let bar = ProgressBar::with_draw_target(None, target).with_style(style.with_key("frame", frame));
        if is_live {
            bar.enable_steady_tick(TICK_INTERVAL);
        }
        Progress { options, output, is_live, bar, state, event_order: Mutex::default() }
    }

    fn sign(&self, outcome: Option<&Outcome>) -> Styled {
        let (unicode, ascii, color) = match outcome {
            None => ("▸", ">", Color::Bold),
            Some(Outcome::Done) => ("✓", "ok", Color::Green),
            Some(Outcome::Skipped { .. }) => ("–", "--", Color::Dim),
            Some(Outcome::Unsuccessful { .. }) => ("!", "!", Color::Yellow),
            Some(Outcome::Failed) => ("✗", "FAILED", Color::Red),
        };
        Styled::default().colored(color, if self.options.shows_unicode { unicode } else { ascii })
    }

    /// Prints lasting lines above the live part: to standard output, or to standard error if `uses_stderr`.
    /// On a terminal, wraps them between words.
    fn print_lasting(&self, lines: &LastingLines, uses_stderr: bool) {
        if lines.is_empty() {
            return;
        }
        let color = self.options.allows_color;
        self.bar.suspend(|| {
            for (line, hanging_indent) in lines {
                let rows = match self.is_live {
                    true => line.wrap_words(canvas::stderr_size().0.into(), *hanging_indent, color),
                    false => vec![line.to_text(color)],
                };
                for row in rows {
                    if uses_stderr { self.output.print_err(&row) } else { self.output.print_out(&row) }
                }
            }
        });
    }

    fn start(&self, state: &mut DisplayState, event: &Event) -> LastingLines {
        let Event::StageStarted { id, parent, name, usual_duration } = event else {
            return LastingLines::new();
        };
        let mut lines = parent.map(|parent| self.begin_heading(state, parent)).unwrap_or_default();
        let stage = state.tree.start(*id, *parent, name, *usual_duration);
        if !self.is_live {
            lines.push(self.headline(stage.depth, &stage.name));
        }
        lines
    }

    fn headline(&self, depth: usize, name: &str) -> (Styled, usize) {
        let line = Styled::plain("  ".repeat(depth)).and_line(self.sign(None)).and(format!(" {name}"));
        (line, 2 * depth + 2)
    }

    /// Turns a stage into the heading of its first child.
    fn begin_heading(&self, state: &mut DisplayState, id: StageId) -> LastingLines {
        let Some(stage) = state.tree.get(id).filter(|stage| !stage.has_children) else {
            return LastingLines::new();
        };
        let headline = self.is_live.then(|| self.headline(stage.depth, &stage.name));
        state.heading = Some(id);
        headline.into_iter().collect()
    }

    /// Ends a stage and returns its line, which names the parent unless the parent is already above it.
    fn finish(
        &self,
        state: &mut DisplayState,
        id: StageId,
        outcome: &Outcome,
        elapsed: Duration,
    ) -> LastingLines {
        let Some(stage) = state.tree.finish(id) else { return LastingLines::new() };
        if stage.parent.is_none() {
            state.step = None;
        }
        let mut name = stage.name.clone();
        if state.heading != stage.parent
            && !stage.has_children
            && let Some(parent) = stage.parent.and_then(|parent| state.tree.get(parent))
        {
            name = format!("{} > {name}", parent.name);
        }
        if stage.has_children && state.heading == Some(id) {
            state.heading = stage.parent;
        }
        let detail = match outcome {
            Outcome::Skipped { reason } | Outcome::Unsuccessful { reason } => {
                format!("({})", base::text::clean_line(reason))
            }
            Outcome::Done | Outcome::Failed => {
                let bytes = stage
                    .bytes()
                    .map(|count| format!("{}, ", base::text::format_bytes(count)))
                    .unwrap_or_default();
                format!("{bytes}{}", base::text::format_duration(elapsed))
                    .replace(' ', &NO_BREAK_SPACE.to_string())
            }
        };
        let line = Styled::plain("  ".repeat(stage.depth))
            .and_line(self.sign(Some(outcome)))
            .and(format!(" {name} "))
            .colored(Color::Dim, detail);
        vec![(line, 2 * stage.depth + 2)]
    }

    /// Splits a text into lasting lines.
    fn text_lines(&self, text: &str) -> LastingLines {
        base::text::clean(text).lines().map(|line| (Styled::plain(line), hanging_indent(line))).collect()
    }

    /// Clears the display and prints the end of the run: the report, then errors, notes and hints, or the
    /// summary.
    fn finish_run(&self, event: &Event) {
        let Event::RunFinished {
            has_succeeded,
            summary,
            elapsed,
            errors,
            notes,
            hints,
            exit_code,
            log,
            report,
            ..
        } = event
        else {
            return;
        };
        // Drop stages that did not end; nothing is drawn after this.
        drop(std::mem::take(&mut *self.state.lock()));
        self.bar.finish_and_clear();
        let shows_all = self.options.is_verbose || *elapsed >= summary::LONG_RUN_DURATION;
        let report = report.as_deref().map(|report| summary::lines(report, *exit_code, shows_all));
        let report = report.unwrap_or_default();
        self.print_lasting(&report, false);
        if *has_succeeded {
            let summary = base::text::clean(summary);
            let (first, other_lines) = summary.split_once('\n').unwrap_or((&*summary, ""));
            let first_line = Styled::default().colored(Color::Green, "Succeeded");
            let first_line =
                first_line.and(format!(" in {}: {first}", base::text::format_duration(*elapsed)));
            let other_lines = other_lines.lines().map(Styled::plain);
            let log = log.as_ref().map(|log| Styled::plain(format!("log: {}", base::text::clean_line(log))));
            self.print_lasting(
                &[first_line].into_iter().chain(other_lines).chain(log).map(|line| (line, 2)).collect(),
                false,
            );
        } else {
            let lines = text::failure_lines(errors, notes, hints, log.as_deref());
            let lines = lines.into_iter().map(|line| (line, 4)).collect();
            self.print_lasting(&lines, true);
        }
    }
}

/// Puts a label before the first of some lines.
fn with_label(color: Color, label: &str, mut lines: LastingLines) -> LastingLines {
    if let Some((first, _)) = lines.first_mut() {
        *first = Styled::default().colored(color, label).and(" ").and_line(first.clone());
    }
    lines
}

/// Returns the indentation of the continuations of a line.
fn hanging_indent(line: &str) -> usize {
    line.len() - line.trim_start().len() + 2
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

impl Sink for Progress {
    fn receive(&self, event: &Event) {
        let _event_order = self.event_order.lock();
        let mut state = self.state.lock();
        let lines = match event {
            Event::StageStarted { .. } => self.start(&mut state, event),
            Event::StageProgress { id, amount, total, unit } => {
                if let Some(stage) = state.tree.get_mut(*id) {
                    stage.advance(*amount, *total, *unit, Instant::now());
                }
                LastingLines::new()
            }
            Event::StageLog { id, line } => {
                let line = base::text::clean_line(line);
                let Some(stage) = state.tree.get_mut(*id) else { return };
                stage.last_log_line = Some(line.clone());
                let indent = 2 * stage.depth + 2;
                let log_line = Styled::plain(" ".repeat(indent)).colored(Color::Dim, format!("| {line}"));
                if self.options.is_verbose { vec![(log_line, indent + 2)] } else { LastingLines::new() }
            }
            Event::StageFinished { id, outcome, elapsed } => self.finish(&mut state, *id, outcome, *elapsed),
            Event::StepStarted { number, count, description, .. } => {
                state.step = Some(CurrentStep {
                    number: *number,
                    count: *count,
                    description: base::text::clean_line(description),
                });
                LastingLines::new()
            }
            // The stages show each step.
            Event::Planned { .. } | Event::StepApplied | Event::ChangeStarted => LastingLines::new(),
            Event::PlanShown { lines } => lines.iter().flat_map(|line| self.text_lines(line)).collect(),
            Event::State { path } => self.text_lines(&format!("state: {path}")),
            Event::Note { text } => with_label(Color::Bold, "note:", self.text_lines(text)),
            Event::Warning(warning) => {
                drop(state);
                let lines = text::warning_lines(warning);
                return self.print_lasting(&lines.into_iter().map(|line| (line, 4)).collect(), true);
            }
            Event::RunFinished { .. } => {
                drop(state);
                return self.finish_run(event);
            }
        };
        drop(state);
        self.print_lasting(&lines, false);
    }
}

impl RenderSink for Progress {
    fn log_line(&self, line: &str) {
        let _event_order = self.event_order.lock();
        self.bar.suspend(|| self.output.print_err(&base::text::clean(line)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ui::Format;
    use base::events::{Reporter, Unit};

    /// Returns the lasting lines of a run with overlapping stages. Tests have no terminal for the live part.
    fn shown_lines(shows_unicode: bool) -> String {
        let captured_lines = Arc::<Mutex<Vec<String>>>::default();
        let output =
            OutputStreams { is_stdout_reserved: false, captured_lines: Some(Arc::clone(&captured_lines)) };
        let options = Options {
            format: Format::Progress,
            allows_color: false,
            shows_unicode,
            is_dumb: false,
            is_verbose: false,
            is_stdout_reserved: false,
            prints_stages: true,
        };
        let progress = Progress::with_target(options, output, true, ProgressDrawTarget::hidden());
        let reporter = Reporter::new(Arc::new(progress));
        reporter.begin_stage("validating").finish();
        let left = reporter.begin_stage("compiling");
        let right = reporter.begin_stage("uploading");
        let ruby = left.reporter().begin_stage("ruby");
        let image = right.reporter().begin_stage("image");
        image.report_progress(2048, Some(2048), Unit::Bytes);
        ruby.finish();
        image.finish();
        left.reporter().begin_stage("golang").skip("cached");
        left.reporter().begin_stage("java").give_up("not found");
        left.finish();
        drop(right);
        reporter.emit(Event::RunFinished {
            has_succeeded: true,
            summary: "it runs".to_owned(),
            elapsed: Duration::from_secs(3),
            errors: Vec::new(),
            notes: Vec::new(),
            hints: Vec::new(),
            exit_code: 0,
            timings: None,
            log: None,
            report: None,
        });
        let lines = captured_lines.lock().join("\n");
        regex::Regex::new(r"\d+\.\d s").unwrap().replace_all(&lines, "N s").into_owned()
    }

    #[test]
    fn finished_stages_are_printed_as_a_tree() {
        insta::assert_snapshot!(shown_lines(true), @r"
        out ✓ validating N s
        out ▸ compiling
        out ▸ uploading
        out   ✓ compiling > ruby N s
        out   ✓ image 2.0 KiB, N s
        out   – compiling > golang (cached)
        out   ! compiling > java (not found)
        out ✓ compiling N s
        out ✗ uploading N s
        out Succeeded in N s: it runs
        ");
    }

    #[test]
    fn terminals_without_unicode_get_words_for_symbols() {
        insta::assert_snapshot!(shown_lines(false), @r"
        out ok validating N s
        out > compiling
        out > uploading
        out   ok compiling > ruby N s
        out   ok image 2.0 KiB, N s
        out   -- compiling > golang (cached)
        out   ! compiling > java (not found)
        out ok compiling N s
        out FAILED uploading N s
        out Succeeded in N s: it runs
        ");
    }
}
