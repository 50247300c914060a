//! `create-env`: makes the world as the manifest says.

use super::cloud::Cloud;
use super::connection::Presence;
use super::forecast::Forecast;
use super::intention::Intention;
use super::registry::Registry;
use super::request::{CreateEnv, Environment};
use super::run::Run;
use super::{cpi_source, lock, prepare, resume, signals};
use crate::state::{Kind, State};
use crate::template::ModeRenderer;
use crate::{Error, ErrorKind, Result};

/// Creates or updates the environment; returns one sentence that says what came of it.
pub fn create_env(request: &CreateEnv, environment: &Environment) -> Result<String> {
    let mut store = lock::open(environment, "create-env")?;
    environment.reporter.note(format!("Deployment state: '{}'", store.path().display()));
    resume::settle_open_calls(environment, &request.inputs, &mut store, request.forget_open_calls)?;

    let validating = environment.reporter.stage("Validating");
    let mut intention = Intention::form(environment, request, store.state(), &validating)?;
    if let Some(forecast) = &request.plan {
        forecast.check(&intention, store.state())?;
    }
    let suspect = intention.suspect.take();
    if intention.plan.is_empty() && suspect.is_none() {
        validating.finish();
        let seen = if request.verify { ", and the agent answers" } else { "" };
        return Ok(format!("Nothing changed: deployment, stemcell and releases are as deployed{seen}"));
    }
    let prepared = &intention.prepared;
    let provider = &prepared.deployment.cloud_provider;
    let opened = prepared.open(environment, &validating)?;
    let renderer = ModeRenderer::new(request.templates, &environment.variables)?;
    let mut run = Run::new(environment, prepared, &opened, &renderer, intention.endpoint.clone(), request)?;
    // A template that cannot be rendered must cost nothing: neither a VM nor a minute of downtime.
    run.render_what_can_be(store.state(), &validating)?;
    let parts = cpi_source::Parts {
        provider,
        deployment: &prepared.deployment.name,
        manifest: &prepared.manifest_path,
        releases: &opened.releases,
        renderer: &renderer,
    };
    let located = cpi_source::locate(environment, &parts, &validating)?;
    validating.finish();
    agree(environment, request, &intention, store.state())?;
    signals::check(environment)?;

    let connecting = environment.reporter.stage("Asking the CPI what it is");
    let mut cloud = Cloud::connect(environment, store, located, request.cpi_api_version, &connecting)?;
    check_formats(cloud.stemcell_formats(), &opened.stemcell.stemcell_formats)?;
    let contract = cloud.negotiate(opened.stemcell.api_version);
    connecting.finish();

    let mut plan = intention.plan.clone();
    if let Some(error) = suspect {
        let cid = super::vm::vm_cid(&cloud)?;
        let asking = environment.reporter.stage(format!("Asking the CPI for VM '{cid}'"));
        if cloud.presence(&asking, Kind::Vm, &cid)? != Presence::Gone {
            return Err(error
                .context(format!("nothing changed, but VM '{cid}' is not as it was deployed"))
                .with_hint("create-env --recreate replaces the VM and keeps the data of its persistent disk")
                .with_hint("--no-verify takes an environment in which nothing changed as it is"));
        }
        asking.finish();
        environment.reporter.warn(format!("VM '{cid}' does not exist any more: a new one takes its place"));
        plan = intention.without_vm(cloud.state());
    }
    run.teardown.registry =
        Registry::start(environment, provider, &prepared.manifest_path, contract, &cloud)?;
    run.take(&plan, &mut cloud, contract)?;
    Ok(format!("Deployed '{}' with {}", prepared.deployment.name, describe_contract(contract, &opened)))
}

/// Says what is going to be done, and has whoever sits at the terminal agree before something that runs is stopped or
/// something that exists is deleted. A saved plan has been agreed to.
fn agree(environment: &Environment, request: &CreateEnv, intention: &Intention, state: &State) -> Result<()> {
    let forecast = Forecast::of(intention, state, None);
    let confirm =
        environment.confirm.as_ref().filter(|_| request.plan.is_none() && intention.plan.interrupts());
    let Some(confirm) = confirm else {
        environment.reporter.note(forecast.headline());
        return Ok(());
    };
    for line in forecast.summary() {
        environment.reporter.note(line);
    }
    if confirm("Continue?")? {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Usage, "nothing was done, because you said no")
        .with_hint("-n (--non-interactive) does not ask"))
}

fn describe_contract(contract: crate::cpi::Contract, opened: &prepare::Opened) -> String {
    format!("stemcell {}/{} (contract {contract})", opened.stemcell.name, opened.stemcell.version)
}

fn check_formats(cpi: Option<&[String]>, stemcell: &[String]) -> Result<()> {
    match cpi {
        Some(known) if !known.is_empty() && !stemcell.is_empty() => {
            if stemcell.iter().any(|format| known.contains(format)) {
                return Ok(());
            }
            Err(Error::invalid(format!(
                "the CPI takes stemcells in the formats {}, and this one comes as {}",
                known.join(", "),
                stemcell.join(", ")
            ))
            .with_hint("use the stemcell made for this IaaS"))
        }
        _ => Ok(()),
    }
}
