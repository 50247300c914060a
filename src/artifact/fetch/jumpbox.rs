//! Connections through a jumpbox: one SSH session, with one `direct-tcpip` channel for each connection.
//!
//! Any host key of the jumpbox is accepted, because `BOSH_ALL_PROXY` cannot name one. Downloads are protected
//! by their digests, and by TLS for `https://`.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;

use tokio::runtime::Runtime;

use super::InterruptCheck;
use super::proxy::ProxyServer;
use crate::timeouts::CONNECT_TIMEOUT;
use base::files::input;
use base::text::format_duration;
use net::http_client::{self, INTERRUPT_CHECK_INTERVAL};
use net::plain_errors::ssh_problem;
use net::ssh::{self, SshKey, SshServer, SshSession};

/// The maximum size of a private key in bytes.
const MAX_KEY_BYTES: u64 = 1 << 20;

/// An SSH session with a jumpbox.
pub(super) struct JumpboxSession {
    runtime: Runtime,
    session: SshSession,
}

impl JumpboxSession {
    /// Logs in to the jumpbox.
    pub(super) fn open(
        server: &ProxyServer,
        private_key: &Path,
        interrupt_check: &InterruptCheck,
    ) -> io::Result<Self> {
        // `PermissionDenied` marks an error that no retry can mend.
        let key_error = |reason: String| {
            let path = private_key.display();
            let text = format!(
                "the private key '{path}' (`private-key` in BOSH_ALL_PROXY) cannot be used: {reason}"
            );
            io::Error::new(io::ErrorKind::PermissionDenied, text)
        };
        let text =
            input::read_text(private_key, MAX_KEY_BYTES).map_err(|error| key_error(error.to_string()))?;
        let key = SshKey::parse(&text, None).map_err(|error| key_error(error.to_string()))?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("jumpbox")
            .enable_all()
            .build()?;
        let user = server.credentials.as_ref().map(|(user, _)| user.clone()).unwrap_or_default();
        let server = SshServer {
            host: server.host.clone(),
            port: server.port,
            user,
            key: Some(key),
            password: None,
            host_key: None,
            forward_sender: None,
        };
        let result = runtime.block_on(wait_with_timeout(interrupt_check, ssh::connect(&server)));
        let session = result.and_then(|outcome| match outcome {
            Some(Ok(session)) => Ok(session),
            Some(Err(error)) => Err(io::Error::new(error.kind(), error.to_string())),
            None => {
                let text = format!("it did not answer within {}", format_duration(CONNECT_TIMEOUT));
                Err(io::Error::new(io::ErrorKind::TimedOut, text))
            }
        });
        match session {
            Ok(session) => Ok(JumpboxSession { runtime, session }),
            Err(error) => {
                // Dropping the runtime would wait for the system's resolver.
                runtime.shutdown_background();
                Err(error)
            }
        }
    }

    /// Returns true if the session has ended.
    pub(super) fn is_closed(&self) -> bool {
        self.session.handle.is_closed()
    }

    /// Opens a connection from the jumpbox to `host`.
    pub(super) fn connect(
        &self,
        host: &str,
        port: u16,
        interrupt_check: &InterruptCheck,
    ) -> io::Result<UnixStream> {
        let (ours, theirs) = UnixStream::pair()?;
        theirs.set_nonblocking(true)?;
        self.runtime.block_on(async {
            let channel_request =
                self.session.handle.channel_open_direct_tcpip(host, u32::from(port), "127.0.0.1", 0);
            let channel = match wait_with_timeout(interrupt_check, channel_request).await? {
                Some(Ok(channel)) => channel,
                Some(Err(error)) => {
                    let text = format!("it could not connect to {host}:{port}: {}", ssh_problem(&error));
                    return Err(io::Error::new(io::ErrorKind::ConnectionRefused, text));
                }
                None => {
                    let timeout = format_duration(CONNECT_TIMEOUT);
                    let text = format!("it did not connect to {host}:{port} within {timeout}");
                    return Err(io::Error::new(io::ErrorKind::TimedOut, text));
                }
            };
            let mut theirs = tokio::net::UnixStream::from_std(theirs)?;
            tokio::spawn(async move {
                let mut channel = channel.into_stream();
                // When one side ends, both streams are dropped, so that the other side sees the end.
                let _ = tokio::io::copy_bidirectional(&mut channel, &mut theirs).await;
            });
            Ok(())
        })?;
        Ok(ours)
    }
}

/// Waits for an outcome, and returns `None` after [`CONNECT_TIMEOUT`]. A signal ends the wait with an error.
async fn wait_with_timeout<F: Future>(
    interrupt_check: &InterruptCheck,
    waited_for: F,
) -> io::Result<Option<F::Output>> {
    let signal = async {
        while interrupt_check().is_ok() {
            tokio::time::sleep(INTERRUPT_CHECK_INTERVAL).await;
        }
    };
    tokio::select! {
        outcome = tokio::time::timeout(CONNECT_TIMEOUT, waited_for) => Ok(outcome.ok()),
        () = signal => Err(http_client::interrupted_error()),
    }
}
