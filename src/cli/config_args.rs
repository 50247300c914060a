//! `--cpi-config` and `--cloud-config`: configuration files of a director, for commands that read the
//! manifest with its CPIs.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::paths;
use manifest::Inputs;

/// Configuration files besides the manifest.
#[derive(Debug, Clone, Args)]
pub struct ConfigArgs {
    /// Take the CPIs from this CPI config of a director [default: `cpis` of the manifest]
    #[arg(long, hide_short_help = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    cpi_config: Option<PathBuf>,

    /// Take zones, types and networks from this cloud config of a director [default: the manifest]
    #[arg(long, hide_short_help = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    cloud_config: Option<PathBuf>,
}

impl ConfigArgs {
    /// Adds the configuration files to the inputs.
    pub(super) fn add_to(&self, inputs: Inputs) -> Inputs {
        let home = paths::home();
        let expand = |path: &PathBuf| paths::expand(path, home.as_deref());
        Inputs {
            cpi_config: self.cpi_config.as_ref().map(expand),
            cloud_config: self.cloud_config.as_ref().map(expand),
            ..inputs
        }
    }
}
