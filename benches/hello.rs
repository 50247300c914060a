//! How long a whole run of the hello environment takes when everything is built, and where the time goes.
//!
//! ```text
//! cargo bench --bench hello [-- RUNS]
//! ```
//!
//! Each run is `create-env --recreate`: the old VM is stopped and deleted, the new one created, booted and
//! brought to run with the packages of the cache. The times are the program's own (`timings` of the event
//! `run_finished`), where every moment counts once.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a benchmark that cannot go on says so by panicking, and prints what it measured"
)]

#[path = "../tests/it/support/mod.rs"]
mod support;

use serde_json::Value;

use support::hello::Hello;

/// What of a run may be neither CPI nor agent.
const BUDGET_MS: u64 = 300;

const COLUMNS: [(&str, &str); 6] = [
    ("total", "total_ms"),
    ("CPI calls", "cpi_ms"),
    ("agent calls", "agent_ms"),
    ("agent tasks", "agent_task_ms"),
    ("waiting", "waiting_ms"),
    ("own work", "own_ms"),
];

fn main() {
    support::scripted::cpi::run_if_called();
    // cargo passes `--bench`.
    let runs = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(5);
    let hello = Hello::new();
    println!("create-env of examples/hello, in ms\n");
    print!("{:>10}", "");
    COLUMNS.iter().for_each(|(title, _)| print!("{title:>12}"));
    println!("{:>12}{:>12}{:>12}", "CPI procs", "messages", "compiles");

    let first = timings(&hello, &[]);
    row("first", &first);
    let again: Vec<Value> = (0..runs).map(|_| timings(&hello, &["--recreate"])).collect();
    for (number, timings) in again.iter().enumerate() {
        row(&format!("again {}", number + 1), timings);
    }
    row("unchanged", &timings(&hello, &[]));
    hello.delete(&[]).success();

    let overhead = |timings: &Value| number(timings, "own_ms") + number(timings, "waiting_ms");
    let mut overheads: Vec<u64> = again.iter().map(overhead).collect();
    overheads.sort_unstable();
    if let Some(median) = overheads.get(overheads.len() / 2) {
        println!("\nown work and waiting together: {median} ms (median), of {BUDGET_MS} ms");
    }
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

/// One run's `timings`.
fn timings(hello: &Hello, flags: &[&str]) -> Value {
    let flags: Vec<&str> = flags.iter().copied().chain(["--json"]).collect();
    let run = hello.create(&flags).success();
    let events = run.json();
    let last = events.last().expect("there is always a last event");
    match &last["timings"] {
        // Nobody was asked anything: all of it was own work.
        Value::Null => serde_json::json!({"total_ms": last["elapsed_ms"], "own_ms": last["elapsed_ms"]}),
        timings => timings.clone(),
    }
}

fn number(timings: &Value, name: &str) -> u64 {
    timings[name].as_u64().unwrap_or_default()
}

fn row(label: &str, timings: &Value) {
    print!("{label:>10}");
    for (_, name) in COLUMNS {
        print!("{:>12}", number(timings, name));
    }
    for name in ["cpi_calls", "agent_messages", "compilations"] {
        print!("{:>12}", number(timings, name));
    }
    println!();
}
