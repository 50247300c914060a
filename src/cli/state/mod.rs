//! `monopile state`: what is on record.

mod backup;
mod forget;
mod import;
mod show;
mod verify;

use clap::{Args, Subcommand};

use super::finish::Finished;
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
    Verify(verify::VerifyArgs),
    Import(import::ImportArgs),
    Backup(backup::BackupArgs),
    Forget(forget::ForgetArgs),
}

impl StateCommandArgs {
    /// Whether it prints something of its own.
    pub(super) fn has_product(&self) -> bool {
        match &self.command {
            StateCommand::Show(_) | StateCommand::Verify(_) => true,
            StateCommand::Backup(args) => args.lists(),
            StateCommand::Import(_) | StateCommand::Forget(_) => false,
        }
    }

    pub(super) fn run(self, session: &Session) -> Result<Finished> {
        match self.command {
            StateCommand::Show(args) => args.run(session),
            StateCommand::Verify(args) => args.run(session),
            StateCommand::Import(args) => args.run(session),
            StateCommand::Backup(args) => args.run(session),
            StateCommand::Forget(args) => args.run(session),
        }
    }
}

/// A step that somebody has to agree to.
#[derive(Debug, Clone, Args)]
struct AgreeArgs {
    /// Don't ask: it is agreed
    #[arg(long)]
    yes: bool,
}

impl AgreeArgs {
    /// Asks at a terminal. Elsewhere nobody can be asked, so `--yes` must have been given.
    fn agree(&self, session: &Session, question: &str) -> Result<()> {
        if self.yes {
            return Ok(());
        }
        if !session.interactive() {
            return Err(Error::usage(format!("nobody can be asked: {question}")).with_hint("--yes agrees"));
        }
        match ui::prompt::confirm(question)? {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::Declined, "not confirmed: nothing was changed")),
        }
    }
}
