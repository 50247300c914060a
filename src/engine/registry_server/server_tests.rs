use base::encoding::basic_authorization;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use super::*;

struct TestServer {
    runtime: tokio::runtime::Runtime,
    registry: RegistryServer,
    address: SocketAddr,
    directory: tempfile::TempDir,
}

fn secret(text: &str) -> Secret {
    Secret::new(text, &base::redact::Redactor::default())
}

fn start_server() -> TestServer {
    start_server_with(HEADER_TIMEOUT)
}

fn start_server_with(header_timeout: Duration) -> TestServer {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let endpoint = RegistryEndpoint::new(address, "registry", secret("s3cret").expose());
    std::fs::create_dir(directory.path().join("journal")).unwrap();
    let content = directory.path().join("journal/registry.json");
    let content = content.as_path().into();
    let registry = RegistryServer::start_with(runtime.handle(), endpoint, content, header_timeout).unwrap();
    TestServer { runtime, registry, address, directory }
}

/// Sends one request, and returns the status and body of the answer.
fn exchange(
    stream: &mut (impl Read + Write),
    method: &str,
    path: &str,
    user: &str,
    body: &[u8],
) -> (u16, String) {
    let authorization = match user.split_once(':') {
        Some((name, password)) => format!("Authorization: {}\r\n", basic_authorization(name, password)),
        None => String::new(),
    };
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{authorization}Content-Length: \
            {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    // A rejected body is not read to its end.
    let _ = stream.write_all(body);
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let status = text.split(' ').nth(1).unwrap().parse().unwrap();
    (status, text.split_once("\r\n\r\n").unwrap().1.to_owned())
}

impl TestServer {
    fn ask(&self, method: &str, path: &str, user: &str, body: &[u8]) -> (u16, String) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        exchange(&mut stream, method, path, user, body)
    }

    fn ask_from_vm(&self, method: &str, path: &str, user: &str, body: &[u8]) -> (u16, String) {
        let (mut ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        theirs.set_nonblocking(true).unwrap();
        let _inside = self.runtime.enter();
        self.registry.serve_tunnel()(tokio::net::UnixStream::from_std(theirs).unwrap());
        exchange(&mut ours, method, path, user, body)
    }
}

const GOOD: &str = "registry:s3cret";
const SETTINGS_PATH: &str = "/instances/vm-1/settings";

#[test]
fn settings_are_stored_answered_and_deleted() {
    let server = start_server();
    let missing = r#"{"settings":"","status":"not_found"}"#;
    assert_eq!(server.ask("GET", SETTINGS_PATH, GOOD, b""), (404, missing.into()));
    assert_eq!(server.ask("PUT", SETTINGS_PATH, GOOD, br#"{"agent_id": "a"}"#).0, 201);
    assert_eq!(server.ask("PUT", SETTINGS_PATH, GOOD, br#"{"agent_id": "b"}"#).0, 200);
    let settings_answer = r#"{"settings":"{\"agent_id\": \"b\"}","status":"ok"}"#;
    assert_eq!(server.ask("GET", SETTINGS_PATH, GOOD, b""), (200, settings_answer.into()));
    assert_eq!(server.ask("GET", "/instances/vm%2D1/settings", GOOD, b""), (200, settings_answer.into()));
    assert_eq!(server.ask("DELETE", SETTINGS_PATH, GOOD, b"").0, 200);
    assert_eq!(server.ask("DELETE", SETTINGS_PATH, GOOD, b"").0, 200);
    assert_eq!(server.ask("GET", SETTINGS_PATH, GOOD, b"").0, 404);
    for (method, path) in
        [("POST", SETTINGS_PATH), ("GET", "/"), ("GET", "/instances/vm-1"), ("GET", "/instances//settings")]
    {
        assert_eq!(server.ask(method, path, GOOD, b"{}").0, 404, "{method} {path}");
    }
}

#[test]
fn only_vms_may_read_without_password() {
    let server = start_server();
    assert_eq!(server.ask("PUT", SETTINGS_PATH, GOOD, b"{}").0, 201);
    for user in ["", "registry:", "registry:s3cre", "registry:s3cret!", "x:s3cret"] {
        for method in ["GET", "PUT", "DELETE"] {
            assert_eq!(server.ask(method, SETTINGS_PATH, user, b"[]").0, 401, "{method} as '{user}'");
        }
        assert_eq!(server.ask_from_vm("GET", SETTINGS_PATH, user, b"").0, 200);
        for method in ["PUT", "DELETE"] {
            assert_eq!(server.ask_from_vm(method, SETTINGS_PATH, user, b"[]").0, 401, "{method} as '{user}'");
        }
    }
    assert_eq!(server.ask_from_vm("PUT", SETTINGS_PATH, GOOD, b"[]").0, 200);
    assert_eq!(server.ask("GET", SETTINGS_PATH, GOOD, b"").1, r#"{"settings":"[]","status":"ok"}"#);
}

#[test]
fn rejects_oversized_or_invalid_documents() {
    let server = start_server();
    let large = vec![b' '; MAX_SETTINGS_BYTES + 1];
    assert_eq!(server.ask("PUT", SETTINGS_PATH, GOOD, &large).0, 413);
    assert_eq!(server.ask("PUT", SETTINGS_PATH, GOOD, b"\xff").0, 400);
    assert_eq!(server.ask("PUT", SETTINGS_PATH, GOOD, b"{").0, 400);
    assert_eq!(server.ask("PUT", SETTINGS_PATH, GOOD, b"33333E333333").0, 400);
    assert_eq!(server.ask("PUT", SETTINGS_PATH, GOOD, "[".repeat(500).as_bytes()).0, 400);
    assert_eq!(
        server.ask("PUT", SETTINGS_PATH, GOOD, ("[".repeat(500) + &"]".repeat(500)).as_bytes()).0,
        400
    );
    assert_eq!(server.ask("PUT", &format!("/instances/{}/settings", "x".repeat(300)), GOOD, b"{}").0, 404);
    // Without a length, the server notices the limit only while it reads.
    let mut stream = TcpStream::connect(server.address).unwrap();
    let head = format!(
        "PUT {SETTINGS_PATH} HTTP/1.1\r\nHost: x\r\nAuthorization: {}\r\nTransfer-Encoding: chunked\r\n\r\n",
        basic_authorization("registry", "s3cret")
    );
    stream.write_all(head.as_bytes()).unwrap();
    let chunk = [b"10000\r\n".as_slice(), &vec![b' '; 0x10000], b"\r\n"].concat();
    for _ in 0..17 {
        if stream.write_all(&chunk).is_err() {
            break;
        }
    }
    let mut begin = [0; 12];
    stream.read_exact(&mut begin).unwrap();
    assert_eq!(&begin, b"HTTP/1.1 413");
    assert!(!server.directory.path().join("journal/registry.json").exists());
}

#[test]
fn content_outlives_the_server_and_used_ports_are_reported() {
    let server = start_server();
    server.ask("PUT", SETTINGS_PATH, GOOD, b"{}");
    let path = server.directory.path().join("journal/registry.json");
    let credentials = RegistryCredentials { username: "registry".into(), password: secret("other") };
    let start = |address| {
        RegistryServer::start(server.runtime.handle(), address, &credentials, path.as_path().into())
    };
    let error = start(server.address).err().unwrap();
    assert!(error.chain().join(" ").contains("in use"), "{error:?}");
    assert!(!error.hints().is_empty());
    assert!(start("192.0.2.1:80".parse().unwrap()).err().unwrap().to_string().contains("loopback"));

    let address = server.address;
    drop(server.registry);
    let begin = Instant::now();
    let second_registry = loop {
        match start(address) {
            Ok(registry) => break registry,
            Err(error) if begin.elapsed() > Duration::from_secs(5) => panic!("{error:?}"),
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    let mut stream = TcpStream::connect(address).unwrap();
    assert_eq!(exchange(&mut stream, "GET", SETTINGS_PATH, "registry:other", b"").0, 200);
    drop(second_registry);
}

#[test]
fn incomplete_request_times_out() {
    let timeout = Duration::from_millis(500);
    let server = start_server_with(timeout);
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost:").unwrap();
    stream.set_read_timeout(Some(HEADER_TIMEOUT)).unwrap();
    let begin = Instant::now();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert!(begin.elapsed() >= timeout / 2, "{:?}", begin.elapsed());
}
