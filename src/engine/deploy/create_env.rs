//! `create-env`: deploys the manifest.

use std::cell::OnceCell;

use super::boot;
use super::draft_plan::{DraftPlan, find_vm_that_is_off, keep_applied_jobs};
use super::plan_report::PlanReport;
use super::request::CreateEnvRequest;
use super::validate::{ValidationInputs, validate};
use crate::cpi_set::{self, EarlyInstallation, Presence, check_formats, info_stage_name};
use crate::effects::{Executor, RunRegistry, describe_not_found};
use crate::protocol::Contract;
use crate::recovery::{self, legacy_state, suspects};
use crate::run_context::{RunContext, signals, state_lock};
use crate::state::{Resource, State};
use crate::{prepare, templates};
use base::{Error, ErrorKind, Result};
use manifest::vars_store::{VarsStore, new_store_note};
use manifest::{CpiConfig, Deployment, Inputs, SavePolicy};

/// Creates or updates the environment, and returns a summary in one sentence.
///
/// With `saved_plan` (`--plan`), takes the steps of that plan, or none. In two cases that only the CPI shows,
/// it reports other steps, and takes them without a question: the CPI does not find the VM, or it cannot
/// change a disk, so that the data is copied to a new one.
pub fn create_env(
    request: &CreateEnvRequest,
    saved_plan: Option<&PlanReport>,
    run: &RunContext,
) -> Result<String> {
    let mut store = state_lock::open(run, request.command)?;
    run.reporter.report_state(store.storage());
    legacy_state::take_over(run, &request.inputs, &mut store)?;
    if !store.has_state() {
        state_lock::refuse_lost_state(store.storage())?;
    }
    recovery::settle_open_calls(run, &request.inputs, &mut store, request.forget_open_calls)?;
    suspects::report(run, store.state());

    let validating = run.reporter.begin_stage("Validating");
    let CreateEnvRequest { inputs, overrides, .. } = request;
    // A saved plan has no generated values. A run that needs generated values is refused later. Until then,
    // the run must not save such values.
    let save_policy = if saved_plan.is_some() { SavePolicy::Never } else { SavePolicy::AtOnce };
    let inputs = Inputs { save_policy, ..inputs.clone() };
    let early_installation = OnceCell::new();
    let begin = |deployment: &Deployment, config: Option<&CpiConfig>, releases| {
        let manifest = &inputs.manifest;
        early_installation.get_or_init(|| {
            EarlyInstallation::begin(
                run,
                request.renderer_choice,
                deployment,
                config,
                manifest,
                releases,
                &validating,
            )
        });
    };
    let mut prepared_deployment =
        prepare::prepare(run, &inputs, store.state(), *overrides, Some(&begin), &validating)?;
    let unsaved_store = prepared_deployment.unsaved_store.take();
    let early_installation = early_installation.into_inner();
    cpi_set::check_az(prepared_deployment.cpi_config.as_ref(), prepared_deployment.deployment.az.as_ref())?;
    cpi_set::record_migrated_from(run, prepared_deployment.cpi_config.as_ref(), &mut store)?;
    let mut draft = DraftPlan::create(run, request, prepared_deployment, store.state(), &validating)?;
    let report = |draft: &DraftPlan, state: &State| {
        let plan_report = PlanReport::from_draft(request, draft, state, None, &run.paths.storage);
        if let Some(saved_plan) = saved_plan {
            saved_plan.check(&plan_report, &run.paths.storage)?;
        }
        run.reporter.report_plan(plan_report.headline(), plan_report.steps.clone());
        Ok::<_, Error>(plan_report)
    };
    if draft.has_nothing_to_do() {
        report(&draft, store.state())?;
        validating.finish();
        save_generated_values(run, unsaved_store)?;
        draft.prepared_deployment.drop_previous_credentials(run, &request.inputs);
        if draft.jobs_are_stopped {
            return Ok(
                "The manifest is as deployed, but the jobs are stopped. To start them: `monopile start-env \
                 MANIFEST`"
                    .to_owned(),
            );
        }
        return Ok(match request.asks_agent_if_unchanged {
            true => "Nothing to do: the manifest is as deployed, and the agent answers",
            false => {
                "Nothing to do: the manifest is as deployed; the agent was not asked (--skip-agent-check)"
            }
        }
        .to_owned());
    }
    let prepared_deployment = &draft.prepared_deployment;
    let provider = &prepared_deployment.deployment.cloud_provider;
    let cpi = prepared_deployment.deployment.cpi();
    let artifacts = prepared_deployment.open(run, &validating)?;
    let renderer = templates::create_run_renderer(run, request.renderer_choice)?;
    let (mut deploy_run, cpis) = validate(
        run,
        request,
        ValidationInputs {
            prepared_deployment,
            endpoint: &draft.endpoint,
            artifacts: &artifacts,
            renderer: &renderer,
        },
        store.state(),
        &validating,
    )?;
    let agent_state = draft.agent_state.as_ref();
    keep_applied_jobs(&mut draft.plan, agent_state, &mut deploy_run, store.state(), &validating)?;
    draft.vm_that_is_off = find_vm_that_is_off(draft.unusable_agent.as_ref(), &cpis, store.state())?;
    let mut plan_report = report(&draft, store.state())?;
    let unusable_agent = draft.unusable_agent.take();
    // This check comes before the CPI is compiled, which takes minutes.
    prepared_deployment.check_untracked(run, &inputs)?;
    match early_installation {
        Some(installation) => cpis.take_installation(cpi, installation?.finish(run)?),
        None => cpis.install(cpi, &validating)?,
    }
    // The VM may turn out to be gone.
    let may_create_vm = draft.plan.creates_vm() || unusable_agent.is_some();
    if (draft.plan.deploys_jobs() || may_create_vm)
        && let Some(cpi_packages) = cpis.packages_in_stemcell(cpi, &artifacts.stemcell)
    {
        deploy_run.packages.take_from_cpi(run, &cpi_packages, &validating)?;
    }
    validating.finish();
    plan_report.packages =
        draft.plan.deploys_jobs().then(|| deploy_run.packages.count_by_source(run, None)).transpose()?;
    // With an unusable agent, the plan depends on the CPI, which is asked for the VM below.
    if unusable_agent.is_none() {
        run.reporter.show_plan(plan_report.text());
    }
    if saved_plan.is_none() {
        confirm_plan(run, &draft, store.state())?;
    }
    signals::check_may_continue(run)?;

    let connecting = run.reporter.begin_stage(info_stage_name(cpi));
    let connection = cpis.connect(cpi, &connecting)?;
    let contract = connection.contract();
    connecting.finish();
    let origin = &prepared_deployment.deployment.stemcell.origin;
    check_formats(run, cpi, connection.stemcell_formats(), origin, &artifacts.stemcell.stemcell_formats)?;
    if may_create_vm {
        deploy_run.vm_cloud_properties =
            super::vm::determine_cloud_properties(&connection, &prepared_deployment.deployment, run)?;
    }
    cpis.connect_all_of(store.state())?;
    let mut executor = Executor::new(run, cpis, store);

    let mut plan = draft.plan.clone();
    if let Some(agent) = unusable_agent {
        let vm = super::vm::handle(&executor)?;
        let asking = run.reporter.begin_stage(format!("Asking the CPI for VM {vm}"));
        let presence = executor.ask_presence(&asking, &Resource::Vm(vm.clone()))?;
        asking.finish();
        if presence != Presence::Gone && executor.cpis().is_off(&vm)? {
            return Err(boot::off_error(&vm).with_note("nothing changed since the last deploy"));
        }
        if presence != Presence::Gone {
            let predicate = agent.predicate();
            let error = agent.error.context(format!(
                "nothing changed since the last deploy, but the agent of VM {vm} {predicate}"
            ));
            if let Some(other) = agent.other_address {
                return Err(other.explain(error));
            }
            return Err(error
                .with_hint("see what can be done: `monopile cloud-check MANIFEST`")
                .with_hint(
                    "to replace the VM and keep its persistent disk: `monopile SAME-COMMAND --recreate`",
                )
                .with_hint("to skip this check: `monopile SAME-COMMAND --skip-agent-check`"));
        }
        let not_found = describe_not_found(&vm.into());
        run.reporter.warn(format!("{not_found}: creating a new one"));
        plan = draft.plan_without_vm(executor.state())?;
        run.reporter.report_plan(
            format!("Create a VM: {not_found}"),
            plan.reported_steps(&prepared_deployment.deployment.instance()),
        );
    }
    save_generated_values(run, unsaved_store)?;
    let registry_contract = contract_for_registry(executor.state(), cpi, contract);
    deploy_run.agent_access.registry = RunRegistry::start(
        run,
        provider,
        &prepared_deployment.manifest_path,
        registry_contract,
        &mut executor,
    )?;
    deploy_run.take_steps(&plan, &mut executor, contract)?;
    prepared_deployment.drop_previous_credentials(run, &request.inputs);
    Ok(format!(
        "Deployed '{}' with {}",
        prepared_deployment.deployment.name,
        describe_stemcell(contract, &artifacts)
    ))
}

/// Asks the operator at a terminal to confirm a plan that stops running jobs or deletes existing resources.
fn confirm_plan(run: &RunContext, draft: &DraftPlan, state: &State) -> Result<()> {
    let Some(confirm) = &run.confirm else { return Ok(()) };
    if !draft.plan.needs_confirmation() {
        return Ok(());
    }
    let question = match draft.disk_left_behind(state) {
        Some(disk) => format!(
            "Create an empty disk, and delete disk {} with all its data once the jobs run?",
            disk.handle()
        ),
        None => draft.question(state),
    };
    if confirm(&question)? {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Declined, "not confirmed: nothing was changed"))
}

/// Saves the values that this run generated for a deployed environment, before it changes anything.
fn save_generated_values(run: &RunContext, unsaved_store: Option<VarsStore>) -> Result<()> {
    let Some(store) = unsaved_store else { return Ok(()) };
    let note = (!store.exists()).then(|| new_store_note(store.path()));
    store.attach_and_save().map_err(|error| error.with_note("nothing was changed"))?;
    note.iter().for_each(|note| run.reporter.note(note));
    Ok(())
}

/// Returns the contract that decides whether a registry is needed. It is that of the new VM, or v1 if another
/// CPI deletes an old VM of contract v1, because that CPI then asks the registry.
fn contract_for_registry(state: &State, cpi: Option<&str>, new_contract: Contract) -> Contract {
    match state.vm() {
        Some(old) if old.cpi.as_deref() != cpi && old.contract == Contract::V1 => Contract::V1,
        _ => new_contract,
    }
}

fn describe_stemcell(contract: Contract, artifacts: &prepare::OpenedArtifacts) -> String {
    let artifact::Stemcell { name, version, .. } = &artifacts.stemcell;
    match contract {
        Contract::V1 => format!("stemcell {name}/{version} (contract {contract})"),
        Contract::V2 => format!("stemcell {name}/{version}"),
    }
}
