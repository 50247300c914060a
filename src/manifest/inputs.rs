//! Command-line inputs of a manifest: the file itself, ops files and variables.

use std::path::PathBuf;

use crate::VarsProgram;
use base::encryption::Encryption;
use yaml::Node;

/// The sources of a manifest. Relative paths start at the caller's working directory, and [`super::load()`]
/// reads the files.
#[derive(Debug, Clone, Default)]
pub struct Inputs {
    /// The path of the manifest.
    pub manifest: PathBuf,
    /// Ops files in the order of application.
    pub ops_files: Vec<PathBuf>,
    /// `--cpi-config`: the file with several CPIs.
    pub cpi_config: Option<PathBuf>,
    /// `--cloud-config`: the file with availability zones, if they are not in the manifest.
    pub cloud_config: Option<PathBuf>,
    /// `--var NAME=VALUE` as written; VALUE is YAML.
    pub vars: Vec<String>,
    /// `--var-file NAME=FILE` as written; the file's text is the variable's value.
    pub var_files: Vec<String>,
    /// `--vars-file PATH`.
    pub vars_files: Vec<PathBuf>,
    /// `--vars-exec COMMAND`.
    pub vars_exec: Vec<VarsProgram>,
    /// `--vars-env PREFIX`.
    pub vars_env: Vec<String>,
    /// Variables of the env file. They have the lowest precedence.
    pub env_file_variables: EnvFileVariables,
    /// The environment variables among which `vars_env` selects. Errors of `vars_exec` programs hide the
    /// secrets among them.
    pub env_vars: Vec<(String, String)>,
    /// `--vars-store PATH`: the file with generated values.
    pub vars_store: Option<PathBuf>,
    /// The vars store to use if `vars_store` is not given and a variable declared in `variables:` has no
    /// value.
    pub default_vars_store: Option<PathBuf>,
    /// True if several machines share the state. The vars store must also be shared, so it has no default.
    pub has_shared_state: bool,
    /// Encryption of the vars store.
    pub encryption: Encryption,
    /// The time at which generated values are saved in the vars store.
    pub save_policy: SavePolicy,
    /// True if the environment is deployed, so that an earlier run had values for its variables.
    pub is_deployed: bool,
}

/// The time at which generated values are saved in the vars store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SavePolicy {
    /// They are saved as soon as they are generated.
    #[default]
    AtOnce,
    /// The caller saves them with [`VarsStore::attach_and_save`](crate::vars_store::VarsStore::attach_and_save),
    /// for example when the operator has confirmed the plan.
    ByCaller,
    /// They are used for this run only.
    Never,
}

impl Inputs {
    /// Returns true if a program prints variables.
    pub fn has_programs(&self) -> bool {
        !(self.vars_exec.is_empty() && self.env_file_variables.vars_exec.is_empty())
    }

    /// Removes the programs that print variables, for callers that must not run any.
    #[must_use]
    pub fn without_programs(mut self) -> Self {
        self.vars_exec.clear();
        self.env_file_variables.vars_exec.clear();
        self
    }

    /// Returns true if the vars store must be named, and is not.
    pub(crate) fn lacks_vars_store_name(&self) -> bool {
        self.has_shared_state && self.vars_store.is_none()
    }
}

/// Variables of an env file. A variable that [`Inputs`] sets itself takes precedence. The order of precedence
/// of the kinds is the same as there.
#[derive(Debug, Clone, Default)]
pub struct EnvFileVariables {
    /// Values by variable name.
    pub vars: Vec<(String, Node)>,
    /// Files by variable name; the file's text is the value.
    pub var_files: Vec<(String, PathBuf)>,
    /// Files with variables.
    pub vars_files: Vec<PathBuf>,
    /// Programs that print variables.
    pub vars_exec: Vec<VarsProgram>,
    /// Prefixes of environment variables.
    pub vars_env: Vec<String>,
}
