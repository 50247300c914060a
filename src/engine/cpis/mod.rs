//! The CPIs of a run: found through manifest and CPI config, installed, and asked for `info`.
//!
//! Uses `environment`, `cpi`, `registry`, `prepare` and `jobs`. Entry points: [`Cpis`], all CPIs of a
//! manifest; [`Connection`], one that has answered `info`; [`check_az`] and [`rename`], which compare the
//! names in manifest and state; [`open_cpi()`] for commands that need a CPI but no state lock.

mod connection;
mod formats;
mod names;
mod open;
mod set;
mod source;

pub(crate) use connection::{Connection, Presence, Retries, of_cpi, show_log_line};
pub(crate) use formats::check_formats;
pub(crate) use names::{check_az, named, rename, renamed};
pub use open::{LifeOf, OpenCpi, OpenedCpi, open_cpi, open_stemcell};
pub(crate) use set::{Cpis, asking};
pub(crate) use source::{OwnedParts, Parts, job_context};
