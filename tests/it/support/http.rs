//! HTTP servers and proxies on loopback that give the answers of a test and record their requests.
//!
//! Unit and integration tests share them. Each stops on drop.

#![allow(dead_code, reason = "each of the tests that share this uses its own part of it")]

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// A request.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    /// The request line, such as `GET /x HTTP/1.1`.
    pub line: String,
    headers: Vec<(String, String)>,
    /// The body, of the length in `Content-Length`; only in servers.
    pub body: Vec<u8>,
}

impl Request {
    fn read(stream: &mut impl BufRead) -> Option<Self> {
        let mut line = String::new();
        stream.read_line(&mut line).ok().filter(|count| *count > 0)?;
        let mut headers = Vec::new();
        loop {
            let mut header = String::new();
            stream.read_line(&mut header).ok()?;
            let Some((name, value)) = header.trim_end().split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        Some(Request { line: line.trim_end().to_owned(), headers, body: Vec::new() })
    }

    /// Returns a header by its lower-case name.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// Returns the request without headers of this name.
    pub(crate) fn without_header(&self, header: &str) -> Request {
        let headers = self.headers.iter().filter(|(name, _)| name != header).cloned().collect();
        Request { headers, ..self.clone() }
    }

    /// Returns the answer of a loopback server to this request.
    pub(crate) fn forward(&self, port: u16) -> Vec<u8> {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut head = format!("{}\r\nconnection: close\r\n", self.line);
        for (name, value) in self.headers.iter().filter(|(name, _)| name != "connection") {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        stream.write_all(&[head.as_bytes(), b"\r\n", &self.body].concat()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        answer
    }

    /// Returns the path with its query.
    pub(crate) fn path(&self) -> &str {
        self.line.split(' ').nth(1).unwrap_or_default()
    }
}

/// A listener that accepts connections until it is dropped.
struct Acceptor {
    port: u16,
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Acceptor {
    fn start(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let stop = Arc::new(AtomicBool::new(false));
        let is_stopped = Arc::clone(&stop);
        let serve = Arc::new(serve);
        let thread = thread::spawn(move || {
            for stream in listener.incoming() {
                if is_stopped.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
                let serve = Arc::clone(&serve);
                thread::spawn(move || serve(stream));
            }
        });
        Acceptor { port, stop, thread: Some(thread) }
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // This connection wakes the thread, which then sees the flag.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A server whose answers come from a closure. The closure gets the request and the number of earlier ones.
pub(crate) struct Server {
    acceptor: Acceptor,
    requests: Arc<Mutex<Vec<Request>>>,
    scheme: &'static str,
}

impl Server {
    /// Starts a server for plain HTTP. It sends the answer unchanged and closes the connection.
    pub(crate) fn start(answer: impl Fn(&Request, usize) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let requests = Arc::new(Mutex::new(Vec::new()));
        let server_requests = Arc::clone(&requests);
        let acceptor = Acceptor::start(move |mut stream| {
            serve(&mut stream, &server_requests, &answer);
            let _ = stream.shutdown(Shutdown::Both);
        });
        Server { acceptor, requests, scheme: "http" }
    }

    /// Starts a server like [`Self::start`]. All its answers share a link with this rate.
    pub(crate) fn start_with_rate(
        bytes_per_second: f64,
        answer: impl Fn(&Request, usize) -> Vec<u8> + Send + Sync + 'static,
    ) -> Self {
        let requests = Arc::new(Mutex::new(Vec::new()));
        let server_requests = Arc::clone(&requests);
        let link = Mutex::new(Instant::now());
        let acceptor = Acceptor::start(move |stream| {
            let mut paced_stream = PacedStream { stream, link: &link, bytes_per_second };
            serve(&mut paced_stream, &server_requests, &answer);
            let _ = paced_stream.stream.shutdown(Shutdown::Both);
        });
        Server { acceptor, requests, scheme: "http" }
    }

    /// Starts a server for HTTPS with a certificate for `localhost`. Also returns the certificate as PEM, so
    /// that clients can trust it.
    pub(crate) fn start_tls(
        answer: impl Fn(&Request, usize) -> Vec<u8> + Send + Sync + 'static,
    ) -> (Self, String) {
        let key = rcgen::KeyPair::generate().unwrap();
        let parameters = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate = parameters.self_signed(&key).unwrap();
        let key_der = rustls::pki_types::PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key_der)
            .unwrap();
        let config = Arc::new(config);
        let requests = Arc::new(Mutex::new(Vec::new()));
        let server_requests = Arc::clone(&requests);
        let acceptor = Acceptor::start(move |stream| {
            let session = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = rustls::StreamOwned::new(session, stream);
            serve(&mut stream, &server_requests, &answer);
            stream.conn.send_close_notify();
            let _ = stream.flush();
        });
        (Server { acceptor, requests, scheme: "https" }, certificate.pem())
    }

    /// Serves a file, whole or in ranges.
    pub(crate) fn for_file(content: &[u8]) -> Self {
        let content = content.to_vec();
        Server::start(move |request, _| part(request, &content, "\"v1\""))
    }

    pub(crate) fn port(&self) -> u16 {
        self.acceptor.port
    }

    /// Returns a URL of this server; `path` begins with a slash.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}://localhost:{}{path}", self.scheme, self.port())
    }

    /// Returns the requests so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

fn serve(
    stream: &mut (impl Read + Write),
    requests: &Mutex<Vec<Request>>,
    answer: &impl Fn(&Request, usize) -> Vec<u8>,
) {
    let mut reader = BufReader::new(&mut *stream);
    let Some(mut request) = Request::read(&mut reader) else { return };
    let length = request.header("content-length").map_or(0, |length| length.parse().unwrap());
    request.body = vec![0; length];
    if reader.read_exact(&mut request.body).is_err() {
        return;
    }
    let state_before = {
        let mut requests = requests.lock().unwrap();
        requests.push(request.clone());
        requests.len() - 1
    };
    let _ = stream.write_all(&answer(&request, state_before));
    let _ = stream.flush();
}

/// A connection over a link of limited rate.
struct PacedStream<'l> {
    stream: TcpStream,
    /// The time at which the link is free for the next bytes.
    link: &'l Mutex<Instant>,
    bytes_per_second: f64,
}

impl Read for PacedStream<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.read(buffer)
    }
}

impl Write for PacedStream<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        const PART_BYTES: usize = 16 << 10;
        // A sleep ends late by less than this, which must not make the link slower.
        const TOLERANCE: Duration = Duration::from_millis(20);
        let part = &buffer[..buffer.len().min(PART_BYTES)];
        let end = {
            let mut link = self.link.lock().unwrap();
            let start = if link.elapsed() < TOLERANCE { *link } else { Instant::now() };
            *link = start + Duration::from_secs_f64(part.len() as f64 / self.bytes_per_second);
            *link
        };
        thread::sleep(end.saturating_duration_since(Instant::now()));
        self.stream.write_all(part)?;
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// Returns a complete answer.
pub(crate) fn answer(status: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n", body.len());
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    [head.as_bytes(), b"\r\n", body].concat()
}

/// Returns the answer of a file server: the whole file or the requested range.
pub(crate) fn part(request: &Request, content: &[u8], etag: &str) -> Vec<u8> {
    let range = request.header("range").and_then(|range| range.strip_prefix("bytes=")?.split_once('-'));
    let fits = request.header("if-range").is_none_or(|tag| tag == etag);
    match range.and_then(|(start, end)| Some((start.parse::<usize>().ok()?, end))).filter(|_| fits) {
        Some((start, end)) if start < content.len() => {
            let last = end.parse().unwrap_or(usize::MAX).min(content.len() - 1);
            let range = format!("bytes {start}-{last}/{}", content.len());
            let headers = [("Content-Range", range.as_str()), ("ETag", etag)];
            answer("206 Partial Content", &headers, &content[start..=last])
        }
        Some(_) => answer("416 Range Not Satisfiable", &[], b""),
        None => answer("200 OK", &[("ETag", etag)], content),
    }
}

/// A proxy that directs every name to loopback and records its targets.
pub(crate) struct ForwardProxy {
    acceptor: Acceptor,
    targets: Arc<Mutex<Vec<String>>>,
}

impl ForwardProxy {
    /// Starts a SOCKS 5 proxy, with a user and password if they are given.
    pub(crate) fn socks5(credentials: Option<(&'static str, &'static str)>) -> Self {
        Self::start(move |stream, targets| serve_socks5(stream, credentials, targets))
    }

    /// Starts an HTTP proxy for CONNECT and for requests with a complete URL. Its records begin with the
    /// method and end with credentials, if any.
    pub(crate) fn http() -> Self {
        Self::start(serve_http)
    }

    fn start(
        serve: impl Fn(TcpStream, &Mutex<Vec<String>>) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let targets = Arc::new(Mutex::new(Vec::new()));
        let server_targets = Arc::clone(&targets);
        // A client that disconnects does not fail the test.
        let acceptor = Acceptor::start(move |stream| drop(serve(stream, &server_targets)));
        ForwardProxy { acceptor, targets }
    }

    pub(crate) fn port(&self) -> u16 {
        self.acceptor.port
    }

    /// Returns the targets so far: `host:port` of each connection.
    pub(crate) fn targets(&self) -> Vec<String> {
        self.targets.lock().unwrap().clone()
    }
}

/// Serves one connection of a SOCKS 5 proxy, as RFC 1928 and RFC 1929 say, and records its target.
fn serve_socks5(
    mut stream: TcpStream,
    credentials: Option<(&str, &str)>,
    targets: &Mutex<Vec<String>>,
) -> io::Result<()> {
    let mut take = |count: usize| -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; count];
        stream.read_exact(&mut bytes)?;
        Ok(bytes)
    };
    let count = take(2)?[1];
    let methods = take(usize::from(count))?;
    let method = if credentials.is_some() { 2 } else { 0 };
    if !methods.contains(&method) {
        return stream.write_all(&[5, 0xff]);
    }
    stream.write_all(&[5, method])?;
    let mut take = |count: usize| -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; count];
        stream.read_exact(&mut bytes)?;
        Ok(bytes)
    };
    if let Some((user, password)) = credentials {
        let length = take(2)?[1];
        let given_user = take(usize::from(length))?;
        let length = take(1)?[0];
        let given_password = take(usize::from(length))?;
        let is_right = given_user == user.as_bytes() && given_password == password.as_bytes();
        stream.write_all(&[1, u8::from(!is_right)])?;
        if !is_right {
            return Ok(());
        }
    }
    let mut take = |count: usize| -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; count];
        stream.read_exact(&mut bytes)?;
        Ok(bytes)
    };
    let host = match take(4)?[3] {
        1 => take(4)?.iter().map(ToString::to_string).collect::<Vec<_>>().join("."),
        3 => {
            let length = take(1)?[0];
            String::from_utf8_lossy(&take(usize::from(length))?).into_owned()
        }
        kind => panic!("an address of kind {kind}"),
    };
    let port = take(2)?;
    let port = u16::from_be_bytes([port[0], port[1]]);
    targets.lock().unwrap().push(format!("{host}:{port}"));
    // Names resolve to this machine. Addresses are not changed.
    let address = host.parse().unwrap_or(std::net::Ipv4Addr::LOCALHOST);
    let Ok(target) = TcpStream::connect((address, port)) else {
        return stream.write_all(&[5, 5, 0, 1, 0, 0, 0, 0, 0, 0]);
    };
    stream.write_all(&[5, 0, 0, 1, 127, 0, 0, 1, 0, 0])?;
    pump(stream, target)
}

fn serve_http(mut stream: TcpStream, targets: &Mutex<Vec<String>>) -> io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let Some(request) = Request::read(&mut reader) else { return Ok(()) };
    let method = request.line.split(' ').next().unwrap_or_default();
    let credentials = request.header("proxy-authorization").map(|value| format!(" {value}"));
    let note = format!("{method} {}{}", request.path(), credentials.unwrap_or_default());
    targets.lock().unwrap().push(note);
    let authority = request.path().strip_prefix("http://").unwrap_or(request.path());
    let (authority, path) = authority.split_once('/').unwrap_or((authority, ""));
    let port: u16 = authority.rsplit_once(':').map_or(80, |(_, port)| port.parse().unwrap());
    let mut target = TcpStream::connect(("127.0.0.1", port))?;
    if method == "CONNECT" {
        stream.write_all(b"HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n")?;
    } else {
        write!(target, "{method} /{path} HTTP/1.1\r\n")?;
        for (name, value) in request.headers.iter().filter(|(name, _)| !name.starts_with("proxy-")) {
            write!(target, "{name}: {value}\r\n")?;
        }
        target.write_all(b"\r\n")?;
    }
    pump(stream, target)
}

/// Copies in both directions until one side ends.
fn pump(client: TcpStream, target: TcpStream) -> io::Result<()> {
    let (mut upload_source, mut upload_target) = (client.try_clone()?, target.try_clone()?);
    let upload = thread::spawn(move || {
        let _ = io::copy(&mut upload_source, &mut upload_target);
        let _ = upload_target.shutdown(Shutdown::Write);
    });
    let _ = io::copy(&mut &target, &mut &client);
    let _ = client.shutdown(Shutdown::Both);
    let _ = target.shutdown(Shutdown::Both);
    let _ = upload.join();
    Ok(())
}
