//! VMs on this machine whose processes have ended, as after a reboot of the machine.

use std::time::Duration;

use serde_json::json;

use crate::cpi::Method;
use crate::cpi_set::{Cpis, OwnedCpiInputs, describe_off, with_cpi_context};
use crate::protocol::BuiltinCpi;
use crate::run_context::RunContext;
use crate::state::{State, VmHandle};
use base::events::{Event, Stage};
use base::{Error, ErrorKind, Result};
use erb::RendererChoice;
use manifest::deployment::CpiSource;
use manifest::{Inputs, LoadedManifest};

/// The longest time that an agent may need until it answers after a boot.
pub(super) const BOOT_TIMEOUT: Duration = Duration::from_secs(600);

/// Boots the VM on record if it is off. Returns true if it was.
pub(super) fn boot_if_off(
    run: &RunContext,
    inputs: &Inputs,
    manifest: &LoadedManifest,
    state: &State,
    stage: &Stage,
) -> Result<bool> {
    let boot = with_local_vm((run, inputs, manifest, state), stage, |cpis, vm| {
        if !cpis.is_off(vm)? {
            return Ok(None);
        }
        run.reporter.emit(Event::ChangeStarted);
        let booting = stage.reporter().begin_stage(format!("Booting VM {vm}"));
        let answer = cpis.connect(vm.cpi(), &booting)?.call_unrecorded(
            &booting,
            Method::RebootVm,
            vec![json!(vm.cid)],
        )?;
        answer.map_err(|error| with_cpi_context(vm.cpi(), error))?;
        booting.finish();
        Ok(Some(()))
    })?;
    Ok(boot.is_some())
}

/// Replaces the error of an agent that does not answer if its VM is off (`off_error`), or does not exist.
pub(crate) fn explain_if_off(
    error: Error,
    off_error: fn(&VmHandle) -> Error,
    run: &RunContext,
    inputs: &Inputs,
    manifest: &LoadedManifest,
    state: &State,
) -> Error {
    if error.kind() != ErrorKind::AgentUnreachable {
        return error;
    }
    let Ok(Some(_)) = find_local_vm(manifest, state) else { return error };
    let stage = run.reporter.begin_stage("Checking whether the VM is stopped");
    let explanation = with_local_vm((run, inputs, manifest, state), &stage, |cpis, vm| {
        let Some(directory) = cpis.checked_vm_directory(vm)? else { return Ok(None) };
        Ok(match () {
            () if cpis.is_off(vm)? => Some(("it is stopped", off_error(vm))),
            () if !directory.exists() => Some(("it does not exist", missing_error(vm))),
            () => None,
        })
    });
    match explanation {
        Ok(Some((outcome, clearer_error))) => {
            stage.give_up(outcome);
            clearer_error
        }
        Ok(None) => {
            stage.give_up("it is running");
            error
        }
        // The error of the agent says more than that of the check.
        Err(check_error) => {
            stage.give_up(check_error.summary());
            error
        }
    }
}

pub(crate) fn off_error(vm: &VmHandle) -> Error {
    Error::new(ErrorKind::AgentUnreachable, describe_off(vm))
        .with_hint("to start it and its jobs: `monopile start-env MANIFEST`")
}

/// Returns the error for a VM that its CPI would keep on this machine, but does not have.
fn missing_error(vm: &VmHandle) -> Error {
    Error::new(ErrorKind::AgentUnreachable, format!("VM {vm} does not exist on this machine"))
        .with_hint("to create a new one in its place: `monopile cloud-check MANIFEST`")
}

/// Returns the built-in CPI of a VM, if it has one.
pub(crate) fn builtin_cpi(vm: &VmHandle, manifest: &LoadedManifest) -> Result<Option<BuiltinCpi>> {
    match vm.cpi() {
        None => Ok(match manifest.provider()?.cpi {
            CpiSource::Builtin(name) => BuiltinCpi::named(&name),
            CpiSource::Jobs(_) | CpiSource::Path { .. } | CpiSource::None => None,
        }),
        Some(name) => {
            let config = manifest.cpis()?;
            let mut entries = config.iter().flat_map(|config| &config.cpis);
            Ok(entries.find(|entry| entry.name == name).and_then(|entry| BuiltinCpi::named(&entry.kind)))
        }
    }
}

/// Returns the VM on record, if its CPI keeps it on this machine.
fn find_local_vm(manifest: &LoadedManifest, state: &State) -> Result<Option<VmHandle>> {
    let Some(vm) = state.vm_handle() else { return Ok(None) };
    let is_local = builtin_cpi(&vm, manifest)?.is_some_and(BuiltinCpi::keeps_vms_here);
    Ok(is_local.then_some(vm))
}

/// Calls `act` with the VM on record if its CPI keeps it on this machine.
fn with_local_vm<T>(
    (run, inputs, manifest, state): (&RunContext, &Inputs, &LoadedManifest, &State),
    stage: &Stage,
    act: impl FnOnce(&Cpis<'_>, &VmHandle) -> Result<Option<T>>,
) -> Result<Option<T>> {
    // The releases of other CPIs are not opened.
    let Some(vm) = find_local_vm(manifest, state)? else { return Ok(None) };
    let cpi_inputs = OwnedCpiInputs::open(run, inputs, RendererChoice::default(), manifest, stage)?;
    let cpis = Cpis::find(run, cpi_inputs.borrowed(), state, None)?;
    act(&cpis, &vm)
}
