//! The record of this run, for `history`: begun when it is known which state it is about, ended by its result.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::Result;
use crate::history::{self, Plan, Running, Step};
use crate::plan::ToldStep;
use crate::ui::{Event, Outcome, Redactor, Sink, StageId};

/// How deep below a stage of the run itself a step may be that is recorded.
const DEPTH: usize = 1;
/// No run has as many.
const STEPS: usize = 500;

/// The record, once it is begun. Cheap to clone; clones share it.
#[derive(Clone)]
pub(super) struct RunRecord {
    running: Arc<Mutex<Option<Running>>>,
    stages: Arc<Mutex<Stages>>,
    redactor: Redactor,
}

#[derive(Default)]
struct Stages {
    /// The stages that are on: how deep they are, and what they are called.
    open: Vec<(StageId, usize, String)>,
    steps: Vec<Step>,
}

impl RunRecord {
    pub(super) fn new(redactor: Redactor) -> Self {
        RunRecord { running: Arc::default(), stages: Arc::default(), redactor }
    }

    /// Begins the record; a second time is once too many and changes nothing.
    pub(super) fn begin(
        &self,
        directory: &Path,
        command: &str,
        state: &Path,
        log: Option<&Path>,
    ) -> Result<()> {
        let mut running = self.running();
        if running.is_none() {
            *running = Some(history::begin(directory, command, state, log)?);
        }
        Ok(())
    }

    /// The run is over.
    pub(super) fn finish(&self, exit_code: u8, elapsed: Duration, summary: &str) -> Result<()> {
        let running = self.running();
        let Some(running) = running.as_ref() else { return Ok(()) };
        let mut steps = std::mem::take(&mut self.stages().steps);
        steps.iter_mut().for_each(|step| step.name = self.hide(&step.name));
        running.finish(exit_code, elapsed, &self.hide(summary), steps)
    }

    fn hide(&self, text: &str) -> String {
        self.redactor.apply(text).into_owned()
    }

    /// Keeps what the run is going to do. Where that cannot be written, the end cannot either, and says so.
    fn plan(&self, headline: &str, steps: &[ToldStep]) {
        let step = |told: &ToldStep| ToldStep {
            step: told.step.clone(),
            what: self.hide(&told.what),
            reason: self.hide(&told.reason),
        };
        let plan = Plan { headline: self.hide(headline), steps: steps.iter().map(step).collect() };
        if let Some(running) = self.running().as_mut() {
            let _ = running.planned(plan);
        }
    }

    fn note(&self, event: &Event) {
        if let Event::Planned { headline, steps } = event {
            return self.plan(headline, steps);
        }
        let mut stages = self.stages();
        match event {
            Event::StageStarted { id, parent, name } => {
                let above = stages.open.iter().find(|(open, ..)| Some(*open) == *parent);
                let depth = above.map_or(0, |(_, depth, _)| depth + 1);
                stages.open.push((*id, depth, name.clone()));
            }
            Event::StageFinished { id, outcome, elapsed } => {
                let Some(at) = stages.open.iter().position(|(open, ..)| open == id) else { return };
                let (_, depth, name) = stages.open.swap_remove(at);
                if depth > DEPTH || stages.steps.len() >= STEPS {
                    return;
                }
                let outcome = match outcome {
                    Outcome::Done => "done",
                    Outcome::Skipped { .. } => "skipped",
                    Outcome::Failed => "failed",
                };
                let elapsed_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
                stages.steps.push(Step { name, outcome: outcome.to_owned(), elapsed_ms });
            }
            _ => {}
        }
    }

    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stages(&self) -> MutexGuard<'_, Stages> {
        self.stages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Passes events on, and notes plan and steps.
pub(super) struct Recorded {
    pub(super) record: RunRecord,
    pub(super) next: Arc<dyn Sink>,
}

impl Sink for Recorded {
    fn emit(&self, event: &Event) {
        self.next.emit(event);
        self.record.note(event);
    }
}
