//! `stemcells`, `disks` and `snapshots`: what is on record of them. Nothing is locked and no CPI is asked.

use serde::Serialize;

use crate::environment::lock::no_state;
use crate::protocol::{DiskCid, StemcellCid};
use crate::state::{Resource, Snapshot, State, Stemcell, Storage};
use base::Result;

/// A stemcell on record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ListedStemcell {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its CID.
    pub cid: StemcellCid,
    /// The name of its CPI; none for the default CPI.
    pub cpi: Option<String>,
    /// Its `api_version`, where known.
    pub api_version: Option<u32>,
    /// Whether the VM was made from it.
    pub in_use: bool,
    /// Whether it stays although nothing uses it: `upload-stemcell` put it there.
    pub kept: bool,
    /// Why it is still there, if it was to be deleted.
    pub undeleted: Option<String>,
}

/// What a disk is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DiskUse {
    /// The VM has it.
    Attached,
    /// The next create-env attaches it.
    Waiting,
    /// Nothing uses it; it stays until `delete-disk`.
    Kept,
    /// Nothing uses it; the next create-env deletes it.
    Orphaned,
}

/// A disk on record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ListedDisk {
    /// Its CID.
    pub cid: DiskCid,
    /// The name of its CPI; none for the default CPI.
    pub cpi: Option<String>,
    /// The availability zone it was made in, where known.
    pub az: Option<String>,
    /// MiB.
    pub size: u64,
    /// What it is there for.
    pub status: DiskUse,
    /// Why it is still there, if it was to be deleted.
    pub undeleted: Option<String>,
}

fn read(storage: &Storage) -> Result<State> {
    let storage = storage.resolved()?;
    State::read(&storage)?.ok_or_else(|| no_state(&storage))
}

fn said(state: &State, resource: impl Into<Resource>) -> Option<String> {
    state.undeleted(&resource.into()).map(|mark| mark.said.clone())
}

/// The stemcells that the state at `storage` has on record, by name, version and CPI.
pub fn stemcells(storage: &Storage) -> Result<Vec<ListedStemcell>> {
    let state = read(storage)?;
    let mut known: Vec<&Stemcell> = state.stemcells.iter().collect();
    known.sort_by_key(|known| (&known.name, &known.version, &known.cpi));
    let listed = known.into_iter().map(|known| ListedStemcell {
        name: known.name.clone(),
        version: known.version.clone(),
        cid: known.cid.clone(),
        cpi: known.cpi.clone(),
        api_version: known.api_version,
        in_use: known.id == state.current_stemcell_id,
        kept: known.kept,
        undeleted: said(&state, known.handle()),
    });
    Ok(listed.collect())
}

/// The disks that the state at `storage` has on record.
pub fn disks(storage: &Storage) -> Result<Vec<ListedDisk>> {
    let state = read(storage)?;
    let listed = state.disks.iter().map(|disk| ListedDisk {
        cid: disk.cid.clone(),
        cpi: disk.cpi.clone(),
        az: disk.az.clone(),
        size: disk.size,
        status: match disk.id == state.current_disk_id {
            true if state.vm_cid().is_some() && state.disk_left_on_vm().is_none() => DiskUse::Attached,
            true => DiskUse::Waiting,
            false if disk.is_kept() => DiskUse::Kept,
            false => DiskUse::Orphaned,
        },
        undeleted: said(&state, disk.handle()),
    });
    Ok(listed.collect())
}

/// The snapshots that the state at `storage` has on record.
pub fn snapshots(storage: &Storage) -> Result<Vec<Snapshot>> {
    Ok(read(storage)?.monopile.snapshots)
}
