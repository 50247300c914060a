//! Errors of SSH sessions. Each step of connecting has an error of its own.

use std::io;

/// An error of an SSH session.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SshError {
    /// The host name has no address.
    #[error("the host name '{host}' does not resolve (DNS): {problem}")]
    Dns {
        /// The host name.
        host: String,
        /// The error of the resolver.
        problem: String,
    },
    /// The TCP connection failed.
    #[error("{address} cannot be reached: TCP: {problem}")]
    Tcp {
        /// Host and port.
        address: String,
        /// The error of the operating system.
        problem: String,
    },
    /// The handshake or the login failed for another reason than the credentials.
    #[error("{address} accepted the connection, but the SSH handshake failed: {problem}")]
    Handshake {
        /// Host and port.
        address: String,
        /// The error of the handshake or the login.
        problem: String,
    },
    /// The server has another host key than before. It is another machine, or the connection is intercepted.
    #[error("the host key of {address} has changed: it was {recorded_key} and is {presented_key}")]
    HostKeyChanged {
        /// Host and port.
        address: String,
        /// The fingerprint on record.
        recorded_key: String,
        /// The fingerprint of the server's key.
        presented_key: String,
    },
    /// The server refuses the login.
    #[error("{address} does not accept {credentials} for the user '{user}'")]
    Refused {
        /// Host and port.
        address: String,
        /// The user that tried to log in.
        user: String,
        /// The credentials: "the private key", "the password".
        credentials: &'static str,
    },
    /// The server accepts the login, but refuses to forward a port.
    #[error("{address} refuses to forward its port {port} to this machine")]
    ForwardingRefused {
        /// Host and port.
        address: String,
        /// The port on the server.
        port: u16,
    },
    /// An open session ended.
    #[error("the connection to {address} was lost: {problem}")]
    Lost {
        /// Host and port.
        address: String,
        /// The cause, as far as known.
        problem: String,
    },
}

impl SshError {
    /// Returns the closest kind of I/O error.
    pub fn kind(&self) -> io::ErrorKind {
        match self {
            SshError::Dns { .. } => io::ErrorKind::NotFound,
            SshError::Tcp { .. } => io::ErrorKind::ConnectionRefused,
            SshError::HostKeyChanged { .. } | SshError::Refused { .. } => io::ErrorKind::PermissionDenied,
            SshError::Handshake { .. } | SshError::ForwardingRefused { .. } | SshError::Lost { .. } => {
                io::ErrorKind::ConnectionAborted
            }
        }
    }
}
