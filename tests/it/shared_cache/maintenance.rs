//! `monopile cache` with `--shared`.

use serde_json::Value;

use super::downloads::{command, serve};
use crate::fetch::FetchEnvironment;
use crate::support::bucket::{Bucket, Service};
use crate::support::tarballs::sha1;

#[test]
fn entries_of_a_bucket_are_listed_verified_and_removed() {
    for service in [Service::S3, Service::Azure, Service::Gcs] {
        let environment = FetchEnvironment::new();
        let _server = serve(&environment);
        let bucket = Bucket::of(service);
        let mut write = command(&environment, "a", &bucket.url("cache"), &["--cache-write"]);
        bucket.set_credentials(&mut write);
        environment.run_and_fetch_all(write);
        let run = |words: &[&str]| {
            let url = bucket.url("cache");
            let mut command =
                environment.world.monopile([&["cache"], words, &["--shared", "--cache", &url]].concat());
            bucket.set_credentials(&mut command);
            environment.world.finish(command)
        };
        let entries: Vec<Value> = serde_json::from_str(&run(&["list", "--json"]).success().stdout).unwrap();
        let names: Vec<&str> = entries.iter().map(|entry| entry["name"].as_str().unwrap()).collect();
        assert_eq!(names.len(), 2, "{service:?}: {entries:?}");
        let stemcell = format!("sha1-{}", sha1(&environment.stemcell));
        assert!(names.contains(&stemcell.as_str()), "{names:?}");
        assert_eq!(entries[0]["size"], environment.stemcell.len(), "{entries:?}");
        assert!(run(&["list", "--tty"]).success().stdout.contains("2 entries, "));

        assert_eq!(run(&["verify"]).success().stdout, "2 entries verified\n");
        bucket.put(&format!("cache/downloads/{stemcell}"), b"garbage");
        let verification = run(&["verify"]).exits_with(1);
        assert!(
            verification.stdout.contains(&stemcell) && verification.stdout.contains("does not match"),
            "{verification:?}"
        );

        assert!(run(&["prune", "--unused", "1d"]).success().stdout.ends_with("2 kept\n"));
        assert!(run(&["prune", "--all"]).success().stdout.starts_with("2 removed"));
        assert_eq!(bucket.keys(), Vec::<String>::new(), "{service:?}");
    }
}

#[test]
fn shared_needs_a_cache() {
    let environment = FetchEnvironment::new();
    let world = &environment.world;
    for words in [["cache", "list"], ["cache", "prune"], ["cache", "verify"]] {
        let failed_run = world.run([words.as_slice(), &["--shared"]].concat()).exits_with(2);
        assert!(failed_run.stderr.contains("no shared cache is given"), "{}", failed_run.stderr);
    }
    // Unlike in a run, a failure is an error.
    let failed_run =
        world.run(["cache", "list", "--shared", "--cache", "file:///no/such/directory"]).exits_with(3);
    assert!(failed_run.stderr.contains("create it: `mkdir -p /no/such/directory`"), "{}", failed_run.stderr);
}
