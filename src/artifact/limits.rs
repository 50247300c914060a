//! Timeouts of downloads, and size limits of documents in artifacts.

use std::time::Duration;

/// The timeout of connecting to a host, over all its addresses, and of each answer of a proxy or a jumpbox. A
/// proxy may itself have to wait for a server.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// The timeout of everything before the request: the login at a jumpbox, the connection from there, and TLS.
/// Each of the three may take [`CONNECT_TIMEOUT`].
pub const SETUP_TIMEOUT: Duration = Duration::from_secs(90);
/// The timeout from the request to the end of the headers of the answer. Some servers fetch a file before
/// they send it.
pub const HEADERS_TIMEOUT: Duration = Duration::from_secs(60);
/// The timeout of a download in which no byte moves. A slow download that makes progress has no timeout.
pub const STALL_TIMEOUT: Duration = Duration::from_secs(60);
/// The timeout of asking the release feed, from the connection to the end of the answer.
pub const FEED_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum size of the answer of a release feed, in bytes. That of GitHub has 2 KiB for each file.
pub const MAX_FEED_BYTES: u64 = 1 << 20;
/// The maximum size of a YAML document of a stemcell or release, in bytes. The largest `release.MF` in
/// cf-deployment has 300 KiB.
pub const MAX_DOCUMENT_BYTES: u64 = 8 << 20;
/// The maximum number of nodes in a YAML document of a stemcell or release. The largest `release.MF` in
/// cf-deployment has about 20,000.
pub const MAX_DOCUMENT_NODES: usize = 1_000_000;
