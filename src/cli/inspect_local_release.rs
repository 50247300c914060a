//! `monopile inspect-local-release`, and the tables of all commands that print a release.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::finish::Finished;
use super::table::Table;
use super::{paths, session::Session};
use artifact::inspect::ReleaseReport;
use artifact::{Source, release};
use base::Result;

#[derive(Debug, Clone, Args)]
pub(super) struct InspectLocalReleaseArgs {
    /// Path to the release: a tarball, or a directory in source form
    #[arg(value_name = "PATH-TO-RELEASE", value_hint = ValueHint::AnyPath)]
    path: PathBuf,
}

impl InspectLocalReleaseArgs {
    pub(super) fn run(self, session: &Session) -> Result<Finished> {
        let path = paths::absolute(&paths::expand(&self.path, paths::home().as_deref()))?;
        let scratch = session.scratch()?;
        let stage = session.reporter.stage(format!("Reading '{}'", path.display()));
        let release = release::open(&Source::local(&path)?, None, scratch.path(), &stage)?;
        stage.finish();
        show(session, &ReleaseReport::new(&release, &path.display().to_string()))
    }
}

/// Prints the report as tables, or as JSON with `--json`.
pub(super) fn show(session: &Session, report: &ReleaseReport) -> Result<Finished> {
    if session.globals.json {
        return Finished::json(report);
    }
    let mut summary = Table::new(["Name", "Version", "Commit Hash", "Archive"]);
    let mark = if report.uncommitted_changes { "+" } else { "" };
    let commit = format!("{}{mark}", report.commit_hash);
    summary.row([report.name.clone(), report.version.clone(), commit, report.archive.clone()]);

    let mut jobs = Table::new(["Job", "Digest", "Packages"]);
    for job in &report.jobs {
        jobs.row([format!("{}/{}", job.name, job.fingerprint), job.digest.clone(), job.packages.join("\n")]);
    }

    let compiled = report.packages.iter().any(|package| package.os.is_some());
    let mut packages = match compiled {
        true => Table::new(["Package", "Digest", "Dependencies", "OS", "OS Version"]),
        false => Table::new(["Package", "Digest", "Dependencies"]),
    };
    for package in &report.packages {
        packages.row([
            format!("{}/{}", package.name, package.fingerprint),
            package.digest.clone(),
            package.dependencies.join("\n"),
            package.os.clone().unwrap_or_default(),
            package.os_version.clone().unwrap_or_default(),
        ]);
    }
    let layout = session.layout();
    let text = format!("{}\n{}\n{}", summary.print(&layout), jobs.print(&layout), packages.print(&layout));
    Ok(Finished::Output(text.into_bytes()))
}
