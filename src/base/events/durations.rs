//! Durations of stages by kind: the usual ones, and those of this run.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

/// The usual durations of stages, and those of this run, by kind of stage. Cheap to clone; clones share them.
#[derive(Clone, Default)]
pub(super) struct StageDurations(Arc<Mutex<StageTimes>>);

#[derive(Default)]
struct StageTimes {
    usual: BTreeMap<String, Duration>,
    elapsed: BTreeMap<String, Duration>,
}

impl StageDurations {
    fn lock(&self) -> MutexGuard<'_, StageTimes> {
        self.0.lock()
    }

    pub(super) fn set_usual<'u>(&self, usual: impl IntoIterator<Item = (&'u str, Duration)>) {
        self.lock().usual.extend(usual.into_iter().map(|(kind, usual)| (kind.to_owned(), usual)));
    }

    pub(super) fn usual(&self, kind: &str) -> Option<Duration> {
        self.lock().usual.get(kind).copied()
    }

    /// Records the duration of a stage that succeeded. If several stages are of the same kind, the longest
    /// duration is kept.
    pub(super) fn record(&self, kind: String, elapsed: Duration) {
        let mut durations = self.lock();
        let longest = durations.elapsed.entry(kind).or_default();
        *longest = elapsed.max(*longest);
    }

    pub(super) fn elapsed_by_kind(&self) -> BTreeMap<String, Duration> {
        self.lock().elapsed.clone()
    }
}
