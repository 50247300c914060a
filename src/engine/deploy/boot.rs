//! Boots a VM on this machine whose processes have ended, as after a reboot of the machine.

use std::time::Duration;

use serde_json::json;

use crate::agent::Agent;
use crate::cpi::Method;
use crate::run_context::RunContext;
use crate::run_cpis::{Cpis, OwnedCpiInputs, name_cpi};
use crate::state::{DiskRecord, State};
use base::events::Stage;
use base::{Error, Result};
use erb::Mode;
use manifest::deployment::CpiSource;
use manifest::{Inputs, LoadedManifest};

/// The time until the agent answers after a boot.
pub(super) const TIMEOUT: Duration = Duration::from_secs(600);

/// Boots the VM on record if it is off. Returns true if it was.
pub(super) fn boot_if_off(
    run: &RunContext,
    inputs: &Inputs,
    loaded: &LoadedManifest,
    state: &State,
    stage: &Stage,
) -> Result<bool> {
    let Some(vm) = state.vm_handle() else { return Ok(false) };
    // The default CPI of a release has no VMs on this machine, so the release is not opened.
    if vm.cpi().is_none() && !matches!(loaded.provider()?.cpi, CpiSource::Builtin(_)) {
        return Ok(false);
    }
    let cpi_inputs = OwnedCpiInputs::open(run, inputs, Mode::default(), loaded, stage)?;
    let cpis = Cpis::find(run, cpi_inputs.borrowed(), state, None)?;
    if !cpis.is_off(&vm)? {
        return Ok(false);
    }
    let booting = run.reporter.stage(format!("Booting VM {vm}"));
    let asked = cpis.connect(vm.cpi(), &booting)?.ask(&booting, Method::RebootVm, vec![json!(vm.cid)])?;
    asked.map_err(|error| name_cpi(vm.cpi(), error))?;
    booting.finish();
    Ok(true)
}

/// Checks that the agent has mounted the disk again, without which no job may start.
pub(super) fn check_disk(agent: &Agent, state: &State) -> Result<()> {
    let Some(disk) = state.current_disk().map(DiskRecord::handle) else { return Ok(()) };
    match agent.list_disk()?.contains(&disk.cid) {
        true => Ok(()),
        false => Err(Error::failure(format!("disk {disk} is not mounted after the boot of the VM"))
            .with_hint("attach it again: `monopile cloud-check MANIFEST`")),
    }
}
