//! The command line of monopile: arguments in, text and exit codes out.
//!
//! Uses every other crate of the workspace except `net`. `docs/architecture.md` has the map.
//!
//! Entry points: [`cli::main`], the whole program; [`cli::command`], its grammar, from which man pages and
//! completions are generated; [`ui::renderer()`], which shows the events of a run; [`conformance::check()`],
//! which tests a CPI.

pub mod cli;
pub mod conformance;
pub mod ui;
