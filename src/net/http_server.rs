//! What the servers here share: who may come in, and how a connection is served.

use std::time::Duration;

use axum::Router;
use axum::http::{HeaderMap, header};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::time::timeout;

/// The one `Authorization` header that is right, as its digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Login(#[serde(with = "base64_text")] [u8; 32]);

impl Login {
    /// From the header's value; see [`base::encoding::basic_authorization`].
    pub fn new(authorization: &str) -> Self {
        Login(Sha256::digest(authorization).into())
    }

    /// Whether a request carries it. Compared by digest, so that the time it takes does not show how much was right,
    /// nor how long what was wanted is.
    pub fn is_in(&self, headers: &HeaderMap) -> bool {
        let given = headers.get(header::AUTHORIZATION).map(|value| value.as_bytes()).unwrap_or_default();
        aws_lc_rs::constant_time::verify_slices_are_equal(&self.0, &Sha256::digest(given)).is_ok()
    }
}

/// Bytes as a word of text.
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

/// How long a client is heard out that is still sending what nobody wants to read any more.
const LINGER: Duration = Duration::from_secs(2);

/// Serves HTTP/1 on a stream until it ends. A request's headers must be here within `patience`, which is also how long
/// an idle connection stays; `whose` is for the log.
///
/// A client whose request was answered before all of it was read (a wrong password, a body that is too large) is heard
/// out for a moment: a socket that is closed with something unread takes the answer back.
pub async fn serve_connection<S>(stream: S, app: Router, patience: Duration, whose: &str)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(patience)
        .max_buf_size(64 * 1024)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(app))
        .without_shutdown()
        .await;
    match served {
        Ok(parts) => {
            let mut stream = parts.io.into_inner();
            if stream.shutdown().await.is_ok() {
                let _ = timeout(LINGER, tokio::io::copy(&mut stream, &mut tokio::io::sink())).await;
            }
        }
        Err(error) => tracing::debug!(%error, "a connection to the {whose} ended"),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::*;

    #[test]
    fn an_answer_reaches_those_who_are_still_sending() {
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
