//! Connects to an SSH server and logs in.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use russh::client::{self, AuthResult, ChannelOpenHandle, Handle, KeyboardInteractiveAuthResponse};
use russh::keys::{HashAlg, PrivateKeyWithHashAlg, PublicKey, PublicKeyOrCertificate};
use russh::{Channel, MethodKind, client::Msg};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::error::SshError;
use super::key::SshKey;
use crate::plain_errors::ssh_problem;
use base::secret::Secret;

/// The timeout of each step: DNS, TCP, handshake and login. A booting VM is slow, and the connection is
/// retried.
pub const STEP_TIMEOUT: Duration = Duration::from_secs(15);
/// The interval between two messages that keep an idle session open.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// The maximum number of rounds of keyboard-interactive questions in one login.
const MAX_QUESTION_ROUNDS: u32 = 8;

/// A connection to a forwarded port.
pub type ForwardedConnection = Channel<Msg>;

/// A server and the login on it.
#[derive(Clone)]
pub struct SshServer {
    /// Host name or address.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// User to log in as.
    pub user: String,
    /// Private key, tried first.
    pub key: Option<SshKey>,
    /// Password, tried after the key. Also the answer to keyboard-interactive questions.
    pub password: Option<Secret>,
    /// The host key that the server must have, in the format of OpenSSH. `None` accepts any.
    pub host_key: Option<String>,
    /// Receives the connections to forwarded ports.
    pub forward_sender: Option<mpsc::Sender<ForwardedConnection>>,
}

/// An authenticated session.
pub struct SshSession {
    /// The handle of russh, for opening channels.
    pub handle: Handle<SessionCallbacks>,
    /// The server's host key in the format of OpenSSH. `None` if it has a certificate.
    pub host_key: Option<String>,
    address: String,
}

/// The callbacks of russh for a session.
pub struct SessionCallbacks {
    /// The host key of the server.
    presented_key: Arc<Mutex<Option<PublicKey>>>,
    /// The host key that the server must have.
    recorded_key: Option<PublicKey>,
    forward_sender: Option<mpsc::Sender<ForwardedConnection>>,
}

impl client::Handler for SessionCallbacks {
    type Error = russh::Error;

    async fn check_server_key(&mut self, server: &PublicKeyOrCertificate) -> Result<bool, russh::Error> {
        let PublicKeyOrCertificate::PublicKey { key, .. } = server else {
            return Ok(self.recorded_key.is_none());
        };
        let is_accepted =
            self.recorded_key.as_ref().is_none_or(|recorded_key| recorded_key.key_data() == key.key_data());
        *self.presented_key.lock() = Some(key.clone());
        Ok(is_accepted)
    }

    async fn server_channel_open_forwarded_tcpip(
        &mut self,
        channel: Channel<Msg>,
        _connected_address: &str,
        _connected_port: u32,
        _originator_address: &str,
        _originator_port: u32,
        reply: ChannelOpenHandle,
        _session: &mut client::Session,
    ) -> Result<(), russh::Error> {
        // Dropping `reply` refuses the connection: if no ports are forwarded, or if too many connections
        // wait.
        if let Some(forward_sender) = &self.forward_sender
            && let Ok(permit) = forward_sender.try_reserve()
        {
            reply.accept().await;
            permit.send(channel);
        }
        Ok(())
    }
}

impl SshSession {
    /// Asks the server to listen on a port of its loopback interface and to forward connections to it.
    pub async fn forward(&self, port: u16) -> Result<(), SshError> {
        let request = self.handle.tcpip_forward("127.0.0.1", u32::from(port));
        match timeout(STEP_TIMEOUT, request).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(russh::Error::RequestDenied)) => {
                Err(SshError::ForwardingRefused { address: self.address.clone(), port })
            }
            Ok(Err(error)) => Err(self.lost_error(ssh_problem(&error))),
            Err(_) => Err(self.lost_error("the server does not answer".to_owned())),
        }
    }

    /// Waits for the end of the session and returns its cause.
    pub async fn wait_for_end(&mut self) -> SshError {
        let problem = match (&mut self.handle).await {
            Ok(()) => "the server closed it".to_owned(),
            Err(error) => ssh_problem(&error),
        };
        self.lost_error(problem)
    }

    fn lost_error(&self, problem: String) -> SshError {
        SshError::Lost { address: self.address.clone(), problem }
    }
}

/// Connects to `server`, checks its host key, and logs in.
pub async fn connect(server: &SshServer) -> Result<SshSession, SshError> {
    let address = format!("{}:{}", server.host, server.port);
    let stream = connect_tcp(server, &address).await?;
    let handshake_error = |problem: String| SshError::Handshake { address: address.clone(), problem };

    let recorded_key = match &server.host_key {
        Some(text) => Some(
            PublicKey::from_openssh(text)
                .map_err(|error| handshake_error(format!("the host key on record is not valid: {error}")))?,
        ),
        None => None,
    };
    let mut config =
        client::Config { keepalive_interval: Some(KEEPALIVE_INTERVAL), ..client::Config::default() };
    if let Some(recorded_key) = &recorded_key {
        // A server may have several host keys. Preferring the known algorithm makes it use the same key
        // again.
        let mut kinds = config.preferred.key.to_vec();
        kinds.sort_by_key(|kind| !is_same_kind(kind, &recorded_key.algorithm()));
        config.preferred.key = Cow::Owned(kinds);
    }
    let presented_key = Arc::new(Mutex::new(None));
    let callbacks = SessionCallbacks {
        presented_key: Arc::clone(&presented_key),
        recorded_key: recorded_key.clone(),
        forward_sender: server.forward_sender.clone(),
    };
    let handshake = client::connect_stream(Arc::new(config), stream, callbacks);
    let outcome = timeout(STEP_TIMEOUT, handshake).await;
    let presented_key = presented_key.lock().take();
    if let (Some(recorded_key), Some(presented_key)) = (&recorded_key, &presented_key)
        && recorded_key.key_data() != presented_key.key_data()
    {
        let fingerprint = |key: &PublicKey| key.fingerprint(HashAlg::Sha256).to_string();
        return Err(SshError::HostKeyChanged {
            address,
            recorded_key: fingerprint(recorded_key),
            presented_key: fingerprint(presented_key),
        });
    }
    let mut handle = match outcome {
        Ok(Ok(handle)) => handle,
        Ok(Err(error)) => return Err(handshake_error(ssh_problem(&error))),
        Err(_) => {
            return Err(handshake_error(format!("no answer within {} s", STEP_TIMEOUT.as_secs())));
        }
    };
    match timeout(STEP_TIMEOUT, log_in(&mut handle, server, &address)).await {
        Ok(outcome) => outcome?,
        Err(_) => {
            return Err(handshake_error(format!(
                "no answer to the login within {} s",
                STEP_TIMEOUT.as_secs()
            )));
        }
    }
    if let Some(key) = &presented_key {
        tracing::debug!(address, fingerprint = %key.fingerprint(HashAlg::Sha256), "logged in by SSH");
    }
    Ok(SshSession { handle, host_key: presented_key.and_then(|key| key.to_openssh().ok()), address })
}

/// Returns true for equal algorithms. For RSA, the hash algorithm does not matter.
fn is_same_kind(one: &russh::keys::Algorithm, other: &russh::keys::Algorithm) -> bool {
    one == other || (one.clone().is_rsa() && other.clone().is_rsa())
}

async fn connect_tcp(server: &SshServer, address: &str) -> Result<TcpStream, SshError> {
    let tcp_error = |problem: String| SshError::Tcp { address: address.to_owned(), problem };
    let dns_error = |problem: String| SshError::Dns { host: server.host.clone(), problem };
    let addresses =
        match timeout(STEP_TIMEOUT, tokio::net::lookup_host((server.host.as_str(), server.port))).await {
            Ok(Ok(addresses)) => addresses,
            Ok(Err(error)) => return Err(dns_error(error.to_string())),
            Err(_) => return Err(dns_error("no answer in time".to_owned())),
        };
    let mut last_error = dns_error("it has no address".to_owned());
    for candidate in addresses {
        match timeout(STEP_TIMEOUT, TcpStream::connect(candidate)).await {
            Ok(Ok(stream)) => {
                // Small messages must not wait for more data.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Ok(Err(error)) => last_error = tcp_error(error.to_string()),
            Err(_) => last_error = tcp_error("no connection in time".to_owned()),
        }
    }
    Err(last_error)
}

/// Logs in with the key, and after a refusal with the password. If the server does not accept the password
/// itself, it is the answer to the server's questions. Tries RSA keys with every hash that the server may
/// accept.
async fn log_in(
    handle: &mut Handle<SessionCallbacks>,
    server: &SshServer,
    address: &str,
) -> Result<(), SshError> {
    let login_error = |error: russh::Error| SshError::Handshake {
        address: address.to_owned(),
        problem: format!("the login failed: {}", ssh_problem(&error)),
    };
    let user = server.user.as_str();
    if let Some(SshKey(key)) = &server.key {
        for hash in select_rsa_hashes(handle, key.algorithm().is_rsa()).await.map_err(login_error)? {
            let key = PrivateKeyWithHashAlg::new(Arc::clone(key), hash);
            if handle.authenticate_publickey(user, key).await.map_err(login_error)?.success() {
                return Ok(());
            }
        }
    }
    if let Some(password) = &server.password {
        match handle.authenticate_password(user, password.expose()).await.map_err(login_error)? {
            AuthResult::Success => return Ok(()),
            AuthResult::Failure { remaining_methods, .. }
                if remaining_methods.contains(&MethodKind::KeyboardInteractive) =>
            {
                if answer_questions(handle, user, password.expose()).await.map_err(login_error)? {
                    return Ok(());
                }
            }
            AuthResult::Failure { .. } => {}
        }
    }
    let credentials = match (&server.key, &server.password) {
        (Some(_), None) => "the private key",
        (None, _) => "the password",
        (Some(_), Some(_)) => "the private key or the password",
    };
    Err(SshError::Refused { address: address.to_owned(), user: server.user.clone(), credentials })
}

/// Returns the hash algorithms to try: several for RSA, by what the server announces; one `None` for other
/// keys.
async fn select_rsa_hashes(
    handle: &Handle<SessionCallbacks>,
    is_rsa: bool,
) -> Result<Vec<Option<HashAlg>>, russh::Error> {
    if !is_rsa {
        return Ok(vec![None]);
    }
    Ok(match handle.best_supported_rsa_hash().await? {
        // A server may accept fewer than it announces.
        Some(Some(HashAlg::Sha512)) => vec![Some(HashAlg::Sha512), Some(HashAlg::Sha256)],
        Some(best) => vec![best],
        // Servers older than RFC 8332 announce nothing. The last one is SHA-1.
        None => vec![Some(HashAlg::Sha256), None],
    })
}

/// Logs in with keyboard-interactive authentication. The password is the answer to each question.
async fn answer_questions(
    handle: &mut Handle<SessionCallbacks>,
    user: &str,
    password: &str,
) -> Result<bool, russh::Error> {
    let mut answer = handle.authenticate_keyboard_interactive_start(user, None).await?;
    for _ in 0..MAX_QUESTION_ROUNDS {
        answer = match answer {
            KeyboardInteractiveAuthResponse::Success => return Ok(true),
            KeyboardInteractiveAuthResponse::Failure { .. } => return Ok(false),
            KeyboardInteractiveAuthResponse::InfoRequest { prompts, .. } => {
                let answers = prompts.iter().map(|_| password.to_owned()).collect();
                handle.authenticate_keyboard_interactive_respond(answers).await?
            }
        };
    }
    Ok(false)
}
