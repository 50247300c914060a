//! The CPIs that ship inside the binary: `local`, `ironic` and `qemu`, and an agent for VMs.
//!
//! Uses nothing of the engine: a built-in CPI is a separate process that speaks the CPI protocol, like any
//! other CPI.
//!
//! Entry points: [`local::run`], [`ironic::run`] and [`qemu::run`] serve one request; [`local::boot::run`] is
//! the first process of a `local` VM; [`agent::run`] is the agent in it, and in VMs of `qemu` that boot from
//! the stemcell of `examples/qemu`; [`qemu::keep_console`] runs beside a `qemu` VM. The internal commands of
//! `src/cli/internal.rs` call them.

#[cfg(target_os = "linux")]
pub mod agent;
#[cfg(target_os = "linux")]
mod cpi;
#[cfg(target_os = "linux")]
pub mod ironic;
#[cfg(target_os = "linux")]
pub mod local;
#[cfg(not(target_os = "linux"))]
mod not_linux;
#[cfg(target_os = "linux")]
pub mod qemu;
#[cfg(target_os = "linux")]
mod registry_client;
#[cfg(all(test, target_os = "linux"))]
mod test_program;

#[cfg(not(target_os = "linux"))]
pub use not_linux::{agent, ironic, local, qemu};
