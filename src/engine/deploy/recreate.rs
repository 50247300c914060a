//! `recreate`: replaces the VM and deploys the same manifest to it.

use super::create_env::create_env;
use super::request::CreateEnvRequest;
use crate::plan::differences;
use crate::prepare::credentials;
use crate::run_context::RunContext;
use crate::run_context::state_lock::no_state_error;
use crate::state::State;
use crate::{cpi_set, prepare};
use base::text::comma_list;
use base::{Error, Result};
use manifest::{LoadedManifest, VariableValue, cpi_label};

/// The maximum number of changes that an error shows.
const MAX_SHOWN_CHANGES: usize = 5;

/// Deploys the deployed manifest to a new VM and returns a summary in one sentence.
pub fn recreate(request: &CreateEnvRequest, run: &RunContext) -> Result<String> {
    let storage = run.paths.storage.resolve_links()?;
    let state = State::read(&storage)?.ok_or_else(|| no_state_error(&storage))?;
    let is_unfinished = state.current_deploy_digest.is_empty();
    // The interrupted deploy may be that of this command. `create_env` reports errors in the manifest.
    if is_unfinished && matches!(is_last_deployed(request, run, &state), Ok(false)) {
        return Err(Error::invalid(
            "`recreate` needs a finished deploy of this manifest, but the last deploy did not finish",
        )
        .with_hint("to deploy the manifest: `monopile create-env MANIFEST`"));
    }
    recreate_even_unfinished(request, run, &state)
}

/// Like [`recreate`], but accepts a state without a finished deploy, because a repair may just have dropped a
/// record.
pub(crate) fn recreate_even_unfinished(
    request: &CreateEnvRequest,
    run: &RunContext,
    state: &State,
) -> Result<String> {
    // `create_env` reports errors in the manifest.
    if !state.current_deploy_digest.is_empty()
        && let Ok(Some(changes)) = changes_since_deploy(request, run, state)
    {
        let mut error = Error::invalid("the manifest differs from the deployed one")
            .with_note("nothing was changed")
            .with_hint("pass the same ops files and variables as for the last create-env")
            .with_hint("to deploy the changes with a new VM: `monopile create-env MANIFEST --recreate`");
        if !changes.is_empty() {
            let mut lines: Vec<String> = changes.iter().take(MAX_SHOWN_CHANGES).cloned().collect();
            if let Some(remaining_count) =
                changes.len().checked_sub(MAX_SHOWN_CHANGES).filter(|count| *count > 0)
            {
                lines.push(format!("and {remaining_count} more"));
                error = error.with_hint("see all changes: `monopile plan MANIFEST`");
            }
            error = error.with_source(lines.join("\n"));
        }
        return Err(error);
    }
    create_env(&CreateEnvRequest { replaces_unchanged_vm: true, ..request.clone() }, None, run)
}

/// Returns true if the manifest is that of the last deploy that finished.
fn is_last_deployed(request: &CreateEnvRequest, run: &RunContext, state: &State) -> Result<bool> {
    let Some(deployed_leaves) = &state.monopile.manifest_leaves else { return Ok(false) };
    let manifest = load(request, run, state)?;
    Ok(differences(deployed_leaves, &prepare::leaves(run, &manifest)).is_empty())
}

/// Reads the manifest without saving generated values, which would differ from the deployed ones.
fn load(request: &CreateEnvRequest, run: &RunContext, state: &State) -> Result<LoadedManifest> {
    let inputs = prepare::read_only_inputs(&request.inputs, state);
    // With other credentials, `create_env` reports these and not every difference.
    let check = |values: &[VariableValue]| credentials::check(run, &inputs, state, values);
    manifest::load_with_check(&inputs, &run.redactor, &check)
}

/// Returns the differences between the manifest and the deployed one, if there are any. The list is empty if
/// only the digest of the deployed manifest is on record.
fn changes_since_deploy(
    request: &CreateEnvRequest,
    run: &RunContext,
    state: &State,
) -> Result<Option<Vec<String>>> {
    let manifest = load(request, run, state)?;
    let (migrated_state, _) = cpi_set::apply_migrated_from(manifest.cpis()?.as_ref(), state)?;
    let deployment = manifest.deployment()?;
    // The digest of the manifest does not cover the choice of the CPI.
    if let Some(vm) = migrated_state.vm_handle()
        && vm.cpi() != deployment.cpi()
    {
        let selected_cpi = cpi_label(deployment.cpi());
        return Ok(Some(vec![format!("VM {vm} was created by another CPI than {selected_cpi}")]));
    }
    if prepare::deploy_digest(&manifest) == migrated_state.current_deploy_digest {
        return Ok(None);
    }
    let deployed_leaves = state.monopile.manifest_leaves.as_ref();
    let changes =
        deployed_leaves.map_or_else(Vec::new, |leaves| differences(leaves, &prepare::leaves(run, &manifest)));
    let names = credentials::changed_credentials(state, &manifest.values);
    let first_line = (!names.is_empty()).then(|| format!("credentials that change: {}", comma_list(&names)));
    Ok(Some(first_line.into_iter().chain(changes.iter().map(ToString::to_string)).collect()))
}
