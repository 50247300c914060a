//! Makes the requests of `object_store` with the HTTP client of the rest of the program, and therefore with
//! its proxies and TLS settings.

use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use axum::body::{Body, to_bytes};
use axum::http::header::IF_MATCH;
use axum::http::{HeaderName, HeaderValue, Method, StatusCode};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody,
    HttpService,
};
use object_store::{ClientOptions, UpdateVersion};
use parking_lot::Mutex;

use super::address::Service;
use artifact::InterruptCheck;
use base::Result as BaseResult;
use net::plain_errors::http_problem;

/// The maximum size of a body, in bytes. A state is some KiB, and the answer of a CPI has its own limit.
const MAX_BODY_BYTES: usize = 64 << 20;

/// The time of an answer by the server's clock, which also dates the objects.
#[derive(Debug, Clone, Copy)]
pub(super) struct ServerTime(pub(super) SystemTime);

tokio::task_local! {
    /// The condition for deletions in the current task. The library has no argument for it.
    static CONDITION: Option<(HeaderName, HeaderValue)>;

    /// The time at which the requests of the current task must have ended.
    static DEADLINE: Instant;
}

/// Runs requests, each of which ends at the deadline.
pub(super) async fn run_until<T>(deadline: Instant, requests: impl Future<Output = T>) -> T {
    DEADLINE.scope(deadline, requests).await
}

/// Runs `deletes` on condition that the object is still this version. Azure deletes without a condition,
/// because its signatures cover the header.
pub(super) async fn run_on_condition<T>(
    service: Service,
    version: &UpdateVersion,
    deletes: impl Future<Output = T>,
) -> T {
    let condition = match service {
        Service::S3 => version.e_tag.as_ref().map(|tag| (IF_MATCH, tag)),
        Service::Gcs => {
            let name = HeaderName::from_static("x-goog-if-generation-match");
            version.version.as_ref().map(|generation| (name, generation))
        }
        Service::Azure => None,
    };
    let condition = condition.and_then(|(name, value)| Some((name, value.parse().ok()?)));
    CONDITION.scope(condition, deletes).await
}

/// The timeout of a request that cleans up after a signal.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(3);

/// The phase of a run that decides what a signal does to requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SignalPhase {
    /// The run has written nothing but the lock. A signal ends requests.
    Reading,
    /// The run records what it did. Requests continue to their end or their timeout.
    Writing,
    /// The run ends after a signal. Requests have a short timeout.
    CleaningUp,
}

thread_local! {
    /// True on a thread whose requests continue after a signal, because they keep the lease.
    static KEEPS_LEASE: Cell<bool> = const { Cell::new(false) };
}

/// The reaction of requests to a signal.
#[derive(Clone)]
pub(super) struct Interruption {
    interrupt_check: InterruptCheck,
    phase: Arc<Mutex<SignalPhase>>,
}

impl fmt::Debug for Interruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Interruption").field(&*self.phase.lock()).finish()
    }
}

impl Interruption {
    pub(super) fn new(interrupt_check: InterruptCheck) -> Self {
        Interruption { interrupt_check, phase: Arc::new(Mutex::new(SignalPhase::Reading)) }
    }

    /// Excludes the requests of this thread, which keeps the lease.
    pub(super) fn exclude_this_thread() {
        KEEPS_LEASE.set(true);
    }

    /// Begins the phase in which a signal does not end requests.
    pub(super) fn begin_writing(&self) {
        *self.phase.lock() = SignalPhase::Writing;
    }

    /// Begins the last phase if a signal ends the run.
    pub(super) fn begin_cleaning_up(&self) {
        let mut phase = self.phase.lock();
        if *phase == SignalPhase::Reading && (self.interrupt_check)().is_err() {
            *phase = SignalPhase::CleaningUp;
        }
    }

    /// Fails if a signal arrived that ends the requests of this thread.
    pub(super) fn check(&self) -> BaseResult<()> {
        match *self.phase.lock() {
            SignalPhase::Reading if !KEEPS_LEASE.get() => (self.interrupt_check)(),
            _ => Ok(()),
        }
    }

    /// Returns the timeout of a request if it is shorter than the usual one.
    fn short_timeout(&self) -> Option<Duration> {
        (*self.phase.lock() == SignalPhase::CleaningUp).then_some(CLEANUP_TIMEOUT)
    }

    /// Returns true if a failed request is not sent again.
    pub(super) fn is_last_attempt(&self) -> bool {
        self.check().is_err() || self.short_timeout().is_some()
    }
}

/// Sends the requests of `object_store` with this client.
#[derive(Debug, Clone)]
pub(super) struct RequestSender {
    pub(super) client: ureq::Agent,
    pub(super) interruption: Interruption,
}

impl HttpConnector for RequestSender {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

impl HttpService for RequestSender {
    // Written as `async_trait` expands an `async fn`. The function may block, because the caller does nothing
    // else meanwhile.
    fn call<'s, 'f>(
        &'s self,
        request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'f>>
    where
        's: 'f,
        Self: 'f,
    {
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let condition = CONDITION.try_with(Clone::clone).ok().flatten();
            let condition = condition.filter(|_| parts.method == Method::DELETE);
            let body = to_bytes(Body::new(body), MAX_BODY_BYTES)
                .await
                .map_err(|error| HttpError::new(HttpErrorKind::Decode, error))?;
            if let Some((name, value)) = condition {
                let mut parts = parts.clone();
                parts.headers.insert(name, value);
                let response = self.make(parts, &body).map_err(|error| self.request_error(error))?;
                // Some servers do not support conditional deletion, and return this status.
                if response.status() != StatusCode::NOT_IMPLEMENTED {
                    return Ok(response);
                }
            }
            self.make(parts, &body).map_err(|error| self.request_error(error))
        })
    }
}

impl RequestSender {
    fn make(&self, parts: ureq::http::request::Parts, body: &[u8]) -> Result<HttpResponse, ureq::Error> {
        let request_line = format!("{} {}", parts.method, parts.uri.path());
        let response = match body {
            [] if !matches!(parts.method.as_str(), "PUT" | "POST") => self.send(parts, ()),
            body => self.send(parts, body),
        }?;
        tracing::debug!(status = response.status().as_u16(), "{request_line}");
        let (mut parts, mut body) = response.into_parts();
        let date = parts.headers.get("date").and_then(|date| date.to_str().ok()).and_then(http_date);
        if let Some(date) = date {
            parts.extensions.insert(ServerTime(date));
        }
        let body = body.with_config().limit(MAX_BODY_BYTES as u64).read_to_vec()?;
        Ok(HttpResponse::from_parts(parts, HttpResponseBody::from(body)))
    }

    fn send(
        &self,
        parts: ureq::http::request::Parts,
        body: impl ureq::AsSendBody,
    ) -> Result<ureq::http::Response<ureq::Body>, ureq::Error> {
        let mut request = ureq::http::Request::from_parts(parts, body);
        let time_left = DEADLINE.try_with(|deadline| deadline.saturating_duration_since(Instant::now())).ok();
        if let Some(timeout) = self.interruption.short_timeout().into_iter().chain(time_left).min() {
            request = self.client.configure_request(request).timeout_global(Some(timeout)).build();
        }
        self.client.run(request)
    }

    /// Returns the error for the library, which sends some requests again.
    fn request_error(&self, error: ureq::Error) -> HttpError {
        let kind =
            if self.interruption.is_last_attempt() { HttpErrorKind::Unknown } else { error_kind(&error) };
        HttpError::new(kind, std::io::Error::other(http_problem(&error)))
    }
}

fn error_kind(error: &ureq::Error) -> HttpErrorKind {
    match error {
        ureq::Error::Timeout(_) => HttpErrorKind::Timeout,
        ureq::Error::HostNotFound | ureq::Error::ConnectionFailed => HttpErrorKind::Connect,
        ureq::Error::Io(source) => match source.kind() {
            std::io::ErrorKind::ConnectionRefused | std::io::ErrorKind::NotFound => HttpErrorKind::Connect,
            std::io::ErrorKind::TimedOut => HttpErrorKind::Timeout,
            _ => HttpErrorKind::Interrupted,
        },
        _ => HttpErrorKind::Unknown,
    }
}

/// Parses `Sun, 06 Nov 1994 08:49:37 GMT`, the only form that servers send (RFC 9110, 5.6.7).
fn http_date(text: &str) -> Option<SystemTime> {
    use time::macros::format_description;

    let form = format_description!(
        "[weekday repr:short], [day] [month repr:short] [year] [hour]:[minute]:[second] GMT"
    );
    time::PrimitiveDateTime::parse(text, form).ok().map(|date| date.assume_utc().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn parses_the_date_header() {
        let date = http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        assert_eq!(date, SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777));
        assert_eq!(http_date("yesterday"), None);
    }
}
