//! Signals of a run: the first one asks it to stop at the next safe place, the second one to stop waiting.

use std::time::{Duration, Instant};

use super::RunContext;
use base::{Error, ErrorKind, Result};

/// Fails if a signal arrived or the lock was lost. Everything done so far is on record.
pub(crate) fn check_may_continue(run: &RunContext) -> Result<()> {
    run.paths.storage.check_lock()?;
    check_signal(run.signal())
}

/// Like [`check_may_continue`]. The error of an interrupted run names the step that comes next.
pub(crate) fn check_before_step(run: &RunContext, step: &str) -> Result<()> {
    check_may_continue(run).map_err(|error| match error.kind() {
        ErrorKind::Interrupted(_) => Error::new(error.kind(), format!("{error} before this step: {step}")),
        _ => error,
    })
}

/// Fails if there is a signal.
pub(super) fn check_signal(signal: Option<u8>) -> Result<()> {
    let Some(signal) = signal else { return Ok(()) };
    let name = match signal {
        2 => "SIGINT".to_owned(),
        15 => "SIGTERM".to_owned(),
        other => format!("signal {other}"),
    };
    Err(Error::new(ErrorKind::Interrupted(signal), format!("interrupted by {name}")))
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
