//! The views of `monopile state show --only KIND`: the records of one kind, as tables or JSON. The hidden
//! commands `disks`, `snapshots` and `stemcells` print the same.

use clap::{Args, ValueEnum};

use super::yes_or_no;
use crate::cli::PlaceArgs;
use crate::cli::finish::Finished;
use crate::cli::session::Session;
use crate::cli::table::Table;
use base::Result;
use engine::resources::{self, DiskUse};
use engine::state::Storage;

/// A kind of resource with a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum View {
    /// Persistent disks with size, use and what happens to them next
    Disks,
    /// Snapshots of disks
    Snapshots,
    /// Stemcells in every CPI
    Stemcells,
}

/// The arguments of a command that is a view.
#[derive(Debug, Clone, Args)]
pub(crate) struct ViewArgs {
    #[command(flatten)]
    place: PlaceArgs,
}

impl ViewArgs {
    pub(in crate::cli) fn run(self, session: &Session, view: View) -> Result<Finished> {
        view.show(session, &session.storage(&self.place.path()?)?)
    }
}

impl View {
    /// Prints the records of this kind.
    pub(in crate::cli) fn show(self, session: &Session, storage: &Storage) -> Result<Finished> {
        match self {
            View::Disks => disks(session, storage),
            View::Snapshots => snapshots(session, storage),
            View::Stemcells => stemcells(session, storage),
        }
    }
}

fn disks(session: &Session, storage: &Storage) -> Result<Finished> {
    let listed = resources::disks(storage)?;
    if session.globals.json() {
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
    Ok(printed(&table, session))
}

fn snapshots(session: &Session, storage: &Storage) -> Result<Finished> {
    let listed = resources::snapshots(storage)?;
    if session.globals.json() {
        return Finished::json(&listed);
    }
    let mut table = Table::new(["CID", "Disk", "CPI", "Taken at"]);
    for one in listed {
        table.row([one.cid.to_string(), one.disk.to_string(), one.cpi.unwrap_or_default(), one.created_at]);
    }
    Ok(printed(&table, session))
}

fn stemcells(session: &Session, storage: &Storage) -> Result<Finished> {
    let listed = resources::stemcells(storage)?;
    if session.globals.json() {
        return Finished::json(&listed);
    }
    let mut table = Table::new(["Name", "Version", "CID", "CPI", "In use", "Kept", "Note"]);
    for one in listed {
        let note = one.undeleted.map(|said| format!("to be deleted: {said}")).unwrap_or_default();
        table.row([
            one.name,
            one.version,
            one.cid.to_string(),
            one.cpi.unwrap_or_default(),
            yes_or_no(one.in_use),
            yes_or_no(one.kept),
            note,
        ]);
    }
    Ok(printed(&table, session))
}

fn printed(table: &Table, session: &Session) -> Finished {
    Finished::Output(table.print(&session.layout()).into_bytes())
}
