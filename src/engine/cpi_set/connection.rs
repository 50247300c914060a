//! One CPI as a run uses it: calls are watched, measured and, if the CPI allows it, retried.

use std::collections::VecDeque;
use std::fmt::{self, Display, Formatter};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::source::{LocationSource, RunnableCpi};
use crate::cpi::install::InstalledPackages;
use crate::cpi::{
    Answer, CallObserver, Cpi, CpiError, CpiErrorKind, CpiRequest, CpiSettings, Method, OutputFiles,
    StopCause,
};
use crate::prepare;
use crate::protocol::{Contract, Terms, VmCid};
use crate::run_context::{RunContext, signals};
use crate::state::{CurrentLocation, Resource};
use base::events::Stage;
use base::timing::{Activity, ActivityTimer};
use base::{Error, Result};

/// The maximum number of retries of a call that the CPI marks as retryable.
const MAX_RETRIES: u32 = 3;
/// The pause before the first retry; it doubles.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// The maximum number of log lines held back; beyond it the oldest are dropped.
const MAX_HELD_BACK_LINES: usize = 10_000;

/// A CPI that has answered `info`. There is no lasting connection: each call starts a process.
pub(crate) struct CpiConnection<'a> {
    run: &'a RunContext,
    /// The CPI's name; `None` for the default CPI.
    name: Option<String>,
    cpi: Cpi,
    /// Its release as `NAME/VERSION`, if it is a job of one.
    release: Option<String>,
    /// The API version of the stemcell that calls refer to.
    stemcell_api_version: u32,
    /// The location of its resources.
    location: LocationSource,
    /// The CPI's packages. While they are held, no other run removes or replaces them.
    _packages: Option<Arc<InstalledPackages>>,
}

/// A CPI's answer to a question about the existence of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Presence {
    /// The CPI knows the resource.
    Exists,
    /// The CPI denies that the resource exists.
    Gone,
    /// The CPI does not know.
    Unknown(Doubt),
}

/// The reason why a CPI does not know whether a resource exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Doubt {
    reason: String,
    /// True if the call failed. A CPI that cannot be asked at all is no failure.
    pub(crate) is_failure: bool,
}

impl Display for Doubt {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)
    }
}

/// The number of retries of a call so far.
#[derive(Default)]
pub(crate) struct Retries(u32);

impl Retries {
    /// Returns true if the CPI marks the error as retryable and the limit is not reached. Reports the retry
    /// and pauses first.
    pub(crate) fn pause_before_retry(
        &mut self,
        run: &RunContext,
        stage: &Stage,
        error: &CpiError,
    ) -> Result<bool> {
        let CpiError::Answered { method, message, ok_to_retry: true, .. } = error else { return Ok(false) };
        if self.0 == MAX_RETRIES {
            return Ok(false);
        }
        let pause = RETRY_PAUSE * 2u32.pow(self.0);
        self.0 += 1;
        stage.reporter().warn(format!(
            "the CPI's `{method}` failed, and a retry may help: {message}; attempt {} of {} in {} s",
            self.0 + 1,
            MAX_RETRIES + 1,
            pause.as_secs()
        ));
        signals::pause(run, pause)?;
        Ok(true)
    }
}

impl<'a> CpiConnection<'a> {
    /// Asks the CPI for `info`. `highest_api_version` limits the API version, and every call names
    /// `stemcell_api_version`.
    pub(crate) fn open(
        run: &'a RunContext,
        name: Option<&str>,
        (runnable_cpi, location): (RunnableCpi, LocationSource),
        director_uuid: &str,
        highest_api_version: Option<u32>,
        stemcell_api_version: u32,
        stage: &Stage,
    ) -> Result<Self> {
        let settings = CpiSettings {
            executable: runnable_cpi.executable,
            director_uuid: director_uuid.to_owned(),
            scratch: run.paths.scratch.clone(),
            context_properties: runnable_cpi.context_properties,
            highest_api_version,
            is_builtin: runnable_cpi.is_builtin,
        };
        let mut retries = Retries::default();
        loop {
            signals::check_may_continue(run)?;
            let result = {
                let _call_timer = count_and_measure(run);
                Cpi::connect(settings.clone(), &mut create_observer(run, stage, Method::Info))
            };
            let cpi = match result {
                Ok(cpi) => cpi,
                Err(error) if retries.pause_before_retry(run, stage, &error)? => continue,
                Err(error) if highest_api_version == Some(1) && has_cpi_run(&error) => {
                    let message_start = name.map(|name| format!("CPI '{name}': ")).unwrap_or_default();
                    run.reporter.note(format!(
                        "{message_start}{error}; continuing with API version 1 and contract v1 \
                         (--cpi-api-version 1)"
                    ));
                    Cpi::without_info(settings)
                }
                Err(error) => {
                    let may_be_old = may_be_unknown_method(&error);
                    let info_error = with_cpi_context(name, error);
                    return Err(match may_be_old {
                        true => info_error.with_hint(
                            "if the CPI is too old to have `info`, use contract v1: `monopile SAME-COMMAND \
                             --cpi-api-version 1`",
                        ),
                        false => info_error,
                    });
                }
            };
            return Ok(CpiConnection {
                run,
                name: name.map(str::to_owned),
                cpi,
                release: runnable_cpi.release,
                stemcell_api_version,
                location,
                _packages: runnable_cpi.packages,
            });
        }
    }

    /// Returns the contract between the CPI and the stemcell.
    pub(crate) fn contract(&self) -> Contract {
        self.cpi.contract(self.stemcell_api_version)
    }

    /// Returns the scratch directory of the run, which the CPI may read.
    pub(crate) fn scratch(&self) -> &Path {
        &self.run.paths.scratch
    }

    /// Returns the location of its resources.
    pub(crate) fn location(&self) -> Result<CurrentLocation> {
        self.location.current()
    }

    /// Returns the CPI's name; `None` for the default CPI.
    pub(crate) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns the version of the CPI API that is used with it.
    pub(crate) fn api_version(&self) -> u32 {
        self.cpi.api_version()
    }

    /// Returns the version of the CPI itself, as it answers to `info`, and its release as `NAME/VERSION`.
    pub(crate) fn versions(&self) -> (Option<String>, Option<String>) {
        (self.cpi.info().version.clone(), self.release.clone())
    }

    /// Returns the stemcell formats that the CPI accepts, if it declares them.
    pub(crate) fn stemcell_formats(&self) -> Option<&[String]> {
        self.cpi.info().stemcell_formats.as_deref()
    }

    /// Returns the terms by which the answers to its calls are read.
    pub(crate) fn terms(&self) -> Terms {
        self.cpi.terms(Some(self.stemcell_api_version))
    }

    /// Builds a request with a fresh request id.
    pub(crate) fn new_request(&self, method: Method, arguments: Vec<Value>) -> CpiRequest {
        CpiRequest::new(method, arguments, Some(self.stemcell_api_version))
    }

    /// Makes a call once, with its answer and log in `files`.
    pub(crate) fn call(
        &self,
        request: &CpiRequest,
        files: OutputFiles,
        stage: &Stage,
    ) -> Result<Answer, CpiError> {
        let _call_timer = count_and_measure(self.run);
        // The answer to `attach_disk` may hold credentials that the CPI also logs. Its log is therefore held
        // back until the redactor knows them.
        let mut held_lines = VecDeque::new();
        let mut observer = create_observer(self.run, stage, request.method);
        if request.method != Method::AttachDisk {
            return self.note_abandoned_process(self.cpi.call(request, files, &mut observer));
        }
        observer.on_log = Box::new(|line: &str| {
            if held_lines.len() == MAX_HELD_BACK_LINES {
                held_lines.pop_front();
            }
            held_lines.push_back(line.to_owned());
        });
        let outcome = self.cpi.call(request, files, &mut observer);
        drop(observer);
        if let Ok(Answer::Hint(Some(hint))) = &outcome {
            prepare::register_hint_secrets(self.run, hint);
        }
        held_lines.iter().for_each(|line| show_log_line(self.run, stage, line));
        self.note_abandoned_process(outcome)
    }

    /// Keeps the scratch directory if the CPI process still runs, because it may read an image there.
    fn note_abandoned_process(&self, outcome: Result<Answer, CpiError>) -> Result<Answer, CpiError> {
        if matches!(outcome, Err(CpiError::Abandoned { .. })) {
            self.run.left_cpi_running.store(true, Ordering::SeqCst);
        }
        outcome
    }

    /// Makes a call that changes nothing on record, and therefore announces no intent. The call must be safe
    /// to repeat.
    pub(crate) fn call_unrecorded(
        &self,
        stage: &Stage,
        method: Method,
        arguments: Vec<Value>,
    ) -> Result<Result<Answer, CpiError>> {
        let mut retries = Retries::default();
        loop {
            signals::check_may_continue(self.run)?;
            let request = self.new_request(method, arguments.clone());
            let outcome = {
                // A signal waits for the end of a change, such as a reboot.
                let call_name = method.facts().changes_iaas.then(|| format!("the CPI's `{method}`"));
                let _in_flight = call_name.map(|name| self.run.signals.begin_call(name));
                let _call_timer = count_and_measure(self.run);
                self.cpi.call_unrecorded(&request, &mut create_observer(self.run, stage, method))
            };
            match outcome {
                Err(error) if retries.pause_before_retry(self.run, stage, &error)? => {}
                outcome => return Ok(outcome),
            }
        }
    }

    /// Returns true if the VM exists, or if the CPI does not implement `has_vm`.
    pub(crate) fn fetch_may_have_vm(&self, stage: &Stage, cid: &VmCid) -> Result<bool> {
        match self.call_unrecorded(stage, Method::HasVm, vec![json!(cid)])? {
            Ok(answer) => Ok(answer == Answer::Boolean(true)),
            Err(error) if error.kind() == Some(&CpiErrorKind::NotImplemented) => Ok(true),
            Err(error) if error.kind() == Some(&CpiErrorKind::VmNotFound) => Ok(false),
            Err(error) => Err(self.with_cpi_name(error)),
        }
    }

    /// Adds the name of this CPI to an error.
    pub(crate) fn with_cpi_name(&self, error: CpiError) -> Error {
        with_cpi_context(self.name.as_deref(), error)
    }

    /// Asks the CPI whether a resource exists.
    pub(crate) fn ask_presence(&self, stage: &Stage, resource: &Resource) -> Result<Presence> {
        let doubt = |reason: String, is_failure| Presence::Unknown(Doubt { reason, is_failure });
        let (method, not_found) = match resource {
            Resource::Vm(_) => (Method::HasVm, CpiErrorKind::VmNotFound),
            Resource::Disk(_) => (Method::HasDisk, CpiErrorKind::DiskNotFound),
            Resource::Stemcell(_) | Resource::Snapshot(_) => {
                let reason = format!("the CPI API has no method to look for {}s", resource.kind());
                return Ok(doubt(reason, false));
            }
        };
        match self.call_unrecorded(stage, method, vec![json!(resource.cid())])? {
            Ok(Answer::Boolean(true)) => Ok(Presence::Exists),
            Ok(Answer::Boolean(false)) => Ok(Presence::Gone),
            Ok(other) => Ok(doubt(format!("the CPI's `{method}` returned {other:?}"), true)),
            Err(error) if error.kind() == Some(&not_found) => Ok(Presence::Gone),
            Err(error) if error.kind() == Some(&CpiErrorKind::NotImplemented) => {
                Ok(doubt(format!("the CPI does not implement `{method}`"), false))
            }
            Err(error @ (CpiError::Abandoned { .. } | CpiError::Killed { .. })) => {
                Err(self.with_cpi_name(error))
            }
            Err(error) => Ok(doubt(error.to_string(), true)),
        }
    }

    /// Sets metadata. Succeeds if the CPI does not implement the method.
    pub(crate) fn set_metadata(
        &self,
        stage: &Stage,
        method: Method,
        cid: &str,
        metadata: Value,
    ) -> Result<()> {
        match self.call_unrecorded(stage, method, vec![json!(cid), metadata])? {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == Some(&CpiErrorKind::NotImplemented) => {
                tracing::info!(%method, "the CPI does not implement this method");
                Ok(())
            }
            Err(error) => Err(self.with_cpi_name(error)),
        }
    }
}

/// Returns true if the CPI ran and ended with an error or without a usable answer. Old CPIs react to an
/// unknown method in many such ways.
fn has_cpi_run(error: &CpiError) -> bool {
    matches!(error, CpiError::Answered { .. } | CpiError::NoAnswer { .. })
}

/// Returns true if the error may come from a CPI that does not know the method `info`.
fn may_be_unknown_method(error: &CpiError) -> bool {
    let (text, log_tail) = match error {
        CpiError::Answered { error_type, message, log_tail, .. } => {
            (format!("{error_type} {message}"), log_tail)
        }
        CpiError::NoAnswer { problem, log_tail, .. } => (problem.clone(), log_tail),
        _ => return false,
    };
    let text = format!("{text}\n{log_tail}").to_lowercase();
    ["method", "implement", "unknown command", "not supported", "'info'", "\"info\"", "`info`"]
        .iter()
        .any(|sign| text.contains(sign))
}

/// Counts a CPI call and measures its duration.
fn count_and_measure(run: &RunContext) -> ActivityTimer<'_> {
    run.clock.count(|counts| counts.cpi_calls += 1);
    run.clock.measure(Activity::Cpi)
}

/// Creates the observer of a call, which shows the CPI's log to the operator. A second signal, or
/// `--cpi-timeout`, ends the wait. The first signal ends the wait for a method that only reads.
fn create_observer<'w>(run: &'w RunContext, stage: &'w Stage, method: Method) -> CallObserver<'w> {
    let start = Instant::now();
    CallObserver {
        on_log: Box::new(move |line: &str| show_log_line(run, stage, line)),
        stop_cause: Box::new(move || {
            let signal = match method.facts().changes_iaas {
                true => run.signals.signal_that_ends_calls(),
                false => run.signals.first(),
            };
            let timeout = run.cpi_timeout.filter(|timeout| start.elapsed() >= *timeout);
            signal.map(StopCause::Signal).or(timeout.map(StopCause::Timeout))
        }),
    }
}

/// Shows a line of a CPI's log, and writes it to the log of the run.
pub(crate) fn show_log_line(run: &RunContext, stage: &Stage, line: &str) {
    let line = run.redactor.clean_and_redact_line(line);
    tracing::debug!(target: "cpi", "{line}");
    stage.log_line(line);
}

/// Adds the name of a CPI that may not be connected to an error.
pub(crate) fn with_cpi_context(name: Option<&str>, error: impl Into<Error>) -> Error {
    match name {
        None => error.into(),
        Some(name) => error.into().context(format!("CPI '{name}' failed")),
    }
}
