//! A client of Ironic's bare metal API (docs.openstack.org, `ironic/latest/contributor/webapi.html` and
//! "Bare Metal API v1 reference").
//!
//! ```no_run
//! # use monopile::ironic::{Client, Collection, Filter, Settings};
//! # fn main() -> monopile::Result<()> {
//! let settings = Settings { endpoint: Some("http://127.0.0.1:6385".into()), ..Settings::default() };
//! let ironic = Client::connect(settings.access()?)?;
//! let targets = ironic.list(Collection::Targets, &Filter::default())?;
//! # Ok(())
//! # }
//! ```
//!
//! Things of the API are JSON objects as the server sends them. The volume API differs from node to node of the
//! documentation; what a real server does and this client relies on:
//!
//! - An error is JSON in a string in JSON, in two shapes. See `error.rs`.
//! - 409 stands for "exists already" and for "the node is locked"; only the latter passes, and is waited for.
//! - The `next` link of a list forgets the filter and is there even when nothing follows, so page addresses are
//!   made here.
//! - Passwords come masked (`******`), and a written mask would replace the password. So single keys are
//!   changed, and a mask is never written.
//! - What is in a volume target goes into the boot script verbatim: control characters are refused.

mod access;
mod client;
mod error;
mod keystone;
mod node;
mod patch;
mod resource;
mod values;
mod version;
mod wire;

pub use access::{Access, Settings};
pub use client::Client;
pub use error::{IronicError, Refusal};
pub use node::{Power, Provision};
pub use patch::Patch;
pub use resource::{Collection, Filter, Object};
pub use values::is_secret;
pub use version::Microversion;
