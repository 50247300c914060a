//! An SSH client: private keys in all common formats, and sessions. Also signatures with such keys.
//!
//! A session is used for a jumpbox (`artifact::fetch`) or for the reverse tunnel to a VM
//! (`engine::registry_server::tunnel`). Sessions are async, and each of these modules has a tokio runtime of
//! its own.

mod error;
mod key;
mod session;
mod signature;

pub use error::SshError;
pub use key::{KeyError, SshKey};
pub use session::{ForwardedConnection, STEP_TIMEOUT, SshServer, SshSession, connect};
pub use signature::{SignatureError, VerifyingKey, verify};
