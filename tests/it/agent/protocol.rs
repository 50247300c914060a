//! The wire protocol: authentication, answers, rejected requests, blobs and limits.

use crate::support::process::RunToEnd;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls_pki_types::ServerName;
use serde_json::json;

use super::agent_vm::{AgentVm, Pki, client, read};

#[test]
fn messages_are_answered_like_bosh_agent() {
    let vm = AgentVm::new();
    assert_eq!(vm.send("ping", json!([])), json!({"value": "pong"}));
    assert_eq!(vm.send("delete_arp_entries", json!([{"ips": ["10.0.0.1"]}])), json!({"value": {}}));
    assert_eq!(vm.send("info", json!([])), json!({"value": {"api_version": 1}}));
    for (method, arguments, message) in [
        ("add_something", json!([]), "unknown message add_something"),
        ("", json!([]), "unknown message "),
        (
            "get_task",
            json!([]),
            "Action Failed get_task: Extracting method arguments from payload: Not enough arguments, \
                expected 1, got 0",
        ),
        ("get_task", json!(["nope"]), "Action Failed get_task: Task with id nope could not be found"),
        ("cancel_task", json!(["nope"]), "Action Failed cancel_task: Task with id nope could not be found"),
    ] {
        assert_eq!(vm.send(method, arguments), json!({"exception": {"message": message}}));
    }
    assert!(vm.call("mount_disk", json!([{}])).unwrap_err().contains("Unmarshalling action argument 1"));
    for garbage in ["", "{", "[]", "\"ping\"", "null", "\u{0}", r#"{"method": 3}"#, &"[".repeat(100_000)] {
        assert_eq!(vm.post(garbage).0, 500, "{:.20}", garbage);
    }
    assert_eq!(vm.post(r#"{"method":"ping","arguments":null}"#).0, 200);
}

#[test]
fn fresh_vm_shows_an_empty_state() {
    let vm = AgentVm::new();
    let mut state = vm.state();
    assert_eq!(
        state,
        json!({
            "properties": {}, "packages": {}, "configuration_hash": "", "networks": {}, "resource_pool": {},
            "job": {"name": null, "release": "", "template": "", "version": "", "templates": null},
            "deployment": "", "name": "", "index": null, "id": "", "az": "", "persistent_disk": 0,
            "rendered_templates_archive": null,
            "agent_id": "agent-1", "job_state": "running", "vm": {"name": "vm-1", "id": "vm-cid-1"},
        })
    );
    state = vm.call("get_state", json!(["full"])).unwrap();
    assert_eq!(state["vitals"]["load"].as_array().unwrap().len(), 3);
}

#[test]
fn requests_need_the_password() {
    let vm = AgentVm::new();
    let client = client(Some(&vm.pki.ca));
    for header in [None, Some("Basic bm9ib2R5Om5vdGhpbmc="), Some("Bearer x"), Some(&AgentVm::auth()[..20])] {
        for (method, path) in [("POST", "/agent"), ("GET", "/blobs/x"), ("PUT", "/blobs/x"), ("GET", "/")] {
            let mut request = ureq::http::Request::builder().method(method).uri(vm.url(path));
            if let Some(header) = header {
                request = request.header("Authorization", header);
            }
            let result = match method {
                "GET" => client.run(request.body(()).unwrap()),
                _ => client.run(request.body(r#"{"method":"ping"}"#).unwrap()),
            };
            let response = result.unwrap();
            assert_eq!(response.status(), 401);
            assert_eq!(response.headers()["WWW-Authenticate"], r#"Basic realm="""#);
        }
    }
    assert_eq!(std::fs::read_dir(vm.base().join("data/blobs")).unwrap().count(), 0);
    assert!(!vm.log().contains(super::agent_vm::PASSWORD));
}

#[test]
fn certificate_comes_from_the_settings() {
    let vm = AgentVm::new();
    let stranger = client(Some(&Pki::new().ca));
    let error = stranger.post(vm.url("/agent")).send("{}").unwrap_err().to_string();
    assert!(error.to_lowercase().contains("certificate"), "{error}");
}

#[test]
fn agent_generates_a_missing_certificate() {
    let mut vm = AgentVm::without_agent();
    vm.write_settings(json!({"env": {}}));
    vm.start_agent(false);
    let request = client(None).post(vm.url("/agent")).header("Authorization", AgentVm::auth());
    let (status, text) = read(request.send(r#"{"method":"ping","arguments":[]}"#).unwrap());
    assert_eq!((status, text.as_str()), (200, r#"{"value":"pong"}"#));
}

#[test]
fn unknown_paths_and_methods_are_not_found() {
    let vm = AgentVm::new();
    assert_eq!(vm.request_blob("GET", "/agent", b"").0, 404);
    assert_eq!(vm.request_blob("GET", "/other", b"").0, 404);
    assert_eq!(vm.request_blob("GET", "/blobs/", b"").0, 404);
    for hostile in
        ["/blobs/..", "/blobs/%2e%2e%2fspec.json", "/blobs/ab/%2e%2e", "/blobs/.incoming-x", "/blobs/a/b/c"]
    {
        // Without content: the agent answers before it reads any, and may close the connection.
        assert_eq!(vm.request_blob("PUT", hostile, b"").0, 404, "{hostile}");
    }
}

#[test]
fn blobs_are_stored_and_deleted() {
    let vm = AgentVm::new();
    let content = vec![7; 3_000_000];
    assert_eq!(vm.request_blob("GET", "/blobs/x-1", b"").0, 404);
    assert_eq!(vm.request_blob("PUT", "/blobs/5f/x-1", &content).0, 201);
    assert_eq!(vm.request_blob("GET", "/blobs/x-1", b""), (200, content.clone()));
    assert_eq!(vm.request_blob("GET", "/blobs/5f/x-1", b""), (200, content));
    assert_eq!(vm.request_blob("HEAD", "/blobs/x-1", b""), (200, Vec::new()));
    assert_eq!(vm.request_blob("PUT", "/blobs/x-1", b"other").0, 201);
    assert_eq!(vm.request_blob("GET", "/blobs/x-1", b""), (200, b"other".to_vec()));
    assert_eq!(vm.request_blob("DELETE", "/blobs/x-1", b"").0, 204);
    assert_eq!(vm.request_blob("DELETE", "/blobs/x-1", b"").0, 404);
    assert_eq!(vm.request_blob("HEAD", "/blobs/x-1", b"").0, 404);
}

#[test]
fn rejects_large_messages_and_discards_partial_blobs() {
    let vm = AgentVm::new();
    let head = format!("POST /agent HTTP/1.1\r\nHost: x\r\nAuthorization: {}\r\n", AgentVm::auth());
    let mut stream = connect(&vm);
    stream.write_all(format!("{head}Content-Length: 17000000\r\n\r\n").as_bytes()).unwrap();
    assert!(read_answer(&mut stream).starts_with("HTTP/1.1 413"));
    // The body is chunked, so its length is unknown beforehand.
    let mut stream = connect(&vm);
    stream.write_all(format!("{head}Transfer-Encoding: chunked\r\n\r\n").as_bytes()).unwrap();
    let chunk = vec![b' '; 1 << 20];
    for _ in 0..17 {
        if write!(stream, "{:x}\r\n", chunk.len()).and_then(|()| stream.write_all(&chunk)).is_err()
            || stream.write_all(b"\r\n").is_err()
        {
            break;
        }
    }
    let text = read_answer(&mut stream);
    assert!(text.is_empty() || text.starts_with("HTTP/1.1 400"), "{text}");

    let mut stream = connect(&vm);
    let head = head.replace("POST /agent", "PUT /blobs/half");
    stream.write_all(format!("{head}Content-Length: 1000\r\n\r\nonly this").as_bytes()).unwrap();
    drop(stream);
    let start = Instant::now();
    while std::fs::read_dir(vm.base().join("data/blobs")).unwrap().count() > 0 {
        assert!(start.elapsed() < Duration::from_secs(20), "a half blob stays");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(vm.request_blob("GET", "/blobs/half", b"").0, 404);
}

#[test]
fn slow_clients_are_disconnected() {
    let vm = AgentVm::new();
    let mut mute: Vec<TcpStream> =
        (0..50).map(|_| TcpStream::connect(("127.0.0.1", vm.port)).unwrap()).collect();
    let mut trickle = connect(&vm);
    trickle.write_all(b"POST /agent HTTP/1.1\r\nHo").unwrap();
    let start = Instant::now();
    assert_eq!(vm.send("ping", json!([])), json!({"value": "pong"}));
    assert!(start.elapsed() < Duration::from_secs(8), "the agent does not answer beside mute clients");
    for stream in &mut mute {
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        assert!(stream.read(&mut [0; 64]).is_ok_and(|count| count == 0), "the handshake has no deadline");
    }
    trickle.sock.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut rest = Vec::new();
    let result = trickle.read_to_end(&mut rest);
    assert!(result.is_ok() || result.is_err_and(|error| error.kind() == std::io::ErrorKind::UnexpectedEof));
    assert!(start.elapsed() < Duration::from_secs(30));
}

#[test]
fn unusable_settings_end_the_agent_with_an_error() {
    let vm = AgentVm::without_agent();
    let fails = |code: i32, text: &str| {
        let output = vm.command(false).run_to_end();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{stderr}");
        assert!(stderr.contains(text), "{stderr}");
        assert!(!stderr.contains("secret") && !stderr.contains("panicked"), "{stderr}");
    };
    vm.write_settings(json!({"mbus": "https://u:secret@127.0.0.1"}));
    fails(3, "has no port");
    vm.write_settings(
        json!({"env": {"bosh": {"mbus": {"cert": {"certificate": "x", "private_key": "secret"}}}}}),
    );
    fails(3, "private_key is not a PEM key");
    let other = Pki::new();
    vm.write_settings(json!({"env": {"bosh": {"mbus": {"cert": {
        "certificate": vm.pki.certificate, "private_key": other.key,
    }}}}}));
    fails(3, "do not belong together");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    vm.write_settings(json!({"mbus": format!("https://u:secret@127.0.0.1:{port}")}));
    fails(1, &format!("listening on 127.0.0.1:{port} failed"));
    std::fs::write(vm.settings(), "{").unwrap();
    fails(3, "are not in the format of BOSH");
    assert!(!vm.base().exists(), "an agent that cannot serve touches nothing");
}

type Tls = rustls::StreamOwned<rustls::ClientConnection, TcpStream>;

fn connect(vm: &AgentVm) -> Tls {
    use rustls_pki_types::pem::PemObject;
    let mut roots = rustls::RootCertStore::empty();
    roots.add(rustls_pki_types::CertificateDer::from_pem_slice(vm.pki.ca.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let connection = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
    rustls::StreamOwned::new(connection, TcpStream::connect(("127.0.0.1", vm.port)).unwrap())
}

fn read_answer(stream: &mut Tls) -> String {
    let mut text = [0; 256];
    let count = stream.read(&mut text).unwrap_or_default();
    String::from_utf8_lossy(&text[..count]).into_owned()
}
