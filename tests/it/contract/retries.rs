//! `ok_to_retry`: a retryable call is repeated a few times with growing delays. No other call is repeated.

use crate::support::process::WaitForEnd;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::hello::Hello;
use crate::support::scripted::{InfoAnswer, Script, wait_until};

const CREATION_ERROR: &str = "Bosh::Clouds::VMCreationFailed";

#[test]
fn every_method_is_retried_on_ok_to_retry() {
    let hello = Hello::new();
    let creating_methods = [
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
    hello.set_script(flaky(&creating_methods));
    let run = hello.create(&[]).success();
    for method in creating_methods {
        assert_eq!(hello.calls(method), 2, "{method}");
        let message = format!(
            "the CPI's `{method}` failed, and a retry may help: {method} failed as the script says; \
             attempt 2 of 4 in 1 s"
        );
        assert!(
            (run.stdout.clone() + &run.stderr).contains(&message),
            "{method}: {}{}",
            run.stdout,
            run.stderr
        );
    }
    assert_eq!(hello.cloud(), hello.recorded_cids());

    let deleting_methods = ["has_vm", "delete_vm", "delete_disk", "delete_stemcell"];
    hello.set_script(flaky(&deleting_methods));
    hello.delete(&[]).success();
    for method in deleting_methods {
        assert_eq!(hello.calls(method), 2, "{method}");
    }
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn retries_are_limited_and_back_off() {
    let hello = Hello::new();
    hello.set_script(Script::with_info(InfoAnswer::Local).fail(
        "create_vm",
        usize::MAX,
        CREATION_ERROR,
        true,
    ));
    let start = Instant::now();
    let run = hello.create(&[]).exits_with(1);
    assert!(start.elapsed() >= Duration::from_secs(1 + 2 + 4), "{:?}", start.elapsed());
    assert_eq!(hello.calls("create_vm"), 4);
    let output = run.stdout.clone() + &run.stderr;
    for wait in ["attempt 2 of 4 in 1 s", "attempt 3 of 4 in 2 s", "attempt 4 of 4 in 4 s"] {
        assert!(output.contains(wait), "{output}");
    }
    assert!(output.contains("run the same command again in a few minutes"), "{output}");

    // Each retry has the same arguments and its own request id, as with a director.
    let requests = hello.take_requests();
    let create_requests: Vec<&Value> =
        requests.iter().filter(|request| request["method"] == "create_vm").collect();
    for request in &create_requests[1..] {
        assert_eq!(request["arguments"], create_requests[0]["arguments"]);
        assert_ne!(request["context"]["request_id"], create_requests[0]["context"]["request_id"]);
    }
    assert_eq!(hello.cloud(), hello.recorded_cids());
    assert!(!hello.world.exists("state.json.journal"));

    // A failure that is not retryable ends the retries at once.
    let once = Script::with_info(InfoAnswer::Local).fail("create_vm", 1, CREATION_ERROR, true);
    hello.set_script(once.fail("create_vm", 2, CREATION_ERROR, false));
    hello.create(&[]).exits_with(1);
    assert_eq!(hello.calls("create_vm"), 2);

    hello.set_script(Script::with_info(InfoAnswer::Local).fail("create_vm", 2, CREATION_ERROR, true));
    hello.create(&[]).success();
    assert_eq!(hello.calls("create_vm"), 3);
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn signal_ends_the_wait_for_the_next_attempt() {
    let hello = Hello::new();
    let script = Script::with_info(InfoAnswer::Local).fail("create_vm", usize::MAX, CREATION_ERROR, true);
    hello.set_script(script.fail("has_vm", usize::MAX, CREATION_ERROR, true));
    let mut command = hello.command("create-env", &[]);
    let child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    wait_until("two attempts", || hello.calls("create_vm") == 2);
    let start = Instant::now();
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.end_with_output();
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    assert_eq!(hello.calls("create_vm"), 2);
    assert_eq!(hello.cloud(), hello.recorded_cids());
    hello.set_script(Script::with_info(InfoAnswer::Local));
    hello.delete(&[]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}
