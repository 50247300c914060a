//! The manifest, state and CPIs of the commands that plan or make CPI calls, such as `create-env`, `plan` and
//! `recreate`.

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};

use super::choices::RendererArgs;
use super::session::{PreparedRun, Session};
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

    #[command(flatten)]
    pub(super) renderer: RendererArgs,

    /// Install the packages of the CPI in this directory [default: in the cache]
    #[arg(long, hide_short_help = true, value_name = "DIR",
          value_hint = ValueHint::DirPath)]
    package_dir: Option<PathBuf>,

    #[command(flatten)]
    cpi: CpiArgs,
}

impl EnvironmentArgs {
    pub(super) fn manifest(&self) -> &Path {
        &self.manifest.manifest
    }

    /// Returns the name of the environment, if the manifest has one that needs no variable.
    pub(super) fn environment_name(&self) -> Option<String> {
        let inputs = self
            .configs
            .add_to(self.manifest.inputs_with_default_store(&self.state_path_or_url().ok()?).ok()?);
        manifest::read_environment_name(&inputs)
    }

    /// Returns the path or URL of the state.
    pub(super) fn state_path_or_url(&self) -> Result<PathBuf> {
        self.state.path_or_url_with_manifest(&self.manifest.manifest)
    }

    /// Returns the highest API version to use with a CPI.
    pub(super) fn cpi_api_version(&self) -> Option<u32> {
        self.cpi.version.cpi_api_version
    }

    /// Returns the inputs of the manifest and a run context. `keep_scratch` keeps the scratch directory.
    pub(super) fn begin(&self, session: &Session, keep_scratch: bool) -> Result<(Inputs, PreparedRun)> {
        let state = self.state_path_or_url()?;
        let inputs = self.configs.add_to(self.manifest.inputs_with_default_store(&state)?);
        let mut prepared_run = session.prepare_run(state, self.package_dir.as_deref(), keep_scratch)?;
        self.state.apply(&mut prepared_run.run);
        self.cpi.apply(&mut prepared_run.run)?;
        Ok((inputs, prepared_run))
    }
}
