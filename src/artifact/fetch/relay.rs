//! A connection through a proxy for a program that wants it on its standard input and output, as ssh wants its
//! `ProxyCommand`.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::Duration;

use super::proxy::Proxies;
use super::wire::Dialer;
use base::{Error, Result};

/// What stands for no timeout: who speaks through here knows when to give up.
const YEAR: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// Connects to `host` through the proxy at `url`, which is as `BOSH_ALL_PROXY` has it, and copies both ways until one
/// side ends.
pub fn relay(
    url: &str,
    host: &str,
    port: u16,
    mut input: impl Read + Send + 'static,
    mut output: impl Write,
) -> Result<()> {
    let dialer = Dialer::new(Proxies::through(url)?, Arc::new(|| Ok(())));
    let failed = |error| Error::io(format!("connecting to {host}:{port}"), error);
    let mut stream = dialer.dial(host, port).map_err(failed)?;
    stream.set_timeouts(YEAR, YEAR).map_err(failed)?;
    let mut there = stream.another().map_err(failed)?;
    // It ends with this program: what is read when the other side has gone is of no use.
    std::thread::Builder::new()
        .name("relay".into())
        .spawn(move || copy(&mut input, &mut there))
        .map_err(|error| Error::io("starting a thread", error))?;
    copy(&mut stream, &mut output)
        .map_err(|error| Error::io(format!("the connection to {host}:{port}"), error))
}

/// Copies what comes as it comes.
fn copy(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut buffer = vec![0; 32 * 1024];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => to.write_all(&buffer[..count]).and_then(|()| to.flush())?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
