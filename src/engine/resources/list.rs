//! `state show --only`: lists the stemcells, disks or snapshots on record. Takes no lock and calls no CPI.

use serde::Serialize;

use crate::protocol::{DiskCid, StemcellCid};
use crate::run_context::state_lock::no_state_error;
use crate::state::{Resource, SnapshotRecord, State, StemcellRecord, Storage};
use base::Result;

/// A stemcell on record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ListedStemcell {
    /// The name in `stemcell.MF`.
    pub name: String,
    /// The version in `stemcell.MF`.
    pub version: String,
    /// The CID; several records can have the same one.
    pub cid: StemcellCid,
    /// The name of its CPI; `None` for the default CPI.
    pub cpi: Option<String>,
    /// Its `api_version`, if known.
    pub api_version: Option<u32>,
    /// True if the VM was made from it.
    pub in_use: bool,
    /// True if `upload-stemcell` uploaded it. It then stays even if unused.
    #[serde(rename = "kept")]
    pub is_kept: bool,
    /// The error of the last attempt to delete it, if any.
    pub undeleted: Option<String>,
}

/// The use of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DiskUse {
    /// The VM uses it.
    Attached,
    /// The next create-env attaches it.
    Waiting,
    /// The VM was created without it, because the manifest has no persistent disk any more. It stays until
    /// `delete-disk`, or until a create-env whose manifest has a persistent disk attaches it.
    Detached,
    /// Nothing uses it; it stays until `delete-disk`.
    Kept,
    /// Nothing uses it; the next create-env deletes it.
    Unused,
}

/// A disk on record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ListedDisk {
    /// The disk's CID.
    pub cid: DiskCid,
    /// The name of its CPI; `None` for the default CPI.
    pub cpi: Option<String>,
    /// The availability zone in which it was created, if known.
    pub az: Option<String>,
    /// Its size in MiB.
    pub size: u64,
    /// The use of the disk, which decides what a create-env does with it.
    pub status: DiskUse,
    /// The error of the last attempt to delete it, if any.
    pub undeleted: Option<String>,
}

fn read(storage: &Storage) -> Result<State> {
    let storage = storage.resolve_links()?;
    State::read(&storage)?.ok_or_else(|| no_state_error(&storage))
}

fn deletion_error(state: &State, resource: impl Into<Resource>) -> Option<String> {
    state.undeleted(&resource.into()).map(|mark| mark.reason.clone())
}

/// Lists the stemcells on record at `storage`, by name, version and CPI.
pub fn list_stemcells(storage: &Storage) -> Result<Vec<ListedStemcell>> {
    let state = read(storage)?;
    let mut stemcells: Vec<&StemcellRecord> = state.stemcells.iter().collect();
    stemcells.sort_by_key(|stemcell| (&stemcell.name, &stemcell.version, &stemcell.cpi));
    let listed_stemcells = stemcells.into_iter().map(|stemcell| ListedStemcell {
        name: stemcell.name.clone(),
        version: stemcell.version.clone(),
        cid: stemcell.cid.clone(),
        cpi: stemcell.cpi.clone(),
        api_version: stemcell.api_version,
        in_use: stemcell.id == state.current_stemcell_id,
        is_kept: stemcell.is_kept,
        undeleted: deletion_error(&state, stemcell.handle()),
    });
    Ok(listed_stemcells.collect())
}

/// Lists the disks on record at `storage`.
pub fn list_disks(storage: &Storage) -> Result<Vec<ListedDisk>> {
    let state = read(storage)?;
    let listed_disks = state.disks.iter().map(|disk| ListedDisk {
        cid: disk.cid.clone(),
        cpi: disk.cpi.clone(),
        az: disk.az.clone(),
        size: disk.size,
        status: match disk.id == state.current_disk_id {
            true if state.disk_left_on_vm().is_none() && state.detached_disk().is_some() => DiskUse::Detached,
            true if state.vm_cid().is_some() && state.disk_left_on_vm().is_none() => DiskUse::Attached,
            true => DiskUse::Waiting,
            false if disk.is_kept() => DiskUse::Kept,
            false => DiskUse::Unused,
        },
        undeleted: deletion_error(&state, disk.handle()),
    });
    Ok(listed_disks.collect())
}

/// Lists the snapshots on record at `storage`.
pub fn list_snapshots(storage: &Storage) -> Result<Vec<SnapshotRecord>> {
    Ok(read(storage)?.monopile.snapshots)
}
