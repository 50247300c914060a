//! The integration tests: one binary that drives the real program.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a test that cannot go on says so by panicking; clippy exempts test functions, not their helpers"
)]

mod agent;
mod agent_client;
mod artifact_hello;
mod bad_input;
mod baremetal;
mod bosh_compatibility;
mod bosh_json;
mod cache;
mod canary;
mod chaos;
mod cli_delete_env;
mod cli_interpolate;
mod cli_output;
mod cli_usage;
mod completions;
mod contract;
mod cpi_check;
mod cpi_release;
mod crash;
mod credentials;
mod documents;
mod encryption;
mod env_file;
mod events;
mod examples;
mod failures;
mod fetch;
mod generated_files;
mod hello;
mod hello_ctl;
mod hints;
mod hostile_archives;
mod inspect;
mod interpolate;
mod ironic_cpi;
mod jobs;
mod layers;
mod legacy_state;
mod lifecycle;
mod local_cpi;
mod operate;
mod ops;
mod package;
mod pictures;
mod pipelines;
mod plan;
mod prose;
mod qemu_cpi;
mod registry;
mod releases;
mod render;
mod safety;
mod secrets;
mod several_cpis;
mod shared_cache;
mod shared_state;
mod support;
mod template;
mod terminal;
mod typos;
mod userland;
mod vars;
mod vars_exec;
mod width;
mod yaml;
