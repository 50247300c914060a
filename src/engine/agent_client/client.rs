//! Requests to the agent: a POST per message, polling of tasks, upload and download of blobs.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};

use super::answer::{parse_answer, running_task};
use super::endpoint::{AgentEndpoint, ServerTrust};
use super::error::{AgentError, UntrustedCause};
use artifact::{AgentProxy, ProxyFailure};
use base::encoding::basic_authorization;
use base::error::os_problem;
use base::signals::SignalCheck;
use base::text::format_duration;
use base::timing::{Activity, Clock};
use net::http_client::{self, UnresolvedHost};
use net::known_certificate;
use net::plain_errors;

/// The maximum size of an answer to a message, in bytes.
pub const MAX_ANSWER_BYTES: u64 = 16 * 1024 * 1024;

/// The timeouts of requests to an agent.
#[derive(Debug, Clone, Copy)]
pub struct AgentTimeouts {
    /// The timeout for name resolution, TCP and TLS. Requests to a booting VM are retried.
    pub connect: Duration,
    /// The timeout for a JSON message, from the connection to the last byte of the answer. Agents answer at
    /// once, and run long actions as tasks.
    pub message: Duration,
    /// The timeout for the answer after the last byte of an upload. The agent first computes the digest of a
    /// blob that may be large.
    pub digest: Duration,
    /// The timeout for a pause in the transfer of a blob. A slow transfer has no limit.
    pub stall: Duration,
    /// The timeout for a message that cleans up after a signal. It is short, because the operator waits for
    /// the end of the run.
    pub cleanup: Duration,
    /// The timeout for a message that looks for a VM that is not on record. Usually none exists.
    pub search: Duration,
}

/// The timeouts of every run.
pub const AGENT_TIMEOUTS: AgentTimeouts = AgentTimeouts {
    connect: Duration::from_secs(5),
    message: Duration::from_secs(60),
    digest: Duration::from_secs(600),
    stall: Duration::from_secs(60),
    cleanup: Duration::from_secs(1),
    search: Duration::from_secs(3),
};
/// The minimum size of an upload that sends `Expect: 100-continue`, in bytes.
const MIN_EXPECT_BYTES: u64 = 256 * 1024;
/// The protocol version, as in the director's requests. From version 3 on, `stop` returns only after the jobs
/// have stopped (`agent/action/stop.go`), so no disk in use is unmounted.
const PROTOCOL_VERSION: u32 = 3;
/// The number of consecutive failed polls after which a task is given up.
const MAX_FAILED_POLLS: u32 = 10;

/// A client of one agent. Cheap to clone; clones share connections.
#[derive(Clone)]
pub struct Agent {
    endpoint: AgentEndpoint,
    /// One HTTP client per set of credentials: the current ones, then those from before rotations.
    clients: Arc<[AuthenticatedClient]>,
    /// The index of the client whose credentials the agent accepted last.
    current_index: Arc<AtomicUsize>,
    /// The UUID of the director, which every message names as the receiver of its answer.
    reply_to: String,
    signal_check: SignalCheck,
    clock: Clock,
    timeouts: AgentTimeouts,
}

/// An HTTP client with one set of the agent's credentials.
struct AuthenticatedClient {
    http: ureq::Agent,
    /// The value of the header `Authorization`.
    authorization: String,
}

/// Growing pauses between requests, so that a quick end is noticed early and a slow agent is not asked too
/// often.
#[derive(Debug)]
pub struct Backoff {
    next_pause: Duration,
    max_pause: Duration,
}

impl Backoff {
    /// Creates pauses that start at 1 ms and grow by half each time, up to `max_pause`.
    pub fn up_to(max_pause: Duration) -> Self {
        Backoff { next_pause: Duration::from_millis(1), max_pause }
    }

    /// Pauses, and makes the next pause longer.
    pub fn pause(&mut self, clock: &Clock, activity: Activity) {
        let _timer = clock.measure(activity);
        std::thread::sleep(self.next_pause);
        self.next_pause = (self.next_pause * 3 / 2).min(self.max_pause);
    }
}

impl AuthenticatedClient {
    /// Creates a client with the agent's credentials. It follows no redirects, and uses the agent's own proxy
    /// but no HTTP proxy of the environment.
    fn new(
        endpoint: &AgentEndpoint,
        proxy: Option<&AgentProxy>,
        signal_check: &SignalCheck,
        timeouts: AgentTimeouts,
    ) -> Self {
        let tls = TlsConfig::builder()
            .provider(TlsProvider::Rustls)
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()));
        let tls = match &endpoint.trust {
            ServerTrust::Roots(roots) => {
                let roots: Vec<Certificate<'static>> =
                    roots.iter().map(|der| Certificate::from_der(der.as_ref()).to_owned()).collect();
                tls.root_certs(RootCerts::new_with_certs(&roots))
            }
            ServerTrust::AnyServer => tls.disable_verification(true),
        }
        .build();
        let config = ureq::Agent::config_builder()
            .tls_config(tls)
            // HTTP proxies are only for downloads.
            .proxy(None)
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_connect(Some(timeouts.connect))
            .timeout_global(Some(timeouts.message))
            .build();
        let tls = tls_for_known_certificates(endpoint);
        let http = match proxy {
            Some(proxy) => proxy.create_http_client(config, tls),
            None => http_client::create_client(config, tls, Arc::clone(signal_check)),
        };
        let authorization = basic_authorization(&endpoint.user, endpoint.password.expose());
        AuthenticatedClient { http, authorization }
    }
}

impl Agent {
    /// Creates a client for the agent at `endpoint`. `reply_to` is the director's UUID, `signal_check`
    /// returns the signal that ends the run, and `clock` measures the waits for the agent.
    pub fn new(endpoint: AgentEndpoint, reply_to: &str, signal_check: SignalCheck, clock: Clock) -> Self {
        Self::with_timeouts(endpoint, reply_to, signal_check, clock, AGENT_TIMEOUTS)
    }

    /// Like [`Self::new`], with other timeouts.
    pub(super) fn with_timeouts(
        endpoint: AgentEndpoint,
        reply_to: &str,
        signal_check: SignalCheck,
        clock: Clock,
        timeouts: AgentTimeouts,
    ) -> Self {
        let endpoints = std::iter::once(&endpoint).chain(&endpoint.previous_endpoints);
        let proxy = endpoint.proxy.as_ref();
        let clients = endpoints
            .map(|endpoint| AuthenticatedClient::new(endpoint, proxy, &signal_check, timeouts))
            .collect();
        let (reply_to, current_index) = (reply_to.to_owned(), Arc::default());
        Agent { endpoint, clients, current_index, reply_to, signal_check, clock, timeouts }
    }

    /// Returns the scheme, host and port of the agent.
    pub fn address(&self) -> &str {
        self.endpoint.address()
    }

    /// Sends a message and returns its value. A long action returns its task.
    pub fn send(&self, method: &str, arguments: Value) -> Result<Value, AgentError> {
        self.send_within(self.timeouts.message, method, arguments)
    }

    /// Like [`Self::send`], with another timeout. If the agent rejects the credentials, or this client
    /// rejects its certificate, tries the credentials and CAs from before a rotation.
    fn send_within(&self, timeout: Duration, method: &str, arguments: Value) -> Result<Value, AgentError> {
        let last_index = self.current_index.load(Ordering::SeqCst);
        let mut errors = Vec::new();
        for index in
            std::iter::once(last_index).chain((0..self.clients.len()).filter(|index| *index != last_index))
        {
            match self.send_with(&self.clients[index], timeout, method, &arguments) {
                Err(error) if error.may_need_other_credentials() => errors.push((index, error)),
                outcome => {
                    self.current_index.store(index, Ordering::SeqCst);
                    return outcome;
                }
            }
        }
        // The operator needs the error for the current credentials.
        errors.sort_by_key(|(index, _)| *index);
        Err(errors.swap_remove(0).1)
    }

    /// Returns the client whose credentials the agent accepted last.
    fn current_client(&self) -> &AuthenticatedClient {
        &self.clients[self.current_index.load(Ordering::SeqCst)]
    }

    /// Sends one message and reads the answer. An exception of the agent becomes an error, as do answers in
    /// another form.
    fn send_with(
        &self,
        client: &AuthenticatedClient,
        timeout: Duration,
        method: &str,
        arguments: &Value,
    ) -> Result<Value, AgentError> {
        let message = json!({
            "method": method,
            "arguments": arguments,
            "reply_to": self.reply_to,
            "protocol": PROTOCOL_VERSION,
        });
        tracing::debug!(method, "asking the agent");
        let _timer = self.clock.measure(Activity::Agent);
        self.clock.count(|counts| {
            counts.agent_messages += 1;
            counts.compilations += u64::from(method == "compile_package");
        });
        let mut request = client.http.post(format!("{}/agent", self.endpoint.address));
        // Requests with the settings of the client share its TLS settings; one with its own makes new ones.
        if timeout < self.timeouts.message {
            request = request.config().timeout_global(Some(timeout)).build();
        }
        let response = request
            .header("Authorization", &client.authorization)
            .header("Content-Type", "application/json")
            .send(message.to_string())
            .map_err(|error| self.request_error(method, timeout, error))?;
        self.check_status(method, response.status().as_u16())?;
        let mut body = Vec::new();
        let mut reader = response.into_body().into_with_config().limit(MAX_ANSWER_BYTES).reader();
        reader.read_to_end(&mut body).map_err(|error| {
            self.early_end_error(method, timeout, error, |error| AgentError::Protocol {
                method: method.to_owned(),
                problem: format!("reading it failed: {error}"),
            })
        })?;
        parse_answer(&body, method)
    }

    /// Sends a message. If it starts a task, waits for the end of the task.
    pub fn perform(&self, method: &str, arguments: Value) -> Result<Value, AgentError> {
        // Without a deadline there is always a value.
        self.perform_until(method, arguments, None).map(Option::unwrap_or_default)
    }

    /// Like [`Self::perform`], for cleaning up. After a signal, tries once more with the timeout `cleanup`.
    pub(super) fn clean_up(&self, method: &str, arguments: Value) -> Result<(), AgentError> {
        match self.perform(method, arguments.clone()) {
            Err(AgentError::Interrupted { .. }) => {
                let AgentTimeouts { cleanup, .. } = self.timeouts;
                let timeouts = AgentTimeouts { connect: cleanup, message: cleanup, ..self.timeouts };
                let (endpoint, clock) = (self.endpoint.clone(), self.clock.clone());
                let agent = Self::with_timeouts(endpoint, &self.reply_to, Arc::new(|| None), clock, timeouts);
                agent.perform_until(method, arguments, Some(Instant::now() + cleanup)).map(drop)
            }
            outcome => outcome.map(drop),
        }
    }

    /// Like [`Self::perform`], until a deadline. Cancels a task that still runs then, and returns `None`.
    pub(super) fn perform_until(
        &self,
        method: &str,
        arguments: Value,
        deadline: Option<Instant>,
    ) -> Result<Option<Value>, AgentError> {
        let value = self.send(method, arguments)?;
        self.follow(method, value, deadline)
    }

    /// Waits for the end of the task that a message started, like [`Self::perform_until`]. `value` is the
    /// answer to the message.
    pub(super) fn follow(
        &self,
        method: &str,
        value: Value,
        deadline: Option<Instant>,
    ) -> Result<Option<Value>, AgentError> {
        self.follow_with(method, value, deadline, &mut || {})
    }

    /// Like [`Self::follow`]. Calls `on_wait` before each question for the end of the task.
    pub(super) fn follow_with(
        &self,
        method: &str,
        mut value: Value,
        deadline: Option<Instant>,
        on_wait: &mut dyn FnMut(),
    ) -> Result<Option<Value>, AgentError> {
        let mut backoff = Backoff::up_to(Duration::from_millis(500));
        let mut failed_polls = 0;
        let mut last_answer_at = Instant::now();
        while let Some(task) = running_task(&value).map(str::to_owned) {
            if let Some(signal) = (self.signal_check)() {
                return Err(AgentError::interruption(signal));
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                if let Err(error) = self.send("cancel_task", json!([task])) {
                    tracing::info!(method, %error, "cancelling the agent's task failed");
                }
                return Ok(None);
            }
            on_wait();
            backoff.pause(&self.clock, Activity::AgentTask);
            match self.send("get_task", json!([task])) {
                Ok(next) => {
                    value = next;
                    failed_polls = 0;
                    last_answer_at = Instant::now();
                }
                Err(AgentError::Exception { message, .. }) => {
                    return Err(AgentError::Exception { method: method.to_owned(), message });
                }
                // An agent that did not answer a message within its timeout is not asked again.
                Err(error)
                    if error.is_transient()
                        && failed_polls < MAX_FAILED_POLLS
                        && last_answer_at.elapsed() < self.timeouts.message =>
                {
                    failed_polls += 1;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Some(value))
    }

    /// Waits until the agent answers `ping`, for at most `timeout`. Calls `on_problem` with each new reason
    /// for its silence.
    pub fn wait_until_ready(
        &self,
        timeout: Duration,
        on_problem: &mut dyn FnMut(String),
    ) -> Result<(), AgentError> {
        let start = Instant::now();
        let mut backoff = Backoff::up_to(Duration::from_millis(500));
        let mut last_problem = String::new();
        loop {
            // Even with a timeout of 0, leave time to connect and to answer.
            let remaining = timeout.saturating_sub(start.elapsed()).max(self.timeouts.connect * 2);
            match self.send_within(remaining.min(self.timeouts.message), "ping", json!([])) {
                Ok(_) => return Ok(()),
                Err(error) if error.is_transient() && start.elapsed() < timeout => {
                    if let Some(signal) = (self.signal_check)() {
                        return Err(AgentError::interruption(signal));
                    }
                    let problem = error.to_string();
                    if problem != last_problem {
                        on_problem(problem.clone());
                        last_problem = problem;
                    }
                    backoff.pause(&self.clock, Activity::Pause);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Uploads a file under the id `id`. Calls `on_bytes` with the number of bytes that were read.
    pub fn put_blob(&self, id: &str, path: &Path, on_bytes: &mut dyn FnMut(u64)) -> Result<(), AgentError> {
        let read_error =
            |source| AgentError::Local { message: format!("reading '{}' failed", path.display()), source };
        let file = File::open(path).map_err(read_error)?;
        let length = file.metadata().map_err(read_error)?.len();
        let mut reader = CountingReader { inner: file, bytes_done: 0, on_bytes };
        let timer = self.clock.measure(Activity::Agent);
        let mut request = self
            .current_client()
            .http
            .put(self.blob_url(id))
            .config()
            .timeout_global(None)
            .timeout_send_request(Some(self.timeouts.stall))
            .timeout_per_write(Some(self.timeouts.stall))
            // A busy agent may take a moment to accept or refuse the body.
            .timeout_await_100(Some(self.timeouts.connect))
            .timeout_recv_response(Some(self.timeouts.digest))
            .build()
            .header("Authorization", &self.current_client().authorization)
            .header("Content-Length", length.to_string());
        if length > MIN_EXPECT_BYTES {
            // With this header, an agent that refuses answers before the body is sent.
            request = request.header("Expect", "100-continue");
        }
        let outcome = request
            .send(ureq::SendBody::from_reader(&mut reader))
            .map_err(|error| self.request_error("put blob", self.timeouts.digest, error))
            .and_then(|response| self.check_status("put blob", response.status().as_u16()));
        drop(timer);
        match outcome {
            Ok(()) => {
                self.clock.count(|counts| counts.bytes_sent += length);
                Ok(())
            }
            // An agent that closes the connection during an upload may still answer with a reason.
            Err(AgentError::Unreachable { problem, .. }) => match self.send("ping", json!([])) {
                Ok(_) => Err(AgentError::Protocol {
                    method: "put blob".to_owned(),
                    problem: format!(
                        "the agent closed the connection during the upload of {length} bytes: {problem}"
                    ),
                }),
                Err(error) => Err(error),
            },
            Err(error) => Err(error),
        }
    }

    /// Downloads a blob into a writer, and returns its size in bytes.
    pub fn get_blob(&self, id: &str, writer: &mut dyn io::Write) -> Result<u64, AgentError> {
        let _timer = self.clock.measure(Activity::Agent);
        let response = self
            .current_client()
            .http
            .get(self.blob_url(id))
            .config()
            .timeout_global(None)
            .timeout_send_request(Some(self.timeouts.stall))
            .timeout_recv_response(Some(self.timeouts.message))
            .timeout_per_read(Some(self.timeouts.stall))
            .build()
            .header("Authorization", &self.current_client().authorization)
            .call()
            .map_err(|error| self.request_error("get blob", self.timeouts.message, error))?;
        self.check_status("get blob", response.status().as_u16())?;
        let mut body = response.into_body().into_with_config().limit(u64::MAX).reader();
        let length = io::copy(&mut body, writer).map_err(|error| {
            self.early_end_error("get blob", self.timeouts.stall, error, |source| AgentError::Local {
                message: "downloading a blob from the agent failed".to_owned(),
                source,
            })
        })?;
        self.clock.count(|counts| counts.bytes_received += length);
        Ok(length)
    }

    /// Sleeps, unless a signal ends the run.
    pub(super) fn pause(&self, duration: Duration) -> Result<(), AgentError> {
        let end = Instant::now() + duration;
        while let Some(remaining) = end.checked_duration_since(Instant::now()) {
            if let Some(signal) = (self.signal_check)() {
                return Err(AgentError::interruption(signal));
            }
            self.clock.sleep(remaining.min(Duration::from_millis(100)));
        }
        Ok(())
    }

    fn blob_url(&self, id: &str) -> String {
        format!("{}/blobs/{id}", self.endpoint.address)
    }

    fn check_status(&self, method: &str, status: u16) -> Result<(), AgentError> {
        match status {
            200..=299 => Ok(()),
            401 => Err(AgentError::Unauthorized { address: self.endpoint.address.clone() }),
            status => Err(AgentError::Protocol {
                method: method.to_owned(),
                problem: format!("HTTP status {status}"),
            }),
        }
    }

    /// Returns the error of a request. `answer_timeout` is that for the answer.
    fn request_error(&self, method: &str, answer_timeout: Duration, error: ureq::Error) -> AgentError {
        if let Some(signal) = (self.signal_check)() {
            return AgentError::interruption(signal);
        }
        let address = self.endpoint.address.clone();
        let unreachable_error =
            |problem: String| AgentError::Unreachable { address: address.clone(), problem };
        match error {
            ureq::Error::Rustls(problem) => untrusted_error(address, &problem),
            ureq::Error::Tls(problem) => AgentError::Untrusted {
                address,
                problem: problem.to_owned(),
                cause: UntrustedCause::NoCertificate,
            },
            ureq::Error::Timeout(reason) => {
                let problem = match reason {
                    ureq::Timeout::Connect => {
                        format!("no TLS connection within {}", format_duration(self.timeouts.connect))
                    }
                    ureq::Timeout::PerRead | ureq::Timeout::PerWrite | ureq::Timeout::SendRequest => {
                        format!("no byte was transferred for {}", format_duration(self.timeouts.stall))
                    }
                    _ => format!("no complete answer within {}", format_duration(answer_timeout)),
                };
                AgentError::Stalled { address, method: method.to_owned(), problem }
            }
            ureq::Error::Io(source) => {
                if let Some(problem) = error_inside::<rustls::Error>(&source) {
                    return untrusted_error(address, problem);
                }
                if let Some(failure) = ProxyFailure::find_inside(&source) {
                    let (problem, is_permanent) = (failure.to_string(), failure.is_permanent());
                    return AgentError::ProxyFailed { address, problem, is_permanent };
                }
                if let Some(problem) = error_inside::<UnresolvedHost>(&source) {
                    return AgentError::Unresolvable { address, problem: format!(": {problem}") };
                }
                match source.kind() {
                    // An error code of the operating system means that there was a connection.
                    io::ErrorKind::TimedOut
                        if source.raw_os_error().is_none() && self.endpoint.proxy.is_none() =>
                    {
                        unreachable_error(format!(
                            "TCP: no connection within {}",
                            format_duration(self.timeouts.connect)
                        ))
                    }
                    _ => unreachable_error(format!("TCP: {}", os_problem(&source))),
                }
            }
            other => unreachable_error(other.to_string()),
        }
    }

    /// Returns the error for a body that ended early: a timeout, a signal, or the result of `other`.
    fn early_end_error(
        &self,
        method: &str,
        timeout: Duration,
        error: io::Error,
        other: impl FnOnce(io::Error) -> AgentError,
    ) -> AgentError {
        match ureq::Error::from(error) {
            error @ ureq::Error::Timeout(_) => self.request_error(method, timeout, error),
            error => match (self.signal_check)() {
                Some(signal) => AgentError::interruption(signal),
                None => other(error.into_io()),
            },
        }
    }
}

/// Returns the TLS settings for an agent whose certificate is known and may have expired.
fn tls_for_known_certificates(endpoint: &AgentEndpoint) -> Option<Arc<rustls::ClientConfig>> {
    let ServerTrust::Roots(roots) = &endpoint.trust else { return None };
    if endpoint.known_certificates.is_empty() {
        return None;
    }
    known_certificate::tls_config(roots.iter().cloned(), endpoint.known_certificates.clone())
        .inspect_err(|error| tracing::info!(%error, "an earlier certificate of the agent is ignored"))
        .ok()
}

/// Returns the error of a failed handshake.
fn untrusted_error(address: String, problem: &rustls::Error) -> AgentError {
    use rustls::CertificateError::{
        BadSignature, Expired, ExpiredContext, NotValidYet, NotValidYetContext, UnknownIssuer,
    };

    let cause = match problem {
        rustls::Error::InvalidCertificate(
            Expired | ExpiredContext { .. } | NotValidYet | NotValidYetContext { .. },
        ) => UntrustedCause::Dates,
        rustls::Error::InvalidCertificate(_) => UntrustedCause::Certificate,
        _ => UntrustedCause::NoCertificate,
    };
    let problem = match problem {
        // Only the CA of the manifest is trusted.
        rustls::Error::InvalidCertificate(UnknownIssuer | BadSignature) => {
            "its certificate is not signed by `cloud_provider.cert.ca`".to_owned()
        }
        other => plain_errors::tls_problem(other),
    };
    AgentError::Untrusted { address, problem, cause }
}

/// Returns the error of this type inside an [`io::Error`], which is how rustls reports a failed handshake.
fn error_inside<E: std::error::Error + 'static>(error: &io::Error) -> Option<&E> {
    error.get_ref()?.downcast_ref()
}

/// Reads a file, and reports the number of bytes read so far.
struct CountingReader<'a> {
    inner: File,
    bytes_done: u64,
    on_bytes: &'a mut dyn FnMut(u64),
}

impl Read for CountingReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.bytes_done += count as u64;
        (self.on_bytes)(self.bytes_done);
        Ok(count)
    }
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
