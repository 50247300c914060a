//! For people who write CPIs: calls made by hand and shown exactly, conformance runs, and transcripts that stand in for
//! a CPI.
//!
//! A [`Bench`] asks an executable or a transcript ([`Source`]); [`info`] and [`call`] make one call, [`check()`] a
//! conformance run, a [`Recorder`] writes all of it down, and [`play_once`] is a CPI made of a transcript.
//!
//! How callers speak with a CPI is `cpi-api-rpc.md` and the method pages of the BOSH documentation; which methods there
//! are is [`engine::cpi::Method`].

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
pub use reply::{Refusal, Reply, Said};
pub use transcript::Recorder;
