//! Where the state is and how long to wait for it: flags of every command that locks it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueHint};

use super::{duration, paths};
use base::{Error, Result};
use engine::environment::Environment;

/// The state and its lock.
#[derive(Debug, Clone, Args)]
pub struct StateArgs {
    /// State file, or s3://BUCKET/KEY, gs://BUCKET/KEY, az://CONTAINER/KEY [default: PATH without its extension, and
    /// -state.json]
    #[arg(long, value_name = "PATH|URL", value_hint = ValueHint::FilePath)]
    state: Option<PathBuf>,

    /// Wait so long for another run that holds the state, instead of failing at once
    #[arg(long, value_name = "DURATION", default_value = "0", value_parser = duration::parse)]
    wait_for_lock: Duration,
}

impl StateArgs {
    /// Whether the state file is named, so that no manifest has to be.
    pub(super) fn is_named(&self) -> bool {
        self.state.is_some()
    }

    /// The state file, where the manifest is this one.
    pub(super) fn place(&self, manifest: &Path) -> Result<PathBuf> {
        paths::state(self.state.as_deref(), manifest)
    }

    /// The same, for a command that reads the manifest: a slip in its name would else be told as a state that is not
    /// there.
    pub(super) fn path(&self, manifest: &Path) -> Result<PathBuf> {
        if manifest != Path::new("-") && !paths::is_there(manifest) {
            return Err(Error::invalid(format!("manifest '{}' does not exist", manifest.display())));
        }
        self.place(manifest)
    }

    /// Has a run wait for the lock as told.
    pub(super) fn apply(&self, environment: &mut Environment) {
        environment.lock_patience = self.wait_for_lock;
    }
}
