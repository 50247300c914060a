//! The registry as the `local` CPI and its agent see it: a client of `/instances/<id>/settings`.

use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, json};
use url::Url;

use base::encoding::{basic_authorization, percent_decode};
use base::{Error, Result};

/// The largest answer, in bytes.
const LIMIT: u64 = 4 * 1024 * 1024;
const TIMEOUT: Duration = Duration::from_secs(10);
/// What RFC 3986 leaves as it is.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A registry that can be asked.
pub(crate) struct Client {
    http: ureq::Agent,
    /// `http://host:port`
    base: String,
    user: String,
    password: String,
}

impl Client {
    /// From an endpoint as user data carry it, `http://[user:password@]host:port`. The endpoint is a secret: errors
    /// do not repeat it.
    pub(crate) fn new(endpoint: &str) -> Result<Self> {
        let bad = || Error::invalid("the registry's endpoint must be http://user:password@host:port");
        let url = Url::parse(endpoint).map_err(|_| bad())?;
        let host = url.host_str().filter(|host| !host.is_empty()).ok_or_else(bad)?;
        if url.scheme() != "http" {
            return Err(bad());
        }
        let http = ureq::Agent::config_builder()
            // On loopback, whatever the environment says.
            .proxy(None)
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_global(Some(TIMEOUT))
            .build()
            .new_agent();
        Ok(Client {
            http,
            base: format!("http://{host}:{}", url.port().unwrap_or(80)),
            user: percent_decode(url.username()),
            password: percent_decode(url.password().unwrap_or_default()),
        })
    }

    /// The endpoint for user data.
    pub(crate) fn endpoint(host: &str, port: u16, user: &str, password: &str) -> String {
        let escape = |text| utf8_percent_encode(text, ESCAPED);
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        format!("http://{}:{}@{host}:{port}", escape(user), escape(password))
    }

    /// The settings stored under this id; `None` when there are none.
    pub(crate) fn get(&self, id: &str) -> Result<Option<Map<String, Value>>> {
        let response = self.http.get(self.url(id)).header("Authorization", self.authorization()).call();
        let (status, body) = self.read("GET", id, response)?;
        match status {
            200 => {}
            404 => return Ok(None),
            status => return Err(self.refused("GET", id, status)),
        }
        // The parser's words may quote a value, and values are secrets.
        let malformed =
            || Error::environment(format!("the registry at {} answers something else", self.base));
        let answer: Value = serde_json::from_str(&body).map_err(|_| malformed())?;
        let settings = answer.get("settings").and_then(Value::as_str).ok_or_else(malformed)?;
        serde_json::from_str(settings).map(Some).map_err(|_| malformed())
    }

    /// Stores settings under this id.
    pub(crate) fn put(&self, id: &str, settings: &Map<String, Value>) -> Result<()> {
        let request = self.http.put(self.url(id)).header("Authorization", self.authorization());
        let response = request.header("Content-Type", "application/json").send(json!(settings).to_string());
        match self.read("PUT", id, response)?.0 {
            200..=299 => Ok(()),
            status => Err(self.refused("PUT", id, status)),
        }
    }

    /// Deletes what is stored under this id.
    pub(crate) fn delete(&self, id: &str) -> Result<()> {
        let response = self.http.delete(self.url(id)).header("Authorization", self.authorization()).call();
        match self.read("DELETE", id, response)?.0 {
            200..=299 | 404 => Ok(()),
            status => Err(self.refused("DELETE", id, status)),
        }
    }

    fn url(&self, id: &str) -> String {
        format!("{}/instances/{}/settings", self.base, utf8_percent_encode(id, ESCAPED))
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
        let failed = |error: ureq::Error| {
            let text = format!("the registry at {} cannot be asked ({method} settings of '{id}')", self.base);
            Error::environment(text).with_source(error)
        };
        let mut response = response.map_err(failed)?;
        let status = response.status().as_u16();
        let body = response.body_mut().with_config().limit(LIMIT).read_to_string().map_err(failed)?;
        Ok((status, body))
    }

    fn refused(&self, method: &str, id: &str, status: u16) -> Error {
        let why = if status == 401 { " (user or password are wrong)" } else { "" };
        Error::environment(format!(
            "the registry at {} answers {status}{why} to {method} settings of '{id}'",
            self.base
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_comes_back_as_it_went() {
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
