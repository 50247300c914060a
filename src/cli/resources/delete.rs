//! `monopile delete-vm`, `delete-disk` and `delete-snapshot`: delete a resource by its CID.

use clap::Args;
use clap::builder::NonEmptyStringValueParser;

use super::{ChangeArgs, ResourceCpiArgs};
use crate::cli::finish::CommandResult;
use crate::cli::session::Session;
use base::{Error, Result};
use engine::protocol::{AnyCid, ResourceKind};
use engine::resources::{self, DeleteRequest, DeleteTarget};

#[derive(Debug, Clone, Args)]
pub(crate) struct DeleteArgs {
    #[command(flatten)]
    change: ChangeArgs,

    /// CID of what to delete
    #[arg(value_name = "CID", value_parser = NonEmptyStringValueParser::new())]
    cid: String,

    #[command(flatten)]
    cpi: ResourceCpiArgs,
}

impl DeleteArgs {
    pub(in crate::cli) fn run(self, session: &Session, kind: ResourceKind) -> Result<CommandResult> {
        let cid = AnyCid::parse(kind, &self.cid).map_err(|error| Error::usage(error.to_string()))?;
        let command = format!("delete-{}", kind.name().to_lowercase());
        let (target, prepared_run) = self.change.begin_with(session, &command, &self.cid)?;
        let request =
            DeleteRequest { target_environment: target, target: DeleteTarget::Cid(cid), cpi: self.cpi.cpi };
        resources::delete(&request, &prepared_run.run).map(CommandResult::Summary)
    }
}
