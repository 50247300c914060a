//! Signals of a run: the first one asks it to stop at the next safe place, the second one to stop waiting.

use std::time::{Duration, Instant};

use super::RunContext;
use base::{Error, ErrorKind, Result};

/// Fails if a signal arrived or the lock was lost. Everything done so far is on record.
pub(crate) fn check_may_continue(run: &RunContext) -> Result<()> {
    run.paths.state.check_lock()?;
    check_signal(run.signal())
}

/// Fails if there is a signal.
pub(super) fn check_signal(signal: Option<u8>) -> Result<()> {
    match signal {
        None => Ok(()),
        Some(signal) => Err(Error::new(ErrorKind::Interrupted(signal), "interrupted")),
    }
}

/// Sleeps. Fails early if a signal arrives or the lock is lost.
pub(crate) fn pause(run: &RunContext, duration: Duration) -> Result<()> {
    let end = Instant::now() + duration;
    while let Some(remaining_time) = end.checked_duration_since(Instant::now()) {
        check_may_continue(run)?;
        run.clock.sleep(remaining_time.min(Duration::from_millis(50)));
    }
    check_may_continue(run)
}
