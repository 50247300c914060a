//! Why there is no session: each step on the way to one fails with an error of its own.

use std::io;

/// A step that failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SshError {
    /// The host name stands for no address.
    #[error("the host name '{host}' does not resolve (DNS): {problem}")]
    Dns {
        /// The name.
        host: String,
        /// The resolver's words.
        problem: String,
    },
    /// Nobody takes the connection.
    #[error("{address} cannot be reached: TCP: {problem}")]
    Tcp {
        /// Host and port.
        address: String,
        /// The system's words.
        problem: String,
    },
    /// Whoever took the connection does not agree on how to go on.
    #[error("{address} took the connection, but the SSH handshake failed: {problem}")]
    Handshake {
        /// Host and port.
        address: String,
        /// What went wrong.
        problem: String,
    },
    /// It is another machine than before, or somebody in between.
    #[error("the host key of {address} has changed: it was {known} and is {seen}")]
    HostKeyChanged {
        /// Host and port.
        address: String,
        /// The fingerprint on record.
        known: String,
        /// The fingerprint that was shown.
        seen: String,
    },
    /// The server does not let us in.
    #[error("{address} does not accept {credentials} for the user '{user}'")]
    Refused {
        /// Host and port.
        address: String,
        /// Who wanted in.
        user: String,
        /// With what: "the private key", "the password".
        credentials: &'static str,
    },
    /// The server lets us in, but does not listen for us.
    #[error("{address} refuses to forward its port {port} to here")]
    ForwardingRefused {
        /// Host and port.
        address: String,
        /// The port that was to be forwarded.
        port: u16,
    },
    /// A session that was there is not there any more.
    #[error("the connection to {address} was lost: {problem}")]
    Lost {
        /// Host and port.
        address: String,
        /// What is known of why.
        problem: String,
    },
}

impl SshError {
    /// The kind that fits best where only I/O errors are spoken.
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
