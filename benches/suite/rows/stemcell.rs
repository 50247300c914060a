//! Measures verifying and unpacking a stemcell as the operator sees it: from the start of `create-env` until
//! the CPI receives the image.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{MEMORY_KIB, Row};
use crate::Suite;
use crate::findings::{Candidate, Findings, Sample, Unit, measure_interleaved};
use crate::fixtures::{self, Hashed};
use crate::process;
use crate::support::bosh;
use crate::support::hello::Hello;
use crate::worker;

pub(super) const ROW: Row = Row {
    name: "stemcell",
    work: "a stemcell of 1 GiB, fetched from the disk, verified (sha1) and unpacked",
    measure,
};

const IMAGE: u64 = 1 << 30;
const MONOPILE: &str = "create-env, until create_stemcell";
const REFERENCE: &str = "gunzip (zlib-rs) | tar x";
const WRITE: &str = "plain write";

fn measure(suite: &Suite) -> Findings {
    let mut findings = Findings::default();
    for scale in [1, 4, 16] {
        let bytes = suite.size(IMAGE) / 16 * u64::from(scale);
        let stemcell = fixtures::stemcell(suite, bytes);
        let size = format!("image of {} MiB", bytes >> 20);
        let environment = Environment::new(suite, &stemcell);
        let theirs = suite.bosh.as_ref().map(|bosh| (bosh, Environment::for_bosh(suite, &stemcell)));
        let mut candidates = vec![
            Candidate::new(MONOPILE, || environment.measure()),
            Candidate::new(REFERENCE, || {
                let mut gunzip = worker::command("gunzip");
                gunzip.arg(&stemcell.path);
                untar(suite, gunzip)
            }),
            Candidate::new(WRITE, || write(suite, "write", bytes)),
            Candidate::new("plain write, fsync", || write(suite, "write-through", bytes)),
        ];
        for program in ["gzip", "pigz"] {
            if let Some(path) = process::find(program) {
                candidates.push(Candidate::new(format!("{program} -dc | tar x"), {
                    let stemcell = &stemcell;
                    move || {
                        let mut gunzip = Command::new(&path);
                        gunzip.arg("-dc").arg(&stemcell.path);
                        untar(suite, gunzip)
                    }
                }));
            }
        }
        if let Some((bosh, environment)) = &theirs {
            candidates.push(Candidate::new("bosh create-env, until create_stemcell", || {
                environment.time_until_mark(bosh::command(bosh, &environment.hello, "create-env"))
            }));
        }
        for figure in
            measure_interleaved(&mut candidates, suite.rounds(5), (scale, &size, Unit::Milliseconds))
        {
            findings.add_figure(figure);
        }
    }
    judge(&mut findings);
    findings
}

fn judge(findings: &mut Findings) {
    let median = |what| findings.find(what, 16).map_or(f64::NAN, |(_, figure)| figure.median);
    let bar = median(REFERENCE).max(median(WRITE));
    let Some((number, figure)) = findings.find(MONOPILE, 16) else { return };
    let ratio = figure.median / bar;
    let peak =
        |scale| findings.find(MONOPILE, scale).and_then(|(_, figure)| figure.peak_kib).unwrap_or_default();
    let (small, large) = (peak(1), peak(16));
    findings.demand(
        "within 1.15 × of the slower of gunzip | tar x (zlib-ng class) and the disk",
        number,
        Some(ratio),
        ratio <= 1.15,
    );
    let growth = large as f64 / small as f64;
    findings.demand(
        &format!("under 64 MiB, flat in the stemcell's size (×16: {growth:.2} × the memory)"),
        number,
        Some(large as f64 / MEMORY_KIB as f64),
        large <= MEMORY_KIB && growth < 1.25,
    );
}

/// Runs `gunzip | tar x` into a new directory.
fn untar(suite: &Suite, mut gunzip: Command) -> Sample {
    let destination = fixtures::fresh(suite, "untar");
    let start = std::time::Instant::now();
    let mut gunzip_process = gunzip.stdout(Stdio::piped()).spawn().unwrap();
    let pipe = gunzip_process.stdout.take().unwrap();
    let cost = process::attempt(Command::new("tar").args(["xf", "-", "-C"]).arg(&destination).stdin(pipe));
    assert!(gunzip_process.wait().unwrap().success() && cost.code == 0);
    let value = start.elapsed().as_secs_f64() * 1000.0;
    fs::remove_dir_all(&destination).unwrap();
    Sample { value, peak_kib: None }
}

fn write(suite: &Suite, how: &str, bytes: u64) -> Sample {
    let directory = fixtures::fresh(suite, "write");
    let cost = process::run(worker::command(how).arg(directory.join("file")).arg(bytes.to_string()));
    fs::remove_dir_all(&directory).unwrap();
    Sample { peak_kib: None, ..Sample::of(&cost) }
}

/// The hello environment with this stemcell, and a CPI that records when it gets the image and creates no VM.
struct Environment<'s> {
    hello: Hello,
    suite: &'s Suite,
    /// The file with the time of that moment, in nanoseconds since 1970.
    mark: PathBuf,
    cpi: PathBuf,
}

impl Environment<'_> {
    /// Creates the environment. Its CPI writes the time of `create_stemcell` into a file and refuses to
    /// create a VM, so that a run ends there.
    fn new<'s>(suite: &'s Suite, stemcell: &Hashed) -> Environment<'s> {
        let mut hello = Hello::new();
        let mark = hello.world.path("mark");
        let script = format!(
            r#"#!/bin/bash
request=$(cat)
case $request in
*'"info"'*) echo '{{"result": {{"api_version": 2, "stemcell_formats": ["local-directory"]}}, "error": null}}' ;;
*'"create_stemcell"'*)
    date +%s%N >'{}'
    echo '{{"result": "image", "error": null}}'
    ;;
*) echo '{{"result": null, "error": {{"type": "Bosh::Clouds::CloudError", "message": "enough", "ok_to_retry": false}}}}' ;;
esac
"#,
            mark.display()
        );
        let cpi = hello.world.write("instant", script);
        fs::set_permissions(&cpi, fs::Permissions::from_mode(0o755)).unwrap();
        let path = stemcell.path.display();
        hello.add_ops(
            "stemcell.yml",
            &format!(
                "- {{type: replace, path: /resource_pools/name=vms/stemcell, \
                 value: {{url: 'file://{path}', sha1: {}}}}}\n",
                stemcell.sha1
            ),
        );
        hello.add_ops(
            "instant.yml",
            &format!("- {{type: replace, path: /cloud_provider/cpi, value: {{path: {}}}}}\n", cpi.display()),
        );
        Environment { hello, suite, mark, cpi }
    }

    fn for_bosh<'s>(suite: &'s Suite, stemcell: &Hashed) -> Environment<'s> {
        let mut environment = Environment::new(suite, stemcell);
        bosh::adapt_for_bosh(&mut environment.hello, &environment.cpi);
        environment
    }

    /// Measures a first run without a cache.
    fn measure(&self) -> Sample {
        self.time_until_mark(self.hello.builtin_command(&["create-env"], &[]))
    }

    fn time_until_mark(&self, mut command: Command) -> Sample {
        let home = fixtures::fresh(self.suite, "home");
        for entry in fs::read_dir(self.hello.world.path("")).unwrap().flatten() {
            if entry.file_name().to_string_lossy().starts_with("state.json") {
                remove(&entry.path());
            }
        }
        remove(&self.mark);
        // Unpacking uses the disk of the results, because /tmp may be in memory.
        command.env("HOME", &home).env("TMPDIR", &home).env_remove("XDG_CACHE_HOME");
        let start = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let cost = process::attempt(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()));
        assert_ne!(cost.code, 0, "a VM was made of it");
        let text =
            fs::read_to_string(&self.mark).unwrap_or_else(|_| panic!("{command:?} did not get to the CPI"));
        let mark_time = Duration::from_nanos(text.trim().parse().unwrap());
        fs::remove_dir_all(&home).unwrap();
        Sample { value: (mark_time - start).as_secs_f64() * 1000.0, peak_kib: Some(cost.peak_kib) }
    }
}

fn remove(path: &Path) {
    let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
}
