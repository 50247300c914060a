//! SIGINT, SIGTERM and SIGHUP are counted, never fatal: the library looks at the count between steps, so
//! that what is in flight is recorded before the process ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base::Result;
use base::events::Reporter;

/// Starts counting. Low byte: how many; next byte: the number of the first signal. What it means for a run that can
/// change the world is told; for a command that only looks it is the usual way to end.
#[cfg(unix)]
pub(super) fn count(reporter: Option<&Reporter>) -> Result<Arc<AtomicUsize>> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

    let mut watched = vec![SIGINT, SIGTERM];
    if !hangup_ignored() {
        watched.push(SIGHUP);
    }
    let mut signals = signal_hook::iterator::Signals::new(watched)
        .map_err(|error| base::Error::io("installing signal handlers", error))?;
    let counted = Arc::new(AtomicUsize::new(0));
    let (count, reporter) = (Arc::clone(&counted), reporter.cloned());
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            for signal in signals.forever() {
                let before = count.load(Ordering::SeqCst);
                let (times, first) = (before & 0xff, before >> 8);
                let first = if times == 0 { usize::try_from(signal).unwrap_or(0) } else { first };
                count.store((first << 8) | (times + 1).min(0xff), Ordering::SeqCst);
                let Some(reporter) = &reporter else { continue };
                match times {
                    0 => reporter.warn(format!(
                        "{} received: finishing and recording the call in flight; once more to stop waiting for it",
                        name(signal)
                    )),
                    1 => reporter.warn("not waiting any longer; what is in flight goes on"),
                    _ => {}
                }
            }
        })
        .map_err(|error| base::Error::io("starting the signal thread", error))?;
    Ok(counted)
}

/// Elsewhere the process ends as the system sees fit; the journal covers that too.
#[cfg(not(unix))]
pub(super) fn count(_: Option<&Reporter>) -> Result<Arc<AtomicUsize>> {
    Ok(Arc::new(AtomicUsize::new(0)))
}

/// Whether this process was started with SIGHUP ignored (`nohup`), which must stay so.
#[cfg(unix)]
fn hangup_ignored() -> bool {
    const HANGUP_BIT: u64 = 1;
    std::fs::read_to_string("/proc/self/status").is_ok_and(|status| {
        status
            .lines()
            .find_map(|line| line.strip_prefix("SigIgn:"))
            .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
            .is_some_and(|mask| mask & HANGUP_BIT != 0)
    })
}

#[cfg(unix)]
fn name(signal: i32) -> &'static str {
    signal_hook::low_level::signal_name(signal).unwrap_or("signal")
}
