//! CPIs that are jobs of releases: installed on this machine, then used for the complete life of an
//! environment.

mod cache;
mod conversations;
mod early;
mod failures;
mod lifecycle;
pub(crate) mod setup;
mod traffic;
