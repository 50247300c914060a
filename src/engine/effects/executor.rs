//! Makes the CPI calls of a run. Announces each call that has an [`Effect`] in the journal first, and then
//! records its outcome in the state. Questions, metadata and reboots are not announced.

use std::cell::RefCell;
use std::fs::File;
use std::io;

use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;

use super::effect::Effect;
use super::failed_call;
use super::open_call_errors::{explain_running_call, unknown_outcome_error};
use crate::agent_client::with_console;
use crate::cpi::{Answer, CpiError, CpiRequest, Method, OutputFiles};
use crate::cpi_set::{CpiConnection, Cpis, Presence, Retries, with_cpi_context};
use crate::protocol::RegistryEndpoint;
use crate::run_context::{RunContext, signals};
use crate::state::call_rules::{self, CallOutcome, ConcludingStep, Preparation};
use crate::state::{
    Change, CpiLocation, DiskHandle, Document, Intent, OpenCall, Resource, State, Store, VmHandle,
};
use base::console::LastBoot;
use base::events::Stage;
use base::files::scratch_claim;
use base::task_graph::{self, Task};
use base::{Error, ErrorKind, Result};

/// The locked state, and the CPIs whose calls change it.
pub(crate) struct Executor<'a> {
    run: &'a RunContext,
    cpis: Cpis<'a>,
    store: Store,
    /// The registry that serves calls under contract v1.
    registry: Option<RegistryEndpoint>,
    /// The resources whose existence a CPI has denied in this run.
    denied_resources: RefCell<Vec<Resource>>,
}

/// One of several calls made in parallel.
pub(crate) struct ParallelCall {
    pub(crate) stage_name: String,
    pub(crate) effect: Effect,
    /// The arguments of the CPI call.
    pub(crate) arguments: Vec<Value>,
}

/// A call that has an effect, before it is announced.
struct EffectCall<'c> {
    stage: &'c Stage,
    reason: &'c str,
    effect: &'c Effect,
    arguments: &'c [Value],
    /// The registry that serves the call under contract v1.
    registry: Option<&'c RegistryEndpoint>,
}

impl<'a> Executor<'a> {
    /// Creates an executor without writing anything, so that a CPI that fails `info` leaves no trace.
    pub(crate) fn new(run: &'a RunContext, cpis: Cpis<'a>, store: Store) -> Self {
        Executor { run, cpis, store, registry: None, denied_resources: RefCell::default() }
    }

    /// Returns the CPIs of the run.
    pub(crate) fn cpis(&self) -> &Cpis<'a> {
        &self.cpis
    }

    /// Returns the state with the changes so far.
    pub(crate) fn state(&self) -> &State {
        self.store.state()
    }

    /// Applies a change and writes the state. The change is durable when this returns.
    pub(crate) fn commit(&mut self, change: Change) -> Result<()> {
        self.run.signals.begin_change();
        self.store.commit(change)
    }

    /// Returns the locked state, when no more calls follow.
    pub(crate) fn into_store(self) -> Store {
        self.store
    }

    /// Sets the registry that is announced with later calls.
    pub(crate) fn set_registry(&mut self, registry: &RegistryEndpoint) {
        self.registry = Some(registry.clone());
    }

    /// Returns the journal's document in which the registry keeps the settings of the VM's agent.
    pub(crate) fn registry_document(&self) -> Document {
        self.store.journal().registry_document()
    }

    /// Makes the call of an effect, to the CPI that the effect names. Announces the call first, and then
    /// records its outcome. Fails if the CPI answers with an error.
    pub(crate) fn perform(
        &mut self,
        stage: &Stage,
        reason: &str,
        effect: &Effect,
        arguments: Vec<Value>,
    ) -> Result<Answer> {
        self.attempt(effect.cpi(), stage, reason, effect, &arguments)?
            .map_err(|error| failed_call::call_error(self.state(), effect, &arguments, error))
    }

    /// Like [`Self::perform`], but returns the error of a CPI that does not implement the method, or does not
    /// support it for this resource.
    pub(crate) fn perform_if_supported(
        &mut self,
        stage: &Stage,
        reason: &str,
        effect: &Effect,
        arguments: Vec<Value>,
    ) -> Result<Result<Answer, CpiError>> {
        match self.attempt(effect.cpi(), stage, reason, effect, &arguments)? {
            Err(error) if !failed_call::declines(&error) => {
                Err(failed_call::call_error(self.state(), effect, &arguments, error))
            }
            answer => Ok(answer),
        }
    }

    /// Like [`Self::perform`] for several calls at once (`--parallel`), each as a stage of its own. A failed
    /// call does not stop the others.
    pub(crate) fn perform_in_parallel(
        &mut self,
        stage: &Stage,
        reason: &str,
        calls: &[ParallelCall],
    ) -> Result<Vec<Result<Answer>>> {
        let connections = calls
            .iter()
            .map(|call| self.cpis.connect_in_own_stage(call.effect.cpi()))
            .collect::<Result<Vec<_>>>()?;
        let connections: Vec<&CpiConnection<'_>> =
            connections.iter().map(|connection| &**connection).collect();
        let (run, registry) = (self.run, self.registry.as_ref());
        let store = Mutex::new(&mut self.store);
        let outcomes = Mutex::new(Vec::with_capacity(calls.len()));
        task_graph::run(&vec![Task::default(); calls.len()], run.parallel, &|index| {
            let ParallelCall { stage_name, effect, arguments } = &calls[index];
            let calling = stage.reporter().begin_stage(stage_name);
            let call = EffectCall { stage: &calling, reason, effect, arguments, registry };
            let outcome = announce_and_make(run, &store, connections[index], &call).and_then(|answer| {
                answer.map_err(|error| {
                    failed_call::call_error(lock_store(&store).state(), effect, arguments, error)
                })
            });
            if outcome.is_ok() {
                calling.finish();
            }
            outcomes.lock().push((index, outcome));
            Ok(())
        })?;
        let mut outcomes = outcomes.into_inner();
        outcomes.sort_by_key(|(index, _)| *index);
        Ok(outcomes.into_iter().map(|(_, outcome)| outcome).collect())
    }

    /// Like [`Self::perform`], but with any CPI. Returns the CPI's error for the caller to judge.
    pub(crate) fn attempt(
        &mut self,
        cpi: Option<&str>,
        stage: &Stage,
        reason: &str,
        effect: &Effect,
        arguments: &[Value],
    ) -> Result<Result<Answer, CpiError>> {
        let connection = self.cpis.connect_in_own_stage(cpi)?;
        let registry = self.registry.as_ref();
        let call = EffectCall { stage, reason, effect, arguments, registry };
        announce_and_make(self.run, &Mutex::new(&mut self.store), &connection, &call)
    }

    /// Asks the CPI of a resource whether the resource exists.
    pub(crate) fn ask_presence(&self, stage: &Stage, resource: &Resource) -> Result<Presence> {
        let presence = self.cpis.connect_in_own_stage(resource.cpi())?.ask_presence(stage, resource)?;
        if presence == Presence::Gone {
            self.denied_resources.borrow_mut().push(resource.clone());
        }
        Ok(presence)
    }

    /// Returns true if the CPI denied in this run that the resource exists.
    pub(crate) fn was_denied(&self, resource: &Resource) -> bool {
        self.denied_resources.borrow().contains(resource)
    }

    /// Makes a call that changes nothing on record, and therefore announces no intent. The call must be safe
    /// to repeat.
    pub(crate) fn call_unrecorded(
        &self,
        cpi: Option<&str>,
        stage: &Stage,
        method: Method,
        arguments: Vec<Value>,
    ) -> Result<Result<Answer, CpiError>> {
        self.cpis.connect_in_own_stage(cpi)?.call_unrecorded(stage, method, arguments)
    }

    /// Returns the paths of the CPI's properties that have changed since the location of the CPI's resources
    /// was recorded.
    pub(crate) fn find_changed_location_properties(&self, cpi: Option<&str>) -> Result<Vec<String>> {
        self.cpis.find_changed_location_properties(self.state(), cpi)
    }

    /// Returns what the console of the VM shows of its last boot, if the CPI keeps it on this machine.
    pub(crate) fn read_last_boot(&self, vm: &VmHandle) -> Option<LastBoot> {
        self.cpis.read_last_boot(vm)
    }

    /// Adds what the console of the VM shows to an error of the connection to it.
    pub(crate) fn with_console(&self, vm: &VmHandle, error: Error) -> Error {
        match self.read_last_boot(vm) {
            Some(boot) if !matches!(error.kind(), ErrorKind::Interrupted(_)) => {
                with_console(error, vm, &boot)
            }
            _ => error,
        }
    }

    pub(crate) fn run_context(&self) -> &'a RunContext {
        self.run
    }

    /// Returns true if the VM exists, or if the CPI does not implement `has_vm`.
    pub(crate) fn fetch_may_have_vm(&self, stage: &Stage, vm: &VmHandle) -> Result<bool> {
        let may_exist = self.cpis.connect_in_own_stage(vm.cpi())?.fetch_may_have_vm(stage, &vm.cid)?;
        if !may_exist {
            self.denied_resources.borrow_mut().push(vm.clone().into());
        }
        Ok(may_exist)
    }

    /// Sets the metadata of a VM. Succeeds if the CPI does not implement the method.
    pub(crate) fn set_vm_metadata(&self, stage: &Stage, vm: &VmHandle, metadata: Value) -> Result<()> {
        self.cpis.connect_in_own_stage(vm.cpi())?.set_metadata(
            stage,
            Method::SetVmMetadata,
            vm.cid.as_str(),
            metadata,
        )
    }

    /// Sets the metadata of a disk. Succeeds if the CPI does not implement the method.
    pub(crate) fn set_disk_metadata(&self, stage: &Stage, disk: &DiskHandle, metadata: Value) -> Result<()> {
        self.cpis.connect_in_own_stage(disk.cpi())?.set_metadata(
            stage,
            Method::SetDiskMetadata,
            disk.cid.as_str(),
            metadata,
        )
    }
}

/// Makes a call to this CPI. Locks the store only to announce the call and to record its outcome, because
/// other calls may be under way.
fn announce_and_make(
    run: &RunContext,
    store: &Mutex<&mut Store>,
    connection: &CpiConnection<'_>,
    effect_call: &EffectCall<'_>,
) -> Result<Result<Answer, CpiError>> {
    let EffectCall { stage, reason, effect, arguments, registry } = effect_call;
    let cpi = connection.name();
    signals::check_may_continue(run).map_err(|error| match error.kind() {
        ErrorKind::Interrupted(_) => {
            Error::new(error.kind(), format!("interrupted before the CPI's `{}` was called", effect.method()))
        }
        _ => error,
    })?;
    let _in_flight = run.signals.begin_call(format!("the CPI's `{}`", effect.method()));
    // The director id must be on record before a CPI tags anything with it.
    lock_store(store).write_if_new()?;
    let mut retries = Retries::default();
    loop {
        let request = connection.new_request(effect.method(), arguments.to_vec());
        let intent = Intent {
            request_id: request.request_id.clone(),
            method: request.method.name().to_owned(),
            terms: connection.terms(),
            cpi: cpi.map(str::to_owned),
            reason: (*reason).to_owned(),
            effect: (*effect).clone(),
            registry: registry.cloned(),
            holder: None,
        };
        let open_call = lock_store(store).journal().new_call(&request.request_id);
        let mut answer_file = None;
        for step in call_rules::PREPARATIONS {
            match step {
                Preparation::Announce => lock_store(store).journal().announce(&open_call, &intent)?,
                Preparation::PrepareAnswer => answer_file = Some(open_call.create_answer_file()),
                Preparation::ConfirmLock => {
                    // The store is not locked during a request.
                    let storage = lock_store(store).storage().clone();
                    storage.confirm_lock_with_server()?;
                }
            }
        }
        // `PREPARATIONS` always contains `PrepareAnswer`; this satisfies the compiler.
        let answer_file = answer_file.unwrap_or_else(|| open_call.create_answer_file());
        let mut result =
            run_announced_call(connection, &request, &open_call, answer_file, stage).and_then(|answer| {
                let changes = effect.changes(&answer);
                let no_answer_error =
                    |problem| CpiError::no_answer(request.method, &request.request_id, problem);
                changes.map(|changes| (answer, changes)).map_err(no_answer_error)
            });
        if let Ok((_, changes)) = &mut result {
            changes.extend(find_location_change(lock_store(store).state(), effect, connection)?);
        }
        let error = match end_call(run, &mut lock_store(store), cpi, effect, &open_call, result)? {
            Ok(answer) => return Ok(Ok(answer)),
            Err(error) => error,
        };
        if !retries.pause_before_retry(run, stage, &error)? {
            return Ok(Err(error));
        }
    }
}

/// Returns the change that records the location of a created resource, if it is not on record yet. Returns
/// one only for a VM and for the first resource of a CPI: other resources may be in an earlier location.
fn find_location_change(
    state: &State,
    effect: &Effect,
    connection: &CpiConnection<'_>,
) -> Result<Option<Change>> {
    let cpi = effect.cpi();
    let is_first = || !state.resources().any(|resource| resource.cpi() == cpi);
    if !effect.creates() || !(matches!(effect, Effect::CreateVm { .. }) || is_first()) {
        return Ok(None);
    }
    let location = connection.location()?;
    let is_recorded =
        state.location(cpi).is_some_and(|recorded_location| recorded_location.matches(&location));
    Ok(CpiLocation::of(cpi, &location).filter(|_| !is_recorded).map(Change::LocationRecorded))
}

fn lock_store<'m, 's>(store: &'m Mutex<&'s mut Store>) -> MutexGuard<'m, &'s mut Store> {
    // This lock is not poisoned by a panic in another thread. The store is still consistent then: a change
    // is applied to a copy, which replaces the state only once it is written.
    store.lock()
}

/// Ends a call: records its outcome and settles it, or returns the error for a call that stays open.
fn end_call(
    run: &RunContext,
    store: &mut Store,
    cpi: Option<&str>,
    effect: &Effect,
    open_call: &OpenCall,
    result: Result<(Answer, Vec<Change>), CpiError>,
) -> Result<Result<Answer, CpiError>> {
    let (outcome, answer, changes) = match result {
        Ok((answer, changes)) => (CallOutcome::Answered, Ok(answer), changes),
        Err(error) => (failed_call::outcome(store.state(), effect, &error), Err(error), Vec::new()),
    };
    for step in call_rules::concluding_steps(outcome, effect.creates(), false) {
        match step {
            ConcludingStep::Record => {
                changes.iter().try_for_each(|change| store.commit(change.clone()))?;
            }
            ConcludingStep::RecordSuspect => {
                if let Err(error) = &answer {
                    failed_call::record(&run.redactor, store, effect, error)?;
                }
            }
            ConcludingStep::Settle => open_call.settle()?,
            ConcludingStep::StayOpen => {
                return answer.map(Ok).map_err(|error| stays_open_error(run, cpi, effect, open_call, error));
            }
        }
    }
    Ok(answer)
}

/// Returns the error for a call that stays open.
fn stays_open_error(
    run: &RunContext,
    cpi: Option<&str>,
    effect: &Effect,
    open_call: &OpenCall,
    error: CpiError,
) -> Error {
    // The CPI process still runs: the next run reads its answer.
    if matches!(error, CpiError::Abandoned { .. }) {
        return explain_running_call(with_cpi_context(cpi, error), effect, open_call);
    }
    // A run that took over the lock may have read and removed the answer.
    if let Err(lock_error) = run.paths.storage.check_lock() {
        return lock_error;
    }
    open_call.redact(&run.redactor);
    unknown_outcome_error(effect, open_call, with_cpi_context(cpi, error), None)
}

/// Makes an announced call with its answer in the journal's files, where another run can read it.
fn run_announced_call(
    connection: &CpiConnection<'_>,
    request: &CpiRequest,
    open_call: &OpenCall,
    answer_file: io::Result<File>,
    stage: &Stage,
) -> Result<Answer, CpiError> {
    let answer_file =
        answer_file.map_err(|source| CpiError::answer_file(&open_call.answer_path(), source))?;
    let (prepared_path, answer_path) = (open_call.prepared_path(), open_call.answer_path());
    scratch_claim::record(connection.scratch(), &[&prepared_path, &answer_path]).map_err(|source| {
        CpiError::Local {
            message: format!("writing to '{}' failed", connection.scratch().display()),
            path: Some(connection.scratch().to_owned()),
            source,
        }
    })?;
    let files = OutputFiles {
        answer: answer_file,
        prepared_path: Some(prepared_path),
        answer_path,
        log_path: open_call.log_path(),
        end_path: Some(open_call.end_path()),
    };
    connection.call(request, files, stage)
}
