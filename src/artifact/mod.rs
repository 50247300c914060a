//! Locates, verifies and unpacks stemcells and releases; digests; the rules for hostile archives.
