//! `create-env`: makes the world as the manifest says.

use super::cloud::Cloud;
use super::registry::Registry;
use super::request::{CreateEnv, Environment};
use super::run::{Run, endpoint};
use super::{cpi_source, lock, prepare, resume, signals};
use crate::plan::{self, Options, Wanted};
use crate::template::ModeRenderer;
use crate::{Error, Result};

/// Creates or updates the environment; returns one sentence that says what came of it.
pub fn create_env(request: &CreateEnv, environment: &Environment) -> Result<String> {
    let mut store = lock::open(environment, "create-env")?;
    environment.reporter.note(format!("Deployment state: '{}'", store.path().display()));
    resume::settle_open_calls(environment, &request.inputs, &mut store, request.forget_open_calls)?;

    let validating = environment.reporter.stage("Validating");
    let prepared = prepare::prepare(environment, &request.inputs, &validating)?;
    let releases = prepared.release_identities();
    let wanted = Wanted {
        manifest_sha: &prepared.manifest_sha,
        stemcell: prepared.stemcell_identity(),
        releases: &releases,
        disk: prepared.deployment.disk.as_ref(),
    };
    let options =
        Options { recreate: request.recreate, recreate_persistent_disks: request.recreate_persistent_disks };
    let plan = plan::create(store.state(), &wanted, options);
    if plan.is_empty() {
        validating.finish();
        return Ok("Nothing changed: deployment, stemcell and releases are as deployed".to_owned());
    }
    let opened = prepared.open(environment, &validating)?;
    let provider = &prepared.deployment.cloud_provider;
    let endpoint = endpoint(environment, provider)?;
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
    let mut cloud = Cloud::connect(environment, store, located, &connecting)?;
    check_formats(cloud.stemcell_formats(), &opened.stemcell.stemcell_formats)?;
    let contract = cloud.negotiate(opened.stemcell.api_version);
    connecting.finish();

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
