//! The env file: what an environment is made of, so that a command line in its directory needs no flags.
//!
//! `.monopile.yml` in the working directory, or in the nearest directory above it that has one, names manifest, ops
//! files, variables, vars store, state and general flags. [`command_line`] finds it, reads it, and puts what it
//! says beneath the command line: a flag that is given wins. Ops files and variables add up: those of the command
//! line come after those of the file.

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

/// Which env file: flags of every command that takes a manifest, its state or its vars store.
#[derive(Debug, Clone, Args)]
pub(super) struct EnvFileArgs {
    /// Take what is not given here from this file [default: .monopile.yml, here or in a directory above]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, value_parser = unread())]
    env_file: Option<EnvFile>,

    /// Use no env file
    #[arg(long, conflicts_with = "env_file")]
    no_env_file: bool,
}

/// The value of `--env-file` as clap first sees it; [`understand`] replaces it with the file read.
fn unread() -> impl TypedValueParser<Value = EnvFile> {
    OsStringValueParser::new().map(|path: OsString| EnvFile { path: path.into(), content: Arc::default() })
}

/// An env file that applies to this command line.
#[derive(Debug, Clone)]
pub(super) struct EnvFile {
    path: PathBuf,
    content: Arc<Content>,
}

/// What an env file says. Paths are usable from the working directory.
#[derive(Debug, Default)]
struct Content {
    manifest: Option<PathBuf>,
    vars_store: Option<PathBuf>,
    state: Option<PathBuf>,
    ops_files: Vec<PathBuf>,
    preset: Preset,
    /// Flags by their names, `cpi-timeout`, with what would follow them and the place where the file says so.
    flags: Vec<Flag>,
    /// The keys that are there, as they stand there.
    keys: Vec<String>,
}

/// A flag that an env file sets.
#[derive(Debug)]
struct Flag {
    name: String,
    values: Vec<OsString>,
    place: String,
}

impl EnvFileArgs {
    /// The file that applies.
    pub(super) fn file(&self) -> Option<&EnvFile> {
        self.env_file.as_ref()
    }
}

impl EnvFile {
    /// Puts ops files and variables beneath those of the command line.
    pub(super) fn beneath(&self, inputs: &mut Inputs) {
        inputs.ops_files.splice(0..0, self.content.ops_files.iter().cloned());
        inputs.preset = self.content.preset.clone();
    }

    /// The manifest that it names.
    pub(super) fn manifest(&self) -> Option<&PathBuf> {
        self.content.manifest.as_ref()
    }

    /// Whether it is made for this manifest: the one it names, or any if it names none.
    pub(super) fn is_about(&self, manifest: &Path) -> bool {
        let real = |path: &Path| {
            let path = paths::expand(path, paths::home().as_deref());
            path.canonicalize().or_else(|_| std::path::absolute(&path)).unwrap_or(path)
        };
        self.content.manifest.as_deref().is_none_or(|own| real(own) == real(manifest))
    }
}
