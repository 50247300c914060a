//! Measures a CPI in a userland: the cost of a call, and its first installation from a shared cache.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Row;
use crate::Suite;
use crate::findings::{Candidate, Figure, Findings, Sample, Unit, measure_interleaved};
use crate::process;
use crate::support::bosh;
use crate::support::hello::Hello;
use crate::support::http::{Server, answer, part};
use crate::support::tarballs::{JobTarball, PackageTarball, ReleaseTarball, StemcellTarball};

pub(super) const ROW: Row = Row {
    name: "userland",
    work: "a CPI call in a userland, and a CPI of 200 MB from a shared cache over 1 Gbit/s",
    measure,
};

/// The rate of the link to the shared cache.
const BYTES_PER_SECOND: f64 = 1e9 / 8.0;
/// The size of the compiled CPI. It cannot be compressed.
const PACKAGE_BYTES: u64 = 200_000_000;
const PACKAGE_FILES: u64 = 200;

const MAX_OVERHEAD_MS: f64 = 15.0;
const MAX_INSTALLATION_MS: f64 = 3000.0;

const BOSH: &str = "bosh create-env, which compiles it, until its first call";

/// A CPI that only knows `info` and `has_vm`.
const CPI: &str = r#"#!/bin/sh
case $(cat) in
*has_vm*) result=true ;;
*) result='{"stemcell_formats": ["test"], "api_version": 2}' ;;
esac
echo '{"result": '"$result"', "error": null, "log": ""}'
"#;

fn measure(suite: &Suite) -> Findings {
    let mut findings = Findings::default();
    measure_call(suite, &mut findings);
    measure_installation(suite, &mut findings);
    findings
}

/// Compares calls in a userland and on this machine. A command opens the userland once, which is no part of
/// the cost of a call: that is the difference between a command with two calls and one with one call.
fn measure_call(suite: &Suite, findings: &mut Findings) {
    let hello = environment(&release(&[]));
    let info = |options: &[&str]| {
        let mut command = hello.subcommand(&["cpi", "info"], options);
        Sample::of(&process::run(&mut command))
    };
    let has_vm = |options: &[&str]| {
        let mut command = hello.subcommand(&["cpi", "call"], &[&["has_vm", "vm-1"], options].concat());
        Sample::of(&process::run(&mut command))
    };
    let host = ["--cpi-userland", "host"];
    let mut candidates = [
        Candidate::new("one call in a userland", || info(&[])),
        Candidate::new("two calls in a userland", || has_vm(&[])),
        Candidate::new("one call on this machine", || info(&host)),
        Candidate::new("two calls on this machine", || has_vm(&host)),
    ];
    let figures = measure_interleaved(&mut candidates, suite.rounds(50), (1, "info", Unit::Milliseconds));
    let [one_inside, two_inside, one_outside, two_outside] = [0, 1, 2, 3].map(|index| figures[index].median);
    let overhead = (two_inside - one_inside) - (two_outside - one_outside);
    let [_, index, ..] = [0, 1, 2, 3].map(|number| findings.add_figure(figures[number].clone()));
    let must =
        format!("the second call: at most {MAX_OVERHEAD_MS} ms more than on this machine ({overhead:.1} ms)");
    findings.demand(&must, index, Some(overhead / MAX_OVERHEAD_MS), overhead <= MAX_OVERHEAD_MS);
}

/// Installs a CPI on a machine without cache, from a cache that another machine filled. Repeats the command,
/// and counts the bytes that it reads from the shared cache.
fn measure_installation(suite: &Suite, findings: &mut Findings) {
    let size = suite.size(PACKAGE_BYTES);
    let packaging = format!(
        "set -e\nfor number in $(seq {PACKAGE_FILES}); do\n    \
         head -c {} /dev/urandom >$BOSH_INSTALL_TARGET/$number\ndone\n",
        size / PACKAGE_FILES
    );
    let release = release(&[PackageTarball::new("noise", &packaging, &[])]);
    let hello = environment(&release);
    let world = &hello.world;
    let mut keygen = Command::new("ssh-keygen");
    keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(world.path("ci"));
    process::run(&mut keygen);
    let (key, trusted_key) =
        (world.path("ci").display().to_string(), world.path("ci.pub").display().to_string());
    let shared_cache = world.path("shared");
    let info = |cache_home: &Path, options: &[&str]| {
        let mut command = hello.subcommand(&["cpi", "info"], options);
        command.env("XDG_CACHE_HOME", cache_home);
        command
    };

    let first_machine = world.path("first-machine");
    let cache_url = format!("file://{}", shared_cache.display());
    let options = ["--cache", &cache_url, "--cache-write", "--cache-sign", &key];
    process::run(&mut info(&first_machine, &options));

    let objects = objects(&shared_cache);
    let sent_bytes = Arc::new(AtomicU64::new(0));
    let server_count = Arc::clone(&sent_bytes);
    let server = Server::start_with_rate(BYTES_PER_SECOND, move |request, _| {
        let Some(content) = objects.get(request.path()) else {
            return answer("404 Not Found", &[], b"");
        };
        let response = part(request, content, "\"1\"");
        server_count.fetch_add(response.len() as u64, Ordering::SeqCst);
        response
    });
    let second_machine = world.path("second-machine");
    let run_with_link = || {
        let mut command =
            info(&second_machine, &["--cache", "s3://bucket/cache", "--cache-trust", &trusted_key]);
        command.env("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{}", server.port()));
        command.env("AWS_ACCESS_KEY_ID", "key").env("AWS_SECRET_ACCESS_KEY", "secret");
        command.env("AWS_REGION", "eu-central-1");
        sent_bytes.store(0, Ordering::SeqCst);
        let sample = Sample::of(&process::run(&mut command));
        (sample, sent_bytes.load(Ordering::SeqCst))
    };
    let (mut installations, mut repetitions, mut repeated_bytes) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..suite.rounds(5) {
        let (sample, bytes) = run_with_link();
        assert!(bytes > size, "the CPI came from the shared cache: {bytes} bytes");
        installations.push(sample);
        let (sample, bytes) = run_with_link();
        repetitions.push(sample);
        repeated_bytes.push(Sample { value: bytes as f64, peak_kib: None });
        std::fs::remove_dir_all(&second_machine).unwrap();
    }
    let text = format!("{} MB in {PACKAGE_FILES} files", size / 1_000_000);
    let mut add =
        |name, unit, samples: &[Sample]| findings.add_figure(Figure::new(name, 1, &text, unit, samples));
    let installation = add("first installation from a shared cache", Unit::Milliseconds, &installations);
    add("the same command again", Unit::Milliseconds, &repetitions);
    let bytes = add("bytes that it reads from the shared cache", Unit::Bytes, &repeated_bytes);
    findings.at_most("at most 3 s", installation, MAX_INSTALLATION_MS);
    let is_met = findings.figures[bytes].max == 0.0;
    findings.demand("0 bytes", bytes, None, is_met);
    if let Some(bosh) = &suite.bosh {
        let samples = measure_bosh(bosh, &release, size, suite.rounds(5));
        findings.add_figure(Figure::new(BOSH, 1, &text, Unit::Milliseconds, &samples));
    }
}

/// Measures `bosh create-env`, which compiles the CPI on this machine, until the CPI rejects the stemcell.
fn measure_bosh(bosh: &Path, release: &ReleaseTarball, size: u64, rounds: usize) -> Vec<Sample> {
    let mut hello = Hello::new();
    bosh::adapt_for_bosh(&mut hello, Path::new("/bin/false"));
    let tarball = release.write(&hello.world.path("info-cpi.tgz")).display().to_string();
    let stemcell = StemcellTarball::default().write(&hello.world.path("stemcell.tgz")).display().to_string();
    hello.add_ops(
        "info-cpi.yml",
        &format!(
            "- {{type: replace, path: /cloud_provider/template, value: {{name: info_cpi, release: \
             info-cpi}}}}\n\
             - {{type: replace, path: /releases/-, value: {{name: info-cpi, url: 'file://{tarball}'}}}}\n\
             - {{type: replace, path: /resource_pools/name=vms/stemcell, value: {{url: \
             'file://{stemcell}'}}}}\n"
        ),
    );
    let installations = hello.world.home().join(".bosh");
    let measure = |_| {
        let mut command = bosh::command(bosh, &hello, "create-env");
        let cost = process::attempt(command.stdin(Stdio::null()).stdout(Stdio::null()));
        let files = walkdir::WalkDir::new(&installations).into_iter().flatten();
        let installed_bytes: u64 = files.map(|entry| entry.metadata().map_or(0, |file| file.len())).sum();
        assert!(cost.code == 1 && installed_bytes > size, "{}: {installed_bytes} bytes", cost.code);
        std::fs::remove_dir_all(&installations).unwrap();
        std::fs::remove_file(hello.world.path("state.json")).unwrap();
        Sample::of(&cost)
    };
    (0..rounds).map(measure).collect()
}

/// Returns the objects of a cache in a bucket: the files of a cache in a directory, by the paths of requests.
fn objects(shared_cache: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = walkdir::WalkDir::new(shared_cache).into_iter().map(Result::unwrap);
    let files = entries.filter(|entry| entry.file_type().is_file());
    let object = |entry: walkdir::DirEntry| {
        let name = entry.path().strip_prefix(shared_cache).unwrap().display().to_string();
        (format!("/bucket/cache/{name}"), std::fs::read(entry.path()).unwrap())
    };
    files.map(object).collect()
}

/// Returns a release whose job has these packages.
fn release(packages: &[PackageTarball]) -> ReleaseTarball {
    let names: Vec<&str> = packages.iter().map(|package| package.name.as_str()).collect();
    let job = JobTarball::new("info_cpi")
        .spec(&format!("packages: [{}]\nproperties: {{}}\n", names.join(", ")))
        .template("cpi.erb", "bin/cpi", CPI);
    let release = ReleaseTarball::new("info-cpi", "1").job(job);
    packages.iter().fold(release, |release, package| release.package(package.clone()))
}

/// Creates an environment with the CPI of this release in a small userland.
fn environment(release: &ReleaseTarball) -> Hello {
    let mut hello = Hello::new();
    let world = &hello.world;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/support/userland/make-root");
    process::run(Command::new("bash").arg(script).arg(world.path("root")));
    let userland = world.path("root.tar").display().to_string();
    process::run(Command::new("tar").arg("-cf").arg(&userland).arg("-C").arg(world.path("root")).arg("."));
    let tarball = release.write(&world.path("info-cpi.tgz")).display().to_string();
    hello.add_ops(
        "userland.yml",
        &format!(
            "- {{type: remove, path: /cloud_provider/cpi}}\n\
             - {{type: replace, path: '/cloud_provider/template?', value: {{name: info_cpi, release: \
             info-cpi}}}}\n\
             - {{type: replace, path: '/cloud_provider/userland?', value: {{url: {userland}}}}}\n\
             - {{type: replace, path: /releases/-, value: {{name: info-cpi, url: 'file://{tarball}'}}}}\n"
        ),
    );
    hello
}
