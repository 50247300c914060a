//! The integration tests: one binary that drives the real program.

mod cli_delete_env;
mod cli_output;
mod cli_usage;
mod completions;
mod interpolate;
mod support;
mod vars;
