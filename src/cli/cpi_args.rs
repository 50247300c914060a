//! How to speak with the CPI: flags of every command that calls one.

use std::time::Duration;

use clap::{Args, value_parser};

use super::duration;
use engine::environment::Environment;
use engine::protocol::HIGHEST_API_VERSION;

/// Which version of the CPI API to speak.
#[derive(Debug, Clone, Args)]
pub struct CpiVersionArgs {
    /// Speak no higher CPI API version than this, whatever the CPI says
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=i64::from(HIGHEST_API_VERSION)))]
    pub cpi_api_version: Option<u32>,
}

/// How a run speaks with the CPI.
#[derive(Debug, Clone, Args)]
pub struct CpiArgs {
    /// Which version to speak.
    #[command(flatten)]
    pub version: CpiVersionArgs,

    /// Stop waiting for a CPI process after this time; it goes on, and the next run picks up its answer
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    cpi_timeout: Option<Duration>,
}

impl CpiArgs {
    /// Has a run wait for the CPI as told.
    pub(super) fn apply(&self, environment: &mut Environment) {
        environment.cpi_timeout = self.cpi_timeout;
    }
}
