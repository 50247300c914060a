//! A connection through a proxy on the standard input and output of a program, for the `ProxyCommand` of ssh.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::Duration;

use super::connection::ProxyDialer;
use super::proxy::Proxies;
use crate::timeouts::CONNECT_TIMEOUT;
use base::{Error, Result};

/// The timeout of reads and writes. It is so long that only ssh's own timeouts matter.
const RELAY_TIMEOUT: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// Connects to `host` through the proxy `url`, and copies in both directions until the connection ends. `url`
/// has the form of `BOSH_ALL_PROXY`.
pub fn relay(
    url: &str,
    host: &str,
    port: u16,
    mut input: impl Read + Send + 'static,
    mut output: impl Write,
) -> Result<()> {
    let dialer = ProxyDialer::new(Proxies::from_url(url)?, Arc::new(|| Ok(())));
    let connect_error = |error| Error::io(format!("connecting to {host}:{port}"), error);
    let mut stream = dialer.dial(host, port, CONNECT_TIMEOUT).map_err(connect_error)?;
    stream.set_timeouts(RELAY_TIMEOUT, RELAY_TIMEOUT).map_err(connect_error)?;
    let mut remote = stream.duplicate().map_err(connect_error)?;
    // The thread is not joined. It may wait for input when the connection has ended.
    std::thread::Builder::new()
        .name("relay".into())
        .spawn(move || copy(&mut input, &mut remote))
        .map_err(|error| Error::io("starting a thread", error))?;
    copy(&mut stream, &mut output)
        .map_err(|error| Error::io(format!("the connection to {host}:{port}"), error))
}

/// Copies until the end, and flushes after each read.
fn copy(source: &mut impl Read, target: &mut impl Write) -> io::Result<()> {
    let mut buffer = vec![0; 32 * 1024];
    loop {
        match source.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => target.write_all(&buffer[..count]).and_then(|()| target.flush())?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
