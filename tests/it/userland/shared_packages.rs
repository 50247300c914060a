//! Packages that were compiled in a userland, shared between machines through a bucket.

use std::process::Command;

use super::compile::{packages, url_line};
use super::setup::UserlandEnv;
use crate::cpi_release::setup::{Env, Machine, files};
use crate::shared_cache::{generate_key, warnings, without_network};
use crate::support::Run;
use crate::support::bucket::Bucket;
use crate::support::http::Server;
use crate::support::tarballs::sha256;
use crate::support::userland::{release, root};

const WRITE: [&str; 3] = ["--cache-write", "--cache-sign", "ci"];
const TRUST: [&str; 2] = ["--cache-trust", "ci.pub"];

/// Adds the shared cache to a command.
fn with_cache(mut command: Command, bucket: &Bucket) -> Command {
    command.args(["--cache", &bucket.url("cache")]);
    bucket.set_credentials(&mut command);
    command
}

/// Compiles the CPI on a machine, or copies it, with the key pair in `keys`. Returns the run, and the number
/// of packages that were compiled.
#[track_caller]
fn run_info(machine: &Machine, keys: &Machine, bucket: &Bucket, options: &[&str]) -> (Run, usize) {
    let user = UserlandEnv::new(machine, &release(""), &url_line());
    for name in ["ci", "ci.pub"] {
        user.env.hello.world.write(name, std::fs::read(keys.path(name)).unwrap());
    }
    let command = with_cache(user.command(&["cpi", "info"], options), bucket);
    let run = user.env.hello.world.finish(command).success();
    let cache_files = files(&machine.path("cache/monopile/cpi"));
    let logs = cache_files.iter().filter(|path| path.ends_with("packaging.log")).count();
    (run, logs)
}

fn keys() -> Machine {
    let keys = Machine::new();
    generate_key(&keys.path(""), "ci");
    keys
}

#[test]
fn packages_compiled_by_one_machine_are_used_by_another() {
    let (keys, bucket) = (keys(), Bucket::new());
    let (one, other) = (Machine::new(), Machine::new());
    let (run, count) = run_info(&one, &keys, &bucket, &WRITE);
    assert_eq!((count, warnings(&run)), (2, Vec::new()));
    let archives: Vec<_> = bucket.keys().into_iter().filter(|key| key.starts_with("cache/cpi/")).collect();
    assert_eq!(archives.len(), 4, "{archives:?}");

    let (run, count) = run_info(&other, &keys, &bucket, &TRUST);
    assert_eq!((count, warnings(&run)), (0, Vec::new()));
    assert_eq!(packages(&other.path("cache")), packages(&one.path("cache")));
    let (_, count) = run_info(&other, &keys, &bucket, &TRUST);
    assert_eq!(count, 0, "packages were loaded again");
    // The key is revoked.
    let (_, count) = run_info(&other, &keys, &bucket, &[]);
    assert_eq!(count, 2);
    assert_eq!(packages(&other.path("cache")), packages(&one.path("cache")));
}

#[test]
fn packages_of_a_bundle_are_used_by_another_machine() {
    let (keys, bucket) = (keys(), Bucket::new());
    let (one, other) = (Machine::new(), Machine::new());
    let (_, count) = run_info(&one, &keys, &bucket, &[]);
    assert_eq!(count, 2);
    let user = UserlandEnv::new(&one, &release(""), &url_line());
    let world = &user.env.hello.world;
    let key = keys.path("ci").display().to_string();
    let bundle = keys.path("bundle.tgz").display().to_string();
    let export = user.command(&["cache", "export"], &[&bundle, "--cache-sign", &key]);
    let export_run = world.finish(export).success();
    assert!(export_run.stdout.starts_with("0 downloads and 2 compiled packages exported"), "{export_run:?}");

    let import = |options: &[&str]| {
        let mut command = world.monopile([&["cache", "import", &bundle], options].concat());
        command.env("XDG_CACHE_HOME", other.path("cache"));
        world.finish(command)
    };
    let failed_import = import(&[]).exits_with(1);
    assert!(
        failed_import.stderr.contains("2 of 2 entries") && failed_import.stderr.contains("--cache-trust")
    );
    assert_eq!(import(&["--cache-trust", &format!("{key}.pub")]).success().stdout, "2 entries imported\n");
    let (_, count) = run_info(&other, &keys, &bucket, &TRUST);
    assert_eq!(count, 0);
    assert_eq!(packages(&other.path("cache")), packages(&one.path("cache")));
}

#[test]
fn cpi_of_a_bundle_runs_without_a_network() {
    let (keys, bucket) = (keys(), Bucket::new());
    let (one, other) = (Machine::new(), Machine::new());
    let tarball = std::fs::read(root()).unwrap();
    let digest = sha256(&tarball);
    let server = Server::for_file(&tarball);
    let userland = format!("url: '{}', sha1: '{digest}'", server.url("/root.tar"));
    let user = UserlandEnv::new(&one, &release(""), &userland);
    user.env.hello.world.finish(with_cache(user.command(&["cpi", "info"], &[]), &bucket)).success();
    let key = keys.path("ci").display().to_string();
    let bundle = keys.path("bundle.tgz").display().to_string();
    let export = user.run(&["cache", "export"], &[&bundle, "--cache-sign", &key]).success();
    assert!(export.stdout.starts_with("1 download and 2 compiled packages exported"), "{export:?}");

    drop(server);
    let user = UserlandEnv::new(&other, &release(""), &userland);
    let world = &user.env.hello.world;
    let trust = ["--cache-trust".to_owned(), format!("{key}.pub")];
    let trust = trust.each_ref().map(String::as_str);
    let mut import = world.monopile([&["cache", "import", &bundle], &trust[..]].concat());
    import.env("XDG_CACHE_HOME", other.path("cache"));
    assert_eq!(world.finish(without_network(&import)).success().stdout, "3 entries imported\n");
    // The manifest, and the CPI that answers in its userland.
    let plan =
        world.finish(without_network(&user.command(&["plan"], &[&["--offline"], &trust[..]].concat())));
    assert!(!(plan.success().stdout).contains("Compiling package"));
    let info = world.finish(without_network(&user.command(&["cpi", "info"], &trust))).success();
    assert!(info.stdout.contains("local-directory"), "{info:?}");
    let logs = files(&other.path("cache/monopile/cpi"));
    assert!(!logs.iter().any(|path| path.ends_with("packaging.log")), "{logs:?}");
    assert_eq!(packages(&other.path("cache")), packages(&one.path("cache")));
}

#[test]
fn missing_userland_is_reported_with_the_other_artifacts() {
    let machine = Machine::new();
    let zeros = "0".repeat(64);
    let userland = format!("url: 'http://127.0.0.1:1/root.tgz', sha1: 'sha256:{zeros}'");
    let mut user = UserlandEnv::new(&machine, &release(""), &userland);
    let stemcell = "/resource_pools/name=vms/stemcell";
    let ops = format!(
        "- {{type: replace, path: {stemcell}/url, value: 'http://127.0.0.1:1/s.tgz'}}\n\
         - {{type: replace, path: '{stemcell}/sha1?', value: 'sha256:{zeros}'}}\n"
    );
    user.env.hello.add_ops("stemcell.yml", &ops);
    let failed_run = user.run(&["create-env"], &["--offline"]).exits_with(1);
    for part in ["2 artifacts cannot be used", "the stemcell: ", "the userland: ", "root.tgz' is in no cache"]
    {
        assert!(failed_run.stderr.contains(part), "{part}: {}", failed_run.stderr);
    }
}

#[test]
fn userland_with_a_digest_is_exported() {
    let machine = Machine::new();
    let server = Server::for_file(b"a root file system");
    let url = server.url("/root.tgz");
    let user = UserlandEnv::new(&machine, &release(""), &format!("url: '{url}'"));
    let failed_run = user.run(&["cache", "export"], &["bundle.tgz"]).exits_with(3);
    let error = format!("the userland '{url}' needs a digest: a cache finds it only by its digest");
    assert!(failed_run.stderr.contains(&error), "{}", failed_run.stderr);
    assert!(!user.env.hello.world.exists("bundle.tgz"));

    let digest = sha256(b"a root file system");
    let user = UserlandEnv::new(&machine, &release(""), &format!("url: '{url}', sha1: '{digest}'"));
    let run = user.run(&["cache", "export"], &["bundle.tgz"]).success();
    assert!(run.stdout.starts_with("1 download and 0 compiled packages exported"), "{run:?}");
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn poisoned_packages_are_compiled() {
    let (keys, bucket) = (keys(), Bucket::new());
    run_info(&Machine::new(), &keys, &bucket, &WRITE);
    let original: Vec<(String, Vec<u8>)> =
        bucket.keys().into_iter().map(|key| (key.clone(), bucket.get(&key).unwrap())).collect();
    let records: Vec<&(String, Vec<u8>)> =
        original.iter().filter(|(key, _)| key.starts_with("cache/cpi/") && key.ends_with(".json")).collect();
    let [one, other] = records[..] else { panic!("{:?}", bucket.keys()) };
    let archive_of = |record: &str| {
        let stem = record.strip_suffix(".json").unwrap();
        original.iter().find(|(key, _)| key.starts_with(stem) && key.ends_with(".tgz")).unwrap()
    };
    let poison = |name: &str| match name {
        "changed archives" => {
            for (key, content) in original.iter().filter(|(key, _)| key.ends_with(".tgz")) {
                let mut poisoned_content = content.clone();
                poisoned_content[20] ^= 1;
                bucket.put(key, &poisoned_content);
            }
        }
        "no signature" => bucket.put(&one.0, b"{}"),
        // The signed package of another key.
        "another package" => {
            bucket.put(&one.0, &other.1);
            let stems = [&one.0, &other.0].map(|key| key.strip_suffix(".json").unwrap());
            let (key, content) = archive_of(&other.0);
            bucket.put(&key.replace(stems[1], stems[0]), content);
        }
        _ => unreachable!("{name}"),
    };
    for (name, expected_count) in [("changed archives", 2), ("no signature", 1), ("another package", 1)] {
        poison(name);
        let (run, count) = run_info(&Machine::new(), &keys, &bucket, &TRUST);
        assert_eq!((count, warnings(&run).len()), (expected_count, 1), "{name}: {run:?}");
        original.iter().for_each(|(key, content)| bucket.put(key, content));
    }
}

#[test]
fn packages_of_this_machine_are_not_shared() {
    let (machine, bucket) = (Machine::new(), Bucket::new());
    let env = Env::new(&machine, &machine.release());
    generate_key(&env.hello.world.path(""), "ci");
    let command = with_cache(env.command("create-env", &WRITE), &bucket);
    env.hello.world.finish(command).success();
    assert!(!machine.compiled_packages().is_empty());
    let keys = bucket.keys();
    assert!(keys.iter().any(|key| key.starts_with("cache/compiled/")), "{keys:?}");
    assert!(!keys.iter().any(|key| key.starts_with("cache/cpi/")), "{keys:?}");
    env.delete(&["--skip-drain"]).success();
}
