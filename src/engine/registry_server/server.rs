//! The HTTP server of the registry: on loopback for the CPI, and on the streams of the tunnel for the agent.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Extension, Path as UrlPath, Request, State};
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::content::{RegistryContent, StoreOutcome};
use crate::protocol::RegistryEndpoint;
use crate::state::Document;
use base::secret::Secret;
use base::{Error, Result};
use net::http_server::{AuthorizationDigest, serve_connection};

/// The maximum size of a settings document, in bytes. Usual ones are some KiB, with certificates.
const MAX_SETTINGS_BYTES: usize = 1024 * 1024;
/// The maximum length of an instance id, in bytes.
const MAX_ID_BYTES: usize = 255;
/// The timeout for the headers of a request, and for an idle connection. The client is on this machine or on
/// the VM.
pub const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// The timeout for the body of a request, which is small but may come through a slow tunnel.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(20);
/// The maximum number of open connections of one side: of this machine, or of the VM.
const MAX_CONNECTIONS: usize = 32;

/// The credentials for changing the registry, and for reading it from this machine.
#[derive(Clone)]
pub struct RegistryCredentials {
    /// The user of HTTP basic authentication.
    pub username: String,
    /// Its password, from the manifest.
    pub password: Secret,
}

/// The side from which a request to the registry comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestOrigin {
    /// From this machine.
    Loopback,
    /// From the VM, through the tunnel.
    Tunnel,
}

/// The HTTP server of a registry. It answers until it is dropped.
pub struct RegistryServer {
    endpoint: RegistryEndpoint,
    state: Arc<ServerState>,
    accept_task: JoinHandle<()>,
}

/// The data that all connections of the server share.
struct ServerState {
    content: RegistryContent,
    authorization: AuthorizationDigest,
    header_timeout: Duration,
    /// The limit for connections from this machine. Each side has its own, so neither can use up the other's.
    loopback_permits: Arc<Semaphore>,
    /// The limit for connections from the VM.
    tunnel_permits: Arc<Semaphore>,
}

impl Drop for RegistryServer {
    fn drop(&mut self) {
        self.accept_task.abort();
    }
}

impl RegistryServer {
    /// Serves `content` on this address, which must be a loopback address.
    pub fn start(
        runtime: &Handle,
        address: SocketAddr,
        credentials: &RegistryCredentials,
        content: Document,
    ) -> Result<Self> {
        Self::start_again(
            runtime,
            RegistryEndpoint::new(address, &credentials.username, credentials.password.expose()),
            content,
        )
    }

    /// Serves `content` at the endpoint of an earlier registry, for its clients.
    pub fn start_again(runtime: &Handle, endpoint: RegistryEndpoint, content: Document) -> Result<Self> {
        Self::start_with(runtime, endpoint, content, HEADER_TIMEOUT)
    }

    /// Starts the registry on a loopback address. The content is checked first, so that a broken journal
    /// fails here and not at the first request.
    fn start_with(
        runtime: &Handle,
        endpoint: RegistryEndpoint,
        content: Document,
        header_timeout: Duration,
    ) -> Result<Self> {
        let address = endpoint.address;
        let start_error = |error| Error::io(format!("starting the registry on {address}"), error);
        if !address.ip().is_loopback() {
            return Err(Error::invalid(format!(
                "the registry serves loopback addresses only, not {address}"
            )));
        }
        let content = RegistryContent::of(content);
        content.check().map_err(start_error)?;
        let listener = TcpListener::bind(address).map_err(|error| match error.kind() {
            std::io::ErrorKind::AddrInUse => start_error(error).with_hint(
                "another process on this machine uses this address, perhaps the registry of another run: \
                 wait for it to end, or set another `cloud_provider.properties.registry.port`",
            ),
            _ => start_error(error),
        })?;
        listener.set_nonblocking(true).map_err(start_error)?;
        let _inside = runtime.enter();
        let listener = tokio::net::TcpListener::from_std(listener).map_err(start_error)?;
        let state = Arc::new(ServerState {
            content,
            authorization: endpoint.authorization,
            header_timeout,
            loopback_permits: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
            tunnel_permits: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
        });
        let accept_task = runtime.spawn(accept(Arc::clone(&state), listener));
        tracing::debug!(%address, "the registry is listening");
        Ok(RegistryServer { endpoint, state, accept_task })
    }

    /// Returns the endpoint, which is enough to start the registry again.
    pub fn endpoint(&self) -> &RegistryEndpoint {
        &self.endpoint
    }

    /// Returns a function that serves one stream from the VM.
    pub fn serve_tunnel<S>(&self) -> impl Fn(S) -> JoinHandle<()> + Send + Sync + 'static
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let state = Arc::clone(&self.state);
        move |stream| {
            let state = Arc::clone(&state);
            tokio::spawn(async move {
                if let Ok(_permit) = Arc::clone(&state.tunnel_permits).acquire_owned().await {
                    serve(state, stream, RequestOrigin::Tunnel).await;
                }
            })
        }
    }
}

async fn accept(state: Arc<ServerState>, listener: tokio::net::TcpListener) {
    // Further connections wait in the queue of the operating system.
    while let Ok(permit) = Arc::clone(&state.loopback_permits).acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => {
                let _ = stream.set_nodelay(true);
                let state = Arc::clone(&state);
                tokio::spawn(async move {
                    serve(state, stream, RequestOrigin::Loopback).await;
                    drop(permit);
                });
            }
            Err(error) => {
                // The cause is a lack of file descriptors, or a client that has left. Neither ends the
                // registry.
                tracing::warn!(%error, "accepting a connection to the registry failed");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

async fn serve<S>(state: Arc<ServerState>, stream: S, origin: RequestOrigin)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let header_timeout = state.header_timeout;
    let app = Router::new()
        .route("/instances/{id}/settings", any(answer_settings))
        .fallback(async || answer(StatusCode::NOT_FOUND, "not_found"))
        .layer(Extension(origin))
        .with_state(state);
    serve_connection(stream, app, header_timeout, "registry").await;
}

fn answer(code: StatusCode, status: &str) -> Response {
    document(code, &json!({"settings": "", "status": status}))
}

fn document(code: StatusCode, document: &Value) -> Response {
    (code, [(header::CONTENT_TYPE, "application/json")], document.to_string()).into_response()
}

/// Answers a request for the settings of a VM. The CPI writes with credentials. The VM reads without them,
/// and only through the tunnel.
async fn answer_settings(
    State(state): State<Arc<ServerState>>,
    Extension(origin): Extension<RequestOrigin>,
    UrlPath(id): UrlPath<String>,
    request: Request,
) -> Response {
    let method = request.method().clone();
    let needs_no_credentials = method == Method::GET && origin == RequestOrigin::Tunnel;
    if !needs_no_credentials && !state.authorization.matches(request.headers()) {
        tracing::warn!(%method, id = %printable(&id), ?origin,
            "the registry refused a request with missing or wrong credentials");
        let mut unauthorized = answer(StatusCode::UNAUTHORIZED, "error");
        let challenge = header::HeaderValue::from_static(r#"Basic realm="registry""#);
        unauthorized.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        return unauthorized;
    }
    if id.len() > MAX_ID_BYTES || id.chars().any(char::is_control) {
        return answer(StatusCode::NOT_FOUND, "not_found");
    }
    tracing::debug!(%method, id, ?origin, "request to the registry");
    let body = match method {
        Method::PUT => match receive(request).await {
            Ok(body) => Some(body),
            Err(code) => return answer(code, "error"),
        },
        Method::GET | Method::DELETE => None,
        _ => return answer(StatusCode::NOT_FOUND, "not_found"),
    };
    // The content is small, but may be on a slow disk or in a bucket.
    let response_task = tokio::task::spawn_blocking(move || match body {
        Some(body) => state.content.put(&id, body).map(|outcome| match outcome {
            StoreOutcome::New => answer(StatusCode::CREATED, "ok"),
            StoreOutcome::Replaced => answer(StatusCode::OK, "ok"),
            StoreOutcome::Full => answer(StatusCode::INSUFFICIENT_STORAGE, "error"),
        }),
        None if method == Method::DELETE => state.content.delete(&id).map(|()| answer(StatusCode::OK, "ok")),
        None => state.content.get(&id).map(|settings| match settings {
            Some(settings) => document(StatusCode::OK, &json!({"settings": settings, "status": "ok"})),
            None => answer(StatusCode::NOT_FOUND, "not_found"),
        }),
    });
    match response_task.await {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => {
            tracing::error!(%error, "the content of the registry cannot be used");
            answer(StatusCode::INTERNAL_SERVER_ERROR, "error")
        }
        Err(_) => answer(StatusCode::INTERNAL_SERVER_ERROR, "error"),
    }
}

/// Receives the document of a request, which must be JSON text.
async fn receive(request: Request) -> Result<String, StatusCode> {
    let declared_length = request.headers().get(header::CONTENT_LENGTH);
    let declared_length = declared_length.and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if declared_length.is_some_and(|length| length > MAX_SETTINGS_BYTES as u64) {
        return Err(StatusCode::PAYLOAD_TOO_LARGE);
    }
    let body: Bytes =
        match timeout(BODY_TIMEOUT, axum::body::to_bytes(request.into_body(), MAX_SETTINGS_BYTES)).await {
            Ok(Ok(body)) => body,
            Ok(Err(_)) => return Err(StatusCode::PAYLOAD_TOO_LARGE),
            Err(_) => return Err(StatusCode::REQUEST_TIMEOUT),
        };
    let text = String::from_utf8(body.into()).map_err(|_| StatusCode::BAD_REQUEST)?;
    // The document is parsed in full, so that one that no agent could read (numbers out of range, excessive
    // nesting) is rejected.
    match serde_json::from_str::<Value>(&text) {
        Ok(_) => Ok(text),
        Err(_) => Err(StatusCode::BAD_REQUEST),
    }
}

/// Makes untrusted text fit for a log.
fn printable(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).take(64).collect()
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
