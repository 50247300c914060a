//! The agent client against servers that fail in every possible way. It distinguishes the failures and never
//! hangs.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use base::redact::Redactor;
use base::secret::Secret;
use base::timing::Clock;
use base::{Error, ErrorKind};
use engine::agent_client::{Agent, AgentEndpoint, AgentError, DrainOutcome, StopReason};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::json;

use crate::support::proxy::{self, Request};

type Stream = BufReader<StreamOwned<ServerConnection, TcpStream>>;

/// A self-signed certificate for 127.0.0.1, with the TLS configuration of its server.
struct Identity {
    pem: String,
    tls: Arc<ServerConfig>,
}

fn identity() -> Identity {
    let certified_key = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let pem = certified_key.cert.pem();
    let tls = proxy::tls(&pem, &certified_key.signing_key.serialize_pem());
    Identity { pem, tls }
}

fn agent(host: &str, ca: &str) -> Agent {
    let redactor = Redactor::default();
    let mbus = Secret::new(format!("https://mbus:secret@{host}"), &redactor);
    let endpoint = AgentEndpoint::new(&mbus, Some(ca), &redactor).unwrap();
    Agent::new(endpoint, "director", Arc::new(|| None), Clock::start())
}

/// Serves connections one after the other with `answer`, until the test ends.
fn serve(answer: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let answer = Arc::new(answer);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = answer.clone();
            std::thread::spawn(move || answer(stream));
        }
    });
    address
}

/// Like [`serve`], behind TLS.
fn serve_tls(tls: Arc<ServerConfig>, answer: impl Fn(&mut Stream) + Send + Sync + 'static) -> SocketAddr {
    serve(move |stream| {
        let connection = ServerConnection::new(tls.clone()).unwrap();
        answer(&mut BufReader::new(StreamOwned::new(connection, stream)));
    })
}

fn respond(stream: &mut Stream, status: &str, body: &str) {
    let text = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    // A client that disconnects is not a problem of this server.
    let _ = stream.get_mut().write_all(text.as_bytes());
    let _ = stream.get_mut().flush();
}

/// Reads the rest of the client's data after the answer. Closing with unread data would discard the answer
/// (RST).
fn linger(stream: &mut Stream) {
    let inner = stream.get_mut();
    inner.conn.send_close_notify();
    let _ = inner.flush();
    let _ = inner.sock.shutdown(std::net::Shutdown::Write);
    let _ = inner.sock.set_read_timeout(Some(Duration::from_secs(5)));
    let mut rest = [0; 64 * 1024];
    while inner.sock.read(&mut rest).is_ok_and(|read| read > 0) {}
}

fn ping(agent: &Agent, timeout: Duration) -> AgentError {
    agent.wait_until_ready(timeout, &mut |_| {}).unwrap_err()
}

#[test]
fn unresolvable_host_is_a_dns_error() {
    let mut problems = Vec::new();
    let agent = agent("agent.invalid:6868", &identity().pem);
    let error =
        agent.wait_until_ready(Duration::from_secs(3), &mut |problem| problems.push(problem)).unwrap_err();
    assert!(matches!(error, AgentError::Unresolvable { .. }), "{error}");
    assert_eq!(problems.len(), 1, "said once while it waited: {problems:?}");
    let error = Error::from(error);
    assert_eq!(error.kind(), ErrorKind::AgentUnreachable);
    assert!(error.to_string().contains("(DNS)") && error.hints()[0].contains("name servers"), "{error:?}");
}

#[test]
fn closed_port_is_a_tcp_error() {
    // The port was bound and released, so no process listens there.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = ping(&agent(&address.to_string(), &identity().pem), Duration::ZERO);
    assert!(matches!(error, AgentError::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains("TCP: ") && error.to_string().contains("refused"), "{error}");
}

#[test]
fn untrusted_certificate_is_a_tls_error_without_retries() {
    let server = identity();
    let address = serve_tls(server.tls, |stream| {
        let _ = Request::read(stream);
    });
    let start = Instant::now();
    let error = ping(&agent(&address.to_string(), &identity().pem), Duration::from_secs(60));
    assert!(matches!(error, AgentError::Untrusted { .. }), "{error}");
    assert!(start.elapsed() < Duration::from_secs(20));
    let hints = Error::from(error).hints().join("\n");
    assert!(hints.contains("cert.ca") && !hints.contains("clock"), "{hints}");
}

#[test]
fn server_without_tls_is_an_error() {
    let address = serve(|mut stream| {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        let _ = stream.read(&mut [0; 1024]);
    });
    let error = ping(&agent(&address.to_string(), &identity().pem), Duration::from_secs(60));
    assert!(matches!(error, AgentError::Untrusted { .. }), "{error}");
}

#[test]
fn silent_server_times_out() {
    let address = serve(|stream| {
        std::thread::sleep(Duration::from_secs(60));
        drop(stream);
    });
    let start = Instant::now();
    let error = ping(&agent(&address.to_string(), &identity().pem), Duration::ZERO);
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    assert!(matches!(error, AgentError::Stalled { .. }), "{error}");
    assert!(error.to_string().ends_with("did not answer `ping`: no TLS connection within 5.0 s"), "{error}");
}

#[test]
fn wrong_password_fails_without_retries() {
    let server = identity();
    let address = serve_tls(server.tls, |stream| {
        while let Ok(Some(request)) = Request::read(stream) {
            assert_eq!(request.authorization, "Basic bWJ1czpzZWNyZXQ=");
            respond(stream, "401 Unauthorized", "");
        }
    });
    let start = Instant::now();
    let error = ping(&agent(&address.to_string(), &server.pem), Duration::from_secs(60));
    assert!(matches!(error, AgentError::Unauthorized { .. }), "{error}");
    assert!(start.elapsed() < Duration::from_secs(20));
}

#[test]
fn malformed_answers_are_described() {
    for (body, expected) in [("", "not JSON"), ("{}", "neither `value` nor"), ("[1]", "neither")] {
        let server = identity();
        let address = serve_tls(server.tls, move |stream| {
            while let Ok(Some(_)) = Request::read(stream) {
                respond(stream, "200 OK", body);
            }
        });
        let error = agent(&address.to_string(), &server.pem).send("ping", json!([])).unwrap_err();
        assert!(matches!(error, AgentError::Protocol { .. }), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
}

/// Reads the head of a request.
fn read_head(stream: &mut Stream) -> bool {
    let mut line = String::new();
    loop {
        line.clear();
        match stream.read_line(&mut line) {
            Ok(0) | Err(_) => return false,
            Ok(_) if line == "\r\n" => return true,
            Ok(_) => {}
        }
    }
}

/// Creates a sparse file of this size.
fn create_large_file(directory: &tempfile::TempDir, size: u64) -> std::path::PathBuf {
    let path = directory.path().join("blob");
    std::fs::File::create(&path).unwrap().set_len(size).unwrap();
    path
}

#[test]
fn upload_rejected_before_the_body_does_not_hang() {
    let directory = crate::support::create_directory();
    let file = create_large_file(&directory, 64 << 20);
    for (status, matches) in [
        ("401 Unauthorized", "refuses the user and password"),
        ("413 Payload Too Large", "HTTP status 413"),
        ("507 Insufficient Storage", "HTTP status 507"),
    ] {
        let server = identity();
        let address = serve_tls(server.tls, move |stream| {
            if read_head(stream) {
                respond(stream, status, "");
                linger(stream);
            }
        });
        let start = Instant::now();
        let error = agent(&address.to_string(), &server.pem).put_blob("x", &file, &mut |_| {}).unwrap_err();
        assert!(error.to_string().contains(matches), "{status}: {error}");
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    }
}

#[test]
fn broken_upload_is_told_from_a_dead_agent() {
    let directory = crate::support::create_directory();
    let file = create_large_file(&directory, 64 << 20);
    let server = identity();
    let address = serve_tls(server.tls, |stream| {
        let mut line = String::new();
        if stream.read_line(&mut line).is_err() || !line.starts_with("PUT") {
            // Reads the rest of the head, then answers `ping`.
            read_head(stream);
            return respond(stream, "200 OK", r#"{"value": "pong"}"#);
        }
        read_head(stream);
        let _ = stream.get_mut().write_all(b"HTTP/1.1 100 Continue\r\n\r\n");
        let _ = stream.read_exact(&mut vec![0; 1 << 20]);
    });
    let start = Instant::now();
    let error = agent(&address.to_string(), &server.pem).put_blob("x", &file, &mut |_| {}).unwrap_err();
    assert!(matches!(error, AgentError::Protocol { .. }), "{error}");
    assert!(error.to_string().contains("closed the connection during the upload"), "{error}");
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

#[test]
fn blobs_are_streamed_completely() {
    let directory = crate::support::create_directory();
    let size = 3 << 20;
    let file = create_large_file(&directory, size);
    let server = identity();
    let address = serve_tls(server.tls, |stream| {
        while let Ok(Some(request)) = Request::read(stream) {
            assert_eq!((request.http_method.as_str(), request.path.as_str()), ("PUT", "/blobs/some-id"));
            let status = if request.body.len() == 3 << 20 { "201 Created" } else { "500 Wrong" };
            respond(stream, status, "");
        }
    });
    let mut bytes_uploaded = 0;
    let agent = agent(&address.to_string(), &server.pem);
    agent.put_blob("some-id", &file, &mut |bytes_done| bytes_uploaded = bytes_done).unwrap();
    assert_eq!(bytes_uploaded, size);
}

/// Answers `drain` like an old agent, whose caller must poll.
fn start_old_agent(tls: Arc<ServerConfig>, answers: &'static [(&'static str, i64)]) -> SocketAddr {
    serve_tls(tls, move |stream| {
        while let Ok(Some(request)) = Request::read(stream) {
            let message: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
            assert_eq!(message["method"], "drain");
            let kind = message["arguments"][0].as_str().unwrap();
            let answer = answers.iter().find(|(name, _)| *name == kind).unwrap().1;
            respond(stream, "200 OK", &json!({"value": answer}).to_string());
        }
    })
}

#[test]
fn dynamic_drain_is_polled_until_done() {
    let server = identity();
    let address = start_old_agent(server.tls, &[("shutdown", -1), ("status", 0)]);
    let start = Instant::now();
    let outcome =
        agent(&address.to_string(), &server.pem).drain(StopReason::Stop, Duration::from_secs(30)).unwrap();
    assert_eq!(outcome, DrainOutcome::Done);
    assert!(start.elapsed() >= Duration::from_secs(1));
}

#[test]
fn dynamic_drain_ends_at_the_deadline() {
    let server = identity();
    let address = start_old_agent(server.tls, &[("shutdown", -600)]);
    let start = Instant::now();
    let outcome =
        agent(&address.to_string(), &server.pem).drain(StopReason::Stop, Duration::from_millis(200)).unwrap();
    assert_eq!(outcome, DrainOutcome::TimedOut);
    assert!(start.elapsed() < Duration::from_secs(20));
}
