//! Fetches a small document with one request: no cache, no digest, no retries and no redirects.

use std::sync::Arc;
use std::time::Duration;

use super::connection::ProxyDialer;
use super::download::{config, without_secrets};
use super::proxy::Proxies;
use crate::url::HttpUrl;
use base::encoding::basic_authorization;
use base::text::bytes;
use base::{Error, Result};
use net::http_client;

/// Returns the document at `url`, which begins with `http://` or `https://`.
///
/// The request uses the proxies of the environment variables `env_vars`, and ends after `timeout`. A document
/// of more than `max_bytes` is an error.
pub fn fetch_document(
    url: &str,
    timeout: Duration,
    max_bytes: u64,
    env_vars: &[(String, String)],
) -> Result<Vec<u8>> {
    if !["http://", "https://"].iter().any(|scheme| url.starts_with(scheme)) {
        return Err(Error::usage(format!("'{url}' is no URL of a document"))
            .with_hint("name a URL that begins with https://"));
    }
    let url = HttpUrl::new(url);
    let failed = |reason: String| Error::failure(format!("asking '{url}' failed")).with_source(reason);
    let dialer = ProxyDialer::new(Proxies::from_variables(env_vars)?, Arc::new(|| Ok(())));
    let config = config().timeout_global(Some(timeout)).max_redirects(0).max_redirects_will_error(false);
    let client = http_client::client_over(config.build(), None, dialer);
    let mut request = client.get(url.without_user());
    if let Some((user, password)) = url.user() {
        request = request.header("authorization", basic_authorization(&user, &password));
    }
    let broken = |error: ureq::Error| match error {
        ureq::Error::BodyExceedsLimit(_) => failed(format!("the answer has more than {}", bytes(max_bytes))),
        ureq::Error::Timeout(_) => failed(format!("no answer within {}", base::text::duration(timeout))),
        error => failed(without_secrets(&error.to_string())),
    };
    let response = request.call().map_err(broken)?;
    if response.status() != 200 {
        return Err(failed(format!("the server answered {}", response.status())));
    }
    // ureq refuses a body that reaches the limit.
    response.into_body().with_config().limit(max_bytes + 1).read_to_vec().map_err(broken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::{Server, answer};

    fn asked(url: &str, max_bytes: u64) -> Result<Vec<u8>, String> {
        let result = fetch_document(url, Duration::from_secs(30), max_bytes, &[]);
        result.map_err(|error| error.chain().join(": "))
    }

    #[test]
    fn document_is_fetched_up_to_its_limit() {
        let server = Server::start(|_, _| answer("200 OK", &[], b"12345"));
        let url = server.url("/feed");
        assert_eq!(asked(&url, 5).unwrap(), b"12345");
        let error = asked(&url, 4).unwrap_err();
        assert_eq!(error, format!("asking '{url}' failed: the answer has more than 4 B"));
    }

    #[test]
    fn user_and_password_go_into_a_header_only() {
        let server = Server::start(|_, _| answer("403 Forbidden", &[], b""));
        let url = format!("http://us:pa55@localhost:{}/feed", server.port());
        let error = asked(&url, 5).unwrap_err();
        assert!(error.ends_with("/feed' failed: the server answered 403 Forbidden"), "{error}");
        assert!(!error.contains("pa55"), "{error}");
        assert_eq!(server.requests()[0].header("authorization"), Some("Basic dXM6cGE1NQ=="));
    }

    #[test]
    fn redirects_are_not_followed() {
        let server = Server::start(|_, _| answer("302 Found", &[("Location", "/other")], b""));
        let error = asked(&server.url("/feed"), 5).unwrap_err();
        assert!(error.contains("the server answered 302 Found"), "{error}");
        assert_eq!(server.requests().len(), 1);
    }

    #[test]
    fn silent_server_times_out() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let error = fetch_document(&url, Duration::from_millis(300), 5, &[]).unwrap_err().chain().join(": ");
        assert_eq!(error, format!("asking '{url}' failed: no answer within 0.3 s"));
    }

    #[test]
    fn other_schemes_are_refused() {
        assert_eq!(
            asked("file:///etc/passwd", 5).unwrap_err(),
            "'file:///etc/passwd' is no URL of a document"
        );
    }
}
