//! The version, userland and timeout of the CPI.

use std::path::Path;
use std::time::Duration;

use clap::{Args, ValueHint};

use super::choices::number;
use super::{duration, paths};
use base::Result;
use engine::protocol::HIGHEST_API_VERSION;
use engine::run_context::RunContext;

/// The version of the CPI API.
#[derive(Debug, Clone, Args)]
pub struct CpiVersionArgs {
    /// Use at most this version of the CPI API, from 1 to 3 [default: the highest of the CPI]
    #[arg(long, hide_short_help = true, value_name = "N", allow_negative_numbers = true,
          value_parser = number(1, Some(HIGHEST_API_VERSION), 2))]
    pub cpi_api_version: Option<u32>,
}

/// The userland in which the CPI is compiled and runs.
#[derive(Debug, Clone, Args)]
pub struct CpiUserlandArgs {
    /// Compile and run CPIs of releases in this root file system [default: that of the manifest, or host]
    ///
    /// A directory, a tarball, a disk with ext4, a stemcell tarball, an image (oci://HOST/NAME:TAG), or
    /// `host` for this machine. Overrides `userland` in the manifest and in the CPI config.
    #[arg(long, hide_short_help = true, value_name = "FILE|DIR|URL|host", value_hint = ValueHint::AnyPath)]
    cpi_userland: Option<String>,
}

impl CpiUserlandArgs {
    /// Applies the userland to a run.
    pub(super) fn apply(&self, run: &mut RunContext) -> Result<()> {
        run.cpi_userland = match self.cpi_userland.as_deref() {
            Some(path) if path != "host" && !paths::is_url(Path::new(path)) => {
                let path = paths::absolute(&paths::expand(Path::new(path), paths::home().as_deref()))?;
                Some(path.display().to_string())
            }
            other => other.map(str::to_owned),
        };
        Ok(())
    }
}

/// Options for calls of the CPI.
#[derive(Debug, Clone, Args)]
pub struct CpiArgs {
    /// The version of the CPI API.
    #[command(flatten)]
    pub version: CpiVersionArgs,

    /// The userland of the CPI.
    #[command(flatten)]
    pub userland: CpiUserlandArgs,

    /// Stop waiting for a CPI call after this time [default: no limit]
    ///
    /// The process of a call that changes something on record is not killed. Run the same command again: it
    /// waits for that process and records its outcome. The process of any other call, such as a reboot, is
    /// killed.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    cpi_timeout: Option<Duration>,
}

impl CpiArgs {
    /// Returns `--cpi-timeout`.
    pub(super) fn timeout(&self) -> Option<Duration> {
        self.cpi_timeout
    }

    /// Applies timeout and userland to a run.
    pub(super) fn apply(&self, run: &mut RunContext) -> Result<()> {
        run.cpi_timeout = self.cpi_timeout;
        self.userland.apply(run)
    }
}
