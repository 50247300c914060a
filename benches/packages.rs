//! How long a run with many packages and jobs takes: 50 packages in a graph of four levels, 30 jobs with three
//! templates each, first with nothing compiled and then with everything.
//!
//! ```text
//! cargo bench --bench packages
//! ```

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a benchmark that cannot go on says so by panicking, and prints what it measured"
)]

#[path = "../tests/it/support/mod.rs"]
mod support;

use std::fmt::Write as _;

use serde_json::Value;

use support::hello::Hello;
use support::tarballs::{JobTarball, PackageTarball, ReleaseTarball};

/// How many packages each level has; each needs some of the level below.
const LEVELS: [usize; 4] = [20, 15, 10, 5];
const JOBS: usize = 30;

/// What a packaging script does: half a second of waiting for others stands for a compiler on a machine with
/// many cores, so that what is measured is the order of things and not this machine.
const PACKAGING: &str = "sleep 0.5\ncp -r . \"$BOSH_INSTALL_TARGET/\"\n";

fn main() {
    support::scripted::cpi::run_if_called();
    let mut hello = Hello::new();
    let path = release().write(&hello.world.path("release.tgz"));
    let mut jobs = String::new();
    for number in 0..JOBS {
        write!(jobs, "{{name: job{number:02}, release: many}}, ").unwrap();
    }
    let releases = format!("[{{name: many, url: {}}}]", path.display());
    hello.ops(
        "many.yml",
        &format!(
            "- {{type: replace, path: /releases, value: {releases}}}\n\
             - {{type: replace, path: /instance_groups/name=hello/jobs, value: [{jobs}]}}\n\
             - {{type: replace, path: /instance_groups/name=hello/properties?, value: {{greeting: Ahoy}}}}\n"
        ),
    );
    println!(
        "{} packages in {} levels, {JOBS} jobs, {} templates\n",
        LEVELS.iter().sum::<usize>(),
        LEVELS.len(),
        3 * JOBS
    );
    report("cold", &timings(&hello, &[]));
    report("warm", &timings(&hello, &["--recreate"]));
    report("one at a time, cold", &{
        std::fs::remove_dir_all(hello.world.home().join(".cache/monopile/compiled")).unwrap();
        timings(&hello, &["--recreate", "--parallel", "1"])
    });
    hello.delete(&["--skip-drain"]).success();
    assert_eq!(hello.leftovers(), Vec::<String>::new());
}

fn release() -> ReleaseTarball {
    let mut release = ReleaseTarball::new("many", "1");
    let mut below: Vec<String> = Vec::new();
    let mut all = Vec::new();
    for (level, count) in LEVELS.iter().enumerate() {
        let names: Vec<String> = (0..*count).map(|number| format!("p{level}-{number:02}")).collect();
        for (number, name) in names.iter().enumerate() {
            let needs: Vec<&str> =
                below.iter().skip(number * 2 % below.len().max(1)).take(3).map(String::as_str).collect();
            // Content that does not compress to nothing.
            let content: String =
                (0..2000u64).map(|i| format!("{:x}", i.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
            let package =
                PackageTarball::new(name, PACKAGING, &needs).file("data", &format!("{name}{content}"));
            release = release.package(package);
        }
        all.extend(names.clone());
        below = names;
    }
    for number in 0..JOBS {
        let packages: Vec<&str> =
            all.iter().skip(number).step_by(JOBS).chain(below.iter().take(1)).map(String::as_str).collect();
        let mut packages = packages;
        packages.sort_unstable();
        packages.dedup();
        let mut job = JobTarball::new(&format!("job{number:02}")).spec(&format!(
            "packages: [{}]\nproperties:\n  greeting: {{default: Hello}}\n",
            packages.join(", ")
        ));
        for template in 0..3 {
            let text = "<% p('greeting').each_char do |letter| %><%= letter %>,<% end %> <%= spec.ip %>\n";
            job = job.template(&format!("t{template}.erb"), &format!("config/t{template}"), text);
        }
        job.monit = String::new();
        release = release.job(job);
    }
    release
}

fn timings(hello: &Hello, flags: &[&str]) -> Value {
    let flags: Vec<&str> = flags.iter().copied().chain(["--json"]).collect();
    let run = hello.create(&flags).success();
    run.json().last().expect("there is always a last event")["timings"].clone()
}

fn report(label: &str, timings: &Value) {
    let number = |name: &str| timings[name].as_u64().unwrap_or_default();
    println!(
        "{label}: {} ms (CPI {}, agent {}, its tasks {}, waiting {}, own work {})",
        number("total_ms"),
        number("cpi_ms"),
        number("agent_ms"),
        number("agent_task_ms"),
        number("waiting_ms"),
        number("own_ms"),
    );
    println!(
        "  {} CPI processes, {} messages to the agent, {} of them compile_package, {} bytes there, {} bytes back",
        number("cpi_calls"),
        number("agent_messages"),
        number("compilations"),
        number("bytes_sent"),
        number("bytes_received"),
    );
    println!(
        "  packages: {} ms; their critical path: {} ms\n",
        number("packages_ms"),
        number("packages_critical_path_ms")
    );
}
