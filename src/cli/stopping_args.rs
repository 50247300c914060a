//! How jobs are stopped: flags of commands that stop them on the way to something else.

use std::time::Duration;

use clap::Args;

use super::duration;
use engine::deploy::Stopping;

/// How jobs are stopped.
#[derive(Debug, Clone, Args)]
pub struct StoppingArgs {
    /// Don't run drain and pre-stop scripts
    #[arg(long)]
    skip_drain: bool,

    /// Stop jobs that still drain after this time
    #[arg(long, value_name = "DURATION", default_value = "30m", value_parser = duration::parse)]
    drain_timeout: Duration,
}

impl StoppingArgs {
    /// As the library takes it.
    pub(super) fn stopping(&self) -> Stopping {
        Stopping { skip_drain: self.skip_drain, drain_timeout: self.drain_timeout }
    }
}
