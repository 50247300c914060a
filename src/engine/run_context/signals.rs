//! Signals of a run: the first one asks it to stop at the next safe place, the second one to stop waiting.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::RunContext;
use base::{Error, ErrorKind, Result};

/// Returns the number of the first signal of the run, if any.
pub(crate) fn first(run: &RunContext) -> Option<u8> {
    number(&run.signals)
}

/// Returns the first signal, if any. The low byte of `signals` is the count of signals, the next byte the
/// first one.
pub(crate) fn number(signals: &AtomicUsize) -> Option<u8> {
    let word = signals.load(Ordering::SeqCst);
    (word & 0xff > 0).then(|| u8::try_from((word >> 8) & 0xff).unwrap_or(u8::MAX))
}

/// Returns the number of the first signal, if a second one followed.
pub(crate) fn interrupted_twice(run: &RunContext) -> Option<u8> {
    (run.signals.load(Ordering::SeqCst) & 0xff > 1).then(|| first(run)).flatten()
}

/// Fails if a signal arrived or the lock was lost. Everything done so far is on record.
pub(crate) fn check(run: &RunContext) -> Result<()> {
    run.paths.state.check_lock()?;
    check_number(first(run))
}

/// Fails if there is a signal.
pub(super) fn check_number(signal: Option<u8>) -> Result<()> {
    match signal {
        None => Ok(()),
        Some(signal) => Err(Error::new(ErrorKind::Interrupted(signal), "interrupted; the state is saved")
            .with_hint("run the same command again to continue")),
    }
}

/// Sleeps, and fails early if a signal arrives.
pub(crate) fn pause(run: &RunContext, duration: Duration) -> Result<()> {
    let end = Instant::now() + duration;
    while let Some(left) = end.checked_duration_since(Instant::now()) {
        check(run)?;
        run.clock.sleep(left.min(Duration::from_millis(50)));
    }
    check(run)
}
