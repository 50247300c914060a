//! Releases and stemcells in source form: a directory that is packed on the fly, without `create-release`.
//!
//! What results is laid out on disk as the unpacked tarball would be, so that one loader reads both.
//! Everything is deterministic: equal content gives equal bytes, fingerprints and versions, on any machine
//! and at any time.

mod files;
pub(super) mod release;
pub(super) mod stemcell;

#[cfg(test)]
mod tests;
