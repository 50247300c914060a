//! Events, the only way in which a run reports its work. The crates below `ui` emit them through a
//! [`Reporter`]. Its [`Sink`]s are the renderers of `ui`, and the logs and records of `cli`.

mod durations;
mod event;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use durations::StageDurations;
pub use event::{
    Event, FinishedStage, Outcome, ReportedStep, RunReport, StageId, StartedStep, StepText, Unit, Warning,
};

/// A receiver of events. Implementations must not block for long.
pub trait Sink: Send + Sync {
    /// Takes one event.
    fn receive(&self, event: &Event);
}

/// Emits events. Cheap to clone; clones share the sink.
#[derive(Clone)]
pub struct Reporter {
    sink: Arc<dyn Sink>,
    next_stage_id: Arc<AtomicU64>,
    parent: Option<StageId>,
    durations: StageDurations,
}

impl Reporter {
    /// Creates a reporter that emits to `sink`.
    pub fn new(sink: Arc<dyn Sink>) -> Self {
        Reporter {
            sink,
            next_stage_id: Arc::new(AtomicU64::new(1)),
            parent: None,
            durations: StageDurations::default(),
        }
    }

    /// Emits one event.
    pub fn emit(&self, event: Event) {
        self.sink.receive(&event);
    }

    /// Emits a note: information that is neither a stage nor a failure.
    pub fn note(&self, text: impl Into<String>) {
        self.emit(Event::Note { text: text.into() });
    }

    /// Emits a warning: the run continues, but the operator should check something.
    pub fn warn(&self, warning: impl Into<Warning>) {
        self.emit(Event::Warning(warning.into()));
    }

    /// Reports the steps of a plan.
    pub fn report_plan(&self, headline: impl Into<String>, steps: Vec<ReportedStep>) {
        self.emit(Event::Planned { headline: headline.into(), steps });
    }

    /// Shows the plan as text.
    pub fn show_plan(&self, lines: Vec<String>) {
        self.emit(Event::PlanShown { lines });
    }

    /// Reports the state that the run uses.
    pub fn report_state(&self, storage: impl std::fmt::Display) {
        self.emit(Event::State { path: storage.to_string() });
    }

    /// Starts a stage ("Creating VM"). It counts as failed unless it is ended otherwise.
    pub fn begin_stage(&self, name: impl Into<String>) -> Stage {
        self.begin(None, name.into(), None)
    }

    /// Like [`Self::begin_stage`], for a kind of stage whose duration is similar in every run.
    ///
    /// Records the duration, and reports the usual one if it is known. `kind` must not contain a CID, a
    /// version or a secret.
    pub fn begin_timed_stage(&self, kind: impl Into<String>, name: impl Into<String>) -> Stage {
        let kind = kind.into();
        let usual_duration = self.durations.usual_duration(&kind);
        self.begin(Some(kind), name.into(), usual_duration)
    }

    /// Like [`Self::begin_stage`], with a usual duration that the caller knows.
    pub fn begin_stage_with_usual_duration(
        &self,
        name: impl Into<String>,
        usual_duration: Option<Duration>,
    ) -> Stage {
        self.begin(None, name.into(), usual_duration)
    }

    fn begin(&self, kind: Option<String>, name: String, usual_duration: Option<Duration>) -> Stage {
        let id = self.next_stage_id.fetch_add(1, Ordering::Relaxed);
        self.emit(Event::StageStarted { id, parent: self.parent, name: name.clone(), usual_duration });
        Stage {
            reporter: Reporter { parent: Some(id), ..self.clone() },
            id,
            name,
            kind,
            start: Instant::now(),
            has_ended: false,
        }
    }

    /// Sets the usual durations of these kinds of stages.
    pub fn set_usual_durations<'u>(&self, usual_durations: impl IntoIterator<Item = (&'u str, Duration)>) {
        self.durations.set_usual_durations(usual_durations);
    }

    /// Returns the durations of the finished stages in this run, by kind.
    pub fn finished_durations(&self) -> BTreeMap<String, Duration> {
        self.durations.elapsed_by_kind()
    }

    /// Creates a reporter that drops all events.
    pub fn silent() -> Self {
        struct Silence;
        impl Sink for Silence {
            fn receive(&self, _: &Event) {}
        }
        Reporter::new(Arc::new(Silence))
    }
}

/// A running stage. Dropping it without [`Stage::finish`], [`Stage::skip`] or [`Stage::give_up`] reports it
/// as failed.
pub struct Stage {
    reporter: Reporter,
    id: StageId,
    name: String,
    kind: Option<String>,
    start: Instant,
    has_ended: bool,
}

impl Stage {
    /// Returns its name, as the operator sees it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns a reporter whose stages are children of this one.
    pub fn reporter(&self) -> &Reporter {
        &self.reporter
    }

    /// Reports progress; `total` is `None` while unknown.
    pub fn report_progress(&self, amount: u64, total: Option<u64>, unit: Unit) {
        self.reporter.emit(Event::StageProgress { id: self.id, amount, total, unit });
    }

    /// Reports the newest log line of the process that this stage waits for.
    pub fn log_line(&self, line: impl Into<String>) {
        self.reporter.emit(Event::StageLog { id: self.id, line: line.into() });
    }

    /// Ends the stage as done.
    pub fn finish(mut self) {
        self.end(Outcome::Done);
    }

    /// Ends the stage as skipped, because there was nothing to do.
    pub fn skip(mut self, reason: impl Into<String>) {
        self.end(Outcome::Skipped { reason: reason.into() });
    }

    /// Ends the stage as unsuccessful: it was tried, and the run goes on.
    pub fn give_up(mut self, reason: impl Into<String>) {
        self.end(Outcome::Unsuccessful { reason: reason.into() });
    }

    fn end(&mut self, outcome: Outcome) {
        self.has_ended = true;
        let elapsed = self.start.elapsed();
        if let (Some(kind), Outcome::Done) = (self.kind.take(), &outcome) {
            self.reporter.durations.record(kind, elapsed);
        }
        self.reporter.emit(Event::StageFinished { id: self.id, outcome, elapsed });
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if !self.has_ended {
            self.end(Outcome::Failed);
        }
    }
}
