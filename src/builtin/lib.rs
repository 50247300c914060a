//! The CPIs that ship inside the binary: `local`, with the agent that its VMs run, `ironic` and `qemu`.
//!
//! Uses nothing of the engine: a built-in CPI is a separate process that speaks the CPI protocol, like any
//! other CPI.
//!
//! Entry points: [`local::run`], [`ironic::run`] and [`qemu::run`] serve one request; [`local::boot::run`] is
//! the first process of a `local` VM; [`agent::run`] is the agent in it; [`qemu::keep_console`] runs beside a
//! `qemu` VM. The internal commands of `src/cli/internal.rs` call them.

#[cfg(target_os = "linux")]
pub mod agent;
#[cfg(target_os = "linux")]
mod cpi;
pub mod ironic;
pub mod local;
pub mod qemu;
#[cfg(target_os = "linux")]
mod registry;

/// A replacement for the agent on other systems, which lack its private mounts and `/proc`.
#[cfg(not(target_os = "linux"))]
pub mod agent {
    use std::path::Path;

    use base::{Error, Result};

    /// Always fails, because the agent needs Linux.
    pub fn run(_settings: &Path, _base: &Path) -> Result<()> {
        Err(Error::failure("the agent of the built-in 'local' CPI runs only on Linux"))
    }
}
