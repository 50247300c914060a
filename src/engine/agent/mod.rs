//! The client of the agent on the VM: messages over HTTPS (mbus) and its blobstore.
//!
//! A message is a POST to `<mbus>/agent` with `{"method", "arguments", "reply_to", "protocol"}`, answered by
//! `{"value": …}` or `{"exception": {"message": …}}`; a long action is answered by a task that `get_task`
//! follows. Source: the agent's `mbus/https_handler.go` and `agent/action`.
//!
//! Uses `environment` and `state`. Entry points: [`Agent`], the client; [`connect`] and [`contact`], the way
//! of a run to the agent of the VM on record; [`ForeignAgent`], an agent with another id than the one on
//! record; [`outlives`], the agent's word against that of a CPI; [`LogArchive`].

mod answer;
mod client;
mod connect;
mod endpoint;
mod error;
pub(crate) mod identity;
mod log_archive;
mod messages;
mod witness;

pub use answer::{parse_answer, running_task};
pub use client::{Agent, Backoff, LIMITS, Limits};
pub(crate) use connect::{connect, connect_within, contact, endpoint};
pub use endpoint::Endpoint;
pub use error::{AgentError, Distrust};
pub(crate) use identity::ForeignAgent;
pub(crate) use log_archive::LogArchive;
pub use messages::{Before, Blob, CompiledPackage, Drained, PackageSource, SshHost};
pub(crate) use witness::outlives;
