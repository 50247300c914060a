//! Tools for CPI authors: single calls, conformance runs, and transcripts.
//!
//! A [`CpiUnderTest`] calls an executable or a transcript ([`AnswerSource`]). [`call_info`] and [`call()`]
//! make one call, [`check()`] runs all checks, a [`Recorder`] writes a transcript, and [`play_once`] answers
//! one request from a transcript.
//!
//! The protocol is described by `cpi-api-rpc.md` and the method pages of the BOSH documentation.
//! [`engine::cpi::Method`] lists the methods.

mod call;
pub mod check;
mod cpi_under_test;
mod exchange;
mod raw_answer;
mod redacted;
mod replay;
mod transcript;

pub use call::{FinishedCall, call, call_info, parse_argument};
pub use check::check;
pub use cpi_under_test::{AnswerSource, CpiUnderTest, Versions};
pub use exchange::{Exchange, ExchangeControl, ProcessEnd};
pub use raw_answer::{AnswerBody, CpiErrorAnswer, RawAnswer};
pub use replay::{play_once, rewind};
pub use transcript::Recorder;
