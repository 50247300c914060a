//! A cache that is slow, full, forbidden, broken or gone: each costs a limited time and one warning.

use std::time::{Duration, Instant};

use super::downloads::{command, serve, with_large_stemcell};
use super::warnings;
use crate::fetch::FetchEnvironment;
use crate::support::bucket::Bucket;
use crate::support::http::{self, Server};
use crate::support::process::receive;

fn error(status: &str, code: &str) -> Vec<u8> {
    let body = format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>no</Message></Error>");
    http::answer(status, &[("Content-Type", "application/xml")], body.as_bytes())
}

/// Runs a command whose requests to the bucket go to `front`. Checks that everything is downloaded, and
/// returns the only warning.
#[track_caller]
fn run_and_get_warning(bucket: &Bucket, front: String) -> String {
    let environment = FetchEnvironment::new();
    let server = serve(&environment);
    let mut command = command(&environment, "a", &bucket.url("cache"), &["--cache-write"]);
    Bucket { front: Some(front), ..bucket.clone() }.set_credentials(&mut command);
    let start = Instant::now();
    let run = environment.run_and_fetch_all(command);
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    assert_eq!(server.requests().len(), 2);
    let warnings = warnings(&run);
    assert_eq!(warnings.len(), 1, "{run:?}");
    warnings.concat()
}

#[test]
fn cache_that_refuses_or_fails_is_not_used() {
    let bucket = Bucket::new();
    for (status, code, part) in [
        ("403 Forbidden", "AccessDenied", "access is denied"),
        ("500 Internal Server Error", "InternalError", "InternalError"),
        ("404 Not Found", "NoSuchBucket", "does not exist"),
    ] {
        let front = Server::start(move |_, _| error(status, code));
        let warning = run_and_get_warning(&bucket, front.url(""));
        assert!(warning.contains("the run goes on without it") && warning.contains(part), "{warning}");
    }
    assert_eq!(bucket.keys(), Vec::<String>::new());
}

#[test]
fn cache_without_a_server_is_not_used() {
    let warning = run_and_get_warning(&Bucket::new(), "http://127.0.0.1:1".to_owned());
    assert!(warning.contains("the run goes on without it"), "{warning}");
}

#[test]
fn silent_cache_is_given_up() {
    let (sender, receiver) = std::sync::mpsc::channel::<()>();
    let receiver = std::sync::Mutex::new(receiver);
    let front = Server::start(move |_, _| {
        receive("the end of the test", &receiver.lock().unwrap());
        Vec::new()
    });
    let warning = run_and_get_warning(&Bucket::new(), front.url(""));
    assert!(warning.contains("the run goes on without it"), "{warning}");
    drop(sender);
}

#[test]
fn slow_cache_is_given_up() {
    let environment = with_large_stemcell(3 << 20);
    let server = serve(&environment);
    let bucket = Bucket::new();
    let port = bucket.port();
    // A part of the stemcell takes half a minute.
    let front = Server::start_with_rate(100_000., move |request, _| request.forward(port));
    let slow = Bucket { front: Some(front.url("")), ..bucket.clone() };
    let run = |bucket: &Bucket, cache: &str, extra_args: &[&str]| {
        let mut command = command(&environment, cache, &bucket.url("cache"), extra_args);
        bucket.set_credentials(&mut command);
        let start = Instant::now();
        (environment.run_and_fetch_all(command), start.elapsed())
    };
    run(&bucket, "a", &["--cache-write"]);
    let (run, elapsed) = run(&slow, "b", &[]);
    assert!(elapsed < Duration::from_secs(28), "{elapsed:?}");
    let warnings = warnings(&run);
    assert_eq!(warnings.len(), 1, "{run:?}");
    assert!(warnings[0].contains("no answer within 10 s"), "{warnings:?}");
    assert!(server.requests().len() > 2, "the stemcell is downloaded again");
}

#[test]
fn cache_that_answers_with_other_objects_is_not_used() {
    let front = Server::start(|request, _| match request.line.starts_with("GET ") {
        true => {
            let headers = [
                ("Content-Range", "bytes 0-6/7"),
                ("ETag", "\"1\""),
                ("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT"),
            ];
            http::answer("206 Partial Content", &headers, b"garbage")
        }
        false => http::answer("200 OK", &[("ETag", "\"1\"")], b""),
    });
    let warning = run_and_get_warning(&Bucket::new(), front.url(""));
    assert!(warning.contains("is not used: the digest of it does not match"), "{warning}");
}

#[test]
fn cache_that_cannot_be_written_is_still_read() {
    for (status, code) in [("403 Forbidden", "AccessDenied"), ("507 Insufficient Storage", "QuotaExceeded")] {
        let bucket = Bucket::new();
        let port = bucket.port();
        let front = Server::start(move |request, _| match request.line.starts_with("PUT ") {
            true => error(status, code),
            false => request.forward(port),
        });
        let warning = run_and_get_warning(&bucket, front.url(""));
        assert!(warning.contains("cannot be written, and the run uploads nothing more"), "{warning}");
    }
}

#[test]
fn directory_that_fails_is_not_used() {
    let environment = FetchEnvironment::new();
    let server = serve(&environment);
    let run = |cache: &str, url: &str, extra_args: &[&str]| {
        let run = environment.run_and_fetch_all(command(&environment, cache, url, extra_args));
        let warnings = warnings(&run);
        assert_eq!(warnings.len(), 1, "{run:?}");
        warnings.concat()
    };
    let warning = run("a", "file:///no/such/directory", &[]);
    assert!(warning.contains("the directory '/no/such/directory' does not exist"), "{warning}");
    // A file is in the place of the directory.
    let file = environment.world.write("file", "");
    let warning = run("b", &format!("file://{}", file.display()), &["--cache-write"]);
    assert!(warning.contains("Not a directory"), "{warning}");
    assert_eq!(server.requests().len(), 4);
}
