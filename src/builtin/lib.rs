//! What ships inside the binary: the `local` CPI and the agent its VMs run, and the `ironic` CPI.

#[cfg(target_os = "linux")]
pub mod agent;
#[cfg(target_os = "linux")]
mod cpi;
pub mod ironic;
pub mod local;
#[cfg(target_os = "linux")]
mod registry;

/// The agent needs what only Linux has: private mounts and `/proc`.
#[cfg(not(target_os = "linux"))]
pub mod agent {
    use std::path::Path;

    use base::{Error, Result};

    /// Says what is missing.
    pub fn run(_settings: &Path, _base: &Path) -> Result<()> {
        Err(Error::environment("the agent of the built-in 'local' CPI needs Linux"))
    }
}
