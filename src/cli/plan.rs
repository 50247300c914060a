//! `monopile plan`: shows the changes that create-env would make.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::DeployArgs;
use super::finish::CommandResult;
use super::session::Session;
use crate::ui;
use base::exit_code;
use base::files::durable::{check_directory, parent, write_atomically};
use base::{Error, Result};
use engine::deploy::{self, PlanAction, PlanReport};

#[derive(Debug, Clone, Args)]
pub(super) struct PlanArgs {
    #[command(flatten)]
    deploy: DeployArgs,

    /// Save the plan for `monopile create-env --plan FILE`
    ///
    /// plan saves no variables that it generates: generate missing ones first, with `monopile interpolate
    /// MANIFEST --vars-store FILE`.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    out: Option<PathBuf>,

    /// Exit with code 7 if changes are pending, and 0 if not
    #[arg(long)]
    detailed_exitcode: bool,
}

impl PlanArgs {
    pub(super) fn run(self, session: &Session) -> Result<CommandResult> {
        let plan_report = plan_report(self.deploy, session)?;
        if let Some(path) = &self.out {
            let text = serde_json::to_string_pretty(&plan_report)
                .map_err(|error| Error::environment("encoding the plan as JSON failed").with_source(error))?;
            check_directory(parent(path))?;
            write_atomically(path, format!("{text}\n").as_bytes())
                .map_err(|error| Error::io(format!("writing the plan '{}'", path.display()), error))?;
        }
        let mut finished = show(&plan_report, session)?;
        if let Some(path) = &self.out {
            let saved = format!("saved the plan to '{}'", path.display());
            match &mut finished {
                CommandResult::Output(text) if !session.globals.json() => {
                    text.extend_from_slice(base::text::clean(&format!("{saved}\n")).as_bytes());
                }
                _ => session.reporter.note(saved),
            }
        }
        let changes = self.detailed_exitcode && plan_report.action != PlanAction::Nothing;
        Ok(if changes { finished.with_exit_code(exit_code::CHANGES_PENDING) } else { finished })
    }
}

/// Makes the plan without changing anything.
pub(super) fn plan_report(deploy: DeployArgs, session: &Session) -> Result<PlanReport> {
    let (mut request, prepared_run) = deploy.prepare(session)?;
    request.inputs.discard_generated = true;
    deploy::plan_env(&request, &prepared_run.run)
}

/// Formats the plan as output.
pub(super) fn show(plan_report: &PlanReport, session: &Session) -> Result<CommandResult> {
    if session.globals.json() {
        return CommandResult::json(plan_report);
    }
    let mut text = session.redactor.clean_and_redact(&format!("{}\n", plan_report.text().join("\n")));
    if let Some(columns) = session.columns() {
        text = ui::wrap(&text, columns);
    }
    Ok(CommandResult::Output(text.into_bytes()))
}
