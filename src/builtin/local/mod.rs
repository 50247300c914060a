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
#[cfg(target_os = "linux")]
mod config;
#[cfg(target_os = "linux")]
mod copy;
#[cfg(target_os = "linux")]
mod disk;
#[cfg(target_os = "linux")]
mod launch;
#[cfg(target_os = "linux")]
mod needs;
#[cfg(target_os = "linux")]
mod network;
#[cfg(target_os = "linux")]
mod rpc;
#[cfg(target_os = "linux")]
mod settings;
#[cfg(target_os = "linux")]
mod snapshot;
#[cfg(target_os = "linux")]
mod stemcell;
#[cfg(target_os = "linux")]
mod vm;

use std::io::{Read, Write};
use std::path::Path;

use base::Result;

/// Answers one CPI request. An error of the method is in the answer; an `Err` means that writing the answer
/// failed.
///
/// `config` is the JSON file described in `config.rs`. `executable` is the absolute path of this program,
/// which also runs as the VM's init and agent.
#[cfg(target_os = "linux")]
pub fn run(
    config: &Path,
    executable: &Path,
    request: impl Read,
    response: impl Write,
    log: impl Write,
) -> Result<()> {
    rpc::serve(config, executable, request, response, log)
}

/// Always fails, because VMs need the namespaces of Linux.
#[cfg(not(target_os = "linux"))]
pub fn run(
    _config: &Path,
    _executable: &Path,
    _request: impl Read,
    _response: impl Write,
    _log: impl Write,
) -> Result<()> {
    Err(base::Error::failure("the built-in 'local' CPI runs only on Linux: its VMs use Linux namespaces")
        .with_hint("run monopile on Linux, or use the CPI of a cloud (cloud_provider.template)"))
}
