//! `monopile cpi`: for people who write CPIs. A file per subcommand; `source` is what they share.

mod call;
mod check;
mod info;
mod replay;
mod source;

use clap::{Args, Subcommand};

use super::finish::Finished;
use super::session::Session;
use base::Result;

#[derive(Debug, Clone, Args)]
pub(super) struct CpiCommandArgs {
    #[command(subcommand)]
    command: CpiCommand,
}

#[derive(Debug, Clone, Subcommand)]
enum CpiCommand {
    Info(info::InfoArgs),
    Call(call::CallArgs),
    Check(Box<check::CheckArgs>),
    Replay(replay::ReplayArgs),
}

impl CpiCommandArgs {
    /// A conformance run takes as long as the cloud does.
    pub(super) fn is_followed(&self) -> bool {
        matches!(self.command, CpiCommand::Check(_))
    }

    pub(super) fn run(self, session: &Session) -> Result<Finished> {
        match self.command {
            CpiCommand::Info(args) => args.run(session),
            CpiCommand::Call(args) => args.run(session),
            CpiCommand::Check(args) => args.run(session),
            CpiCommand::Replay(args) => args.run(session),
        }
    }
}
