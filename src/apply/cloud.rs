//! The state and the CPIs that change what it describes: calls that are announced before and recorded after.

use std::path::PathBuf;

use serde_json::Value;

use super::connection::{Connection, Presence, Retries};
use super::cpis::{Cpis, of_cpi};
use super::effect::Effect;
use super::request::Environment;
use super::signals;
use crate::Result;
use crate::cpi::{Answer, Call, CpiError, Files, Method};
use crate::state::{Change, Handle, Intent, Kind, OpenCall, State, Store};
use crate::ui::Stage;

/// The state and the CPIs that change what it describes.
pub(super) struct Cloud<'a> {
    environment: &'a Environment,
    cpis: Cpis<'a>,
    store: Store,
}

impl<'a> Cloud<'a> {
    /// Nothing is written yet: a CPI that cannot answer leaves no trace.
    pub(super) fn new(environment: &'a Environment, cpis: Cpis<'a>, store: Store) -> Self {
        Cloud { environment, cpis, store }
    }

    pub(super) fn cpis(&self) -> &Cpis<'a> {
        &self.cpis
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
            let failed = of_cpi(effect.cpi(), error);
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
        self.attempt_with(effect.cpi(), stage, why, effect, arguments)
    }

    /// As [`Self::attempt`], by another CPI than the one on record.
    pub(super) fn attempt_with(
        &mut self,
        cpi: Option<&str>,
        stage: &Stage,
        why: &str,
        effect: &Effect,
        arguments: Vec<Value>,
    ) -> Result<Result<Answer, CpiError>> {
        let connection = self.cpis.get(cpi)?;
        signals::check(self.environment)?;
        // The director id must be on record before a CPI tags anything with it.
        self.store.establish()?;
        let mut retries = Retries::default();
        loop {
            let call = connection.prepare(effect.method(), arguments.clone());
            let intent = Intent {
                request_id: call.request_id.clone(),
                method: call.method.name().to_owned(),
                terms: connection.terms(),
                cpi: cpi.map(str::to_owned),
                why: why.to_owned(),
                effect: effect.clone(),
            };
            let open = self.store.journal().begin(&intent)?;
            let error = match make(&connection, &call, &open, stage) {
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
                    return Err(super::resume::still_at_work(of_cpi(cpi, error), &open));
                }
                CpiError::NoAnswer { .. } if effect.creates() => {
                    open.redact(&|text| self.environment.redactor.apply(text).into_owned());
                    return Err(super::resume::unknown_outcome(effect, &open, of_cpi(cpi, error)));
                }
                _ => open.settle()?,
            }
            if !retries.allow(self.environment, stage, &error)? {
                return Ok(Err(error));
            }
        }
    }

    /// Records what a call came to, and forgets the call.
    fn settle(&mut self, open: OpenCall, changes: Vec<Change>) -> Result<()> {
        for change in changes {
            self.store.commit(change)?;
        }
        open.settle()
    }

    /// Whether something exists, by the CPI on record.
    pub(super) fn presence(&self, stage: &Stage, what: Kind, handle: &Handle) -> Result<Presence> {
        self.cpis.get(handle.cpi())?.presence(stage, what, &handle.cid)
    }

    /// Makes a call that changes nothing on record, and nothing that cannot be repeated.
    pub(super) fn ask(
        &self,
        cpi: Option<&str>,
        stage: &Stage,
        method: Method,
        arguments: Vec<Value>,
    ) -> Result<Result<Answer, CpiError>> {
        self.cpis.get(cpi)?.ask(stage, method, arguments)
    }

    pub(super) fn environment(&self) -> &'a Environment {
        self.environment
    }

    /// Whether the VM exists; a CPI that cannot tell is believed to have it.
    pub(super) fn has_vm(&self, stage: &Stage, vm: &Handle) -> Result<bool> {
        self.cpis.get(vm.cpi())?.has_vm(stage, &vm.cid)
    }

    /// Sets metadata, which a CPI need not implement.
    pub(super) fn set_metadata(
        &self,
        stage: &Stage,
        method: Method,
        handle: &Handle,
        metadata: Value,
    ) -> Result<()> {
        self.cpis.get(handle.cpi())?.set_metadata(stage, method, &handle.cid, metadata)
    }
}

/// Makes an announced call, so that another run could read its answer.
fn make(
    connection: &Connection<'_>,
    call: &Call,
    open: &OpenCall,
    stage: &Stage,
) -> Result<Answer, CpiError> {
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
    connection.call(call, files, stage)
}
