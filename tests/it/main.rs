//! The integration tests: one binary that drives the real program.

mod agent;
mod artifact_hello;
mod cli_delete_env;
mod cli_output;
mod cli_usage;
mod completions;
mod hello;
mod interpolate;
mod local_cpi;
mod ops;
mod support;
mod vars;
mod yaml;
