//! The benchmark suite: measures the program's cost and its growth with size, and checks it against limits.
//!
//! ```sh
//! benches/run --help
//! ```
//!
//! Each row of [`rows::ROWS`] does one kind of work at several sizes, in turn with other programs that do the
//! same (`gzip` and `tar`, `curl`, Ruby, a `bosh` named by `$BOSH_CLI`). The results are written as a table,
//! as JSON and as plots. See docs/performance.md.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a measurement that cannot go on says so by panicking, and prints what it measured"
)]

mod findings;
mod fixtures;
mod process;
mod report;
mod rows;
mod worker;

#[expect(dead_code, reason = "the suite uses a part of what the tests share")]
#[path = "../../tests/it/support/mod.rs"]
mod support;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use rows::{ROWS, Row};

/// Measure the time and memory that the program needs
#[derive(Debug, Parser)]
#[command(
    name = "benches/run",
    after_help = "If $BOSH_CLI is the path of a bosh binary, some rows measure it side by side."
)]
pub struct Options {
    /// List the rows
    #[arg(long)]
    list: bool,

    /// Measure only this row (repeatable)
    #[arg(long = "only", value_name = "NAME")]
    selected_rows: Vec<String>,

    /// Use a sixteenth of the sizes and few runs, to check that all rows work
    #[arg(long)]
    quick: bool,

    /// The number of measurements of each kind of work
    #[arg(long, value_name = "N")]
    runs: Option<usize>,

    /// The directory for results; stemcells are unpacked there too
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// The directory of templates and their `context.json`, for the row `templates`
    #[arg(long, value_name = "DIR")]
    templates: Option<PathBuf>,

    // Cargo passes this option.
    #[arg(long, hide = true)]
    bench: bool,
}

/// Settings that the rows share.
pub struct Suite {
    /// True if sizes are a sixteenth of the full ones.
    pub is_quick: bool,
    runs: Option<usize>,
    /// The directory for results.
    pub output_directory: PathBuf,
    /// The directory of templates to measure with.
    pub templates: Option<PathBuf>,
    /// The `bosh` binary to compare with.
    pub bosh: Option<PathBuf>,
}

impl Suite {
    /// Returns the number of rounds for a measurement that needs `full_rounds` runs for a steady median.
    pub fn rounds(&self, full_rounds: usize) -> usize {
        self.runs.unwrap_or(if self.is_quick { full_rounds.div_ceil(8) } else { full_rounds })
    }

    /// Returns the size to measure, reduced by `--quick`.
    pub fn size(&self, full: u64) -> u64 {
        if self.is_quick { full / 16 } else { full }
    }
}

/// Measures the chosen rows and writes their results after each one. Fails if a limit is missed, except with
/// `--quick`, whose sizes are too small for the limits.
fn main() -> ExitCode {
    support::scripted::cpi::run_if_called();
    if let Some(code) = worker::run_if_called() {
        return code;
    }
    let options = Options::parse();
    if options.list {
        ROWS.iter().for_each(|row| println!("{:<14}{}", row.name, row.work));
        return ExitCode::SUCCESS;
    }
    if let Some(unknown) = options.selected_rows.iter().find(|name| ROWS.iter().all(|row| row.name != **name))
    {
        eprintln!("benches/run: there is no row '{unknown}'; `benches/run --list` lists the rows");
        return ExitCode::from(2);
    }
    let output_directory = options.out.unwrap_or_else(|| target().join("bench"));
    std::fs::create_dir_all(&output_directory)
        .unwrap_or_else(|error| panic!("{}: {error}", output_directory.display()));
    let suite = Suite {
        is_quick: options.quick,
        runs: options.runs,
        output_directory: output_directory.canonicalize().unwrap(),
        templates: options.templates,
        bosh: std::env::var_os("BOSH_CLI").map(PathBuf::from),
    };
    let is_selected = |row: &&Row| {
        options.selected_rows.is_empty() || options.selected_rows.iter().any(|name| name == row.name)
    };
    let mut results = Vec::new();
    for row in ROWS.iter().filter(is_selected) {
        eprintln!("measuring {}: {}", row.name, row.work);
        results.push((row, (row.measure)(&suite)));
        // Results are written after each row, so that they survive a later failure.
        report::write(&suite, &results);
    }
    println!("{}", std::fs::read_to_string(suite.output_directory.join(report::TABLE_FILE)).unwrap());
    let is_missed = results.iter().flat_map(|(_, findings)| &findings.checks).any(|check| !check.is_met);
    match is_missed && !suite.is_quick {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    }
}

/// Returns cargo's target directory; this program is `<target>/dist/deps/suite-…`.
fn target() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    program.ancestors().nth(3).unwrap().to_owned()
}
