//! `delete-env`: deletes everything that the state records.

use std::path::Path;

use super::request::DeleteEnvRequest;
use super::teardown::{AgentAccess, Teardown};
use crate::agent_client::{StopReason, resolve_endpoint};
use crate::cpi_set::{self, Cpis, OwnedCpiInputs};
use crate::effects::{Effect, Executor, RunRegistry};
use crate::history;
use crate::prepare::OtherEnvironment;
use crate::recovery::open_calls::{self, OpenCallStatus};
use crate::recovery::{self, legacy_state, suspects};
use crate::run_context::{RunContext, state_lock};
use crate::state::{Journal, State, Storage, Store};
use crate::{plan, prepare};
use base::events::Warning;
use base::text;
use base::{Error, ErrorKind, Result};
use manifest::deployment::CloudProvider;

/// The summary of a run that found no resource on record.
const NOTHING_LEFT: &str = "Nothing was left to delete";

/// Combines the failed deletions into one error.
fn combine_failures(failures: Vec<Error>, remaining_resources: &[String]) -> Option<Error> {
    let count = failures.len();
    let first_failure = failures.into_iter().next()?;
    let other_failures = match count {
        1 => String::new(),
        2 => "; 1 other deletion failed too".to_owned(),
        _ => format!("; {} other deletions failed too", count - 1),
    };
    let error = first_failure.context(format!("not everything could be deleted{other_failures}"));
    let error = match remaining_resources {
        // The error of its deletion says so.
        [_] => error,
        _ => error.with_note(format!("still on record: {}", text::comma_list(remaining_resources))),
    };
    Some(error.with_retry_hint())
}

/// Removes a state that has no resources on record. Keeps it if suspects are on record, unless the operator
/// forgets them, who is asked if the run has deleted nothing. The summary names the vars store, which stays.
fn remove_state(
    run: &RunContext,
    provider: &CloudProvider,
    mut store: Store,
    has_deleted: bool,
    vars_store: Option<&Path>,
) -> Result<String> {
    if !store.state().monopile.suspects.is_empty() {
        suspects::check_suspected_vm(run, &run.reporter, &resolve_endpoint(run, provider)?, store.state())?;
        if has_deleted || !suspects::ask_to_forget(run, &mut store)? {
            let beginning = if has_deleted { "Deleted all that is on record" } else { NOTHING_LEFT };
            // An earlier warning says what the calls may have created, and how to forget them.
            let calls = match store.state().monopile.suspects.len() {
                1 => "a failed call is".to_owned(),
                count => format!("{count} failed calls are"),
            };
            return Ok(format!(
                "{beginning}; the state is kept, because {calls} on record. To remove it once they are \
                 forgotten: `monopile delete-env MANIFEST`"
            ));
        }
    }
    store.remove()?;
    let summary = if has_deleted { "Deleted the environment" } else { NOTHING_LEFT };
    Ok(match vars_store {
        Some(path) => format!("{summary}; the vars store '{}' is kept", path.display()),
        None => summary.to_owned(),
    })
}

/// Returns true if the state records failed calls and nothing else, so there is nothing to delete. Takes no
/// lock, so the state may change.
pub fn records_only_failed_calls(storage: &Storage) -> Result<bool> {
    let Some(state) = State::read(storage)? else { return Ok(false) };
    let open_calls = Journal::of(storage).read_open_calls::<Effect>()?;
    Ok(state.is_empty_of_resources() && open_calls.is_empty() && !state.monopile.suspects.is_empty())
}

/// The resources that a `delete-env` would delete.
pub struct Deletions {
    /// Their descriptions, with sizes.
    pub resources: Vec<String>,
    /// Descriptions of what open calls with an unknown outcome may have created. Without its CID it is not
    /// deleted, and the run stops unless it may forget the calls.
    pub unknown_resources: Vec<String>,
    /// True if persistent disks are among `resources`.
    pub has_disks: bool,
    /// The environment on record, if its name is not that of the manifest.
    pub other_environment: Option<OtherEnvironment>,
}

/// Lists everything that a `delete-env` would delete. Returns `None` if there is neither a state nor an open
/// call. Takes no lock, so it may change. `name` is that of the manifest, if known.
pub fn find_deletions(storage: &Storage, manifest: &Path, name: Option<&str>) -> Result<Option<Deletions>> {
    let storage = storage.resolve_links()?;
    let state = match State::read(&storage)? {
        Some(state) => Some(state),
        None => legacy_state::read(manifest)?.map(|(_, state)| state),
    };
    if state.is_none() && Journal::of(&storage).read_open_calls::<Effect>()?.is_empty() {
        return Ok(None);
    }
    let state = state.unwrap_or_default();
    let mut resources: Vec<String> = state.resources().map(|resource| state.describe(&resource)).collect();
    let mut unknown_resources = Vec::new();
    for (intent, call) in Journal::of(&storage).read_open_calls::<Effect>()? {
        if !intent.effect.creates() {
            continue;
        }
        let (method, resource) = (&intent.method, intent.effect.describe_in_iaas());
        match open_calls::read_status(&state, &intent, &call)? {
            OpenCallStatus::Unknown => unknown_resources.push(resource),
            OpenCallStatus::Settles | OpenCallStatus::Running => {
                resources.push(format!("{resource}, if the open `{method}` of an earlier run creates it"));
            }
        }
    }
    let other_environment = name.and_then(|name| OtherEnvironment::find(&state, name));
    let has_disks = !state.disks.is_empty();
    Ok(Some(Deletions { resources, unknown_resources, has_disks, other_environment }))
}

/// Fails if the operator was asked, and the state records a resource that was not on record then.
fn check_confirmed(request: &DeleteEnvRequest, state: &State) -> Result<()> {
    let Some(confirmed_resources) = request.confirmed_resources.as_ref().filter(|list| !list.is_empty())
    else {
        return Ok(());
    };
    let mut resources = state.resources().map(|resource| state.describe(&resource));
    match resources.find(|resource| !confirmed_resources.contains(resource)) {
        Some(resource) => Err(changed_state_error().with_note(format!("it now records {resource}"))),
        None => Ok(()),
    }
}

fn changed_state_error() -> Error {
    Error::new(ErrorKind::Declined, "another run changed the state meanwhile: nothing was deleted")
        .with_rerun_hint("run the same command again")
}

/// Warns if the history of this machine knows a deploy with the state that is missing.
fn warn_about_earlier_deploy(request: &DeleteEnvRequest, run: &RunContext, storage: &Storage) {
    // Without a readable history, there is nothing to say.
    let Some(directory) = &request.history_directory else { return };
    let runs = history::list(directory, Some(&storage.path_or_url())).unwrap_or_default();
    if let Some(deploy) = history::find_last_deploy(&runs) {
        run.reporter.warn(
            Warning::new(format!(
                "`{}` deployed with this state at {}, and its VM and disks may exist",
                deploy.record.command, deploy.record.started_at
            ))
            .with_hint("see how to record the VM again: `monopile plan MANIFEST`"),
        );
    }
}

/// Deletes the environment and returns a summary in one sentence.
pub fn delete_env(request: &DeleteEnvRequest, run: &RunContext) -> Result<String> {
    let mut store = state_lock::open(run, "delete-env")?;
    legacy_state::take_over(run, &request.inputs, &mut store)?;
    if !store.has_state() && store.read_open_calls::<Effect>()?.is_empty() {
        if let Some(error) = state_lock::lost_state_error(store.storage()) {
            return Err(error);
        }
        if request.allow_missing {
            warn_about_earlier_deploy(request, run, store.storage());
            return Ok(format!(
                "Deleted nothing: there is no state '{}', and without it no VM or disk is found",
                store.storage()
            ));
        }
        return Err(Error::invalid(format!("there is no state '{}'", store.storage()))
            .with_note("nothing was deleted")
            .with_hint(state_lock::OTHER_STATE_HINT)
            .with_hint(state_lock::LOST_STATE_HINT)
            .with_hint("to succeed without a state: `monopile SAME-COMMAND --allow-missing`"));
    }
    run.reporter.report_state(store.storage());
    check_confirmed(request, store.state())?;
    recovery::settle_open_calls(run, &request.inputs, &mut store, request.forget_open_calls)?;
    suspects::report(run, store.state());

    let validating = run.reporter.begin_stage("Validating");
    let (manifest, has_other_credentials) = prepare::load_to_delete(run, &request.inputs, store.state())
        .map_err(|error| error.with_note("nothing was changed"))?;
    let provider = manifest.provider()?;
    let vars_store = manifest.vars_store.clone().filter(|path| path.exists());
    cpi_set::record_migrated_from(run, manifest.cpis()?.as_ref(), &mut store)?;
    let mut plan = plan::delete(store.state());
    if has_other_credentials {
        plan.expect_stop_failure("the agent refuses the given credentials");
    }
    if plan.is_empty() {
        run.reporter.report_plan("Nothing to delete", Vec::new());
        validating.finish();
        return remove_state(run, &provider, store, false, vars_store.as_deref());
    }
    if request.confirmed_resources.as_ref().is_some_and(Vec::is_empty) {
        return Err(changed_state_error());
    }
    run.reporter.report_plan("Delete everything on record", plan.reported_steps(""));
    let endpoint = resolve_endpoint(run, &provider)?;
    let cpi_inputs =
        OwnedCpiInputs::open(run, &request.inputs, request.renderer_choice, &manifest, &validating)?;
    let cpis = Cpis::find(run, cpi_inputs.borrowed(), store.state(), request.cpi_api_version)?;
    cpis.install_all_of(store.state(), &validating)?;
    validating.finish();

    cpis.connect_all_of(store.state())?;
    // The CPI of the VM comes first.
    let first_cpi = store.state().resources().next().and_then(|vm| vm.cpi().map(str::to_owned));
    let contract = cpis.connect_in_own_stage(first_cpi.as_deref())?.contract();
    let mut executor = Executor::new(run, cpis, store);

    let registry =
        RunRegistry::start(run, &cpi_inputs.provider, &request.inputs.manifest, contract, &mut executor)?;
    let teardown = Teardown {
        agent_access: &AgentAccess { run, endpoint, registry },
        stop_options: request.stop_options,
        reason: StopReason::DeleteEnvironment,
        agent_timeout: request.agent_timeout,
    };
    let outcome = teardown.take_steps(&plan, &mut executor);
    let failures = outcome.map_err(|error| match executor.state().vm_handle() {
        Some(vm) => error.with_note(format!(
            "the environment no longer counts as deployed: the next create-env replaces VM {vm}"
        )),
        None => error,
    })?;
    let store = executor.into_store();
    let remaining_resources: Vec<String> =
        store.state().resources().map(|resource| resource.to_string()).collect();
    if let Some(error) = combine_failures(failures, &remaining_resources) {
        return Err(error);
    }
    if remaining_resources.is_empty() {
        return remove_state(run, &provider, store, true, vars_store.as_deref());
    }
    Ok(format!(
        "Deleted all but {}: still on record, because the CPI could not confirm the deletion. To check \
         again: `monopile delete-env MANIFEST`",
        text::and_list(&remaining_resources)
    ))
}
