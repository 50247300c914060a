//! The CPIs of a run: found through the manifest and the CPI config, installed, and asked for `info`.
//!
//! Entry points: [`Cpis`], all CPIs of a manifest; [`CpiConnection`], one that has answered `info`;
//! [`check_az`] and [`record_migrated_from`], which compare the names in the manifest and the state;
//! [`open_cpi()`] for commands that need a CPI but no state lock; [`EarlyInstallation`], which installs a CPI
//! beside other work.

mod connection;
mod cpis;
mod early_installation;
mod formats;
mod names;
mod opened_cpi;
mod source;

pub(crate) use connection::{CpiConnection, Presence, Retries, show_log_line, with_cpi_context};
pub(crate) use cpis::{CpiName, Cpis, describe_off, info_stage_name};
pub(crate) use early_installation::EarlyInstallation;
pub(crate) use formats::check_formats;
pub(crate) use names::{apply_migrated_from, check_az, check_named_cpi, record_migrated_from};
pub use opened_cpi::{OpenCpiRequest, OpenedCpi, VmAndDiskInputs, open_cpi, open_stemcell};
pub(crate) use source::{CpiInputs, OwnedCpiInputs, ResolvedCpis, job_context};
