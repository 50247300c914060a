//! The `qemu` CPI: VMs of this machine under QEMU, without root. It runs like every other CPI:
//! `monopile cpi-exec qemu --config FILE` reads one request and writes one answer (docs-bosh,
//! `cpi-api-rpc.md`).
//!
//! The cloud is one directory, the `root` of the configuration:
//!
//! ```text
//! stemcells/<cid>/{stemcell.json, image.qcow2}
//! vms/<cid>/{vm.json, process.json, base.qcow2, root.qcow2, ephemeral.qcow2, config.img,
//!            qmp, qemu.log, console.log, console.log.1, devices/<disk cid>}
//! disks/<cid>/{disk.json, disk.qcow2}
//! snapshots/<cid>/{snapshot.json, disk.qcow2}
//! staging/<cid>/                          while it is created or deleted; does not count as existing
//! id                                      identifies the cloud to its users
//! accelerator.json                        the accelerator that works, until the next boot of this machine
//! ```
//!
//! QEMU runs in the directory of its VM and gets relative paths, so that the directory can be moved.
//! `base.qcow2` is a hard link to the image of the stemcell, so that a VM outlives its stemcell.

#[cfg(target_os = "linux")]
mod accelerator;
#[cfg(target_os = "linux")]
mod command_line;
#[cfg(target_os = "linux")]
mod config;
#[cfg(target_os = "linux")]
mod console;
#[cfg(target_os = "linux")]
mod disk;
#[cfg(target_os = "linux")]
mod image;
#[cfg(target_os = "linux")]
mod network;
#[cfg(target_os = "linux")]
mod process;
#[cfg(target_os = "linux")]
mod programs;
#[cfg(target_os = "linux")]
mod properties;
#[cfg(target_os = "linux")]
mod qmp;
#[cfg(target_os = "linux")]
mod rpc;
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
/// which also keeps the console of a VM.
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

/// Keeps the console of a VM: copies `input` to the file `console.log` in `directory`, with a bounded size.
#[cfg(target_os = "linux")]
pub fn keep_console(input: impl Read, directory: &Path) -> Result<()> {
    console::keep(input, directory)
        .map_err(|error| base::Error::io(format!("writing the console in '{}'", directory.display()), error))
}

/// Always fails, because the CPI identifies processes as only Linux can.
#[cfg(not(target_os = "linux"))]
pub fn run(
    _config: &Path,
    _executable: &Path,
    _request: impl Read,
    _response: impl Write,
    _log: impl Write,
) -> Result<()> {
    Err(base::Error::failure("the built-in 'qemu' CPI runs only on Linux")
        .with_hint("run monopile on Linux, or use the CPI of a cloud (cloud_provider.template)"))
}

/// Always fails, because no VM has a console here.
#[cfg(not(target_os = "linux"))]
pub fn keep_console(_input: impl Read, _directory: &Path) -> Result<()> {
    Err(base::Error::failure("the built-in 'qemu' CPI runs only on Linux"))
}
