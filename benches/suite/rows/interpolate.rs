//! Measures `interpolate` on manifests as large as a director's, and larger ones.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{MEMORY_KIB, Row};
use crate::Suite;
use crate::findings::{Candidate, Findings, Sample, Unit, measure_interleaved};
use crate::fixtures;
use crate::process;
use crate::support::MONOPILE;
use crate::worker;

pub(super) const ROW: Row = Row {
    name: "interpolate",
    work: "interpolate: manifest of 1 MiB, 50 ops files, 2,000 variables; 1,000 items, 250 ops by name",
    measure,
};

/// Sizes of a large manifest, and of one like that of a director.
const LARGE: Sizes = Sizes { manifest_bytes: 1 << 20, ops_files: 50, ops: 20, variables: 2000 };
const DIRECTOR: Sizes = Sizes { manifest_bytes: 24 << 10, ops_files: 4, ops: 10, variables: 60 };
const PROPERTIES: usize = 40;
/// The items of the list whose items operations select by name, and the number of these operations.
const ITEMS: usize = 1000;
const ITEM_OPS: usize = 250;
/// The factor by which instructions may grow from ×1 to ×16.
const GROWTH: f64 = 18.0;
/// The maximum of memory at ×16, as a multiple of the bytes of all inputs.
const MEMORY_PER_INPUT: f64 = 8.0;

/// The factors by which monopile must be faster than `bosh`.
const MIN_FACTOR_LARGE: f64 = 20.0;
const MIN_FACTOR_DIRECTOR: f64 = 8.0;

const MANIFESTS: &str = "monopile interpolate";
const DIRECTORS: &str = "monopile interpolate, a director's manifest";
const ITEMS_BY_NAME: &str = "monopile interpolate, items by name";

fn measure(suite: &Suite) -> Findings {
    let mut findings = Findings::default();
    for scale in [1, 4, 16] {
        let inputs = inputs(suite, scale, &LARGE);
        // `bosh` needs more than ten times as long for four times the size.
        let bosh = suite.bosh.as_ref().filter(|_| scale == 1);
        compare(suite, &mut findings, MANIFESTS, scale, &inputs, bosh);
        if bosh.is_some_and(|bosh| !outputs_agree(bosh, &inputs)) {
            findings.note(format!("×{scale}: what monopile and bosh put out differs"));
        }
        if scale == 16
            && let Some((number, figure)) = findings.find(MANIFESTS, 16)
        {
            let peak = figure.peak_kib.unwrap_or_default() as f64 * 1024.0 / inputs.bytes as f64;
            let must = format!("memory at most {MEMORY_PER_INPUT} times the inputs (×{peak:.1})");
            findings.demand(&must, number, Some(peak / MEMORY_PER_INPUT), peak <= MEMORY_PER_INPUT);
        }
    }
    compare(suite, &mut findings, DIRECTORS, 1, &inputs(suite, 1, &DIRECTOR), suite.bosh.as_ref());
    for (name, min_factor) in [(MANIFESTS, MIN_FACTOR_LARGE), (DIRECTORS, MIN_FACTOR_DIRECTOR)] {
        let number = |name: &str| findings.find(name, 1).map(|(number, _)| number);
        if let (Some(ours), Some(theirs)) = (number(name), number(&bosh_row(name))) {
            findings.faster_than_bosh("", ours, theirs, min_factor);
        }
    }
    for scale in [1, 4, 16] {
        compare(suite, &mut findings, ITEMS_BY_NAME, scale, &named_items(suite, scale), None);
    }
    findings.at_most("under 100 ms", 0, 100.0);
    let peak = findings.figures[0].peak_kib.unwrap_or_default();
    findings.demand("under 64 MiB", 0, Some(peak as f64 / MEMORY_KIB as f64), peak <= MEMORY_KIB);
    for name in [MANIFESTS, ITEMS_BY_NAME] {
        let instructions = |scale| Some(findings.find(name, scale)?.1.instructions? as f64);
        let Some((number, _)) = findings.find(name, 16) else { continue };
        match instructions(16).zip(instructions(1)) {
            Some((large, small)) => {
                let growth = large / small;
                let must = format!("linear: at most {GROWTH} times the instructions of ×1 (×{growth:.1})");
                findings.demand(&must, number, Some(growth / GROWTH), growth <= GROWTH);
            }
            None => findings.note(format!("{name}: growth was not checked, because there is no valgrind")),
        }
    }
    findings
}

/// Measures our program, and `bosh` if it is given, with the same inputs.
fn compare(
    suite: &Suite,
    findings: &mut Findings,
    name: &str,
    scale: usize,
    inputs: &Inputs,
    bosh: Option<&PathBuf>,
) {
    let mut candidates =
        vec![Candidate::new(name, || Sample::of(&process::run(&mut command(Path::new(MONOPILE), inputs))))];
    if let Some(bosh) = bosh {
        candidates
            .push(Candidate::new(bosh_row(name), || Sample::of(&process::run(&mut command(bosh, inputs)))));
    }
    // Slow work gets fewer rounds.
    let is_slow = scale == 16 || name == MANIFESTS && bosh.is_some();
    let rounds = suite.rounds(if is_slow { 5 } else { 25 });
    let scale = u32::try_from(scale).unwrap();
    for figure in measure_interleaved(&mut candidates, rounds, (scale, &inputs.size, Unit::Milliseconds)) {
        let instructions = (figure.name == name)
            .then(|| process::instructions(&command(Path::new(MONOPILE), inputs)))
            .flatten();
        findings.add_figure(figure.with_instructions(instructions));
    }
}

/// Returns the name of the same measurement with `bosh`.
fn bosh_row(name: &str) -> String {
    name.replace("monopile", "bosh")
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

/// The sizes of a manifest and of what changes it.
struct Sizes {
    manifest_bytes: usize,
    ops_files: usize,
    /// The operations in each ops file.
    ops: usize,
    variables: usize,
}

struct Inputs {
    directory: PathBuf,
    /// The number of ops files.
    ops_files: usize,
    /// The bytes of all files.
    bytes: u64,
    size: String,
}

impl Inputs {
    fn new(directory: PathBuf, ops_files: usize, size: String) -> Self {
        let files = std::fs::read_dir(&directory).unwrap();
        let bytes = files.map(|file| file.unwrap().metadata().unwrap().len()).sum();
        Inputs { directory, ops_files, bytes, size }
    }
}

fn command(program: &Path, inputs: &Inputs) -> Command {
    let mut command = Command::new(program);
    command.current_dir(&inputs.directory).args(["interpolate", "manifest.yml"]);
    for number in 0..inputs.ops_files {
        command.arg("-o").arg(format!("ops{number}.yml"));
    }
    command.args(["-l", "variables.yml"]);
    command
}

/// Returns a function that scales the sizes of inputs.
fn times(suite: &Suite, scale: usize) -> impl Fn(usize) -> usize {
    let scale = if suite.is_quick { scale as f64 / 16.0 } else { scale as f64 };
    move |count| ((count as f64 * scale) as usize).max(1)
}

/// Returns a list of named items, and operations that each select one of them.
fn named_items(suite: &Suite, scale: usize) -> Inputs {
    let times = times(suite, scale);
    let directory = fixtures::fresh(suite, "interpolate");
    let write = |name: &str, text: String| std::fs::write(directory.join(name), text).unwrap();
    let (items, count) = (times(ITEMS), times(ITEM_OPS));
    let (mut manifest, mut ops) = (String::from("items:\n"), String::new());
    for number in 0..items {
        writeln!(manifest, "- name: item{number}\n  text: the text of this item\n  count: {number}").unwrap();
    }
    for number in 0..count {
        let path = format!("/items/name=item{}/text", number * 7919 % items);
        writeln!(ops, "- type: replace\n  path: {path}\n  value: another text").unwrap();
    }
    write("manifest.yml", manifest);
    write("ops0.yml", ops);
    write("variables.yml", "{}\n".to_owned());
    Inputs::new(directory, 1, format!("{items} items, {count} ops"))
}

fn inputs(suite: &Suite, scale: usize, sizes: &Sizes) -> Inputs {
    let times = times(suite, scale);
    let directory = fixtures::fresh(suite, "interpolate");
    let write = |name: &str, text: String| std::fs::write(directory.join(name), text).unwrap();
    let (ops_files, ops_count) = (sizes.ops_files, times(sizes.ops));
    let (manifest_bytes, variable_count) = (times(sizes.manifest_bytes), times(sizes.variables));
    let (manifest, jobs) = manifest(manifest_bytes, variable_count);
    write("manifest.yml", manifest);
    for file in 0..ops_files {
        write(&format!("ops{file}.yml"), ops(file, ops_count, jobs));
    }
    let mut variables = String::new();
    for number in 0..variable_count {
        writeln!(variables, "var{number}: value-of-{number}-0123456789abcdefghij").unwrap();
    }
    write("variables.yml", variables);
    let size = format!(
        "{:.2} MiB, {ops_files} × {ops_count} ops, {variable_count} variables",
        manifest_bytes as f64 / 1048576.0
    );
    Inputs::new(directory, ops_files, size)
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
        let path = format!("/instance_groups/name=bosh/jobs/name=job{job}/properties");
        match op % 4 {
            0 => writeln!(
                text,
                "- type: replace\n  path: {path}/p{}\n  value: {{from: ops{file}}}",
                op % PROPERTIES
            ),
            1 => writeln!(text, "- type: replace\n  path: {path}/new{file}?/deep/er\n  value: [1, 2, 3]"),
            2 => writeln!(text, "- type: replace\n  path: {path}/list?/-\n  value: ((var0))"),
            _ => writeln!(text, "- type: remove\n  path: {path}/gone{op}?"),
        }
        .unwrap();
    }
    text
}
