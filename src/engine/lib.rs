//! Decides and acts: the only crate that sees the CPI, the agent and the state together.
//!
//! It uses `yaml`, `erb`, `base`, `net`, `artifact` and `manifest`. Its modules stand in this order, each using only those
//! above it: `protocol`, `cpi` and `agent`, `state`, `registry`, `plan`, `history`, `apply`.

pub mod agent;
pub mod apply;
pub mod cpi;
pub mod history;
pub mod plan;
pub mod protocol;
pub mod registry;
pub mod state;
pub mod templates;
