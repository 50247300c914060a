//! The environment that a command is on, with its CPIs: flags of every command that calls one.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::choices::Templates;
use super::session::{RunContext, Session};
use super::{ConfigArgs, CpiArgs, ManifestArgs, StateArgs};
use base::Result;
use manifest::Inputs;

/// An environment and its CPIs.
#[derive(Debug, Clone, Args)]
pub(super) struct EnvironmentArgs {
    #[command(flatten)]
    manifest: ManifestArgs,

    #[command(flatten)]
    configs: ConfigArgs,

    #[command(flatten)]
    state: StateArgs,

    /// What renders job templates
    #[arg(long, value_enum, value_name = "MODE", default_value_t)]
    pub(super) templates: Templates,

    /// Where the CPI's packages are installed, instead of the cache
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    package_dir: Option<PathBuf>,

    #[command(flatten)]
    cpi: CpiArgs,
}

impl EnvironmentArgs {
    /// The state file.
    pub(super) fn state(&self) -> Result<PathBuf> {
        self.state.path(&self.manifest.manifest)
    }

    /// The highest version to speak with a CPI.
    pub(super) fn cpi_api_version(&self) -> Option<u32> {
        self.cpi.version.cpi_api_version
    }

    /// The manifest with what goes into it, and what a run needs. `keep_work`: the scratch directory stays.
    pub(super) fn begin(&self, session: &Session, keep_work: bool) -> Result<(Inputs, RunContext)> {
        let state = self.state()?;
        let inputs = self.configs.beside(self.manifest.inputs_beside(&state));
        let mut surroundings = session.surroundings(state, self.package_dir.as_deref(), keep_work)?;
        self.state.apply(&mut surroundings.environment);
        self.cpi.apply(&mut surroundings.environment);
        Ok((inputs, surroundings))
    }
}
