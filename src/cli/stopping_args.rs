//! The options of commands that stop jobs.

use std::time::Duration;

use clap::Args;

use super::duration;
use engine::deploy::StopOptions;

/// Options for stopping jobs.
#[derive(Debug, Clone, Args)]
pub struct StoppingArgs {
    /// Stop jobs without their pre-stop and drain scripts
    #[arg(long)]
    skip_drain: bool,

    /// Give up draining after this time, and stop the jobs
    #[arg(long, value_name = "DURATION", default_value = "30m", value_parser = duration::parse)]
    drain_timeout: Duration,
}

impl StoppingArgs {
    /// Converts the options for the engine.
    pub(super) fn options(&self) -> StopOptions {
        StopOptions { skip_drain: self.skip_drain, drain_timeout: self.drain_timeout }
    }
}
