//! The command line of monopile: arguments in, text and exit codes out.
//!
//! `cli` turns arguments into one call of the crate `engine` and its result into an exit code, `ui` renders the events
//! of a run, and `conformance` puts a CPI to the test. See `docs/architecture.md` for the crates below this one.

pub mod cli;
pub mod conformance;
pub mod ui;
