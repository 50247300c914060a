//! Counts SIGINT, SIGTERM and SIGHUP. The engine checks the count between steps, so that the call in flight
//! is recorded before the process ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::ui::prompt;
use base::Result;
use base::events::Reporter;
use base::signals::RunSignals;
use base::text::and_list;

/// Starts counting signals. The reporter prints the effect of each one. A command that only reads passes no
/// reporter.
pub(super) fn start_counting(reporter: Option<&Reporter>) -> Result<RunSignals> {
    let mut signals = signal_hook::iterator::Signals::new(watched_signals()).map_err(handler_error)?;
    let counter = reporter.map_or_else(RunSignals::for_reader, |_| RunSignals::default());
    base::files::input::end_at_signals(counter.clone());
    let (thread_counter, reporter) = (counter.clone(), reporter.cloned());
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            for signal in signals.forever() {
                let number = u8::try_from(signal).unwrap_or(0);
                let count_before = thread_counter.count(number);
                // No call is in flight while a prompt waits.
                let Some(reporter) = reporter.as_ref().filter(|_| !prompt::is_asking()) else { continue };
                let name = name(signal);
                let calls = and_list(&thread_counter.calls_in_flight());
                match (count_before, calls.as_str()) {
                    (0, "") => reporter.warn(format!("{name} received: stopping")),
                    (0, calls) => reporter.warn(format!(
                        "{name} received: waiting for {calls}; a second {name} stops the wait"
                    )),
                    (1, calls) if !calls.is_empty() => {
                        reporter.warn(format!("not waiting for {calls} any longer"));
                    }
                    _ => {}
                }
            }
        })
        .map_err(|error| base::Error::io("starting the signal thread", error))?;
    Ok(counter)
}

/// Counts signals during `work`, for commands without a run. Before and after it, a signal ends this process.
pub(super) fn count_during<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    let is_over = Arc::new(AtomicBool::new(false));
    for signal in watched_signals() {
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&is_over))
            .map_err(handler_error)?;
    }
    start_counting(None)?;
    let result = work();
    is_over.store(true, Ordering::SeqCst);
    result
}

/// Returns the signals to count.
fn watched_signals() -> Vec<i32> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

    let mut signals = vec![SIGINT, SIGTERM];
    if !is_hangup_ignored() {
        signals.push(SIGHUP);
    }
    signals
}

fn handler_error(error: std::io::Error) -> base::Error {
    base::Error::io("installing signal handlers", error)
}

/// Returns true if SIGHUP was ignored at the start (`nohup`), which must stay so.
fn is_hangup_ignored() -> bool {
    const HANGUP_BIT: u64 = 1;
    std::fs::read_to_string("/proc/self/status").is_ok_and(|status| {
        status
            .lines()
            .find_map(|line| line.strip_prefix("SigIgn:"))
            .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
            .is_some_and(|mask| mask & HANGUP_BIT != 0)
    })
}

fn name(signal: i32) -> &'static str {
    use std::io::IsTerminal as _;

    if signal == signal_hook::consts::SIGINT && std::io::stdin().is_terminal() {
        return "Ctrl-C";
    }
    signal_hook::low_level::signal_name(signal).unwrap_or("signal")
}
