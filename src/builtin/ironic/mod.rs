//! The `ironic` CPI: bare metal machines that a standalone Ironic boots from volumes. It runs like every
//! other CPI: `monopile cpi-exec ironic --config FILE` reads one request and writes one answer (docs-bosh,
//! `cpi-api-rpc.md`).
//!
//! Ironic manages the machines, and a storage tool manages the volumes. CIDs are UUIDs: the CID of a VM is
//! the UUID of its allocation and the node's `instance_uuid`; the CID of a disk is the `volume_id` of its
//! target.
//!
//! | volume | content | deleted by |
//! |---|---|---|
//! | `stemcell-<cid>` | an image | `delete_stemcell` |
//! | `root-<vm cid>` | a clone of a stemcell, target 0 of the node | `delete_vm` |
//! | `config-<vm cid>` | the agent's settings, target 1 | `delete_vm` |
//! | `disk-<cid>` | a persistent disk, the next free target while attached | `delete_disk` |
//! | `snap-<cid>` | a copy of a persistent disk | `delete_snapshot` |
//!
//! All parts of a VM can be found from its CID alone, so `delete_vm` cleans up after a call that was killed
//! at any point. A killed `create_vm` did not return its CID; `leftovers` finds its VM.

mod claim;
mod config;
mod config_drive;
mod disk;
mod leftovers;
mod node;
mod rpc;
mod stemcell;
mod storage;
mod vm;
mod volume;

use std::io::{Read, Write};
use std::path::Path;

use base::Result;

/// Answers one CPI request. `config` is the JSON file described in `config.rs`.
///
/// The answer contains the error of a method that fails. An `Err` means that writing the answer failed.
pub fn run(config: &Path, request: impl Read, answer_out: impl Write, log: impl Write) -> Result<()> {
    rpc::serve(config, request, answer_out, log)
}
