//! `monopile cpi list` and the hidden command `cpis`: show the API version and formats of every CPI of a
//! manifest.

use clap::Args;

use crate::cli::environment_args::EnvironmentArgs;
use crate::cli::finish::CommandResult;
use crate::cli::resources::{begin, yes_or_no};
use crate::cli::session::Session;
use crate::cli::table::{Layout, Table};
use base::text::shell_word;
use base::{Error, Result};
use engine::resources::{self, ListedCpi};
use manifest::SavePolicy;

#[derive(Debug, Clone, Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    target: EnvironmentArgs,
}

impl ListArgs {
    pub(in crate::cli) fn run(self, session: &Session) -> Result<CommandResult> {
        let (mut target, prepared_run) = begin(&self.target, false, session, "cpi-list")?;
        target.inputs.save_policy = SavePolicy::Never;
        let cpis = resources::list_cpis(&target, &prepared_run.run)?;
        let silent_cpis: Vec<String> = cpis.iter().filter(|cpi| !cpi.is_reachable).map(name).collect();
        let cpis_to_ask: Vec<Option<String>> =
            cpis.iter().filter(|cpi| !cpi.is_reachable).map(|cpi| cpi.name.clone()).collect();
        let output = match session.globals.prints_json() {
            true => CommandResult::json(&cpis)?,
            false => CommandResult::Output(cpis_table(cpis, &session.layout()).into_bytes()),
        };
        Ok(match silent_cpis.is_empty() {
            true => output,
            false => output.with_problem(
                Error::failure(format!("not every CPI answers: {}", silent_cpis.join(", "))).with_hint(
                    match cpis_to_ask.as_slice() {
                        [Some(name)] => {
                            format!("see why: `monopile cpi info MANIFEST --cpi {}`", shell_word(name))
                        }
                        _ => "see why: `monopile cpi info MANIFEST`".to_owned(),
                    },
                ),
            ),
        })
    }
}

/// Formats the version of a CPI, as it reports it, and its release.
pub(in crate::cli) fn describe_versions(version: Option<&str>, release: Option<&str>) -> String {
    version.into_iter().chain(release).collect::<Vec<_>>().join(", ")
}

fn name(cpi: &ListedCpi) -> String {
    cpi.name.clone().unwrap_or_else(|| "the default CPI".to_owned())
}

fn cpis_table(cpis: Vec<ListedCpi>, layout: &Layout) -> String {
    let mut table =
        Table::new(["Name", "Type", "Version", "API version", "Stemcell formats", "Reachable", "Note"]);
    for cpi in cpis {
        let note = match (&cpi.name, cpi.problem) {
            // Further lines are the end of a log, which `cpi info` shows.
            (_, Some(problem)) => {
                let first_line = problem.lines().next().unwrap_or_default();
                first_line.trim_end_matches(':').to_owned()
            }
            (None, None) => "the default CPI".to_owned(),
            (Some(_), None) => String::new(),
        };
        let formats = match (cpi.is_reachable, cpi.stemcell_formats) {
            (_, Some(formats)) => formats.join(", "),
            (true, None) => "unknown".to_owned(),
            (false, None) => String::new(),
        };
        let version = describe_versions(cpi.version.as_deref(), cpi.release.as_deref());
        let api = cpi.api_version.map(|version| version.to_string()).unwrap_or_default();
        let (name, reachable) = (cpi.name.unwrap_or_default(), yes_or_no(cpi.is_reachable));
        table.add_row([name, cpi.kind, version, api, formats, reachable, note]);
    }
    table.format(layout)
}
