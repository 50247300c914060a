//! What a command runs in: the renderer, the redactor, the clock, and on demand the
//! [`Environment`](engine::environment::Environment) that the library asks for.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::env_file::Remark;
use super::globals::Globals;
use super::run_log::{Logged, RunLog};
use super::run_record::{Recorded, RunRecord};
use super::scratch::Scratch;
use super::table::Layout;
use super::{duration, encryption_args, logging, paths, signals};
use sha2::{Digest, Sha256};

use crate::ui;
use artifact::Cache;
use base::timing::Clock;
use base::{Error, Result};
use base::{events::Reporter, redact::Redactor};
use engine::environment::{Ask, Confirm, Environment, Paths};
use engine::state::{Address, Shared, Storage};

/// How a command behaves towards who called it.
#[derive(Debug, Clone, Copy)]
pub(super) struct OutputMode {
    /// It prints something of its own, which has standard output to itself.
    pub(super) product: bool,
    /// It takes so long that a person wants to see how far it is, product or not.
    pub(super) followed: bool,
    /// It can change the world, and so keeps a log.
    pub(super) logged: bool,
    /// It only looks, or hands over to another program: a signal is the usual way to end it.
    pub(super) looks: bool,
}

/// One run of the program.
pub(super) struct Session {
    pub(super) globals: Globals,
    pub(super) reporter: Reporter,
    pub(super) redactor: Redactor,
    pub(super) clock: Clock,
    log: Option<RunLog>,
    /// The command as the log calls it, once there is one.
    command: OnceLock<String>,
    record: RunRecord,
    looks: bool,
    product: bool,
}

/// An [`Environment`] whose scratch directory is removed when this is dropped.
pub(super) struct RunContext {
    pub(super) environment: Environment,
    scratch: Scratch,
    /// Nothing is pruned while the run may need it.
    _cache: Cache,
}

impl Drop for RunContext {
    fn drop(&mut self) {
        // A CPI that was left at work may still read an image there.
        if self.environment.left_at_work.load(Ordering::SeqCst) {
            self.scratch.leave();
        }
    }
}

impl Session {
    /// Chooses the renderer and sets up logging.
    pub(super) fn begin(globals: &Globals, output_mode: &OutputMode) -> Session {
        let redactor = Redactor::default();
        globals.redact.iter().for_each(|name| redactor.add_name(name));
        let terminal = std::io::stdout().is_terminal();
        let color = !globals.no_color && paths::variable("NO_COLOR").is_none();
        let dumb = paths::variable("TERM").is_some_and(|term| term == "dumb");
        let options = ui::Options {
            format: match () {
                () if globals.json => ui::Format::Json,
                // Most products are not followed stage by stage.
                () if output_mode.product && !output_mode.followed => ui::Format::Plain,
                () if globals.tty => ui::Format::Progress,
                () if terminal && ui::can_redraw() && !dumb => ui::Format::Progress,
                () => ui::Format::Plain,
            },
            color: color && (terminal || globals.tty),
            unicode: unicode(),
            dumb,
            verbose: globals.verbose > 0,
            product: output_mode.product,
        };
        let renderer = ui::renderer(options, redactor.clone());
        let log = output_mode.logged.then(|| RunLog::new(redactor.clone()));
        logging::install(globals, &redactor, &renderer, log.as_ref());
        let shown = match &log {
            Some(log) => Arc::new(Logged { log: log.clone(), next: renderer.sink() }),
            None => renderer.sink(),
        };
        let record = RunRecord::new(redactor.clone());
        let sink = Arc::new(Recorded { record: record.clone(), next: shown });
        Session {
            globals: globals.clone(),
            reporter: Reporter::new(sink),
            redactor,
            clock: Clock::start(),
            log,
            command: OnceLock::new(),
            record,
            looks: output_mode.looks,
            product: output_mode.product,
        }
    }

    /// Says what there is to say about the env file.
    pub(super) fn remark(&self, remarks: Vec<Remark>) {
        for remark in remarks {
            match remark {
                Remark::Note(text) => self.reporter.note(text),
                Remark::Warning(text) => self.reporter.warn(text),
            }
        }
    }

    /// Begins the log of this run: its command line is right, and now it may change the world. Without a place for
    /// a log the run goes on.
    pub(super) fn keep_log(&self, command: &str) {
        let Some(log) = &self.log else { return };
        let _ = self.command.set(command.to_owned());
        let directory = paths::base("XDG_STATE_HOME", ".local/state").map(|base| base.join("logs"));
        if let Err(error) = directory.and_then(|directory| log.open(&directory, command)) {
            self.reporter.warn(format!("this run keeps no log: {}", error.chain().join(": ")));
        }
        log.path().into_iter().for_each(|path| self.keep_whole(path));
    }

    /// Where the records of runs are.
    pub(super) fn history_dir() -> Result<PathBuf> {
        paths::base("XDG_STATE_HOME", ".local/state").map(|base| base.join("history"))
    }

    /// Begins the record of a run that keeps a log. Without a place for it the run goes on.
    fn keep_record(&self, state: &Storage) {
        let Some(command) = self.command.get() else { return };
        let log = self.log().and_then(RunLog::path);
        let begun = Session::history_dir()
            .and_then(|directory| self.record.begin(&directory, command, &state.resolved()?.place(), log));
        if let Err(error) = begun {
            self.reporter.warn(format!("this run is not in the history: {}", error.chain().join(": ")));
        }
    }

    /// Ends the record of this run, where one was begun.
    pub(super) fn end_record(&self, exit_code: u8, elapsed: Duration, summary: &str, declined: bool) {
        if let Err(error) = self.record.finish(exit_code, elapsed, summary, declined) {
            self.reporter
                .warn(format!("how this run ended is not in the history: {}", error.chain().join(": ")));
        }
    }

    /// What was done up to now, by a command whose product is not something else; `failed` if that is why it ends.
    pub(super) fn report(&self, failed: bool) -> Option<base::events::Report> {
        self.log().filter(|_| !self.product)?;
        let mut report = self.record.report(failed)?;
        // A successful delete-env has removed its state, unless the CPI left doubts.
        let deletes = !failed && self.command.get().is_some_and(|command| command == "delete-env");
        let is_gone = |state: &String| paths::is_url(Path::new(state)) || !Path::new(state).exists();
        report.state = report.state.filter(|state| !(deletes && is_gone(state)));
        Some(report)
    }

    /// The log of this run, where one was begun.
    pub(super) fn log(&self) -> Option<&RunLog> {
        self.log.as_ref().filter(|log| log.path().is_some())
    }

    /// Paths, signals and everything else a run that changes the world needs.
    pub(super) fn surroundings(
        &self,
        state: PathBuf,
        package_dir: Option<&Path>,
        keep_work: bool,
    ) -> Result<RunContext> {
        let state = self.storage(&state)?;
        self.keep_record(&state);
        let cache = self.cache_dir()?;
        let cache_in_use = Cache::open(&cache)?;
        let mut scratch = Scratch::new(&cache)?;
        if keep_work {
            scratch.keep();
            self.reporter.note(format!("The scratch directory is kept: '{}'", scratch.path().display()));
        }
        let home = paths::home();
        let package_dir =
            package_dir.map(|dir| paths::absolute(&paths::expand(dir, home.as_deref()))).transpose()?;
        let paths = Paths {
            state,
            work: scratch.path().to_owned(),
            cache,
            data: paths::base("XDG_STATE_HOME", ".local/state")?,
            package_dir,
            executable: paths::executable()?,
        };
        for path in [&paths.work, &paths.cache, &paths.data, &paths.executable] {
            self.keep_whole(path);
        }
        let environment = Environment {
            paths,
            reporter: self.reporter.clone(),
            ask_secret: self.interactive().then(|| -> Ask { Arc::new(ui::prompt::secret) }),
            confirm: self.interactive().then(|| -> Confirm { Arc::new(ui::prompt::confirm) }),
            redactor: self.redactor.clone(),
            signals: signals::count((!self.looks).then_some(&self.reporter))?,
            variables: paths::environment(),
            parallel: usize::from(self.globals.parallel),
            keep_work,
            sha2: self.globals.sha2,
            lock_patience: Duration::ZERO,
            cpi_timeout: None,
            left_at_work: Arc::default(),
            insecure_agent: false,
            clock: self.clock.clone(),
        };
        Ok(RunContext { environment, scratch, _cache: cache_in_use })
    }

    /// Where the state is kept that `state` names: a path or a URL.
    pub(super) fn storage(&self, state: &Path) -> Result<Storage> {
        let text = state.to_string_lossy();
        self.keep_whole(state);
        let encryption = encryption_args::current();
        let calls = |of: &str| {
            let name = Sha256::digest(of.as_bytes());
            let name: String = name.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
            paths::base("XDG_STATE_HOME", ".local/state").map(|base| base.join("calls").join(name))
        };
        let Some(address) = Address::parse(&text)? else {
            return Ok(Storage::from(state).sealed(encryption, calls(&text)?));
        };
        let mut shared =
            Shared::new(address, &paths::environment(), Some(paths::executable()?), &self.redactor);
        if let Some(lease) = paths::variable("MONOPILE_STATE_LEASE") {
            let lease = duration::parse(&lease.to_string_lossy())
                .map_err(|why| Error::usage(format!("MONOPILE_STATE_LEASE cannot be used: {why}")))?;
            shared = shared.with_lease(lease);
        }
        Storage::shared(&shared, encryption, calls(&shared.identity())?)
    }

    /// Keeps a path of this run whole where it is shown, and the name of its file.
    fn keep_whole(&self, path: &Path) {
        self.redactor.keep(&path.to_string_lossy());
        path.file_name().into_iter().for_each(|name| self.redactor.keep(&name.to_string_lossy()));
    }

    /// `--cache-dir`, or where the user keeps caches.
    pub(super) fn cache_dir(&self) -> Result<PathBuf> {
        match &self.globals.cache_dir {
            Some(dir) => paths::absolute(&paths::expand(dir, paths::home().as_deref())),
            None => paths::base("XDG_CACHE_HOME", ".cache"),
        }
    }

    /// A scratch directory, for commands that need nothing else.
    pub(super) fn scratch(&self) -> Result<Scratch> {
        Scratch::new(&self.cache_dir()?)
    }

    /// Returns the layout of lists: columns that fit the terminal, or tab-separated values in a pipe.
    pub(super) fn layout(&self) -> Layout {
        Layout::new(self.columns(), self.redactor.clone())
    }

    /// Returns the layout of reports, which keep their columns in a pipe.
    pub(super) fn report_layout(&self) -> Layout {
        match self.columns() {
            Some(columns) => Layout::new(Some(columns), self.redactor.clone()),
            None => Layout::unlimited(self.redactor.clone()),
        }
    }

    fn columns(&self) -> Option<usize> {
        (self.globals.tty || std::io::stdout().is_terminal()).then(ui::columns)
    }

    /// Whether somebody can be asked.
    pub(super) fn interactive(&self) -> bool {
        !self.globals.non_interactive
            && !self.globals.json
            && std::io::stdin().is_terminal()
            && std::io::stdout().is_terminal()
    }
}

/// Whether the locale speaks UTF-8, by the variables that decide it, in their order.
fn unicode() -> bool {
    ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .find_map(paths::variable)
        .and_then(|value| value.into_string().ok())
        .is_some_and(|locale| {
            let locale = locale.to_ascii_lowercase();
            locale.contains("utf-8") || locale.contains("utf8")
        })
}
