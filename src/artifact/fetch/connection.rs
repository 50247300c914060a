//! Connections for ureq: direct, or through an HTTP proxy, a SOCKS proxy or a jumpbox.
//!
//! ureq's own proxies are not used. They cannot be combined, and they ask HTTP proxies for tunnels to plain
//! HTTP servers, which many proxies refuse. Each request has a connection of its own.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport,
};

use super::InterruptCheck;
use super::jumpbox::JumpboxSession;
use super::proxy::{Proxies, ProxyCredentials, ProxyServer, Route};
use super::socks5;
use crate::timeouts::{CONNECT_TIMEOUT, STALL_TIMEOUT};
use base::encoding::basic_authorization;
use base::text::format_duration;
use net::http_client::{self, INTERRUPT_CHECK_INTERVAL, is_not_ready};
use net::plain_errors::io_problem;

/// The maximum size of a proxy's answer to CONNECT, in bytes.
const MAX_ANSWER_BYTES: usize = 16 << 10;

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
pub(super) struct ProxyDialer(Arc<DialerData>);

/// The content of a [`ProxyDialer`].
struct DialerData {
    proxies: Proxies,
    interrupt_check: InterruptCheck,
    /// The session with the jumpbox, opened for the first connection.
    jumpbox: Mutex<Option<Arc<JumpboxSession>>>,
}

impl fmt::Debug for ProxyDialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.proxies.fmt(f)
    }
}

impl ProxyDialer {
    pub(super) fn new(proxies: Proxies, interrupt_check: InterruptCheck) -> Self {
        ProxyDialer(Arc::new(DialerData { proxies, interrupt_check, jumpbox: Mutex::new(None) }))
    }

    /// Opens a connection to `host`, whose reads and writes time out after [`INTERRUPT_CHECK_INTERVAL`]. Each
    /// hop on the way may take `timeout` to connect, and with a jumpbox [`CONNECT_TIMEOUT`]. An error of kind
    /// `PermissionDenied` is permanent.
    pub(super) fn dial(&self, host: &str, port: u16, timeout: Duration) -> io::Result<Box<dyn Stream>> {
        let is_interrupted = || (self.0.interrupt_check)().is_err();
        let stream: Box<dyn Stream> = match self.0.proxies.route(host, port) {
            Route::Direct => Box::new(http_client::dial(host, port, timeout, &is_interrupted)?),
            Route::Socks5(proxy) => {
                let hop = format!("the SOCKS proxy {proxy}");
                let proxy_error = |error| ProxyFailure::wrap(error, &hop);
                let mut stream = http_client::dial(&proxy.host, proxy.port, timeout, &is_interrupted)
                    .map_err(|error| ProxyFailure::wrap(error, &format!("{hop} cannot be reached")))?;
                stream.set_timeouts(INTERRUPT_CHECK_INTERVAL, INTERRUPT_CHECK_INTERVAL)?;
                let mut limited_stream =
                    TimeLimitedStream::new(&mut stream, timeout, &self.0.interrupt_check);
                socks5::log_in(&mut limited_stream, proxy.credentials.as_ref()).map_err(proxy_error)?;
                socks5::connect(&mut limited_stream, host, port).map_err(|error| match error.kind() {
                    io::ErrorKind::PermissionDenied => proxy_error(error),
                    _ => with_hop(error, &hop),
                })?;
                Box::new(stream)
            }
            Route::Ssh { server, private_key } => {
                let hop = format!("the jumpbox {server}");
                let interrupt_check = &self.0.interrupt_check;
                let mut session = self.0.jumpbox.lock();
                let jumpbox = match session.as_ref().filter(|jumpbox| !jumpbox.is_closed()) {
                    Some(jumpbox) => Arc::clone(jumpbox),
                    None => {
                        let jumpbox = Arc::new(
                            JumpboxSession::open(server, private_key, interrupt_check)
                                .map_err(|error| ProxyFailure::wrap(error, &hop))?,
                        );
                        Arc::clone(session.insert(jumpbox))
                    }
                };
                drop(session);
                Box::new(jumpbox.connect(host, port, interrupt_check).map_err(|error| with_hop(error, &hop))?)
            }
        };
        stream.set_timeouts(INTERRUPT_CHECK_INTERVAL, INTERRUPT_CHECK_INTERVAL)?;
        Ok(stream)
    }
}

/// A connection whose reads and writes end at a timeout, or at a signal. Its own timeouts must be
/// [`INTERRUPT_CHECK_INTERVAL`].
struct TimeLimitedStream<'a, S: ?Sized> {
    stream: &'a mut S,
    timeout: Duration,
    end: Instant,
    interrupt_check: &'a InterruptCheck,
}

impl<'a, S: Stream + ?Sized> TimeLimitedStream<'a, S> {
    /// Wraps a connection. The timeout begins now.
    fn new(stream: &'a mut S, timeout: Duration, interrupt_check: &'a InterruptCheck) -> Self {
        TimeLimitedStream { stream, timeout, end: Instant::now() + timeout, interrupt_check }
    }

    fn repeat<T>(&mut self, mut attempt: impl FnMut(&mut S) -> io::Result<T>) -> io::Result<T> {
        loop {
            match attempt(self.stream) {
                Err(error) if is_not_ready(&error) => {}
                outcome => return outcome,
            }
            if (self.interrupt_check)().is_err() {
                // `Download` calls `interrupt_check` again and returns its error instead of this one.
                return Err(http_client::interrupted_error());
            }
            if Instant::now() >= self.end {
                let text = format!("no data arrived for {}", format_duration(self.timeout));
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
        }
    }
}

impl<S: Stream + ?Sized> Read for TimeLimitedStream<'_, S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.repeat(|stream| stream.read(buffer))
    }
}

impl<S: Stream + ?Sized> Write for TimeLimitedStream<'_, S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.repeat(|stream| stream.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// The failure of the proxy or jumpbox of `BOSH_ALL_PROXY` itself, inside an [`io::Error`]. If it only cannot
/// reach the target, the error has no such value.
#[derive(Debug, thiserror::Error)]
#[error("{hop}: {}", io_problem(problem))]
pub struct ProxyFailure {
    /// The kind and address of the proxy, without its credentials, and what failed if the problem lacks it.
    hop: String,
    problem: io::Error,
}

impl ProxyFailure {
    /// Wraps the error of a hop. Keeps the kind.
    fn wrap(problem: io::Error, hop: &str) -> io::Error {
        io::Error::new(problem.kind(), ProxyFailure { hop: hop.to_owned(), problem })
    }

    /// Finds the failure inside an error.
    pub fn find_inside(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }

    /// Returns true if a retry cannot help: the proxy refuses the login or the connection, or the private key
    /// cannot be used.
    pub fn is_permanent(&self) -> bool {
        self.problem.kind() == io::ErrorKind::PermissionDenied
    }
}

/// Adds the name of the hop that failed. Keeps the kind.
fn with_hop(error: io::Error, hop: &str) -> io::Error {
    io::Error::new(error.kind(), format!("{hop}: {}", io_problem(&error)))
}

impl Connector<()> for ProxyDialer {
    type Out = ProxyConnection;

    /// Connects to the server, directly or through the proxy of its scheme. HTTPS goes through a tunnel, and
    /// the head of a plain HTTP request is rewritten for the proxy.
    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        _: Option<()>,
    ) -> Result<Option<ProxyConnection>, ureq::Error> {
        let is_tls = details.needs_tls();
        let host = details.uri.host().unwrap_or_default();
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let port = details.uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let timeout = CONNECT_TIMEOUT.min(*details.timeout.after);
        let (stream, head_rewriter) = match self.0.proxies.http_proxy(is_tls, host, port) {
            None => (self.dial(host, port, timeout)?, None),
            Some(proxy) => {
                let with_proxy = |error| with_hop(error, &format!("the HTTP proxy {proxy}"));
                let mut stream = self
                    .dial(&proxy.host, proxy.port, timeout)
                    .map_err(|error| with_hop(error, &format!("the HTTP proxy {proxy} cannot be reached")))?;
                let authority = details.uri.authority().map_or(host, |authority| authority.as_str());
                if is_tls {
                    let target = if details.uri.port_u16().is_some() {
                        authority.to_owned()
                    } else {
                        format!("{authority}:443")
                    };
                    let mut limited_stream =
                        TimeLimitedStream::new(&mut *stream, timeout, &self.0.interrupt_check);
                    ask_for_tunnel(&mut limited_stream, &target, proxy).map_err(with_proxy)?;
                    (stream, None)
                } else {
                    (
                        stream,
                        Some(ProxyHeadRewriter {
                            origin: format!("http://{authority}"),
                            proxy: proxy.clone(),
                        }),
                    )
                }
            }
        };
        let config = details.config;
        let buffers = LazyBuffers::new(config.input_buffer_size(), config.output_buffer_size());
        let interrupt_check = Arc::clone(&self.0.interrupt_check);
        Ok(Some(ProxyConnection {
            stream,
            buffers,
            head_rewriter,
            interrupt_check,
            last_interrupt_check: Instant::now(),
        }))
    }
}

/// Sends CONNECT to an HTTP proxy. On success `stream` leads to `target`.
fn ask_for_tunnel(stream: &mut (impl Read + Write), target: &str, proxy: &ProxyServer) -> io::Result<()> {
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
        if answer.len() > MAX_ANSWER_BYTES {
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

fn authorization(credentials: Option<&ProxyCredentials>) -> String {
    credentials.map_or_else(String::new, |(user, password)| {
        format!("Proxy-Authorization: {}\r\n", basic_authorization(user, password))
    })
}

/// A connection with ureq's buffers.
pub(super) struct ProxyConnection {
    stream: Box<dyn Stream>,
    buffers: LazyBuffers,
    /// The change to the head of the request if it goes to an HTTP proxy.
    head_rewriter: Option<ProxyHeadRewriter>,
    interrupt_check: InterruptCheck,
    /// The time of the last call of `interrupt_check`.
    last_interrupt_check: Instant,
}

/// Rewrites the head of a request for an HTTP proxy: the request line gets the whole URL, and the proxy's
/// credentials are added.
struct ProxyHeadRewriter {
    origin: String,
    proxy: ProxyServer,
}

impl ProxyHeadRewriter {
    fn rewrite(&self, head: &[u8]) -> io::Result<Vec<u8>> {
        let no_head_error = || io::Error::other("the request has no valid head for the HTTP proxy");
        let line_end = head.windows(2).position(|two| two == b"\r\n").ok_or_else(no_head_error)? + 2;
        let target = head[..line_end].iter().position(|byte| *byte == b' ').ok_or_else(no_head_error)? + 1;
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

impl fmt::Debug for ProxyConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProxyConnection")
    }
}

/// Returns the time left for an operation, at most [`STALL_TIMEOUT`].
fn time_left(timeout: &NextTimeout) -> Duration {
    (*timeout.after).min(STALL_TIMEOUT)
}

fn transfer_error(error: io::Error, timeout: &NextTimeout) -> ureq::Error {
    match error.kind() {
        io::ErrorKind::TimedOut if *timeout.after <= STALL_TIMEOUT => ureq::Error::Timeout(timeout.reason),
        _ => ureq::Error::Io(error),
    }
}

impl Transport for ProxyConnection {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        let output = &self.buffers.output()[..amount];
        let head = self.head_rewriter.take().map(|rewriter| rewriter.rewrite(output)).transpose()?;
        let mut unsent_bytes = head.as_deref().unwrap_or(output);
        let end = Instant::now().checked_add(*timeout.after);
        while !unsent_bytes.is_empty() {
            let remaining_timeout = end.map_or(STALL_TIMEOUT, |end| {
                end.saturating_duration_since(Instant::now()).min(STALL_TIMEOUT)
            });
            let mut limited_stream =
                TimeLimitedStream::new(&mut *self.stream, remaining_timeout, &self.interrupt_check);
            match limited_stream.write(unsent_bytes).map_err(|error| transfer_error(error, &timeout))? {
                0 => return Err(io::Error::from(io::ErrorKind::WriteZero).into()),
                count => unsent_bytes = &unsent_bytes[count..],
            }
        }
        Ok(())
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        // If data keeps arriving, `TimeLimitedStream` never waits for `INTERRUPT_CHECK_INTERVAL` and never
        // checks for signals.
        if self.last_interrupt_check.elapsed() >= INTERRUPT_CHECK_INTERVAL {
            self.last_interrupt_check = Instant::now();
            if (self.interrupt_check)().is_err() {
                return Err(http_client::interrupted_error().into());
            }
        }
        let mut limited_stream =
            TimeLimitedStream::new(&mut *self.stream, time_left(&timeout), &self.interrupt_check);
        let input = self.buffers.input_append_buf();
        let amount = limited_stream.read(input).map_err(|error| transfer_error(error, &timeout))?;
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    fn is_open(&mut self) -> bool {
        // A connection serves only one request.
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxy_request_has_the_absolute_url() {
        let proxy = ProxyServer { host: "p".into(), port: 1, credentials: Some(("u".into(), "p".into())) };
        let rewriter = ProxyHeadRewriter { origin: "http://a.com:81".into(), proxy };
        let head = rewriter.rewrite(b"GET /x?y HTTP/1.1\r\nHost: a.com:81\r\n\r\n").unwrap();
        let expected =
            "GET http://a.com:81/x?y HTTP/1.1\r\nProxy-Authorization: Basic dTpw\r\nHost: a.com:81\r\n\r\n";
        assert_eq!(String::from_utf8(head).unwrap(), expected);
        assert!(rewriter.rewrite(b"GET").is_err());
    }
}
