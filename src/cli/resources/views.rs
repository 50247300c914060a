//! The views of `monopile state show --only KIND`: the records of one kind, as tables or JSON. The commands
//! `disks`, `snapshots` and `stemcells` print the same.

use clap::{Args, ValueEnum};

use super::yes_or_no;
use crate::cli::StateSelectionArgs;
use crate::cli::finish::CommandResult;
use crate::cli::session::Session;
use crate::cli::table::Table;
use base::Result;
use engine::resources::{self, DiskUse};
use engine::state::Storage;

/// A kind of resource with a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ListView {
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
    selection: StateSelectionArgs,
}

impl ViewArgs {
    pub(in crate::cli) fn run(self, session: &Session, view: ListView) -> Result<CommandResult> {
        view.show(session, &session.storage(&self.selection.path()?)?)
    }
}

impl ListView {
    /// Prints the records of this kind.
    pub(in crate::cli) fn show(self, session: &Session, storage: &Storage) -> Result<CommandResult> {
        match self {
            ListView::Disks => show_disks(session, storage),
            ListView::Snapshots => show_snapshots(session, storage),
            ListView::Stemcells => show_stemcells(session, storage),
        }
    }
}

fn show_disks(session: &Session, storage: &Storage) -> Result<CommandResult> {
    let disks = resources::list_disks(storage)?;
    if session.globals.prints_json() {
        return CommandResult::json(&disks);
    }
    if disks.is_empty() {
        return Ok(nothing_on_record("disk", session));
    }
    let mut table = Table::new(["CID", "Size", "CPI", "AZ", "Status", "Note"]);
    for disk in disks {
        let (status, what_next) = match disk.status {
            DiskUse::Attached => ("attached", ""),
            DiskUse::Waiting => ("waiting", "the next create-env attaches it"),
            DiskUse::Detached => ("kept, detached", "delete-disk deletes it"),
            DiskUse::Kept => ("kept", "delete-disk deletes it"),
            DiskUse::Unused => ("unused", "the next create-env deletes it"),
        };
        let note = disk.undeleted.map(|reason| format!("to be deleted: {reason}"));
        table.add_row([
            disk.cid.to_string(),
            format!("{} MiB", disk.size),
            disk.cpi.unwrap_or_default(),
            disk.az.unwrap_or_default(),
            status.to_owned(),
            note.unwrap_or_else(|| what_next.to_owned()),
        ]);
    }
    Ok(print_table(&table, session))
}

fn show_snapshots(session: &Session, storage: &Storage) -> Result<CommandResult> {
    let snapshots = resources::list_snapshots(storage)?;
    if session.globals.prints_json() {
        return CommandResult::json(&snapshots);
    }
    if snapshots.is_empty() {
        return Ok(nothing_on_record("snapshot", session));
    }
    let mut table = Table::new(["CID", "Disk", "CPI", "Taken at", "Kept until"]);
    for snapshot in snapshots {
        table.add_row([
            snapshot.cid.to_string(),
            snapshot.disk.to_string(),
            snapshot.cpi.unwrap_or_default(),
            snapshot.created_at,
            snapshot.keep_until.unwrap_or_default(),
        ]);
    }
    Ok(print_table(&table, session))
}

fn show_stemcells(session: &Session, storage: &Storage) -> Result<CommandResult> {
    let stemcells = resources::list_stemcells(storage)?;
    if session.globals.prints_json() {
        return CommandResult::json(&stemcells);
    }
    if stemcells.is_empty() {
        return Ok(nothing_on_record("stemcell", session));
    }
    let mut table = Table::new(["Name", "Version", "CID", "CPI", "In use", "Kept", "Note"]);
    for stemcell in stemcells {
        let note = stemcell.undeleted.map(|reason| format!("to be deleted: {reason}")).unwrap_or_default();
        table.add_row([
            stemcell.name,
            stemcell.version,
            stemcell.cid.to_string(),
            stemcell.cpi.unwrap_or_default(),
            yes_or_no(stemcell.in_use),
            yes_or_no(stemcell.is_kept),
            note,
        ]);
    }
    Ok(print_table(&table, session))
}

/// Returns the sentence in place of an empty table. A program gets no line.
fn nothing_on_record(kind: &str, session: &Session) -> CommandResult {
    let text = match session.layout().is_for_programs() {
        true => String::new(),
        false => format!("No {kind} is on record.\n"),
    };
    CommandResult::Output(text.into_bytes())
}

fn print_table(table: &Table, session: &Session) -> CommandResult {
    CommandResult::Output(table.format(&session.layout()).into_bytes())
}
