//! Durations of stages by kind: the usual ones, and those of this run.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

/// The usual durations of stages, and those of this run, by kind of stage. Cheap to clone; clones share them.
#[derive(Clone, Default)]
pub(super) struct StageDurations(Arc<Mutex<StageTimes>>);

/// The durations of [`StageDurations`], by kind of stage.
#[derive(Default)]
struct StageTimes {
    usual_durations: BTreeMap<String, Duration>,
    elapsed_durations: BTreeMap<String, Duration>,
}

impl StageDurations {
    fn lock(&self) -> MutexGuard<'_, StageTimes> {
        self.0.lock()
    }

    pub(super) fn set_usual_durations<'u>(
        &self,
        usual_durations: impl IntoIterator<Item = (&'u str, Duration)>,
    ) {
        self.lock()
            .usual_durations
            .extend(usual_durations.into_iter().map(|(kind, duration)| (kind.to_owned(), duration)));
    }

    pub(super) fn usual_duration(&self, kind: &str) -> Option<Duration> {
        self.lock().usual_durations.get(kind).copied()
    }

    /// Records the duration of a stage that succeeded. If several stages are of the same kind, the longest
    /// duration is kept.
    pub(super) fn record(&self, kind: String, elapsed: Duration) {
        let mut durations = self.lock();
        let longest_duration = durations.elapsed_durations.entry(kind).or_default();
        *longest_duration = elapsed.max(*longest_duration);
    }

    pub(super) fn elapsed_by_kind(&self) -> BTreeMap<String, Duration> {
        self.lock().elapsed_durations.clone()
    }
}
