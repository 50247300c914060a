//! `delete-vm`, `delete-disk`, `delete-stemcell` and `delete-snapshot`: delete a resource that the operator
//! names.

use super::target::{TargetEnvironment, confirm};
use crate::agent_client::{create_client, resolve_endpoint};
use crate::cpi_set::{self, OwnedCpiInputs, Presence};
use crate::effects::{Contradiction, Executor, RunRegistry, deletion};
use crate::protocol::{AnyCid, ResourceKind, StemcellCid, VmCid};
use crate::record_commands;
use crate::run_context::RunContext;
use crate::state::{Change, Resource, State, StemcellHandle, StemcellRecord, VmHandle};
use base::text;
use base::{Error, Result};
use manifest::cpi_label;

/// A deletion that the operator requests.
#[derive(Debug, Clone)]
pub struct DeleteRequest {
    /// The environment.
    pub target_environment: TargetEnvironment,
    /// The resource.
    pub target: DeleteTarget,
    /// `--cpi`: only a resource of this CPI; the empty name is the default CPI.
    pub cpi: Option<String>,
}

/// The resource that an operator names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeleteTarget {
    /// By its CID. A VM need not be on record.
    Cid(AnyCid),
    /// A stemcell: its CID, or `NAME/VERSION`.
    Stemcell(String),
}

impl DeleteTarget {
    fn kind(&self) -> ResourceKind {
        match self {
            DeleteTarget::Cid(cid) => cid.kind(),
            DeleteTarget::Stemcell(_) => ResourceKind::Stemcell,
        }
    }
}

const DELETION_REASON: &str = "requested on the command line";

/// Deletes the resource and returns a summary in one sentence.
pub fn delete(request: &DeleteRequest, run: &RunContext) -> Result<String> {
    let DeleteRequest { target_environment, target, cpi } = request;
    let kind = target.kind();
    let environment = target_environment.open(run, &format!("delete-{}", kind.name().to_lowercase()))?;
    let cpi = cpi.as_deref();
    if let Some(cpi) = cpi {
        cpi_set::check_named_cpi(environment.cpi_inputs.config.as_ref(), cpi)?;
    }
    let mut executor = target_environment.create_executor(run, &environment.cpi_inputs, environment.store)?;
    let mut unknown_vm = None;
    let targets: Vec<Resource> = match target {
        DeleteTarget::Cid(AnyCid::Vm(cid)) if !is_on_record(executor.state(), cid, cpi) => {
            let vm = find_vm(&executor, run, cid, cpi)?;
            unknown_vm = Some(vm.clone());
            vec![vm.into()]
        }
        DeleteTarget::Cid(cid) => {
            let found_resource = record_commands::find_any(executor.state(), cid, cpi);
            vec![found_resource.map_err(|error| error.with_hint(untracked_hint(cid)))?]
        }
        DeleteTarget::Stemcell(name) => {
            stemcells(executor.state(), name, cpi)?.into_iter().map(Resource::Stemcell).collect()
        }
    };
    for resource in &targets {
        refuse_used(executor.state(), resource)?;
        confirm(run, &question(executor.state(), resource))?;
    }
    for resource in &targets {
        refuse_denied(run, &environment.cpi_inputs, &executor, resource)?;
    }
    let registry = match targets.as_slice() {
        [Resource::Vm(vm)] => {
            start_registry(run, target_environment, &environment.cpi_inputs, &mut executor, vm)?
        }
        _ => None,
    };
    let deleting = run.reporter.begin_stage("Deleting");
    let mut still_recorded = Vec::new();
    for resource in &targets {
        if let Some(vm) = &unknown_vm {
            put_on_record(&mut executor, vm)?;
        }
        if let Some(error) = deletion::delete(&mut executor, resource, DELETION_REASON, &deleting)? {
            let error = error.with_note(format!("{resource} stays on record"));
            return Err(error.with_retry_hint());
        }
        let mark = executor.state().undeleted(resource);
        if let Some(vm) = unknown_vm.as_ref().filter(|_| mark.is_some_and(|mark| mark.was_not_found)) {
            // Only the command line claimed that the VM existed.
            executor.commit(Change::VmDeleted(vm.clone()))?;
            return Err(no_vm_error(&vm.cid, cpi));
        }
        if executor.state().has_on_record(resource) {
            still_recorded.push(resource.handle().to_string());
        }
    }
    drop(registry);
    deleting.finish();
    let handles: Vec<String> = targets.iter().map(|resource| resource.handle().to_string()).collect();
    Ok(match still_recorded.as_slice() {
        [] => format!("Deleted {kind} {}", handles.join(" and ")),
        still_recorded => format!(
            "The CPI does not find {kind} {}, but could not confirm the deletion: it stays on record. To \
             check again, run the same command again",
            still_recorded.join(" and ")
        ),
    })
}

fn is_on_record(state: &State, vm: &VmCid, cpi: Option<&str>) -> bool {
    state.vms().any(|record| record.cid == *vm && record.is_of(cpi))
}

/// Finds the CPI of a VM that is not on record: the named one, or the first that has the VM. If no CPI
/// confirms the VM, returns the first one that does not know.
fn find_vm(executor: &Executor<'_>, run: &RunContext, cid: &VmCid, cpi: Option<&str>) -> Result<VmHandle> {
    let all_cpi_names = || std::iter::once(None).chain(executor.cpis().other_cpis(None));
    let cpi_names: Vec<Option<String>> = match cpi {
        Some(name) => vec![Some(name.to_owned()).filter(|name| !name.is_empty())],
        None => all_cpi_names().collect(),
    };
    let mut undecided_vm = None;
    for name in cpi_names {
        let handle = VmHandle { cid: cid.clone(), cpi: name };
        executor.cpis().connect_in_own_stage(handle.cpi())?;
        let asking = run.reporter.begin_stage(format!("Asking the CPI for VM {handle}"));
        let presence = executor.ask_presence(&asking, &Resource::Vm(handle.clone()))?;
        match presence {
            Presence::Exists => {
                asking.finish();
                return Ok(handle);
            }
            Presence::Gone => asking.give_up("not found"),
            Presence::Unknown(doubt) => {
                asking.give_up(doubt.to_string());
                undecided_vm = undecided_vm.or(Some(handle));
            }
        }
    }
    undecided_vm.ok_or_else(|| no_vm_error(cid, cpi))
}

fn no_vm_error(cid: &VmCid, cpi: Option<&str>) -> Error {
    let message_start = match cpi {
        None => "no CPI finds VM".to_owned(),
        Some(cpi) => format!("{} does not find VM", cpi_label(Some(cpi).filter(|cpi| !cpi.is_empty()))),
    };
    Error::invalid(format!("{message_start} '{cid}', and it is not on record"))
        .with_note("nothing was changed")
        .with_hint("list the resources on record: `monopile state show MANIFEST`")
}

/// Returns the hint to delete a resource that is not on record.
fn untracked_hint(cid: &AnyCid) -> String {
    let kind = cid.kind().name().to_lowercase();
    let cid = text::shell_word(cid.as_str());
    format!("to delete a {kind} that is not on record: `monopile cpi call MANIFEST delete_{kind} {cid}`")
}

/// Records that the VM is to be deleted, so that a later run deletes it if this one fails to.
fn put_on_record(executor: &mut Executor<'_>, vm: &VmHandle) -> Result<()> {
    executor.commit(Change::VmDeletionBegun {
        vm: vm.clone(),
        reason: "requested on the command line".to_owned(),
        began_at: base::encoding::now(),
    })
}

/// Starts the registry under contract v1, because the CPI may remove the settings of the VM's agent from it.
fn start_registry<'a>(
    run: &'a RunContext,
    target_environment: &TargetEnvironment,
    cpi_inputs: &OwnedCpiInputs,
    executor: &mut Executor<'_>,
    vm: &VmHandle,
) -> Result<Option<RunRegistry<'a>>> {
    let contract = executor.cpis().connect_in_own_stage(vm.cpi())?.contract();
    RunRegistry::start(run, &cpi_inputs.provider, &target_environment.inputs.manifest, contract, executor)
}

/// Returns the matching stemcells on record. A CID matches one stemcell. `NAME/VERSION` matches the stemcells
/// of every CPI.
fn stemcells(state: &State, name: &str, cpi: Option<&str>) -> Result<Vec<StemcellHandle>> {
    let mut handles: Vec<StemcellHandle> = state
        .stemcells
        .iter()
        .filter(|record| format!("{}/{}", record.name, record.version) == name)
        .map(StemcellRecord::handle)
        .filter(|handle| handle.is_of(cpi))
        .collect();
    handles.sort();
    handles.dedup();
    match handles.is_empty() {
        false => Ok(handles),
        true if name.contains('/') => {
            let stemcell_names =
                state.stemcells.iter().map(|record| format!("{}/{}", record.name, record.version));
            let error = Error::invalid(format!("no stemcell '{name}' is on record"));
            Err(match stemcell_names.collect::<Vec<_>>().as_slice() {
                [] => error,
                names => error.with_note(format!("on record: {}", text::comma_list(names))),
            })
        }
        true => {
            let cid: StemcellCid = name.parse().map_err(|error| Error::usage(format!("{error}")))?;
            let handles = state.stemcells.iter().map(StemcellRecord::handle);
            let result = record_commands::find(handles, &cid, cpi).map(|handle| vec![handle]);
            result.map_err(|error| match state.stemcells.is_empty() || !error.hints().is_empty() {
                true => error,
                false => error.with_hint("name a CID, or NAME/VERSION: `monopile stemcells MANIFEST`"),
            })
        }
    }
}

/// Rejects the deletion of the VM of this environment if the CPI denies it and its agent answers. The CPI
/// then looks in the wrong place, and its success would mean nothing.
fn refuse_denied(
    run: &RunContext,
    cpi_inputs: &OwnedCpiInputs,
    executor: &Executor<'_>,
    resource: &Resource,
) -> Result<()> {
    let Resource::Vm(vm) = resource else { return Ok(()) };
    if executor.state().vm_handle().as_ref() != Some(vm) {
        return Ok(());
    }
    let asking = run.reporter.begin_stage(format!("Asking the CPI for VM {vm}"));
    if executor.ask_presence(&asking, resource)? == Presence::Gone {
        let agent = create_client(run, resolve_endpoint(run, &cpi_inputs.provider)?, executor.state());
        Contradiction::check(executor, &agent, vm, asking.reporter())?;
    }
    asking.finish();
    Ok(())
}

/// Rejects the deletion of a resource that the VM uses.
fn refuse_used(state: &State, resource: &Resource) -> Result<()> {
    match resource {
        Resource::Disk(handle) if state.disk_of_vm().is_some_and(|disk| disk.handle() == *handle) => {
            Err(Error::invalid(format!("disk {handle} is the persistent disk of this environment"))
                .with_note("nothing was changed")
                .with_hint("to replace it with another disk: `monopile attach-disk MANIFEST CID`")
                .with_hint("to delete the whole environment: `monopile delete-env MANIFEST`"))
        }
        Resource::Disk(handle) if state.disk_left_on_vm().is_some_and(|disk| disk.handle() == *handle) => {
            let restriction = "until the next create-env attaches the disk that replaces it";
            Err(Error::invalid(format!("the VM uses disk {handle} {restriction}"))
                .with_note("nothing was changed")
                .with_hint("attach the other disk first: `monopile create-env MANIFEST`"))
        }
        Resource::Stemcell(handle)
            if state.vm_handle().is_some()
                && state.current_stemcell().is_some_and(|record| record.handle() == *handle) =>
        {
            Err(Error::invalid(format!("the VM of this environment was created from stemcell {handle}"))
                .with_note("nothing was changed")
                .with_note("create-env with another stemcell deletes this one")
                .with_hint("to delete the whole environment: `monopile delete-env MANIFEST`"))
        }
        _ => Ok(()),
    }
}

fn question(state: &State, resource: &Resource) -> String {
    match resource {
        Resource::Vm(handle) if state.vm_handle().as_ref() == Some(handle) => format!(
            "The jobs of VM {handle} are not stopped first: stop-env stops them. The next create-env creates \
             a new VM.\nDelete the VM of this environment?"
        ),
        Resource::Disk(handle) => {
            let size = state.disk(handle).map(|disk| format!(" of {} MiB", disk.size)).unwrap_or_default();
            format!("Delete disk {handle}{size} with all its data?")
        }
        _ => format!("Delete {resource}?"),
    }
}
