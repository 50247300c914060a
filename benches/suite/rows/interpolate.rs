//! Measures `interpolate` on manifests as large as a director's, and larger ones.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{MEMORY_KIB, Row};
use crate::Suite;
use crate::findings::{Candidate, Findings, Sample, Unit, interleaved};
use crate::fixtures;
use crate::process;
use crate::support::MONOPILE;
use crate::worker;

pub(super) const ROW: Row = Row {
    name: "interpolate",
    work: "interpolate: manifest of 1 MiB, 50 ops files, 2,000 variables",
    measure,
};

const MANIFEST: usize = 1 << 20;
const OPS_FILES: usize = 50;
const OPS: usize = 20;
const VARIABLES: usize = 2000;
const PROPERTIES: usize = 40;

fn measure(suite: &Suite) -> Findings {
    let mut findings = Findings::default();
    for scale in [1, 4, 16] {
        let inputs = inputs(suite, scale);
        let size = inputs.size.clone();
        let mut contenders = vec![Candidate::new("monopile interpolate", || {
            Sample::of(&process::run(&mut command(Path::new(MONOPILE), &inputs)))
        })];
        // `bosh` needs more than ten times as long for four times the size.
        let bosh = suite.bosh.as_ref().filter(|_| scale == 1);
        if let Some(bosh) = bosh {
            contenders.push(Candidate::new("bosh interpolate", || {
                Sample::of(&process::run(&mut command(bosh, &inputs)))
            }));
        }
        let rounds = suite.rounds(if scale == 16 { 5 } else { 25 });
        let scale = u32::try_from(scale).unwrap();
        for figure in interleaved(&mut contenders, rounds, (scale, &size, Unit::Milliseconds)) {
            let ours = figure.name.starts_with("monopile") && scale == 1;
            let counted =
                ours.then(|| process::instructions(&command(Path::new(MONOPILE), &inputs))).flatten();
            findings.figure(figure.with_instructions(counted));
        }
        let same = bosh.map(|bosh| outputs_agree(bosh, &inputs));
        if same == Some(false) {
            findings.note(format!("×{scale}: what monopile and bosh put out differs"));
        }
    }
    findings.at_most("under 100 ms", 0, 100.0);
    let peak = findings.figures[0].peak_kib.unwrap_or_default();
    findings.demand("under 64 MiB", 0, Some(peak as f64 / MEMORY_KIB as f64), peak <= MEMORY_KIB);
    findings
}

/// Returns true if both programs print the same document. A separate process compares them, because the
/// memory of this process counts for all processes that it starts.
fn outputs_agree(bosh: &Path, inputs: &Inputs) -> bool {
    let files = [Path::new(MONOPILE), bosh].map(|program| {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(command(program, inputs).stdout(file.reopen().unwrap()).status().unwrap().success());
        file
    });
    let mut same = worker::command("same-yaml");
    same.args(files.each_ref().map(|file| file.path()));
    process::attempt(&mut same).code == 0
}

struct Inputs {
    directory: PathBuf,
    size: String,
}

fn command(program: &Path, inputs: &Inputs) -> Command {
    let mut command = Command::new(program);
    command.current_dir(&inputs.directory).args(["interpolate", "manifest.yml"]);
    for number in 0..OPS_FILES {
        command.arg("-o").arg(format!("ops{number}.yml"));
    }
    command.args(["-l", "variables.yml"]);
    command
}

fn inputs(suite: &Suite, scale: usize) -> Inputs {
    let scale = if suite.quick { scale as f64 / 16.0 } else { scale as f64 };
    let times = |count: usize| ((count as f64 * scale) as usize).max(1);
    let directory = fixtures::fresh(suite, "interpolate");
    let write = |name: &str, text: String| std::fs::write(directory.join(name), text).unwrap();
    let (manifest, jobs) = manifest(times(MANIFEST), times(VARIABLES));
    write("manifest.yml", manifest);
    for file in 0..OPS_FILES {
        write(&format!("ops{file}.yml"), ops(file, times(OPS), jobs));
    }
    let mut variables = String::new();
    for number in 0..times(VARIABLES) {
        writeln!(variables, "var{number}: value-of-{number}-0123456789abcdefghij").unwrap();
    }
    write("variables.yml", variables);
    let size = format!(
        "{:.2} MiB, {OPS_FILES} × {} ops, {} variables",
        times(MANIFEST) as f64 / 1048576.0,
        times(OPS),
        times(VARIABLES)
    );
    Inputs { directory, size }
}

/// Returns a manifest of at least `bytes` bytes, and its number of jobs.
fn manifest(bytes: usize, variables: usize) -> (String, usize) {
    let mut text = String::from("name: bench\ninstance_groups:\n- name: bosh\n  instances: 1\n  jobs:\n");
    let mut jobs = 0;
    while text.len() < bytes {
        write!(text, "  - name: job{jobs}\n    release: bosh\n    properties:\n").unwrap();
        for property in 0..PROPERTIES {
            let variable = (jobs * PROPERTIES + property) % variables;
            match property % 5 {
                0 => writeln!(text, "      p{property}: ((var{variable}))"),
                1 => writeln!(text, "      p{property}: https://((var{variable})):{property}/path"),
                2 => writeln!(text, "      p{property}: {{port: {property}, tls: true, hosts: [a, b, c]}}"),
                3 => writeln!(
                    text,
                    "      p{property}: some plain text of this property, as long as texts are"
                ),
                _ => {
                    writeln!(text, "      p{property}: |\n        a line\n        another ((var{variable}))")
                }
            }
            .unwrap();
        }
        jobs += 1;
    }
    (text, jobs)
}

fn ops(file: usize, count: usize, jobs: usize) -> String {
    let mut text = String::new();
    for op in 0..count {
        let job = (file * 31 + op * 7) % jobs;
        let at = format!("/instance_groups/name=bosh/jobs/name=job{job}/properties");
        match op % 4 {
            0 => writeln!(
                text,
                "- type: replace\n  path: {at}/p{}\n  value: {{from: ops{file}}}",
                op % PROPERTIES
            ),
            1 => writeln!(text, "- type: replace\n  path: {at}/new{file}?/deep/er\n  value: [1, 2, 3]"),
            2 => writeln!(text, "- type: replace\n  path: {at}/list?/-\n  value: ((var0))"),
            _ => writeln!(text, "- type: remove\n  path: {at}/gone{op}?"),
        }
        .unwrap();
    }
    text
}
