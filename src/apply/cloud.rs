//! The CPI as a run uses it: calls that are announced, watched, retried and recorded.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use super::cpi_source::Located;
use super::effect::Effect;
use super::request::Environment;
use super::{prepare, signals};
use crate::cpi::install::Installed;
use crate::cpi::{Call, Contract, Cpi, CpiError, CpiErrorKind, Files, Watch};
use crate::state::{Change, Intent, State, Store};
use crate::timing::{Activity, Spending};
use crate::ui::Stage;
use crate::{Error, Result};

/// How often a call is made again when the CPI says that this may help.
const RETRIES: u32 = 3;
/// The wait before the first retry; it doubles.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// How many lines of a log are held back at most; then the oldest go.
const HELD_LINES: usize = 10_000;

/// The state and the CPI that changes what it describes.
pub(super) struct Cloud<'a> {
    environment: &'a Environment,
    cpi: Cpi,
    store: Store,
    stemcell_api_version: Option<u32>,
    /// Nobody may take the CPI's packages away while it is in use.
    _installed: Option<Installed>,
}

impl<'a> Cloud<'a> {
    /// Asks the CPI what it is. Nothing is written yet: a CPI that cannot answer leaves no trace.
    pub(super) fn connect(
        environment: &'a Environment,
        store: Store,
        located: Located,
        stage: &Stage,
    ) -> Result<Self> {
        environment.clock.count(|counts| counts.cpi_calls += 1);
        let calling = environment.clock.spend(Activity::Cpi);
        let cpi = Cpi::connect(
            located.executable,
            &store.state().director_id,
            &environment.paths.work,
            located.context,
            &mut watch(environment, stage),
        )?;
        drop(calling);
        Ok(Cloud { environment, cpi, store, stemcell_api_version: None, _installed: located.installed })
    }

    /// Decides the contract with a stemcell; calls about a VM say its version from now on.
    pub(super) fn negotiate(&mut self, stemcell_api_version: u32) -> Contract {
        self.stemcell_api_version = Some(stemcell_api_version);
        Contract::negotiate(self.cpi.info().api_version, stemcell_api_version)
    }

    /// The stemcell formats the CPI takes, where it says so.
    pub(super) fn stemcell_formats(&self) -> Option<&[String]> {
        self.cpi.info().stemcell_formats.as_deref()
    }

    pub(super) fn state(&self) -> &State {
        self.store.state()
    }

    pub(super) fn commit(&mut self, change: Change) -> Result<()> {
        self.store.commit(change)
    }

    pub(super) fn into_store(self) -> Store {
        self.store
    }

    /// Where the registry keeps what the VM's agent is to read.
    pub(super) fn registry_file(&self) -> PathBuf {
        self.store.journal().registry_file()
    }

    /// A process of the CPI is about to run.
    fn calling(&self) -> Spending<'a> {
        self.environment.clock.count(|counts| counts.cpi_calls += 1);
        self.environment.clock.spend(Activity::Cpi)
    }

    fn call<'c>(&self, method: &'c str, arguments: Vec<Value>) -> Call<'c> {
        let request_id = uuid::Uuid::new_v4().to_string();
        Call { method, arguments, stemcell_api_version: self.stemcell_api_version, request_id }
    }

    /// Makes a call that changes the world: announced before, recorded after. Returns its result, or `None` for a
    /// deletion of what was not there.
    pub(super) fn effect(
        &mut self,
        stage: &Stage,
        why: &str,
        effect: &Effect,
        arguments: Vec<Value>,
    ) -> Result<Option<Value>> {
        signals::check(self.environment)?;
        // The director id must be on record before a CPI tags anything with it.
        self.store.establish()?;
        let mut attempt = 0;
        loop {
            let call = self.call(effect.method(), arguments.clone());
            let intent = Intent {
                request_id: call.request_id.clone(),
                method: call.method.to_owned(),
                why: why.to_owned(),
                effect: effect.clone(),
            };
            let open = self.store.journal().begin(&intent)?;
            let request_id = call.request_id.clone();
            let answer =
                open.answer_file().map_err(|error| Error::io("creating the answer file of a call", error));
            let answer = match answer {
                Ok(answer) => answer,
                Err(error) => {
                    open.settle()?;
                    return Err(error);
                }
            };
            let files = Files {
                answer,
                prepared_path: Some(open.prepared_path()),
                answer_path: open.answer_path(),
                log_path: open.log_path(),
            };
            let outcome = match effect {
                Effect::AttachDisk { .. } => self.attach(stage, call, files),
                _ => {
                    let _call = self.calling();
                    self.cpi.call(call, files, &mut watch(self.environment, stage))
                }
            };
            let problem = match outcome {
                Ok(result) => match effect.changes(&result) {
                    Ok(changes) => {
                        for change in changes {
                            self.store.commit(change)?;
                        }
                        open.settle()?;
                        return Ok(Some(result));
                    }
                    Err(problem) => CpiError::NoAnswer {
                        method: effect.method().to_owned(),
                        request_id,
                        problem,
                        log_tail: String::new(),
                    },
                },
                Err(error) => error,
            };
            let gone = problem.kind().is_some_and(|kind| is_gone(effect, kind));
            match problem {
                CpiError::Answered { .. } if gone && !self.still_there(stage, effect)? => {
                    for change in effect.deleted() {
                        self.store.commit(change)?;
                    }
                    open.settle()?;
                    return Ok(None);
                }
                CpiError::Answered { ok_to_retry: true, ref message, .. } if attempt < RETRIES => {
                    open.settle()?;
                    attempt += 1;
                    self.announce_retry(stage, effect.method(), message, attempt)?;
                }
                error @ CpiError::Abandoned { .. } => return Err(error.into()),
                error @ CpiError::NoAnswer { .. } if effect.creates() => {
                    open.redact(&|text| self.environment.redactor.apply(text).into_owned());
                    return Err(super::resume::unknown_outcome(effect, &open, error.into()));
                }
                error @ CpiError::Answered { .. } if effect.creates() => {
                    open.settle()?;
                    return Err(Error::from(error).with_hint(format!(
                        "should the CPI have made something before it failed, it is {}",
                        effect.how_to_find()
                    )));
                }
                error => {
                    open.settle()?;
                    return Err(error.into());
                }
            }
        }
    }

    /// Calls `attach_disk`. Its answer may hold credentials, and the CPI may log it: what it logs is held back until
    /// they are known.
    fn attach(&self, stage: &Stage, call: Call<'_>, files: Files) -> Result<Value, CpiError> {
        let mut held = VecDeque::new();
        let outcome = {
            let _call = self.calling();
            let keep = |line: &str| {
                if held.len() == HELD_LINES {
                    held.pop_front();
                }
                held.push_back(line.to_owned());
            };
            let stop = || signals::insisted(self.environment);
            self.cpi.call(call, files, &mut Watch { on_log: Box::new(keep), stop: Box::new(stop) })
        };
        if let Ok(result) = &outcome {
            prepare::redact_hint(self.environment, result);
        }
        held.iter().for_each(|line| show(self.environment, stage, line));
        outcome
    }

    /// Whether something that a deletion did not find exists all the same, as far as the CPI can tell.
    fn still_there(&self, stage: &Stage, effect: &Effect) -> Result<bool> {
        let (method, cid) = match effect {
            Effect::DeleteVm { cid } => ("has_vm", cid),
            Effect::DeleteDisk { cid } => ("has_disk", cid),
            _ => return Ok(false),
        };
        Ok(matches!(self.ask(stage, method, vec![json!(cid)])?, Ok(Value::Bool(true))))
    }

    /// Says that a call is made again, and waits before it.
    fn announce_retry(&self, stage: &Stage, method: &str, message: &str, attempt: u32) -> Result<()> {
        let pause = RETRY_PAUSE * 2u32.pow(attempt - 1);
        stage.reporter().warn(format!(
            "the CPI's `{method}` failed and says that it may be tried again: {message}; attempt {} of {} in {} s",
            attempt + 1,
            RETRIES + 1,
            pause.as_secs()
        ));
        signals::pause(self.environment, pause)
    }

    /// Makes a call that changes nothing, or nothing that cannot be repeated.
    pub(super) fn ask(
        &self,
        stage: &Stage,
        method: &str,
        arguments: Vec<Value>,
    ) -> Result<Result<Value, CpiError>> {
        let mut attempt = 0;
        loop {
            let call = self.call(method, arguments.clone());
            let outcome = {
                let _call = self.calling();
                self.cpi.ask(call, &mut watch(self.environment, stage))
            };
            match outcome {
                Err(CpiError::Answered { ok_to_retry: true, ref message, .. }) if attempt < RETRIES => {
                    attempt += 1;
                    self.announce_retry(stage, method, message, attempt)?;
                }
                outcome => return Ok(outcome),
            }
        }
    }

    /// Whether the VM exists; a CPI that cannot tell is believed to have it.
    pub(super) fn has_vm(&self, stage: &Stage, cid: &str) -> Result<bool> {
        match self.ask(stage, "has_vm", vec![json!(cid)])? {
            Ok(Value::Bool(exists)) => Ok(exists),
            Ok(other) => {
                Err(Error::environment(format!("the CPI's `has_vm` must answer true or false, not {other}")))
            }
            Err(error) if error.kind() == Some(&CpiErrorKind::NotImplemented) => Ok(true),
            Err(error) if error.kind() == Some(&CpiErrorKind::VmNotFound) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Sets metadata, which a CPI need not implement.
    pub(super) fn set_metadata(&self, stage: &Stage, method: &str, cid: &str, metadata: Value) -> Result<()> {
        match self.ask(stage, method, vec![json!(cid), metadata])? {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == Some(&CpiErrorKind::NotImplemented) => {
                tracing::info!(method, "the CPI does not implement it");
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }
}

fn is_gone(effect: &Effect, kind: &CpiErrorKind) -> bool {
    matches!(
        (effect, kind),
        (Effect::DeleteVm { .. }, CpiErrorKind::VmNotFound)
            | (Effect::DeleteDisk { .. }, CpiErrorKind::DiskNotFound)
            | (Effect::DeleteStemcell { .. }, CpiErrorKind::StemcellNotFound)
    )
}

/// Shows the CPI's log where the operator looks, and lets a second signal end the wait.
fn watch<'w>(environment: &'w Environment, stage: &'w Stage) -> Watch<'w> {
    Watch {
        on_log: Box::new(move |line: &str| show(environment, stage, line)),
        stop: Box::new(move || signals::insisted(environment)),
    }
}

fn show(environment: &Environment, stage: &Stage, line: &str) {
    let line = environment.redactor.line(line);
    tracing::debug!(target: "cpi", "{line}");
    stage.log_line(line);
}
