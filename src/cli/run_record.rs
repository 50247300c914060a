//! The record of this run for `history`. It begins when the state is known, and ends with the result.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use base::Result;
use base::events::AnnouncedStep;
use base::{
    events::{Event, FinishedStage, Outcome, RunReport, Sink, StageId, StartedStep},
    redact::Redactor,
};
use engine::history::{self, RecordedPlan, RecordedStage, RunEnd, RunningRecord};

/// The maximum depth of recorded stages.
const MAX_STAGE_DEPTH: usize = 1;
/// The maximum number of recorded stages.
const MAX_RECORDED_STAGES: usize = 500;

/// The record of this run. Cheap to clone; clones share it.
#[derive(Clone)]
pub(super) struct RunRecord {
    running: Arc<Mutex<Option<RunningRecord>>>,
    stages: Arc<Mutex<Stages>>,
    redactor: Redactor,
}

#[derive(Default)]
struct Stages {
    /// The running stages with their depths.
    open: Vec<(StageId, usize)>,
    /// The recorded stages: each before those below it, otherwise in the order of their starts.
    taken: Vec<(StageId, FinishedStage)>,
    /// The steps that have begun.
    steps: Vec<StartedStep>,
    /// The number of planned steps.
    planned: usize,
    /// The path or URL of the state.
    state: Option<String>,
}

impl Stages {
    /// Marks the current step as failed after a stage at this depth has failed.
    fn note_failure(&mut self, depth: usize) {
        if depth > 0
            && let Some(step) = self.steps.last_mut()
        {
            step.done = false;
        }
    }

    /// Returns the place after the recorded stages below `parent`, which other stages may have followed.
    fn end_of(&self, parent: Option<StageId>) -> usize {
        let above = self.taken.iter().position(|(id, _)| Some(*id) == parent);
        let Some(above) = above else { return self.taken.len() };
        let depth = self.taken[above].1.depth;
        let below = self.taken[above + 1..].iter().take_while(|(_, stage)| stage.depth > depth).count();
        above + 1 + below
    }

    /// Marks the current step if its VM or disk did not exist any more.
    fn note_skip(&mut self, reason: &str) {
        let removes =
            |step: &&mut StartedStep| ["Delete ", "Stop "].iter().any(|verb| step.what.starts_with(verb));
        if reason.contains("does not exist any more")
            && let Some(step) = self.steps.last_mut().filter(removes)
        {
            step.was_gone = true;
        }
    }
}

impl RunRecord {
    pub(super) fn new(redactor: Redactor) -> Self {
        RunRecord { running: Arc::default(), stages: Arc::default(), redactor }
    }

    /// Begins the record, unless it has begun.
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

    /// Ends the record, if it has begun.
    pub(super) fn finish(
        &self,
        exit_code: u8,
        elapsed: Duration,
        summary: &str,
        declined: bool,
    ) -> Result<()> {
        let running = self.running();
        let Some(running) = running.as_ref() else { return Ok(()) };
        let stages = self.ended().into_iter().map(|stage| RecordedStage {
            name: self.hide(&stage.name),
            depth: stage.depth,
            outcome: stage.outcome.to_owned(),
            elapsed_ms: u64::try_from(stage.elapsed.as_millis()).unwrap_or(u64::MAX),
        });
        running.finish(RunEnd {
            exit_code,
            elapsed_ms: u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
            summary: self.hide(summary),
            stages: stages.collect(),
            declined,
        })
    }

    /// Returns the finished stages.
    fn ended(&self) -> Vec<FinishedStage> {
        let stages = self.stages();
        let is_open = |id: &StageId| stages.open.iter().any(|(open, _)| open == id);
        stages.taken.iter().filter(|(id, _)| !is_open(id)).map(|(_, stage)| stage.clone()).collect()
    }

    /// Reports the steps and stages so far. `failed` marks the last step as failed.
    pub(super) fn report(&self, failed: bool) -> Option<RunReport> {
        let stages = self.ended();
        let recorded = self.stages();
        let state = Some(recorded.state.clone()?);
        let mut steps = recorded.steps.clone();
        if let Some(last) = steps.last_mut().filter(|_| failed) {
            last.done = false;
        }
        let steps_left = recorded.planned.saturating_sub(steps.len());
        Some(RunReport { steps, steps_left, stages, state })
    }

    /// Returns true if the run has started a step of its plan.
    pub(super) fn has_started_a_step(&self) -> bool {
        !self.stages().steps.is_empty()
    }

    fn hide(&self, text: &str) -> String {
        self.redactor.clean_and_redact(text)
    }

    /// Records the plan. A failure is ignored, because the end of the record also reports it.
    fn plan(&self, headline: &str, steps: &[AnnouncedStep]) {
        let step = |announced: &AnnouncedStep| AnnouncedStep {
            step: announced.step.clone(),
            what: self.hide(&announced.what),
            reason: self.hide(&announced.reason),
        };
        let plan = RecordedPlan { headline: self.hide(headline), steps: steps.iter().map(step).collect() };
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
                if depth <= MAX_STAGE_DEPTH && stages.taken.len() < MAX_RECORDED_STAGES {
                    let taken = FinishedStage {
                        name: name.clone(),
                        depth,
                        outcome: Outcome::Failed.word(),
                        elapsed: Duration::ZERO,
                        usual: *usual,
                    };
                    let at = stages.end_of(*parent);
                    stages.taken.insert(at, (*id, taken));
                }
            }
            Event::StageFinished { id, outcome, elapsed } => {
                let Some(at) = stages.open.iter().position(|(open, _)| open == id) else { return };
                let (_, depth) = stages.open.swap_remove(at);
                match outcome {
                    Outcome::Failed => stages.note_failure(depth),
                    Outcome::Skipped { reason } => stages.note_skip(reason),
                    Outcome::Done => {}
                }
                if let Some((_, taken)) = stages.taken.iter_mut().find(|(taken, _)| taken == id) {
                    (taken.outcome, taken.elapsed) = (outcome.word(), *elapsed);
                }
            }
            Event::StepStarted { count, what, reason, .. } => {
                stages.planned = *count;
                stages.steps.push(StartedStep {
                    what: what.clone(),
                    reason: reason.clone(),
                    done: true,
                    was_gone: false,
                });
            }
            _ => {}
        }
    }

    fn running(&self) -> MutexGuard<'_, Option<RunningRecord>> {
        self.running.lock()
    }

    fn stages(&self) -> MutexGuard<'_, Stages> {
        self.stages.lock()
    }
}

/// A sink that records the plan, steps and stages, and passes events on.
pub(super) struct RecordingSink {
    pub(super) record: RunRecord,
    pub(super) next: Arc<dyn Sink>,
}

impl Sink for RecordingSink {
    fn emit(&self, event: &Event) {
        self.next.emit(event);
        self.record.note(event);
    }
}
