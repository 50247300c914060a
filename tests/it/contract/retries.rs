//! `ok_to_retry`: a retryable call is repeated a few times with growing delays. No other call is repeated.

use crate::support::process::WaitForEnd;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::hello::Hello;
use crate::support::scripted::{InfoAnswer, Script, wait_until};

const FAILED: &str = "Bosh::Clouds::VMCreationFailed";

#[test]
fn every_method_is_retried_on_ok_to_retry() {
    let hello = Hello::new();
    let created = [
        "info",
        "create_stemcell",
        "create_vm",
        "set_vm_metadata",
        "create_disk",
        "attach_disk",
        "set_disk_metadata",
    ];
    let flaky = |methods: &[&str]| {
        let script = Script::with_info(InfoAnswer::Local);
        methods.iter().fold(script, |script, method| script.fail(method, 1, "Bosh::Clouds::CloudError", true))
    };
    hello.set_script(flaky(&created));
    let run = hello.create(&[]).success();
    for method in created {
        assert_eq!(hello.calls(method), 2, "{method}");
        let shown = format!(
            "the CPI's `{method}` failed, and a retry may help: {method} failed as the script says; \
             attempt 2 of 4 in 1 s"
        );
        assert!(
            (run.stdout.clone() + &run.stderr).contains(&shown),
            "{method}: {}{}",
            run.stdout,
            run.stderr
        );
    }
    assert_eq!(hello.cloud(), hello.recorded());

    let deleted = ["has_vm", "delete_vm", "delete_disk", "delete_stemcell"];
    hello.set_script(flaky(&deleted));
    hello.delete(&[]).success();
    for method in deleted {
        assert_eq!(hello.calls(method), 2, "{method}");
    }
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn retries_are_limited_and_back_off() {
    let hello = Hello::new();
    hello.set_script(Script::with_info(InfoAnswer::Local).fail("create_vm", usize::MAX, FAILED, true));
    let started = Instant::now();
    let run = hello.create(&[]).exits_with(1);
    assert!(started.elapsed() >= Duration::from_secs(1 + 2 + 4), "{:?}", started.elapsed());
    assert_eq!(hello.calls("create_vm"), 4);
    let shown = run.stdout.clone() + &run.stderr;
    for wait in ["attempt 2 of 4 in 1 s", "attempt 3 of 4 in 2 s", "attempt 4 of 4 in 4 s"] {
        assert!(shown.contains(wait), "{shown}");
    }
    assert!(shown.contains("run the same command again in a few minutes"), "{shown}");

    // Each retry has the same arguments and its own request id, as with a director.
    let requests = hello.take_requests();
    let made: Vec<&Value> = requests.iter().filter(|request| request["method"] == "create_vm").collect();
    for request in &made[1..] {
        assert_eq!(request["arguments"], made[0]["arguments"]);
        assert_ne!(request["context"]["request_id"], made[0]["context"]["request_id"]);
    }
    assert_eq!(hello.cloud(), hello.recorded());
    assert!(!hello.world.exists("state.json.journal"));

    // A failure that is not retryable ends the retries at once.
    let once = Script::with_info(InfoAnswer::Local).fail("create_vm", 1, FAILED, true);
    hello.set_script(once.fail("create_vm", 2, FAILED, false));
    hello.create(&[]).exits_with(1);
    assert_eq!(hello.calls("create_vm"), 2);

    hello.set_script(Script::with_info(InfoAnswer::Local).fail("create_vm", 2, FAILED, true));
    hello.create(&[]).success();
    assert_eq!(hello.calls("create_vm"), 3);
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn signal_ends_the_wait_for_the_next_attempt() {
    let hello = Hello::new();
    let script = Script::with_info(InfoAnswer::Local).fail("create_vm", usize::MAX, FAILED, true);
    hello.set_script(script.fail("has_vm", usize::MAX, FAILED, true));
    let mut command = hello.command("create-env", &[]);
    let child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    wait_until("two attempts", || hello.calls("create_vm") == 2);
    let started = Instant::now();
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.end_with_output();
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    assert_eq!(hello.calls("create_vm"), 2);
    assert_eq!(hello.cloud(), hello.recorded());
    hello.set_script(Script::with_info(InfoAnswer::Local));
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}
