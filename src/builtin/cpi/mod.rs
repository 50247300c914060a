//! Shared parts of the built-in CPIs: the RPC, arguments and errors of methods, the agent's settings, durable
//! files, and the identity of processes.

pub(crate) mod agent;
pub(crate) mod args;
pub(crate) mod failure;
pub(crate) mod files;
pub(crate) mod process;
pub(crate) mod rpc;
