//! Size limits of documents in artifacts, and of the answer of the feed of monopile's own releases
//! (`version --check`).

/// The maximum size of the answer of a feed of monopile's releases, in bytes. That of GitHub has 2 KiB for
/// each file.
pub const MAX_FEED_BYTES: u64 = 1 << 20;
/// The maximum size of a YAML document of a stemcell or release, in bytes. The largest `release.MF` in
/// cf-deployment has 300 KiB.
pub const MAX_DOCUMENT_BYTES: u64 = 8 << 20;
/// The maximum number of nodes in a YAML document of a stemcell or release. The largest `release.MF` in
/// cf-deployment has about 20,000.
pub const MAX_DOCUMENT_NODES: usize = 1_000_000;
