//! Connections for ureq: direct, or through an HTTP proxy, a SOCKS proxy or a jumpbox.
//!
//! ureq's own proxies are not used. They cannot be combined, and they ask HTTP proxies for tunnels to plain
//! HTTP servers, which many proxies refuse. Each request has a connection of its own.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport,
};

use super::Interrupted;
use super::proxy::{Credentials, Proxies, Proxy, Route};
use super::socks5;
#[cfg(unix)]
use super::tunnel::Tunnel;
use base::encoding::basic_authorization;

/// Timeout for connecting to one address, and for each answer of a proxy.
const CONNECT: Duration = Duration::from_secs(30);
/// Timeout of a transfer during which no bytes arrive.
const STALL: Duration = Duration::from_secs(60);
/// Interval between checks for an interruption while waiting for bytes.
const SLICE: Duration = Duration::from_millis(500);
/// Longest accepted answer of a proxy to CONNECT, in bytes.
const MAX_ANSWER: usize = 16 << 10;

/// A connection of any kind.
pub(super) trait Stream: Read + Write + Send + Sync {
    fn set_timeouts(&self, read: Duration, write: Duration) -> io::Result<()>;

    /// Returns another handle of the same connection.
    fn duplicate(&self) -> io::Result<Box<dyn Stream>>;
}

impl Stream for TcpStream {
    fn set_timeouts(&self, read: Duration, write: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(read))?;
        self.set_write_timeout(Some(write))
    }

    fn duplicate(&self) -> io::Result<Box<dyn Stream>> {
        Ok(Box::new(self.try_clone()?))
    }
}

#[cfg(unix)]
impl Stream for std::os::unix::net::UnixStream {
    fn set_timeouts(&self, read: Duration, write: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(read))?;
        self.set_write_timeout(Some(write))
    }

    fn duplicate(&self) -> io::Result<Box<dyn Stream>> {
        Ok(Box::new(self.try_clone()?))
    }
}

/// Opens connections through the proxies of the environment variables. Cheap to clone; clones share the
/// session with the jumpbox.
#[derive(Clone)]
pub(super) struct Dialer(Arc<Inner>);

struct Inner {
    proxies: Proxies,
    interrupted: Interrupted,
    /// The session with the jumpbox, opened for the first connection.
    #[cfg(unix)]
    tunnel: Mutex<Option<Arc<Tunnel>>>,
}

impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.proxies.fmt(f)
    }
}

impl Dialer {
    pub(super) fn new(proxies: Proxies, interrupted: Interrupted) -> Self {
        Dialer(Arc::new(Inner {
            proxies,
            interrupted,
            #[cfg(unix)]
            tunnel: Mutex::new(None),
        }))
    }

    /// Opens a connection to `host`. An error of kind `PermissionDenied` is permanent.
    pub(super) fn dial(&self, host: &str, port: u16) -> io::Result<Box<dyn Stream>> {
        match self.0.proxies.route(host, port) {
            Route::Direct => Ok(Box::new(direct(host, port)?)),
            Route::Socks5(proxy) => {
                let through = |error| about(error, &format!("the SOCKS proxy {proxy}"));
                let mut stream = direct(&proxy.host, proxy.port).map_err(through)?;
                stream.set_timeouts(CONNECT, CONNECT)?;
                socks5::connect(&mut stream, host, port, proxy.credentials.as_ref()).map_err(through)?;
                Ok(Box::new(stream))
            }
            #[cfg(unix)]
            Route::Ssh { server, private_key } => {
                let through = |error| about(error, &format!("the jumpbox {server}"));
                let mut known = self.0.tunnel.lock();
                let tunnel = match known.as_ref().filter(|tunnel| !tunnel.is_closed()) {
                    Some(tunnel) => Arc::clone(tunnel),
                    None => {
                        let tunnel = Arc::new(Tunnel::open(server, private_key).map_err(through)?);
                        Arc::clone(known.insert(tunnel))
                    }
                };
                drop(known);
                Ok(Box::new(tunnel.connect(host, port).map_err(through)?))
            }
            #[cfg(not(unix))]
            Route::Ssh { .. } => {
                Err(io::Error::new(io::ErrorKind::PermissionDenied, "ssh+socks5:// works only on Unix"))
            }
        }
    }
}

fn direct(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut last = None;
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the host has no address")))
}

/// Adds the name of the hop that failed. The kind stays.
fn about(error: io::Error, hop: &str) -> io::Error {
    io::Error::new(error.kind(), format!("{hop}: {error}"))
}

impl Connector<()> for Dialer {
    type Out = Wire;

    fn connect(&self, details: &ConnectionDetails<'_>, _: Option<()>) -> Result<Option<Wire>, ureq::Error> {
        let tls = details.needs_tls();
        let host = details.uri.host().unwrap_or_default();
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let port = details.uri.port_u16().unwrap_or(if tls { 443 } else { 80 });
        let (stream, prefix) = match self.0.proxies.http(tls, host, port) {
            None => (self.dial(host, port)?, None),
            Some(proxy) => {
                let through = |error| about(error, &format!("the HTTP proxy {proxy}"));
                let mut stream = self.dial(&proxy.host, proxy.port).map_err(through)?;
                let authority = details.uri.authority().map_or(host, |authority| authority.as_str());
                if tls {
                    stream.set_timeouts(CONNECT, CONNECT)?;
                    let target = if details.uri.port_u16().is_some() {
                        authority.to_owned()
                    } else {
                        format!("{authority}:443")
                    };
                    ask_for_tunnel(&mut *stream, &target, proxy).map_err(through)?;
                    (stream, None)
                } else {
                    (stream, Some(Absolute { origin: format!("http://{authority}"), proxy: proxy.clone() }))
                }
            }
        };
        let config = details.config;
        let buffers = LazyBuffers::new(config.input_buffer_size(), config.output_buffer_size());
        Ok(Some(Wire { stream, buffers, prefix, interrupted: Arc::clone(&self.0.interrupted) }))
    }
}

/// Sends CONNECT to an HTTP proxy. On success `stream` leads to `target`.
fn ask_for_tunnel(stream: &mut dyn Stream, target: &str, proxy: &Proxy) -> io::Result<()> {
    let mut request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n");
    request.push_str(&authorization(proxy.credentials.as_ref()));
    request.push_str("\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    // Reads single bytes, because the bytes after the answer belong to the target.
    while !answer.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        answer.push(byte[0]);
        if answer.len() > MAX_ANSWER {
            return Err(io::Error::other("its answer is too long"));
        }
    }
    let line = String::from_utf8_lossy(&answer);
    let line = line.lines().next().unwrap_or_default();
    match line.split_whitespace().nth(1).and_then(|status| status.parse::<u16>().ok()) {
        Some(200..=299) => Ok(()),
        Some(407) => {
            Err(io::Error::new(io::ErrorKind::PermissionDenied, "it does not accept user and password (407)"))
        }
        Some(status @ 400..=499) => {
            Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("it answered CONNECT with {status}")))
        }
        Some(status) => Err(io::Error::other(format!("it answered CONNECT with {status}"))),
        None => Err(io::Error::new(io::ErrorKind::PermissionDenied, "it does not speak HTTP")),
    }
}

fn authorization(credentials: Option<&Credentials>) -> String {
    credentials.map_or_else(String::new, |(user, password)| {
        format!("Proxy-Authorization: {}\r\n", basic_authorization(user, password))
    })
}

/// A connection with ureq's buffers.
pub(super) struct Wire {
    stream: Box<dyn Stream>,
    buffers: LazyBuffers,
    /// The change to the head of the request if it goes to an HTTP proxy.
    prefix: Option<Absolute>,
    interrupted: Interrupted,
}

/// Rewrites the head of a request for an HTTP proxy: the request line gets the whole URL, and the proxy's
/// credentials are added.
struct Absolute {
    origin: String,
    proxy: Proxy,
}

impl Absolute {
    fn rewrite(&self, head: &[u8]) -> io::Result<Vec<u8>> {
        let broken = || io::Error::other("the request has no valid head for the HTTP proxy");
        let line_end = head.windows(2).position(|two| two == b"\r\n").ok_or_else(broken)? + 2;
        let target = head[..line_end].iter().position(|byte| *byte == b' ').ok_or_else(broken)? + 1;
        let authorization = authorization(self.proxy.credentials.as_ref());
        let parts = [
            &head[..target],
            self.origin.as_bytes(),
            &head[target..line_end],
            authorization.as_bytes(),
            &head[line_end..],
        ];
        Ok(parts.concat())
    }
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wire")
    }
}

/// Returns the time left for an operation, at most [`STALL`].
fn left(timeout: &NextTimeout) -> Duration {
    timeout.not_zero().map_or(STALL, |left| (*left).min(STALL))
}

fn timed_out(error: io::Error, timeout: &NextTimeout) -> ureq::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut if timeout.not_zero().is_some() => {
            ureq::Error::Timeout(timeout.reason)
        }
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => ureq::Error::Io(io::Error::new(
            io::ErrorKind::TimedOut,
            format!("no data arrived for {} seconds", STALL.as_secs()),
        )),
        _ => ureq::Error::Io(error),
    }
}

impl Transport for Wire {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        let wait = left(&timeout);
        self.stream.set_timeouts(wait, wait)?;
        let output = &self.buffers.output()[..amount];
        let sent = match self.prefix.take() {
            Some(absolute) => absolute.rewrite(output).and_then(|head| self.stream.write_all(&head)),
            None => self.stream.write_all(output),
        };
        sent.map_err(|error| timed_out(error, &timeout))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        let end = Instant::now() + left(&timeout);
        let input = self.buffers.input_append_buf();
        let amount = loop {
            let wait = end.saturating_duration_since(Instant::now()).clamp(Duration::from_millis(1), SLICE);
            self.stream.set_timeouts(wait, STALL)?;
            match self.stream.read(input) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
                        && Instant::now() < end =>
                {
                    if (self.interrupted)().is_err() {
                        // `Download` calls `interrupted` again and returns its error instead of this one.
                        return Err(io::Error::new(io::ErrorKind::ConnectionAborted, "interrupted").into());
                    }
                }
                result => break result.map_err(|error| timed_out(error, &timeout))?,
            }
        };
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    fn is_open(&mut self) -> bool {
        // A connection serves only one request.
        false
    }
}

/// A resolver that returns a dummy address. The [`Dialer`] or a proxy resolves the host.
#[derive(Debug)]
pub(super) struct Unresolved;

impl Resolver for Unresolved {
    fn resolve(&self, _: &Uri, _: &Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let mut addresses = self.empty();
        addresses.push(std::net::SocketAddr::from(([0, 0, 0, 0], 0)));
        Ok(addresses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_to_a_proxy_has_the_whole_url() {
        let proxy = Proxy { host: "p".into(), port: 1, credentials: Some(("u".into(), "p".into())) };
        let absolute = Absolute { origin: "http://a.com:81".into(), proxy };
        let head = absolute.rewrite(b"GET /x?y HTTP/1.1\r\nHost: a.com:81\r\n\r\n").unwrap();
        let expected =
            "GET http://a.com:81/x?y HTTP/1.1\r\nProxy-Authorization: Basic dTpw\r\nHost: a.com:81\r\n\r\n";
        assert_eq!(String::from_utf8(head).unwrap(), expected);
        assert!(absolute.rewrite(b"GET").is_err());
    }
}
