//! `monopile snapshots`.

use clap::Args;

use crate::cli::PlaceArgs;
use crate::cli::finish::Finished;
use crate::cli::session::Session;
use crate::cli::table::Table;
use base::Result;
use engine::resources;

#[derive(Debug, Clone, Args)]
pub(crate) struct SnapshotsArgs {
    #[command(flatten)]
    place: PlaceArgs,
}

impl SnapshotsArgs {
    pub(in crate::cli) fn run(self, session: &Session) -> Result<Finished> {
        let listed = resources::snapshots(&session.storage(&self.place.path()?)?)?;
        if session.globals.json {
            return Finished::json(&listed);
        }
        let mut table = Table::new(["CID", "Disk", "CPI", "Taken at"]);
        for one in listed {
            table.row([
                one.cid.to_string(),
                one.disk.to_string(),
                one.cpi.unwrap_or_default(),
                one.created_at,
            ]);
        }
        Ok(Finished::Output(table.print(&session.layout()).into_bytes()))
    }
}
