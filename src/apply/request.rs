//! What `create-env` and `delete-env` are asked to do, as `cli` hands it over.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use crate::manifest::Inputs;
use crate::ui::{Redactor, Reporter};

/// Where things live on this machine. `cli` resolves them from flags, the environment and `$HOME`.
#[derive(Debug, Clone)]
pub struct Paths {
    /// The state file.
    pub state: PathBuf,
    /// Scratch space of this run; its subdirectories are removed when the run ends.
    pub work: PathBuf,
    /// What may be kept from run to run and shared by environments (`$XDG_CACHE_HOME/monopile`).
    pub cache: PathBuf,
    /// Data of built-in CPIs (`$XDG_STATE_HOME/monopile`).
    pub data: PathBuf,
    /// `--package-dir`: where the CPI's packages are installed, instead of the cache.
    pub package_dir: Option<PathBuf>,
    /// This executable, which is also the built-in CPIs and agent.
    pub executable: PathBuf,
}

/// What a run needs from its surroundings.
#[derive(Clone)]
pub struct Environment {
    /// Where things live.
    pub paths: Paths,
    /// Where events go.
    pub reporter: Reporter,
    /// What must not be shown.
    pub redactor: Redactor,
    /// How many SIGINT, SIGTERM or SIGHUP have arrived (low byte: count, next byte: the first signal's number).
    pub signals: Arc<AtomicUsize>,
    /// Environment variables external programs (CPIs, packaging scripts) inherit.
    pub variables: Vec<(String, String)>,
    /// `--parallel`: how many downloads, uploads or compilations at once.
    pub parallel: usize,
    /// `--keep-workdir`: the scratch space outlives the run.
    pub keep_work: bool,
    /// `--sha2`: use SHA-2 digests towards the agent.
    pub sha2: bool,
}

/// `create-env`.
#[derive(Debug, Clone, Default)]
pub struct CreateEnv {
    /// The manifest and what goes into it.
    pub inputs: Inputs,
    /// `--recreate`: deploy even if nothing changed.
    pub recreate: bool,
    /// `--recreate-persistent-disks`: move the data to a new disk.
    pub recreate_persistent_disks: bool,
    /// `--skip-drain`.
    pub skip_drain: bool,
    /// `--forget-open-calls`: drop calls of an interrupted run whose outcome cannot be known.
    pub forget_open_calls: bool,
}

/// `delete-env`.
#[derive(Debug, Clone, Default)]
pub struct DeleteEnv {
    /// The manifest and what goes into it.
    pub inputs: Inputs,
    /// `--skip-drain`.
    pub skip_drain: bool,
    /// `--forget-open-calls`: drop calls of an interrupted run whose outcome cannot be known.
    pub forget_open_calls: bool,
}
