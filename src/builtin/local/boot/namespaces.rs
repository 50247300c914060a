//! The first stage of `vm-boot`: creates the namespaces and starts init as their pid 1.

use std::io;
use std::path::Path;
use std::process::Command;

use rustix::process::setsid;

use super::Report;
use crate::cpi::process::ProcessIdentity;
use base::namespaces::{self, UnshareFlags};

pub(super) fn run(
    vm_directory: &Path,
    executable: &Path,
    namespace_path: Option<&Path>,
) -> Result<(), String> {
    // In a new session, Ctrl-C in the caller's terminal does not reach the VM. The call fails only for the
    // leader of a process group, which this process is not: its parent starts it without one of its own.
    let _ = setsid();
    namespaces::keep_only_stdio().map_err(|error| format!("closing inherited files failed: {error}"))?;
    // From a new user namespace, the process could no longer enter this network namespace.
    namespace_path.map_or(Ok(()), super::super::network::enter)?;
    namespaces::enter(
        UnshareFlags::NEWNS | UnshareFlags::NEWPID | UnshareFlags::NEWIPC | UnshareFlags::NEWUTS,
    )?;
    let init = Command::new(executable)
        .args(["vm-boot", "--stage", "init", "--vm-dir"])
        .arg(vm_directory)
        .arg("--executable")
        .arg(executable)
        .spawn()
        .map_err(|error| format!("starting init in the new pid namespace failed: {error}"))?;
    // This process does not reap init, so the pid stays valid until this process ends.
    let identity = i32::try_from(init.id())
        .map_err(io::Error::other)
        .and_then(ProcessIdentity::of)
        .map_err(|error| format!("identifying init failed: {error}"))?;
    Report::Init(identity).send().map_err(|error| format!("reporting init failed: {error}"))
}
