//! Env files: defaults for the command line of one environment.
//!
//! `.monopile.yml` in the working directory, or in the nearest directory above it, names the manifest, ops
//! files, variables, vars store, state and general options. Options on the command line override the file.
//! Ops files and variables on the command line come after those of the file.
//!
//! A file that was found, not named, is used only after the operator has trusted it, see [`mod@trust`].

mod command_line;
mod find;
mod read;
mod trust;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, ValueHint};

use super::paths;
use base::text::shell_word;
use base::{Error, Result};
use find::{OpenedEnvFile, SearchResult};
use manifest::{EnvFileVariables, Inputs};

pub(super) use command_line::{
    CommandLine, REQUIRED_ARGS, Remark, can_supply, map_all_args, parse_command_line,
    parse_partial_command_line, with_optional_positionals,
};
pub(super) use find::FILE_NAME;

/// The env file of commands that take a manifest, a state or a vars store.
#[derive(Debug, Clone, Args)]
pub(super) struct EnvFileArgs {
    /// Take defaults from this env file [default: .monopile.yml, here or in a directory above]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, value_parser = unread_file_parser())]
    env_file: Option<EnvFile>,

    /// Ignore env files
    #[arg(long, hide_short_help = true, conflicts_with = "env_file")]
    no_env_file: bool,
}

/// The hint for a command line without an environment.
pub(super) const SET_MANIFEST_HINT: &str =
    "or set `manifest` in a file .monopile.yml, here or in a directory above";

impl EnvFileArgs {
    /// Returns true if env files are ignored.
    pub(super) fn is_ignored(&self) -> bool {
        self.no_env_file
    }
}

/// Parses `--env-file` to a path. [`parse_command_line`] replaces the value with the content.
fn unread_file_parser() -> impl TypedValueParser<Value = EnvFile> {
    OsStringValueParser::new().map(|path: OsString| EnvFile {
        path: path.into(),
        real_path: PathBuf::new(),
        content: Arc::default(),
    })
}

/// An env file that applies to this command line.
#[derive(Debug, Clone)]
pub(super) struct EnvFile {
    path: PathBuf,
    /// The path without symbolic links.
    real_path: PathBuf,
    content: Arc<Content>,
}

/// The content of an env file. Paths are relative to the working directory.
#[derive(Debug, Default)]
struct Content {
    /// The text of the file.
    text: Vec<u8>,
    manifest: Option<PathBuf>,
    vars_store: Option<PathBuf>,
    state: Option<PathBuf>,
    ops_files: Vec<PathBuf>,
    env_file_variables: EnvFileVariables,
    /// Options by name, such as `cpi-timeout`.
    options: Vec<FileOption>,
    /// The keys of the file in their order.
    keys: Vec<String>,
}

/// An option in an env file, with its position.
#[derive(Debug)]
struct FileOption {
    name: String,
    values: Vec<OsString>,
    option_use: OptionUse,
    place: String,
}

/// The use of an option's value. `monopile trust` shows what an env file runs, reads and contacts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OptionUse {
    /// Changes how monopile works.
    Setting,
    /// Names a file to read.
    File,
    /// Is a recipient of encrypted files, or names a file of recipients to read.
    Recipients,
    /// Names a file of CPIs to run.
    CpiConfig,
    /// Names a directory from which compiled CPIs are run.
    ProgramDirectory,
    /// Names a bucket or directory with compiled CPIs that run.
    SharedCache,
    /// Names a root file system in which CPIs run, or this machine.
    Userland,
    /// Chooses the renderer of job templates, which may be Ruby.
    Renderer,
    /// Names a server to contact.
    Server,
}

impl Content {
    /// Returns the vars store: the one that the file names, or the existing default one of the environment.
    fn vars_store_in_use(&self) -> Option<PathBuf> {
        let default = || {
            let manifest = self.manifest.as_ref()?;
            let state = paths::state(self.state.as_deref(), manifest).ok()?;
            paths::default_vars_store(manifest, &state).filter(|store| store.exists())
        };
        self.vars_store.clone().or_else(default)
    }
}

impl EnvFileArgs {
    /// Returns the env file for this command line.
    pub(super) fn file(&self) -> Option<&EnvFile> {
        self.env_file.as_ref()
    }
}

/// Remembers that the operator trusts an env file: the named one, or the one that is found from the working
/// directory. Returns its path, and a description of the programs, files and hosts that it uses.
pub(super) fn trust(path: Option<&Path>) -> Result<(PathBuf, String)> {
    let file = read::read(&open_env_file(path, "monopile trust")?)?;
    trust::trust(&file)?;
    let description = trust::description(&file);
    Ok((file.real_path, description))
}

/// Applies an env file to a command without running it. Returns the programs, files and hosts that it would
/// use.
pub(super) fn describe(grammar: &clap::Command, path: &Path, command: &str) -> Result<String> {
    let file = read::read(&OpenedEnvFile::named(path)?)?;
    let args = ["monopile".into(), command.into(), "--env-file".into(), path.into()];
    match parse_command_line(grammar, &args) {
        CommandLine::Understood(..) => Ok(trust::description(&file)),
        CommandLine::Unusable(_, error) => Err(error),
        CommandLine::Refused(error) => Err(Error::usage(error.to_string())),
    }
}

/// The result of revoking the trust in an env file.
pub(super) struct Revocation {
    pub(super) path: PathBuf,
    pub(super) was_trusted: bool,
}

/// Forgets that the operator trusted an env file.
pub(super) fn revoke(path: Option<&Path>) -> Result<Revocation> {
    let opened_file = open_env_file(path, "monopile trust --revoke")?;
    let was_trusted = trust::revoke(&opened_file)?;
    Ok(Revocation { path: opened_file.real_path, was_trusted })
}

/// Opens the named env file, or the one that is found. `command` is for a hint.
fn open_env_file(path: Option<&Path>, command: &str) -> Result<OpenedEnvFile> {
    if let Some(path) = path {
        return OpenedEnvFile::named(&paths::expand(path, paths::home().as_deref()));
    }
    match find::find()? {
        SearchResult::File(opened_file) => Ok(opened_file),
        SearchResult::Foreign(path) => {
            Err(Error::usage(format!("env file '{}' belongs to another user", path.display())).with_hint(
                format!("to trust it: `monopile trust {}`", shell_word(&path.display().to_string())),
            ))
        }
        SearchResult::Nothing => {
            Err(Error::usage("no env file .monopile.yml exists here or in a directory above")
                .with_hint(format!("name the env file: `{command} FILE`")))
        }
    }
}

impl EnvFile {
    /// Adds ops files and variables before those of the command line.
    pub(super) fn insert_into(&self, inputs: &mut Inputs) {
        inputs.ops_files.splice(0..0, self.content.ops_files.iter().cloned());
        inputs.env_file_variables = self.content.env_file_variables.clone();
    }

    /// Returns the manifest that the file names.
    pub(super) fn manifest(&self) -> Option<&PathBuf> {
        self.content.manifest.as_ref()
    }

    /// Returns true if the file names this manifest, or no manifest.
    pub(super) fn is_about(&self, manifest: &Path) -> bool {
        let real_path = |path: &Path| {
            let path = paths::expand(path, paths::home().as_deref());
            paths::real_or_absolute(&path).unwrap_or(path)
        };
        self.content
            .manifest
            .as_deref()
            .is_none_or(|named_manifest| real_path(named_manifest) == real_path(manifest))
    }

    /// Returns the values of the options with one of these uses.
    fn values_of(&self, uses: &[OptionUse]) -> impl Iterator<Item = String> {
        let options = self.content.options.iter().filter(|option| uses.contains(&option.option_use));
        options.flat_map(|option| &option.values).map(|value| value.to_string_lossy().into_owned())
    }
}
