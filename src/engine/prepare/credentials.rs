//! Compares the credentials of a run with those that were deployed.

use super::OtherEnvironment;
use crate::run_context::RunContext;
use crate::state::{CredentialDigests, RunCredentials, State};
use base::text::comma_list;
use base::{Error, Result};
use manifest::{Inputs, LoadedManifest, VariableValue};

/// Fails if deployed credentials would be generated again because their source is missing, or because the one
/// that the agent needs is missing in it. Also fails if another source seems to be given in its place.
pub(crate) fn check(
    run: &RunContext,
    inputs: &Inputs,
    state: &State,
    values: &[VariableValue],
) -> Result<()> {
    check_source(run, inputs, state, values).map_err(|error| {
        let error = error.with_note("nothing was changed");
        match other_environment_error(run, inputs, state, &error) {
            // New credentials would replace the VM of another environment.
            Some(other) => other,
            None => error
                .with_note(
                    "the VM's agent refuses new credentials: to deploy them, create-env replaces the VM \
                     without stopping its jobs",
                )
                .with_hint("to deploy new credentials: `monopile create-env MANIFEST --new-credentials`"),
        }
    })
}

/// Returns the error for a state of another environment, if that explains the error about credentials.
pub(super) fn other_environment_error(
    run: &RunContext,
    inputs: &Inputs,
    state: &State,
    error: &Error,
) -> Option<Error> {
    let other = OtherEnvironment::find_by_address(run, state, inputs)?;
    Some(other.explain(error))
}

/// Fails if a deployed credential no longer has a source, or has another one.
pub(super) fn check_source(
    run: &RunContext,
    inputs: &Inputs,
    state: &State,
    values: &[VariableValue],
) -> Result<()> {
    let deployed_digests = state.monopile.credential_digests.as_ref();
    let vars_store = inputs.vars_store.as_deref().or(inputs.default_vars_store.as_deref());
    let run_credentials = RunCredentials::new(values, vars_store);
    let hints_to_pass = |name: &str| {
        CredentialDigests::hints_to_pass(deployed_digests, name, &run_credentials, &run.redactor)
    };
    let mut missing_names = match deployed_digests {
        Some(digests) => digests.names_with_missing_source(values),
        None => missing_names_of_bosh_state(state, values),
    };
    if missing_names.is_empty() && state.vm_handle().is_some() {
        missing_names =
            deployed_digests.map(|digests| digests.missing_names_for_agent(values)).unwrap_or_default();
    }
    if let Some(first) = missing_names.first() {
        let error =
            Error::invalid(format!("the deployed credentials are missing: {}", comma_list(&missing_names)))
                .with_hints(hints_to_pass(first));
        let was_stored = |name: &str| deployed_digests.is_none_or(|digests| digests.was_stored(name));
        return Err(match vars_store.filter(|_| was_stored(first)) {
            Some(path) if path.try_exists().unwrap_or(true) => {
                let stored_names: Vec<_> =
                    missing_names.iter().copied().filter(|name| was_stored(name)).collect();
                let gap = match stored_names.len() {
                    2.. if stored_names.len() == missing_names.len() => "has none of them".to_owned(),
                    _ => format!("lacks {}", comma_list(&stored_names)),
                };
                error.with_source(format!("the vars store '{}' {gap}", path.display()))
            }
            Some(path) => error.with_source(format!("the vars store '{}' does not exist", path.display())),
            None => error,
        });
    }
    // Without a VM and its disks, other values harm nothing.
    let has_vm_or_disk = state.vms().next().is_some() || !state.disks.is_empty();
    let foreign_names = deployed_digests
        .filter(|_| has_vm_or_disk)
        .map(|digests| digests.names_from_other_source(values))
        .unwrap_or_default();
    let Some(first) = foreign_names.first() else { return Ok(()) };
    let is_stored = values.iter().any(|value| value.name == **first && value.is_stored);
    let source = match run_credentials.vars_store.as_ref().filter(|_| is_stored) {
        Some(path) => format!("the vars store '{path}' is"),
        None => "the given credentials are".to_owned(),
    };
    Err(Error::invalid(format!("{source} probably not of this environment"))
        .with_source(format!("these values differ from the deployed ones: {}", comma_list(&foreign_names)))
        .with_hints(hints_to_pass(first)))
}

/// Returns the names of all variables if `bosh` deployed the VM and each of them would be generated again.
/// Its states do not record which credentials it had.
fn missing_names_of_bosh_state<'v>(state: &State, values: &'v [VariableValue]) -> Vec<&'v str> {
    let is_of_bosh = state.vm_handle().is_some() && state.monopile.vm.is_none();
    match is_of_bosh && values.iter().all(|variable| variable.value.is_none()) {
        true => values.iter().map(|variable| variable.name.as_str()).collect(),
        false => Vec::new(),
    }
}

/// Returns the names of the variables whose values differ from the deployed ones.
pub(crate) fn changed_credentials(state: &State, values: &[VariableValue]) -> Vec<String> {
    let deployed_digests = state.monopile.credential_digests.as_ref();
    deployed_digests
        .into_iter()
        .flat_map(|digests| digests.changed_names(values))
        .map(str::to_owned)
        .collect()
}

/// Returns the record of the values in a loaded manifest.
pub(super) fn digests_of_manifest(manifest: &LoadedManifest) -> Option<CredentialDigests> {
    CredentialDigests::of(&manifest.into())
}
