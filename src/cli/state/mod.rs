//! `monopile state`: shows, backs up and imports the state, and forgets records.

mod backup;
mod forget;
mod import;
mod show;
mod verify;

pub(super) use show::open_call;

use clap::{Args, Subcommand};

use super::finish::CommandResult;
use super::session::Session;
use crate::ui;
use base::{Error, ErrorKind, Result};
use engine::record_commands::ConsentRequest;

#[derive(Debug, Clone, Args)]
pub(super) struct StateCommandArgs {
    #[command(subcommand)]
    command: StateCommand,
}

#[derive(Debug, Clone, Subcommand)]
enum StateCommand {
    Show(show::ShowArgs),
    #[command(hide = true)]
    Verify(verify::VerifyArgs),
    Import(import::ImportArgs),
    Backup(backup::BackupArgs),
    Forget(forget::ForgetArgs),
}

impl StateCommandArgs {
    /// Returns true if the command has output of its own.
    pub(super) fn reserves_stdout(&self) -> bool {
        match &self.command {
            StateCommand::Show(_) | StateCommand::Verify(_) => true,
            StateCommand::Backup(args) => args.lists(),
            StateCommand::Import(_) | StateCommand::Forget(_) => false,
        }
    }

    pub(super) fn run(self, session: &Session) -> Result<CommandResult> {
        match self.command {
            StateCommand::Show(args) => args.run(session),
            StateCommand::Verify(args) => args.run(session),
            StateCommand::Import(args) => args.run(session),
            StateCommand::Backup(args) => args.run(session),
            StateCommand::Forget(args) => args.run(session),
        }
    }
}

/// Confirmation of a change.
#[derive(Debug, Clone, Args)]
struct ConsentArgs {
    /// Make the change without asking; required without a terminal
    #[arg(long)]
    yes: bool,
}

impl ConsentArgs {
    /// Asks on a terminal. Without one, `--yes` is required.
    fn confirm(&self, session: &Session, request: &ConsentRequest) -> Result<()> {
        if self.yes {
            return Ok(());
        }
        if !session.is_interactive() {
            let error = Error::usage(match session.globals.non_interactive {
                true => format!("{} needs a confirmation, and -n does not ask", request.change),
                false => format!("{} needs a confirmation, and there is no terminal", request.change),
            });
            let error = match request.consequence.is_empty() {
                true => error,
                false => error.with_note(&request.consequence),
            };
            return Err(error.with_hint("to confirm it: `monopile SAME-COMMAND --yes`"));
        }
        let question = match request.consequence.is_empty() {
            true => request.question.clone(),
            false => format!("{}.\n{}", base::text::capitalized(&request.consequence), request.question),
        };
        match ui::prompt::confirm(&question)? {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::Declined, "not confirmed: nothing was changed")),
        }
    }
}
