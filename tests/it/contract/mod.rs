//! The contract between the program, CPIs of every version and stemcells of every version.

mod answer_log;
mod answers;
mod errors;
mod matrix;
mod restarting;
mod retries;

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::process::name_wait;

/// Runs `work` for all `cases`, several at a time, because a case mostly waits for processes.
fn run_in_parallel<T: Sync>(cases: &[T], work: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    let _wait = name_wait("the last case");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::SeqCst)) {
                    work(case);
                }
            });
        }
    });
}
