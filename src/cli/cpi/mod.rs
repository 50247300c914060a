//! `monopile cpi`: tools for CPI authors, one file per subcommand. `source` has the shared options.

mod call;
mod check;
mod info;
mod list;
mod replay;
mod source;

use clap::{Args, Subcommand};

use super::finish::CommandResult;
use super::session::Session;
use base::Result;

pub(super) use list::{ListArgs, describe_versions};

#[derive(Debug, Clone, Args)]
pub(super) struct CpiCommandArgs {
    #[command(subcommand)]
    command: CpiCommand,
}

#[derive(Debug, Clone, Subcommand)]
enum CpiCommand {
    /// Show API version and formats of every CPI of a manifest
    ///
    /// Asks each CPI for `info`, and changes nothing. Works while another run holds the state.
    List(Box<ListArgs>),
    Info(info::InfoArgs),
    Call(call::CallArgs),
    Check(Box<check::CheckArgs>),
    Replay(replay::ReplayArgs),
}

impl CpiCommandArgs {
    /// Returns true if progress is shown, because a conformance run takes long.
    pub(super) fn shows_progress(&self) -> bool {
        matches!(self.command, CpiCommand::Check(_))
    }

    pub(super) fn run(self, session: &Session) -> Result<CommandResult> {
        match self.command {
            CpiCommand::List(args) => args.run(session),
            CpiCommand::Info(args) => args.run(session),
            CpiCommand::Call(args) => args.run(session),
            CpiCommand::Check(args) => args.run(session),
            CpiCommand::Replay(args) => args.run(session),
        }
    }
}
