//! Sends any bytes to the registry, which answers or rejects them and closes the connection. Without the
//! password no record changes, and records are always JSON.

#![no_main]

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use base::redact::Redactor;
use base::secret::Secret;
use engine::registry_server::{RegistryCredentials, RegistryServer};
use libfuzzer_sys::arbitrary::{Arbitrary, Unstructured};
use libfuzzer_sys::fuzz_target;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::Runtime;
use tokio::time::timeout;

/// `registry:s3cret`
const LOGIN: &str = "Basic cmVnaXN0cnk6czNjcmV0";
const INITIAL_RECORDS: &str = r#"{"vm-1":"{\"agent_id\":\"a\"}"}"#;

/// The timeout of an exchange, longer than any timeout of the server, and enough for a busy machine.
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(120);

struct ServedRegistry {
    runtime: Runtime,
    registry: RegistryServer,
    file: PathBuf,
}

static SERVER: LazyLock<ServedRegistry> = LazyLock::new(|| {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let file = tempfile::tempdir_in("/dev/shm").unwrap().keep().join("registry.json");
    let password = Secret::new("s3cret", &Redactor::default());
    let credentials = RegistryCredentials { username: "registry".into(), password };
    let address = "127.0.0.1:0".parse().unwrap();
    let registry =
        RegistryServer::start(runtime.handle(), address, &credentials, file.as_path().into()).unwrap();
    ServedRegistry { runtime, registry, file }
});

fuzz_target!(|bytes: &[u8]| {
    let Some((mode, rest)) = bytes.split_first() else { return };
    let requests = if mode & 1 == 0 { rest.to_vec() } else { build_requests(rest) };
    let ServedRegistry { runtime, registry, file } = &*SERVER;
    fs::write(file, INITIAL_RECORDS).unwrap();
    let answers = runtime.block_on(async {
        let (ours, theirs) = tokio::io::duplex(1 << 14);
        let server = registry.serve_tunnel()(theirs);
        let (mut answer_stream, mut request_stream) = tokio::io::split(ours);
        let mut answers = Vec::new();
        let exchange = async {
            // The server does not read a rejected request to its end.
            tokio::join!(
                async {
                    let _ = request_stream.write_all(&requests).await;
                    let _ = request_stream.shutdown().await;
                },
                async {
                    let _ = answer_stream.read_to_end(&mut answers).await;
                }
            );
            server.await.unwrap();
        };
        timeout(EXCHANGE_TIMEOUT, exchange).await.expect("the connection ends with what was sent");
        answers
    });
    assert!(answers.is_empty() || answers.starts_with(b"HTTP/1."), "{}", answers.escape_ascii());
    assert!(!answers.starts_with(b"HTTP/1.1 500"), "{}", answers.escape_ascii());
    // Deleting the last record removes the file.
    let records = fs::read_to_string(file).unwrap_or_else(|_| "{}".to_owned());
    if !requests.windows(LOGIN.len()).any(|part| part == LOGIN.as_bytes()) {
        assert_eq!(records, INITIAL_RECORDS);
    }
    let entries: BTreeMap<String, String> = serde_json::from_str(&records).unwrap();
    for (id, settings) in entries {
        assert!(id.len() < 256 && !id.chars().any(char::is_control), "{id:?}");
        serde_json::from_str::<serde_json::Value>(&settings).unwrap();
    }
});

/// The fields of a request that is valid enough to be examined. The flag selects a chunked body.
type RequestFields<'a> = (u8, Option<&'a str>, u8, Option<u64>, bool, &'a [u8], &'a [u8]);

/// Builds requests from arbitrary bytes.
fn build_requests(bytes: &[u8]) -> Vec<u8> {
    let mut source = Unstructured::new(bytes);
    let mut requests = Vec::new();
    while !source.is_empty() && requests.len() < 64 << 10 {
        let Ok((method, id, login, length, chunked, header, body)) = RequestFields::arbitrary(&mut source)
        else {
            break;
        };
        let method = ["GET", "PUT", "DELETE", "PUT", "POST", "HEAD"][usize::from(method) % 6];
        let login = match login % 4 {
            0 => "",
            1 => "Authorization: Basic cmVnaXN0cnk6czNjcmU=\r\n",
            _ => &format!("Authorization: {LOGIN}\r\n"),
        };
        let id = id.unwrap_or("vm-1");
        requests
            .extend_from_slice(format!("{method} /instances/{id}/settings HTTP/1.1\r\n{login}").as_bytes());
        requests.extend_from_slice(header);
        match chunked {
            true => requests.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n"),
            false => {
                let length = length.unwrap_or(body.len() as u64);
                requests.extend_from_slice(format!("Content-Length: {length}\r\n\r\n").as_bytes());
            }
        }
        match chunked {
            true => {
                for part in body.split(|byte| *byte == 0) {
                    requests.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
                    requests.extend_from_slice(part);
                    requests.extend_from_slice(b"\r\n");
                }
                requests.extend_from_slice(b"0\r\n\r\n");
            }
            false => requests.extend_from_slice(body),
        }
    }
    requests
}
