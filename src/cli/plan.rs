//! `monopile plan`: shows the changes that create-env would make.

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};

use super::finish::CommandResult;
use super::session::Session;
use super::{DeployArgs, env_vars};
use crate::ui;
use base::exit_code;
use base::files::directory::{check_directory, parent};
use base::files::durable::write_atomically;
use base::text::{comma_list, shell_word};
use base::{Error, Result};
use engine::deploy::{self, PlanAction, PlanReport};
use engine::history::{self, RecordedRun, RunOutcome};
use engine::run_context::RunContext;
use manifest::{Inputs, SavePolicy};

#[derive(Debug, Clone, Args)]
pub(super) struct PlanArgs {
    #[command(flatten)]
    deploy: DeployArgs,

    /// Save the plan for `monopile create-env --plan FILE`
    ///
    /// Fails if variables have no values yet: `plan` does not save the values that it generates, so a later
    /// run would have other ones. Generate them first, with `monopile interpolate MANIFEST --vars-store FILE
    /// --path /name`.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    out: Option<PathBuf>,

    /// Exit with code 7 if changes are pending or the agent does not answer, and 0 if not
    #[arg(long)]
    detailed_exitcode: bool,
}

impl PlanArgs {
    /// Makes the plan, prints it, and saves it with `--out`. Refuses to save a plan for which values must
    /// still be generated, because the deploy would generate others.
    pub(super) fn run(self, session: &Session) -> Result<CommandResult> {
        if let Some(path) = &self.out {
            check_directory(parent(path), "--out")?;
            check_out_file(path)?;
        }
        let (plan_report, inputs) = make_plan(self.deploy, session)?;
        if let (Some(path), false) = (&self.out, plan_report.generated_variables.is_empty()) {
            return Ok(show(&plan_report, session)?.with_problem(unsaved_plan_error(
                &plan_report,
                &inputs,
                path,
            )));
        }
        if let Some(path) = &self.out {
            let text = serde_json::to_string_pretty(&plan_report)
                .map_err(|error| Error::failure("encoding the plan as JSON failed").with_source(error))?;
            write_atomically(path, format!("{text}\n").as_bytes()).map_err(|error| {
                Error::io(format!("writing the plan '{}'", path.display()), error)
                    .with_path_hint(path, "--out FILE")
            })?;
        }
        let mut output = show(&plan_report, session)?;
        if let Some(path) = &self.out {
            let apply_command = session.complete_commands(&plan_report.command(&path.to_string_lossy()));
            let note = format!("saved the plan to '{}'; apply it: {apply_command}", path.display());
            match &mut output {
                CommandResult::Output(text) if !session.globals.prints_json() => {
                    text.extend_from_slice(base::text::clean(&format!("{note}\n")).as_bytes());
                }
                _ => session.reporter.note(note),
            }
        }
        let has_pending_changes = self.detailed_exitcode && plan_report.action != PlanAction::Nothing;
        Ok(if has_pending_changes { output.with_exit_code(exit_code::CHANGES_PENDING) } else { output })
    }
}

/// Fails if saving a plan would overwrite a file that is none.
fn check_out_file(path: &Path) -> Result<()> {
    // A file that cannot be read, or is too large for a plan, is none.
    let is_plan = || manifest::read_text(path, "plan").is_ok_and(|text| PlanReport::is_saved_plan(&text));
    let has_content = path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() > 0);
    if !has_content || is_plan() {
        return Ok(());
    }
    Err(Error::invalid(format!("'{}' exists, and is not a saved plan", path.display()))
        .with_note("it was not overwritten")
        .with_hint("name another file: `monopile SAME-COMMAND --out hello.plan`"))
}

/// Makes the plan without changing anything.
pub(super) fn make_plan_report(deploy: DeployArgs, session: &Session) -> Result<PlanReport> {
    make_plan(deploy, session).map(|(plan_report, _)| plan_report)
}

/// Makes the plan without changing anything, and returns it with its inputs.
fn make_plan(deploy: DeployArgs, session: &Session) -> Result<(PlanReport, Inputs)> {
    let (mut request, prepared_run) = deploy.prepare(session)?;
    request.inputs.save_policy = SavePolicy::Never;
    note_run_in_progress(&prepared_run.run);
    let plan_report = deploy::plan_env(&request, &prepared_run.run)?;
    Ok((plan_report, request.inputs))
}

/// Notes a run on this machine that changes the same environment.
fn note_run_in_progress(run: &RunContext) {
    // Without the history, as on a machine that cannot write it, the plan is as useful.
    let Ok(directory) = env_vars::HISTORY.path() else { return };
    let runs = history::list(&directory, Some(&run.paths.storage.path_or_url())).unwrap_or_default();
    if let Some(RecordedRun { record, .. }) =
        runs.iter().find(|recorded_run| recorded_run.outcome == RunOutcome::Running)
    {
        run.reporter.note(format!(
            "`{}` (pid {}, since {}) is in progress; when it ends, this plan is outdated",
            record.command, record.pid, record.started_at
        ));
    }
}

/// Returns the error for a plan that no later run could take, because each run generates other values.
fn unsaved_plan_error(plan_report: &PlanReport, inputs: &Inputs, path: &Path) -> Error {
    let names = comma_list(&plan_report.generated_variables);
    // The hint gets the options of the command line, or the env file that names the vars store.
    let store = inputs.default_vars_store.as_ref().filter(|_| inputs.vars_store.is_none());
    let store = store.map(|store| format!(" --vars-store {}", shell_word(&store.to_string_lossy())));
    let store = store.unwrap_or_default();
    Error::invalid(format!(
        "the plan was not saved to '{}': these variables have no saved values yet: {names}",
        path.display()
    ))
    .with_note("plan saves no values that it generates, and create-env would generate other ones")
    .with_hint(format!(
        "generate and save them first: `monopile interpolate MANIFEST{store} --path /name`, which prints \
         only the name; then run the same command again"
    ))
}

/// Formats the plan as output.
pub(super) fn show(plan_report: &PlanReport, session: &Session) -> Result<CommandResult> {
    if session.globals.prints_json() {
        return CommandResult::json(plan_report);
    }
    let text = session.complete_commands(&format!("{}\n", plan_report.text().join("\n")));
    let mut text = session.redactor.clean_and_redact(&text);
    if let Some(columns) = session.columns() {
        text = ui::wrap(&text, columns);
    }
    Ok(CommandResult::Output(text.into_bytes()))
}
