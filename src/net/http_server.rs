//! The common part of the HTTP servers: authorization, and serving one connection.

use std::time::Duration;

use axum::Router;
use axum::http::{HeaderMap, header};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::time::timeout;

/// The SHA-256 of the accepted `Authorization` header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuthorizationDigest(#[serde(with = "base64_text")] [u8; 32]);

impl AuthorizationDigest {
    /// Computes the digest of the value of the header, as [`base::encoding::basic_authorization`] returns it.
    pub fn new(authorization: &str) -> Self {
        AuthorizationDigest(Sha256::digest(authorization).into())
    }

    /// Returns true if a request has the accepted header. Comparing digests in constant time reveals neither
    /// the matching part of a guess nor the length of the password.
    pub fn matches(&self, headers: &HeaderMap) -> bool {
        let authorization =
            headers.get(header::AUTHORIZATION).map(|value| value.as_bytes()).unwrap_or_default();
        aws_lc_rs::constant_time::verify_slices_are_equal(&self.0, &Sha256::digest(authorization)).is_ok()
    }
}

/// Serialises the digest as base64.
mod base64_text {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8; 32], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u8; 32], D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = STANDARD.decode(text).map_err(D::Error::custom)?;
        bytes.try_into().map_err(|_| D::Error::custom("a digest has 32 bytes"))
    }
}

/// The timeout of reading the rest of a request after its answer.
const LINGER_TIMEOUT: Duration = Duration::from_secs(2);

/// Serves HTTP/1 on a stream until it ends. `header_timeout` is the timeout for the headers of a request and
/// for an idle connection; `server_name` names the server in the log.
pub async fn serve_connection<S>(stream: S, app: Router, header_timeout: Duration, server_name: &str)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let result = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(header_timeout)
        .max_buf_size(64 * 1024)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(app))
        .without_shutdown()
        .await;
    match result {
        Ok(parts) => {
            let mut stream = parts.io.into_inner();
            // A request may be answered before all of it was read, for example if its password is wrong. The
            // rest is read, because closing a socket with unread data can discard the answer.
            if stream.shutdown().await.is_ok() {
                let _ = timeout(LINGER_TIMEOUT, tokio::io::copy(&mut stream, &mut tokio::io::sink())).await;
            }
        }
        Err(error) => tracing::debug!(%error, "a connection to the {server_name} failed"),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::*;

    #[test]
    fn response_reaches_a_client_that_is_still_sending() {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                serve_connection(stream, Router::new(), Duration::from_secs(10), "test").await;
            }
        });
        for _ in 0..3 {
            let mut stream = std::net::TcpStream::connect(address).unwrap();
            stream
                .write_all(b"PUT / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 90000\r\n\r\n")
                .unwrap();
            for _ in 0..9 {
                std::thread::sleep(Duration::from_millis(10));
                stream.write_all(&[b'x'; 10_000]).unwrap();
            }
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
        }
    }
}
