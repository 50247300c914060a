//! `monopile delete-env`: deletes an environment and its state.

use std::time::Duration;

use clap::Args;

use super::environment_args::EnvironmentArgs;
use super::finish::CommandResult;
use super::open_calls_args::OpenCallsArgs;
use super::session::Session;
use super::workdir_args::WorkdirArgs;
use super::{AgentArgs, StoppingArgs, duration};
use crate::ui;
use base::{Error, ErrorKind, Result};
use engine::deploy;
use engine::state::Storage;

#[derive(Debug, Clone, Args)]
pub(super) struct DeleteEnvArgs {
    #[command(flatten)]
    on: EnvironmentArgs,

    #[command(flatten)]
    agent: AgentArgs,

    /// Succeed if there is no state
    #[arg(long)]
    allow_missing: bool,

    #[command(flatten)]
    stopping: StoppingArgs,

    /// Delete the VM without stopping its jobs if the agent does not answer within this time
    #[arg(long, value_name = "DURATION", default_value = "10s",
          value_parser = duration::parse)]
    agent_timeout: Duration,

    #[command(flatten)]
    open_calls: OpenCallsArgs,

    #[command(flatten)]
    workdir: WorkdirArgs,
}

impl DeleteEnvArgs {
    /// Returns the question, preceded by a list of the resources that will be deleted.
    fn question(&self, storage: &Storage) -> Result<String> {
        let mut lines: Vec<String> = deploy::deletions(storage)
            .unwrap_or_default()
            .iter()
            .map(|line| format!("  {}", base::text::clean_line(line)))
            .collect();
        if !lines.is_empty() {
            lines.insert(0, "This will be deleted:".to_owned());
        }
        let state = self.on.state()?;
        lines.push(format!(
            "Delete the environment recorded in {}, including its persistent disks?",
            state.display()
        ));
        Ok(lines.join("\n"))
    }

    pub(super) fn run(self, session: &Session) -> Result<CommandResult> {
        // The run itself asks about failed calls, and reports a state that cannot be read.
        let storage = session.storage(&self.on.state()?)?;
        let confirmed = !deploy::records_only_failed_calls(&storage).unwrap_or_default();
        if confirmed && session.interactive() && !ui::prompt::confirm(&self.question(&storage)?)? {
            return Err(Error::new(ErrorKind::Declined, "not confirmed: nothing was deleted"));
        }
        session.name_manifest(self.on.manifest());
        session.keep_log("delete-env");
        let (inputs, mut run_context) = self.on.begin(session, self.workdir.keep_workdir)?;
        self.agent.apply(&mut run_context.environment);
        let request = deploy::DeleteEnvRequest {
            inputs,
            confirmed,
            stopping: self.stopping.stopping(),
            agent_timeout: self.agent_timeout,
            allow_missing: self.allow_missing,
            forget_open_calls: self.open_calls.forget_open_calls,
            templates: self.on.templates.into(),
            cpi_api_version: self.on.cpi_api_version(),
        };
        deploy::delete_env(&request, &run_context.environment).map(CommandResult::Summary)
    }
}
