//! `monopile delete-env`: deletes an environment and its state.

use std::time::Duration;

use clap::Args;

use super::env_vars;
use super::environment_args::EnvironmentArgs;
use super::finish::CommandResult;
use super::open_calls_args::OpenCallsArgs;
use super::scratch_args::ScratchArgs;
use super::session::Session;
use super::{AgentArgs, StoppingArgs, duration, named_file};
use crate::ui;
use base::{Error, ErrorKind, Result};
use engine::deploy::{self, Deletions};

#[derive(Debug, Clone, Args)]
pub(super) struct DeleteEnvArgs {
    #[command(flatten)]
    target: EnvironmentArgs,

    #[command(flatten)]
    agent: AgentArgs,

    /// Succeed if there is no state
    #[arg(long)]
    allow_missing: bool,

    #[command(flatten)]
    stopping: StoppingArgs,

    /// Delete the VM without stopping its jobs if the agent does not answer within this time
    ///
    /// The last attempt may take up to 10 seconds more.
    #[arg(long, value_name = "DURATION", default_value = "10s",
          value_parser = duration::parse)]
    agent_timeout: Duration,

    #[command(flatten)]
    open_calls: OpenCallsArgs,

    #[command(flatten)]
    scratch: ScratchArgs,
}

impl DeleteEnvArgs {
    /// Returns the question, after a list of what will be deleted.
    fn question(&self, deletions: &Deletions) -> Result<String> {
        let mut lines: Vec<String> =
            deletions.resources.iter().map(|line| format!("  {}", base::text::clean_line(line))).collect();
        if !lines.is_empty() {
            lines.insert(0, "This will be deleted:".to_owned());
        }
        if !deletions.unknown_resources.is_empty() {
            lines.push("This will not be deleted, because its CID is unknown:".to_owned());
            let unknown_resources = deletions.unknown_resources.iter();
            lines.extend(unknown_resources.map(|line| format!("  {}", base::text::clean_line(line))));
        }
        lines.insert(
            0,
            format!("state: {}", base::text::clean_line(&self.target.state_path_or_url()?.to_string_lossy())),
        );
        let environment_name = match &deletions.other_environment {
            Some(other) => other.name.clone(),
            None => self.target.environment_name(),
        };
        let environment = match environment_name {
            Some(name) => format!("environment '{}'", base::text::clean_line(&name)),
            None => format!("the environment recorded in '{}'", self.target.state_path_or_url()?.display()),
        };
        lines.push(match deletions.has_disks {
            true => format!("Delete {environment} and all data on its disks?"),
            false => format!("Delete {environment}?"),
        });
        Ok(lines.join("\n"))
    }

    /// Asks on a terminal. Returns the resources that may be deleted, or `None` for all.
    fn confirm(&self, session: &Session) -> Result<Option<Vec<String>>> {
        // The run asks about failed calls itself. A state that cannot be read is an error of the run.
        let storage = session.storage(&self.target.state_path_or_url()?)?;
        if deploy::records_only_failed_calls(&storage).unwrap_or_default() {
            return Ok(Some(Vec::new()));
        }
        let name = self.target.environment_name();
        let deletions = deploy::find_deletions(&storage, self.target.manifest(), name.as_deref());
        let other =
            deletions.as_ref().ok().and_then(|deletions| deletions.as_ref()?.other_environment.as_ref());
        if !session.is_interactive() {
            return match other {
                None => Ok(None),
                Some(other) => Err(Error::invalid(other.to_string())
                    .with_note("nothing was deleted")
                    .with_hint("check --state and the manifest: they may be of two environments")
                    .with_rerun_hint(
                        "if only the `name` in the manifest has changed, set it back, then run the same \
                         command again",
                    )),
            };
        }
        if let Some(other) = other {
            session.reporter.warn(format!("{other}: is it the state of another environment?"));
        }
        let Ok(Some(deletions)) = deletions else { return Ok(Some(Vec::new())) };
        // The run stops at the call, and says what to do about it.
        if !deletions.unknown_resources.is_empty() && !self.open_calls.forget_open_calls {
            return Ok(Some(Vec::new()));
        }
        match ui::prompt::confirm(&self.question(&deletions)?)? {
            true => Ok(Some(deletions.resources)),
            false => Err(Error::new(ErrorKind::Declined, "not confirmed: nothing was deleted")),
        }
    }

    pub(super) fn run(self, session: &Session) -> Result<CommandResult> {
        named_file::check_is_manifest(self.target.manifest(), &self.target.state_path_or_url()?)?;
        let confirmed_resources = self.confirm(session)?;
        session.begin_document(self.target.manifest());
        session.begin_log("delete-env");
        let (inputs, mut prepared_run) = self.target.begin(session, self.scratch.keep_scratch)?;
        self.agent.apply(&mut prepared_run.run);
        let request = deploy::DeleteEnvRequest {
            inputs,
            confirmed_resources,
            stop_options: self.stopping.options(),
            agent_timeout: self.agent_timeout,
            allow_missing: self.allow_missing,
            forget_open_calls: self.open_calls.forget_open_calls,
            history_directory: env_vars::HISTORY.path().ok(),
            renderer_choice: self.target.renderer.into(),
            cpi_api_version: self.target.cpi_api_version(),
        };
        deploy::delete_env(&request, &prepared_run.run).map(CommandResult::Summary)
    }
}
