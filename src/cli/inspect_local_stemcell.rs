//! `monopile inspect-local-stemcell`: shows the name, version and format of a stemcell.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::finish::CommandResult;
use super::table::Table;
use super::{paths, session::Session};
use crate::ui::bosh;
use artifact::inspect::StemcellReport;
use artifact::{ArtifactKind, Cache, Source};
use base::Result;

const TABLE_HEADER: [&str; 5] = ["Name", "OS", "Version", "Infrastructure", "Hypervisor"];

#[derive(Debug, Clone, Args)]
pub(super) struct InspectLocalStemcellArgs {
    /// Stemcell: a tarball, or a directory in source form
    #[arg(value_name = "PATH", value_hint = ValueHint::AnyPath)]
    path: PathBuf,
}

impl InspectLocalStemcellArgs {
    pub(super) fn run(self, session: &Session) -> Result<CommandResult> {
        let path = paths::expand(&self.path, paths::home().as_deref());
        let source = Source::from_command_line("the stemcell", &path, paths::absolute(&path)?)?;
        let cache = Cache::open(&session.cache_directory()?)?;
        let identity =
            cache.identify(ArtifactKind::Stemcell, &source, None, "the stemcell", &session.reporter)?;
        let report = StemcellReport::new(&source, &identity)?;
        if let Some(document) = session.document() {
            document.add_table(bosh::Table {
                row_type: "stemcell-metadata",
                header: TABLE_HEADER.to_vec(),
                rows: vec![vec![
                    report.name,
                    report.os,
                    report.version,
                    report.infrastructure,
                    report.hypervisor,
                ]],
            });
            return Ok(CommandResult::Document);
        }
        if session.globals.prints_json() {
            return CommandResult::json(&report);
        }
        let mut table = Table::new(TABLE_HEADER);
        table.add_row([report.name, report.os, report.version, report.infrastructure, report.hypervisor]);
        Ok(CommandResult::Output(table.format(&session.layout()).into_bytes()))
    }
}
