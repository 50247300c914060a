//! The cost of a shared state: the requests of a run that changes nothing, and many runs that want the lease
//! at the same time.

use std::process::{Child, Stdio};

use super::server_errors::start_front;
use crate::support::bucket::Bucket;
use crate::support::hello::Hello;
use crate::support::is_full_sweep;
use crate::support::process::poll;

/// The maximum number of requests of a run that changes nothing: take the lease, read the state, return the
/// lease. `docs/shared-state.md` states it.
const MAX_REQUESTS_UNCHANGED: usize = 4;
/// The maximum number of requests of a run for each second that it waits for the lease.
const MAX_REQUESTS_PER_SECOND: f64 = 2.0;
/// The maximum number of requests of a run that uploads a stemcell, without waiting.
const MAX_REQUESTS_OF_UPLOAD: usize = 24;

#[test]
fn unchanged_run_makes_few_requests() {
    let mut hello = Hello::new();
    let direct = hello.share();
    hello.create(&[]).success();
    let (server, bucket) = start_front(&direct, |_, forward| forward());
    hello.share_in(bucket);
    hello.create(&[]).success();
    let requests: Vec<String> = server.requests().into_iter().map(|request| request.line).collect();
    assert!(requests.len() <= MAX_REQUESTS_UNCHANGED, "{requests:#?}");
    hello.delete(&[]).success();
}

#[test]
fn runs_that_compete_for_the_lease_lose_no_update() {
    let workers = if is_full_sweep() { 50 } else { 10 };
    let mut hello = Hello::new();
    let (server, bucket) = start_front(&Bucket { lease: "60s", ..Bucket::new() }, |_, forward| forward());
    hello.share_in(bucket);
    let stemcell = hello.world.read("hello/stemcell/stemcell.MF");
    let start = std::time::Instant::now();
    let mut children: Vec<(usize, Child)> = (0..workers)
        .map(|number| {
            let directory = format!("stemcell-{number}");
            hello.world.write(
                format!("{directory}/stemcell.MF"),
                stemcell.replace("version: \"1.0\"", &format!("version: \"1.{number}\"")),
            );
            hello.world.write(format!("{directory}/image/etc/number"), number.to_string());
            let mut command = hello.command("upload-stemcell", &[&directory, "--wait-for-lock", "10m"]);
            let log = std::fs::File::create(hello.world.path(format!("log-{number}"))).unwrap();
            let run = command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).spawn();
            (number, run.unwrap())
        })
        .collect();
    // The runs end in any order. The limit applies to each turn: the last run waits for all others.
    while !children.is_empty() {
        let (place, status) = poll("one of the runs ends", || {
            let mut runs = children.iter_mut().enumerate();
            runs.find_map(|(place, (_, run))| Some((place, run.try_wait().unwrap()?)))
        });
        let (number, _) = children.swap_remove(place);
        assert!(status.success(), "{number}: {}", hello.world.read(format!("log-{number}")));
    }
    let seconds = start.elapsed().as_secs_f64();
    let requests = server.requests().len();
    println!("{workers} runs, {seconds:.1} s, {requests} requests");
    let request_limit = workers as f64 * seconds * MAX_REQUESTS_PER_SECOND;
    assert!(
        requests as f64 <= request_limit + (workers * MAX_REQUESTS_OF_UPLOAD) as f64,
        "{requests} requests of {workers} runs in {seconds} s"
    );

    hello.copy_bucket();
    let state = hello.state();
    assert_eq!(state["stemcells"].as_array().unwrap().len(), workers, "{state:#}");
    assert_eq!(hello.cloud(), hello.recorded_cids());
    hello.delete(&[]).success();
}
