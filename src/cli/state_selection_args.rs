//! The state of an environment, for commands that do not read the manifest.

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};

use super::env_file::{EnvFileArgs, SET_MANIFEST_HINT};
use super::session::{PreparedRun, Session};
use super::status::is_state;
use super::{StateArgs, named_file, paths};
use base::{Error, Result};
use engine::state::COMPANION_FILES;

/// The state of an environment.
#[derive(Debug, Clone, Args)]
pub struct StateSelectionArgs {
    /// Manifest or state file [default: the manifest of the env file]
    ///
    /// The manifest is not read: bosh.yml stands for bosh-state.json next to it.
    #[arg(value_name = "MANIFEST", value_hint = ValueHint::FilePath)]
    manifest: Option<PathBuf>,

    #[command(flatten)]
    state: StateArgs,

    // The content of the file supplies defaults for the other arguments.
    #[command(flatten)]
    env_file: EnvFileArgs,
}

impl StateSelectionArgs {
    /// Returns the path or URL of the state, if it is named.
    pub(super) fn named(&self) -> Result<Option<PathBuf>> {
        if self.manifest.is_none() && !self.state.is_named() {
            return Ok(None);
        }
        if let Some(file) = self.manifest.as_ref().filter(|_| !self.state.is_named())
            && (paths::is_state_name(file) || is_state(&paths::expand(file, paths::home().as_deref())))
        {
            return paths::state(Some(file), Path::new("")).map(Some);
        }
        // A named state needs no manifest.
        let state = self.state.path_or_url(&self.manifest.clone().unwrap_or_default())?;
        if let Some(file) = &self.manifest {
            named_file::check_is_manifest(file, &state)?;
        }
        Ok(Some(state))
    }

    /// Returns the error for a named manifest that does not exist, for commands that need only its state.
    fn missing_manifest_error(&self) -> Option<Error> {
        let manifest =
            self.manifest.as_ref().filter(|file| !self.state.is_named() && !paths::is_state_name(file))?;
        let path = paths::expand(manifest, paths::home().as_deref());
        (!paths::is_url(&path) && !paths::exists(&path))
            .then(|| manifest::missing_manifest_or_state_error(&path))
    }

    /// Returns the path or URL of the state. Fails if nothing exists of the environment, neither manifest nor
    /// state.
    pub(super) fn path(&self) -> Result<PathBuf> {
        let state = self.named()?.ok_or_else(|| {
            let error = Error::usage("no environment is given")
                .with_hint("name its manifest or its state: `monopile SAME-COMMAND MANIFEST`");
            match self.env_file.is_ignored() {
                true => error,
                false => error.with_hint(SET_MANIFEST_HINT),
            }
        })?;
        let with_suffix = |suffix: &str| format!("{}{suffix}", state.display());
        let has_state = || {
            paths::is_url(&state)
                || paths::exists(&state)
                || COMPANION_FILES.iter().any(|(suffix, _)| paths::exists(with_suffix(suffix)))
        };
        match self.missing_manifest_error() {
            Some(error) if !has_state() => Err(error),
            _ => Ok(state),
        }
    }

    /// Begins a run that changes the state.
    pub(super) fn prepare_run(&self, session: &Session, command: &str) -> Result<PreparedRun> {
        let path = self.path()?;
        session.begin_log(command);
        let mut prepared_run = session.prepare_run(path, None, false)?;
        self.state.apply(&mut prepared_run.run);
        Ok(prepared_run)
    }
}
