//! `monopile delete-vm`, `delete-disk` and `delete-snapshot`.

use clap::Args;
use clap::builder::NonEmptyStringValueParser;

use super::{ChangeArgs, OfCpiArgs};
use crate::cli::finish::Finished;
use crate::cli::session::Session;
use base::Result;
use engine::resources::{self, Delete};
use engine::state::Kind;

// What each of the commands is for, their list in `cli` says.
#[derive(Debug, Clone, Args)]
pub(crate) struct DeleteArgs {
    #[command(flatten)]
    change: ChangeArgs,

    /// What is deleted
    #[arg(value_name = "CID", value_parser = NonEmptyStringValueParser::new())]
    cid: String,

    #[command(flatten)]
    cpi: OfCpiArgs,
}

impl DeleteArgs {
    pub(in crate::cli) fn run(self, session: &Session, what: Kind) -> Result<Finished> {
        let command = format!("delete-{}", what.name().to_lowercase());
        let (on, surroundings) = self.change.begin(session, &command)?;
        let request = Delete { on, what, name: self.cid, cpi: self.cpi.cpi };
        resources::delete(&request, &surroundings.environment).map(Finished::Summary)
    }
}
