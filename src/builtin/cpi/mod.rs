//! Shared parts of the built-in CPIs, above all the RPC ([`cloud_rpc`]) and clouds that are directories, with
//! the records of their objects ([`cloud`], [`records`]).

pub(crate) mod agent_settings;
pub(crate) mod args;
pub(crate) mod attachment;
pub(crate) mod cid;
pub(crate) mod cloud;
pub(crate) mod cloud_call;
pub(crate) mod cloud_rpc;
pub(crate) mod config;
pub(crate) mod config_drive;
pub(crate) mod failure;
pub(crate) mod files;
pub(crate) mod listen;
pub(crate) mod machine;
pub(crate) mod process;
pub(crate) mod programs;
pub(crate) mod records;
pub(crate) mod rpc;
pub(crate) mod stemcell_image;
