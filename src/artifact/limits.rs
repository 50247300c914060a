//! The limits of the waits of downloads, and of the sizes of documents in artifacts.

use std::time::Duration;

/// Limit of a connection to a host, with all its addresses, and of each answer of a proxy or a jumpbox. A
/// proxy may itself have to wait for a server.
pub const CONNECT: Duration = Duration::from_secs(30);
/// Limit of everything before the request: the login at a jumpbox, the connection from there, and TLS. Each
/// of the three may take [`CONNECT`].
pub const SETUP: Duration = Duration::from_secs(90);
/// Limit from the request to the end of the headers of the answer. Some servers fetch a file before they send
/// it.
pub const ANSWER: Duration = Duration::from_secs(60);
/// Limit of a download in which no byte moves. A slow download that goes on has no limit.
pub const STALL: Duration = Duration::from_secs(60);
/// The largest YAML document of a stemcell or release, in bytes. The largest `release.MF` in cf-deployment
/// has 300 KiB.
pub const DOCUMENT: u64 = 8 << 20;
/// The largest number of nodes in such a document. The largest `release.MF` in cf-deployment has about
/// 20,000.
pub const NODES: usize = 1_000_000;
