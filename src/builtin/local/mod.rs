//! The `local` CPI: a VM is a directory with an agent that runs in namespaces, and a disk is a directory. It
//! runs like every other CPI: `monopile cpi-exec local --config FILE` reads one request and writes one answer
//! (docs-bosh, `cpi-api-rpc.md`).
//!
//! The cloud is one directory, the `root` of the configuration:
//!
//! ```text
//! stemcells/<cid>/{stemcell.json, image/}
//! vms/<cid>/{vm.json, process.json, settings.json or user_data.json, agent.log,
//!            root/, work/, mnt/, devices/}
//! disks/<cid>/{disk.json, data/}          data/ is in vms/<vm>/devices/<cid> while attached
//! snapshots/<cid>/{snapshot.json, data/}
//! staging/<cid>/                          while it is created or deleted; does not count as existing
//! id                                      identifies the cloud to its users
//! ```
//!
//! A killed call leaves complete objects, or leftovers in `staging/`, which the next call removes.

pub mod boot;
mod config;
mod copy;
mod disk;
mod launch;
mod needs;
mod network;
mod rpc;
mod settings;
mod snapshot;
mod stemcell;
mod vm;

use std::io::{Read, Write};
use std::path::Path;

use crate::cpi::cloud_rpc::serve;
use base::Result;
use config::LocalConfig;

/// Answers one CPI request. An error of the method is in the answer; an `Err` means that writing the answer
/// failed.
///
/// `config` is the JSON file described in `config.rs`. `executable` is the absolute path of this program,
/// which also runs as the VM's init and agent.
pub fn run(
    config: &Path,
    executable: &Path,
    request: impl Read,
    answer_out: impl Write,
    log: impl Write,
) -> Result<()> {
    serve((config, LocalConfig::load), executable, request, answer_out, log)
}
