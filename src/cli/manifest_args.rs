//! The manifest with its ops files and variables: common arguments of many commands.

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};

use super::env_file::EnvFileArgs;
use super::vars_exec_args::VarsExecArgs;
use super::{encryption, paths};
use base::{Error, Result};
use manifest::Inputs;
use manifest::variables::GivenValues;

/// The options that describe a manifest, with those of its configs, by the ids of their arguments.
pub(super) const MANIFEST_OPTIONS: [&str; 11] = [
    "vars",
    "var_files",
    "vars_files",
    "vars_exec",
    "vars_env",
    "vars_store",
    "ops_files",
    "env_file",
    "no_env_file",
    "cpi_config",
    "cloud_config",
];

/// A manifest, its ops files and its variables.
#[derive(Debug, Clone, Args)]
pub struct ManifestArgs {
    /// Manifest of the environment
    #[arg(value_name = "MANIFEST", value_hint = ValueHint::FilePath)]
    pub manifest: PathBuf,

    #[command(flatten)]
    options: ManifestOptions,
}

/// The ops files and variables of a manifest.
#[derive(Debug, Clone, Args)]
pub(super) struct ManifestOptions {
    /// Set a variable; VALUE is YAML (repeatable)
    ///
    /// Not for secrets: other users of this machine can see the command line. From highest to lowest
    /// precedence: --var, --var-file, --vars-file, --vars-exec, --vars-env, then the env file and the vars
    /// store. Within one kind, the last one takes precedence.
    #[arg(short = 'v', long = "var", value_name = "NAME=VALUE", value_hint = ValueHint::Other)]
    pub vars: Vec<String>,

    /// Set a variable to the content of a file (repeatable)
    #[arg(long = "var-file", value_name = "NAME=FILE", value_hint = ValueHint::Other)]
    pub var_files: Vec<String>,

    /// Load variables from a YAML file (repeatable)
    #[arg(short = 'l', long = "vars-file", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub vars_files: Vec<PathBuf>,

    #[command(flatten)]
    vars_exec: VarsExecArgs,

    /// Load variables from the environment: with MY, MY_name sets `name` (repeatable)
    #[arg(long, value_name = "PREFIX", value_hint = ValueHint::Other)]
    pub vars_env: Vec<String>,

    /// Load variables from a YAML file, and save generated ones there
    ///
    /// Keep this file: it holds the credentials of the environment, and other commands need it. Commands that
    /// only read, such as plan and status, do not change it. Without this option, create-env keeps generated
    /// variables in bosh-vars.yml, next to the state of bosh.yml; a state in a bucket needs the option.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub vars_store: Option<PathBuf>,

    /// Apply operations from a YAML file to the manifest (repeatable)
    #[arg(short = 'o', long = "ops-file", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub ops_files: Vec<PathBuf>,

    #[command(flatten)]
    env_file: EnvFileArgs,
}

impl ManifestArgs {
    /// Returns the inputs of these arguments, with `~` expanded like in the bosh CLI.
    pub fn inputs(&self) -> Result<Inputs> {
        self.options.inputs(&self.manifest)
    }

    /// Returns the inputs with a default vars store next to `state`.
    pub fn inputs_with_default_store(&self, state: &Path) -> Result<Inputs> {
        self.options.inputs_with_default_store(&self.manifest, state)
    }
}

impl ManifestOptions {
    /// Returns the inputs for this manifest. Fails if an argument cannot be a variable.
    pub(super) fn inputs(&self, manifest: &PathBuf) -> Result<Inputs> {
        let home = paths::home();
        let expand = |path: &PathBuf| paths::expand(path, home.as_deref());
        let mut inputs = Inputs {
            manifest: expand(manifest),
            ops_files: self.ops_files.iter().map(expand).collect(),
            cpi_config: None,
            cloud_config: None,
            vars: self.vars.clone(),
            var_files: self.var_files.iter().map(|pair| expand_pair(pair, home.as_deref())).collect(),
            vars_files: self.vars_files.iter().map(expand).collect(),
            vars_exec: self.vars_exec.programs(),
            vars_env: self.vars_env.clone(),
            env_vars: paths::env_vars(),
            vars_store: self.vars_store.as_ref().map(expand),
            encryption: encryption::current(),
            ..Inputs::default()
        };
        if let Some(file) = self.env_file.file() {
            file.insert_into(&mut inputs);
        }
        GivenValues::check_arguments(&inputs)?;
        Ok(inputs)
    }

    /// Returns the manifest that the env file names.
    pub(super) fn manifest_of_env_file(&self) -> Option<&PathBuf> {
        self.env_file.file()?.manifest()
    }

    /// Returns the inputs with a default vars store next to `state`.
    pub(super) fn inputs_with_default_store(&self, manifest: &PathBuf, state: &Path) -> Result<Inputs> {
        let mut inputs = self.inputs(manifest)?;
        if let Some(store) = &inputs.vars_store
            && paths::absolute(store)? == *state
        {
            return Err(Error::usage(format!(
                "'{}' is the state and the vars store (--vars-store): they must be two files",
                store.display()
            ))
            .with_hint("name another file with --state or --vars-store"));
        }
        inputs.has_shared_state = paths::is_url(state);
        inputs.default_vars_store = paths::default_vars_store(&inputs.manifest, state);
        Ok(inputs)
    }
}

/// Expands the path of `NAME=~/file`.
fn expand_pair(pair: &str, home: Option<&Path>) -> String {
    match pair.split_once('=') {
        Some((name, path)) => format!("{name}={}", paths::expand(Path::new(path), home).display()),
        None => pair.to_owned(),
    }
}
