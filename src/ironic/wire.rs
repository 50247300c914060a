//! Sends single HTTP requests through ureq and rustls, without proxies and redirects.

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use ureq::http::{HeaderMap, Method, Request};
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};

use super::access::CheckedAccess;
use super::error::IronicError;
use base::text::json_problem;
use net::plain_errors::{http_problem, io_problem, tls_problem};
use net::tls_roots;

/// The maximum size of an answer in bytes. A page of 1000 nodes with all fields fits.
pub const MAX_ANSWER_BYTES: u64 = 64 * 1024 * 1024;
/// The timeout of connecting, including DNS and TLS, and of sending a request, which is small.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The timeout of the headers of an answer, and of its body. It is long, because Ironic asks the machine's
/// management controller (BMC) while the request waits.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(180);

/// Creates an HTTP client that trusts the authorities of `access`, or those of the operating system.
pub(super) fn create_http_client(access: &CheckedAccess) -> ureq::Agent {
    let roots = access.roots.clone().unwrap_or_else(tls_roots::load_system_roots);
    let roots: Vec<Certificate<'static>> =
        roots.iter().map(|der| Certificate::from_der(der.as_ref()).to_owned()).collect();
    let tls = TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .root_certs(RootCerts::new_with_certs(&roots))
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .build();
    ureq::Agent::config_builder()
        .tls_config(tls)
        .proxy(None)
        .http_status_as_error(false)
        .max_redirects(0)
        // A kept connection may be closing. A change sent through it would have an unknown outcome.
        .max_idle_connections(0)
        .no_delay(true)
        .user_agent(concat!("monopile/", env!("CARGO_PKG_VERSION")))
        .timeout_connect(Some(CONNECT_TIMEOUT))
        .timeout_send_request(Some(CONNECT_TIMEOUT))
        .timeout_send_body(Some(CONNECT_TIMEOUT))
        .timeout_recv_response(Some(ANSWER_TIMEOUT))
        .timeout_recv_body(Some(ANSWER_TIMEOUT))
        .build()
        .new_agent()
}

/// An answer to an HTTP request, of any status.
pub(super) struct HttpAnswer {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

impl HttpAnswer {
    /// Parses the body as JSON; an empty body is null. `request` (method and path) is for the error.
    pub(super) fn parse_json(&self, request: &str) -> Result<Value, IronicError> {
        if self.body.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&self.body).map_err(|error| IronicError::Protocol {
            request: request.to_owned(),
            problem: format!("it is not JSON: {}", json_problem(&error)),
        })
    }

    /// Returns a header if it is present and printable ASCII.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// Sends a request and returns the answer with any status. Fails if the connection or TLS fails.
pub(super) fn exchange(
    http: &ureq::Agent,
    method: &Method,
    url: &str,
    headers: &[(&str, &str)],
    body: Option<&Value>,
) -> Result<HttpAnswer, IronicError> {
    let mut request = Request::builder().method(method.clone()).uri(url).header("Accept", "application/json");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let malformed_request_error = |error: ureq::http::Error| IronicError::Unreachable {
        address: address(url),
        problem: format!("the request is malformed: {error}"),
    };
    let answer = match body {
        Some(body) => {
            let request = request.header("Content-Type", "application/json").body(body.to_string());
            http.run(request.map_err(malformed_request_error)?)
        }
        None => http.run(request.body(()).map_err(malformed_request_error)?),
    };
    let answer = answer.map_err(|error| connection_error(url, error))?;
    let (parts, body) = answer.into_parts();
    let mut bytes = Vec::new();
    body.into_with_config().limit(MAX_ANSWER_BYTES).reader().read_to_end(&mut bytes).map_err(|error| {
        IronicError::Unreachable {
            address: address(url),
            problem: format!("reading its answer failed: {error}"),
        }
    })?;
    Ok(HttpAnswer { status: parts.status.as_u16(), headers: parts.headers, body: bytes })
}

/// Returns the scheme, host and port of a URL, for messages.
pub(super) fn address(url: &str) -> String {
    let host = url.find("://").map_or(0, |position| position + 3);
    let end = url[host..].find(['/', '?']).map_or(url.len(), |position| host + position);
    url[..end].to_owned()
}

fn connection_error(url: &str, error: ureq::Error) -> IronicError {
    let address = address(url);
    let problem = match error {
        ureq::Error::Rustls(problem) => {
            return IronicError::Untrusted { address, problem: tls_problem(&problem) };
        }
        ureq::Error::Tls(problem) => return IronicError::Untrusted { address, problem: problem.to_owned() },
        // A failed handshake arrives as an `io::Error` that wraps the error of rustls.
        ureq::Error::Io(source) => {
            match source.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
                Some(problem) => return IronicError::Untrusted { address, problem: tls_problem(problem) },
                None => io_problem(&source),
            }
        }
        ureq::Error::HostNotFound => "the host name does not resolve (DNS)".to_owned(),
        ureq::Error::Timeout(ureq::Timeout::Connect) => {
            format!("no connection within {} s", CONNECT_TIMEOUT.as_secs())
        }
        ureq::Error::Timeout(_) => "it accepted the connection, but did not answer in time".to_owned(),
        other => http_problem(&other),
    };
    IronicError::Unreachable { address, problem }
}
