//! The lease: the lock of a shared state, which must be renewed.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::{LOCK_FILE, foreign_lease, lock, start_held_create_vm, start_held_run, wait_for_end};
use crate::support::bucket::Bucket;
use crate::support::hello::Hello;
use crate::support::http::Server;
use crate::support::process::WaitForEnd;
use crate::support::scripted::{InfoAnswer, Interruption, Script, wait_until};

const LEASE: &str = "6s";

#[test]
fn second_run_names_the_holder_and_may_wait() {
    let mut hello = Hello::new();
    let bucket = hello.share_in(Bucket { lease: LEASE, ..Bucket::new() });
    let child = start_held_create_vm(&hello, Interruption::Hold);
    let lock_record = lock(&bucket);
    assert_eq!(
        (lock_record["pid"].as_u64().unwrap(), lock_record["lasts_seconds"].as_u64().unwrap()),
        (child.id().into(), 6)
    );

    hello.change_machine();
    let start = Instant::now();
    let failed_run = hello.create(&[]).exits_with(4);
    assert!(start.elapsed() < Duration::from_secs(20), "failing took {:?}", start.elapsed());
    let holder = format!(
        "`create-env` on {}@{}",
        lock_record["user"].as_str().unwrap(),
        lock_record["host"].as_str().unwrap()
    );
    assert!(
        failed_run.stderr.contains(&holder) && failed_run.stderr.contains(&format!("pid {}", child.id())),
        "{}",
        failed_run.stderr
    );
    assert!(failed_run.stderr.contains("expires in"), "{}", failed_run.stderr);
    hello.delete(&[]).exits_with(4);

    // The lease is renewed as long as the run lives.
    wait_until("the lease is renewed", || lock(&bucket)["renewals"].as_u64().unwrap() >= 4);
    hello.create(&[]).exits_with(4);

    let waiting_run = hello.command("create-env", &["--wait-for-lock", "60s"]);
    let run = std::thread::scope(|scope| {
        let waiting_run = scope.spawn(|| hello.world.finish(waiting_run));
        std::thread::sleep(Duration::from_millis(300));
        hello.release_call();
        waiting_run.join().unwrap()
    });
    wait_for_end(&hello, child).success();
    let run = run.success();
    assert!(
        run.stdout.contains("waiting for up to") && run.stdout.contains("Nothing to do"),
        "{}",
        run.stdout
    );
    assert!(!bucket.keys().contains(&LOCK_FILE.to_owned()), "the lease was not given back");
    hello.delete(&[]).success();
    assert_eq!(bucket.keys(), Vec::<String>::new());
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

#[test]
fn lease_is_renewed_during_agent_tasks() {
    let mut hello = Hello::new();
    let bucket = hello.share_in(Bucket { lease: "3s", ..Bucket::new() });
    let script = "hello/release/jobs/hello/templates/pre-start.erb";
    let text = hello.world.read(script).replacen('\n', "\nsleep 12\n", 1);
    hello.world.write(script, text);
    let mut command = hello.command("create-env", &[]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("the lease is taken", || bucket.keys().contains(&LOCK_FILE.to_owned()));
    hello.change_machine();
    // Without renewal, the lease would have expired twice during the task.
    wait_until("the lease is renewed", || lock(&bucket)["renewals"].as_u64().unwrap() >= 8);
    hello.create(&[]).exits_with(4);
    assert!(child.end().success());
    hello.delete(&[]).success();
}

#[test]
fn lease_is_kept_during_calls_longer_than_it() {
    let mut hello = Hello::new();
    let bucket = hello.share_in(Bucket { lease: "4s", ..Bucket::new() });
    let mut child = start_held_create_vm(&hello, Interruption::Hold);
    hello.change_machine();
    // The lease is renewed after every third of its length, and expires two seconds after its end.
    let outlasts = |description: &str| {
        let renewals_before = lock(&bucket)["renewals"].as_u64().unwrap();
        wait_until(description, || lock(&bucket)["renewals"].as_u64().unwrap() >= renewals_before + 5);
        let failed_run = hello.create(&[]).exits_with(4);
        assert!(!failed_run.stderr.contains("has expired"), "{description}: {}", failed_run.stderr);
    };
    outlasts("the run renews it");
    let pid = Pid::from_child(&child);
    kill_process(pid, Signal::INT).unwrap();
    outlasts("the run renews it while it waits after a signal");
    assert!(child.try_wait().unwrap().is_none(), "the call is in flight");
    kill_process(pid, Signal::INT).unwrap();
    let run = wait_for_end(&hello, child).exits_with(130);
    assert!(run.stderr.contains("not waiting for the CPI's `"), "{}", run.stderr);
    wait_until("the keeper has it", || {
        lock(&bucket)["command"].as_str().unwrap().contains("its CPI call is still running")
    });
    outlasts("the keeper renews it");

    hello.release_call();
    hello.wait_for_keeper();
    hello.wait_until_idle();
    assert!(!bucket.keys().contains(&LOCK_FILE.to_owned()), "the lease was not given back");
    hello.set_script(Script::with_info(InfoAnswer::Local));
    let run = hello.create(&[]).success();
    assert!(run.stdout.contains("the `create_vm` of an earlier run: done"), "{}", run.stdout);
    assert_eq!(hello.cloud(), hello.recorded_cids());
    hello.delete(&[]).success();
    assert_eq!(bucket.keys(), Vec::<String>::new());
}

#[test]
fn run_waiting_at_a_prompt_returns_its_lease() {
    let mut hello = Hello::new();
    let bucket = hello.share_in(Bucket { lease: "3s", ..Bucket::new() });
    hello.create(&["-n"]).success();
    let greeting = "/instance_groups/name=hello/jobs/name=hello/properties/greeting?";
    hello.add_ops("greeting.yml", &format!("- {{type: replace, path: {greeting}, value: Ahoy}}"));
    let command = hello.command("create-env", &[]);
    let words: Vec<String> = command.get_args().map(|word| format!("'{}'", word.to_str().unwrap())).collect();
    let line = format!("{} {}", crate::support::MONOPILE, words.join(" "));
    let mut script = crate::support::process::prepare("bash");
    hello.world.enter(&mut script);
    bucket.set_credentials(&mut script);
    // A run gives its lease back after ten lease lengths, here 30 s.
    let answer_script = "(sleep 42; echo y; sleep 15) | \
                    timeout 60 script --quiet --return --command \"$0\" /dev/null";
    script.env("TERM", "xterm").args(["-c", answer_script, &line]);
    let run = std::thread::scope(|scope| {
        let asking_run = scope.spawn(|| hello.world.finish(script));
        wait_until("the run has the lease", || bucket.keys().contains(&LOCK_FILE.to_owned()));
        hello.change_machine();
        hello.create(&["-n"]).exits_with(4);
        let run = hello.create(&["-n", "--wait-for-lock", "40s"]).success();
        assert!(!run.stdout.contains("expired"), "it was given back: {}", run.stdout);
        asking_run.join().unwrap()
    });
    let output = run.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        output.contains("this run gave it back, because a question was not answered within 30 s"),
        "{output}"
    );
    assert_eq!(run.code, 4);
    assert_eq!(hello.ask_greeting(), "Ahoy");
    hello.delete(&[]).success();
    assert_eq!(bucket.keys(), Vec::<String>::new());
}

#[test]
fn run_that_lost_its_lease_stops() {
    let mut hello = Hello::new();
    let bucket = hello.share_in(Bucket { lease: LEASE, ..Bucket::new() });
    let child = start_held_create_vm(&hello, Interruption::HoldAfterEffect);
    let stored_text_before = bucket.read("state.json");
    bucket.put(LOCK_FILE, foreign_lease(3600).as_bytes());
    // The lease would have been renewed in this time.
    std::thread::sleep(Duration::from_millis(3500));
    hello.take_requests();
    hello.release_call();
    let run = wait_for_end(&hello, child).exits_with(4);
    for part in ["the lease on 's3://", "is lost", "on ci@elsewhere (pid 4711", "this run stops here"] {
        assert!(run.stderr.contains(part), "{part}: {}", run.stderr);
    }
    assert_eq!(hello.take_requests(), Vec::<Value>::new(), "nothing was called after that");
    assert_eq!(bucket.read("state.json"), stored_text_before, "nothing was written after that");
    assert_eq!(bucket.read(LOCK_FILE), foreign_lease(3600), "the other run keeps its lease");
    // The keeper still publishes the outcome.
    hello.wait_for_keeper();
    let vms: Vec<String> = hello.cloud().into_iter().filter(|cid| cid.starts_with("vm-")).collect();
    assert_eq!(vms.len(), 1);
    assert!(hello.announced_or_recorded().contains(&vms[0]), "{:?}", bucket.keys());

    bucket.delete(LOCK_FILE);
    hello.change_machine();
    hello.set_script(Script::with_info(InfoAnswer::Local));
    hello.create(&[]).success();
    assert_eq!(hello.cloud(), hello.recorded_cids());
    hello.delete(&[]).success();
}

#[test]
fn lease_expired_by_server_time_is_taken_over() {
    let mut hello = Hello::new();
    let bucket = hello.share_in(Bucket { lease: LEASE, ..Bucket::new() });
    hello.create(&[]).success();
    let stored_text_before = bucket.read("state.json");
    bucket.put(LOCK_FILE, foreign_lease(2).as_bytes());
    let start = Instant::now();
    // The holder's clock does not affect the end of the lease.
    let failed_run = hello.create(&[]).exits_with(4);
    assert!(failed_run.stderr.contains("on ci@elsewhere"), "{}", failed_run.stderr);
    let run = hello.create(&["--wait-for-lock", "30s"]).success();
    assert!(start.elapsed() > Duration::from_secs(2), "{:?}", start.elapsed());
    let expected =
        "the lease of `create-env` on ci@elsewhere (pid 4711, since 2026-01-01T00:00:00Z) has expired";
    assert!(run.stderr.contains(expected), "{}", run.stderr);
    // The former holder cannot overwrite the state if it continues.
    let stored_text_after = bucket.read("state.json");
    assert!(
        stored_text_after != stored_text_before
            && stored_text_after.trim_end() == stored_text_before.trim_end()
    );
    assert!(!bucket.keys().contains(&LOCK_FILE.to_owned()));

    // The lock document is not a lease.
    bucket.put(LOCK_FILE, b"{");
    let failed_run = hello.create(&[]).exits_with(4);
    assert!(failed_run.stderr.contains("another run is using"), "{}", failed_run.stderr);
    bucket.delete(LOCK_FILE);
    hello.delete(&[]).success();
}

#[test]
fn writers_without_a_lease_are_noticed() {
    let mut hello = Hello::new();
    let bucket = hello.share_in(Bucket { lease: LEASE, ..Bucket::new() });
    let child = start_held_create_vm(&hello, Interruption::HoldAfterEffect);
    let foreign_state =
        bucket.read("state.json").replace("\"installation_id\": \"\"", "\"installation_id\": \"x\"") + "\n";
    bucket.put("state.json", foreign_state.as_bytes());
    hello.release_call();
    let run = wait_for_end(&hello, child).exits_with(1);
    assert!(run.stderr.contains("another run or program writes there"), "{}", run.stderr);
    assert_eq!(bucket.read("state.json"), foreign_state);
    hello.change_machine();
    hello.set_script(Script::with_info(InfoAnswer::Local));
    hello.create(&["--wait-for-lock", "20s"]).success();
    assert_eq!(hello.cloud(), hello.recorded_cids());
    hello.delete(&[]).success();
}

#[test]
fn suspended_run_that_wakes_too_late_changes_nothing() {
    let mut hello = Hello::new();
    let bucket = hello.share_in(Bucket { lease: "3s", ..Bucket::new() });
    let child = start_held_create_vm(&hello, Interruption::Hold);
    kill_process(Pid::from_child(&child), Signal::STOP).unwrap();
    hello.change_machine();
    let lock_record = lock(&bucket);
    let (pid, host, user) =
        (child.id(), lock_record["host"].as_str().unwrap(), lock_record["user"].as_str().unwrap());
    let failed_run = hello.create(&["--wait-for-lock", "30s"]).exits_with(1);
    for part in [
        "has expired; it is taken over",
        &format!("the call was made by `create-env` on {user}@{host} (pid {pid}, since "),
        &format!("if {host} can be reached again later"),
        "look in the IaaS for",
        "--forget-open-calls",
    ] {
        assert!(failed_run.stderr.contains(part), "{part}: {}", failed_run.stderr);
    }
    let show = hello.world.finish(hello.state_command(&["state", "show"])).success();
    assert!(show.stdout.contains(&format!("by `create-env` on {user}@{host} (pid {pid}")), "{}", show.stdout);

    let stored_text_before = bucket.read("state.json");
    kill_process(Pid::from_child(&child), Signal::CONT).unwrap();
    hello.release_call();
    wait_for_end(&hello, child).exits_with(4);
    assert_eq!(bucket.read("state.json"), stored_text_before, "the run wrote the state");
    hello.wait_until_idle();
    hello.wait_for_keeper();
    // The outcome of the call is now known.
    hello.set_script(Script::with_info(InfoAnswer::Local));
    let run = hello.create(&[]).success();
    assert!(run.stdout.contains("the `create_vm` of an earlier run: done"), "{}", run.stdout);
    assert_eq!(hello.cloud(), hello.recorded_cids());
    hello.delete(&[]).success();
    assert_eq!(bucket.keys(), Vec::<String>::new());
}

#[test]
fn run_without_the_bucket_stops_before_its_lease_expires() {
    let mut hello = Hello::new();
    let bucket = Bucket { lease: "3s", ..Bucket::new() };
    let (port, cut_off) = (bucket.port(), Arc::new(AtomicBool::new(false)));
    let is_cut_off = Arc::clone(&cut_off);
    let front = Server::start(move |request, _| match is_cut_off.load(Ordering::SeqCst) {
        true => Vec::new(),
        false => request.forward(port),
    });
    hello.share_in(Bucket { front: Some(front.url("")), ..bucket.clone() });
    let child = start_held_create_vm(&hello, Interruption::HoldAfterEffect);
    cut_off.store(true, Ordering::SeqCst);
    std::thread::sleep(Duration::from_secs(3));
    hello.take_requests();
    hello.release_call();
    let run = wait_for_end(&hello, child).exits_with(4);
    assert!(run.stderr.contains("it could not be renewed in time"), "{}", run.stderr);
    assert_eq!(hello.take_requests(), Vec::<Value>::new(), "nothing was called after that");
    cut_off.store(false, Ordering::SeqCst);
    hello.wait_for_keeper();
    hello.change_machine();
    hello.set_script(Script::with_info(InfoAnswer::Local));
    hello.create(&["--wait-for-lock", "30s"]).success();
    assert_eq!(hello.cloud(), hello.recorded_cids());
    hello.delete(&[]).success();
    assert_eq!(bucket.keys(), Vec::<String>::new());
}

#[test]
fn one_of_several_runs_gets_an_expired_lease() {
    let mut hello = Hello::new();
    let bucket = hello.share_in(Bucket { lease: LEASE, ..Bucket::new() });
    hello.create(&[]).success();
    bucket.put(LOCK_FILE, foreign_lease(3).as_bytes());
    // Waits until the lease has expired and the server's clock has advanced by a second.
    std::thread::sleep(Duration::from_secs(7));
    // A recreate is held in `delete_vm`, the third call after `info` and `has_vm`.
    hello.set_script(Script::with_interruption(3, Interruption::Hold));
    let commands: Vec<Command> =
        (0..4).map(|_| hello.command("create-env", &["--recreate", "--agent-timeout", "20s"])).collect();
    let codes = std::thread::scope(|scope| {
        let runs: Vec<_> =
            commands.into_iter().map(|command| scope.spawn(|| hello.world.finish(command).code)).collect();
        wait_until("three are turned away", || runs.iter().filter(|run| run.is_finished()).count() == 3);
        hello.wait_until_held();
        hello.release_call();
        let mut codes: Vec<i32> = runs.into_iter().map(|run| run.join().unwrap()).collect();
        codes.sort_unstable();
        codes
    });
    assert_eq!(codes, [0, 4, 4, 4]);
    hello.set_script(Script::with_info(InfoAnswer::Local));
    assert_eq!(hello.cloud(), hello.recorded_cids());
    hello.delete(&[]).success();
    assert_eq!(bucket.keys(), Vec::<String>::new());
}

#[test]
fn stolen_lock_is_noticed_before_the_next_effect() {
    let mut hello = Hello::new();
    // The lease is not renewed during this test.
    let bucket = hello.share_in(Bucket { lease: "10m", ..Bucket::new() });
    // The call is `create_stemcell`.
    let child = start_held_run(&hello, 2, Interruption::HoldAfterEffect);
    bucket.delete(LOCK_FILE);
    bucket.put(LOCK_FILE, foreign_lease(3600).as_bytes());
    hello.take_requests();
    hello.release_call();
    let run = wait_for_end(&hello, child).exits_with(4);
    assert!(run.stderr.contains("on ci@elsewhere (pid 4711"), "{}", run.stderr);
    assert_eq!(hello.take_requests(), Vec::<Value>::new(), "nothing was called after that");
    assert_eq!(bucket.read(LOCK_FILE), foreign_lease(3600), "the other run keeps its lease");
    hello.wait_for_keeper();
    bucket.delete(LOCK_FILE);
    hello.change_machine();
    hello.set_script(Script::with_info(InfoAnswer::Local));
    hello.create(&[]).success();
    assert_eq!(hello.cloud(), hello.recorded_cids());
    hello.delete(&[]).success();
    assert_eq!(bucket.keys(), Vec::<String>::new());
}
