//! Timeouts of downloads, and of the feed of monopile's own releases (`version --check`).

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
/// The timeout of asking the feed of monopile's releases, from the connection to the end of the answer.
pub const FEED_TIMEOUT: Duration = Duration::from_secs(10);
