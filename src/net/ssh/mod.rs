//! SSH as a client: private keys in every form people keep them in, and sessions.
//!
//! A session serves a jumpbox (`artifact::fetch`) or the reverse tunnel to a VM (`engine::registry::tunnel`); both are
//! async and bring a runtime of their own.

mod error;
mod key;
mod session;

pub use error::SshError;
pub use key::{Key, KeyError};
pub use session::{Forwarded, Server, Session, connect};
