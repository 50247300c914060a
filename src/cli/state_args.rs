//! The state and its lock: options of commands that use the state.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueHint};

use super::{duration, named_file, paths};
use base::files::input::list_files_hint;
use base::text::shell_word;
use base::{Error, Result};
use engine::run_context::RunContext;

/// The state and its lock.
#[derive(Debug, Clone, Args)]
pub struct StateArgs {
    /// Use this state [default: bosh-state.json next to bosh.yml]
    ///
    /// A URL names a state in a bucket: s3://BUCKET/KEY, gs://BUCKET/KEY or az://CONTAINER/KEY. Keep the
    /// state: without it, no command knows which VM and disks exist.
    #[arg(long, value_name = "FILE|URL", value_hint = ValueHint::FilePath)]
    state: Option<PathBuf>,

    /// If another run holds the state, wait for it up to this long
    ///
    /// With 0, fail at once with exit code 4.
    #[arg(long, value_name = "DURATION", default_value = "0", value_parser = duration::parse)]
    wait_for_lock: Duration,
}

impl StateArgs {
    /// Returns true if the state is named, so no manifest is needed.
    pub(super) fn is_named(&self) -> bool {
        self.state.is_some()
    }

    /// Returns the path or URL of the state for this manifest.
    pub(super) fn path_or_url(&self, manifest: &Path) -> Result<PathBuf> {
        if let Some(state) = &self.state
            && paths::expand(state, paths::home().as_deref()).is_dir()
        {
            let name = state.display();
            return Err(Error::invalid(format!("'{name}' (--state) is a directory"))
                .with_hint(list_files_hint(state)));
        }
        paths::state(self.state.as_deref(), manifest)
    }

    /// Returns the path or URL of the state for a command that reads the manifest. Reports a missing manifest
    /// before a missing state.
    pub(super) fn path_or_url_with_manifest(&self, manifest: &Path) -> Result<PathBuf> {
        if paths::is_url(manifest) {
            let url = manifest.display();
            return Err(Error::invalid(format!("'{url}' is the URL of a state, not a manifest")).with_hint(
                format!(
                    "name the manifest, and pass the state with `--state {}`",
                    shell_word(&url.to_string())
                ),
            ));
        }
        if manifest != Path::new("-") && !paths::exists(manifest) {
            return Err(manifest::missing_manifest_error(manifest));
        }
        self.path_or_url(manifest)
    }

    /// Like [`Self::path_or_url_with_manifest`], for a command that needs a state: without one, fails if the
    /// file cannot be a manifest.
    pub(super) fn path_of_deployed(&self, manifest: &Path) -> Result<PathBuf> {
        let state = self.path_or_url_with_manifest(manifest)?;
        named_file::check_is_manifest(manifest, &state)?;
        Ok(state)
    }

    /// Applies the timeout to a run.
    pub(super) fn apply(&self, run: &mut RunContext) {
        run.lock_timeout = self.wait_for_lock;
    }
}
