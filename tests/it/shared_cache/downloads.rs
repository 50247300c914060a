//! Downloads: found by their digests, and verified.

use std::collections::BTreeMap;
use std::process::Command;

use super::warnings;
use crate::fetch::FetchEnvironment;
use crate::support::bucket::{Bucket, SECRET, Service};
use crate::support::http::{Server, part};
use crate::support::tarballs::{StemcellTarball, sha1, sha256};

/// Returns the downloads in the cache of a machine with their contents.
fn downloads(environment: &FetchEnvironment, cache: &str) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(environment.world.path(cache).join("downloads")).unwrap().flatten();
    let files = entries.filter(|entry| entry.path().extension().is_some_and(|extension| extension == "tgz"));
    files
        .map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap()))
        .collect()
}

/// Returns an environment with a stemcell of at least this size.
pub(super) fn with_large_stemcell(bytes: usize) -> FetchEnvironment {
    // Compression does not shrink random numbers.
    let mut state = 1_u64;
    let random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    let image = Some(std::iter::repeat_with(random).take(bytes).collect());
    let mut environment = FetchEnvironment::new();
    environment.stemcell = StemcellTarball { image, ..StemcellTarball::default() }.build();
    environment
}

/// Serves the stemcell and the release, and writes a manifest with their URLs.
pub(super) fn serve(environment: &FetchEnvironment) -> Server {
    let (release, stemcell) = (environment.release.clone(), environment.stemcell.clone());
    let server = Server::start(move |request, _| {
        part(request, if request.path() == "/x.tgz" { &release } else { &stemcell }, "\"1\"")
    });
    let (release, stemcell) = (server.url("/x.tgz"), server.url("/s.tgz"));
    let digests = (sha256(&environment.release), sha1(&environment.stemcell));
    environment.write_manifest_of(&release, &digests.0, &stemcell, &digests.1);
    server
}

/// Returns a command on the machine with this cache directory.
pub(super) fn command(
    environment: &FetchEnvironment,
    cache: &str,
    url: &str,
    extra_args: &[&str],
) -> Command {
    environment.command(&[&["--cache-dir", cache, "--cache", url], extra_args].concat())
}

#[test]
fn download_of_one_machine_is_used_by_another() {
    let places = [Some(Service::S3), Some(Service::Azure), Some(Service::Gcs), None];
    for bucket in places.map(|service| service.map(Bucket::of)) {
        let environment = FetchEnvironment::new();
        let server = serve(&environment);
        let url = match &bucket {
            Some(bucket) => bucket.url("team/cache/"),
            None => {
                std::fs::create_dir(environment.world.path("shared")).unwrap();
                format!("file://{}", environment.world.path("shared").display())
            }
        };
        let run = |cache: &str, extra_args: &[&str]| {
            let mut command = command(&environment, cache, &url, extra_args);
            bucket.iter().for_each(|bucket| bucket.set_credentials(&mut command));
            let run = environment.run_and_fetch_all(command);
            assert_eq!(warnings(&run), Vec::<&str>::new(), "{url}");
            assert!(!format!("{run:?}").contains(SECRET));
        };
        // Without the option, nothing is uploaded.
        run("a", &[]);
        run("b", &[]);
        assert_eq!(server.requests().len(), 4, "{url}");
        run("c", &["--cache-write"]);
        assert_eq!(server.requests().len(), 6, "{url}");
        run("d", &[]);
        assert_eq!(server.requests().len(), 6, "{url}");
        assert_eq!(downloads(&environment, "c"), downloads(&environment, "d"), "{url}");
        assert_eq!(downloads(&environment, "d").len(), 2, "{url}");
        if let Some(bucket) = &bucket {
            let mut keys = bucket.keys();
            keys.sort();
            let names = [
                format!("team/cache/downloads/sha1-{}", sha1(&environment.stemcell)),
                format!("team/cache/downloads/{}", sha256(&environment.release).replace(':', "-")),
            ];
            assert_eq!(keys, names, "{url}");
        }
    }
}

#[test]
fn large_file_is_uploaded_in_parts() {
    let environment = with_large_stemcell(12 << 20);
    let server = serve(&environment);
    for service in [Service::S3, Service::Azure, Service::Gcs] {
        let bucket = Bucket::of(service);
        let request_count_before = server.requests().len();
        for (cache, extra_args) in [("a", &["--cache-write"][..]), ("b", &[])] {
            let cache = format!("{cache}-{service:?}");
            let mut command = command(&environment, &cache, &bucket.url("cache"), extra_args);
            bucket.set_credentials(&mut command);
            let run = environment.run_and_fetch_all(command);
            assert_eq!(warnings(&run), Vec::<&str>::new(), "{service:?}");
        }
        assert_eq!(server.requests().len(), request_count_before + 2, "{service:?}");
        let key = format!("cache/downloads/sha1-{}", sha1(&environment.stemcell));
        assert!(bucket.get(&key).unwrap() == environment.stemcell, "{service:?}");
    }
}

#[test]
fn poisoned_download_is_not_used() {
    let environment = FetchEnvironment::new();
    let server = serve(&environment);
    let bucket = Bucket::new();
    let run = |cache: &str, extra_args: &[&str]| {
        let mut command = command(&environment, cache, &bucket.url("cache"), extra_args);
        bucket.set_credentials(&mut command);
        environment.run_and_fetch_all(command)
    };
    run("a", &["--cache-write"]);
    let keys = bucket.keys();
    assert_eq!(keys.len(), 2, "{keys:?}");
    for key in &keys {
        let mut poisoned_content = bucket.get(key).unwrap();
        poisoned_content[20] ^= 1;
        bucket.put(key, &poisoned_content);
    }
    let request_count_before = server.requests().len();
    let second_run = run("b", &["--cache-write"]);
    assert_eq!(server.requests().len(), request_count_before + 2);
    assert_eq!(downloads(&environment, "a"), downloads(&environment, "b"));
    let warnings = warnings(&second_run);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("the digest of it does not match"), "{warnings:?}");
    // The run has replaced them.
    run("c", &[]);
    assert_eq!(server.requests().len(), request_count_before + 2);
}

#[test]
fn urls_and_keys_are_checked_before_the_run() {
    let environment = FetchEnvironment::new();
    let server = serve(&environment);
    let world = &environment.world;
    world.write("empty.pub", "# no key\n");
    world.write("damaged.pub", "# mine\nssh-ed25519 AAAA me\n");
    world.write("text", "no key");
    for (options, part) in [
        (&["--cache", "https://host/cache"][..], "the scheme must be s3, gs, az or file, not 'https'"),
        (&["--cache", "cache"], "it does not begin with SCHEME://"),
        (&["--cache", "file://cache"], "must begin with '/'"),
        (&["--cache", "s3:///a"], "it names no bucket"),
        (&["--cache-trust", "ssh-ed25519 AAAA"], "--cache-trust is not valid"),
        (
            &["--cache-trust", "damaged.pub"],
            "line 2 of 'damaged.pub' (--cache-trust, MONOPILE_CACHE_TRUST) is not valid",
        ),
        (&["--cache-trust=-----BEGIN OPENSSH PRIVATE KEY----- x"], "not a private key"),
        (
            &["--cache", "s3://b", "--cache-write", "--cache-sign", "text"],
            "'text' (--cache-sign, MONOPILE_CACHE_SIGN) cannot sign",
        ),
    ] {
        let run = world.finish(environment.command(options)).exits_with(2);
        assert!(run.stderr.contains(part), "{part}: {}", run.stderr);
    }
    let missing = world.finish(environment.command(&["--cache-trust", "missing.pub"])).exits_with(2);
    assert!(
        missing.stderr.contains("is neither a public key (ssh-ed25519 …) nor a file"),
        "{}",
        missing.stderr
    );
    // The key is needed only for writing.
    environment.run_and_fetch_all(environment.command(&[
        "--cache-sign",
        "missing",
        "--cache-trust",
        "empty.pub",
    ]));
    // Variables without a value count as not set.
    let mut command = environment.command(&[]);
    for name in ["", "_WRITE", "_SIGN", "_TRUST"] {
        command.env(format!("MONOPILE_CACHE{name}"), "");
    }
    environment.run_and_fetch_all(command);
    assert_eq!(server.requests().len(), 2);
}

#[test]
fn env_file_names_the_shared_cache() {
    let environment = FetchEnvironment::new();
    let server = serve(&environment);
    let world = &environment.world;
    super::generate_key(&world.path(""), "key");
    world.write(
        ".monopile.yml",
        format!(
            "manifest: e.yml\ncache: file://{}\ncache_write: true\ncache_sign: key\ncache_trust: key.pub\n",
            world.path("shared").display()
        ),
    );
    let trust = world.run(["trust"]).success();
    assert!(
        trust.stdout.contains("compiled CPIs with a trusted signature from 'file://"),
        "{}",
        trust.stdout
    );
    let env_file = world.read(".monopile.yml");
    let key = world.read("key.pub");
    world.write(".monopile.yml", env_file.replace("key.pub", &format!("'{}'", key.trim_end())));
    let trust = world.run(["trust"]).success();
    assert!(!trust.stdout.contains("ssh-ed25519"), "a key is not a file: {}", trust.stdout);
    let run = |cache: &str| {
        let command = world.monopile(["create-env", "--insecure-agent", "--cache-dir", cache]);
        environment.run_and_fetch_all(command);
    };
    run("a");
    run("b");
    assert_eq!(server.requests().len(), 2);
    assert_eq!(downloads(&environment, "a"), downloads(&environment, "b"));
}
