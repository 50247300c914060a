//! The built-in agent, driven over its real HTTPS port in a mount namespace of its own.

mod disks;
mod jobs;
mod protocol;
mod restart;
mod world;
