//! The program: command line, output, and the CPI check. `docs/architecture.md` has the map.
//!
//! Entry points: [`cli::main`], the whole program; [`cli::grammar`], its grammar for man pages and
//! completions; [`ui::create_renderer()`], which renders the events of a run; [`conformance::check()`],
//! which tests a CPI.

pub mod cli;
pub mod conformance;
pub mod ui;
