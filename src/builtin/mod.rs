//! What ships inside the binary: the `local` CPI and the agent its VMs run.

pub mod agent;
pub mod local;
