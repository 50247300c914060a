//! The rows of the suite, each in its own file.

mod blobs;
mod cpi_calls;
mod fleet;
mod hello;
mod interpolate;
mod large;
mod lifecycle;
pub(crate) mod packages;
mod pipeline;
mod redact;
mod startup;
mod stemcell;
mod templates;
mod unchanged;
mod update;
mod userland;

use crate::Suite;
use crate::findings::Findings;

/// One row: a measurement with its description.
pub(crate) struct Row {
    pub name: &'static str,
    /// A description of the work.
    pub work: &'static str,
    pub measure: fn(&Suite) -> Findings,
}

/// The memory limit of all work, in KiB.
pub(crate) const MEMORY_KIB: u64 = 64 * 1024;

/// All rows in the order of measurement.
pub(crate) const ROWS: [Row; 16] = [
    stemcell::ROW,
    unchanged::ROW,
    cpi_calls::ROW,
    hello::ROW,
    lifecycle::ROW,
    packages::ROW,
    pipeline::ROW,
    blobs::ROW,
    interpolate::ROW,
    startup::ROW,
    templates::ROW,
    update::ROW,
    fleet::ROW,
    large::ROW,
    redact::ROW,
    userland::ROW,
];
