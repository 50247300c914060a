//! A client for the bare metal API of a standalone Ironic (docs.openstack.org,
//! `ironic/latest/contributor/webapi.html` and "Bare Metal API v1 reference").
//!
//! Entry points: [`AccessSettings::check`], which turns settings into an endpoint and credentials;
//! [`Client::connect`]; [`Client::list`], [`Client::create`], [`Client::update`] and [`Client::delete`] for
//! each [`Collection`]; [`Client::set_power`] and [`Client::provision`] for nodes.
//!
//! ```no_run
//! # use base::redact::Redactor;
//! # use ironic::{Client, Collection, AccessSettings, ListOptions};
//! # fn main() -> base::Result<()> {
//! let endpoint = Some("http://127.0.0.1:6385".into());
//! let settings = AccessSettings { endpoint, ..AccessSettings::default() };
//! let ironic = Client::connect(settings.check(&Redactor::default())?)?;
//! let targets = ironic.list(Collection::Targets, &ListOptions::default())?;
//! # Ok(())
//! # }
//! ```
//!
//! Objects of the API are JSON objects, as the server sends them. The API's documentation is incomplete and
//! partly wrong. This client relies on the observed behaviour of a real server:
//!
//! - An error is JSON in a string in JSON, in two shapes. See `error.rs`.
//! - Status 409 means "exists already" or "the node is locked". Only a lock is temporary, so the client
//!   retries only that.
//! - The `next` link of a list drops the filter, and is present even on the last page. So the client builds
//!   the addresses of pages itself.
//! - The server masks passwords (`******`), and writing the mask would replace the password. So the client
//!   changes single keys and never writes a mask.
//! - Ironic copies the properties of a volume target into the boot script verbatim. So the client refuses
//!   control characters.

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

pub use access::{AccessSettings, CheckedAccess, SettingError};
pub use client::Client;
pub use error::{IronicError, Refusal};
pub use node::{Power, Provision};
pub use patch::Patch;
pub use resource::{Collection, ListOptions, SortKey};
pub use values::{is_secret, mask_usernames};
pub use version::Microversion;
pub use wire::{ANSWER_TIMEOUT, CONNECT_TIMEOUT, MAX_ANSWER_BYTES};
