//! The exchange itself: one POST per message, tasks followed to their end, blobs put and got.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};

use super::answer::{parse_answer, running_task};
use super::endpoint::{Endpoint, Trust};
use super::error::AgentError;
use base::encoding::basic_authorization;
use base::timing::{Activity, Clock};

/// The largest answer to a message, in bytes.
const ANSWER_LIMIT: u64 = 16 * 1024 * 1024;
/// How long a connection may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a synchronous message may take.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(60);
/// How long the agent may think about a blob that it has.
const DIGEST_TIMEOUT: Duration = Duration::from_secs(600);
/// How long a transfer may stand still.
const STALL_TIMEOUT: Duration = Duration::from_secs(60);
/// From which size on an upload asks before it sends, in bytes.
const EXPECT_FROM: u64 = 256 * 1024;
/// The version of the protocol that directors speak. From 3 on `stop` ends when the jobs have stopped and not when
/// they were told to (`agent/action/stop.go`), so that no disk is unmounted under them.
const PROTOCOL: u32 = 3;
/// How often in a row a task may be out of sight before it is given up.
const LOST_POLLS: u32 = 10;

/// A client of one agent. Cheap to clone; clones share connections.
#[derive(Clone)]
pub struct Agent {
    http: ureq::Agent,
    endpoint: Endpoint,
    authorization: String,
    reply_to: String,
    interrupted: Arc<dyn Fn() -> Option<u8> + Send + Sync>,
    clock: Clock,
}

/// Waiting that begins short and grows, so that what is quick is seen quickly and what is slow is left alone.
#[derive(Debug)]
pub struct Backoff {
    next: Duration,
    longest: Duration,
}

impl Backoff {
    /// Begins at 10 ms and grows by half each time, up to `longest`.
    pub fn up_to(longest: Duration) -> Self {
        Backoff { next: Duration::from_millis(10), longest }
    }

    /// Waits, and makes the next wait longer.
    pub fn wait(&mut self, clock: &Clock, activity: Activity) {
        let _spending = clock.spend(activity);
        std::thread::sleep(self.next);
        self.next = (self.next * 3 / 2).min(self.longest);
    }
}

impl Agent {
    /// A client for the agent at `endpoint`. `reply_to` is the director's UUID; `interrupted` tells whether the
    /// operator wants out, and by which signal; `clock` measures what the agent is waited for.
    pub fn new(
        endpoint: Endpoint,
        reply_to: &str,
        interrupted: Arc<dyn Fn() -> Option<u8> + Send + Sync>,
        clock: Clock,
    ) -> Self {
        let tls = TlsConfig::builder()
            .provider(TlsProvider::Rustls)
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()));
        let tls = match &endpoint.trust {
            Trust::Roots(roots) => {
                let roots: Vec<Certificate<'static>> =
                    roots.iter().map(|der| Certificate::from_der(der.as_ref()).to_owned()).collect();
                tls.root_certs(RootCerts::new_with_certs(&roots))
            }
            Trust::Anybody => tls.disable_verification(true),
        }
        .build();
        let http = ureq::Agent::config_builder()
            .tls_config(tls)
            // The agent is reached directly: proxies of the environment are for downloads.
            .proxy(None)
            .http_status_as_error(false)
            .max_redirects(0)
            .no_delay(true)
            .timeout_connect(Some(CONNECT_TIMEOUT))
            // The TLS handshake is part of sending the first request.
            .timeout_send_request(Some(CONNECT_TIMEOUT))
            .timeout_per_write(Some(STALL_TIMEOUT))
            // A busy agent may take a moment to say that it wants the body, or that it refuses it.
            .timeout_await_100(Some(CONNECT_TIMEOUT))
            .timeout_recv_response(Some(MESSAGE_TIMEOUT))
            .build()
            .new_agent();
        let authorization = basic_authorization(&endpoint.user, endpoint.password.expose());
        Agent { http, endpoint, authorization, reply_to: reply_to.to_owned(), interrupted, clock }
    }

    /// Scheme, host and port of the agent.
    pub fn address(&self) -> &str {
        self.endpoint.address()
    }

    /// Sends a message and returns its value; the value of a long action is its task.
    pub fn send(&self, method: &str, arguments: Value) -> Result<Value, AgentError> {
        let message = json!({
            "method": method,
            "arguments": arguments,
            "reply_to": self.reply_to,
            "protocol": PROTOCOL,
        });
        tracing::debug!(method, "asking the agent");
        let _asking = self.clock.spend(Activity::Agent);
        self.clock.count(|counts| {
            counts.agent_messages += 1;
            counts.compilations += u64::from(method == "compile_package");
        });
        let response = self
            .http
            .post(format!("{}/agent", self.endpoint.base))
            .header("Authorization", &self.authorization)
            .header("Content-Type", "application/json")
            .send(message.to_string())
            .map_err(|error| self.transport(error))?;
        let protocol = |problem: String| AgentError::Protocol { method: method.to_owned(), problem };
        self.check_status(method, response.status().as_u16())?;
        let mut body = Vec::new();
        response
            .into_body()
            .into_with_config()
            .limit(ANSWER_LIMIT)
            .reader()
            .read_to_end(&mut body)
            .map_err(|error| protocol(format!("reading it failed: {error}")))?;
        parse_answer(&body, method)
    }

    /// Sends a message and, where it starts a task, follows that to its end.
    pub fn perform(&self, method: &str, arguments: Value) -> Result<Value, AgentError> {
        // Without a deadline there is always a value.
        self.perform_until(method, arguments, None).map(Option::unwrap_or_default)
    }

    /// As [`Self::perform`]; a task that is still at work at the deadline is ended, and there is no value.
    pub(super) fn perform_until(
        &self,
        method: &str,
        arguments: Value,
        deadline: Option<Instant>,
    ) -> Result<Option<Value>, AgentError> {
        let mut value = self.send(method, arguments)?;
        let mut backoff = Backoff::up_to(Duration::from_millis(500));
        let mut lost = 0;
        while let Some(task) = running_task(&value).map(str::to_owned) {
            if let Some(signal) = (self.interrupted)() {
                return Err(AgentError::Interrupted { signal });
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                if let Err(error) = self.send("cancel_task", json!([task])) {
                    tracing::info!(method, %error, "the task cannot be ended");
                }
                return Ok(None);
            }
            backoff.wait(&self.clock, Activity::AgentTask);
            match self.send("get_task", json!([task])) {
                Ok(next) => {
                    value = next;
                    lost = 0;
                }
                Err(AgentError::Exception { message, .. }) => {
                    return Err(AgentError::Exception { method: method.to_owned(), message });
                }
                Err(error) if error.may_pass() && lost < LOST_POLLS => lost += 1,
                Err(error) => return Err(error),
            }
        }
        Ok(Some(value))
    }

    /// Waits until the agent answers `ping`, for at most `patience`. `on_problem` hears why it does not yet,
    /// whenever that changes.
    pub fn wait_until_ready(
        &self,
        patience: Duration,
        on_problem: &mut dyn FnMut(String),
    ) -> Result<(), AgentError> {
        let begun = Instant::now();
        let mut backoff = Backoff::up_to(Duration::from_millis(500));
        let mut told = String::new();
        loop {
            match self.send("ping", json!([])) {
                Ok(_) => return Ok(()),
                Err(error) if error.may_pass() && begun.elapsed() < patience => {
                    if let Some(signal) = (self.interrupted)() {
                        return Err(AgentError::Interrupted { signal });
                    }
                    let problem = error.to_string();
                    if problem != told {
                        on_problem(problem.clone());
                        told = problem;
                    }
                    backoff.wait(&self.clock, Activity::Waiting);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Uploads a file under this id; `on_bytes` hears how much of it has been read.
    pub fn put_blob(&self, id: &str, path: &Path, on_bytes: &mut dyn FnMut(u64)) -> Result<(), AgentError> {
        let local =
            |source| AgentError::Local { what: format!("reading '{}' failed", path.display()), source };
        let file = File::open(path).map_err(local)?;
        let length = file.metadata().map_err(local)?.len();
        let mut reader = Counted { inner: file, done: 0, on_bytes };
        let sending = self.clock.spend(Activity::Agent);
        let mut request = self
            .http
            .put(self.blob_url(id))
            .config()
            .timeout_recv_response(Some(DIGEST_TIMEOUT))
            .build()
            .header("Authorization", &self.authorization)
            .header("Content-Length", length.to_string());
        if length > EXPECT_FROM {
            // An agent that refuses says so before the body is sent, while there is somebody to listen.
            request = request.header("Expect", "100-continue");
        }
        let outcome = request
            .send(ureq::SendBody::from_reader(&mut reader))
            .map_err(|error| self.transport(error))
            .and_then(|response| self.check_status("put blob", response.status().as_u16()));
        drop(sending);
        match outcome {
            Ok(()) => {
                self.clock.count(|counts| counts.bytes_sent += length);
                Ok(())
            }
            // Whoever hangs up in the middle of an upload may still be there and have a reason.
            Err(AgentError::Unreachable { problem, .. }) => match self.send("ping", json!([])) {
                Ok(_) => Err(AgentError::Protocol {
                    method: "put blob".to_owned(),
                    problem: format!("it broke off the upload of {length} bytes: {problem}"),
                }),
                Err(error) => Err(error),
            },
            Err(error) => Err(error),
        }
    }

    /// Downloads a blob into a writer; returns its size in bytes.
    pub fn get_blob(&self, id: &str, into: &mut dyn io::Write) -> Result<u64, AgentError> {
        let _receiving = self.clock.spend(Activity::Agent);
        let response = self
            .http
            .get(self.blob_url(id))
            .config()
            .timeout_per_read(Some(STALL_TIMEOUT))
            .build()
            .header("Authorization", &self.authorization)
            .call()
            .map_err(|error| self.transport(error))?;
        self.check_status("get blob", response.status().as_u16())?;
        let mut body = response.into_body().into_with_config().limit(u64::MAX).reader();
        let length = io::copy(&mut body, into)
            .map_err(|source| AgentError::Local { what: "receiving a blob failed".to_owned(), source })?;
        self.clock.count(|counts| counts.bytes_received += length);
        Ok(length)
    }

    /// Sleeps, unless the operator wants out.
    pub(super) fn pause(&self, duration: Duration) -> Result<(), AgentError> {
        let end = Instant::now() + duration;
        while let Some(left) = end.checked_duration_since(Instant::now()) {
            if let Some(signal) = (self.interrupted)() {
                return Err(AgentError::Interrupted { signal });
            }
            self.clock.sleep(left.min(Duration::from_millis(100)));
        }
        Ok(())
    }

    fn blob_url(&self, id: &str) -> String {
        format!("{}/blobs/{id}", self.endpoint.base)
    }

    fn check_status(&self, method: &str, status: u16) -> Result<(), AgentError> {
        match status {
            200..=299 => Ok(()),
            401 => Err(AgentError::Unauthorized { address: self.endpoint.base.clone() }),
            status => Err(AgentError::Protocol {
                method: method.to_owned(),
                problem: format!("HTTP status {status}"),
            }),
        }
    }

    fn transport(&self, error: ureq::Error) -> AgentError {
        let address = self.endpoint.base.clone();
        match error {
            ureq::Error::Rustls(problem) => AgentError::Untrusted { address, problem: problem.to_string() },
            ureq::Error::Tls(problem) => AgentError::Untrusted { address, problem: problem.to_owned() },
            ureq::Error::HostNotFound => self.unresolvable(None),
            ureq::Error::Io(source) => match rustls_cause(&source) {
                Some(problem) => AgentError::Untrusted { address, problem },
                None if !self.endpoint.resolves() => self.unresolvable(Some(source)),
                None => AgentError::Unreachable { address, problem: format!("TCP: {source}") },
            },
            ureq::Error::Timeout(ureq::Timeout::Connect) => {
                AgentError::Unreachable { address, problem: "TCP: no connection in time".to_owned() }
            }
            ureq::Error::Timeout(_) => AgentError::Unreachable {
                address,
                problem: "it took the connection, but did not answer in time".to_owned(),
            },
            other => AgentError::Unreachable { address, problem: other.to_string() },
        }
    }

    fn unresolvable(&self, source: Option<io::Error>) -> AgentError {
        let problem = source.map(|source| format!(": {source}")).unwrap_or_default();
        AgentError::Unresolvable { address: self.endpoint.base.clone(), problem }
    }
}

/// rustls reports a failed handshake through `io::Error`.
fn rustls_cause(error: &io::Error) -> Option<String> {
    error.get_ref()?.downcast_ref::<rustls::Error>().map(ToString::to_string)
}

struct Counted<'a> {
    inner: File,
    done: u64,
    on_bytes: &'a mut dyn FnMut(u64),
}

impl Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.done += read as u64;
        (self.on_bytes)(self.done);
        Ok(read)
    }
}
