//! Tools for CPI authors: single calls, conformance runs, and transcripts.
//!
//! A [`Bench`] calls an executable or a transcript ([`Source`]). [`info`] and [`call`] make one call,
//! [`check()`] runs all checks, a [`Recorder`] writes a transcript, and [`play_once`] answers one request
//! from a transcript.
//!
//! The protocol is that of `cpi-api-rpc.md` and the method pages of the BOSH documentation.
//! [`engine::cpi::Method`] lists the methods.

mod bench;
mod call;
pub mod check;
mod exchange;
mod player;
mod redacted;
mod reply;
mod transcript;

pub use bench::{Bench, Source, Versions};
pub use call::{Called, call, info, plain_or_json};
pub use check::check;
pub use exchange::{Ended, Exchange, Watching};
pub use player::{play_once, rewind};
pub use reply::{Content, Refusal, Reply};
pub use transcript::Recorder;
