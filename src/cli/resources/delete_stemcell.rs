//! `monopile delete-stemcell`: deletes a stemcell in every CPI that has it.

use clap::Args;
use clap::builder::NonEmptyStringValueParser;

use super::ChangeArgs;
use crate::cli::finish::CommandResult;
use crate::cli::session::Session;
use base::Result;
use engine::resources::{self, DeleteRequest, DeleteTarget};

#[derive(Debug, Clone, Args)]
pub(crate) struct DeleteStemcellArgs {
    #[command(flatten)]
    change: ChangeArgs,

    /// Name and version of the stemcell, or its CID
    #[arg(value_name = "NAME/VERSION|CID", value_parser = NonEmptyStringValueParser::new())]
    stemcell: String,

    /// Delete it only in this CPI; '' is the default CPI
    #[arg(long, value_name = "NAME", value_hint = clap::ValueHint::Other)]
    cpi: Option<String>,
}

impl DeleteStemcellArgs {
    pub(in crate::cli) fn run(self, session: &Session) -> Result<CommandResult> {
        let (target, prepared_run) = self.change.begin_with(session, "delete-stemcell", &self.stemcell)?;
        let request = DeleteRequest {
            target_environment: target,
            target: DeleteTarget::Stemcell(self.stemcell),
            cpi: self.cpi,
        };
        resources::delete(&request, &prepared_run.run).map(CommandResult::Summary)
    }
}
