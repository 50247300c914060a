//! The state and the CPI that changes what it describes: calls that are announced before and recorded after.

use std::path::PathBuf;

use serde_json::Value;

use super::connection::{Connection, Presence, Retries};
use super::cpi_source::Located;
use super::effect::Effect;
use super::request::Environment;
use super::signals;
use crate::cpi::{Answer, Call, Contract, CpiError, Files, Method};
use crate::state::{Change, Intent, Kind, OpenCall, State, Store};
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

    /// Makes a call that changes the world: announced before, recorded after.
    pub(super) fn effect(
        &mut self,
        stage: &Stage,
        why: &str,
        effect: &Effect,
        arguments: Vec<Value>,
    ) -> Result<Answer> {
        self.attempt(stage, why, effect, arguments)?.map_err(|error| {
            let answered = error.kind().is_some();
            let failed = Error::from(error);
            match answered && effect.creates() {
                true => failed.with_hint(format!(
                    "should the CPI have made something before it failed, it is {}",
                    effect.how_to_find()
                )),
                false => failed,
            }
        })
    }

    /// As [`Self::effect`], with the CPI's error for the caller to judge. What it did not do is settled.
    pub(super) fn attempt(
        &mut self,
        stage: &Stage,
        why: &str,
        effect: &Effect,
        arguments: Vec<Value>,
    ) -> Result<Result<Answer, CpiError>> {
        signals::check(self.environment)?;
        // The director id must be on record before a CPI tags anything with it.
        self.store.establish()?;
        let mut retries = Retries::default();
        loop {
            let call = self.connection.prepare(effect.method(), arguments.clone());
            let open = self.announce(&call, effect, why)?;
            let error = match self.make(&call, &open, stage) {
                Ok(answer) => match effect.changes(&answer) {
                    Ok(changes) => {
                        self.settle(open, changes)?;
                        return Ok(Ok(answer));
                    }
                    Err(problem) => CpiError::no_answer(call.method, &call.request_id, problem),
                },
                Err(error) => error,
            };
            match error {
                // Its process is still at work: the next run reads what it answers.
                CpiError::Abandoned { .. } => {
                    return Err(super::resume::still_at_work(error.into(), &open));
                }
                CpiError::NoAnswer { .. } if effect.creates() => {
                    open.redact(&|text| self.environment.redactor.apply(text).into_owned());
                    return Err(super::resume::unknown_outcome(effect, &open, error.into()));
                }
                _ => open.settle()?,
            }
            if !retries.allow(self.environment, stage, &error)? {
                return Ok(Err(error));
            }
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
    fn make(&self, call: &Call, open: &OpenCall, stage: &Stage) -> Result<Answer, CpiError> {
        let answer = open.answer_file().map_err(|source| CpiError::Local {
            what: "creating the answer file of a call failed".to_owned(),
            source,
        })?;
        let files = Files {
            answer,
            prepared_path: Some(open.prepared_path()),
            answer_path: open.answer_path(),
            log_path: open.log_path(),
        };
        self.connection.call(call, files, stage)
    }

    /// Records what a call came to, and forgets the call.
    fn settle(&mut self, open: OpenCall, changes: Vec<Change>) -> Result<()> {
        for change in changes {
            self.store.commit(change)?;
        }
        open.settle()
    }

    /// Whether something exists.
    pub(super) fn presence(&self, stage: &Stage, what: Kind, cid: &str) -> Result<Presence> {
        self.connection.presence(stage, what, cid)
    }

    /// Makes a call that changes nothing on record, and nothing that cannot be repeated.
    pub(super) fn ask(
        &self,
        stage: &Stage,
        method: Method,
        arguments: Vec<Value>,
    ) -> Result<Result<Answer, CpiError>> {
        self.connection.ask(stage, method, arguments)
    }

    pub(super) fn environment(&self) -> &'a Environment {
        self.environment
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
