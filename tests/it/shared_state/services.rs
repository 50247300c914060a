//! The life of an environment whose state is in a service other than S3, on two machines.

use serde_json::Value;

use super::{LOCK_FILE, foreign_lease, start_held_run, wait_for_end};
use crate::support::bucket::{Bucket, SECRET, Service};
use crate::support::hello::Hello;
use crate::support::scripted::{InfoAnswer, Interruption, Script};

#[test]
fn azure_stores_a_state() {
    run_life(Service::Azure);
}

#[test]
fn google_stores_a_state() {
    run_life(Service::Gcs);
}

/// Takes an environment through its life on two machines: a killed run, backups, a foreign lease, and a write
/// without the lease.
fn run_life(service: Service) {
    let mut hello = Hello::new();
    let bucket = hello.share_in(Bucket { lease: "6s", ..Bucket::of(service) });
    let state = |hello: &Hello, words: &[&str]| hello.world.finish(hello.state_command(words));

    // The run is killed on one machine and completed on the other.
    hello.set_script(Script::with_interruption(3, Interruption::After));
    hello.create(&[]).exits_with(-1);
    hello.wait_until_idle();
    hello.wait_for_keeper();
    assert!(bucket.keys().iter().any(|key| key.ends_with(".answer")), "{:?}", bucket.keys());
    hello.change_machine();
    hello.set_script(Script::with_info(InfoAnswer::Local));
    let run = hello.create(&[]).success();
    assert!(run.stdout.contains("the `create_vm` of an earlier run: done"), "{}", run.stdout);
    assert_eq!(hello.cloud(), hello.recorded_cids());
    let journal: Vec<_> = bucket.keys().into_iter().filter(|key| key.contains(".journal/")).collect();
    assert!(journal.is_empty(), "an answer may hold secrets: {journal:?}");

    // These are commands that read the state, and commands that change it.
    hello.change_machine();
    let vm = hello.state()["current_vm_cid"].as_str().unwrap().to_owned();
    assert!(state(&hello, &["state", "show"]).success().stdout.contains(&vm));
    let output = state(&hello, &["state", "backup", "--keep"]).success().stdout;
    let number = output.split('\'').nth(1).unwrap();
    let url = format!("{}.versions/{number}.json", bucket.url("state.json"));
    let versions = state(&hello, &["--json", "state", "backup"]).success();
    let versions: Vec<Value> = serde_json::from_str(&versions.stdout).unwrap();
    assert!(versions.iter().any(|version| version["path"] == *url), "{versions:?}");
    state(&hello, &["state", "backup", "--restore", number, "--yes"]).success();
    assert!(hello.create(&[]).success().stdout.contains("Nothing to do"));

    // A foreign lease is respected until it expires by the server's clock.
    bucket.put(LOCK_FILE, foreign_lease(3).as_bytes());
    let failed_run = hello.create(&[]).exits_with(4);
    assert!(failed_run.stderr.contains("on ci@elsewhere (pid 4711"), "{}", failed_run.stderr);
    let stored_text_before = bucket.read("state.json");
    hello.create(&["--wait-for-lock", "30s"]).success();
    assert_ne!(bucket.read("state.json"), stored_text_before, "the run before cannot overwrite it");

    // A write without the lease is detected.
    hello.set_script(Script::with_interruption(3, Interruption::HoldAfterEffect));
    let foreign_state = bucket.read("state.json") + " ";
    let recreate = hello.command("create-env", &["--recreate"]);
    let run = std::thread::scope(|scope| {
        let run = scope.spawn(|| hello.world.finish(recreate));
        hello.wait_until_held();
        bucket.put("state.json", foreign_state.as_bytes());
        hello.release_call();
        run.join().unwrap()
    });
    let failed_run = run.exits_with(1);
    assert!(failed_run.stderr.contains("another run or program writes there"), "{}", failed_run.stderr);
    assert_eq!(bucket.read("state.json"), foreign_state);
    hello.wait_for_keeper();
    hello.set_script(Script::with_info(InfoAnswer::Local));
    hello.change_machine();
    hello.create(&["--wait-for-lock", "30s"]).success();
    assert_eq!(hello.cloud(), hello.recorded_cids());

    hello.delete(&[]).success();
    assert_eq!(bucket.keys(), Vec::<String>::new());
    // The scratch directory of the killed run stays, because a CPI might still read it.
    assert!(
        hello.leftovers().iter().all(|leftover| leftover.contains("/tmp/monopile-")),
        "{:?}",
        hello.leftovers()
    );
}

#[test]
fn stolen_lock_stops_a_run_on_every_service() {
    for service in [Service::Azure, Service::Gcs] {
        let mut hello = Hello::new();
        let bucket = hello.share_in(Bucket { lease: "10m", ..Bucket::of(service) });
        let child = start_held_run(&hello, 2, Interruption::HoldAfterEffect);
        bucket.put(LOCK_FILE, foreign_lease(3600).as_bytes());
        hello.take_requests();
        hello.release_call();
        let run = wait_for_end(&hello, child).exits_with(4);
        assert!(run.stderr.contains("on ci@elsewhere (pid 4711"), "{}", run.stderr);
        assert_eq!(hello.take_requests(), Vec::<Value>::new(), "nothing was called after that");
        bucket.delete(LOCK_FILE);
        hello.wait_for_keeper();
        hello.set_script(Script::with_info(InfoAnswer::Local));
        hello.change_machine();
        hello.create(&[]).success();
        hello.delete(&[]).success();
    }
}

#[test]
fn azure_credentials_are_required_and_never_shown() {
    let mut hello = Hello::new();
    let bucket = hello.share_in(Bucket::of(Service::Azure));
    let show = |name: &str, value: &str| {
        let mut command = hello.state_command(&["state", "show", "--verbose", "--verbose", "--verbose"]);
        command.env_remove("AZURE_STORAGE_ACCOUNT_KEY").env(name, value);
        hello.world.finish(command)
    };
    // The key differs from the account's.
    let bad_key = "d3Jvbmctd3Jvbmctd3Jvbmc=";
    let failed_run = show("AZURE_STORAGE_ACCOUNT_KEY", bad_key).exits_with(1);
    for part in ["access is denied", "AZURE_STORAGE_ACCOUNT_KEY"] {
        assert!(failed_run.stderr.contains(part), "{part}: {}", failed_run.stderr);
    }
    assert!(!failed_run.stderr.contains(bad_key), "{}", failed_run.stderr);
    // A token replaces the key.
    bucket.put("state.json", br#"{"director_id": "the-director"}"#);
    let good_run = show("AZURE_STORAGE_SAS_TOKEN", bucket.token()).success();
    assert!(good_run.stdout.contains("the-director"), "{}", good_run.stdout);
    let unsigned = bucket.token().split("&sig=").next().unwrap();
    let spoilt = format!("{unsigned}&sig=Y2FuYXJ5LXNpZ25hdHVyZQ%3D%3D");
    let failed_run = show("AZURE_STORAGE_SAS_TOKEN", &spoilt).exits_with(1);
    assert!(failed_run.stderr.contains("access is denied"), "{}", failed_run.stderr);
    for run in [&good_run, &failed_run] {
        let output = run.stdout.clone() + &run.stderr;
        for secret in [SECRET, "Y2FuYXJ5LXNpZ25hdHVyZQ", "sig="] {
            assert!(!output.contains(secret), "{secret}: {output}");
        }
    }
    let missing_bucket = Bucket { name: "no-such-container".into(), ..bucket.clone() };
    let mut command = hello.world.monopile(["state", "show", "--state", &missing_bucket.url("a.json")]);
    missing_bucket.set_credentials(&mut command);
    let failed_run = hello.world.finish(command).exits_with(1);
    assert!(failed_run.stderr.contains("'no-such-container' does not exist"), "{}", failed_run.stderr);
}
