//! Makes the CPI calls of a run: announces each in the journal before, and records its outcome in the state
//! after.

use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;

use super::effect::Effect;
use super::open_call_errors::{still_at_work, unknown_outcome};
use crate::cpi::{Answer, CpiError, CpiRequest, Files, Method};
use crate::cpis::{Connection, Cpis, Presence, Retries, of_cpi};
use crate::environment::{Environment, signals};
use crate::protocol::RegistryEndpoint;
use crate::state::{
    Change, DiskHandle, Document, Intent, OpenCall, Resource, State, Store, Suspect, VmHandle,
};
use base::events::Stage;
use base::task_graph::{self, Task};
use base::{Error, Result};

/// The locked state, and the CPIs whose calls change it.
pub(crate) struct Executor<'a> {
    environment: &'a Environment,
    cpis: Cpis<'a>,
    store: Store,
    /// The registry that serves calls under contract v1.
    registry: Option<RegistryEndpoint>,
}

/// One of several calls made in parallel.
pub(crate) struct ParallelEffect {
    /// The name of its stage.
    pub(crate) name: String,
    /// The effect.
    pub(crate) effect: Effect,
    /// The arguments of the CPI call.
    pub(crate) arguments: Vec<Value>,
}

/// A call with an effect, not yet announced.
struct EffectCall<'c> {
    stage: &'c Stage,
    why: &'c str,
    effect: &'c Effect,
    arguments: &'c [Value],
    /// The registry that serves the call under contract v1.
    registry: Option<&'c RegistryEndpoint>,
}

impl<'a> Executor<'a> {
    /// Creates an executor without writing anything, so that a CPI that fails `info` leaves no trace.
    pub(crate) fn new(environment: &'a Environment, cpis: Cpis<'a>, store: Store) -> Self {
        Executor { environment, cpis, store, registry: None }
    }

    pub(crate) fn cpis(&self) -> &Cpis<'a> {
        &self.cpis
    }

    pub(crate) fn state(&self) -> &State {
        self.store.state()
    }

    pub(crate) fn commit(&mut self, change: Change) -> Result<()> {
        self.store.commit(change)
    }

    pub(crate) fn into_store(self) -> Store {
        self.store
    }

    /// Sets the registry that is announced with later calls.
    pub(crate) fn set_registry(&mut self, registry: &RegistryEndpoint) {
        self.registry = Some(registry.clone());
    }

    /// Returns the journal's document in which the registry keeps the settings of the VM's agent.
    pub(crate) fn registry(&self) -> Document {
        self.store.journal().registry()
    }

    /// Makes a call to the CPI on record, announced before and recorded after. An error of the CPI is
    /// returned as an error.
    pub(crate) fn effect(
        &mut self,
        stage: &Stage,
        why: &str,
        effect: &Effect,
        arguments: Vec<Value>,
    ) -> Result<Answer> {
        self.attempt(effect.cpi(), stage, why, effect, arguments)?.map_err(|error| failed(effect, error))
    }

    /// Like [`Self::effect`] for several calls at once (`--parallel`), each a stage of its own. A failed call
    /// does not stop the others.
    pub(crate) fn effects_in_parallel(
        &mut self,
        stage: &Stage,
        why: &str,
        calls: &[ParallelEffect],
    ) -> Result<Vec<Result<Answer>>> {
        let connections =
            calls.iter().map(|call| self.cpis.get(call.effect.cpi())).collect::<Result<Vec<_>>>()?;
        let connections: Vec<&Connection<'_>> = connections.iter().map(|one| &**one).collect();
        let (environment, registry) = (self.environment, self.registry.as_ref());
        let store = Mutex::new(&mut self.store);
        let outcomes = Mutex::new(Vec::with_capacity(calls.len()));
        task_graph::run(&vec![Task::default(); calls.len()], environment.parallel, &|number| {
            let ParallelEffect { name, effect, arguments } = &calls[number];
            let calling = stage.reporter().stage(name);
            let call = EffectCall { stage: &calling, why, effect, arguments, registry };
            let outcome = announce_and_make(environment, &store, connections[number], &call)
                .and_then(|answer| answer.map_err(|error| failed(effect, error)));
            if outcome.is_ok() {
                calling.finish();
            }
            outcomes.lock().push((number, outcome));
            Ok(())
        })?;
        let mut outcomes = outcomes.into_inner();
        outcomes.sort_by_key(|(number, _)| *number);
        Ok(outcomes.into_iter().map(|(_, outcome)| outcome).collect())
    }

    /// Like [`Self::effect`], but to any CPI, and returns the CPI's error for the caller to judge.
    pub(crate) fn attempt(
        &mut self,
        cpi: Option<&str>,
        stage: &Stage,
        why: &str,
        effect: &Effect,
        arguments: Vec<Value>,
    ) -> Result<Result<Answer, CpiError>> {
        let connection = self.cpis.get(cpi)?;
        let registry = self.registry.as_ref();
        let call = EffectCall { stage, why, effect, arguments: &arguments, registry };
        announce_and_make(self.environment, &Mutex::new(&mut self.store), &connection, &call)
    }

    /// Asks the CPI on record whether a resource exists.
    pub(crate) fn presence(&self, stage: &Stage, resource: &Resource) -> Result<Presence> {
        self.cpis.get(resource.cpi())?.presence(stage, resource)
    }

    /// Makes a call that changes nothing on record and can be repeated safely.
    pub(crate) fn ask(
        &self,
        cpi: Option<&str>,
        stage: &Stage,
        method: Method,
        arguments: Vec<Value>,
    ) -> Result<Result<Answer, CpiError>> {
        self.cpis.get(cpi)?.ask(stage, method, arguments)
    }

    pub(crate) fn environment(&self) -> &'a Environment {
        self.environment
    }

    /// Returns true if the VM exists, or if the CPI does not implement `has_vm`.
    pub(crate) fn has_vm(&self, stage: &Stage, vm: &VmHandle) -> Result<bool> {
        self.cpis.get(vm.cpi())?.has_vm(stage, &vm.cid)
    }

    /// Sets the metadata of a VM. A CPI that does not implement the method is no error.
    pub(crate) fn set_vm_metadata(&self, stage: &Stage, vm: &VmHandle, metadata: Value) -> Result<()> {
        self.cpis.get(vm.cpi())?.set_metadata(stage, Method::SetVmMetadata, vm.cid.as_str(), metadata)
    }

    /// Sets the metadata of a disk. A CPI that does not implement the method is no error.
    pub(crate) fn set_disk_metadata(&self, stage: &Stage, disk: &DiskHandle, metadata: Value) -> Result<()> {
        self.cpis.get(disk.cpi())?.set_metadata(stage, Method::SetDiskMetadata, disk.cid.as_str(), metadata)
    }
}

/// Makes a call to this CPI, announced before and recorded after. Locks the store only to announce and to
/// record, because other calls may be under way.
fn announce_and_make(
    environment: &Environment,
    store: &Mutex<&mut Store>,
    connection: &Connection<'_>,
    call: &EffectCall<'_>,
) -> Result<Result<Answer, CpiError>> {
    let EffectCall { stage, why, effect, arguments, registry } = call;
    let cpi = connection.name();
    signals::check(environment)?;
    // The director id must be on record before a CPI tags anything with it.
    hold(store).establish()?;
    let mut retries = Retries::default();
    loop {
        let call = connection.prepare(effect.method(), arguments.to_vec());
        let intent = Intent {
            request_id: call.request_id.clone(),
            method: call.method.name().to_owned(),
            terms: connection.terms(),
            cpi: cpi.map(str::to_owned),
            why: (*why).to_owned(),
            effect: (*effect).clone(),
            registry: registry.cloned(),
            by: None,
        };
        let open = hold(store).journal().begin(&intent)?;
        // The lock may have been removed while the intent was written.
        environment.paths.state.confirm_lock()?;
        let error = match make(connection, &call, &open, stage) {
            Ok(answer) => match effect.changes(&answer) {
                Ok(changes) => {
                    settle(&mut hold(store), open, changes)?;
                    return Ok(Ok(answer));
                }
                Err(problem) => CpiError::no_answer(call.method, &call.request_id, problem),
            },
            Err(error) => error,
        };
        match error {
            // The CPI process still runs: the next run reads its answer.
            CpiError::Abandoned { .. } => {
                return Err(still_at_work(of_cpi(cpi, error), &open));
            }
            CpiError::NoAnswer { .. } if effect.creates() => {
                open.redact(&environment.redactor);
                return Err(unknown_outcome(effect, &open, of_cpi(cpi, error)));
            }
            _ => {
                record_suspect(environment, &mut hold(store), effect, &error)?;
                open.settle()?;
            }
        }
        if !retries.allow(environment, stage, &error)? {
            return Ok(Err(error));
        }
    }
}

fn hold<'m, 's>(store: &'m Mutex<&'s mut Store>) -> MutexGuard<'m, &'s mut Store> {
    // After a panic in another thread the store is still consistent, because a change is applied only after
    // it is written.
    store.lock()
}

/// Records a suspect if a failed call may have made something.
fn record_suspect(
    environment: &Environment,
    store: &mut Store,
    effect: &Effect,
    error: &CpiError,
) -> Result<()> {
    match effect.suspect(error, &|text| environment.redactor.apply(text).into_owned()) {
        Some(suspect) => store.commit(Change::CreationFailed(suspect)),
        None => Ok(()),
    }
}

/// Records the outcome of a call and settles its intent.
fn settle(store: &mut Store, open: OpenCall, changes: Vec<Change>) -> Result<()> {
    for change in changes {
        store.commit(change)?;
    }
    open.settle()
}

/// The error for a call that the CPI refused.
fn failed(effect: &Effect, error: CpiError) -> Error {
    let suspect = effect.suspect(&error, &|text| text.to_owned());
    let failed = of_cpi(effect.cpi(), error);
    match suspect {
        Some(suspect) => failed.with_hint(hint(&suspect)),
        None => failed,
    }
}

/// Returns the hint for a suspect that was just recorded.
fn hint(suspect: &Suspect) -> String {
    format!(
        "should the CPI have made something before it failed, it is {}; that stays on record until `monopile \
         state forget --call {}`",
        suspect.how_to_find(),
        suspect.request_id
    )
}

/// Makes an announced call with its answer in the journal's files, where another run can read it.
fn make(
    connection: &Connection<'_>,
    call: &CpiRequest,
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
