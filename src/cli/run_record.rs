//! The record of this run, for `history`: begun when it is known which state it is about, ended by its result.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use base::Result;
use base::events::AnnouncedStep;
use base::{
    events::{Event, Outcome, Report, Sink, StageId, StageTaken, StepTaken},
    redact::Redactor,
};
use engine::history::{self, End, Plan, Running, Step};

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
    /// The stages that are on, and how deep they are.
    open: Vec<(StageId, usize)>,
    /// Those that are recorded, in the order in which they began.
    taken: Vec<(StageId, StageTaken)>,
    /// The steps of the plan.
    steps: Vec<StepTaken>,
    /// How many there are.
    planned: usize,
    /// What the run is about.
    state: Option<String>,
}

impl Stages {
    /// A stage that deep has failed: the step that it belongs to was not done.
    fn failed(&mut self, depth: usize) {
        if depth > 0
            && let Some(step) = self.steps.last_mut()
        {
            step.done = false;
        }
    }
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
        self.stages().state = Some(state.display().to_string());
        let mut running = self.running();
        if running.is_none() {
            *running = Some(history::begin(directory, command, state, log)?);
        }
        Ok(())
    }

    /// Ends the record, if it was begun.
    pub(super) fn finish(
        &self,
        exit_code: u8,
        elapsed: Duration,
        summary: &str,
        declined: bool,
    ) -> Result<()> {
        let running = self.running();
        let Some(running) = running.as_ref() else { return Ok(()) };
        let steps = self.ended().into_iter().map(|stage| Step {
            name: self.hide(&stage.name),
            outcome: stage.outcome.to_owned(),
            elapsed_ms: u64::try_from(stage.elapsed.as_millis()).unwrap_or(u64::MAX),
        });
        running.finish(End {
            exit_code,
            elapsed_ms: u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
            summary: self.hide(summary),
            steps: steps.collect(),
            declined,
        })
    }

    /// The stages that ended.
    fn ended(&self) -> Vec<StageTaken> {
        let stages = self.stages();
        let on = |id: &StageId| stages.open.iter().any(|(open, _)| open == id);
        stages.taken.iter().filter(|(id, _)| !on(id)).map(|(_, stage)| stage.clone()).collect()
    }

    /// What was done up to now, if it is known to what; `failed` if that is why the run ends.
    pub(super) fn report(&self, failed: bool) -> Option<Report> {
        let stages = self.ended();
        let known = self.stages();
        let state = Some(known.state.clone()?);
        let mut steps = known.steps.clone();
        if let Some(last) = steps.last_mut().filter(|_| failed) {
            last.done = false;
        }
        let steps_left = known.planned.saturating_sub(steps.len());
        Some(Report { steps, steps_left, stages, state })
    }

    fn hide(&self, text: &str) -> String {
        self.redactor.show(text)
    }

    /// Keeps what the run is going to do. Where that cannot be written, the end cannot either, and says so.
    fn plan(&self, headline: &str, steps: &[AnnouncedStep]) {
        let step = |told: &AnnouncedStep| AnnouncedStep {
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
            Event::StageStarted { id, parent, name, usual } => {
                let above = stages.open.iter().find(|(open, _)| Some(*open) == *parent);
                let depth = above.map_or(0, |(_, depth)| depth + 1);
                stages.open.push((*id, depth));
                if depth <= DEPTH && stages.taken.len() < STEPS {
                    let taken = StageTaken {
                        name: name.clone(),
                        depth,
                        outcome: Outcome::Failed.word(),
                        elapsed: Duration::ZERO,
                        usual: *usual,
                    };
                    stages.taken.push((*id, taken));
                }
            }
            Event::StageFinished { id, outcome, elapsed } => {
                let Some(at) = stages.open.iter().position(|(open, _)| open == id) else { return };
                let (_, depth) = stages.open.swap_remove(at);
                if *outcome == Outcome::Failed {
                    stages.failed(depth);
                }
                if let Some((_, taken)) = stages.taken.iter_mut().find(|(taken, _)| taken == id) {
                    (taken.outcome, taken.elapsed) = (outcome.word(), *elapsed);
                }
            }
            Event::StepBegun { count, what, reason, .. } => {
                stages.planned = *count;
                stages.steps.push(StepTaken { what: what.clone(), reason: reason.clone(), done: true });
            }
            _ => {}
        }
    }

    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock()
    }

    fn stages(&self) -> MutexGuard<'_, Stages> {
        self.stages.lock()
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
