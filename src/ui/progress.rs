//! The live view: what is done scrolls up as a tree, what runs is redrawn below it with elapsed time, bytes,
//! rate and the last line of its log. The one file that uses indicatif.
//!
//! What stays goes to standard output and the live part to standard error. When standard error is no terminal
//! (`--tty` in a CI job) indicatif draws nothing and the tree alone remains, with the starts of stages.

use std::collections::HashMap;
use std::io::IsTerminal;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::renderer::{Options, Screen};
use super::text::{self, Color, Lines, paint};
use super::tree::{Running, Tree};
use super::{Event, Outcome, Sink, StageId, Unit};

/// How often the live part is redrawn when nothing happens.
const TICK: Duration = Duration::from_millis(100);
/// Cells of the bar, on terminals of at least [`WIDE`] columns.
const BAR: usize = 20;
const WIDE: u16 = 72;

/// See the module.
pub(super) struct Progress {
    options: Options,
    lines: Lines,
    live: bool,
    screen: MultiProgress,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    tree: Tree,
    bars: HashMap<StageId, ProgressBar>,
    /// The stage whose heading was shown last: lines below it that belong elsewhere say so.
    heading: Option<StageId>,
}

impl Progress {
    pub(super) fn new(options: Options, lines: Lines) -> Self {
        Progress {
            options,
            lines,
            live: std::io::stderr().is_terminal(),
            screen: MultiProgress::with_draw_target(ProgressDrawTarget::stderr()),
            state: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sign(&self, outcome: Option<&Outcome>) -> String {
        let (unicode, ascii, color) = match outcome {
            None => ("▸", ">", Color::Bold),
            Some(Outcome::Done) => ("✓", "ok", Color::Green),
            Some(Outcome::Skipped { .. }) => ("–", "--", Color::Dim),
            Some(Outcome::Failed) => ("✗", "FAILED", Color::Red),
        };
        paint(self.options.color, color, if self.options.unicode { unicode } else { ascii }).into_owned()
    }

    /// A line that stays, above the live part.
    fn keep(&self, line: &str) {
        self.screen.suspend(|| self.lines.news(line));
    }

    fn start(&self, state: &mut State, id: StageId, parent: Option<StageId>, name: &str) {
        if let Some(parent) = parent {
            self.heading(state, parent);
        }
        let depth = state.tree.start(id, parent, name).depth;
        if self.live {
            let bar = self.screen.add(ProgressBar::new_spinner().with_style(self.style(depth)));
            state.bars.insert(id, bar.clone());
            self.redraw(state, id);
            bar.enable_steady_tick(TICK);
        } else if let Some(stage) = state.tree.get(id) {
            self.keep(&format!("{}{} {}", "  ".repeat(stage.depth), self.sign(None), stage.name));
        }
    }

    /// A stage that gets stages of its own becomes a heading above them.
    fn heading(&self, state: &mut State, id: StageId) {
        let Some(stage) = state.tree.get(id) else { return };
        if !stage.has_children {
            let line = format!("{}{} {}", "  ".repeat(stage.depth), self.sign(None), stage.name);
            if let Some(bar) = state.bars.remove(&id) {
                bar.finish_and_clear();
                self.screen.remove(&bar);
            }
            if self.live {
                self.keep(&line);
            }
            state.heading = Some(id);
        }
    }

    fn finish(&self, state: &mut State, id: StageId, outcome: &Outcome, elapsed: Duration) {
        if let Some(bar) = state.bars.remove(&id) {
            bar.finish_and_clear();
            self.screen.remove(&bar);
        }
        let Some(stage) = state.tree.finish(id) else { return };
        let color = self.options.color;
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
            Outcome::Skipped { reason } => format!("({})", text::clean_line(reason)),
            Outcome::Done | Outcome::Failed => {
                let bytes = stage.progress.filter(|(_, _, unit)| *unit == Unit::Bytes);
                let bytes = bytes.map(|(done, ..)| format!("{}, ", text::bytes(done))).unwrap_or_default();
                format!("{bytes}{}", text::duration(elapsed))
            }
        };
        self.keep(&format!(
            "{}{} {name} {}",
            "  ".repeat(stage.depth),
            self.sign(Some(outcome)),
            paint(color, Color::Dim, &detail)
        ));
    }

    /// Elapsed time comes first and the text last, so that a narrow terminal cuts the least important.
    fn style(&self, depth: usize) -> ProgressStyle {
        let indent = "  ".repeat(depth);
        let spinner = if self.options.color { "{spinner:.cyan}" } else { "{spinner}" };
        let template = format!("{indent}{spinner} {{clock:>5}} {{gauge}}{{wide_msg}}");
        let ticks = if self.options.unicode { "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏ " } else { "|/-\\ " };
        let (full, empty) = if self.options.unicode { ("━", "─") } else { ("=", " ") };
        ProgressStyle::with_template(&template)
            .unwrap_or_else(|_| ProgressStyle::default_spinner())
            .tick_chars(ticks)
            .with_key("clock", |state: &indicatif::ProgressState, out: &mut dyn std::fmt::Write| {
                let _ = write!(out, "{}", text::clock(state.elapsed()));
            })
            .with_key("gauge", move |state: &indicatif::ProgressState, out: &mut dyn std::fmt::Write| {
                if let (Some(total), true) = (state.len().filter(|total| *total > 0), columns() >= WIDE) {
                    let filled = BAR as u64 * state.pos().min(total) / total;
                    let filled = usize::try_from(filled).unwrap_or(BAR);
                    let _ = write!(out, "{}{} ", full.repeat(filled), empty.repeat(BAR - filled));
                }
            })
    }

    fn redraw(&self, state: &State, id: StageId) {
        let (Some(stage), Some(bar)) = (state.tree.get(id), state.bars.get(&id)) else { return };
        if let Some((done, total, _)) = stage.progress {
            if let Some(total) = total {
                bar.set_length(total);
            }
            bar.set_position(done);
        }
        bar.set_message(self.message(stage));
    }

    /// The name, how far it has come, the newest log line. A narrow terminal has room for a percentage only.
    fn message(&self, stage: &Running) -> String {
        let mut message = String::new();
        match (stage.progress, columns() >= WIDE) {
            (Some((done, Some(total), Unit::Bytes)), false) if total > 0 => {
                let percent = u128::from(done.min(total)) * 100 / u128::from(total);
                message.push_str(&format!("{percent:>3}% {}", stage.name));
            }
            _ => {
                message.push_str(&stage.name);
                if let Some(amount) = stage.amount() {
                    message.push_str(&format!("  {amount}"));
                }
            }
        }
        if let Some(log) = stage.log.as_deref().filter(|log| !log.is_empty()) {
            message.push_str(&format!("  {}", paint(self.options.color, Color::Dim, log)));
        }
        message
    }

    fn finish_run(&self, state: &mut State, event: &Event) {
        let Event::RunFinished { success, summary, elapsed, errors, hints, .. } = event else { return };
        for (_, bar) in state.bars.drain() {
            bar.finish_and_clear();
        }
        // Nothing is drawn after this; a run that died mid-stage leaves no bar behind.
        let _ = self.screen.clear();
        let color = self.options.color;
        if *success {
            let label = paint(color, Color::Green, "Succeeded");
            self.keep(&format!("{label} in {}: {}", text::duration(*elapsed), text::clean(summary)));
        } else {
            self.lines.trouble(&text::failure(color, errors, hints).join("\n"));
        }
    }
}

impl Sink for Progress {
    fn emit(&self, event: &Event) {
        let mut state = self.lock();
        match event {
            Event::StageStarted { id, parent, name } => self.start(&mut state, *id, *parent, name),
            Event::StageProgress { id, done, total, unit } => {
                if let Some(stage) = state.tree.get_mut(*id) {
                    stage.progress = Some((*done, *total, *unit));
                }
                self.redraw(&state, *id);
            }
            Event::StageLog { id, line } => {
                let line = text::clean_line(line);
                let Some(stage) = state.tree.get_mut(*id) else { return };
                if self.options.verbose {
                    let shown = format!("{}| {line}", "  ".repeat(stage.depth + 1));
                    self.keep(&paint(self.options.color, Color::Dim, &shown));
                }
                stage.log = Some(line);
                self.redraw(&state, *id);
            }
            Event::StageFinished { id, outcome, elapsed } => {
                self.finish(&mut state, *id, outcome, *elapsed);
            }
            Event::Planned { .. } | Event::StepBegun { .. } => {}
            Event::Note { text } => self.keep(&text::clean(text)),
            Event::Warning { text } => {
                let label = paint(self.options.color, Color::Yellow, "warning:");
                self.log_line(&format!("{label} {}", text::clean(text)));
            }
            Event::RunFinished { .. } => self.finish_run(&mut state, event),
        }
    }
}

impl Screen for Progress {
    fn log_line(&self, line: &str) {
        self.screen.suspend(|| self.lines.trouble(line));
    }
}

/// The terminal's width now: it may have been resized.
fn columns() -> u16 {
    #[cfg(unix)]
    if let Ok(size) = rustix::termios::tcgetwinsize(rustix::stdio::stderr()) {
        return size.ws_col;
    }
    80
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::ui::{Format, Reporter};

    /// What stays on the screen of a run whose stages overlap. The live part is off: tests have no terminal.
    fn kept(unicode: bool) -> String {
        let captured = Arc::<Mutex<Vec<String>>>::default();
        let lines = Lines { product: false, captured: Some(Arc::clone(&captured)) };
        let options =
            Options { format: Format::Progress, color: false, unicode, verbose: false, product: false };
        let mut progress = Progress::new(options, lines);
        progress.live = true;
        progress.screen.set_draw_target(ProgressDrawTarget::hidden());
        let reporter = Reporter::new(Arc::new(progress));
        reporter.stage("validating").finish();
        let left = reporter.stage("compiling");
        let right = reporter.stage("uploading");
        let ruby = left.reporter().stage("ruby");
        let image = right.reporter().stage("image");
        image.progress(2048, Some(2048), Unit::Bytes);
        ruby.finish();
        image.finish();
        left.reporter().stage("golang").skip("cached");
        left.finish();
        drop(right);
        reporter.emit(Event::RunFinished {
            success: true,
            summary: "it runs".to_owned(),
            elapsed: Duration::from_secs(3),
            errors: Vec::new(),
            hints: Vec::new(),
            exit_code: 0,
            timings: None,
            log: None,
        });
        let lines = captured.lock().unwrap().join("\n");
        regex::Regex::new(r"\d+\.\d s").unwrap().replace_all(&lines, "N s").into_owned()
    }

    #[test]
    fn what_stays_is_a_tree() {
        insta::assert_snapshot!(kept(true), @r"
        out ✓ validating N s
        out ▸ compiling
        out ▸ uploading
        out   ✓ compiling > ruby N s
        out   ✓ image 2.0 KiB, N s
        out   – compiling > golang (cached)
        out ✓ compiling N s
        out ✗ uploading N s
        out Succeeded in N s: it runs
        ");
    }

    #[test]
    fn terminals_without_unicode_get_words() {
        insta::assert_snapshot!(kept(false), @r"
        out ok validating N s
        out > compiling
        out > uploading
        out   ok compiling > ruby N s
        out   ok image 2.0 KiB, N s
        out   -- compiling > golang (cached)
        out ok compiling N s
        out FAILED uploading N s
        out Succeeded in N s: it runs
        ");
    }
}
