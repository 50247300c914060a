//! Measures `create-env` when nothing has changed since the last run.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use super::{MEMORY_KIB, Row};
use crate::Suite;
use crate::findings::{Candidate, Figure, Findings, Sample, Unit, measure_interleaved};
use crate::fixtures;
use crate::process;
use crate::support::bosh;
use crate::support::hello::Hello;

pub(super) const ROW: Row = Row {
    name: "unchanged",
    work: "`create-env` with nothing changed: stemcell of 1 GiB, releases of 2 GiB",
    measure,
};

const STEMCELL: u64 = 1 << 30;
const OURS: &str = "create-env, nothing changed";
/// The system calls that read a file. A call counts with its result, a mapping with its length.
const READING: &str = "read,readv,pread64,preadv,preadv2,mmap,sendfile,copy_file_range,splice";

fn measure(suite: &Suite) -> Findings {
    let mut findings = Findings::default();
    for scale in [1, 4, 16] {
        let bytes = suite.size(STEMCELL) / 16 * u64::from(scale);
        let size = format!("{} MiB + {} MiB", bytes >> 20, bytes >> 19);
        let hello = environment(bytes);
        let command = || hello.builtin_command(&["create-env"], &["-n"]);
        process::run(&mut command());
        // A run reads a file again that was written shortly before its last reading. So the first run after
        // writing is not typical.
        std::thread::sleep(Duration::from_millis(100));
        process::run(&mut command());
        let theirs = suite.bosh.as_ref().map(|bosh| (bosh, for_bosh(bosh, bytes)));
        let mut candidates = vec![Candidate::new(OURS, || Sample::of(&process::run(&mut command())))];
        if let Some((bosh, hello)) = &theirs {
            candidates.push(Candidate::new("bosh create-env, nothing changed", || {
                Sample::of(&process::run(&mut bosh::command(bosh, hello, "create-env")))
            }));
        }
        // `bosh` gets fewer rounds, because it reads all files and is slow.
        let rounds = suite.rounds(if theirs.is_some() { 5 } else { 25 });
        for figure in measure_interleaved(&mut candidates, rounds, (scale, &size, Unit::Milliseconds)) {
            let instructions = (figure.name == OURS).then(|| process::instructions(&command())).flatten();
            findings.add_figure(figure.with_instructions(instructions));
        }
        drop(candidates);
        if let Some((bosh, hello)) = &theirs {
            process::run(&mut bosh::command(bosh, hello, "delete-env"));
        }
        match bytes_read(&hello, command()) {
            Some(read) => {
                let sample = Sample { value: read as f64, peak_kib: None };
                findings.add_figure(Figure::new(
                    "read of stemcell and releases",
                    scale,
                    &size,
                    Unit::Bytes,
                    &[sample],
                ));
            }
            None => findings.note("what is read was not counted: there is no strace"),
        }
        let touched_samples = (1..=suite.rounds(3) as u64).map(|age| {
            touch(&hello, age);
            Sample::of(&process::run(&mut command()))
        });
        let samples: Vec<Sample> = touched_samples.collect();
        findings.add_figure(Figure::new(
            "the same, the stemcell touched",
            scale,
            &size,
            Unit::Milliseconds,
            &samples,
        ));
        hello.world.finish(hello.builtin_command(&["delete-env"], &["-n"])).success();
    }
    if let Some((number, figure)) = findings.find(OURS, 16) {
        let peak = figure.peak_kib.unwrap_or_default();
        findings.at_most("under 50 ms", number, 50.0);
        findings.demand("under 64 MiB", number, Some(peak as f64 / MEMORY_KIB as f64), peak <= MEMORY_KIB);
    }
    if let Some((number, figure)) = findings.find("read of stemcell and releases", 16) {
        let is_zero = figure.max == 0.0;
        findings.demand("no byte of them read", number, None, is_zero);
    }
    findings
}

/// Returns the hello environment with a stemcell of `bytes` bytes and two releases of the same size.
fn environment(bytes: u64) -> Hello {
    let mut hello = Hello::new();
    fixtures::write_local_stemcell(&hello.world.path("stemcell.tar"), bytes);
    let mut ops = "- {type: replace, path: /resource_pools/name=vms/stemcell, value: {url: \
        'file://../stemcell.tar'}}\n"
        .to_owned();
    for name in ["one", "two"] {
        let manifest = format!("name: {name}\nversion: '1'\ncommit_hash: abcdef0\njobs: []\npackages: []\n");
        let path = hello.world.path(format!("{name}.tar"));
        fixtures::write_padded_tar(&path, &[("release.MF", manifest.as_bytes())], bytes);
        ops += &format!(
            "- {{type: replace, path: /releases/-, value: {{name: {name}, url: 'file://../{name}.tar'}}}}\n"
        );
    }
    hello.add_ops("large.yml", &ops);
    hello
}

/// Returns the same environment for `bosh`, already deployed.
fn for_bosh(bosh: &Path, bytes: u64) -> Hello {
    let hello = fixtures::for_bosh(environment(bytes));
    for name in ["stemcell", "one", "two"] {
        fixtures::compress(&hello.world.path(format!("{name}.tar")));
    }
    process::run(&mut bosh::command(bosh, &hello, "create-env"));
    hello
}

/// Sets the modification time of the stemcell to a time in the past.
fn touch(hello: &Hello, age: u64) {
    let file = File::options().append(true).open(hello.world.path("stemcell.tar")).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(60 * age)).unwrap();
}

/// Counts the bytes that a command reads from the three files, as the kernel sees it.
fn bytes_read(hello: &Hello, command: Command) -> Option<u64> {
    let mut traced_command = Command::new(process::find("strace")?);
    let trace = hello.world.path("trace");
    traced_command.args(["-f", "-y", "-qq", "-e", &format!("trace={READING}"), "-o"]).arg(&trace);
    traced_command.arg(command.get_program()).args(command.get_args());
    hello.world.enter(&mut traced_command);
    process::run(traced_command.stderr(Stdio::inherit()));
    let text = std::fs::read_to_string(&trace).unwrap();
    let reads_artifact =
        |line: &&str| ["/stemcell.tar>", "/one.tar>", "/two.tar>"].iter().any(|name| line.contains(name));
    Some(text.lines().filter(reads_artifact).map(count).sum())
}

/// Returns the bytes of one traced call.
fn count(line: &str) -> u64 {
    let number = |text: &str| text.trim().parse().unwrap_or(0);
    match line.split_once("mmap(") {
        Some((_, arguments)) => arguments.split(',').nth(1).map_or(0, number),
        None => line
            .rsplit_once(" = ")
            .map_or(0, |(_, result)| number(result.split(' ').next().unwrap_or_default())),
    }
}
