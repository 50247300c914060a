//! What the built-in CPIs share: the RPC, the arguments of a method and how it fails, the agent's
//! settings, and which process is which.

pub(crate) mod agent;
pub(crate) mod args;
pub(crate) mod failure;
pub(crate) mod files;
pub(crate) mod process;
pub(crate) mod rpc;
