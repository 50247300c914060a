//! Measures `logs`, `inspect-local-release`, `state show` and `history` on large inputs. The first two are
//! compared with `tar | grep`, which reads the same file.

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::{MEMORY_KIB, Row};
use crate::Suite;
use crate::findings::{Candidate, Figure, Findings, Sample, Unit, measure_interleaved};
use crate::process;
use crate::support::World;
use crate::support::hello::Hello;
use crate::support::tarballs::{JobTarball, PackageTarball, ReleaseTarball};

pub(super) const ROW: Row = Row {
    name: "large",
    work: "logs of 256 MiB, a release of 256 MiB, a state and a history of 8 MiB",
    measure,
};

/// The size of the log and of the release at ×16, in bytes.
const BYTES: u64 = 256 << 20;
/// The size of the state and of the history at ×16, in bytes.
const DOCUMENT_BYTES: u64 = 8 << 20;
/// The number of records in the history, which is the largest.
const RECORDS: u64 = 100;
/// The maximum time, relative to `tar | grep`.
const TIMES_OF_TAR: f64 = 2.0;
/// The maximum growth of the time from ×1 to ×16.
const GROWTH: f64 = 18.0;

const LOGS: &str = "logs";
const LOGS_TO_FILE: &str = "logs --out";
const INSPECT: &str = "inspect-local-release";
const TAR_LOGS: &str = "tar xzO | grep, of the logs";
const TAR_RELEASE: &str = "tar xzO | grep, of the release";
const STATE: &str = "state show";
const HISTORY: &str = "history";

fn measure(suite: &Suite) -> Findings {
    let mut findings = Findings::default();
    let part = |full: u64, scale: u32| suite.size(full) / 16 * u64::from(scale);
    let scales = [1, 4, 16];
    scales.iter().for_each(|scale| documents(suite, &mut findings, *scale, part(DOCUMENT_BYTES, *scale)));
    scales.iter().for_each(|scale| logs(suite, &mut findings, *scale, part(BYTES, *scale)));
    scales.iter().for_each(|scale| release(suite, &mut findings, *scale, part(BYTES, *scale)));
    let median = |findings: &Findings, name: &str, scale: u32| {
        findings.find(name, scale).map(|(index, figure)| (index, figure.median)).unwrap()
    };
    let (index, logs) = median(&findings, LOGS, 16);
    let print_time = logs - median(&findings, LOGS_TO_FILE, 16).1;
    let inspect = median(&findings, INSPECT, 16);
    for (subject, (index, value), tar) in
        [("logs without fetching them: ", (index, print_time), TAR_LOGS), ("", inspect, TAR_RELEASE)]
    {
        let ratio = value / median(&findings, tar, 16).1;
        let must = format!("{subject}at most {TIMES_OF_TAR} × {tar}");
        findings.demand(&must, index, Some(ratio), ratio <= TIMES_OF_TAR);
    }
    for name in [STATE, HISTORY] {
        let (figure, large) = median(&findings, name, 16);
        let growth = large / median(&findings, name, 1).1;
        findings.demand(
            &format!("{name}: at most {GROWTH} × the time of ×1"),
            figure,
            Some(growth),
            growth <= GROWTH,
        );
    }
    for name in [LOGS, LOGS_TO_FILE, INSPECT, STATE, HISTORY] {
        let (index, figure) = findings.find(name, 16).unwrap();
        let peak = figure.peak_kib.unwrap_or_default();
        findings.demand(
            &format!("{name}: under 64 MiB of memory"),
            index,
            Some(peak as f64 / MEMORY_KIB as f64),
            peak <= MEMORY_KIB,
        );
    }
    findings
}

/// Measures printing and saving the log of a job, which the built-in agent packs.
fn logs(suite: &Suite, findings: &mut Findings, scale: u32, bytes: u64) {
    let hello = Hello::new();
    hello.create(&[]).success();
    write_log(&hello.find("work/cloud", "hello.stdout.log")[0], bytes);
    let out_path = hello.world.path("saved.tgz");
    let out_argument = out_path.to_str().unwrap();
    let save = || {
        let _ = fs::remove_file(&out_path);
        Sample::of(&process::run(&mut hello.command("logs", &["--out", out_argument])))
    };
    save();
    let print = || Sample::of(&process::run(&mut hello.command("logs", &[])));
    let archive = hello.world.path("archive.tgz");
    fs::copy(&out_path, &archive).unwrap();
    let mut candidates = [
        Candidate::new(LOGS, print),
        Candidate::new(LOGS_TO_FILE, save),
        Candidate::new(TAR_LOGS, || tar_and_grep(&archive)),
    ];
    let size = format!("{} MiB", bytes >> 20);
    for figure in measure_interleaved(&mut candidates, suite.rounds(3), (scale, &size, Unit::Milliseconds)) {
        findings.add_figure(figure);
    }
    drop(candidates);
    hello.delete(&[]).success();
}

/// Writes lines like those of a server until the file has this size.
fn write_log(path: &Path, bytes: u64) {
    let mut file = BufWriter::new(File::options().append(true).open(path).unwrap());
    let (mut length, mut number) = (0, 0_u64);
    while length < bytes {
        let line = format!(
            "2026-11-25T12:00:{:02}.{:06}Z INFO [request-{number:08x}] GET /v1/instances/{:05} status=200 \
             took={} ms\n",
            number / 1000 % 60,
            number * 37 % 1_000_000,
            number * 7919 % 100_000,
            number * 31 % 250,
        );
        file.write_all(line.as_bytes()).unwrap();
        length += line.len() as u64;
        number += 1;
    }
    file.flush().unwrap();
}

/// Measures reading a release with one large package.
fn release(suite: &Suite, findings: &mut Findings, scale: u32, bytes: u64) {
    let directory = crate::fixtures::fresh(suite, "large-release");
    let path = directory.join("content");
    File::create(&path).unwrap();
    write_log(&path, bytes);
    let package = PackageTarball::new("large", "", &[]).file("content", &fs::read_to_string(&path).unwrap());
    let job = JobTarball::new("job").spec("packages: [large]\n");
    let tarball =
        ReleaseTarball::new("large", "1").job(job).package(package).write(&directory.join("large.tgz"));
    let world = World::new();
    let inspect = || {
        Sample::of(&process::run(&mut world.monopile(["inspect-local-release", tarball.to_str().unwrap()])))
    };
    let mut candidates =
        [Candidate::new(INSPECT, inspect), Candidate::new(TAR_RELEASE, || tar_and_grep(&tarball))];
    let size =
        format!("{} MiB, a tarball of {} MiB", bytes >> 20, fs::metadata(&tarball).unwrap().len() >> 20);
    for figure in measure_interleaved(&mut candidates, suite.rounds(3), (scale, &size, Unit::Milliseconds)) {
        findings.add_figure(figure);
    }
    fs::remove_dir_all(&directory).unwrap();
}

fn tar_and_grep(archive: &Path) -> Sample {
    let script = "tar -xzOf \"$0\" | grep -c 'no such text'; [ $? -le 1 ]";
    Sample::of(&process::run(Command::new("bash").args(["-c", script]).arg(archive)))
}

/// Measures reading a state with many disks, and a full history.
fn documents(suite: &Suite, findings: &mut Findings, scale: u32, bytes: u64) {
    let hello = Hello::new();
    hello.create(&[]).success();
    let cost = |command: &mut Command| Sample::of(&process::run(command));
    let mut state = hello.state();
    let disk = |number: usize| {
        json!({
            "id": format!("00000000-0000-4000-8000-{number:012}"),
            "cid": format!("disk-{number}"),
            "size": 1024,
            "cloud_properties": {"type": "gp3", "comment": "x".repeat(150)},
        })
    };
    let one = serde_json::to_string_pretty(&disk(0)).unwrap().len();
    let disks = state["disks"].as_array_mut().unwrap();
    disks.extend((0..usize::try_from(bytes).unwrap() / one).map(disk));
    let small = hello.world.read("state.json");
    fs::write(hello.world.path("state.json"), serde_json::to_vec_pretty(&state).unwrap()).unwrap();
    // The memory of this process counts as that of its children.
    drop(state);
    let show =
        (0..suite.rounds(5)).map(|_| cost(&mut hello.state_command(&["state", "show"]))).collect::<Vec<_>>();
    fs::write(hello.world.path("state.json"), small).unwrap();
    let size = format!("{:.1} MiB", bytes as f64 / 1048576.0);
    findings.add_figure(Figure::new(STATE, scale, &size, Unit::Milliseconds, &show));

    fill_history(&hello, bytes);
    let history =
        (0..suite.rounds(5)).map(|_| cost(&mut hello.state_command(&["history"]))).collect::<Vec<_>>();
    findings.add_figure(Figure::new(HISTORY, scale, &size, Unit::Milliseconds, &history));
    hello.delete(&[]).success();
}

/// Copies the record of the first run until the history is full and has this size.
fn fill_history(hello: &Hello, bytes: u64) {
    let path = hello
        .find(".", ".json")
        .into_iter()
        .find(|path| path.components().any(|part| part.as_os_str() == "history"));
    let path = path.expect("create-env leaves a record");
    let mut record: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let stages = record["end"]["stages"].as_array_mut().expect("the run has stages");
    let stage = stages[0].clone();
    let one = serde_json::to_string_pretty(&stage).unwrap().len() as u64;
    for _ in 0..bytes / RECORDS / one {
        stages.push(stage.clone());
    }
    let text = serde_json::to_string_pretty(&record).unwrap();
    for number in 0..RECORDS - 1 {
        fs::write(path.with_file_name(format!("20260101T000000.{number:03}Z-copy.json")), &text).unwrap();
    }
}
