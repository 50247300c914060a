//! What a run costs in which nothing changed, with a stemcell of 1 GiB.
//!
//! ```sh
//! cargo bench --bench unchanged
//! ```
//!
//! Deploys a copy of `examples/hello`, with a port and an address of its own, on this machine; measures; and
//! takes it down again.

#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]
#![expect(clippy::panic, reason = "a benchmark that cannot run stops")]

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

const PADDING: &str = "1G";
const RUNS: usize = 50;

fn main() {
    let directory = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
    let root = directory.path();
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/hello");
    let script = format!(
        "cp -r {example} hello && mkdir s && tar czf s/image -C hello/stemcell/image . &&
         cp hello/stemcell/stemcell.MF s && truncate -s {PADDING} s/padding &&
         tar cf stemcell.tar -C s stemcell.MF image padding && rm -r s"
    );
    run(Command::new("bash").args(["-ec", &script]).current_dir(root));
    let stemcell = "- {type: replace, path: /resource_pools/name=vms/stemcell, value: {url: 'file://../stemcell.tar'}}\n";
    std::fs::write(root.join("stemcell.yml"), stemcell).unwrap_or_else(|error| panic!("{error}"));

    println!("first run: {:?}", monopile(root, "create-env"));
    let unread: Vec<Duration> = (0..RUNS).map(|_| monopile(root, "create-env")).collect();
    report("unchanged", unread);
    let read = (1..=5).map(|age| {
        let file = File::options().append(true).open(root.join("stemcell.tar"));
        let time = SystemTime::now() - Duration::from_secs(60 * age);
        file.and_then(|file| file.set_modified(time)).unwrap_or_else(|error| panic!("{error}"));
        monopile(root, "create-env")
    });
    report("unchanged, but touched", read.collect());
    monopile(root, "delete-env");
}

fn monopile(root: &Path, command: &str) -> Duration {
    let mut process = Command::new(env!("CARGO_BIN_EXE_monopile"));
    process.current_dir(root).env("HOME", root).env("TMPDIR", root);
    for base in ["XDG_CACHE_HOME", "XDG_STATE_HOME"] {
        process.env_remove(base);
    }
    process.args(["-n", command, "hello/manifest.yml", "-o", "hello/elsewhere.yml", "-o", "stemcell.yml"]);
    process.args([
        "--vars-store",
        "creds.yml",
        "--state",
        "state.json",
        "-v",
        "port=8599",
        "-v",
        "mbus_port=6868",
    ]);
    process.args(["-v", "internal_ip=127.99.99.2", "-v", "internal_cidr=127.99.99.0/24"]);
    process.args(["-v", "internal_gw=127.99.99.1"]);
    let begun = Instant::now();
    run(&mut process);
    begun.elapsed()
}

fn run(command: &mut Command) {
    let status =
        command.stdout(Stdio::null()).status().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(status.success(), "{command:?}: {status}");
}

fn report(what: &str, mut runs: Vec<Duration>) {
    runs.sort();
    println!("{what}: median {:?}, fastest {:?}", runs[runs.len() / 2], runs[0]);
}
