//! The registry of contract v1: an HTTP server in which a CPI leaves settings for the agent of a VM,
//! including its disks, because it cannot pass them to the IaaS later (docs-bosh, `cpi-api-v1.md`).
//!
//! It serves `GET`, `PUT` and `DELETE /instances/<id>/settings` with Basic auth, on loopback only. A settings
//! document is stored as received, and returned as `{"settings": "<the document's text>", "status": "ok"}`,
//! like bosh-init's `registry/instance_handler.go`: 201 for a new document, 200 for a replaced one, 404 with
//! `"status": "not_found"` for an unknown id.
//!
//! Requests through the tunnel from the VM may read without credentials, because some CPIs (such as
//! OpenStack's) give agents an endpoint without credentials. Requests from this machine always need them.

mod call_registry;
mod content;
mod server;
pub(crate) mod tunnel;

pub(crate) use call_registry::{CallRegistry, RegistryRuntime, loopback_address, serve};
pub use server::{BODY_TIMEOUT, HEADER_TIMEOUT, RegistryCredentials, RegistryServer};
pub use tunnel::{FORWARDING_RETRY_TIMEOUT, LOGIN_RETRY_TIMEOUT};
