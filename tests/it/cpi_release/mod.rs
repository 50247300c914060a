//! CPIs that are jobs of releases: installed on this machine, then used through an environment's life.

mod cache;
mod failures;
mod lifecycle;
mod recorded;
pub(crate) mod setup;
mod traffic;
