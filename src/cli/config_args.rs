//! Several CPIs and availability zones: flags of every command that uses a manifest for more than its text.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::paths;
use manifest::Inputs;

/// Configs beside the manifest.
#[derive(Debug, Clone, Args)]
pub struct ConfigArgs {
    /// CPIs to choose from, as the Director's CPI config [default: `cpis` of the manifest]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    cpi_config: Option<PathBuf>,

    /// Availability zones, as in the Director's cloud config [default: `azs` of the manifest]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    cloud_config: Option<PathBuf>,
}

impl ConfigArgs {
    /// The inputs with these configs.
    pub(super) fn beside(&self, inputs: Inputs) -> Inputs {
        let home = paths::home();
        let expand = |path: &PathBuf| paths::expand(path, home.as_deref());
        Inputs {
            cpi_config: self.cpi_config.as_ref().map(expand),
            cloud_config: self.cloud_config.as_ref().map(expand),
            ..inputs
        }
    }
}
