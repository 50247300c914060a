//! CPIs that come as jobs of releases: installed on this machine, then driven through an environment's life.

mod cache;
mod failures;
mod lifecycle;
mod recorded;
pub(crate) mod setup;
mod traffic;
