//! An agent that stalls, and signals that end the wait.

use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::hello::Hello;
use crate::support::process::{WaitForEnd as _, receive};
use crate::support::stall::StallPoint;

/// Deploys an environment, and checks that a signal ends this command while its agent stalls.
fn assert_ends_at_signal(point: StallPoint, command: &str, extra_args: &[&str], signal: Signal) {
    let mut hello = Hello::new();
    // Another address of the agent would mean another manifest.
    let proxy = hello.proxy_agent();
    hello.create(&[]).success();
    drop(proxy);
    let state = hello.state();
    let stall_receiver = hello.stall_at(point);
    let mut command = hello.command(command, extra_args);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    receive("the agent stalls", &stall_receiver).unwrap();
    let start = Instant::now();
    kill_process(Pid::from_child(&child), signal).unwrap();
    let code = child.end().code();
    let duration = start.elapsed();
    assert_eq!(code, Some(128 + signal.as_raw()), "{point:?}");
    assert!(duration < Duration::from_secs(10), "{point:?}: {duration:?}");
    assert_eq!(hello.state()["current_vm_cid"], state["current_vm_cid"]);
    // The agent of the VM stalls permanently.
    hello.kill_vm();
}

#[test]
fn signal_ends_the_wait_for_a_silent_agent() {
    for (point, signal) in
        StallPoint::MESSAGE.into_iter().zip([Signal::INT, Signal::TERM].into_iter().cycle())
    {
        assert_ends_at_signal(point, "stop-env", &["--agent-timeout", "10m"], signal);
    }
}

#[test]
fn signal_ends_the_wait_for_a_task() {
    assert_ends_at_signal(StallPoint::Task, "stop-env", &[], Signal::INT);
}

#[test]
fn signal_ends_a_transfer() {
    assert_ends_at_signal(StallPoint::Download, "logs", &[], Signal::INT);
    assert_ends_at_signal(StallPoint::Upload, "create-env", &["-v", "port=8581"], Signal::TERM);
}

#[test]
fn unanswered_agent_message_fails_the_run() {
    let mut hello = Hello::new();
    hello.create(&[]).success();
    let _reached = hello.stall_at(StallPoint::Body);
    let start = Instant::now();
    let run = hello.world.finish(hello.command("stop-env", &["--agent-timeout", "6s"])).exits_with(5);
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    let address = format!("https://{}:6869", hello.ip());
    let expected = format!("{address} did not answer `ping`: no complete answer within ");
    assert!(run.stderr.contains(&expected), "{}", run.stderr);
    assert!(run.stderr.contains("check that the VM is not frozen"), "{}", run.stderr);
    hello.kill_vm();
}
