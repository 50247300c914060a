//! How to speak with the CPI: flags of every command that calls one.

use clap::{Args, value_parser};

use crate::cpi::HIGHEST_API_VERSION;

/// How to speak with the CPI.
#[derive(Debug, Clone, Args)]
pub struct CpiArgs {
    /// Speak no higher CPI API version than this, whatever the CPI says
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=i64::from(HIGHEST_API_VERSION)))]
    pub cpi_api_version: Option<u32>,
}
