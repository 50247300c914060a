//! The client of the agent on the VM: messages over HTTPS (mbus) and its blobstore.
//!
//! A message is a POST to `<mbus>/agent` with `{"method", "arguments", "reply_to", "protocol"}`, answered by
//! `{"value": …}` or `{"exception": {"message": …}}`; a long action is answered by a task that `get_task`
//! follows. Source: the agent's `mbus/https_handler.go` and `agent/action`.
//!
//! Entry points:
//! - [`Agent`]: the client.
//! - [`resolve_endpoint`], [`create_client`] and [`wait_for_own_agent`]: connect a run to the agent of the VM
//!   on record.
//! - [`ForeignAgent`]: an agent with another id than the one on record.
//! - [`still_answers()`]: asks the agent of a VM that the CPI denies, to check that the VM still exists.
//! - [`OtherAddress`]: an address of this run that is not on record.
//! - [`LogArchive`]: an archive of logs from the VM.

mod answer;
mod client;
mod connect;
mod endpoint;
mod error;
pub(crate) mod identity;
mod log_archive;
mod messages;
mod other_address;
pub(crate) mod other_credentials;
mod still_answers;

pub use answer::{parse_answer, running_task};
pub use client::{AGENT_TIMEOUTS, Agent, AgentTimeouts, Backoff, MAX_ANSWER_BYTES};
pub(crate) use connect::{
    create_client, create_client_with_timeout, hint_for_silent_agent, resolve_endpoint, wait_for_own_agent,
};
pub use endpoint::AgentEndpoint;
pub use error::{AgentError, UntrustedCause};
pub(crate) use error::{PROXY_HINT, with_console};
pub(crate) use identity::ForeignAgent;
pub(crate) use log_archive::LogArchive;
pub use messages::{Blob, CompiledPackage, DrainOutcome, PackageSource, SshHost, StopReason};
pub(crate) use other_address::OtherAddress;
pub(crate) use still_answers::still_answers;
