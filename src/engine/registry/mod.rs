//! The registry of contract v1: where a CPI leaves settings for the agent of a VM, disks included, that the IaaS
//! cannot be told about later (docs-bosh, `cpi-api-v1.md`).
//!
//! `GET`, `PUT` and `DELETE /instances/<id>/settings` with Basic auth, on loopback only. A settings document is
//! stored as it came and answered as `{"settings": "<the document's text>", "status": "ok"}`, in the way of
//! bosh-init's `registry/instance_handler.go`: 201 for a new document and 200 for another one under the same id,
//! 404 with `"status": "not_found"` for an unknown id.
//!
//! One difference between the two ways in: what comes through the tunnel to the VM may read without credentials,
//! because CPIs (OpenStack's for one) give agents an endpoint without any. Whoever connects on this machine needs
//! them for everything.

mod content;
mod for_calls;
mod server;
pub(crate) mod tunnel;

pub(crate) use for_calls::{ForCalls, loopback, serve};
pub use server::{BODY_TIMEOUT, Credentials, HEADER_TIMEOUT, Registry};
