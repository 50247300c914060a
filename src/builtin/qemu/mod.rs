//! The `qemu` CPI: VMs of this machine under QEMU, without root. It runs like every other CPI:
//! `monopile cpi-exec qemu --config FILE` reads one request and writes one answer (docs-bosh,
//! `cpi-api-rpc.md`).
//!
//! The cloud is one directory, the `root` of the configuration:
//!
//! ```text
//! stemcells/<cid>/{stemcell.json, image.qcow2, kernel, initrd}
//! vms/<cid>/{vm.json, process.json, base.qcow2, root.qcow2, ephemeral.qcow2, extra-1.qcow2, config.img,
//!            kernel, initrd, qmp, qemu.log, console.log, console.log.1, devices/<disk cid>}
//! disks/<cid>/{disk.json, disk.qcow2}
//! snapshots/<cid>/{snapshot.json, disk.qcow2}
//! staging/<cid>/                          while it is created or deleted; does not count as existing
//! id                                      identifies the cloud to its users
//! accelerator.json                        the accelerator that works, until the next boot of this machine
//! ```
//!
//! QEMU runs in the directory of its VM and gets relative paths, so that the directory can be moved.
//! `base.qcow2` is a hard link to the image of the stemcell, so that a VM outlives its stemcell. `kernel` and
//! `initrd` are such links, too. Only stemcells without a boot loader have them.

mod accelerator;
mod command_line;
mod config;
mod console;
mod disk;
mod image;
mod kernel;
mod network;
mod process;
mod programs;
mod properties;
mod qmp;
mod root_file_system;
mod rpc;
mod snapshot;
mod stemcell;
mod vm;

use std::io::{Read, Write};
use std::path::Path;

use crate::cpi::cloud_rpc::serve;
use base::Result;
use config::QemuConfig;

/// Answers one CPI request. An error of the method is in the answer; an `Err` means that writing the answer
/// failed.
///
/// `config` is the JSON file described in `config.rs`. `executable` is the absolute path of this program,
/// which also keeps the console of a VM.
pub fn run(
    config: &Path,
    executable: &Path,
    request: impl Read,
    answer_out: impl Write,
    log: impl Write,
) -> Result<()> {
    serve((config, QemuConfig::load), executable, request, answer_out, log)
}

/// Keeps the console of a VM: copies `input` to the file `console.log` in `directory`, with a bounded size.
pub fn keep_console(input: impl Read, directory: &Path) -> Result<()> {
    console::keep(input, directory)
        .map_err(|error| base::Error::io(format!("writing the console in '{}'", directory.display()), error))
}
