//! `monopile state`: shows, backs up, imports and repairs the state.

mod backup;
mod forget;
mod import;
mod show;
mod verify;

use clap::{Args, Subcommand};

use super::finish::CommandResult;
use super::session::Session;
use crate::ui;
use base::{Error, ErrorKind, Result};

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
    fn confirm(&self, session: &Session, question: &str) -> Result<()> {
        if self.yes {
            return Ok(());
        }
        if !session.interactive() {
            return Err(Error::usage(format!(
                "not confirmed, because there is no terminal to ask: {question}"
            ))
            .with_hint("--yes confirms the change"));
        }
        match ui::prompt::confirm(question)? {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::Declined, "not confirmed: nothing was changed")),
        }
    }
}
