//! Turns the inputs of a command into a [`manifest::Deployment`] with its artifacts, without an effect on the
//! IaaS.
//!
//! Entry points: [`load`], which reads a manifest; [`prepare`], which also identifies the stemcell and the
//! releases; [`PreparedDeployment::open`], which unpacks them; [`obtain`] for single artifacts.

pub(crate) mod credentials;
mod deployment;
pub(crate) mod obtain;
mod other_environment;
mod untracked;

pub use deployment::Overrides;
pub(crate) use deployment::{
    MbusCertificate, OpenedArtifacts, PreparedDeployment, deploy_digest, find_release, leaves, load,
    load_deployed, load_to_delete, open_releases, open_stemcell, prepare, read_only_inputs,
    register_hint_secrets,
};
pub(crate) use other_environment::OtherEnvironment;
