//! A state in a bucket: commands that use it, its lease, and failures of access. `crash::two_machines` tests
//! that another machine completes a killed run.

mod contention;
mod keeper;
mod lease;
mod server_errors;
mod services;
mod storage;

use crate::support::process::WaitForEnd;
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use crate::support::Run;
use crate::support::bucket::Bucket;
use crate::support::hello::Hello;
use crate::support::scripted::{Interruption, Script};

const LOCK_FILE: &str = "state.json.lock";

/// Starts a run on the current machine that is held in a call, counted from 1.
fn start_held_run(hello: &Hello, number: usize, when: Interruption) -> Child {
    hello.set_script(Script::with_interruption(number, when));
    let file = |name: &str| std::fs::File::create(hello.world.path(name)).unwrap();
    let mut command = hello.command("create-env", &[]);
    let child = command.stdin(Stdio::null()).stdout(file("stdout")).stderr(file("stderr")).spawn().unwrap();
    hello.wait_until_held();
    child
}

/// Starts a run that is held in `create_vm`, before or after its effect.
fn start_held_create_vm(hello: &Hello, when: Interruption) -> Child {
    // The third call is `create_vm`, after `info` and `create_stemcell`.
    start_held_run(hello, 3, when)
}

fn wait_for_end(hello: &Hello, mut child: Child) -> Run {
    let code = child.end().code().unwrap_or(-1);
    Run { code, stdout: hello.world.read("stdout"), stderr: hello.world.read("stderr") }
}

fn lock(bucket: &Bucket) -> Value {
    serde_json::from_str(&bucket.read(LOCK_FILE)).unwrap()
}

/// Returns a lease of a holder that does not exist.
fn foreign_lease(lasts: u64) -> String {
    json!({
        "pid": 4711, "host": "elsewhere", "user": "ci", "command": "create-env",
        "since": "2026-01-01T00:00:00Z",
        "owner": "5f0c8a3e-0a2b-4b6e-8a52-1f0a3f6f9d10", "lasts_seconds": lasts, "renewals": 0,
        // The holder's clock is years behind.
        "expires": "2020-01-01T00:00:00Z",
    })
    .to_string()
}
