//! The context of a run: paths, reporter, redactor, prompts, signals and clock.
//!
//! Entry points: [`RunContext`], which `cli` builds; [`state_lock::open`], which locks the state;
//! [`signals::check_may_continue`], which ends a run at a safe place after a signal.

pub(crate) mod signals;
pub(crate) mod state_lock;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::state::Storage;
use artifact::{Cache, Fetcher, InterruptCheck, SharedCache};
use base::Result;
use base::signals::RunSignals;
use base::timing::Clock;
use base::{events::Reporter, redact::Redactor};
use manifest::UserlandRef;

/// The paths of a run on this machine. `cli` resolves them from options, the environment and `$HOME`.
#[derive(Debug, Clone)]
pub struct Paths {
    /// The storage of the state.
    pub storage: Storage,
    /// The scratch directory of this run. It is removed when the run ends.
    pub scratch: PathBuf,
    /// The cache, which runs and environments share (`$XDG_CACHE_HOME/monopile`).
    pub cache_directory: PathBuf,
    /// Data of built-in CPIs (`$XDG_STATE_HOME/monopile`).
    pub data_directory: PathBuf,
    /// `--package-dir`: the directory for the CPI's packages, instead of the cache.
    pub package_directory: Option<PathBuf>,
    /// This executable, which also contains the built-in CPIs and the agent.
    pub executable: PathBuf,
}

/// Asks a question whose answer is not shown.
pub type AskSecret = Arc<dyn Fn(&str) -> Result<String> + Send + Sync>;

/// Asks a question whose answer is yes or no.
pub type Confirm = Arc<dyn Fn(&str) -> Result<bool> + Send + Sync>;

/// The context of a run.
#[derive(Clone)]
pub struct RunContext {
    /// Paths on this machine.
    pub paths: Paths,
    /// `--cache`: the cache that a team shares, and the keys whose signatures are accepted.
    pub shared_cache: SharedCache,
    /// `--offline`: artifacts are not downloaded.
    pub is_offline: bool,
    /// The reporter of events.
    pub reporter: Reporter,
    /// Asks the operator for a secret; `None` if there is no terminal.
    pub ask_secret: Option<AskSecret>,
    /// Asks the operator to confirm; `None` if there is no terminal. Options then count as confirmation.
    pub confirm: Option<Confirm>,
    /// The redactor with the secrets of this run.
    pub redactor: Redactor,
    /// SIGINT, SIGTERM and SIGHUP received so far.
    pub signals: RunSignals,
    /// The environment of external programs (CPIs, packaging scripts).
    pub env_vars: Vec<(String, String)>,
    /// `--parallel`: the number of parallel downloads, uploads or compilations.
    pub parallel: usize,
    /// `--keep-scratch`: keeps the scratch directory after the run.
    pub keep_scratch: bool,
    /// `--sha2`: uses SHA-2 digests with the agent.
    pub sha2: bool,
    /// `--wait-for-lock`: the time to wait for a state that another run holds.
    pub lock_timeout: Duration,
    /// `--cpi-userland`: the userland of CPIs from releases, in place of that in the manifest. `host`, an
    /// absolute path or a URL.
    pub cpi_userland: Option<String>,
    /// `--cpi-timeout`: the time to wait for a CPI process. The process of a call that changes something on
    /// record is never killed, because its outcome must become known. Others, such as a reboot, are killed.
    pub cpi_timeout: Option<Duration>,
    /// True if the run left a CPI process running, which may still read the scratch directory.
    pub left_cpi_running: Arc<AtomicBool>,
    /// `--insecure-agent`: accepts an agent whose identity cannot be verified.
    pub insecure_agent: bool,
    /// The clock that measures the phases of the run.
    pub clock: Clock,
}

/// Returns a function that fails if one of these signals arrived.
pub fn interrupt_check(signals: &RunSignals) -> InterruptCheck {
    let signals = signals.clone();
    Arc::new(move || signals::check_signal(signals.first()))
}

impl RunContext {
    /// Forbids the use of the network for artifacts, also that of a shared cache in a bucket.
    pub fn forbid_downloads(&mut self) {
        self.is_offline = true;
        self.shared_cache = self.shared_cache.without_network();
    }

    /// Returns the userland that a CPI gets: that of `--cpi-userland`, or `declared_userland`. Returns `None`
    /// for this machine.
    pub(crate) fn userland(&self, declared_userland: Option<&UserlandRef>) -> Option<UserlandRef> {
        match &self.cpi_userland {
            Some(url) => UserlandRef::named(url),
            None => declared_userland.cloned(),
        }
    }

    /// Returns the number of the first signal, if any.
    pub fn signal(&self) -> Option<u8> {
        self.signals.first()
    }

    /// Creates the fetcher of this run, which fills `cache`. Adds the passwords of proxies to the redactor.
    pub(crate) fn create_fetcher<'c>(
        &self,
        cache: &'c Cache,
        interrupt_check: InterruptCheck,
    ) -> Result<Fetcher<'c>> {
        let fetcher = Fetcher::new(cache, &self.env_vars, interrupt_check)?;
        fetcher.secrets().iter().for_each(|secret| self.redactor.add(secret));
        let fetcher = fetcher.with_shared_cache(&self.shared_cache);
        Ok(if self.is_offline { fetcher.offline() } else { fetcher })
    }

    /// Ends the run as if SIGPIPE had arrived, because no process reads its output any longer.
    pub fn end_by_sigpipe(&self) {
        const SIGPIPE: u8 = 13;
        self.signals.set_signal(SIGPIPE);
    }

    /// Returns true if the run must not wait for a call any longer: a second signal arrived, or the first one
    /// of a command that only reads.
    pub fn must_stop_waiting(&self) -> bool {
        self.signals.signal_that_ends_calls().is_some()
    }
}
