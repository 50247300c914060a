//! What the built-in CPIs share: the RPC, the arguments of a method and how it fails, and the agent's settings.

pub mod agent;
pub mod args;
pub mod failure;
pub mod files;
pub mod rpc;
