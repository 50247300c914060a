//! What the built-in CPIs share: the RPC, the arguments of a method and how it fails, the agent's
//! settings, and which process is which.

pub mod agent;
pub mod args;
pub mod failure;
pub mod files;
pub mod process;
pub mod rpc;
