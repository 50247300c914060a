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
    progress: Arc<Mutex<RunProgress>>,
    redactor: Redactor,
}

#[derive(Default)]
struct RunProgress {
    /// The running stages with their depths.
    open: Vec<(StageId, usize)>,
    /// The recorded stages: each before those below it, otherwise in the order of their starts.
    recorded: Vec<(StageId, FinishedStage)>,
    /// The steps that have begun.
    steps: Vec<StartedStep>,
    /// The number of planned steps.
    planned: usize,
    /// The path or URL of the state.
    state: Option<String>,
}

impl RunProgress {
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
        let above = self.recorded.iter().position(|(id, _)| Some(*id) == parent);
        let Some(above) = above else { return self.recorded.len() };
        let depth = self.recorded[above].1.depth;
        let below = self.recorded[above + 1..].iter().take_while(|(_, stage)| stage.depth > depth).count();
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
        RunRecord { running: Arc::default(), progress: Arc::default(), redactor }
    }

    /// Begins the record, unless it has begun.
    pub(super) fn begin(
        &self,
        directory: &Path,
        command: &str,
        state: &Path,
        log: Option<&Path>,
    ) -> Result<()> {
        self.progress().state = Some(state.display().to_string());
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
        let progress = self.progress();
        let is_open = |id: &StageId| progress.open.iter().any(|(open, _)| open == id);
        progress.recorded.iter().filter(|(id, _)| !is_open(id)).map(|(_, stage)| stage.clone()).collect()
    }

    /// Reports the steps and stages so far. `failed` marks the last step as failed.
    pub(super) fn report(&self, failed: bool) -> Option<RunReport> {
        let stages = self.ended();
        let progress = self.progress();
        let state = Some(progress.state.clone()?);
        let mut steps = progress.steps.clone();
        if let Some(last) = steps.last_mut().filter(|_| failed) {
            last.done = false;
        }
        let steps_left = progress.planned.saturating_sub(steps.len());
        Some(RunReport { steps, steps_left, stages, state })
    }

    /// Returns true if the run has started a step of its plan.
    pub(super) fn has_started_a_step(&self) -> bool {
        !self.progress().steps.is_empty()
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
        let mut progress = self.progress();
        match event {
            Event::StageStarted { id, parent, name, usual } => {
                let above = progress.open.iter().find(|(open, _)| Some(*open) == *parent);
                let depth = above.map_or(0, |(_, depth)| depth + 1);
                progress.open.push((*id, depth));
                if depth <= MAX_STAGE_DEPTH && progress.recorded.len() < MAX_RECORDED_STAGES {
                    let recorded = FinishedStage {
                        name: name.clone(),
                        depth,
                        outcome: Outcome::Failed.word(),
                        elapsed: Duration::ZERO,
                        usual: *usual,
                    };
                    let at = progress.end_of(*parent);
                    progress.recorded.insert(at, (*id, recorded));
                }
            }
            Event::StageFinished { id, outcome, elapsed } => {
                let Some(at) = progress.open.iter().position(|(open, _)| open == id) else { return };
                let (_, depth) = progress.open.swap_remove(at);
                match outcome {
                    Outcome::Failed => progress.note_failure(depth),
                    Outcome::Skipped { reason } => progress.note_skip(reason),
                    Outcome::Done => {}
                }
                if let Some((_, recorded)) = progress.recorded.iter_mut().find(|(stage, _)| stage == id) {
                    (recorded.outcome, recorded.elapsed) = (outcome.word(), *elapsed);
                }
            }
            Event::StepStarted { count, what, reason, .. } => {
                progress.planned = *count;
                progress.steps.push(StartedStep {
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

    fn progress(&self) -> MutexGuard<'_, RunProgress> {
        self.progress.lock()
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
