//! The mbus over HTTPS: `POST /agent` for messages, `/blobs/…` for blobs (`mbus/https_handler.go` of the
//! bosh-agent).
//!
//! All requests need the password. No client can block the agent: handshakes, headers and bodies have
//! deadlines, and the size of messages and the number of connections are limited.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, HttpBody};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use tokio::io::{AsyncWriteExt, BufWriter};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::io::ReaderStream;

use super::{Agent, blobs, dispatch};
use base::encoding::basic_authorization_of;
use base::{Error, Result};
use net::http_server::{AuthorizationDigest, serve_connection};

/// The maximum size of a message, in bytes. An apply spec is a few KiB.
const MAX_MESSAGE_BYTES: usize = 16 * 1024 * 1024;
/// The maximum size of a blob, in bytes.
const MAX_BLOB_BYTES: u64 = 64 * 1024 * 1024 * 1024;
/// The size of reads and writes of blobs, in bytes. It is large, because each one switches to another thread
/// and back.
const CHUNK_BYTES: usize = 512 * 1024;
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// The timeout for the headers of a request, and for an idle connection. Clients keep idle connections for 15
/// s or less.
const HEADER_TIMEOUT: Duration = Duration::from_secs(20);
/// The timeout for a whole message.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum pause in the transfer of a blob.
const BLOB_STALL_TIMEOUT: Duration = Duration::from_secs(60);
const MAX_CONNECTIONS: usize = 256;

/// Serves until the process ends.
pub(super) async fn serve(agent: Arc<Agent>, listener: TcpListener, tls: TlsAcceptor) -> Result<()> {
    let login = AuthorizationDigest::new(&basic_authorization_of(&agent.endpoint.credentials));
    let app = Router::new()
        .route("/agent", any(handle_message))
        .route("/blobs/{*id}", any(serve_blob))
        .layer(middleware::from_fn_with_state(login, check_password))
        .with_state(agent);
    let connections = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(permit) = connections.clone().acquire_owned().await else {
            return Err(Error::failure("the agent's server has been closed"));
        };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Missing file descriptors or a closed connection must not end the agent.
                tracing::warn!(%error, "accepting a connection failed");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let (tls, app) = (tls.clone(), app.clone());
        tokio::spawn(async move {
            let _permit = permit;
            let _ = stream.set_nodelay(true);
            let stream = match timeout(HANDSHAKE_TIMEOUT, tls.accept(stream)).await {
                Ok(Ok(stream)) => stream,
                Ok(Err(error)) => return tracing::debug!(%error, "TLS handshake failed"),
                Err(_) => return tracing::debug!("TLS handshake timed out"),
            };
            serve_connection(stream, app, HEADER_TIMEOUT, "agent").await;
        });
    }
}

async fn check_password(State(login): State<AuthorizationDigest>, request: Request, next: Next) -> Response {
    if !login.matches(request.headers()) {
        return (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, r#"Basic realm="""#)]).into_response();
    }
    next.run(request).await
}

async fn handle_message(State(agent): State<Arc<Agent>>, request: Request) -> Response {
    if request.method() != Method::POST {
        return StatusCode::NOT_FOUND.into_response();
    }
    if declared_length(request.headers()) > MAX_MESSAGE_BYTES as u64 {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    }
    let text =
        match timeout(MESSAGE_TIMEOUT, axum::body::to_bytes(request.into_body(), MAX_MESSAGE_BYTES)).await {
            Ok(Ok(text)) => text,
            Ok(Err(error)) => {
                tracing::warn!(%error, "reading a message failed");
                return StatusCode::BAD_REQUEST.into_response();
            }
            Err(_) => return StatusCode::REQUEST_TIMEOUT.into_response(),
        };
    match tokio::task::spawn_blocking(move || dispatch::answer(&agent, &text)).await {
        Ok(Some(answer)) => {
            ([(header::CONTENT_TYPE, "application/json")], answer.to_string()).into_response()
        }
        Ok(None) | Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

async fn serve_blob(State(agent): State<Arc<Agent>>, request: Request) -> Response {
    let Some(id) = blobs::id_of(request.uri().path()).map(str::to_owned) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    match *request.method() {
        Method::PUT => put(&agent, &id, request).await,
        Method::GET | Method::HEAD => get(&agent, &id, request.method() == Method::HEAD).await,
        Method::DELETE => match tokio::task::spawn_blocking(move || agent.blobs.delete(&id)).await {
            Ok(Ok(true)) => StatusCode::NO_CONTENT.into_response(),
            Ok(Ok(false)) => StatusCode::NOT_FOUND.into_response(),
            Ok(Err(_)) | Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        },
        _ => StatusCode::METHOD_NOT_ALLOWED.into_response(),
    }
}

async fn get(agent: &Agent, id: &str, is_head: bool) -> Response {
    let Some(path) = agent.blobs.path(id) else { return StatusCode::NOT_FOUND.into_response() };
    let result = match tokio::fs::File::open(&path).await {
        Ok(file) => file.metadata().await.map(|metadata| (file, metadata.len())),
        Err(error) => Err(error),
    };
    match result {
        Ok((file, length)) => {
            let body = if is_head {
                Body::empty()
            } else {
                Body::from_stream(ReaderStream::with_capacity(file, CHUNK_BYTES))
            };
            let headers = [
                (header::CONTENT_LENGTH, length.to_string()),
                (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
            ];
            (headers, body).into_response()
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => StatusCode::NOT_FOUND.into_response(),
        Err(error) => {
            tracing::warn!(id, %error, "reading a blob failed");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

async fn put(agent: &Agent, id: &str, request: Request) -> Response {
    if declared_length(request.headers()) > MAX_BLOB_BYTES {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    }
    match receive(agent, id, request.into_body()).await {
        Ok(()) => StatusCode::CREATED.into_response(),
        Err(error) => {
            let text = super::error_text(&error);
            tracing::warn!(id, error = text, "storing a blob failed");
            (StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
        }
    }
}

async fn receive(agent: &Agent, id: &str, mut body: Body) -> Result<()> {
    let update_error = |error| Error::io("Updating blob", error);
    let file = agent.blobs.create_incoming()?;
    let writer = tokio::fs::File::from_std(file.reopen().map_err(update_error)?);
    let mut writer = BufWriter::with_capacity(CHUNK_BYTES, writer);
    let mut length: u64 = 0;
    loop {
        let frame = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx));
        let Some(frame) = timeout(BLOB_STALL_TIMEOUT, frame).await.map_err(|_| {
            let seconds = BLOB_STALL_TIMEOUT.as_secs();
            Error::failure(format!("Updating blob: the client sent nothing for {seconds} s"))
        })?
        else {
            break;
        };
        let frame = frame
            .map_err(|error| Error::failure("Updating blob: the request ended early").with_source(error))?;
        if let Ok(data) = frame.into_data() {
            length = length.saturating_add(data.len() as u64);
            if length > MAX_BLOB_BYTES {
                let gib = MAX_BLOB_BYTES >> 30;
                return Err(Error::invalid(format!("Updating blob: it is larger than {gib} GiB")));
            }
            writer.write_all(&data).await.map_err(update_error)?;
        }
    }
    writer.flush().await.map_err(update_error)?;
    agent.blobs.commit(file, id)
}

/// Returns the content length in the headers, or 0.
fn declared_length(headers: &HeaderMap) -> u64 {
    headers
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse().ok())
        .unwrap_or_default()
}
