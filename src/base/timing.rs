//! Where the time of a run goes: a stopwatch that every part of the library marks what it waits for on.
//!
//! Every moment of a run counts once. Where several threads do different things at the same moment, it counts
//! for the first of them in the order of [`Activity`], so that the parts always add up to the whole.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;

/// What a run can be waiting for. Anything else is its own work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    /// A process of the CPI runs.
    Cpi,
    /// A request to the agent is under way.
    Agent,
    /// The agent works on a task; this is the time between two looks at it.
    AgentTask,
    /// A pause: until a VM has booted, until jobs run, until a drain is over, before a call is tried again.
    Waiting,
}

const ACTIVITIES: usize = 4;
const OWN_WORK: usize = ACTIVITIES;

/// The stopwatch of one run. Cheap to clone; clones share it.
#[derive(Debug, Clone)]
pub struct Clock {
    ledger: Arc<Mutex<Ledger>>,
}

#[derive(Debug)]
struct Ledger {
    /// Up to when everything is accounted for.
    settled: Instant,
    /// How many threads are at each activity.
    active: [u32; ACTIVITIES],
    spent: [Duration; ACTIVITIES + 1],
    counts: Counts,
}

/// What a run asked of others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Processes of the CPI.
    pub cpi_calls: u64,
    /// Messages to the agent, `get_task` among them.
    pub agent_messages: u64,
    /// `compile_package` messages to the agent.
    pub compilations: u64,
    /// Bytes of blobs sent to the agent.
    pub bytes_sent: u64,
    /// Bytes of blobs that came from the agent.
    pub bytes_received: u64,
    /// How long it took until all packages were on the VM, in milliseconds.
    pub packages_ms: u64,
    /// How long that would have taken if nothing had waited for a free thread, in milliseconds.
    pub packages_critical_path_ms: u64,
}

/// How long a run took, in parts that add up to the whole, and what it did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Timings {
    /// All of it.
    #[serde(rename = "total_ms", serialize_with = "milliseconds")]
    pub total: Duration,
    /// CPI calls.
    #[serde(rename = "cpi_ms", serialize_with = "milliseconds")]
    pub cpi: Duration,
    /// Requests to the agent.
    #[serde(rename = "agent_ms", serialize_with = "milliseconds")]
    pub agent: Duration,
    /// Between two looks at a task of the agent.
    #[serde(rename = "agent_task_ms", serialize_with = "milliseconds")]
    pub agent_task: Duration,
    /// Pauses.
    #[serde(rename = "waiting_ms", serialize_with = "milliseconds")]
    pub waiting: Duration,
    /// What is left: this program's own work.
    #[serde(rename = "own_ms", serialize_with = "milliseconds")]
    pub own: Duration,
    /// What was asked of others.
    #[serde(flatten)]
    pub counts: Counts,
}

/// An activity under way; it ends when this is dropped.
#[derive(Debug)]
pub struct Spending<'c> {
    clock: &'c Clock,
    activity: Activity,
}

impl Clock {
    /// A clock that starts now.
    pub fn start() -> Self {
        let ledger = Ledger {
            settled: Instant::now(),
            active: [0; ACTIVITIES],
            spent: [Duration::ZERO; ACTIVITIES + 1],
            counts: Counts::default(),
        };
        Clock { ledger: Arc::new(Mutex::new(ledger)) }
    }

    /// Counts the time from now on for this activity, until the result is dropped.
    pub fn spend(&self, activity: Activity) -> Spending<'_> {
        let mut ledger = self.lock();
        ledger.settle(Instant::now());
        ledger.active[activity as usize] += 1;
        Spending { clock: self, activity }
    }

    /// Sleeps, and counts it as waiting.
    pub fn sleep(&self, duration: Duration) {
        let _waiting = self.spend(Activity::Waiting);
        std::thread::sleep(duration);
    }

    /// Counts something that was asked of others.
    pub fn count(&self, count: impl FnOnce(&mut Counts)) {
        count(&mut self.lock().counts);
    }

    /// The time up to now.
    pub fn timings(&self) -> Timings {
        let mut ledger = self.lock();
        ledger.settle(Instant::now());
        let [cpi, agent, agent_task, waiting, own] = ledger.spent;
        let total = ledger.spent.iter().sum();
        Timings { total, cpi, agent, agent_task, waiting, own, counts: ledger.counts }
    }

    fn lock(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ledger {
    fn settle(&mut self, now: Instant) {
        let current = self.active.iter().position(|threads| *threads > 0).unwrap_or(OWN_WORK);
        self.spent[current] += now.saturating_duration_since(self.settled);
        self.settled = now;
    }
}

impl Drop for Spending<'_> {
    fn drop(&mut self) {
        let mut ledger = self.clock.lock();
        ledger.settle(Instant::now());
        let threads = &mut ledger.active[self.activity as usize];
        *threads = threads.saturating_sub(1);
    }
}

fn milliseconds<S: serde::Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_millis(20);

    #[test]
    fn every_moment_counts_once() {
        let clock = Clock::start();
        let begun = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| clock.sleep(2 * TICK));
            }
            scope.spawn(|| {
                let _agent = clock.spend(Activity::Agent);
                std::thread::sleep(TICK);
            });
        });
        std::thread::sleep(TICK);
        let timings = clock.timings();
        let whole = begun.elapsed();
        assert!(timings.agent >= TICK, "{timings:?}");
        assert!(timings.own >= TICK, "{timings:?}");
        assert!(timings.waiting > Duration::ZERO && timings.waiting <= whole - 2 * TICK, "{timings:?}");
        assert_eq!(timings.cpi, Duration::ZERO);
        let parts = timings.cpi + timings.agent + timings.agent_task + timings.waiting + timings.own;
        assert_eq!(parts, timings.total);
    }
}
