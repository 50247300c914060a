//! Counts the signals that this process received, and notes whether a call is in flight and whether the run
//! has begun to change the environment.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;

/// Returns the signal that interrupted the run, if any.
pub type SignalCheck = Arc<dyn Fn() -> Option<u8> + Send + Sync>;

/// The number of signals so far, and the first one, with what a signal interrupts. Cheap to clone; clones
/// share it.
#[derive(Debug, Clone, Default)]
pub struct RunSignals {
    /// The low byte is the number of signals, up to 255. The next byte is the first signal.
    count_and_first: Arc<AtomicUsize>,
    /// The names of the calls in flight that change something.
    calls: Arc<Mutex<Vec<String>>>,
    /// True once the run has begun to change the environment.
    has_begun_change: Arc<AtomicBool>,
    /// True if the command only reads.
    only_reads: bool,
}

/// A call in flight that changes something. Dropping it ends the call.
#[derive(Debug)]
pub struct CallInFlight {
    name: String,
    calls: Arc<Mutex<Vec<String>>>,
}

impl Drop for CallInFlight {
    fn drop(&mut self) {
        let mut calls = self.calls.lock();
        if let Some(index) = calls.iter().position(|name| *name == self.name) {
            calls.remove(index);
        }
    }
}

impl RunSignals {
    /// Creates the counter of a command that only reads: its first signal also ends the wait for a call.
    pub fn for_reader() -> Self {
        RunSignals { only_reads: true, ..RunSignals::default() }
    }

    /// Notes that the run begins to change the environment.
    pub fn begin_change(&self) {
        self.has_begun_change.store(true, Ordering::SeqCst);
    }

    /// Notes that a call begins. After a signal, the run waits for the end of the call. Messages use the
    /// name.
    pub fn begin_call(&self, name: impl Into<String>) -> CallInFlight {
        let name = name.into();
        self.begin_change();
        self.calls.lock().push(name.clone());
        CallInFlight { name, calls: Arc::clone(&self.calls) }
    }

    /// Returns true if the run has begun to change the environment.
    pub fn has_begun_change(&self) -> bool {
        self.has_begun_change.load(Ordering::SeqCst)
    }

    /// Returns the names of the calls that change something and for which the run waits.
    pub fn calls_in_flight(&self) -> Vec<String> {
        self.calls.lock().clone()
    }

    /// Counts a signal, and returns the number of signals before it.
    pub fn count(&self, signal: u8) -> usize {
        let packed_value = self.count_and_first.load(Ordering::SeqCst);
        let (count, first) = (packed_value & 0xff, packed_value >> 8);
        let first = if count == 0 { usize::from(signal) } else { first };
        self.count_and_first.store((first << 8) | (count + 1).min(0xff), Ordering::SeqCst);
        count
    }

    /// Forgets earlier signals, and records this signal as the only one.
    pub fn set_signal(&self, signal: u8) {
        self.count_and_first.store((usize::from(signal) << 8) | 1, Ordering::SeqCst);
    }

    /// Returns the first signal, if any.
    pub fn first(&self) -> Option<u8> {
        let bits = self.count_and_first.load(Ordering::SeqCst);
        (bits & 0xff > 0).then(|| u8::try_from(bits >> 8).unwrap_or(u8::MAX))
    }

    /// Returns the first signal, if it ends the wait for a call that changes something: a second one
    /// followed, or the command only reads.
    pub fn signal_that_ends_calls(&self) -> Option<u8> {
        let is_enough = self.only_reads || self.count_and_first.load(Ordering::SeqCst) & 0xff > 1;
        self.first().filter(|_| is_enough)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_signal_is_kept_and_others_are_counted() {
        let signals = RunSignals::default();
        assert_eq!((signals.first(), signals.signal_that_ends_calls()), (None, None));
        assert_eq!(signals.clone().count(2), 0);
        assert_eq!((signals.first(), signals.signal_that_ends_calls()), (Some(2), None));
        assert_eq!(signals.count(15), 1);
        assert_eq!((signals.first(), signals.signal_that_ends_calls()), (Some(2), Some(2)));
        for _ in 0..300 {
            signals.count(15);
        }
        assert_eq!((signals.first(), signals.count(15)), (Some(2), 255));
        signals.set_signal(13);
        assert_eq!((signals.first(), signals.signal_that_ends_calls()), (Some(13), None));

        let reader = RunSignals::for_reader();
        assert_eq!(reader.signal_that_ends_calls(), None);
        assert_eq!(reader.clone().count(15), 0);
        assert_eq!((reader.signal_that_ends_calls(), reader.count(2)), (Some(15), 1));
    }

    #[test]
    fn call_is_in_flight_until_it_is_dropped() {
        let signals = RunSignals::default();
        assert!(!signals.has_begun_change() && signals.calls_in_flight().is_empty());
        let [first, second] = [signals.begin_call("a"), signals.clone().begin_call("b")];
        assert!(signals.has_begun_change());
        assert_eq!(signals.calls_in_flight(), ["a", "b"]);
        drop(first);
        assert_eq!(signals.calls_in_flight(), ["b"]);
        drop(second);
        assert!(signals.has_begun_change() && signals.calls_in_flight().is_empty());
    }
}
