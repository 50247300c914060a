//! Bundles for machines without a network: one file with everything that a manifest needs.
//!
//! Entry points: [`export()`], which collects the artifacts and writes the file; [`import()`], which verifies
//! a file and puts its content into the cache of this machine. `bundle` in [`artifact::shared_cache`] has the
//! format.

mod export;
mod import;

pub use export::{ExportRequest, export};
pub use import::import;
