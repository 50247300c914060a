//! `monopile disks`.

use clap::Args;

use crate::cli::PlaceArgs;
use crate::cli::finish::Finished;
use crate::cli::session::Session;
use crate::cli::table::Table;
use base::Result;
use engine::resources::{self, DiskUse};

#[derive(Debug, Clone, Args)]
pub(crate) struct DisksArgs {
    #[command(flatten)]
    place: PlaceArgs,
}

impl DisksArgs {
    pub(in crate::cli) fn run(self, session: &Session) -> Result<Finished> {
        let listed = resources::disks(&session.storage(&self.place.path()?)?)?;
        if session.globals.json {
            return Finished::json(&listed);
        }
        let mut table = Table::new(["CID", "Size", "CPI", "AZ", "Status", "Note"]);
        for disk in listed {
            let (status, what_next) = match disk.status {
                DiskUse::Attached => ("attached", ""),
                DiskUse::Waiting => ("waiting", "the next create-env attaches it"),
                DiskUse::Kept => ("kept", "delete-disk deletes it"),
                DiskUse::Orphaned => ("orphaned", "the next create-env deletes it"),
            };
            let note = disk.undeleted.map(|said| format!("to be deleted: {said}"));
            table.row([
                disk.cid.to_string(),
                format!("{} MiB", disk.size),
                disk.cpi.unwrap_or_default(),
                disk.az.unwrap_or_default(),
                status.to_owned(),
                note.unwrap_or_else(|| what_next.to_owned()),
            ]);
        }
        Ok(Finished::Output(table.print(&session.layout()).into_bytes()))
    }
}
