//! Decides and acts: the only crate that sees the CPI, the agent and the state together.
//!
//! Uses `artifact`, `base`, `erb`, `manifest`, `net` and `yaml`. Its modules stand in this order, each using
//! only those before it: [`protocol`]; [`cpi`] and [`agent`]; [`state`]; [`registry`]; [`plan`];
//! [`templates`]; [`history`]; [`apply`]. `docs/architecture.md` explains the contracts and the rules of the
//! journal.
//!
//! Entry points: [`apply::create_env()`] and the other commands in [`apply`]; [`plan::create()`], which
//! decides on the steps without I/O; [`state::Store`], the locked state; [`cpi::Cpi`], one CPI.

pub mod agent;
pub mod apply;
pub mod cpi;
pub mod history;
pub mod plan;
pub mod protocol;
pub mod registry;
pub mod state;
pub mod templates;
