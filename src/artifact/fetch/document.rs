//! Fetches a small document: no cache, no digest and no retries.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::connection::ProxyDialer;
use super::download::{client_config, without_secrets};
use super::proxy::Proxies;
use super::redirect::{self, MAX_REDIRECTS, is_redirect};
use crate::http_url::HttpUrl;
use base::text::format_bytes;
use base::{Error, Result};
use net::http_client;
use net::plain_errors::http_problem;

/// Returns the document at `url`, which begins with `http://` or `https://`.
///
/// The request uses the proxies of the environment variables `env_vars`, follows redirects, and ends after
/// `timeout`. A document of more than `max_bytes` is an error.
pub fn fetch_document(
    url: &str,
    timeout: Duration,
    max_bytes: u64,
    env_vars: &[(String, String)],
) -> Result<Vec<u8>> {
    if !["http://", "https://"].iter().any(|scheme| url.starts_with(scheme)) {
        return Err(Error::usage(format!("'{url}' is not the URL of a document"))
            .with_hint("name a URL that begins with https://"));
    }
    let url = HttpUrl::new(url);
    let request_error = |reason: String| {
        Error::failure(format!("asking '{url}' failed"))
            .with_source(reason)
            .with_hint(format!("check the URL: `curl -IL '{url}'`"))
    };
    let dialer = ProxyDialer::new(Proxies::from_variables(env_vars)?, Arc::new(|| Ok(())));
    let config = client_config().max_redirects(0).max_redirects_will_error(false);
    let client = http_client::create_client_over(config.build(), None, dialer);
    let end = Instant::now() + timeout;
    let request = |target: &HttpUrl| {
        let remaining_timeout = end.saturating_duration_since(Instant::now());
        let mut request =
            client.get(target.without_user()).config().timeout_global(Some(remaining_timeout)).build();
        if let Some(authorization) = redirect::authorization(&url, target) {
            request = request.header("authorization", authorization);
        }
        request.call()
    };
    let http_error = |error: ureq::Error| match error {
        ureq::Error::BodyExceedsLimit(_) => {
            request_error(format!("the answer has more than {}", format_bytes(max_bytes)))
        }
        ureq::Error::Timeout(_) => {
            request_error(format!("no answer within {}", base::text::format_duration(timeout)))
        }
        error => request_error(without_secrets(&http_problem(&error))),
    };
    let mut current_url = url.clone();
    for _ in 0..=MAX_REDIRECTS {
        let response = request(&current_url).map_err(http_error)?;
        if !is_redirect(&response) {
            if response.status() != 200 {
                return Err(request_error(format!("the server answered {}", response.status())));
            }
            // ureq refuses a body that reaches the limit.
            return response.into_body().with_config().limit(max_bytes + 1).read_to_vec().map_err(http_error);
        }
        let target = redirect::target(&response, &current_url);
        let target =
            target.ok_or_else(|| request_error("it redirects to a text that is not a URL".to_owned()))?;
        if current_url.is_https() && !target.is_https() {
            return Err(request_error(format!("it redirects to '{target}', which is not encrypted")));
        }
        current_url = target;
    }
    Err(request_error(format!("there are more than {MAX_REDIRECTS} redirects")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::{Server, answer};

    fn fetch(url: &str, max_bytes: u64) -> Result<Vec<u8>, String> {
        let result = fetch_document(url, Duration::from_secs(30), max_bytes, &[]);
        result.map_err(|error| error.chain().join(": "))
    }

    #[test]
    fn document_is_fetched_up_to_its_limit() {
        let server = Server::start(|_, _| answer("200 OK", &[], b"12345"));
        let url = server.url("/feed");
        assert_eq!(fetch(&url, 5).unwrap(), b"12345");
        let error = fetch(&url, 4).unwrap_err();
        assert_eq!(error, format!("asking '{url}' failed: the answer has more than 4 B"));
    }

    #[test]
    fn user_and_password_go_into_a_header_only() {
        let server = Server::start(|_, _| answer("403 Forbidden", &[], b""));
        let url = format!("http://us:pa55@localhost:{}/feed", server.port());
        let error = fetch(&url, 5).unwrap_err();
        assert!(error.ends_with("/feed' failed: the server answered 403 Forbidden"), "{error}");
        assert!(!error.contains("pa55"), "{error}");
        assert_eq!(server.requests()[0].header("authorization"), Some("Basic dXM6cGE1NQ=="));
    }

    #[test]
    fn redirects_are_followed() {
        let server = Server::start(|request, _| match request.line.contains("/feed") {
            true => answer("301 Moved Permanently", &[("Location", "/other")], b""),
            false => answer("200 OK", &[], b"12345"),
        });
        let url = format!("http://us:pa55@localhost:{}/feed", server.port());
        assert_eq!(fetch(&url, 5).unwrap(), b"12345");
        let authorized: Vec<_> =
            server.requests().iter().map(|request| request.header("authorization").is_some()).collect();
        assert_eq!(authorized, [true, true]);

        let endless = Server::start(|_, _| answer("302 Found", &[("Location", "/feed")], b""));
        let error = fetch(&endless.url("/feed"), 5).unwrap_err();
        assert!(error.ends_with("redirects"), "{error}");
        let redirecting_server =
            Server::start(|_, _| answer("302 Found", &[("Location", "file:///etc/passwd")], b""));
        let error = fetch(&redirecting_server.url("/feed"), 5).unwrap_err();
        assert!(error.ends_with("it redirects to a text that is not a URL"), "{error}");
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
            fetch("file:///etc/passwd", 5).unwrap_err(),
            "'file:///etc/passwd' is not the URL of a document"
        );
    }
}
