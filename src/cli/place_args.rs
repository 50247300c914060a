//! The state alone, for commands that do not read the manifest.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::StateArgs;
use super::env_file::EnvFileArgs;
use super::session::{RunContext, Session};
use base::{Error, Result};

/// The state of a manifest that is not read.
#[derive(Debug, Clone, Args)]
pub struct PlaceArgs {
    /// Path to the manifest; it is not read
    #[arg(value_name = "PATH", value_hint = ValueHint::FilePath)]
    manifest: Option<PathBuf>,

    #[command(flatten)]
    state: StateArgs,

    // What it says is the default of the others.
    #[command(flatten)]
    _env_file: EnvFileArgs,
}

impl PlaceArgs {
    /// The state file, if anything says which.
    pub(super) fn named(&self) -> Result<Option<PathBuf>> {
        if self.manifest.is_none() && !self.state.is_named() {
            return Ok(None);
        }
        // Where the state is named, the manifest does not matter.
        self.state.place(&self.manifest.clone().unwrap_or_default()).map(Some)
    }

    /// The state file.
    pub(super) fn path(&self) -> Result<PathBuf> {
        self.named()?.ok_or_else(|| {
            Error::usage("which environment? Name its manifest, or its state with --state PATH")
        })
    }

    /// What a command needs that changes it.
    pub(super) fn surroundings(&self, session: &Session, command: &str) -> Result<RunContext> {
        let path = self.path()?;
        session.keep_log(command);
        let mut surroundings = session.surroundings(path, None, false)?;
        self.state.apply(&mut surroundings.environment);
        Ok(surroundings)
    }
}
