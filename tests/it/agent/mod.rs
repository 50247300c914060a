//! The built-in agent, driven over its real HTTPS port in its own mount namespace.

#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests fail the test; clippy sees only #[test] functions as tests"
)]

pub(crate) mod agent_vm;
mod disks;
mod jobs;
mod protocol;
mod restart;
