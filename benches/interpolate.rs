//! What `interpolate` and the start of the program cost: a manifest of a director's size, ten ops files and
//! a vars store in which everything is generated already.
//!
//! ```sh
//! cargo bench --bench interpolate
//! ```
//!
//! Prints the median and the fastest of many runs, and the peak of resident memory over all of them.

#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]
#![expect(clippy::panic, reason = "a benchmark that cannot run stops")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use monopile::manifest::{self, Inputs, Options};

const JOBS: usize = 12;
const PROPERTIES: usize = 40;
const OPS_FILES: usize = 10;
const OPS: usize = 20;
const PASSWORDS: usize = 40;
const CERTIFICATES: usize = 6;

fn main() {
    let directory = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
    let inputs = inputs(directory.path());
    // The first run fills the store.
    let text = interpolate(&inputs);
    println!("manifest: {} lines, {OPS_FILES} ops files of {OPS} operations", text.lines().count());

    let runs = measure(200, || {
        interpolate(&inputs);
    });
    report("interpolate", &runs);
    println!("peak memory: {} KiB", peak_memory());

    let program = env!("CARGO_BIN_EXE_monopile");
    let runs = measure(100, || {
        let status = Command::new(program).arg("--version").stdout(Stdio::null()).status();
        assert!(status.is_ok_and(|status| status.success()), "{program} --version failed");
    });
    report("monopile --version", &runs);
}

fn interpolate(inputs: &Inputs) -> String {
    let options = Options { all_found: true, ..Options::default() };
    manifest::interpolate(inputs, &options).unwrap_or_else(|error| panic!("{error:?}")).0
}

fn measure(count: usize, mut run: impl FnMut()) -> Vec<Duration> {
    let mut runs: Vec<Duration> = (0..count)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed()
        })
        .collect();
    runs.sort_unstable();
    runs
}

fn report(name: &str, runs: &[Duration]) {
    println!("{name}: median {:.2?}, fastest {:.2?}", runs[runs.len() / 2], runs[0]);
}

/// The most memory this process has held, in KiB.
fn peak_memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.map_or("unknown".into(), |value| value.trim().trim_end_matches(" kB").to_owned())
}

fn inputs(directory: &Path) -> Inputs {
    Inputs {
        manifest: write(directory, "manifest.yml", &manifest_text()),
        ops_files: (0..OPS_FILES)
            .map(|number| write(directory, &format!("ops{number}.yml"), &ops_text(number)))
            .collect(),
        vars: vec!["director_name=bench".into(), "internal_ip=10.0.0.6".into()],
        vars_store: Some(directory.join("creds.yml")),
        ..Inputs::default()
    }
}

fn write(directory: &Path, name: &str, text: &str) -> PathBuf {
    let path = directory.join(name);
    std::fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    path
}

fn manifest_text() -> String {
    let mut text =
        String::from("name: ((director_name))\ninstance_groups:\n- name: bosh\n  instances: 1\n  jobs:\n");
    for job in 0..JOBS {
        let _ = write!(text, "  - name: job{job}\n    release: bosh\n    properties:\n");
        for property in 0..PROPERTIES {
            let _ = match property % 5 {
                0 => writeln!(
                    text,
                    "      p{property}: ((password{}))",
                    (job * PROPERTIES + property) % PASSWORDS
                ),
                1 => writeln!(text, "      p{property}: https://((internal_ip)):{property}/path"),
                2 => writeln!(text, "      p{property}: ((certificate{}.certificate))", job % CERTIFICATES),
                3 => writeln!(text, "      p{property}: {{port: {property}, tls: yes, hosts: [a, b, c]}}"),
                _ => writeln!(text, "      p{property}: some plain text of this property"),
            };
        }
    }
    text.push_str("variables:\n");
    for password in 0..PASSWORDS {
        let _ = writeln!(text, "- {{name: password{password}, type: password}}");
    }
    text.push_str("- {name: ca, type: certificate, options: {is_ca: true, common_name: ca}}\n");
    for certificate in 0..CERTIFICATES {
        let _ = writeln!(
            text,
            "- name: certificate{certificate}\n  type: certificate\n  options: {{ca: ca, common_name: ((internal_ip)), \
             alternative_names: [((internal_ip))]}}"
        );
    }
    text
}

fn ops_text(file: usize) -> String {
    let mut text = String::new();
    for op in 0..OPS {
        let job = (file + op) % JOBS;
        let jobs = format!("/instance_groups/name=bosh/jobs/name=job{job}/properties");
        let _ = match op % 4 {
            0 => writeln!(text, "- type: replace\n  path: {jobs}/p{op}\n  value: {{from: ops{file}}}"),
            1 => writeln!(text, "- type: replace\n  path: {jobs}/new{file}?/deep/er\n  value: [1, 2, 3]"),
            2 => writeln!(text, "- type: replace\n  path: {jobs}/list?/-\n  value: ((password{op}))"),
            _ => writeln!(text, "- type: remove\n  path: {jobs}/p{op}?"),
        };
    }
    text
}
