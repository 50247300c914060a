//! Writes the record of this run for `history`. The record begins when the state is known, and ends with the
//! result.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use base::Result;
use base::events::ReportedStep;
use base::{
    events::{Event, FinishedStage, Outcome, RunReport, Sink, StageId, StartedStep},
    redact::Redactor,
};
use engine::history::{self, OpenRunRecord, RecordedPlan, RecordedStage, RunEnd};

/// The maximum depth of recorded stages.
const MAX_STAGE_DEPTH: usize = 1;
/// The maximum number of recorded stages.
const MAX_RECORDED_STAGES: usize = 500;

/// Writes the record of this run, from its events. Cheap to clone; clones share it.
#[derive(Clone)]
pub(super) struct RunRecorder {
    open_run: Arc<Mutex<Option<OpenRunRecord>>>,
    progress: Arc<Mutex<RunProgress>>,
    redactor: Redactor,
}

/// The steps and stages of the run so far.
#[derive(Default)]
struct RunProgress {
    /// The running stages with their depths.
    open_stages: Vec<(StageId, usize)>,
    /// The recorded stages by their starts, each followed by the stages below it.
    recorded_stages: Vec<(StageId, FinishedStage)>,
    /// The steps that have begun.
    steps: Vec<StartedStep>,
    /// True if the effect of the last step is done.
    is_applied: bool,
    /// The number of planned steps.
    planned_step_count: usize,
    /// The path or URL of the state.
    state: Option<String>,
}

impl RunProgress {
    /// Returns the index after the last recorded stage below `parent`. Stages of other parents may come after
    /// it.
    fn end_of(&self, parent: Option<StageId>) -> usize {
        let parent_index = self.recorded_stages.iter().position(|(id, _)| Some(*id) == parent);
        let Some(parent_index) = parent_index else { return self.recorded_stages.len() };
        let depth = self.recorded_stages[parent_index].1.depth;
        let count_below = self.recorded_stages[parent_index + 1..]
            .iter()
            .take_while(|(_, stage)| stage.depth > depth)
            .count();
        parent_index + 1 + count_below
    }

    /// Records the outcome of a stage at this depth for the current step, which was skipped if its last stage
    /// was skipped or unsuccessful.
    fn record_outcome(&mut self, depth: usize, outcome: &Outcome) {
        let Some(step) = self.steps.last_mut().filter(|_| depth > 0) else { return };
        match outcome {
            Outcome::Failed => fail(step, self.is_applied),
            Outcome::Skipped { reason } | Outcome::Unsuccessful { reason } if depth == 1 => {
                step.skip_reason = Some(reason.clone());
            }
            Outcome::Done if depth == 1 => step.skip_reason = None,
            Outcome::Skipped { .. } | Outcome::Unsuccessful { .. } | Outcome::Done => {}
        }
    }
}

/// Marks a step as failed, before or after its effect was done.
fn fail(step: &mut StartedStep, is_applied: bool) {
    (step.is_done, step.has_failed_later, step.skip_reason) = (is_applied, is_applied, None);
}

impl RunRecorder {
    pub(super) fn new(redactor: Redactor) -> Self {
        RunRecorder { open_run: Arc::default(), progress: Arc::default(), redactor }
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
        let mut open_run = self.open_run();
        if open_run.is_none() {
            *open_run = Some(history::begin(directory, command, state, log)?);
        }
        Ok(())
    }

    /// Ends the record, if it has begun.
    pub(super) fn finish(
        &self,
        exit_code: u8,
        elapsed: Duration,
        summary: &str,
        was_declined: bool,
    ) -> Result<()> {
        let open_run = self.open_run();
        let Some(open_run) = open_run.as_ref() else { return Ok(()) };
        let stages = self.finished_stages().into_iter().map(|stage| RecordedStage {
            name: self.redact(&stage.name),
            depth: stage.depth,
            outcome: stage.outcome.to_owned(),
            elapsed_ms: u64::try_from(stage.elapsed.as_millis()).unwrap_or(u64::MAX),
        });
        open_run.finish(RunEnd {
            exit_code,
            elapsed_ms: u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
            summary: self.redact(summary),
            stages: stages.collect(),
            was_declined,
        })
    }

    fn finished_stages(&self) -> Vec<FinishedStage> {
        let progress = self.progress();
        let is_open = |id: &StageId| progress.open_stages.iter().any(|(open, _)| open == id);
        progress
            .recorded_stages
            .iter()
            .filter(|(id, _)| !is_open(id))
            .map(|(_, stage)| stage.clone())
            .collect()
    }

    /// Returns the report of the steps and stages so far. `has_failed` marks the last step as failed, unless
    /// a step has failed already.
    pub(super) fn run_report(&self, has_failed: bool) -> Option<RunReport> {
        let stages = self.finished_stages();
        let progress = self.progress();
        let state = Some(progress.state.clone()?);
        let mut steps = progress.steps.clone();
        if has_failed
            && steps.iter().all(|step| step.is_done && !step.has_failed_later)
            && let Some(last) = steps.last_mut()
        {
            fail(last, progress.is_applied);
        }
        let unstarted_step_count = progress.planned_step_count.saturating_sub(steps.len());
        Some(RunReport { steps, unstarted_step_count, stages, state })
    }

    /// Returns true if the run has started a step of its plan.
    pub(super) fn has_started_a_step(&self) -> bool {
        !self.progress().steps.is_empty()
    }

    fn redact(&self, text: &str) -> String {
        self.redactor.clean_and_redact(text)
    }

    /// Records the plan. A failure is ignored, because the end of the record also reports it.
    fn record_plan(&self, headline: &str, steps: &[ReportedStep]) {
        let step = |planned_step: &ReportedStep| ReportedStep {
            step_kind: planned_step.step_kind.clone(),
            description: self.redact(&planned_step.description),
            reason: self.redact(&planned_step.reason),
        };
        let plan = RecordedPlan { headline: self.redact(headline), steps: steps.iter().map(step).collect() };
        if let Some(open_run) = self.open_run().as_mut() {
            let _ = open_run.record_plan(plan);
        }
    }

    /// Records that a step or another change, such as a repair, begins. A failure is ignored as in
    /// [`Self::record_plan`].
    fn record_change(&self) {
        if let Some(open_run) = self.open_run().as_mut() {
            let _ = open_run.record_change();
        }
    }

    /// Updates the record of the run: its plan, the steps that it began, and the stages for the report at the
    /// end. Only stages near the top are kept, and at most [`MAX_RECORDED_STAGES`] of them.
    fn record_event(&self, event: &Event) {
        match event {
            Event::Planned { headline, steps } => return self.record_plan(headline, steps),
            Event::StepStarted { .. } | Event::ChangeStarted => self.record_change(),
            _ => {}
        }
        let mut progress = self.progress();
        match event {
            Event::StageStarted { id, parent, name, usual_duration } => {
                let parent_stage = progress.open_stages.iter().find(|(open, _)| Some(*open) == *parent);
                let depth = parent_stage.map_or(0, |(_, depth)| depth + 1);
                progress.open_stages.push((*id, depth));
                if depth <= MAX_STAGE_DEPTH && progress.recorded_stages.len() < MAX_RECORDED_STAGES {
                    let stage = FinishedStage {
                        name: name.clone(),
                        depth,
                        outcome: Outcome::Failed.word(),
                        elapsed: Duration::ZERO,
                        usual_duration: *usual_duration,
                    };
                    let index = progress.end_of(*parent);
                    progress.recorded_stages.insert(index, (*id, stage));
                }
            }
            Event::StageFinished { id, outcome, elapsed } => {
                let Some(index) = progress.open_stages.iter().position(|(open, _)| open == id) else {
                    return;
                };
                let (_, depth) = progress.open_stages.swap_remove(index);
                progress.record_outcome(depth, outcome);
                if let Some((_, stage)) = progress.recorded_stages.iter_mut().find(|(stage, _)| stage == id) {
                    (stage.outcome, stage.elapsed) = (outcome.word(), *elapsed);
                }
            }
            Event::StepStarted { count, description, text, reason, .. } => {
                progress.planned_step_count = *count;
                progress.is_applied = false;
                progress.steps.push(StartedStep {
                    description: description.clone(),
                    text: text.clone(),
                    reason: reason.clone(),
                    is_done: true,
                    has_failed_later: false,
                    skip_reason: None,
                });
            }
            Event::StepApplied => progress.is_applied = true,
            _ => {}
        }
    }

    fn open_run(&self) -> MutexGuard<'_, Option<OpenRunRecord>> {
        self.open_run.lock()
    }

    fn progress(&self) -> MutexGuard<'_, RunProgress> {
        self.progress.lock()
    }
}

/// A sink that records the plan, steps and stages, and passes events on.
pub(super) struct RecordingSink {
    pub(super) recorder: RunRecorder,
    pub(super) next: Arc<dyn Sink>,
}

impl Sink for RecordingSink {
    fn receive(&self, event: &Event) {
        self.next.receive(event);
        self.recorder.record_event(event);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::events::{Reporter, StepText};

    struct Discard;

    impl Sink for Discard {
        fn receive(&self, _: &Event) {}
    }

    #[test]
    fn skipped_and_failed_steps_are_told_from_others() {
        let recorder = RunRecorder::new(Redactor::default());
        recorder.progress().state = Some("/env/state.json".to_owned());
        let reporter =
            Reporter::new(Arc::new(RecordingSink { recorder: recorder.clone(), next: Arc::new(Discard) }));
        let begin = |number: usize, description: &str| {
            let (description, reason) = (description.to_owned(), String::new());
            reporter.emit(Event::StepStarted {
                number,
                count: 4,
                step_kind: "delete",
                description,
                text: StepText::default(),
                reason,
            });
        };
        let deleting = reporter.begin_stage("Deleting");
        begin(1, "Stop the jobs on VM vm-1");
        deleting.reporter().begin_stage("Waiting for the agent").give_up("no answer after 10 s");
        begin(2, "Stop the jobs on VM vm-2");
        deleting.reporter().begin_stage("Draining").give_up("gave up");
        let stopping = deleting.reporter().begin_stage("Stopping");
        stopping.reporter().begin_stage("Unmounting").skip("nothing is mounted");
        stopping.finish();
        begin(3, "Delete disk disk-1");
        drop(deleting.reporter().begin_stage("Deleting disk disk-1"));
        begin(4, "Delete stemcell s-1");
        deleting.reporter().begin_stage("Deleting stemcell s-1").finish();
        drop(deleting);
        let step_outcomes = |has_failed: bool| -> Vec<(bool, Option<String>)> {
            let report = recorder.run_report(has_failed).unwrap();
            report.steps.into_iter().map(|step| (step.is_done, step.skip_reason)).collect()
        };
        let skip_reason = Some("no answer after 10 s".to_owned());
        let expected = [(true, skip_reason), (true, None), (false, None), (true, None)];
        assert_eq!(step_outcomes(true), expected);
        begin(5, "Delete VM vm-1");
        assert_eq!(step_outcomes(true)[4], (true, None), "the last step counts as failed");
    }

    #[test]
    fn step_that_fails_after_its_effect_is_done() {
        for is_applied in [false, true] {
            let recorder = RunRecorder::new(Redactor::default());
            recorder.progress().state = Some("/env/state.json".to_owned());
            let reporter = Reporter::new(Arc::new(RecordingSink {
                recorder: recorder.clone(),
                next: Arc::new(Discard),
            }));
            let deploying = reporter.begin_stage("Deploying");
            reporter.emit(Event::StepStarted {
                number: 1,
                count: 2,
                step_kind: "create_vm",
                description: "Create the VM".to_owned(),
                text: StepText::default(),
                reason: String::new(),
            });
            let creating = deploying.reporter().begin_stage("Creating VM");
            if is_applied {
                reporter.emit(Event::StepApplied);
            }
            // An interruption fails no stage of the step.
            creating.finish();
            let step = recorder.run_report(true).unwrap().steps.remove(0);
            assert_eq!((step.is_done, step.has_failed_later), (is_applied, is_applied));
            drop(deploying.reporter().begin_stage("Waiting for the agent"));
            let step = recorder.run_report(true).unwrap().steps.remove(0);
            assert_eq!((step.is_done, step.has_failed_later), (is_applied, is_applied));
        }
    }
}
