//! The state alone, for commands that do not read the manifest.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::StateArgs;
use super::session::{Session, Surroundings};
use crate::Result;

/// The state of a manifest that is not read.
#[derive(Debug, Clone, Args)]
pub struct PlaceArgs {
    /// Path to the manifest; it is not read
    #[arg(value_name = "PATH", value_hint = ValueHint::FilePath, required_unless_present = "state")]
    manifest: Option<PathBuf>,

    #[command(flatten)]
    state: StateArgs,
}

impl PlaceArgs {
    /// The state file.
    pub(super) fn path(&self) -> Result<PathBuf> {
        // Without a manifest the state is named, and then the manifest does not matter.
        self.state.path(&self.manifest.clone().unwrap_or_default())
    }

    /// What a command needs that changes it.
    pub(super) fn surroundings(&self, session: &Session, command: &str) -> Result<Surroundings> {
        let path = self.path()?;
        session.keep_log(command);
        let mut surroundings = session.surroundings(path, None, false)?;
        self.state.apply(&mut surroundings.environment);
        Ok(surroundings)
    }
}
