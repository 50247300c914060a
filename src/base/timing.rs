//! Measures the time of a run by activity.
//!
//! Every moment of a run counts once, so that the parts add up to the total. If several threads have
//! different activities at the same moment, it counts for the first activity in the order of [`Activity`].

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use serde::Serialize;

/// An activity during which a run waits. All other time is the run's own work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    /// A process of the CPI runs.
    Cpi,
    /// A request to the agent is in progress.
    Agent,
    /// The agent works on a task. This is the time between two `get_task` messages.
    AgentTask,
    /// A pause: for the boot of a VM, the start of jobs, a drain, or before a retry.
    Pause,
}

/// The number of activities.
const ACTIVITY_COUNT: usize = 4;
/// The index of the run's own work, after those of the activities.
const OWN_WORK: usize = ACTIVITY_COUNT;

/// The stopwatch of one run. Cheap to clone; clones share it.
#[derive(Debug, Clone)]
pub struct Clock {
    totals: Arc<Mutex<ActivityTotals>>,
}

/// The durations and counts of a run so far.
#[derive(Debug)]
struct ActivityTotals {
    /// The time up to which `durations` is complete.
    added_until: Instant,
    /// Number of threads in each activity.
    active: [u32; ACTIVITY_COUNT],
    durations: [Duration; ACTIVITY_COUNT + 1],
    counts: Counts,
}

/// Counts of a run's calls and transfers, and the duration of its compilation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// CPI processes that were started, retries included.
    pub cpi_calls: u64,
    /// Messages to the agent, including `get_task`.
    pub agent_messages: u64,
    /// `compile_package` messages to the agent.
    pub compilations: u64,
    /// Bytes of blobs sent to the agent.
    pub bytes_sent: u64,
    /// Bytes of blobs received from the agent.
    pub bytes_received: u64,
    /// Time until all packages were on the VM, in milliseconds.
    pub packages_ms: u64,
    /// Time until all packages would be on the VM with an unlimited number of threads, in milliseconds.
    pub packages_critical_path_ms: u64,
}

/// Duration of a run, in parts that add up to the total, and its counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Timings {
    /// The whole run.
    #[serde(rename = "total_ms", serialize_with = "serialize_milliseconds")]
    pub total: Duration,
    /// CPI calls.
    #[serde(rename = "cpi_ms", serialize_with = "serialize_milliseconds")]
    pub cpi: Duration,
    /// Requests to the agent.
    #[serde(rename = "agent_ms", serialize_with = "serialize_milliseconds")]
    pub agent: Duration,
    /// Time between two `get_task` messages to the agent.
    #[serde(rename = "agent_task_ms", serialize_with = "serialize_milliseconds")]
    pub agent_task: Duration,
    /// Pauses.
    #[serde(rename = "waiting_ms", serialize_with = "serialize_milliseconds")]
    pub pauses: Duration,
    /// The rest: monopile's own work.
    #[serde(rename = "own_ms", serialize_with = "serialize_milliseconds")]
    pub own_work: Duration,
    /// Calls and transfers.
    #[serde(flatten)]
    pub counts: Counts,
}

/// An activity in progress. Dropping it ends the activity.
#[derive(Debug)]
pub struct ActivityTimer<'c> {
    clock: &'c Clock,
    activity: Activity,
}

impl Clock {
    /// Starts a clock.
    pub fn start() -> Self {
        let totals = ActivityTotals {
            added_until: Instant::now(),
            active: [0; ACTIVITY_COUNT],
            durations: [Duration::ZERO; ACTIVITY_COUNT + 1],
            counts: Counts::default(),
        };
        Clock { totals: Arc::new(Mutex::new(totals)) }
    }

    /// Starts an activity, which lasts until the result is dropped.
    pub fn measure(&self, activity: Activity) -> ActivityTimer<'_> {
        let mut totals = self.lock();
        totals.add_elapsed(Instant::now());
        totals.active[activity as usize] += 1;
        ActivityTimer { clock: self, activity }
    }

    /// Sleeps, and counts the time as [`Activity::Pause`].
    pub fn sleep(&self, duration: Duration) {
        let _timer = self.measure(Activity::Pause);
        std::thread::sleep(duration);
    }

    /// Changes the counts of this run.
    pub fn count(&self, count: impl FnOnce(&mut Counts)) {
        count(&mut self.lock().counts);
    }

    /// Returns the durations up to now.
    pub fn timings(&self) -> Timings {
        let mut totals = self.lock();
        totals.add_elapsed(Instant::now());
        let [cpi, agent, agent_task, pauses, own_work] = totals.durations;
        let total = totals.durations.iter().sum();
        Timings { total, cpi, agent, agent_task, pauses, own_work, counts: totals.counts }
    }

    fn lock(&self) -> MutexGuard<'_, ActivityTotals> {
        self.totals.lock()
    }
}

impl ActivityTotals {
    fn add_elapsed(&mut self, now: Instant) {
        let current_activity = self.active.iter().position(|threads| *threads > 0).unwrap_or(OWN_WORK);
        self.durations[current_activity] += now.saturating_duration_since(self.added_until);
        self.added_until = now;
    }
}

impl Drop for ActivityTimer<'_> {
    fn drop(&mut self) {
        let mut totals = self.clock.lock();
        totals.add_elapsed(Instant::now());
        let threads = &mut totals.active[self.activity as usize];
        *threads = threads.saturating_sub(1);
    }
}

fn serialize_milliseconds<S: serde::Serializer>(
    duration: &Duration,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_millis(20);

    #[test]
    fn overlapping_activities_are_not_counted_twice() {
        let clock = Clock::start();
        let start = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| clock.sleep(2 * TICK));
            }
            scope.spawn(|| {
                let _agent = clock.measure(Activity::Agent);
                std::thread::sleep(TICK);
            });
        });
        std::thread::sleep(TICK);
        let timings = clock.timings();
        let elapsed = start.elapsed();
        assert!(timings.agent >= TICK, "{timings:?}");
        assert!(timings.own_work >= TICK, "{timings:?}");
        assert!(timings.pauses > Duration::ZERO && timings.pauses <= elapsed - 2 * TICK, "{timings:?}");
        assert_eq!(timings.cpi, Duration::ZERO);
        let parts = timings.cpi + timings.agent + timings.agent_task + timings.pauses + timings.own_work;
        assert_eq!(parts, timings.total);
    }
}
