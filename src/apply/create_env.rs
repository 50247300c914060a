//! `create-env`: makes the world as the manifest says.

use super::cloud::Cloud;
use super::connection::Presence;
use super::registry::Registry;
use super::request::{CreateEnv, Environment};
use super::run::{Run, endpoint};
use super::{alive, cpi_source, lock, prepare, resume, signals, suspects};
use crate::plan::{self, Options, Wanted};
use crate::state::Kind;
use crate::template::ModeRenderer;
use crate::{Error, Result};

/// Creates or updates the environment; returns one sentence that says what came of it.
pub fn create_env(request: &CreateEnv, environment: &Environment) -> Result<String> {
    let mut store = lock::open(environment, "create-env")?;
    environment.reporter.note(format!("Deployment state: '{}'", store.path().display()));
    resume::settle_open_calls(environment, &request.inputs, &mut store, request.forget_open_calls)?;
    suspects::report(environment, store.state());

    let validating = environment.reporter.stage("Validating");
    let prepared = prepare::prepare(environment, &request.inputs, &validating)?;
    let releases = prepared.release_identities();
    let wanted = Wanted {
        manifest_sha: &prepared.manifest_sha,
        stemcell: prepared.stemcell_identity(),
        releases: &releases,
        disk: prepared.deployment.disk.as_ref(),
    };
    let mut options = Options {
        recreate: request.recreate,
        recreate_persistent_disks: request.recreate_persistent_disks,
        vm_is_gone: false,
    };
    let mut plan = plan::create(store.state(), &wanted, options);
    let provider = &prepared.deployment.cloud_provider;
    let endpoint = endpoint(environment, provider)?;
    suspects::look(environment, &endpoint, store.state())?;
    let suspect = match request.verify && !plan.deploys() {
        true => alive::suspect(environment, &endpoint, store.state())?,
        false => None,
    };
    if plan.is_empty() && suspect.is_none() {
        validating.finish();
        let seen = if request.verify { ", and the agent answers" } else { "" };
        return Ok(format!("Nothing changed: deployment, stemcell and releases are as deployed{seen}"));
    }
    let opened = prepared.open(environment, &validating)?;
    let renderer = ModeRenderer::new(request.templates, &environment.variables)?;
    let mut run = Run::new(environment, &prepared, &opened, &renderer, endpoint, request)?;
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
    signals::check(environment)?;

    let connecting = environment.reporter.stage("Asking the CPI what it is");
    let mut cloud = Cloud::connect(environment, store, located, request.cpi_api_version, &connecting)?;
    check_formats(cloud.stemcell_formats(), &opened.stemcell.stemcell_formats)?;
    let contract = cloud.negotiate(opened.stemcell.api_version);
    connecting.finish();

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
        options.vm_is_gone = true;
        plan = plan::create(cloud.state(), &wanted, options);
    }
    run.teardown.registry =
        Registry::start(environment, provider, &prepared.manifest_path, contract, &cloud)?;
    run.take(&plan, &mut cloud, contract)?;
    Ok(format!("Deployed '{}' with {}", prepared.deployment.name, describe_contract(contract, &opened)))
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
