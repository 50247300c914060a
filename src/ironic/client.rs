//! A connection to Ironic: who asks, in which version, and again where that helps.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use ureq::http::Method;

use super::access::{Access, Auth};
use super::error::{IronicError, Refusal, reason};
use super::keystone;
use super::version::{HEADER, Microversion, NEWEST};
use super::wire::{self, Answer};
use base::encoding::basic_authorization;

/// How long a node that another request has locked is waited for. Ironic itself waits about two seconds each time.
const LOCK_PATIENCE: Duration = Duration::from_secs(60);
const LOCK_PAUSE: Duration = Duration::from_secs(1);
/// How long after a server's failure it is asked again.
const OUTAGE_PAUSE: Duration = Duration::from_secs(1);

/// A client of one Ironic.
pub struct Client {
    http: ureq::Agent,
    access: Access,
    base: String,
    version: Microversion,
    token: Mutex<Option<String>>,
    lock_patience: Duration,
    outage_patience: Duration,
}

impl Client {
    /// Authenticates, and agrees on a version of the API.
    pub fn connect(access: Access) -> Result<Self, IronicError> {
        let http = wire::agent(&access);
        let (base, token) = match &access.auth {
            Auth::Keystone(keystone) => {
                let token = keystone::token(&http, keystone, access.endpoint.as_deref())?;
                (token.endpoint, Some(token.text))
            }
            // Without Keystone there always is an endpoint.
            Auth::None | Auth::Basic { .. } => (access.endpoint.clone().unwrap_or_default(), None),
        };
        let token = Mutex::new(token);
        let mut client = Client {
            http,
            access,
            base,
            version: NEWEST,
            token,
            lock_patience: LOCK_PATIENCE,
            outage_patience: Duration::ZERO,
        };
        client.version = client.negotiate()?;
        tracing::debug!(address = client.base, version = %client.version, "Ironic answers");
        Ok(client)
    }

    /// Waits at most so long for a node that is locked, instead of a minute.
    #[must_use]
    pub fn lock_patience(mut self, patience: Duration) -> Self {
        self.lock_patience = patience;
        self
    }

    /// Waits so long for a server that fails or is not there, instead of not at all: what only looks is asked again, and
    /// so is what was turned away unseen (503). Whether anything else was done is not known, and for the caller to find
    /// out.
    pub fn set_outage_patience(&mut self, patience: Duration) {
        self.outage_patience = patience;
    }

    /// The version of the API in use.
    pub fn version(&self) -> Microversion {
        self.version
    }

    /// Fails when the version in use does not have `what` (a plural).
    pub fn require(&self, needed: Microversion, what: &'static str) -> Result<(), IronicError> {
        if self.version >= needed {
            return Ok(());
        }
        let address = wire::address(&self.base);
        Err(IronicError::TooOld { what, needed, used: self.version, address })
    }

    /// The version to use: the one asked for, or the newest that both sides know.
    fn negotiate(&self) -> Result<Microversion, IronicError> {
        let request = "GET /v1/";
        let answer = self.send(&Method::GET, "/v1/", None)?;
        if answer.status != 200 {
            let reason = reason(answer.status, &answer.body);
            return Err(IronicError::Refused { request: request.into(), status: answer.status, reason });
        }
        let header = |which: &str| {
            let name = format!("X-OpenStack-Ironic-API-{which}-Version");
            answer.header(&name).and_then(|text| text.parse::<Microversion>().ok())
        };
        let (Some(lowest), Some(highest)) = (header("Minimum"), header("Maximum")) else {
            let problem = "it does not say which versions are served; is this Ironic?".to_owned();
            return Err(IronicError::Protocol { request: request.into(), problem });
        };
        let asked = self.access.version.unwrap_or(highest.min(NEWEST));
        if (lowest..=highest).contains(&asked) {
            return Ok(asked);
        }
        Err(IronicError::NotServed { asked, lowest, highest, address: wire::address(&self.base) })
    }

    /// One request, repeated while the node is locked or, where that is safe, the server fails; and once with a new token
    /// if the old one has expired.
    pub(super) fn call(
        &self,
        method: &Method,
        path: &str,
        body: Option<&Value>,
        (needed, what): (Microversion, &'static str),
    ) -> Result<Value, IronicError> {
        self.require(needed, what)?;
        let begun = Instant::now();
        loop {
            tracing::debug!(%method, path, "asking Ironic");
            let error = match self.attempt(method, path, body) {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let unseen = matches!(error, IronicError::Refused { status: 503, .. });
            let (patience, pause) = match error.refusal() {
                Some(Refusal::Locked) => (self.lock_patience, LOCK_PAUSE),
                _ if error.is_transient() && (unseen || *method == Method::GET) => {
                    (self.outage_patience, OUTAGE_PAUSE)
                }
                _ => return Err(error),
            };
            if begun.elapsed() >= patience {
                return Err(error);
            }
            tracing::info!(%error, "trying again");
            std::thread::sleep(pause.min(patience));
        }
    }

    fn attempt(&self, method: &Method, path: &str, body: Option<&Value>) -> Result<Value, IronicError> {
        let named = format!("{method} {}", path.split('?').next().unwrap_or(path));
        let answer = self.send(method, path, body)?;
        if (200..300).contains(&answer.status) {
            return answer.json(&named);
        }
        let reason = reason(answer.status, &answer.body);
        Err(match answer.status {
            401 => IronicError::Unauthorized { address: wire::address(&self.base), reason },
            status => IronicError::Refused { request: named, status, reason },
        })
    }

    fn send(&self, method: &Method, path: &str, body: Option<&Value>) -> Result<Answer, IronicError> {
        let answer = self.send_once(method, path, body)?;
        let Auth::Keystone(keystone) = &self.access.auth else { return Ok(answer) };
        if answer.status != 401 {
            return Ok(answer);
        }
        // The token has expired, and the request has not been looked at.
        let token = keystone::token(&self.http, keystone, Some(&self.base))?;
        *self.token.lock().unwrap_or_else(PoisonError::into_inner) = Some(token.text);
        self.send_once(method, path, body)
    }

    fn send_once(&self, method: &Method, path: &str, body: Option<&Value>) -> Result<Answer, IronicError> {
        let version = self.version.to_string();
        let authorization = match &self.access.auth {
            Auth::None => None,
            Auth::Basic { user, password } => Some(("Authorization", basic_authorization(user, password))),
            Auth::Keystone(_) => {
                let token = self.token.lock().unwrap_or_else(PoisonError::into_inner).clone();
                token.map(|token| ("X-Auth-Token", token))
            }
        };
        let mut headers = Vec::new();
        // Which versions there are is asked without one.
        if path != "/v1/" {
            headers.push((HEADER, version.as_str()));
        }
        headers.extend(authorization.as_ref().map(|(name, value)| (*name, value.as_str())));
        wire::exchange(&self.http, method, &format!("{}{path}", self.base), &headers, body)
    }
}

#[cfg(test)]
#[path = "../../tests/it/support/http.rs"]
mod http;

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
