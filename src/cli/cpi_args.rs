//! Options of commands that call a CPI.

use std::time::Duration;

use clap::Args;

use super::choices::number;
use super::duration;
use engine::protocol::HIGHEST_API_VERSION;
use engine::run_context::RunContext;

/// The version of the CPI API.
#[derive(Debug, Clone, Args)]
pub struct CpiVersionArgs {
    /// Use at most this version of the CPI API, from 1 to 3 [default: the highest of the CPI]
    #[arg(long, hide_short_help = true, value_name = "N",
          value_parser = number(1, Some(HIGHEST_API_VERSION)))]
    pub cpi_api_version: Option<u32>,
}

/// Options for calls of the CPI.
#[derive(Debug, Clone, Args)]
pub struct CpiArgs {
    /// The version of the CPI API.
    #[command(flatten)]
    pub version: CpiVersionArgs,

    /// Stop waiting for a CPI call after this time [default: no limit]
    ///
    /// The process of a call that changes something is not killed. Run the same command again: it waits for
    /// that process and picks up its answer. The process of any other call is killed.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    cpi_timeout: Option<Duration>,
}

impl CpiArgs {
    /// Returns `--cpi-timeout`.
    pub(super) fn timeout(&self) -> Option<Duration> {
        self.cpi_timeout
    }

    /// Applies the timeout to a run.
    pub(super) fn apply(&self, run: &mut RunContext) {
        run.cpi_timeout = self.cpi_timeout;
    }
}
