//! `monopile cpi info`: shows the API version and the stemcell formats of a CPI.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};
use serde_json::json;

use super::source::{SourceArgs, call_error, call_report};
use crate::cli::finish::CommandResult;
use crate::cli::session::Session;
use crate::cli::table::Table;
use crate::conformance::{self, FinishedCall};
use base::Result;
use engine::cpi::Method;

/// Show API version and stemcell formats of a CPI
///
/// Calls `info`, and prints request, answer and log. Changes nothing.
#[derive(Debug, Clone, Args)]
#[command(override_usage = "monopile cpi info [OPTIONS] [MANIFEST]\n       \
                      monopile cpi info [OPTIONS] --path EXE\n       \
                      monopile cpi info [OPTIONS] --replay FILE")]
pub(super) struct InfoArgs {
    /// Manifest that names the CPI [default: from the env file]
    #[arg(value_name = "MANIFEST", value_hint = ValueHint::FilePath, conflicts_with_all = ["path", "replay"])]
    manifest: Option<PathBuf>,

    #[command(flatten)]
    source: SourceArgs,
}

impl InfoArgs {
    /// Calls `info` and prints the answer, with the API version that a run would use.
    pub(super) fn run(self, session: &Session) -> Result<CommandResult> {
        let prepared_cpi = self.source.open(session, self.manifest.as_ref(), false, None)?;
        let finished_call =
            prepared_cpi.call_in_stage(session, "Asking the CPI for `info`", conformance::call_info)?;
        let timeout = prepared_cpi.cpi.timeout;
        let used_version =
            finished_call.info.as_ref().map(|info| info.api_version.min(prepared_cpi.highest_api_version));
        if session.globals.prints_json() {
            let info = finished_call.info.as_ref().map(|info| {
                json!({
                    "api_version": info.api_version,
                    "used_api_version": used_version,
                    "stemcell_formats": info.stemcell_formats,
                    "version": info.version,
                })
            });
            let document = json!({"cpi": prepared_cpi.name, "info": info, "call": finished_call});
            return CommandResult::json(&document)
                .map(|output| with_failure(output, &finished_call, timeout));
        }
        let mut text = String::new();
        if let Some(info) = &finished_call.info {
            let mut table = Table::new(["Property", "Value"]);
            let mut row = |name: &str, value: String| table.add_row([name.to_owned(), value]);
            row("CPI", prepared_cpi.name.clone());
            row("Version", info.version.clone().unwrap_or_default());
            row("API version", info.api_version.to_string());
            row("API version used", used_version.map(|version| version.to_string()).unwrap_or_default());
            let formats = info.stemcell_formats.as_ref().map(|formats| formats.join("\n"));
            row("Stemcell formats", formats.unwrap_or_default());
            for version in [1, 2] {
                let later_note = if version == 2 { " and later" } else { "" };
                let contract = finished_call.contract(version).map(|contract| contract.to_string());
                row(
                    &format!("Contract with stemcells of version {version}{later_note}"),
                    contract.unwrap_or_default(),
                );
            }
            text = format!("{}\n", table.format(&session.layout()));
        }
        text += &call_report(&finished_call);
        Ok(with_failure(CommandResult::Output(text.into_bytes()), &finished_call, timeout))
    }
}

/// Adds the error if `info` failed.
fn with_failure(output: CommandResult, finished_call: &FinishedCall, timeout: Duration) -> CommandResult {
    match finished_call.has_succeeded {
        true => output,
        false => output.with_problem(call_error(Method::Info.name(), finished_call, timeout)),
    }
}
