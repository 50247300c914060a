//! Measures the steps of a deploy, so that the next plan can predict its duration.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::plan::{DOWNTIME_BY_NEW_VM, DOWNTIME_IN_PLACE, Step};
use crate::state::Durations;

/// Measures the steps of one run.
#[derive(Default)]
pub(super) struct StepTimer {
    /// The name of the step, and the time at which it began.
    current_step: Option<(&'static str, Instant)>,
    durations: BTreeMap<&'static str, Duration>,
    /// The time at which the stop of the old VM's jobs began.
    stop_began: Option<Instant>,
}

impl StepTimer {
    /// Ends the previous step, if any, and begins this one.
    pub(super) fn begin(&mut self, step: &Step) {
        self.end_step();
        let now = Instant::now();
        if matches!(step, Step::StopJobs(_) | Step::StopJobsIfPossible(_)) {
            self.stop_began = Some(now);
        }
        self.current_step = Some((step.name(), now));
    }

    /// Records the downtime of jobs that run again on the same VM.
    pub(super) fn add_downtime_in_place(&mut self, downtime: Duration) {
        self.durations.insert(DOWNTIME_IN_PLACE, downtime);
    }

    /// Records the downtime of jobs that now run on a new VM.
    pub(super) fn add_downtime_by_new_vm(&mut self) {
        if let Some(stop_began) = self.stop_began {
            self.durations.insert(DOWNTIME_BY_NEW_VM, stop_began.elapsed());
        }
    }

    fn end_step(&mut self) {
        if let Some((name, start)) = self.current_step.take() {
            *self.durations.entry(name).or_default() += start.elapsed();
        }
    }

    /// Returns the durations so far: of the steps, and of stages by their kinds.
    pub(super) fn durations_so_far(
        &mut self,
        stages: BTreeMap<String, Duration>,
    ) -> BTreeMap<String, Duration> {
        self.end_step();
        let steps = self.durations.iter().map(|(name, duration)| ((*name).to_owned(), *duration));
        steps
            .chain(stages.into_iter().map(|(kind, duration)| (Durations::stage_name(&kind), duration)))
            .collect()
    }
}
