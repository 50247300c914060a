//! Turns a manifest, ops files and variables into a validated deployment.
//!
//! This crate reads the files and runs the programs that it is given, and writes the vars store. For hints,
//! it looks for vars files beside the manifest. It does no other I/O.
//!
//! Entry points: [`load()`] for commands that deploy, [`LoadedManifest::deployment`] for the typed manifest
//! ([`Deployment`]), [`LoadedManifest::emit`] for the manifest as text, and [`vars_commands::command::run`]
//! for operations on a vars store.
//!
//! Four modules are about variables: [`variables`] replaces `((name))`, [`vars_store`] has the file of
//! generated values and their generators, [`vars_program`] runs a program that prints values, and
//! [`vars_commands`] has the work of the commands of `vars`.

mod cloud_config;
pub mod cpi_config;
mod deploy_text;
pub mod deployment;
mod document_kind;
mod files;
mod inputs;
mod leaves;
mod load;
mod node_kind;
pub mod ops;
mod reader;
mod secrets;
mod unknown_keys;
mod userland;
pub mod variables;
pub mod vars_commands;
pub mod vars_program;
pub mod vars_store;

pub use cloud_config::CloudConfig;
pub use cpi_config::{CpiConfig, CpiEntry, cpi_label};
pub use deploy_text::deploy_text;
pub use deployment::Deployment;
pub use document_kind::{
    MANIFEST_SECTIONS, bare_missing_manifest_error, file_option, is_manifest, manifest_directory_error,
    missing_manifest_error, missing_manifest_or_state_error, non_manifest_reason,
};
pub use files::read_text;
pub use inputs::{EnvFileVariables, Inputs, SavePolicy};
pub use leaves::Leaf;
pub use load::{
    LoadOptions, LoadedManifest, certificate_expiries, load, load_outline, load_with_check,
    load_with_options, pass_file_hint, read_environment_name, read_static_addresses, register_secrets,
};
pub use node_kind::kind_with_article;
pub use secrets::{register_named_secrets, register_property_secrets, register_url_secrets};
pub use unknown_keys::unknown_keys;
pub use userland::UserlandRef;
pub use variables::VariableValue;
pub use vars_program::VarsProgram;
pub use vars_store::expiry::{day, describe_certificates};
