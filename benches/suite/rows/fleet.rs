//! Measures `status --all` on many environments, whose agents answer.

use std::fs;
use std::path::Path;

use super::{MEMORY_KIB, Row};
use crate::Suite;
use crate::findings::{Candidate, Findings, Sample, Unit, measure_interleaved};
use crate::process;
use crate::support::hello::Hello;

pub(super) const ROW: Row = Row { name: "fleet", work: "status --all of 1,000 environments", measure };

/// The number of environments at ×16.
const ENVIRONMENTS: u64 = 1000;
/// The time that they may take, in milliseconds.
const DEMANDED_TIME_MS: f64 = 10_000.0;

fn measure(suite: &Suite) -> Findings {
    let mut findings = Findings::default();
    // All environments have copies of one state, so that one agent answers for all.
    let hello = Hello::new();
    hello.create(&[]).success();
    let state = hello.world.read("state.json");
    let fleet = hello.world.path("fleet");
    for scale in [1, 4, 16] {
        let number = suite.size(ENVIRONMENTS) * u64::from(scale) / 16;
        for index in 0..number {
            add(&hello, &fleet.join(format!("{index:04}")), &state);
        }
        let all = || {
            let mut command = hello.world.monopile(["status", "--all", "fleet", "--no-cpi"]);
            Sample::of(&process::run(&mut command))
        };
        let size = format!("{number} environments");
        let mut candidates = [Candidate::new("status --all --no-cpi", all)];
        for figure in
            measure_interleaved(&mut candidates, suite.rounds(5), (scale, &size, Unit::Milliseconds))
        {
            findings.add_figure(figure);
        }
    }
    hello.delete(&[]).success();
    if let Some((figure, all)) = findings.find("status --all --no-cpi", 16) {
        let (time, peak) = (all.median / DEMANDED_TIME_MS, all.peak_kib.unwrap_or_default());
        findings.demand("1,000 environments in at most 10 s", figure, Some(time), time <= 1.0);
        let share_of_limit = peak as f64 / MEMORY_KIB as f64;
        findings.demand("each process under 64 MiB", figure, Some(share_of_limit), peak <= MEMORY_KIB);
    }
    findings
}

/// Adds an environment with a trusted env file, unless it is there.
fn add(hello: &Hello, directory: &Path, state: &str) {
    let path = directory.join(".monopile.yml");
    if path.exists() {
        return;
    }
    fs::create_dir_all(directory).unwrap();
    fs::write(directory.join("state.json"), state).unwrap();
    let creds = hello.world.path("creds.yml").display().to_string();
    fs::write(&path, hello.env_file("state.json", &creds)).unwrap();
    hello.world.run(["trust", path.to_str().unwrap()]).success();
}
