//! How long the service of the hello environment does not answer while a property changes: in place, and with a new VM.
//!
//! ```sh
//! cargo bench --bench update
//! ```
//!
//! Deploys a copy of `examples/hello`, with a port and an address of its own, on this machine; changes a property
//! again and again, in turn by each strategy; and takes it down again.

#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]
#![expect(clippy::panic, reason = "a benchmark that cannot run stops")]

use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const ROUNDS: usize = 7;
const ADDRESS: ([u8; 4], u16) = ([127, 99, 98, 2], 8598);

/// What one change cost.
struct Change {
    /// How long the service did not answer.
    interruption: Duration,
    /// How long the command took.
    whole: Duration,
}

fn main() {
    let directory = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
    let root = directory.path();
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/hello");
    run(Command::new("cp").args(["-r", example, "hello"]).current_dir(root));
    let greeting =
        "- {type: replace, path: /instance_groups/0/jobs/0/properties/greeting?, value: ((greeting))}\n";
    std::fs::write(root.join("greeting.yml"), greeting).unwrap_or_else(|error| panic!("{error}"));

    deploy(root, "create-env", "first", "in-place");
    let (mut in_place, mut by_new_vm) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        in_place.push(change(root, &format!("a{round}"), "in-place"));
        by_new_vm.push(change(root, &format!("b{round}"), "recreate"));
    }
    deploy(root, "delete-env", "last", "in-place");
    let middle = |mut values: Vec<Duration>| {
        values.sort();
        values[values.len() / 2]
    };
    for (name, changes) in [("in place", in_place), ("with a new VM", by_new_vm)] {
        let interruption = middle(changes.iter().map(|change| change.interruption).collect());
        let whole = middle(changes.iter().map(|change| change.whole).collect());
        println!("{name}: interrupted for {interruption:?}, the whole takes {whole:?} (medians of {ROUNDS})");
    }
}

fn change(root: &Path, greeting: &str, strategy: &str) -> Change {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let (mut longest, mut since) = (Duration::ZERO, None);
            while !over.load(Ordering::SeqCst) {
                let answers =
                    TcpStream::connect_timeout(&SocketAddr::from(ADDRESS), Duration::from_millis(200))
                        .is_ok();
                match answers {
                    true => since = None,
                    false => longest = longest.max(since.get_or_insert_with(Instant::now).elapsed()),
                }
                std::thread::sleep(Duration::from_millis(2));
            }
            longest
        });
        let begun = Instant::now();
        deploy(root, "create-env", greeting, strategy);
        let whole = begun.elapsed();
        over.store(true, Ordering::SeqCst);
        let interruption = watch.join().unwrap_or_else(|_| panic!("the watch failed"));
        Change { interruption, whole }
    })
}

fn deploy(root: &Path, command: &str, greeting: &str, strategy: &str) {
    let mut process = Command::new(env!("CARGO_BIN_EXE_monopile"));
    process.current_dir(root).env("HOME", root).env("TMPDIR", root);
    for base in ["XDG_CACHE_HOME", "XDG_STATE_HOME"] {
        process.env_remove(base);
    }
    process.args(["-n", command, "hello/manifest.yml", "-o", "hello/elsewhere.yml", "-o", "greeting.yml"]);
    process.args([
        "--vars-store",
        "creds.yml",
        "--state",
        "state.json",
        "-v",
        &format!("greeting={greeting}"),
    ]);
    process.args(["-v", "internal_ip=127.99.98.2", "-v", "internal_cidr=127.99.98.0/24"]);
    process.args(["-v", "internal_gw=127.99.98.1", "-v", "port=8598", "-v", "mbus_port=6868"]);
    if command == "create-env" {
        process.args(["--update-strategy", strategy]);
    }
    run(&mut process);
}

fn run(command: &mut Command) {
    let status =
        command.stdout(Stdio::null()).status().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(status.success(), "{command:?}: {status}");
}
