//! Turns the inputs of a command into a deployment with its artifacts, without an effect on the IaaS.
//!
//! Uses `environment`, `state` and `plan`. Entry points: [`load`], which reads a manifest; [`prepare`], which
//! also identifies stemcell and releases; [`Prepared::open`], which unpacks them; [`obtain`] for single
//! artifacts.

mod deployment;
pub(crate) mod obtain;

pub(crate) use deployment::{
    MbusCertificate, Opened, Prepared, find, load, manifest_sha, open_releases, open_stemcell, prepare,
    redact_hint,
};
