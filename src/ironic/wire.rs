//! One request, one answer: ureq and rustls, directly and without proxies.

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use ureq::http::{HeaderMap, Method, Request};
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};

use super::access::Access;
use super::error::IronicError;
use net::tls_roots;

/// The largest answer, in bytes: a page of nodes with all they have.
const ANSWER_LIMIT: u64 = 64 * 1024 * 1024;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Ironic asks the machine's controller while the request waits, and those are slow.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(180);

/// An HTTP client that trusts what the access says.
pub(super) fn agent(access: &Access) -> ureq::Agent {
    let roots = access.roots.clone().unwrap_or_else(tls_roots::system_roots);
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
        // Nothing that changes something may be sent into a connection that the server is closing.
        .max_idle_connections(0)
        .no_delay(true)
        .user_agent(concat!("monopile/", env!("CARGO_PKG_VERSION")))
        .timeout_connect(Some(CONNECT_TIMEOUT))
        .timeout_send_request(Some(CONNECT_TIMEOUT))
        .timeout_recv_response(Some(ANSWER_TIMEOUT))
        .timeout_recv_body(Some(ANSWER_TIMEOUT))
        .build()
        .new_agent()
}

/// What came back.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

impl Answer {
    /// The body as JSON; null where there is none.
    pub(super) fn json(&self, request: &str) -> Result<Value, IronicError> {
        if self.body.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&self.body).map_err(|error| IronicError::Protocol {
            request: request.to_owned(),
            problem: format!("it is not JSON: {error}"),
        })
    }

    /// A header that is text.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// Sends a request and takes the answer, whatever its status.
pub(super) fn exchange(
    http: &ureq::Agent,
    method: &Method,
    url: &str,
    headers: &[(&str, &str)],
    body: Option<&Value>,
) -> Result<Answer, IronicError> {
    let mut request = Request::builder().method(method.clone()).uri(url).header("Accept", "application/json");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let malformed = |error: ureq::http::Error| IronicError::Unreachable {
        address: address(url),
        problem: format!("the request cannot be made: {error}"),
    };
    let response = match body {
        Some(body) => {
            let request = request.header("Content-Type", "application/json").body(body.to_string());
            http.run(request.map_err(malformed)?)
        }
        None => http.run(request.body(()).map_err(malformed)?),
    };
    let response = response.map_err(|error| transport(url, error))?;
    let (parts, body) = response.into_parts();
    let mut bytes = Vec::new();
    body.into_with_config().limit(ANSWER_LIMIT).reader().read_to_end(&mut bytes).map_err(|error| {
        IronicError::Unreachable {
            address: address(url),
            problem: format!("it broke off its answer: {error}"),
        }
    })?;
    Ok(Answer { status: parts.status.as_u16(), headers: parts.headers, body: bytes })
}

/// Scheme, host and port.
pub(super) fn address(url: &str) -> String {
    let host = url.find("://").map_or(0, |at| at + 3);
    let end = url[host..].find(['/', '?']).map_or(url.len(), |at| host + at);
    url[..end].to_owned()
}

fn transport(url: &str, error: ureq::Error) -> IronicError {
    let address = address(url);
    let problem = match error {
        ureq::Error::Rustls(problem) => {
            return IronicError::Untrusted { address, problem: problem.to_string() };
        }
        ureq::Error::Tls(problem) => return IronicError::Untrusted { address, problem: problem.to_owned() },
        // rustls reports a failed handshake through `io::Error`.
        ureq::Error::Io(source) => {
            match source.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
                Some(problem) => return IronicError::Untrusted { address, problem: problem.to_string() },
                None => source.to_string(),
            }
        }
        ureq::Error::HostNotFound => "the host name does not resolve (DNS)".to_owned(),
        ureq::Error::Timeout(ureq::Timeout::Connect) => "no connection in time".to_owned(),
        ureq::Error::Timeout(_) => "it took the connection, but did not answer in time".to_owned(),
        other => other.to_string(),
    };
    IronicError::Unreachable { address, problem }
}
