//! The state and the CPI that changes what it describes: calls that are announced before and recorded after.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::connection::{Connection, Retries};
use super::cpi_source::Located;
use super::effect::Effect;
use super::request::Environment;
use super::signals;
use crate::cpi::{Answer, Call, Contract, CpiError, CpiErrorKind, Files, Method};
use crate::state::{Change, Intent, OpenCall, State, Store};
use crate::ui::Stage;
use crate::{Error, Result};

/// The state and the CPI that changes what it describes.
pub(super) struct Cloud<'a> {
    environment: &'a Environment,
    connection: Connection<'a>,
    store: Store,
}

impl<'a> Cloud<'a> {
    /// Asks the CPI what it is, to speak no higher API version than `highest` with it. Nothing is written yet: a
    /// CPI that cannot answer leaves no trace.
    pub(super) fn connect(
        environment: &'a Environment,
        store: Store,
        located: Located,
        highest: Option<u32>,
        stage: &Stage,
    ) -> Result<Self> {
        let director = &store.state().director_id;
        let connection = Connection::open(environment, located, director, highest, stage)?;
        Ok(Cloud { environment, connection, store })
    }

    /// Decides the contract with a stemcell; calls say its version from now on.
    pub(super) fn negotiate(&mut self, stemcell_api_version: u32) -> Contract {
        self.connection.negotiate(stemcell_api_version)
    }

    /// The stemcell formats the CPI takes, where it says so.
    pub(super) fn stemcell_formats(&self) -> Option<&[String]> {
        self.connection.stemcell_formats()
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

    /// Makes a call that changes the world: announced before, recorded after. Returns its answer, or `None` for a
    /// deletion of what was not there.
    pub(super) fn effect(
        &mut self,
        stage: &Stage,
        why: &str,
        effect: &Effect,
        arguments: Vec<Value>,
    ) -> Result<Option<Answer>> {
        // The director id must be on record before a CPI tags anything with it.
        self.store.establish()?;
        let mut retries = Retries::default();
        loop {
            signals::check(self.environment)?;
            let call = self.connection.prepare(effect.method(), arguments.clone());
            let open = self.announce(&call, effect, why)?;
            let error = match self.make(&call, &open, stage)? {
                Ok(answer) => match effect.changes(&answer) {
                    Ok(changes) => {
                        self.settle(open, changes)?;
                        return Ok(Some(answer));
                    }
                    Err(problem) => CpiError::no_answer(call.method, &call.request_id, problem),
                },
                Err(error) => error,
            };
            let gone = error.kind().is_some_and(|kind| is_gone(effect, kind));
            if gone && !self.still_there(stage, effect)? {
                self.settle(open, effect.deleted())?;
                return Ok(None);
            }
            match error {
                // Its process is still at work: the next run reads what it answers.
                CpiError::Abandoned { .. } => return Err(error.into()),
                CpiError::NoAnswer { .. } if effect.creates() => {
                    return Err(super::resume::unknown_outcome(effect, &open, error.into()));
                }
                _ => open.settle()?,
            }
            if retries.allow(self.environment, stage, &error)? {
                continue;
            }
            let answered = error.kind().is_some();
            let failed = Error::from(error);
            return Err(match answered && effect.creates() {
                true => failed.with_hint(format!(
                    "should the CPI have made something before it failed, it is {}",
                    effect.how_to_find()
                )),
                false => failed,
            });
        }
    }

    fn announce(&self, call: &Call, effect: &Effect, why: &str) -> Result<OpenCall> {
        self.store.journal().begin(&Intent {
            request_id: call.request_id.clone(),
            method: call.method.name().to_owned(),
            terms: self.connection.terms(),
            why: why.to_owned(),
            effect: effect.clone(),
        })
    }

    /// Makes an announced call, so that another run could read its answer.
    fn make(&self, call: &Call, open: &OpenCall, stage: &Stage) -> Result<Result<Answer, CpiError>> {
        let answer = match open.answer_file() {
            Ok(answer) => answer,
            Err(source) => {
                let what = "creating the answer file of a call failed".to_owned();
                return Ok(Err(CpiError::Local { what, source }));
            }
        };
        let files = Files {
            answer,
            prepared_path: Some(open.prepared_path()),
            answer_path: open.answer_path(),
            log_path: open.log_path(),
        };
        Ok(self.connection.call(call, files, stage))
    }

    /// Records what a call came to, and forgets the call.
    fn settle(&mut self, open: OpenCall, changes: Vec<Change>) -> Result<()> {
        for change in changes {
            self.store.commit(change)?;
        }
        open.settle()
    }

    /// Whether something that a deletion did not find exists all the same, as far as the CPI can tell.
    fn still_there(&self, stage: &Stage, effect: &Effect) -> Result<bool> {
        let (method, cid) = match effect {
            Effect::DeleteVm { cid } => (Method::HasVm, cid),
            Effect::DeleteDisk { cid } => (Method::HasDisk, cid),
            _ => return Ok(false),
        };
        let answer = self.connection.ask(stage, method, vec![json!(cid)])?;
        Ok(matches!(answer, Ok(Answer::Boolean(true))))
    }

    /// Whether the VM exists; a CPI that cannot tell is believed to have it.
    pub(super) fn has_vm(&self, stage: &Stage, cid: &str) -> Result<bool> {
        self.connection.has_vm(stage, cid)
    }

    /// Sets metadata, which a CPI need not implement.
    pub(super) fn set_metadata(
        &self,
        stage: &Stage,
        method: Method,
        cid: &str,
        metadata: Value,
    ) -> Result<()> {
        self.connection.set_metadata(stage, method, cid, metadata)
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
