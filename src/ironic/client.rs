//! A connection to Ironic: authentication, the API version, and retries.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::Value;
use ureq::http::Method;

use super::access::{Auth, CheckedAccess};
use super::error::{IronicError, Refusal, reason};
use super::keystone;
use super::version::{Microversion, NEWEST_TESTED, VERSION_HEADER};
use super::wire::{self, HttpAnswer};
use base::encoding::basic_authorization;
use base::text::format_duration;

/// The timeout of retries while another request locks the node. Ironic itself waits about two seconds
/// before it refuses.
const LOCK_RETRY_TIMEOUT: Duration = Duration::from_secs(60);
/// The pause before a retry.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// A client of one Ironic.
pub struct Client {
    http: ureq::Agent,
    access: CheckedAccess,
    base_url: String,
    version: Microversion,
    token: Mutex<Option<String>>,
    lock_retry_timeout: Duration,
    outage_timeout: Duration,
    pause: Duration,
    /// Tells the operator that a node is locked and for how long the client retries.
    warn: Option<WarnFunction>,
}

/// Receives a warning.
type WarnFunction = Box<dyn Fn(String) + Send + Sync>;

impl Client {
    /// Authenticates and negotiates the API version. Fails if the server cannot be reached or is not Ironic.
    pub fn connect(access: CheckedAccess) -> Result<Self, IronicError> {
        let http = wire::create_http_client(&access);
        let (base_url, token) = match &access.auth {
            Auth::Keystone(keystone) => {
                let token = keystone::request_token(&http, keystone, access.endpoint.as_deref())?;
                (token.endpoint, Some(token.text))
            }
            // `AccessSettings::check` requires an endpoint if there is no Keystone.
            Auth::None | Auth::Basic { .. } => (access.endpoint.clone().unwrap_or_default(), None),
        };
        let token = Mutex::new(token);
        let mut client = Client {
            http,
            access,
            base_url,
            version: NEWEST_TESTED,
            token,
            lock_retry_timeout: LOCK_RETRY_TIMEOUT,
            outage_timeout: Duration::ZERO,
            pause: RETRY_PAUSE,
            warn: None,
        };
        client.version = client.negotiate()?;
        tracing::debug!(address = client.base_url, version = %client.version, "connected to Ironic");
        Ok(client)
    }

    /// Sets the timeout of retries while a node is locked. Default: 60 s.
    #[must_use]
    pub fn with_lock_retry_timeout(mut self, timeout: Duration) -> Self {
        self.lock_retry_timeout = timeout;
        self
    }

    /// Passes a warning to `warn` when the retries for a locked node begin.
    #[must_use]
    pub fn with_warnings(mut self, warn: impl Fn(String) + Send + Sync + 'static) -> Self {
        self.warn = Some(Box::new(warn));
        self
    }

    /// Sets the timeout of retries while the server fails or cannot be reached. Default: no retries.
    ///
    /// The client retries reading requests, and requests refused with 503, which the server did not begin.
    /// After another failure of a changing request, the caller must check whether the change was made.
    pub fn set_outage_timeout(&mut self, timeout: Duration) {
        self.outage_timeout = timeout;
    }

    /// Returns the API version in use.
    pub fn version(&self) -> Microversion {
        self.version
    }

    /// Fails with [`IronicError::TooOld`] if the version in use is below `required_version`. `feature` is
    /// in the plural.
    pub fn require(&self, required_version: Microversion, feature: &'static str) -> Result<(), IronicError> {
        if self.version >= required_version {
            return Ok(());
        }
        let address = wire::address(&self.base_url);
        Err(IronicError::TooOld { feature, required_version, version: self.version, address })
    }

    /// Returns the version to use: the configured one, or the newest that client and server support.
    fn negotiate(&self) -> Result<Microversion, IronicError> {
        let request = "GET /v1/";
        let answer = self.send(&Method::GET, "/v1/", None)?;
        let refuse_other_server = |problem: &str| {
            let address = wire::address(&self.base_url);
            Err(IronicError::NotIronic { address, problem: problem.to_owned() })
        };
        if answer.status == 404 {
            return refuse_other_server("the server answers 404 (not found)");
        }
        if answer.status != 200 {
            let reason = reason(&answer.body);
            return Err(IronicError::Refused { request: request.into(), status: answer.status, reason });
        }
        let header = |bound: &str| {
            let name = format!("X-OpenStack-Ironic-API-{bound}-Version");
            answer.header(&name).and_then(|text| text.parse::<Microversion>().ok())
        };
        let (Some(lowest_version), Some(highest_version)) = (header("Minimum"), header("Maximum")) else {
            return refuse_other_server("the answer names no API versions");
        };
        let requested_version = self.access.version.unwrap_or(highest_version.min(NEWEST_TESTED));
        if (lowest_version..=highest_version).contains(&requested_version) {
            return Ok(requested_version);
        }
        Err(IronicError::NotServed {
            requested_version,
            lowest: lowest_version,
            highest: highest_version,
            address: wire::address(&self.base_url),
        })
    }

    /// Sends a request. Retries while the node is locked and, if that is safe, while the server fails. The
    /// last argument is the lowest API version with the feature, and the feature's name in the plural.
    pub(super) fn call(
        &self,
        method: &Method,
        path: &str,
        body: Option<&Value>,
        (required_version, feature): (Microversion, &'static str),
    ) -> Result<Value, IronicError> {
        self.require(required_version, feature)?;
        let start = Instant::now();
        let mut warn = self.warn.as_ref();
        loop {
            tracing::debug!(%method, path, "request to Ironic");
            let error = match self.request_once(method, path, body) {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let has_not_begun = matches!(error, IronicError::Refused { status: 503, .. });
            let timeout = match error.refusal() {
                Some(Refusal::Locked) => self.lock_retry_timeout,
                _ if error.is_transient() && (has_not_begun || *method == Method::GET) => self.outage_timeout,
                _ => return Err(error),
            };
            if start.elapsed() >= timeout {
                return Err(error);
            }
            tracing::info!(%error, "request to Ironic failed, retrying");
            if error.refusal() == Some(Refusal::Locked)
                && let Some(warn) = warn.take()
            {
                let problem = error.to_string();
                let problem = problem.trim_end_matches('.');
                warn(format!("{problem}; trying again for up to {}", format_duration(timeout)));
            }
            std::thread::sleep(self.pause.min(timeout));
        }
    }

    fn request_once(&self, method: &Method, path: &str, body: Option<&Value>) -> Result<Value, IronicError> {
        let request = format!("{method} {}", path.split('?').next().unwrap_or(path));
        let answer = self.send(method, path, body)?;
        if (200..300).contains(&answer.status) {
            return answer.parse_json(&request);
        }
        let reason = reason(&answer.body);
        Err(match answer.status {
            401 => IronicError::Unauthorized { address: wire::address(&self.base_url), reason },
            status => IronicError::Refused { request, status, reason },
        })
    }

    /// Sends a request, and again with a new token if the old one has expired.
    fn send(&self, method: &Method, path: &str, body: Option<&Value>) -> Result<HttpAnswer, IronicError> {
        let answer = self.send_once(method, path, body)?;
        let Auth::Keystone(keystone) = &self.access.auth else { return Ok(answer) };
        if answer.status != 401 {
            return Ok(answer);
        }
        // The server checks the token before anything else, so the request is safe to repeat.
        let token = keystone::request_token(&self.http, keystone, Some(&self.base_url))?;
        *self.token.lock() = Some(token.text);
        self.send_once(method, path, body)
    }

    fn send_once(
        &self,
        method: &Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<HttpAnswer, IronicError> {
        let version = self.version.to_string();
        let authorization = match &self.access.auth {
            Auth::None => None,
            Auth::Basic { user, password } => {
                Some(("Authorization", basic_authorization(user, password.expose())))
            }
            Auth::Keystone(_) => {
                let token = self.token.lock().clone();
                token.map(|token| ("X-Auth-Token", token))
            }
        };
        let mut headers = Vec::new();
        // The request for the supported versions does not name one itself.
        if path != "/v1/" {
            headers.push((VERSION_HEADER, version.as_str()));
        }
        headers.extend(authorization.as_ref().map(|(name, value)| (*name, value.as_str())));
        wire::exchange(&self.http, method, &format!("{}{path}", self.base_url), &headers, body)
    }
}

#[cfg(test)]
#[path = "../../tests/it/support/http.rs"]
mod http;

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
