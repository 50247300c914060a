//! Connections for HTTP clients. Every wait ends at its timeout, and within
//! [`INTERRUPT_CHECK_INTERVAL`] of a signal.
//!
//! The connections of ureq itself block in system calls that a signal does not end. The connections of this
//! module resolve and connect on a separate thread. Each of their reads and writes waits for at most
//! [`INTERRUPT_CHECK_INTERVAL`].

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use rustls::ClientConfig;
use ureq::Timeout;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, RustlsConnector, Transport,
};

use crate::known_certificate::TlsConnector;
use base::signals::SignalCheck;
use base::text::format_duration;

/// Interval between two checks for a signal while a connection waits.
pub const INTERRUPT_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Creates an HTTP client that connects directly, without proxies. `config` sets the timeouts of its
/// requests. `tls` replaces the TLS settings of `config`.
pub fn create_client(
    config: Config,
    tls: Option<Arc<ClientConfig>>,
    signal_check: SignalCheck,
) -> ureq::Agent {
    create_client_over(config, tls, Dialer { signal_check })
}

/// Like [`create_client`], with connections of `connector`, which also resolves hosts.
pub fn create_client_over(
    config: Config,
    tls: Option<Arc<ClientConfig>>,
    connector: impl Connector<()>,
) -> ureq::Agent {
    match tls {
        Some(tls) => ureq::Agent::with_parts(config, connector.chain(TlsConnector(tls)), DummyResolver),
        None => ureq::Agent::with_parts(config, connector.chain(RustlsConnector::default()), DummyResolver),
    }
}

/// The error for a host name without an address, wrapped in an [`io::Error`].
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UnresolvedHost(io::Error);

/// Resolves `host` and connects to one of its addresses, within `timeout` in total.
///
/// After an interrupt, the thread that connects ends later: at `timeout`, or when the resolver gives up.
pub fn dial(
    host: &str,
    port: u16,
    timeout: Duration,
    is_interrupted: &dyn Fn() -> bool,
) -> io::Result<TcpStream> {
    let start = Instant::now();
    let (sender, receiver) = mpsc::channel();
    let host = host.to_owned();
    std::thread::Builder::new().name("dial".into()).spawn(move || {
        // A caller that stopped waiting has dropped the receiver.
        let _ = sender.send(connect(&host, port, start, timeout));
    })?;
    let timeout_error = || {
        let text = format!("no connection within {}", format_duration(timeout));
        io::Error::new(io::ErrorKind::TimedOut, text)
    };
    loop {
        let remaining_timeout = timeout.saturating_sub(start.elapsed());
        match receiver.recv_timeout(remaining_timeout.min(INTERRUPT_CHECK_INTERVAL)) {
            Ok(Err(error)) if error.kind() == io::ErrorKind::TimedOut => return Err(timeout_error()),
            Ok(connect_result) => return connect_result,
            Err(RecvTimeoutError::Timeout) if is_interrupted() => return Err(interrupted_error()),
            Err(RecvTimeoutError::Timeout) if start.elapsed() < timeout => {}
            Err(RecvTimeoutError::Timeout) => return Err(timeout_error()),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(io::Error::other("the thread that connects has ended"));
            }
        }
    }
}

/// Connects to the addresses of `host` in turn. Each gets an equal share of the time that is left.
fn connect(host: &str, port: u16, start: Instant, timeout: Duration) -> io::Result<TcpStream> {
    let unresolved_host_error = |error| io::Error::other(UnresolvedHost(error));
    let addresses: Vec<_> = (host, port).to_socket_addrs().map_err(unresolved_host_error)?.collect();
    let mut last_error =
        unresolved_host_error(io::Error::new(io::ErrorKind::NotFound, "the host has no address"));
    let mut remaining_address_count = u32::try_from(addresses.len()).unwrap_or(u32::MAX);
    for address in addresses {
        let address_timeout = timeout.saturating_sub(start.elapsed()) / remaining_address_count;
        remaining_address_count -= 1;
        // `connect_timeout` rejects a timeout of zero.
        match TcpStream::connect_timeout(&address, address_timeout.max(Duration::from_millis(1))) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => last_error = error,
        }
    }
    Err(last_error)
}

/// Returns the error of a wait that a signal ended. The caller reports the signal instead.
pub fn interrupted_error() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "interrupted")
}

/// Opens direct connections for ureq.
struct Dialer {
    signal_check: SignalCheck,
}

impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Dialer")
    }
}

impl Connector<()> for Dialer {
    type Out = BufferedConnection;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        _: Option<()>,
    ) -> Result<Option<BufferedConnection>, ureq::Error> {
        let host = details.uri.host().unwrap_or_default();
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let port = details.uri.port_u16().unwrap_or(if details.needs_tls() { 443 } else { 80 });
        let stream = dial(host, port, *details.timeout.after, &|| (self.signal_check)().is_some())?;
        stream.set_read_timeout(Some(INTERRUPT_CHECK_INTERVAL))?;
        stream.set_write_timeout(Some(INTERRUPT_CHECK_INTERVAL))?;
        let config = details.config;
        let buffers = LazyBuffers::new(config.input_buffer_size(), config.output_buffer_size());
        Ok(Some(BufferedConnection { stream, buffers, signal_check: Arc::clone(&self.signal_check) }))
    }
}

/// A connection with ureq's buffers. Its socket has [`INTERRUPT_CHECK_INTERVAL`] as timeout.
struct BufferedConnection {
    stream: TcpStream,
    buffers: LazyBuffers,
    signal_check: SignalCheck,
}

impl fmt::Debug for BufferedConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BufferedConnection")
    }
}

/// The end of a wait, and the reason that ureq reports when it is reached.
struct WaitDeadline {
    end: Option<Instant>,
    reason: Timeout,
}

impl WaitDeadline {
    /// Creates the deadline of a wait that begins now.
    fn of(timeout: &NextTimeout) -> Self {
        let timeout_duration = (!timeout.after.is_not_happening()).then_some(*timeout.after);
        WaitDeadline {
            end: timeout_duration.and_then(|timeout_duration| Instant::now().checked_add(timeout_duration)),
            reason: timeout.reason,
        }
    }

    fn check(&self) -> Result<(), ureq::Error> {
        match self.end {
            Some(end) if Instant::now() >= end => Err(ureq::Error::Timeout(self.reason)),
            _ => Ok(()),
        }
    }
}

/// Returns true if nothing was transferred yet: the socket timed out, or a signal handler ran.
pub fn is_not_ready(error: &io::Error) -> bool {
    // `TimedOut` is missing here, because it means that the connection itself has failed.
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

impl Transport for BufferedConnection {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        let total_deadline = WaitDeadline::of(&timeout);
        let mut output = &self.buffers.output()[..amount];
        let mut write_deadline = WaitDeadline::of(&timeout.for_write());
        while !output.is_empty() {
            if (self.signal_check)().is_some() {
                return Err(interrupted_error().into());
            }
            total_deadline.check()?;
            write_deadline.check()?;
            match self.stream.write(output) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::WriteZero).into()),
                Ok(count) => {
                    output = &output[count..];
                    write_deadline = WaitDeadline::of(&timeout.for_write());
                }
                Err(error) if is_not_ready(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        let deadline = WaitDeadline::of(&timeout.for_read());
        let input = self.buffers.input_append_buf();
        let amount = loop {
            if (self.signal_check)().is_some() {
                return Err(interrupted_error().into());
            }
            deadline.check()?;
            match self.stream.read(input) {
                Ok(amount) => break amount,
                Err(error) if is_not_ready(&error) => {}
                Err(error) => return Err(error.into()),
            }
        };
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    fn is_open(&mut self) -> bool {
        // An idle connection must have nothing to read: neither its end nor bytes of an abandoned answer.
        let peek = |stream: &TcpStream| {
            stream.set_nonblocking(true)?;
            let result = stream.peek(&mut [0]);
            stream.set_nonblocking(false)?;
            result
        };
        peek(&self.stream).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }
}

/// A resolver that returns a dummy address: [`dial`] resolves the host.
#[derive(Debug)]
struct DummyResolver;

impl Resolver for DummyResolver {
    fn resolve(&self, _: &Uri, _: &Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let mut addresses = self.empty();
        addresses.push(std::net::SocketAddr::from(([0, 0, 0, 0], 0)));
        Ok(addresses)
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    fn silent() -> (TcpListener, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        (listener, url)
    }

    #[test]
    fn request_to_a_silent_server_times_out() {
        let (_listener, url) = silent();
        let config = ureq::Agent::config_builder().timeout_global(Some(Duration::from_millis(300))).build();
        let start = Instant::now();
        let error = create_client(config, None, Arc::new(|| None)).get(&url).call().unwrap_err();
        assert!(matches!(error, ureq::Error::Timeout(Timeout::Global)), "{error}");
        assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
    }

    #[test]
    fn signal_ends_the_wait_for_a_silent_server() {
        let (_listener, url) = silent();
        let stop = Arc::new(AtomicBool::new(false));
        let stop_flag = Arc::clone(&stop);
        let client = create_client(
            ureq::Agent::config_builder().build(),
            None,
            Arc::new(move || stop_flag.load(Ordering::SeqCst).then_some(2)),
        );
        let thread = std::thread::spawn(move || client.get(&url).call().unwrap_err());
        std::thread::sleep(Duration::from_millis(300));
        let start = Instant::now();
        stop.store(true, Ordering::SeqCst);
        let error = thread.join().unwrap().to_string();
        assert!(error.contains("interrupted"), "{error}");
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    }

    #[test]
    fn request_to_a_slow_server_times_out() {
        let (listener, url) = silent();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            while stream.write_all(b"H").is_ok() {
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        let config = ureq::Agent::config_builder().timeout_global(Some(Duration::from_millis(300))).build();
        let start = Instant::now();
        create_client(config, None, Arc::new(|| None)).get(&url).call().unwrap_err();
        assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
    }

    #[test]
    fn connecting_ends_at_the_timeout_or_a_signal() {
        // With a full queue, the system ignores further connections.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        rustix::net::listen(&listener, 0).unwrap();
        let _first = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let dial_error = |timeout, is_interrupted: &dyn Fn() -> bool| {
            let start = Instant::now();
            let error = dial("127.0.0.1", port, timeout, is_interrupted).unwrap_err();
            assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
            error.to_string()
        };
        assert_eq!(dial_error(Duration::from_millis(200), &|| false), "no connection within 0.2 s");
        assert_eq!(dial_error(Duration::from_secs(60), &|| true), "interrupted");
    }
}
