//! Releases in source form: a directory that is packed on the fly, without `create-release`. Stemcells in source form
//! are read by `stemcell::source_form`, with the file sets of this module.
//!
//! What results is laid out on disk as the unpacked tarball would be, so that one loader reads both.
//! Everything is deterministic: equal content gives equal bytes, fingerprints and versions, on any machine
//! and at any time.

pub(crate) mod files;
pub(super) mod release;

#[cfg(test)]
mod tests;
