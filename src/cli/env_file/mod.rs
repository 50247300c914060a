//! Env files: defaults for the command line of one environment.
//!
//! `.monopile.yml` in the working directory, or in the nearest directory above, names manifest, ops files,
//! variables, vars store, state and general flags. Flags of the command line override the file; ops files and
//! variables of the command line come after those of the file.

mod command_line;
mod find;
mod read;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, ValueHint};

use super::paths;
use manifest::{Inputs, Preset};

pub(super) use command_line::{CommandLine, Remark, everywhere, guess, understand};

/// The env file of commands that take a manifest, a state or a vars store.
#[derive(Debug, Clone, Args)]
pub(super) struct EnvFileArgs {
    /// Take defaults from this file [default: .monopile.yml, here or in a directory above]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, value_parser = unread())]
    env_file: Option<EnvFile>,

    /// Ignore env files
    #[arg(long, conflicts_with = "env_file")]
    no_env_file: bool,
}

/// Parses `--env-file` to a path. [`understand`] replaces the value with the content.
fn unread() -> impl TypedValueParser<Value = EnvFile> {
    OsStringValueParser::new().map(|path: OsString| EnvFile { path: path.into(), content: Arc::default() })
}

/// An env file that applies to this command line.
#[derive(Debug, Clone)]
pub(super) struct EnvFile {
    path: PathBuf,
    content: Arc<Content>,
}

/// The content of an env file. Paths are relative to the working directory.
#[derive(Debug, Default)]
struct Content {
    manifest: Option<PathBuf>,
    vars_store: Option<PathBuf>,
    state: Option<PathBuf>,
    ops_files: Vec<PathBuf>,
    preset: Preset,
    /// Flags by name, such as `cpi-timeout`.
    flags: Vec<Flag>,
    /// The keys of the file in their order.
    keys: Vec<String>,
}

/// A flag in an env file, with its position.
#[derive(Debug)]
struct Flag {
    name: String,
    values: Vec<OsString>,
    place: String,
}

impl EnvFileArgs {
    /// Returns the env file for this command line.
    pub(super) fn file(&self) -> Option<&EnvFile> {
        self.env_file.as_ref()
    }
}

impl EnvFile {
    /// Adds ops files and variables before those of the command line.
    pub(super) fn beneath(&self, inputs: &mut Inputs) {
        inputs.ops_files.splice(0..0, self.content.ops_files.iter().cloned());
        inputs.preset = self.content.preset.clone();
    }

    /// Returns the manifest that the file names.
    pub(super) fn manifest(&self) -> Option<&PathBuf> {
        self.content.manifest.as_ref()
    }

    /// Returns true if the file names this manifest, or none.
    pub(super) fn is_about(&self, manifest: &Path) -> bool {
        let real = |path: &Path| {
            let path = paths::expand(path, paths::home().as_deref());
            path.canonicalize().or_else(|_| std::path::absolute(&path)).unwrap_or(path)
        };
        self.content.manifest.as_deref().is_none_or(|own| real(own) == real(manifest))
    }
}
