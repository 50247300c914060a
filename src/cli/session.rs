//! The session of a command: the renderer, the redactor, the clock, and on demand a
//! [`RunContext`](engine::run_context::RunContext) for the engine.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::env_file::Remark;
use super::env_vars::{self, Variable};
use super::globals::{Globals, JsonForm};
use super::hint_commands::{CompletingSink, RepeatedArgs};
use super::run_log::{LoggingSink, RunLog};
use super::run_recorder::{RecordingSink, RunRecorder};
use super::scratch::Scratch;
use super::table::Layout;
use super::{duration, encryption, logging, paths, shared_cache, signals};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use crate::ui::{self, bosh::BoshDocument};
use artifact::{Cache, InterruptCheck};
use base::signals::RunSignals;
use base::timing::Clock;
use base::{Error, ErrorKind, Result};
use base::{events::Reporter, redact::Redactor};
use engine::run_context::{AskSecret, Confirm, Paths, RunContext, interrupt_check};
use engine::state::{BucketPrefix, BucketSettings, BucketUrl, Storage};

/// The kind of output of a command.
#[derive(Debug, Clone, Copy)]
pub(super) struct OutputMode {
    /// True if the command has output of its own, for which standard output is reserved.
    pub(super) is_stdout_reserved: bool,
    /// True if the command shows progress even if standard output is reserved.
    pub(super) shows_progress: bool,
    /// True if the command prints the stages of a long run on standard error.
    pub(super) prints_stages: bool,
    /// True if the command can change an environment. Only then can [`Session::begin_log`] begin a log.
    pub(super) may_begin_log: bool,
    /// True if a signal is the usual end of the command.
    pub(super) ends_by_signal: bool,
}

/// One run of the program.
pub(super) struct Session {
    pub(super) globals: Globals,
    pub(super) reporter: Reporter,
    pub(super) redactor: Redactor,
    pub(super) clock: Clock,
    log: Option<RunLog>,
    /// The document of `--json=bosh`.
    document: Option<BoshDocument>,
    /// The name of the command in the log and the history, once the log has begun.
    command: OnceLock<String>,
    /// The reason why this run has no log, until it is reported.
    log_error: Mutex<Option<Error>>,
    recorder: RunRecorder,
    /// The signals of the run, once it has begun.
    signals: OnceLock<RunSignals>,
    ends_by_signal: bool,
    is_stdout_reserved: bool,
    repeated_args: RepeatedArgs,
}

/// A [`RunContext`] with its scratch directory, which is removed on drop.
pub(super) struct PreparedRun {
    pub(super) run: RunContext,
    scratch: Scratch,
    /// Keeps other runs from pruning the cache.
    _cache: Cache,
}

impl Drop for PreparedRun {
    fn drop(&mut self) {
        // Uploads read files in the scratch directory, so they end before it is removed.
        self.run.shared_cache.finish();
        // A CPI that still runs may read an image in the directory.
        if self.run.left_cpi_running.load(Ordering::SeqCst) {
            self.scratch.leave();
        }
    }
}

impl Session {
    /// Chooses the renderer and sets up logging. `repeated_args` complete the commands in hints.
    pub(super) fn begin(globals: &Globals, output_mode: &OutputMode, repeated_args: RepeatedArgs) -> Session {
        let redactor = Redactor::default();
        globals.redact.iter().for_each(|name| redactor.add_name(name));
        let is_terminal = std::io::stdout().is_terminal();
        let allows_color = !globals.no_color && has_colors();
        let is_dumb = is_dumb();
        let options = ui::Options {
            format: match () {
                () if globals.json == Some(JsonForm::Bosh) => ui::Format::Bosh,
                () if globals.prints_json() => ui::Format::Json,
                () if output_mode.is_stdout_reserved && !output_mode.shows_progress => ui::Format::Plain,
                () if globals.tty => ui::Format::Progress,
                () if is_terminal && ui::can_redraw() && !is_dumb => ui::Format::Progress,
                () => ui::Format::Plain,
            },
            allows_color: allows_color && (is_terminal || globals.tty),
            shows_unicode: is_utf8_locale(),
            is_dumb,
            is_verbose: globals.verbose > 0,
            is_stdout_reserved: output_mode.is_stdout_reserved,
            prints_stages: output_mode.prints_stages,
        };
        let renderer = ui::create_renderer(options, redactor.clone());
        let log = output_mode.may_begin_log.then(|| RunLog::new(redactor.clone()));
        logging::install(globals, &redactor, &renderer, log.as_ref());
        let renderer_sink = match &log {
            Some(log) => Arc::new(LoggingSink { log: log.clone(), next: renderer.sink() }),
            None => renderer.sink(),
        };
        let recorder = RunRecorder::new(redactor.clone());
        let recording_sink = Arc::new(RecordingSink { recorder: recorder.clone(), next: renderer_sink });
        let sink = Arc::new(CompletingSink { repeated_args: repeated_args.clone(), next: recording_sink });
        let reporter = Reporter::new(sink);
        logging::unknown_level_warning().into_iter().for_each(|warning| reporter.warn(warning));
        Session {
            globals: globals.clone(),
            reporter,
            redactor,
            clock: Clock::start(),
            log,
            document: renderer.document().cloned(),
            command: OnceLock::new(),
            log_error: Mutex::new(None),
            recorder,
            signals: OnceLock::new(),
            ends_by_signal: output_mode.ends_by_signal,
            is_stdout_reserved: output_mode.is_stdout_reserved,
            repeated_args,
        }
    }

    /// Completes the commands in a text of standard output with the manifest and the options of this run.
    pub(super) fn complete_commands(&self, text: &str) -> String {
        self.repeated_args.complete(text)
    }

    /// Returns true if the command line has this long option, which the environment may also set.
    pub(super) fn has_option(&self, option: &str) -> bool {
        self.repeated_args.has_option(option)
    }

    /// Returns the document of `--json=bosh`.
    pub(super) fn document(&self) -> Option<&BoshDocument> {
        self.document.as_ref()
    }

    /// Begins the document of `--json=bosh` with the path of the manifest, like the bosh CLI.
    pub(super) fn begin_document(&self, manifest: &Path) {
        if let Some(document) = &self.document {
            let path = paths::absolute(&paths::expand(manifest, paths::home().as_deref()));
            let path = path.unwrap_or_else(|_| manifest.to_owned());
            document.add_line(format!("Deployment manifest: '{}'\n", path.display()));
        }
    }

    /// Prints the remarks about the env file.
    pub(super) fn remark(&self, remarks: Vec<Remark>) {
        for remark in remarks {
            match remark {
                Remark::Note(text) => self.reporter.note(text),
                Remark::Warning(text) => self.reporter.warn(text),
            }
        }
    }

    /// Begins the log of this run. Call it after the arguments were checked. If it fails, the run continues
    /// without a log, and [`Self::begin_record`] reports that.
    pub(super) fn begin_log(&self, command: &str) {
        let Some(log) = &self.log else { return };
        let _ = self.command.set(command.to_owned());
        if let Err(error) = env_vars::LOGS.path().and_then(|directory| log.open(&directory, command)) {
            *self.log_error.lock() = Some(error);
        }
        log.path().into_iter().for_each(|path| self.exempt_path(path));
    }

    /// Begins the record of a run that has a log. If it fails, the run continues without a record. A problem
    /// that also prevents the log is reported once.
    fn begin_record(&self, storage: &Storage) {
        let Some(command) = self.command.get() else { return };
        let log = self.log().and_then(RunLog::path);
        let result = env_vars::HISTORY.path().and_then(|directory| {
            self.recorder.begin(&directory, command, &storage.resolve_links()?.path_or_url(), log)
        });
        let (log_error, record_error) = (self.log_error.lock().take(), result.err());
        let errors = match (log_error, record_error) {
            (Some(log_error), Some(record_error)) if log_error.hints() == record_error.hints() => {
                [Some(log_error.context("this run has no log and is missing in the history")), None]
            }
            (log_error, record_error) => [
                log_error.map(|error| error.context("this run has no log")),
                record_error.map(|error| error.context("this run is missing in the history")),
            ],
        };
        errors.iter().flatten().for_each(|error| self.reporter.warn(error));
    }

    /// Ends the record of this run, if it has begun.
    pub(super) fn end_record(&self, exit_code: u8, elapsed: Duration, summary: &str, was_declined: bool) {
        let summary = self.complete_commands(summary);
        if let Err(error) = self.recorder.finish(exit_code, elapsed, &summary, was_declined) {
            self.reporter.warn(&error.context("the end of this run is missing in the history"));
        }
    }

    /// Returns the report of the steps and stages, for a run that has a log and no output of its own.
    /// `has_failed` marks the last step as failed.
    pub(super) fn run_report(&self, has_failed: bool) -> Option<base::events::RunReport> {
        self.log().filter(|_| !self.is_stdout_reserved)?;
        let mut report = self.recorder.run_report(has_failed)?;
        // A successful delete-env has removed its state, unless suspects are still on record.
        let deletes = !has_failed && self.command.get().is_some_and(|command| command == "delete-env");
        let is_gone = |state: &String| paths::is_url(Path::new(state)) || !Path::new(state).exists();
        report.state = report.state.filter(|state| !(deletes && is_gone(state)));
        Some(report)
    }

    /// Returns true if the run has started a step of its plan.
    pub(super) fn has_started_a_step(&self) -> bool {
        self.recorder.has_started_a_step()
    }

    /// Names the full file system in the hints of an error, if it has one of the directories of this program.
    pub(super) fn explain_full_disk(&self, error: Error) -> Error {
        let Ok(cache) = self.cache_directory() else { return error };
        let prune_hint = Some("to delete what was not used for 30 days: `monopile cache prune`");
        let state_home = env_vars::STATE_HOME.path().ok();
        let directories: Vec<_> = env_vars::TMPDIR
            .value()
            .map(|directory| (PathBuf::from(directory), "TMPDIR=DIR", None))
            .into_iter()
            .chain([(cache, "--cache-dir DIR", prune_hint)])
            .chain(state_home.map(|directory| (directory, "XDG_STATE_HOME=DIR", None)))
            .collect();
        error.with_full_directory(&directories)
    }

    /// Adds to the error of an interrupted run whether it has changed something, and how to continue.
    pub(super) fn explain_interruption(&self, error: Error) -> Error {
        let is_interrupted = matches!(error.kind(), ErrorKind::Interrupted(_));
        // A prompt says itself what was done before it.
        let is_explained = self.ends_by_signal || ui::prompt::is_asking();
        let Some(signals) = self.signals.get().filter(|_| is_interrupted && !is_explained) else {
            return error;
        };
        match error.hints() {
            _ if !signals.has_begun_change() => error.with_note("nothing was changed in the IaaS"),
            // The command has no state to save.
            _ if self.log.is_none() => error,
            [] => error.with_note("the state is saved").with_hint("run the same command again to continue"),
            _ => error.with_note("the state is saved"),
        }
    }

    /// Returns the log of this run, if it was begun.
    pub(super) fn log(&self) -> Option<&RunLog> {
        self.log.as_ref().filter(|log| log.path().is_some())
    }

    /// Creates the context of a run: paths, signals, prompts and storage.
    pub(super) fn prepare_run(
        &self,
        state: PathBuf,
        package_directory: Option<&Path>,
        keep_scratch: bool,
    ) -> Result<PreparedRun> {
        let signals = signals::start_counting((!self.ends_by_signal).then_some(&self.reporter))?;
        let _ = self.signals.set(signals.clone());
        let storage = self.storage_with(&state, interrupt_check(&signals))?;
        self.begin_record(&storage);
        let cache_directory = self.cache_directory()?;
        let cache_in_use = Cache::open(&cache_directory)?;
        let mut scratch = Scratch::new(&cache_directory)?;
        if keep_scratch {
            scratch.keep();
            self.reporter.note(format!("the scratch directory is kept: '{}'", scratch.path().display()));
        }
        let home = paths::home();
        let package_directory = package_directory
            .map(|directory| paths::absolute(&paths::expand(directory, home.as_deref())))
            .transpose()?;
        let paths = Paths {
            storage,
            scratch: scratch.path().to_owned(),
            cache_directory,
            data_directory: env_vars::STATE_HOME.path()?,
            package_directory,
            executable: paths::executable()?,
        };
        for path in [&paths.scratch, &paths.cache_directory, &paths.data_directory, &paths.executable] {
            self.exempt_path(path);
        }
        let interrupt_check = interrupt_check(&signals);
        let shared_cache =
            shared_cache::open(&self.globals, &self.reporter, &self.redactor, interrupt_check)?;
        let (secret_storage, confirm_storage) = (paths.storage.clone(), paths.storage.clone());
        let run = RunContext {
            paths,
            shared_cache,
            is_offline: false,
            reporter: self.reporter.clone(),
            ask_secret: self.is_interactive().then(|| -> AskSecret {
                Arc::new(move |question: &str| {
                    secret_storage.while_prompting(|| ui::prompt::ask_secret(question))
                })
            }),
            confirm: self.is_interactive().then(|| -> Confirm {
                Arc::new(move |question: &str| {
                    confirm_storage.while_prompting(|| ui::prompt::confirm(question))
                })
            }),
            redactor: self.redactor.clone(),
            signals,
            env_vars: paths::env_vars(),
            parallel: usize::from(self.globals.parallel),
            keep_scratch,
            sha2: self.globals.sha2,
            lock_timeout: Duration::ZERO,
            cpi_userland: None,
            cpi_timeout: None,
            left_cpi_running: Arc::default(),
            insecure_agent: false,
            clock: self.clock.clone(),
        };
        Ok(PreparedRun { run, scratch, _cache: cache_in_use })
    }

    /// Returns the storage of the state at a path or URL.
    pub(super) fn storage(&self, state: &Path) -> Result<Storage> {
        self.storage_with(state, Arc::new(|| Ok(())))
    }

    /// Lists the URLs of the states below a prefix of a bucket, at most `limit` of them.
    pub(super) fn list_states_below(&self, prefix: &str, limit: usize) -> Result<Vec<String>> {
        let prefix = BucketPrefix::parse(prefix)?;
        let interrupt_check = Arc::new(base::files::input::check_signals);
        let settings =
            BucketSettings::for_listing(prefix, &paths::env_vars(), interrupt_check, &self.redactor);
        engine::state::list_states_below(&settings, limit)
    }

    fn storage_with(&self, state: &Path, interrupt_check: InterruptCheck) -> Result<Storage> {
        let text = state.to_string_lossy();
        self.exempt_path(state);
        let encryption = encryption::current();
        let calls_directory = |identity: &str| {
            let name = Sha256::digest(identity.as_bytes());
            let name: String = name.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
            env_vars::CALLS.path().map(|calls| calls.join(name))
        };
        let Some(address) = BucketUrl::parse(&text)? else {
            return Ok(Storage::from(state).with_encryption(encryption, calls_directory(&text)?));
        };
        let mut bucket =
            BucketSettings::new(address, &paths::env_vars(), Some(paths::executable()?), &self.redactor);
        if let Some(lease) = env_vars::STATE_LEASE.value() {
            let lease = duration::parse(&lease.to_string_lossy()).map_err(|reason| {
                Error::usage(format!(
                    "'{}' (MONOPILE_STATE_LEASE) is not a duration: {reason}",
                    lease.to_string_lossy()
                ))
            })?;
            bucket = bucket.with_lease(lease);
        }
        let bucket = bucket.with_interruption(interrupt_check);
        Storage::in_bucket(&bucket, encryption, calls_directory(&bucket.identity())?)
    }

    /// Excludes a path of this run, and its file name, from redaction.
    fn exempt_path(&self, path: &Path) {
        self.redactor.exempt_path(path);
        if !path.to_string_lossy().contains("://") {
            path.file_name().into_iter().for_each(|name| self.redactor.exempt_path(Path::new(name)));
        }
    }

    /// Returns the cache directory: `--cache-dir`, or the default.
    pub(super) fn cache_directory(&self) -> Result<PathBuf> {
        match &self.globals.cache_dir {
            Some(directory) => paths::absolute(&paths::expand(directory, paths::home().as_deref())),
            None => env_vars::CACHE_HOME.path(),
        }
    }

    /// Creates a scratch directory, for commands without a run context.
    pub(super) fn create_scratch(&self) -> Result<Scratch> {
        Scratch::new(&self.cache_directory()?)
    }

    /// Returns the layout of lists: columns that fit the terminal, or tab-separated values in a pipe.
    pub(super) fn layout(&self) -> Layout {
        Layout::new(self.columns(), self.redactor.clone())
    }

    /// Returns the number of columns of the terminal to which output goes.
    pub(super) fn columns(&self) -> Option<usize> {
        (self.globals.tty || std::io::stdout().is_terminal()).then(ui::stdout_columns)
    }

    /// Returns true if the operator can be asked.
    pub(super) fn is_interactive(&self) -> bool {
        !self.globals.non_interactive
            && !self.globals.prints_json()
            && std::io::stdin().is_terminal()
            && std::io::stdout().is_terminal()
    }
}

/// Returns true unless the environment forbids colours.
pub(super) fn has_colors() -> bool {
    env_vars::NO_COLOR.value().is_none()
}

/// Returns true if the terminal can only append text.
pub(super) fn is_dumb() -> bool {
    env_vars::TERM.value().is_some_and(|term| term == "dumb")
}

/// Returns true if the locale is UTF-8.
fn is_utf8_locale() -> bool {
    env_vars::LOCALE.iter().find_map(Variable::value).and_then(|value| value.into_string().ok()).is_some_and(
        |locale| {
            let locale = locale.to_ascii_lowercase();
            locale.contains("utf-8") || locale.contains("utf8")
        },
    )
}
