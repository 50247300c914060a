//! The state keeper, which remains when a run is killed.

use crate::support::process::WaitForEnd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::{LOCK_FILE, lock, start_held_create_vm, start_held_run};
use crate::support::bucket::Bucket;
use crate::support::hello::Hello;
use crate::support::http::{self, Server};
use crate::support::scripted::{InfoAnswer, Interruption, Script, wait_until};

#[test]
fn answer_survives_removal_of_the_home_directory() {
    let mut hello = Hello::new();
    let bucket = hello.share();
    let mut child = start_held_create_vm(&hello, Interruption::Hold);
    child.kill().unwrap();
    child.end();
    wait_until("something goes on with the lease", || {
        lock(&bucket)["command"].as_str().unwrap().contains("(ended; its CPI call is still running)")
    });
    std::fs::remove_dir_all(hello.world.root().join("home/.local")).unwrap();
    // The keeper looks for the answer periodically.
    std::thread::sleep(Duration::from_millis(500));
    hello.release_call();
    hello.wait_for_keeper();
    hello.wait_until_idle();
    hello.change_machine();
    hello.set_script(Script::with_info(InfoAnswer::Local));
    let run = hello.create(&[]).success();
    assert!(run.stdout.contains("the `create_vm` of an earlier run: done"), "{}", run.stdout);
    assert_eq!(hello.cloud(), hello.recorded_cids());
    hello.delete(&[]).success();
    assert_eq!(bucket.keys(), Vec::<String>::new());
}

#[test]
fn keeper_gives_up_on_a_deleted_bucket() {
    let mut hello = Hello::new();
    let bucket = Bucket { lease: "3s", ..Bucket::new() };
    let port = bucket.port();
    let is_deleted = Arc::new(AtomicBool::new(false));
    let is_gone = Arc::clone(&is_deleted);
    let front = Server::start(move |request, _| match is_gone.load(Ordering::SeqCst) {
        true => http::answer("404 Not Found", &[], b"<Error><Code>NoSuchBucket</Code></Error>"),
        false => request.forward(port),
    });
    hello.share_in(Bucket { front: Some(front.url("")), ..bucket });
    let mut child = start_held_create_vm(&hello, Interruption::HoldAfterEffect);
    is_deleted.store(true, Ordering::SeqCst);
    child.kill().unwrap();
    child.end();
    let start = Instant::now();
    hello.release_call();
    hello.wait_for_keeper();
    assert!(start.elapsed() > Duration::from_secs(3), "as long as the lease lasts: {:?}", start.elapsed());
    hello.wait_until_idle();
    // The answer is nevertheless on this machine.
    is_deleted.store(false, Ordering::SeqCst);
    hello.set_script(Script::with_info(InfoAnswer::Local));
    let run = hello.create(&["--wait-for-lock", "30s"]).success();
    assert!(run.stdout.contains("the `create_vm` of an earlier run: done"), "{}", run.stdout);
    assert_eq!(hello.cloud(), hello.recorded_cids());
    hello.delete(&[]).success();
}

#[test]
fn run_killed_before_any_call_returns_its_lease() {
    let mut hello = Hello::new();
    let bucket = hello.share_in(Bucket { lease: "10m", ..Bucket::new() });
    // The call is `info`.
    let mut child = start_held_run(&hello, 1, Interruption::Hold);
    assert!(bucket.keys().contains(&LOCK_FILE.to_owned()));
    child.kill().unwrap();
    child.end();
    hello.release_call();
    wait_until("the lease is given back", || !bucket.keys().contains(&LOCK_FILE.to_owned()));
    hello.wait_for_keeper();
    assert_eq!(bucket.keys(), Vec::<String>::new());
}
