//! A client of the registry for the `local` CPI and its agent: reads and writes `/instances/<id>/settings`.

use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, json};
use url::Url;

use base::encoding::{basic_authorization, percent_decode};
use base::{Error, Result};

/// The maximum size of an answer, in bytes.
const MAX_ANSWER_BYTES: u64 = 4 * 1024 * 1024;
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// The characters to percent-encode: all but the unreserved ones of RFC 3986.
const CHARS_TO_ENCODE: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A client of one registry.
pub(crate) struct Client {
    http: ureq::Agent,
    /// The beginning of every URL: `http://host:port`.
    base: String,
    user: String,
    password: String,
}

impl Client {
    /// Creates a client from an endpoint in user data, `http://[user:password@]host:port`. Errors do not
    /// quote the endpoint, which is a secret.
    pub(crate) fn new(endpoint: &str) -> Result<Self> {
        let endpoint_error =
            || Error::invalid("the registry's endpoint must be http://user:password@host:port");
        let url = Url::parse(endpoint).map_err(|_| endpoint_error())?;
        let host = url.host_str().filter(|host| !host.is_empty()).ok_or_else(endpoint_error)?;
        if url.scheme() != "http" {
            return Err(endpoint_error());
        }
        let http = ureq::Agent::config_builder()
            // The registry is on loopback.
            .proxy(None)
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_global(Some(REQUEST_TIMEOUT))
            .build()
            .new_agent();
        Ok(Client {
            http,
            base: format!("http://{host}:{}", url.port().unwrap_or(80)),
            user: percent_decode(url.username()),
            password: percent_decode(url.password().unwrap_or_default()),
        })
    }

    /// Returns the endpoint for user data, with the credentials percent-encoded.
    pub(crate) fn endpoint(host: &str, port: u16, user: &str, password: &str) -> String {
        let escape = |text| utf8_percent_encode(text, CHARS_TO_ENCODE);
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        format!("http://{}:{}@{host}:{port}", escape(user), escape(password))
    }

    /// Returns the settings stored under this id, or `None` if none are stored.
    pub(crate) fn get(&self, id: &str) -> Result<Option<Map<String, Value>>> {
        let response = self.http.get(self.url(id)).header("Authorization", self.authorization()).call();
        let (status, body) = self.read("GET", id, response)?;
        match status {
            200 => {}
            404 => return Ok(None),
            status => return Err(self.status_error("GET", id, status)),
        }
        // serde's message may quote a value, and settings contain secrets.
        let malformed_settings_error = || {
            Error::failure(format!(
                "the registry at {} sent settings of '{id}' that are not JSON in the form of a registry",
                self.base
            ))
        };
        let answer: Value = serde_json::from_str(&body).map_err(|_| malformed_settings_error())?;
        let settings = answer.get("settings").and_then(Value::as_str).ok_or_else(malformed_settings_error)?;
        serde_json::from_str(settings).map(Some).map_err(|_| malformed_settings_error())
    }

    /// Stores settings under this id.
    pub(crate) fn put(&self, id: &str, settings: &Map<String, Value>) -> Result<()> {
        let request = self.http.put(self.url(id)).header("Authorization", self.authorization());
        let response = request.header("Content-Type", "application/json").send(json!(settings).to_string());
        match self.read("PUT", id, response)?.0 {
            200..=299 => Ok(()),
            status => Err(self.status_error("PUT", id, status)),
        }
    }

    /// Deletes the settings stored under this id. Succeeds if none are stored.
    pub(crate) fn delete(&self, id: &str) -> Result<()> {
        let response = self.http.delete(self.url(id)).header("Authorization", self.authorization()).call();
        match self.read("DELETE", id, response)?.0 {
            200..=299 | 404 => Ok(()),
            status => Err(self.status_error("DELETE", id, status)),
        }
    }

    fn url(&self, id: &str) -> String {
        format!("{}/instances/{}/settings", self.base, utf8_percent_encode(id, CHARS_TO_ENCODE))
    }

    fn authorization(&self) -> String {
        basic_authorization(&self.user, &self.password)
    }

    fn read(
        &self,
        method: &str,
        id: &str,
        response: std::result::Result<ureq::http::Response<ureq::Body>, ureq::Error>,
    ) -> Result<(u16, String)> {
        let request_error = |error: ureq::Error| {
            let text =
                format!("the registry at {} cannot be reached ({method} settings of '{id}')", self.base);
            Error::failure(text).with_source(error)
        };
        let mut response = response.map_err(request_error)?;
        let status = response.status().as_u16();
        let body = response
            .body_mut()
            .with_config()
            .limit(MAX_ANSWER_BYTES)
            .read_to_string()
            .map_err(request_error)?;
        Ok((status, body))
    }

    fn status_error(&self, method: &str, id: &str, status: u16) -> Error {
        let reason = if status == 401 { " (wrong user or password)" } else { "" };
        Error::failure(format!(
            "the registry at {} answers {status}{reason} to {method} settings of '{id}'",
            self.base
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoint_round_trips_and_errors_do_not_quote_it() {
        let endpoint = Client::endpoint("127.0.0.1", 6901, "registry", "p@:/%ss wörd");
        assert!(!endpoint.contains("p@"), "{endpoint}");
        let client = Client::new(&endpoint).unwrap();
        assert_eq!((client.user.as_str(), client.password.as_str()), ("registry", "p@:/%ss wörd"));
        assert_eq!(client.url("vm/1"), "http://127.0.0.1:6901/instances/vm%2F1/settings");
        assert_eq!(Client::new("http://[::1]:7").unwrap().base, "http://[::1]:7");
        for bad in ["", "https://u:s3cret@h:1", "/var/s3cret", "u:s3cret@h"] {
            let error = Client::new(bad).err().unwrap().to_string();
            assert!(!error.contains("s3cret"), "{error}");
        }
    }
}
