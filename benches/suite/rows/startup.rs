//! Measures the start time and the size of the program.

use std::process::Command;

use super::Row;
use crate::Suite;
use crate::findings::{Candidate, Figure, Findings, Sample, Unit, measure_interleaved};
use crate::process;
use crate::support::MONOPILE;

pub(super) const ROW: Row =
    Row { name: "startup", work: "`monopile --version`, and the size of the program", measure };

const SIZE: f64 = (20 << 20) as f64;

fn measure(suite: &Suite) -> Findings {
    let mut findings = Findings::default();
    let version = || {
        let mut command = Command::new(MONOPILE);
        command.arg("--version");
        command
    };
    let mut candidates = vec![
        Candidate::new("monopile --version", || Sample::of(&process::run(&mut version()))),
        Candidate::new("true", || Sample::of(&process::run(&mut Command::new("true")))),
    ];
    if let Some(bosh) = &suite.bosh {
        candidates.push(Candidate::new("bosh --version", move || {
            Sample::of(&process::run(Command::new(bosh).arg("--version")))
        }));
    }
    let figures =
        measure_interleaved(&mut candidates, suite.rounds(200), (1, "one start", Unit::Milliseconds));
    for figure in figures {
        let instructions =
            (figure.name == "monopile --version").then(|| process::instructions(&version())).flatten();
        findings.add_figure(figure.with_instructions(instructions));
    }
    findings.at_most("under 3 ms", 0, 3.0);
    let bytes = std::fs::metadata(MONOPILE).unwrap().len();
    let sample = Sample { value: bytes as f64, peak_kib: None };
    let size = findings.add_figure(Figure::new("the program", 1, "release build", Unit::Bytes, &[sample]));
    findings.at_most("under 20 MiB", size, SIZE);
    findings
}
