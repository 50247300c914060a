//! Connections through a jumpbox: one SSH session, one `direct-tcpip` channel for each connection.
//!
//! The jumpbox's host key is accepted as it is: `BOSH_ALL_PROXY` has no place for it. What is downloaded is
//! protected by its digest, and by TLS for `https://`.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use russh::client::{self, AuthResult, Handle};
use russh::keys::{self, PrivateKeyWithHashAlg};
use tokio::runtime::Runtime;

use super::proxy::Proxy;

const CONNECT: Duration = Duration::from_secs(30);
const KEEPALIVE: Duration = Duration::from_secs(30);

/// An SSH session that connections can be made through.
pub(super) struct Tunnel {
    runtime: Runtime,
    session: Handle<Jumpbox>,
}

struct Jumpbox;

impl client::Handler for Jumpbox {
    type Error = russh::Error;

    async fn check_server_key(
        &mut self,
        server: &keys::PublicKeyOrCertificate,
    ) -> Result<bool, russh::Error> {
        if let keys::PublicKeyOrCertificate::PublicKey { key, .. } = server {
            tracing::info!(fingerprint = %key.fingerprint(keys::HashAlg::Sha256), "the jumpbox's host key");
        }
        Ok(true)
    }
}

impl Tunnel {
    /// Logs in to the jumpbox.
    pub(super) fn open(server: &Proxy, private_key: &Path) -> io::Result<Self> {
        let key = keys::load_secret_key(private_key, None).map_err(|error| {
            let text = format!("the private key '{}' cannot be used: {error}", private_key.display());
            io::Error::new(io::ErrorKind::PermissionDenied, text)
        })?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("jumpbox")
            .enable_all()
            .build()?;
        let user = server.credentials.as_ref().map(|(user, _)| user.clone()).unwrap_or_default();
        let session = runtime.block_on(async {
            let login = login(server, user, key);
            match tokio::time::timeout(CONNECT, login).await {
                Ok(session) => session,
                Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "the jumpbox does not answer")),
            }
        })?;
        Ok(Tunnel { runtime, session })
    }

    /// Whether the session has ended.
    pub(super) fn is_closed(&self) -> bool {
        self.session.is_closed()
    }

    /// A connection from the jumpbox to `host`.
    pub(super) fn connect(&self, host: &str, port: u16) -> io::Result<UnixStream> {
        let (ours, theirs) = UnixStream::pair()?;
        theirs.set_nonblocking(true)?;
        self.runtime.block_on(async {
            let opening = self.session.channel_open_direct_tcpip(host, u32::from(port), "127.0.0.1", 0);
            let channel = match tokio::time::timeout(CONNECT, opening).await {
                Ok(Ok(channel)) => channel,
                Ok(Err(error)) => {
                    let text = format!("the jumpbox could not connect to {host}:{port}: {error}");
                    return Err(io::Error::new(io::ErrorKind::ConnectionRefused, text));
                }
                Err(_) => {
                    let text = format!("the jumpbox could not connect to {host}:{port} in time");
                    return Err(io::Error::new(io::ErrorKind::TimedOut, text));
                }
            };
            let mut theirs = tokio::net::UnixStream::from_std(theirs)?;
            tokio::spawn(async move {
                let mut channel = channel.into_stream();
                // Whichever side ends it: the other one sees the end of its stream.
                let _ = tokio::io::copy_bidirectional(&mut channel, &mut theirs).await;
            });
            Ok(())
        })?;
        Ok(ours)
    }
}

async fn login(server: &Proxy, user: String, key: keys::PrivateKey) -> io::Result<Handle<Jumpbox>> {
    let config = client::Config { keepalive_interval: Some(KEEPALIVE), ..client::Config::default() };
    let address = (server.host.as_str(), server.port);
    let mut session = client::connect(Arc::new(config), address, Jumpbox).await.map_err(failed)?;
    let hash = session.best_supported_rsa_hash().await.map_err(failed)?.flatten();
    let key = PrivateKeyWithHashAlg::new(Arc::new(key), hash);
    match session.authenticate_publickey(&user, key).await.map_err(failed)? {
        AuthResult::Success => Ok(session),
        AuthResult::Failure { .. } => {
            let text = format!("the jumpbox does not accept the private key for the user '{user}'");
            Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
        }
    }
}

fn failed(error: russh::Error) -> io::Error {
    match error {
        russh::Error::IO(error) => error,
        error => io::Error::other(error.to_string()),
    }
}
