//! monopile bootstraps a deployment that is one VM from an ordinary BOSH manifest.
//!
//! Data flows one way: `manifest` (what is wanted) and `artifact` (stemcell, releases) together
//! with `state` (what is) make a `plan`; `apply` runs it through `cpi` and `agent`, recording every
//! effect in `state`, and tells `ui` about it as events. `cli` turns arguments into one call of this
//! library and its result into an exit code. `workbench` is for people who write CPIs.
//!
//! The library never prints, and never reads the environment or `$HOME`: `cli` passes both in.

pub mod agent;
pub mod apply;
pub mod artifact;
pub mod builtin;
pub mod cli;
pub mod cpi;
mod durable;
pub mod error;
pub mod history;
pub mod ironic;
mod locked;
pub mod manifest;
mod notation;
pub mod plan;
mod schedule;
pub mod seal;
mod serving;
mod ssh;
pub mod state;
pub mod template;
pub mod timing;
mod tree;
mod trust;
pub mod ui;
pub mod workbench;

pub use error::{Error, ErrorKind, Result};
