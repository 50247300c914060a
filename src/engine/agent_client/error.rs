//! Errors of exchanges with the agent.

use std::time::Duration;

use crate::state::VmHandle;
use base::console::LastBoot;
use base::events::Stage;
use base::{Error, ErrorKind};

/// The hint for a proxy that failed.
pub(crate) const PROXY_HINT: &str = "check that the proxy runs, and the address, user, password or key in \
                                     BOSH_ALL_PROXY; if this machine reaches the VM without a proxy, unset \
                                     BOSH_ALL_PROXY or add the VM's address to NO_PROXY";

/// The hint for a server at the agent's address that is not the agent.
const OTHER_MACHINE_HINT: &str =
    "another machine answers at this address: correct the host in `cloud_provider.mbus`";

/// A failed exchange with the agent.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// No server answers at the address, or a firewall blocks the connection.
    #[error("{address} cannot be reached: {problem}")]
    Unreachable {
        /// The scheme, host and port.
        address: String,
        /// The TCP error or the timeout.
        problem: String,
    },
    /// The host name has no address.
    #[error("{address} cannot be reached: the host name does not resolve (DNS){problem}")]
    Unresolvable {
        /// The scheme, host and port.
        address: String,
        /// The message of the resolver after a colon, or nothing.
        problem: String,
    },
    /// The proxy of `BOSH_ALL_PROXY` failed, so nothing is known about the agent.
    #[error("{address} cannot be reached through BOSH_ALL_PROXY: {problem}")]
    ProxyFailed {
        /// The scheme, host and port of the agent.
        address: String,
        /// The proxy, without credentials, and its error.
        problem: String,
        /// True if a retry cannot help.
        is_permanent: bool,
    },
    /// The agent was reached, but then sent or accepted no data for too long.
    #[error("{address} did not answer `{method}`: {problem}")]
    Stalled {
        /// The scheme, host and port.
        address: String,
        /// The message, or `put blob` or `get blob`.
        method: String,
        /// The missing part of the answer, and the timeout.
        problem: String,
    },
    /// The server that answers cannot prove that it is the agent.
    #[error("{address} is not trusted: {problem}")]
    Untrusted {
        /// The scheme, host and port.
        address: String,
        /// The error of the TLS library.
        problem: String,
        /// The cause, which decides what to do about it.
        cause: UntrustedCause,
    },
    /// The agent does not accept the user and password of the mbus URL.
    #[error("{address} refuses the user and password of `cloud_provider.mbus` (401)")]
    Unauthorized {
        /// The scheme, host and port.
        address: String,
    },
    /// The agent answered with an exception.
    #[error("the agent's `{method}` failed: {message}")]
    Exception {
        /// The name of the message.
        method: String,
        /// The message of the exception.
        message: String,
    },
    /// The answer does not follow the protocol.
    #[error("the agent's answer to `{method}` cannot be used: {problem}")]
    Protocol {
        /// The name of the message.
        method: String,
        /// The difference from the protocol.
        problem: String,
    },
    /// A file of this machine could not be used.
    #[error("{message}")]
    Local {
        /// The failed operation, such as "reading '…' failed".
        message: String,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// The operator interrupted the wait.
    #[error("interrupted while {work}")]
    Interrupted {
        /// The signal.
        signal: u8,
        /// The work for whose end the run waited, a gerund.
        work: String,
    },
}

/// The reason why a server is not accepted as the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UntrustedCause {
    /// It presented no certificate.
    NoCertificate,
    /// Its certificate has expired, or is not valid yet.
    Dates,
    /// Its certificate is rejected for another reason.
    Certificate,
}

/// Adds what the console of a VM shows to an error of its agent, or of the connection to the VM.
pub(crate) fn with_console(error: Error, vm: &VmHandle, boot: &LastBoot) -> Error {
    let error = error.with_note(boot.describe(vm.cid.as_str()));
    let error = match boot.problem() {
        Some(problem) => error.with_hint(problem.hint()),
        None => error,
    };
    error.with_hint("see more of its console: `monopile logs MANIFEST --console`")
}

impl AgentError {
    /// Creates the error for a wait that this signal interrupted.
    pub(super) fn interruption(signal: u8) -> Self {
        AgentError::Interrupted { signal, work: "waiting for the agent".to_owned() }
    }

    /// Names the interrupted work by the title of its stage, such as "Running the pre-start scripts".
    pub(crate) fn with_stage(self, stage: &Stage) -> Self {
        let AgentError::Interrupted { signal, .. } = self else { return self };
        let mut title = stage.name().chars();
        let first_letter = title.next().map(char::to_lowercase);
        AgentError::Interrupted { signal, work: first_letter.into_iter().flatten().chain(title).collect() }
    }

    /// Returns true if waiting may help, because the VM may still be booting.
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            AgentError::Unreachable { .. }
                | AgentError::Unresolvable { .. }
                | AgentError::ProxyFailed { is_permanent: false, .. }
                | AgentError::Stalled { .. }
        )
    }

    /// Returns the error for a new VM whose agent does not answer within `timeout`, or refuses this run.
    /// `boot` is what the console shows, if it is on this machine.
    pub(crate) fn into_new_vm_error(
        self,
        vm: &VmHandle,
        timeout: Duration,
        boot: Option<&LastBoot>,
    ) -> Error {
        let new_vm_error = |hint: &str, condition: &str| {
            let error = Error::new(ErrorKind::AgentUnreachable, self.to_string());
            error.with_hint(hint).with_hint(format!("{condition}, {OTHER_MACHINE_HINT}"))
        };
        match self {
            AgentError::Unauthorized { .. } => {
                return new_vm_error(
                    "give `cloud_provider.mbus` and `cloud_provider.properties.agent.mbus` the same user \
                     and password: the new VM has those of the second",
                    "if they are the same",
                );
            }
            AgentError::Untrusted { cause: UntrustedCause::Certificate, .. } => {
                return new_vm_error(
                    "give the new VM (`env.bosh.mbus.cert` or `cloud_provider.cert`) a certificate that \
                     `cloud_provider.cert.ca` signed",
                    "if that CA signed it",
                );
            }
            _ => {}
        }
        let is_unresolvable = matches!(self, AgentError::Unresolvable { .. });
        if !self.is_transient() || self.was_caused_by_this_run() || is_unresolvable {
            return self.into();
        }
        let timeout = base::text::format_duration(timeout);
        let error = Error::new(
            ErrorKind::AgentUnreachable,
            format!("the agent of the new VM {vm} did not answer within {timeout} (--boot-timeout)"),
        )
        .with_source(self.to_string());
        let error =
            match boot {
                Some(boot) if boot.problem().is_some() => return with_console(error, vm, boot),
                Some(boot) => with_console(error, vm, boot),
                None => error
                    .with_hint("look at the VM's console in the IaaS")
                    .with_hints((!self.is_connection_refused()).then_some(
                    "check that the VM has the address in `cloud_provider.mbus`, and that no firewall is in \
                     between",
                )),
            };
        error.with_rerun_hint(
            "then run the same command again; if the VM only boots slowly: `monopile SAME-COMMAND \
             --boot-timeout 30m`",
        )
    }

    /// Returns true if the failure tells nothing about the agent and its VM, because the cause is this run: a
    /// signal, or its proxy.
    pub(crate) fn was_caused_by_this_run(&self) -> bool {
        matches!(self, AgentError::Interrupted { .. } | AgentError::ProxyFailed { .. })
    }

    /// Returns true if the connection was refused. A firewall would drop it.
    fn is_connection_refused(&self) -> bool {
        matches!(self, AgentError::Unreachable { problem, .. } if problem.contains("refused"))
    }

    /// Returns true if other credentials or another CA may help.
    pub(super) fn may_need_other_credentials(&self) -> bool {
        matches!(self, AgentError::Untrusted { .. } | AgentError::Unauthorized { .. })
    }

    /// Returns true if the credentials or the CA of another deploy explain the error. A certificate that has
    /// expired has another cause.
    pub(crate) fn is_of_other_credentials(&self) -> bool {
        let AgentError::Untrusted { cause, .. } = self else { return self.may_need_other_credentials() };
        *cause == UntrustedCause::Certificate
    }

    /// Returns true if the agent does not know the method.
    pub fn is_unknown_message(&self) -> bool {
        matches!(self, AgentError::Exception { message, .. } if message.to_lowercase().contains("unknown \
            message"))
    }
}

impl From<AgentError> for Error {
    fn from(error: AgentError) -> Self {
        let text = error.to_string();
        match error {
            AgentError::Unreachable { .. } if error.is_connection_refused() => {
                Error::new(ErrorKind::AgentUnreachable, text).with_hint(
                    "check that the VM runs, and that host and port in `cloud_provider.mbus` are those of \
                     its agent",
                )
            }
            AgentError::Unreachable { .. } => Error::new(ErrorKind::AgentUnreachable, text).with_hint(
                "check that the VM runs, that host and port in `cloud_provider.mbus` are those of its \
                 agent, and that no firewall is in between",
            ),
            AgentError::ProxyFailed { .. } => Error::new(ErrorKind::AgentUnreachable, text)
                .with_note("nothing is known about the VM, because the connection failed at the proxy")
                .with_hint(PROXY_HINT),
            AgentError::Unresolvable { .. } => Error::new(ErrorKind::AgentUnreachable, text)
                .with_hint("check the host in `cloud_provider.mbus`, and the name servers of this machine"),
            AgentError::Stalled { .. } => Error::new(ErrorKind::AgentUnreachable, text).with_rerun_hint(
                "check that the VM is not frozen or overloaded, and that no firewall drops packets; then run \
                 the same command again",
            ),
            AgentError::Untrusted { cause: UntrustedCause::Dates, .. } => {
                Error::new(ErrorKind::AgentUnreachable, text)
                    .with_hint("find the command that renews the certificate: `monopile vars check STORE`")
                    .with_hint("then create a new VM with it: `monopile create-env MANIFEST`")
                    .with_hint(format!(
                        "this machine's clock says {}: set it if that is wrong",
                        base::encoding::now()
                    ))
            }
            AgentError::Untrusted { cause: UntrustedCause::NoCertificate, .. } => {
                Error::new(ErrorKind::AgentUnreachable, text).with_hint(
                    "another program has this port: check the host and port in `cloud_provider.mbus`, and \
                     which program listens there",
                )
            }
            AgentError::Untrusted { .. } => Error::new(ErrorKind::AgentUnreachable, text)
                .with_hint(
                    "pass the vars store of the last deploy, whose CA (`cloud_provider.cert.ca`) signed the \
                     VM's certificate: `monopile SAME-COMMAND --vars-store FILE`",
                )
                .with_hint(format!("if the vars store is right, {OTHER_MACHINE_HINT}")),
            AgentError::Unauthorized { .. } => Error::new(ErrorKind::AgentUnreachable, text)
                .with_hint(
                    "pass the vars store of the last deploy, which has the VM's password \
                     (`cloud_provider.properties.agent.mbus`): `monopile SAME-COMMAND --vars-store FILE`",
                )
                .with_hint(format!("if the vars store is right, {OTHER_MACHINE_HINT}")),
            AgentError::Interrupted { signal, .. } => Error::new(ErrorKind::Interrupted(signal), text),
            AgentError::Local { message, source } => Error::failure(message).with_source(source),
            AgentError::Exception { .. } | AgentError::Protocol { .. } => Error::failure(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_vm_did_not_get_its_password_from_an_earlier_deploy() {
        let vm = VmHandle::new("vm-1".parse().unwrap(), None);
        let unauthorized = AgentError::Unauthorized { address: "https://10.0.0.6:6868".to_owned() };
        let error = unauthorized.into_new_vm_error(&vm, Duration::from_secs(1), None);
        assert_eq!(error.kind(), ErrorKind::AgentUnreachable);
        let hints = error.hints();
        assert!(hints[0].starts_with("give `cloud_provider.mbus` and `cloud_provider.properties.agent."));
        assert!(!hints.iter().any(|hint| hint.contains("last deploy")), "{hints:?}");
    }
}
