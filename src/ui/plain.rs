//! Text for logs: a timestamped line for every stage's start and end, and for the result. A stage that takes
//! long says every minute that it still runs, so that a CI system does not think the job dead.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use super::renderer::{Options, Screen};
use super::text::{self, Color, Lines, paint};
use super::tree::Tree;
use super::{Event, Outcome, Sink};

/// How often a long stage shows a sign of life.
const SIGN_OF_LIFE: Duration = Duration::from_secs(60);

/// See the module.
pub(super) struct Plain {
    inner: Arc<Inner>,
}

struct Inner {
    options: Options,
    lines: Lines,
    state: Mutex<State>,
    /// Wakes the thread that shows signs of life when the run is over.
    over: Condvar,
}

#[derive(Default)]
struct State {
    tree: Tree,
    watched: bool,
    over: bool,
}

impl Plain {
    pub(super) fn new(options: Options, lines: Lines) -> Self {
        Plain { inner: Arc::new(Inner { options, lines, state: Mutex::default(), over: Condvar::new() }) }
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        self.inner.lock().over = true;
        self.inner.over.notify_all();
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A stage's line. Commands that print a product are not followed stage by stage.
    fn stage_line(&self, depth: usize, text: &str) {
        if !self.lines.product || self.options.verbose {
            self.lines.news(&format!("{}{}{text}", self.time(), "  ".repeat(depth)));
        }
    }

    /// What lines begin with.
    fn time(&self) -> String {
        match self.lines.product {
            true => String::new(),
            false => format!("{} ", paint(self.options.color, Color::Dim, &text::now())),
        }
    }

    fn emit(self: &Arc<Self>, event: &Event) {
        let color = self.options.color;
        let mut state = self.lock();
        match event {
            Event::StageStarted { id, parent, name } => {
                let stage = state.tree.start(*id, *parent, name);
                self.stage_line(stage.depth, &format!("{} ...", stage.name));
                if !state.watched {
                    state.watched = true;
                    watch(self);
                }
            }
            Event::StageProgress { id, done, total, unit } => {
                if let Some(stage) = state.tree.get_mut(*id) {
                    stage.progress = Some((*done, *total, *unit));
                }
            }
            Event::StageLog { id, line } => {
                let line = text::clean_line(line);
                if let Some(stage) = state.tree.get_mut(*id) {
                    if self.options.verbose {
                        stage.shown = std::time::Instant::now();
                        self.stage_line(stage.depth, &format!("  | {line}"));
                    }
                    stage.log = Some(line);
                }
            }
            Event::StageFinished { id, outcome, elapsed } => {
                if let Some(stage) = state.tree.finish(*id) {
                    let time = text::duration(*elapsed);
                    let outcome = match outcome {
                        Outcome::Done => format!("{} in {time}", paint(color, Color::Green, "done")),
                        Outcome::Skipped { reason } => format!("skipped ({})", text::clean_line(reason)),
                        Outcome::Failed => format!("{} after {time}", paint(color, Color::Red, "failed")),
                    };
                    self.stage_line(stage.depth, &format!("{}: {outcome}", stage.name));
                }
            }
            Event::Note { text } => {
                self.lines.news(&format!("{}note: {}", self.time(), text::clean(text)));
            }
            Event::Warning { text } => {
                let label = paint(color, Color::Yellow, "warning:");
                self.lines.trouble(&format!("{}{label} {}", self.time(), text::clean(text)));
            }
            Event::RunFinished { success: true, summary, elapsed, .. } => {
                let label = paint(color, Color::Green, "Succeeded");
                let summary = text::clean(summary);
                self.lines.news(&format!(
                    "{}{label} in {}: {summary}",
                    self.time(),
                    text::duration(*elapsed)
                ));
            }
            Event::RunFinished { errors, hints, .. } => {
                let text = text::failure(color, errors, hints).join("\n");
                self.lines.trouble(&format!("{}{text}", self.time()));
            }
        }
    }

    fn show_signs_of_life(&self, state: &mut State) {
        for stage in state.tree.take_quiet(SIGN_OF_LIFE) {
            let mut line = format!("{}: still running after {}", stage.name, text::duration(stage.elapsed()));
            if let Some(amount) = stage.amount() {
                line.push_str(&format!(", {amount}"));
            }
            if let Some(log) = &stage.log {
                line.push_str(&format!("; last: {log}"));
            }
            self.stage_line(stage.depth, &line);
        }
    }
}

/// Starts the thread that shows signs of life. It ends with the renderer. Without it (no thread to be had) the
/// run is only quieter.
fn watch(inner: &Arc<Inner>) {
    let weak: Weak<Inner> = Arc::downgrade(inner);
    let thread = move || {
        while let Some(inner) = weak.upgrade() {
            let state = inner.lock();
            let wait = inner.over.wait_timeout_while(state, SIGN_OF_LIFE / 12, |state| !state.over);
            let (mut state, _) = wait.unwrap_or_else(PoisonError::into_inner);
            if state.over {
                return;
            }
            inner.show_signs_of_life(&mut state);
        }
    };
    let _ = std::thread::Builder::new().name("signs-of-life".into()).spawn(thread);
}

impl Sink for Plain {
    fn emit(&self, event: &Event) {
        self.inner.emit(event);
    }
}

impl Screen for Plain {
    fn log_line(&self, line: &str) {
        self.inner.lines.trouble(&text::clean(line));
    }
}
