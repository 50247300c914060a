//! Plans and acts. This is the only crate that sees the CPI, the agent and the state together.
//!
//! Each module uses only those before it in the layer table of `docs/architecture.md`, which also explains
//! the contracts. `docs/journal.md` has the rules of the journal.
//!
//! Entry points:
//! - [`deploy::create_env()`] and the other commands in [`deploy`], [`record_commands`], [`resources`] and
//!   [`inspection`]: each takes a request and a [`run_context::RunContext`].
//! - [`plan::create()`]: chooses the steps without I/O.
//! - [`state::Store`]: the locked state.
//! - [`cpi::Cpi`]: one CPI.

pub mod agent_client;
pub mod bundle;
pub mod cpi;
pub mod cpi_set;
pub mod deploy;
mod effects;
pub mod history;
pub mod inspection;
mod jobs;
pub mod plan;
mod prepare;
pub mod protocol;
pub mod record_commands;
mod recovery;
pub mod registry_server;
pub mod resources;
pub mod run_context;
pub mod state;
pub mod templates;
