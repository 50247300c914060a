//! The context of a run: paths, reporter, redactor, prompts, signals, clock, and the locked state.
//!
//! Uses `state`. Entry points: [`Environment`], which `cli` builds; [`lock::open`], which locks the state;
//! [`signals::check`], which ends a run at a safe place after a signal.

pub(crate) mod lock;
pub(crate) mod signals;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::Duration;

use crate::state::Storage;
use base::Result;
use base::timing::Clock;
use base::{events::Reporter, redact::Redactor};

/// Where things live on this machine. `cli` resolves them from flags, the environment and `$HOME`.
#[derive(Debug, Clone)]
pub struct Paths {
    /// Where the state is kept.
    pub state: Storage,
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

/// Asks a question whose answer is not shown.
pub type Ask = Arc<dyn Fn(&str) -> Result<String> + Send + Sync>;

/// Asks a question whose answer is yes or no.
pub type Confirm = Arc<dyn Fn(&str) -> Result<bool> + Send + Sync>;

/// What a run needs from its surroundings.
#[derive(Clone)]
pub struct Environment {
    /// Where things live.
    pub paths: Paths,
    /// Where events go.
    pub reporter: Reporter,
    /// Asks whoever is at the terminal for a secret; none, if nobody can be asked.
    pub ask_secret: Option<Ask>,
    /// Asks whoever is at the terminal to agree; none, if nobody can be asked, which takes flags as given.
    pub confirm: Option<Confirm>,
    /// What must not be shown.
    pub redactor: Redactor,
    /// How many SIGINT, SIGTERM or SIGHUP have arrived (low byte: count, next byte: the first signal's
    /// number).
    pub signals: Arc<AtomicUsize>,
    /// Environment variables external programs (CPIs, packaging scripts) inherit.
    pub variables: Vec<(String, String)>,
    /// `--parallel`: how many downloads, uploads or compilations at once.
    pub parallel: usize,
    /// `--keep-workdir`: the scratch space outlives the run.
    pub keep_work: bool,
    /// `--sha2`: use SHA-2 digests towards the agent.
    pub sha2: bool,
    /// `--wait-for-lock`: how long another run may hold the state before this one gives up.
    pub lock_patience: Duration,
    /// `--cpi-timeout`: how long to wait for a CPI process. It is never ended: what it did must become known.
    pub cpi_timeout: Option<Duration>,
    /// Set when a CPI process was left at work, which may still read in the scratch space.
    pub left_at_work: Arc<AtomicBool>,
    /// `--insecure-agent`: speak to an agent that nothing vouches for.
    pub insecure_agent: bool,
    /// Measures where the time of the run goes.
    pub clock: Clock,
}

impl Environment {
    /// The first signal that asked for an end, if one came.
    pub fn interrupted(&self) -> Option<u8> {
        signals::first(self)
    }

    /// Has the run end as if SIGPIPE had come: nobody reads what it prints.
    pub fn end(&self) {
        const SIGPIPE: usize = 13;
        self.signals.store((SIGPIPE << 8) | 1, std::sync::atomic::Ordering::SeqCst);
    }

    /// Whether a second one came, so that nothing is to be waited for.
    pub fn insisted(&self) -> bool {
        signals::insisted(self).is_some()
    }
}
