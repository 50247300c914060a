//! What can be measured, each in a file of its own.

mod blobs;
mod cpi_calls;
mod hello;
mod interpolate;
pub(crate) mod packages;
mod redact;
mod startup;
mod stemcell;
mod templates;
mod unchanged;
mod update;

use crate::Suite;
use crate::findings::Findings;

/// Something that can be measured.
pub(crate) struct Row {
    pub name: &'static str,
    /// The work.
    pub work: &'static str,
    pub measure: fn(&Suite) -> Findings,
}

/// The most memory any of the work may take, in KiB.
pub(crate) const MEMORY_KIB: u64 = 64 * 1024;

/// In the order in which they are measured.
pub(crate) const ROWS: [Row; 11] = [
    stemcell::ROW,
    unchanged::ROW,
    cpi_calls::ROW,
    hello::ROW,
    packages::ROW,
    blobs::ROW,
    interpolate::ROW,
    startup::ROW,
    templates::ROW,
    update::ROW,
    redact::ROW,
];
