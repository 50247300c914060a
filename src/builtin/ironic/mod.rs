//! The `ironic` CPI: bare metal machines that a standalone Ironic boots from volumes. It is run like every other CPI:
//! `monopile cpi-exec ironic --config FILE` reads one request and writes one answer (docs-bosh, `cpi-api-rpc.md`).
//!
//! Ironic knows the machines, a storage tool the volumes; this keeps the two together. CIDs are UUIDs: a VM's is its
//! allocation's, which is also the node's `instance_uuid`; a disk's is the `volume_id` of its target.
//!
//! | volume | is | goes with |
//! |---|---|---|
//! | `stemcell-<cid>` | an image | `delete_stemcell` |
//! | `root-<vm cid>` | a clone of it, target 0 of the node | `delete_vm` |
//! | `config-<vm cid>` | the agent's settings, target 1 | `delete_vm` |
//! | `disk-<cid>` | a persistent disk, the next free target while attached | `delete_disk` |
//! | `snap-<cid>` | a copy of one | `delete_snapshot` |
//!
//! What belongs to a VM can be found from its CID alone, so that `delete_vm` makes good a call which was killed,
//! whatever it had come to. A `create_vm` that was killed told nobody the CID: `leftovers` finds those.

#[cfg(target_os = "linux")]
mod claim;
#[cfg(target_os = "linux")]
mod config;
#[cfg(target_os = "linux")]
mod config_drive;
#[cfg(target_os = "linux")]
mod disk;
#[cfg(target_os = "linux")]
mod leftovers;
#[cfg(target_os = "linux")]
mod machine;
#[cfg(target_os = "linux")]
mod rpc;
#[cfg(target_os = "linux")]
mod stemcell;
#[cfg(target_os = "linux")]
mod storage;
#[cfg(target_os = "linux")]
mod vm;
#[cfg(target_os = "linux")]
mod volume;

use std::io::{Read, Write};
use std::path::Path;

use base::Result;

/// Answers one CPI request. `config` is the JSON file described in `config.rs`. Failures of a method are part of the
/// answer; an `Err` means that no answer could be written.
#[cfg(target_os = "linux")]
pub fn run(config: &Path, request: impl Read, response: impl Write, log: impl Write) -> Result<()> {
    rpc::serve(config, request, response, log)
}

/// Elsewhere there are no storage tools.
#[cfg(not(target_os = "linux"))]
pub fn run(_config: &Path, _request: impl Read, _response: impl Write, _log: impl Write) -> Result<()> {
    Err(base::Error::environment(
        "the built-in 'ironic' CPI needs Linux: its storage tools are Linux programs",
    ))
}
