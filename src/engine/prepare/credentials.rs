//! Compares the credentials of a run with those that were deployed.

use crate::run_context::RunContext;
use crate::state::{Credentials, State};
use base::text::listed;
use base::{Error, Result};
use manifest::{LoadedManifest, VariableValue};

/// Fails if the source of the deployed credentials is missing, because all of them would then be generated
/// again.
pub(super) fn check(run: &RunContext, state: &State, values: &[VariableValue]) -> Result<()> {
    check_source(run, state, values).map_err(|error| {
        error.with_note("nothing was changed").with_hint(
            "to generate new ones, pass --new-credentials: the VM's agent refuses them, so the VM is \
             replaced without stopping its jobs",
        )
    })
}

/// Fails like [`check`], for commands that use the deployed credentials only.
pub(super) fn check_source(run: &RunContext, state: &State, values: &[VariableValue]) -> Result<()> {
    let deployed = state.monopile.credentials.as_ref();
    let forgotten = match deployed {
        Some(deployed) => deployed.forgotten(values),
        None => all_of_bosh(state, values),
    };
    let Some(first) = forgotten.first() else { return Ok(()) };
    let names = listed(&forgotten);
    let error = Error::invalid(format!(
        "the credentials with which this environment was deployed are missing, and would be generated again: \
         {names}"
    ));
    let stored = deployed.filter(|deployed| deployed.was_stored(first));
    Err(match stored.and_then(|deployed| deployed.vars_store.as_ref()) {
        Some(path) => {
            keep(run, path);
            error.with_hint(manifest::pass_file("the vars store of the last deploy", "--vars-store", path))
        }
        None => error.with_hint(
            "pass them as for the last deploy (--vars-store, --vars-file, --var, --var-file, --vars-exec or \
             --vars-env)",
        ),
    })
}

/// Returns the names of all variables if `bosh` deployed the VM and each of them would be generated again.
/// Its states do not record which credentials it had.
fn all_of_bosh<'v>(state: &State, values: &'v [VariableValue]) -> Vec<&'v str> {
    let is_of_bosh = state.vm_handle().is_some() && state.monopile.vm.is_none();
    match is_of_bosh && values.iter().all(|variable| variable.value.is_none()) {
        true => values.iter().map(|variable| variable.name.as_str()).collect(),
        false => Vec::new(),
    }
}

/// Returns the names of the variables whose values differ from the deployed ones.
pub(super) fn changed_variables(state: &State, values: &[VariableValue]) -> Vec<String> {
    let deployed = state.monopile.credentials.as_ref();
    deployed.into_iter().flat_map(|deployed| deployed.changed(values)).map(str::to_owned).collect()
}

/// Returns the record of the values in a loaded manifest.
pub(super) fn to_record(loaded: &LoadedManifest) -> Option<Credentials> {
    // The path is absolute, because another run may have another working directory.
    let path = loaded.vars_store.as_ref().map(|path| path.canonicalize().unwrap_or_else(|_| path.clone()));
    Credentials::of(&loaded.values, path.map(|path| path.display().to_string()))
}

fn keep(run: &RunContext, path: &str) {
    run.redactor.exempt_from_precautions(path);
    let name = std::path::Path::new(path).file_name();
    name.into_iter().for_each(|name| run.redactor.exempt_from_precautions(&name.to_string_lossy()));
}
