//! A failing bucket server: the run waits for temporary failures, and reports other failures with advice.

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::{LOCK_FILE, foreign_lease};
use crate::support::bucket::{Bucket, Service};
use crate::support::hello::Hello;
use crate::support::http::{self, Server};
use crate::support::process::{WaitForEnd, wait_until};

/// Starts a server in front of the bucket's own. `answer` returns the answer to each request. It gets the
/// number of earlier requests and the bucket's answer.
pub(super) fn start_front(
    bucket: &Bucket,
    answer: impl Fn(usize, &dyn Fn() -> Vec<u8>) -> Vec<u8> + Send + Sync + 'static,
) -> (Server, Bucket) {
    let port = bucket.port();
    let server =
        Server::start(move |request, request_number| answer(request_number, &|| request.forward(port)));
    let bucket = Bucket { front: Some(server.url("")), ..bucket.clone() };
    (server, bucket)
}

fn error(status: &str, code: &str) -> Vec<u8> {
    let body =
        format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>it says {code}</Message></Error>");
    http::answer(status, &[("Content-Type", "application/xml")], body.as_bytes())
}

#[test]
fn transient_errors_are_retried() {
    let mut hello = Hello::new();
    // Every third request is rejected, and every seventh loses its answer.
    let (server, bucket) = start_front(&Bucket::new(), |request_number, forward| match request_number {
        request_number if request_number % 3 == 1 => error("503 Slow Down", "SlowDown"),
        request_number if request_number % 7 == 4 => {
            forward();
            Vec::new()
        }
        _ => forward(),
    });
    hello.share_in(bucket);
    hello.create(&[]).success();
    assert_eq!(hello.cloud(), hello.recorded_cids());
    hello.delete(&[]).success();
    assert!(server.requests().len() > 40, "{}", server.requests().len());
}

#[test]
fn permanent_errors_are_reported_before_any_effect() {
    let mut hello = Hello::new();
    let direct = hello.share();
    for (status, code, parts) in [
        ("403 Forbidden", "SignatureDoesNotMatch", ["access is denied", "AWS_SECRET_ACCESS_KEY"]),
        ("400 Bad Request", "ExpiredToken", ["ExpiredToken", "AWS_SESSION_TOKEN"]),
        ("301 Moved Permanently", "PermanentRedirect", ["region", "AWS_REGION"]),
        ("501 Not Implemented", "NotImplemented", ["NotImplemented", "does not support conditional writes"]),
        ("500 Internal Server Error", "InternalError", ["InternalError", "answered with an error"]),
    ] {
        let (_server, bucket) = start_front(&direct, move |_, _| error(status, code));
        hello.share_in(bucket);
        let start = Instant::now();
        let run = hello.create(&[]).exits_with(1);
        assert!(start.elapsed() < Duration::from_secs(90), "{code}: {:?}", start.elapsed());
        for part in parts {
            assert!(run.stderr.contains(part), "{code}: {part}: {}", run.stderr);
        }
        assert!(!hello.world.exists("requests.jsonl"), "{code}: the CPI was called");
    }
    assert_eq!(direct.keys(), Vec::<String>::new());
}

#[test]
fn server_that_ignores_conditions_is_rejected() {
    for header in ["if-match", "if-none-match"] {
        let mut hello = Hello::new();
        let direct = hello.share();
        let port = direct.port();
        let server = Server::start(move |request, _| request.without_header(header).forward(port));
        hello.share_in(Bucket { front: Some(server.url("")), ..direct.clone() });
        let run = hello.create(&[]).exits_with(1);
        for part in ["ignored the condition If-", "so the state cannot be locked there", "conditional writes"]
        {
            assert!(run.stderr.contains(part), "{part}: {}", run.stderr);
        }
        assert_eq!(Hello::methods(&hello.take_requests()), ["info"], "{header}");
    }
}

#[test]
fn unfenced_lease_expires_if_the_state_cannot_be_written() {
    let mut hello = Hello::new();
    let direct = hello.share_in(Bucket { lease: "6s", ..Bucket::new() });
    hello.create(&[]).success();
    let state = direct.read("state.json");
    direct.put(LOCK_FILE, foreign_lease(2).as_bytes());
    let port = direct.port();
    let server = Server::start(move |request, _| {
        if request.line.starts_with("PUT ") && request.path().ends_with("/state.json") {
            return error("403 Forbidden", "AccessDenied");
        }
        request.forward(port)
    });
    hello.share_in(Bucket { front: Some(server.url("")), ..direct.clone() });
    let run = hello.create(&["--wait-for-lock", "30s"]).exits_with(1);
    assert!(run.stderr.contains("taking over 's3://"), "{}", run.stderr);
    assert_eq!(direct.read("state.json"), state);
    // If the lease were given back, the next run would not know that an earlier holder may still write.
    assert!(direct.keys().contains(&LOCK_FILE.to_owned()), "{:?}", direct.keys());
    hello.share_in(direct.clone());
    let run = hello.create(&["--wait-for-lock", "30s"]).success();
    assert!(run.stderr.contains("has expired"), "{}", run.stderr);
    assert_ne!(direct.read("state.json"), state, "an earlier holder can write no more");
    hello.delete(&[]).success();
    assert_eq!(direct.keys(), Vec::<String>::new());
}

#[test]
fn late_deletion_does_not_remove_the_next_lock() {
    for service in [Service::S3, Service::Gcs] {
        let mut hello = Hello::new();
        let direct = hello.share_in(Bucket::of(service));
        hello.create(&[]).success();
        let theirs = "{\"director_id\": \"theirs\"}";
        let (port, bucket) = (direct.port(), direct.clone());
        let server = Server::start(move |request, _| {
            let removes = |key: &str| {
                request.line.starts_with("DELETE ") && request.path().replace("%2E", ".").ends_with(key)
            };
            if removes("/state.json") {
                bucket.put("state.json", theirs.as_bytes());
            } else if removes(LOCK_FILE) {
                bucket.put(LOCK_FILE, foreign_lease(3600).as_bytes());
            }
            request.forward(port)
        });
        hello.share_in(Bucket { front: Some(server.url("")), ..direct.clone() });
        let run = hello.delete(&[]).exits_with(1);
        assert!(run.stderr.contains("another run or program writes there"), "{service:?}: {}", run.stderr);
        assert_eq!(
            (direct.read("state.json"), direct.read(LOCK_FILE)),
            (theirs.to_owned(), foreign_lease(3600))
        );
        assert_eq!(hello.leftovers(), Vec::<String>::new());
        direct.delete(LOCK_FILE);
    }
}

/// Starts `create-env`, interrupts it when `is_waiting` returns true, and checks that it ends soon.
fn interrupt(hello: &Hello, is_waiting: impl Fn() -> bool) {
    let mut command = hello.command("create-env", &[]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("a request waits", is_waiting);
    let start = Instant::now();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.end().code(), Some(130));
    // The request itself never gets an answer.
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

#[test]
fn signal_ends_the_wait_for_a_bucket() {
    let mut hello = Hello::new();
    let direct = hello.share_in(Bucket { lease: "3s", ..Bucket::new() });
    for stalled in 0..3 {
        let (is_waiting, is_over) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (stalls, goes_on) = (Arc::clone(&is_waiting), Arc::clone(&is_over));
        let (_server, bucket) = start_front(&direct, move |request_number, forward| {
            if request_number >= stalled {
                stalls.store(true, Ordering::SeqCst);
                while !goes_on.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
            forward()
        });
        hello.share_in(bucket);
        interrupt(&hello, || is_waiting.load(Ordering::SeqCst));
        is_over.store(true, Ordering::SeqCst);
    }
    // The library waits between attempts to connect.
    hello.share_in(Bucket { front: Some("http://127.0.0.1:1".to_owned()), ..direct.clone() });
    let start = Instant::now();
    interrupt(&hello, || start.elapsed() > Duration::from_secs(2));

    hello.share_in(direct);
    hello.create(&["--wait-for-lock", "60s"]).success();
    hello.delete(&[]).success();
}
