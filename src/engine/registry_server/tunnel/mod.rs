//! The reverse tunnel of contract v1: an SSH session in which the VM's sshd listens on the VM's loopback
//! interface, so that the agent there reaches the registry here.
//!
//! ```ignore
//! let tunnel = Tunnel::open(runtime, server, port, timeout, registry.serve_tunnel());
//! tunnel.wait_until_open(…)?;      // the VM boots; its host key is learned
//! tunnel.last_error();             // set if the tunnel broke since then and is not reopened
//! drop(tunnel);                    // closes it
//! ```
//!
//! While a VM boots, every kind of error occurs: no address, no listener, and a rejected login until the
//! agent has installed the key. So each kind is retried for as long as booting can explain it. Only a changed
//! host key is final at once. A tunnel that breaks is reopened.

use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use russh::ChannelStream;
use russh::client::Msg;
use tokio::runtime::Handle;
use tokio::sync::mpsc as stream_mpsc;
use tokio::task::JoinHandle;

use base::{Error, ErrorKind};
use net::ssh::{self, ForwardedConnection, SshError, SshServer};

/// The pause between two attempts.
const RETRY_PAUSE: Duration = Duration::from_millis(500);
/// The time during which a login may be rejected: the agent installs the key while the VM boots.
pub const LOGIN_RETRY_TIMEOUT: Duration = Duration::from_secs(120);
/// The time during which forwarding may be rejected: a broken session may still hold the port.
pub const FORWARDING_RETRY_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum number of connections that wait to be served.
const MAX_WAITING_CONNECTIONS: usize = 16;

/// A connection from the VM.
pub(crate) type VmConnection = ChannelStream<Msg>;

/// A tunnel that opens, and reopens after a break, until it is dropped.
pub(crate) struct Tunnel {
    events: mpsc::Receiver<TunnelEvent>,
    /// The error with which the worker gave up.
    failure: Arc<Mutex<Option<SshError>>>,
    worker: JoinHandle<()>,
}

/// A message of the worker that opens the tunnel.
enum TunnelEvent {
    /// An attempt failed, and will be repeated.
    Problem(SshError),
    /// The server showed its host key for the first time, and accepted the login.
    HostKey(String),
    Open,
    /// The worker gave up.
    Failed(SshError),
}

/// The reason why a tunnel is not open.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TunnelError {
    /// The worker gave up.
    #[error("the ssh tunnel to the VM cannot be opened")]
    Failed(#[source] SshError),
    /// This signal arrived.
    #[error("interrupted while waiting for the ssh tunnel to the VM")]
    Interrupted(u8),
    /// The host key could not be recorded.
    #[error("the ssh tunnel's host key cannot be recorded")]
    Unrecorded(#[source] Error),
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        self.worker.abort();
    }
}

impl Tunnel {
    /// Starts to open a tunnel from `port` of the VM's loopback interface to `serve`. Gives up after
    /// `timeout`. If `server` has a `host_key`, accepts no other key.
    pub(crate) fn open<F>(runtime: &Handle, server: SshServer, port: u16, timeout: Duration, serve: F) -> Self
    where
        F: Fn(VmConnection) -> JoinHandle<()> + Send + Sync + 'static,
    {
        let (sender, events) = mpsc::channel();
        let failure = Arc::new(Mutex::new(None));
        let worker = Worker {
            server,
            port,
            deadline: Instant::now() + timeout,
            events: sender,
            failure: Arc::clone(&failure),
        };
        Tunnel { events, failure, worker: runtime.spawn(worker.run(serve)) }
    }

    /// Waits until the tunnel is open. Calls `on_problem` with each new reason for the wait, and
    /// `record_host_key` with a new host key.
    pub(crate) fn wait_until_open(
        &self,
        signal_check: &dyn Fn() -> Option<u8>,
        on_problem: &mut dyn FnMut(String),
        record_host_key: &mut dyn FnMut(String) -> Result<(), Error>,
    ) -> Result<(), TunnelError> {
        let mut last_problem = String::new();
        loop {
            if let Some(signal) = signal_check() {
                return Err(TunnelError::Interrupted(signal));
            }
            match self.events.recv_timeout(Duration::from_millis(50)) {
                Ok(TunnelEvent::Open) => return Ok(()),
                Ok(TunnelEvent::HostKey(key)) => record_host_key(key).map_err(TunnelError::Unrecorded)?,
                Ok(TunnelEvent::Failed(error)) => return Err(TunnelError::Failed(error)),
                Ok(TunnelEvent::Problem(error)) => {
                    let problem = error.to_string();
                    if problem != last_problem {
                        on_problem(problem.clone());
                        last_problem = problem;
                    }
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    // The worker sets the reason before it ends.
                    let problem = "the tunnel's thread has ended".to_owned();
                    let disconnected_error = SshError::Lost { address: "the VM".to_owned(), problem };
                    return Err(TunnelError::Failed(self.last_error().unwrap_or(disconnected_error)));
                }
            }
        }
    }

    /// Returns the reason why the worker gave up, if it did.
    pub(crate) fn last_error(&self) -> Option<SshError> {
        self.failure.lock().clone()
    }
}

impl From<TunnelError> for Error {
    fn from(error: TunnelError) -> Self {
        let text = error.to_string();
        let cause = match error {
            TunnelError::Interrupted(signal) => {
                return Error::new(ErrorKind::Interrupted(signal), text);
            }
            TunnelError::Unrecorded(cause) => return cause.context(text),
            TunnelError::Failed(cause) => cause,
        };
        let hint = match &cause {
            SshError::Dns { .. } => {
                "check `cloud_provider.ssh_tunnel.host`, and the name servers of this machine"
            }
            SshError::Tcp { .. } => {
                "check that `cloud_provider.ssh_tunnel` names the VM's address and sshd's port, that the VM \
                    runs, and that no firewall is in between"
            }
            SshError::Handshake { .. } | SshError::Lost { .. } => {
                "check that the VM's sshd listens at the host and port of `cloud_provider.ssh_tunnel`; its \
                 log has details"
            }
            SshError::HostKeyChanged { .. } => {
                "another machine answers at this address, or intercepts the connection; if you rebuilt the \
                 VM on purpose, replace it: `monopile create-env MANIFEST --recreate`"
            }
            SshError::Refused { .. } => {
                "check `user` and `private_key` or `password` of `cloud_provider.ssh_tunnel`: the CPI must \
                    give the VM the matching public key"
            }
            SshError::ForwardingRefused { .. } => {
                "set `AllowTcpForwarding yes` for the VM's sshd, and check that the port of the registry is \
                 free on the VM"
            }
        };
        Error::new(ErrorKind::AgentUnreachable, text).with_source(cause).with_hint(hint)
    }
}

/// The task that opens a tunnel and keeps it open.
struct Worker {
    server: SshServer,
    /// The port of the registry on this machine.
    port: u16,
    /// The time at which the worker gives up, if the tunnel was never open.
    deadline: Instant,
    events: mpsc::Sender<TunnelEvent>,
    failure: Arc<Mutex<Option<SshError>>>,
}

/// The times since which the login or the forwarding has been rejected without interruption.
#[derive(Default)]
struct Refusals {
    login: Option<Instant>,
    forwarding: Option<Instant>,
}

impl Worker {
    async fn run<F>(mut self, serve: F)
    where
        F: Fn(VmConnection) -> JoinHandle<()> + Send + Sync + 'static,
    {
        let (forward_sender, mut connections) =
            stream_mpsc::channel::<ForwardedConnection>(MAX_WAITING_CONNECTIONS);
        self.server.forward_sender = Some(forward_sender);
        let service = async {
            while let Some(channel) = connections.recv().await {
                serve(channel.into_stream());
            }
        };
        // The sender of connections lives in `self`, so `service` cannot end first.
        tokio::select! {
            () = self.keep_open() => {}
            () = service => {}
        }
    }

    async fn keep_open(&mut self) {
        let mut refusals = Refusals::default();
        let mut was_opened = false;
        loop {
            let error = match self.attempt(&mut was_opened, &mut refusals).await {
                Ok(error) => error,
                Err(error) => error,
            };
            tracing::debug!(%error, "no ssh tunnel");
            // Once the tunnel was open, the VM is known to exist. A broken tunnel is then reopened without a
            // deadline.
            if is_final(&error, &mut refusals) || (!was_opened && Instant::now() >= self.deadline) {
                *self.failure.lock() = Some(error.clone());
                self.send_event(TunnelEvent::Failed(error));
                return;
            }
            self.send_event(TunnelEvent::Problem(error));
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }

    /// Opens the tunnel once. If it was open, returns the error that ended it.
    async fn attempt(
        &mut self,
        was_opened: &mut bool,
        refusals: &mut Refusals,
    ) -> Result<SshError, SshError> {
        let mut session = ssh::connect(&self.server).await?;
        refusals.login = None;
        if self.server.host_key.is_none()
            && let Some(key) = session.host_key.take()
        {
            self.server.host_key = Some(key.clone());
            self.send_event(TunnelEvent::HostKey(key));
        }
        session.forward(self.port).await?;
        refusals.forwarding = None;
        *was_opened = true;
        self.send_event(TunnelEvent::Open);
        Ok(session.wait_for_end().await)
    }

    fn send_event(&self, event: TunnelEvent) {
        // The receiver is no longer read once the tunnel was open.
        let _ = self.events.send(event);
    }
}

fn is_final(error: &SshError, refusals: &mut Refusals) -> bool {
    let (first_refusal, timeout) = match error {
        SshError::HostKeyChanged { .. } => return true,
        SshError::Refused { .. } => (&mut refusals.login, LOGIN_RETRY_TIMEOUT),
        SshError::ForwardingRefused { .. } => (&mut refusals.forwarding, FORWARDING_RETRY_TIMEOUT),
        _ => return false,
    };
    first_refusal.get_or_insert_with(Instant::now).elapsed() >= timeout
}

#[cfg(test)]
mod tests;
