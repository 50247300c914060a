//! The CPI's RPC: types, negotiation of the contract, and the process runner.
//!
//! A CPI is an executable: one JSON request on standard input, one JSON document on standard output, a new
//! process per call. Its log goes to standard error, its exit status means nothing.
//! Source of the formats: `cpi-api-rpc.md`, `cpi-api-v1.md` and `cpi-api-v2.md` of the BOSH documentation.

mod client;
mod contract;
mod error;
pub mod install;
mod process;
mod rpc;

pub use client::{Call, Cpi, Watch};
pub use contract::{Contract, HIGHEST_API_VERSION};
pub use error::{CpiError, CpiErrorKind};
pub use process::{Executable, Files};
pub(crate) use rpc::ANSWER_LIMIT;
pub use rpc::{CreatedVm, Info, cid, parse_answer};
