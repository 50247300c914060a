//! What the operator named on the command line for a manifest: the file itself, ops files, variables.

use std::path::PathBuf;

use base::encryption::Encryption;
use yaml::Node;

/// The sources a manifest is made of. Paths are absolute or relative to the working directory of the
/// caller; nothing here is read before [`super::load()`].
#[derive(Debug, Clone, Default)]
pub struct Inputs {
    /// The manifest.
    pub manifest: PathBuf,
    /// Ops files in the order they are applied.
    pub ops_files: Vec<PathBuf>,
    /// `--cpi-config`: the CPIs, where there are several.
    pub cpi_config: Option<PathBuf>,
    /// `--cloud-config`: the availability zones, where the manifest does not have them.
    pub cloud_config: Option<PathBuf>,
    /// `--var NAME=VALUE`, as written; VALUE is YAML.
    pub vars: Vec<String>,
    /// `--var-file NAME=PATH`, as written; the variable is the file's text.
    pub var_files: Vec<String>,
    /// `--vars-file PATH`.
    pub vars_files: Vec<PathBuf>,
    /// `--vars-env PREFIX`.
    pub vars_env: Vec<String>,
    /// What is set beneath all these.
    pub preset: Preset,
    /// The environment that `vars_env` selects from, as the caller saw it.
    pub environment: Vec<(String, String)>,
    /// `--vars-store PATH`: where generated values are kept.
    pub vars_store: Option<PathBuf>,
    /// The vars store to use when `vars_store` is not given, the manifest has a `variables:` block and one
    /// of them has no value otherwise.
    pub default_vars_store: Option<PathBuf>,
    /// The state is shared by several machines, and so must be what is generated: there is no default for where.
    pub shared_state: bool,
    /// How the vars store is kept.
    pub encryption: Encryption,
    /// Nothing is written: values that have to be generated are forgotten again.
    pub discard_generated: bool,
}

/// Variables from an env file. Every variable that [`Inputs`] sets itself wins over these; among them the kinds have
/// the same order of precedence.
#[derive(Debug, Clone, Default)]
pub struct Preset {
    /// Values by name.
    pub vars: Vec<(String, Node)>,
    /// Files by the name of the variable that is their text.
    pub var_files: Vec<(String, PathBuf)>,
    /// Files with variables.
    pub vars_files: Vec<PathBuf>,
    /// Prefixes of variables of the environment.
    pub vars_env: Vec<String>,
}
