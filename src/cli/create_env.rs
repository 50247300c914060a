//! `monopile create-env`: creates or updates an environment.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::DeployArgs;
use super::finish::CommandResult;
use super::plan;
use super::session::Session;
use base::{ErrorKind, Result};
use engine::deploy;

#[derive(Debug, Clone, Args)]
pub(super) struct CreateEnvArgs {
    #[command(flatten)]
    deploy: DeployArgs,

    /// Only show the plan, as `monopile plan` does; change nothing
    #[arg(long)]
    dry_run: bool,

    /// Apply the plan that `monopile plan --out FILE` saved; refuse if it is outdated
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "dry_run")]
    plan: Option<PathBuf>,
}

impl CreateEnvArgs {
    /// Returns true for `--dry-run`.
    pub(super) fn reserves_stdout(&self) -> bool {
        self.dry_run
    }

    pub(super) fn run(self, session: &Session) -> Result<CommandResult> {
        if self.dry_run {
            return plan::make_plan_report(self.deploy, session)
                .and_then(|plan_report| plan::show(&plan_report, session));
        }
        let plan = self.plan.as_deref().map(|path| {
            let text = manifest::read_text(path, "plan")?;
            deploy::PlanReport::parse(&text, &path.display().to_string())
        });
        let plan = plan.transpose()?;
        session.begin_document(self.deploy.manifest());
        session.begin_log("create-env");
        let (request, prepared_run) = self.deploy.prepare(session)?;
        let result = deploy::create_env(&request, plan.as_ref(), &prepared_run.run);
        // The first step of a saved plan makes it outdated.
        const OUTDATED_NOTE: &str = "the saved plan is outdated";
        let is_used_up = plan.is_some() && session.has_started_a_step();
        result.map(CommandResult::Summary).map_err(|error| match error.kind() {
            _ if !is_used_up => error,
            ErrorKind::Interrupted(_) => {
                error.with_note(OUTDATED_NOTE).with_hint("run the same command without --plan to continue")
            }
            _ => error.with_note(OUTDATED_NOTE).with_hint("run the next command without --plan"),
        })
    }
}
