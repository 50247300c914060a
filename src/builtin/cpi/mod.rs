//! Shared parts of the built-in CPIs: the RPC, arguments and errors of methods, clouds that are directories,
//! with the records of their objects, the agent's settings and its config drive, images of stemcells, boot
//! records, durable files, programs and processes.

pub(crate) mod agent;
pub(crate) mod args;
pub(crate) mod attachment;
pub(crate) mod boot_record;
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
