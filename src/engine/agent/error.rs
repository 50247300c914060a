//! Why an agent did not do as asked.

use base::{Error, ErrorKind};

/// A failed exchange with the agent.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// No server answers at the address, or the way is blocked.
    #[error("{address} cannot be reached: {problem}")]
    Unreachable {
        /// Scheme, host and port.
        address: String,
        /// TCP or a timeout, in words.
        problem: String,
    },
    /// Its host name stands for no address.
    #[error("{address} cannot be reached: the host name does not resolve (DNS){problem}")]
    Unresolvable {
        /// Scheme, host and port.
        address: String,
        /// The resolver's words, after a colon, or nothing.
        problem: String,
    },
    /// It was reached, and then did not go on.
    #[error("{address} stalled at `{method}`: {problem}")]
    Stalled {
        /// Scheme, host and port.
        address: String,
        /// The message, or `put blob` or `get blob`.
        method: String,
        /// The missing part of the answer, and the limit.
        problem: String,
    },
    /// The server that answers cannot prove that it is the agent.
    #[error("{address} is not trusted: {problem}")]
    Untrusted {
        /// Scheme, host and port.
        address: String,
        /// What TLS says.
        problem: String,
    },
    /// The agent does not take the mbus URL's user and password.
    #[error("{address} refuses the user and password of `cloud_provider.mbus` (401)")]
    Unauthorized {
        /// Scheme, host and port.
        address: String,
    },
    /// The agent did not do it and says why.
    #[error("the agent's `{method}` failed: {message}")]
    Exception {
        /// The method.
        method: String,
        /// The agent's words.
        message: String,
    },
    /// The answer makes no sense.
    #[error("the agent's answer to `{method}` makes no sense: {problem}")]
    Protocol {
        /// The method.
        method: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A file of this machine could not be used.
    #[error("{what}")]
    Local {
        /// What was tried.
        what: String,
        /// Why it failed.
        #[source]
        source: std::io::Error,
    },
    /// The operator interrupted the wait.
    #[error("interrupted while waiting for the agent")]
    Interrupted {
        /// The signal.
        signal: u8,
    },
}

impl AgentError {
    /// Whether waiting may help: the VM may still be booting.
    pub fn may_pass(&self) -> bool {
        matches!(
            self,
            AgentError::Unreachable { .. } | AgentError::Unresolvable { .. } | AgentError::Stalled { .. }
        )
    }

    /// Whether the agent says that it does not know the method.
    pub fn is_unknown_message(&self) -> bool {
        matches!(self, AgentError::Exception { message, .. } if message.to_lowercase().contains("unknown \
            message"))
    }
}

impl From<AgentError> for Error {
    fn from(error: AgentError) -> Self {
        let text = error.to_string();
        match error {
            AgentError::Unreachable { .. } => Error::new(ErrorKind::AgentUnreachable, text).with_hint(
                "check that the VM runs, that the host in `cloud_provider.mbus` is the VM's address, and \
                    that no firewall is in between",
            ),
            AgentError::Unresolvable { .. } => Error::new(ErrorKind::AgentUnreachable, text)
                .with_hint("check the host in `cloud_provider.mbus`, and the name servers of this machine"),
            AgentError::Stalled { .. } => Error::new(ErrorKind::AgentUnreachable, text).with_hint(
                "check that the VM is not frozen or overloaded, and that no firewall in between drops \
                 packets; then run the same command again",
            ),
            AgentError::Untrusted { .. } => Error::new(ErrorKind::AgentUnreachable, text).with_hint(
                "the certificate in `resource_pools[].env.bosh.mbus.cert` must be signed by \
                    `cloud_provider.cert.ca` and name the host of `cloud_provider.mbus`",
            ),
            AgentError::Unauthorized { .. } => Error::new(ErrorKind::AgentUnreachable, text).with_hint(
                "the password given to the VM (`cloud_provider.properties.agent.mbus`) differs, or another \
                    VM answers at this address",
            ),
            AgentError::Interrupted { signal } => Error::new(ErrorKind::Interrupted(signal), text)
                .with_hint("the state is saved; run the same command again to go on"),
            AgentError::Local { what, source } => Error::environment(what).with_source(source),
            AgentError::Exception { .. } | AgentError::Protocol { .. } => Error::environment(text),
        }
    }
}
