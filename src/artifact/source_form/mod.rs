//! Releases in source form: directories that are packed while they are read, without `create-release`.
//! `stemcell::source_form` reads stemcells in source form, with the file sets of this module.
//!
//! The result has the layout of an unpacked tarball, so that one loader reads both. Equal content gives equal
//! bytes, fingerprints and versions, on any machine and at any time.

pub(crate) mod files;
pub(super) mod release;

#[cfg(test)]
mod tests;
