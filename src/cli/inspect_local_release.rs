//! `monopile inspect-local-release`: shows the jobs and packages of a release. Also has the tables of all
//! commands that print a release.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::finish::CommandResult;
use super::table::Table;
use super::{paths, session::Session};
use crate::ui::bosh;
use artifact::inspect::{JobRow, PackageRow, ReleaseReport};
use artifact::{Source, release};
use base::Result;

#[derive(Debug, Clone, Args)]
pub(super) struct InspectLocalReleaseArgs {
    /// Release: a tarball, or a directory in source form
    #[arg(value_name = "PATH", value_hint = ValueHint::AnyPath)]
    path: PathBuf,
}

impl InspectLocalReleaseArgs {
    pub(super) fn run(self, session: &Session) -> Result<CommandResult> {
        let typed_path = paths::expand(&self.path, paths::home().as_deref());
        let path = paths::absolute(&typed_path)?;
        let source = Source::from_command_line("the release", &typed_path, path.clone())?;
        let scratch = session.create_scratch()?;
        let stage = session.reporter.begin_stage(format!("Reading '{}'", typed_path.display()));
        let release = release::open(&source, None, scratch.path(), &stage)?;
        stage.finish();
        // The bosh CLI prints the path of the archive as it was given.
        let archive = if session.document().is_some() { &self.path } else { &path };
        show(session, &ReleaseReport::new(&release, &archive.display().to_string()))
    }
}

/// Prints the report as tables, or as JSON with `--json`.
pub(super) fn show(session: &Session, report: &ReleaseReport) -> Result<CommandResult> {
    let tables = [summary(report), jobs(report), packages(report)];
    if let Some(document) = session.document() {
        tables.into_iter().for_each(|table| document.add_table(table));
        return Ok(CommandResult::Document);
    }
    if session.globals.prints_json() {
        return CommandResult::json(report);
    }
    let layout = session.layout();
    let [release, jobs, packages] = tables;
    let texts = [("release", release), ("job", jobs), ("package", packages)].map(|(kind, source)| {
        let mut table = Table::for_kind(kind, source.header);
        source.rows.into_iter().for_each(|row| table.add_row(row));
        table.format(&layout)
    });
    Ok(CommandResult::Output(texts.join("\n").into_bytes()))
}

fn summary(report: &ReleaseReport) -> bosh::Table {
    let mark = if report.has_uncommitted_changes { "+" } else { "" };
    let commit = format!("{}{mark}", report.commit_hash);
    bosh::Table {
        row_type: "",
        header: vec!["Name", "Version", "Commit Hash", "Archive"],
        rows: vec![vec![report.name.clone(), report.version.clone(), commit, report.archive.clone()]],
    }
}

fn jobs(report: &ReleaseReport) -> bosh::Table {
    let row = |job: &JobRow| {
        vec![format!("{}/{}", job.name, job.fingerprint), job.digest.clone(), job.packages.join("\n")]
    };
    bosh::Table {
        row_type: "jobs",
        header: vec!["Job", "Digest", "Packages"],
        rows: report.jobs.iter().map(row).collect(),
    }
}

fn packages(report: &ReleaseReport) -> bosh::Table {
    let mut header = vec!["Package", "Digest", "Dependencies"];
    if report.packages.iter().any(|package| package.os.is_some()) {
        header.extend(["OS", "OS Version"]);
    }
    let columns = header.len();
    let row = |package: &PackageRow| {
        let mut row = vec![
            format!("{}/{}", package.name, package.fingerprint),
            package.digest.clone(),
            package.dependencies.join("\n"),
            package.os.clone().unwrap_or_default(),
            package.os_version.clone().unwrap_or_default(),
        ];
        row.truncate(columns);
        row
    };
    bosh::Table { row_type: "packages", header, rows: report.packages.iter().map(row).collect() }
}
