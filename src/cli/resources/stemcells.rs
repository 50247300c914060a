//! `monopile stemcells`.

use clap::Args;

use super::yes_or_no;
use crate::cli::PlaceArgs;
use crate::cli::finish::Finished;
use crate::cli::session::Session;
use crate::cli::table::Table;
use base::Result;
use engine::resources;

#[derive(Debug, Clone, Args)]
pub(crate) struct StemcellsArgs {
    #[command(flatten)]
    place: PlaceArgs,
}

impl StemcellsArgs {
    pub(in crate::cli) fn run(self, session: &Session) -> Result<Finished> {
        let listed = resources::stemcells(&session.storage(&self.place.path()?)?)?;
        if session.globals.json {
            return Finished::json(&listed);
        }
        let mut table = Table::new(["Name", "Version", "CID", "CPI", "In use", "Kept", "Note"]);
        for one in listed {
            let note = one.undeleted.map(|said| format!("to be deleted: {said}")).unwrap_or_default();
            let cpi = one.cpi.unwrap_or_default();
            table.row([
                one.name,
                one.version,
                one.cid.to_string(),
                cpi,
                yes_or_no(one.in_use),
                yes_or_no(one.kept),
                note,
            ]);
        }
        Ok(Finished::Output(table.print(&session.layout()).into_bytes()))
    }
}
