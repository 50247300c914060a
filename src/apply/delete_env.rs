//! `delete-env`: takes down everything that the state records.

use super::cloud::Cloud;
use super::effect::Effect;
use super::registry::Registry;
use super::request::{DeleteEnv, Environment};
use super::run::{Teardown, endpoint};
use super::{cpi_source, lock, prepare, resume};
use crate::manifest::{Deployment, yaml};
use crate::plan;
use crate::template::ModeRenderer;
use crate::{Error, Result};

/// Deletes the environment; returns one sentence that says what came of it.
pub fn delete_env(request: &DeleteEnv, environment: &Environment) -> Result<String> {
    let mut store = lock::open(environment, "delete-env")?;
    if !store.exists() && store.journal().open_calls::<Effect>()?.is_empty() {
        if request.allow_missing {
            return Ok("No deployment state file found: nothing is recorded that could be deleted".to_owned());
        }
        return Err(Error::invalid(format!("there is no state '{}'", store.path().display()))
            .with_hint("nothing was deleted; name the state file with --state if it is elsewhere")
            .with_hint("--allow-missing takes this for success"));
    }
    environment.reporter.note(format!("Deployment state: '{}'", store.path().display()));
    resume::settle_open_calls(environment, &request.inputs, &mut store, request.forget_open_calls)?;

    let validating = environment.reporter.stage("Validating");
    let loaded = prepare::load(environment, &request.inputs)?;
    let provider = Deployment::parse_cloud_provider(&loaded.root)?;
    prepare::redact_provider(environment, &provider);
    let plan = plan::delete(store.state());
    if plan.is_empty() {
        validating.finish();
        store.remove()?;
        return Ok("Nothing was left to delete".to_owned());
    }
    let endpoint = endpoint(environment, &provider)?;
    // Nothing but the CPI is needed: releases whose files are gone are no obstacle.
    let releases = Deployment::parse_cpi_releases(&loaded.root, &provider.cpi)?;
    let releases = prepare::open_releases(environment, &releases, &request.inputs.manifest, &validating)?;
    let parts = cpi_source::Parts {
        provider: &provider,
        deployment: loaded.root.get("name").and_then(yaml::Node::as_str).unwrap_or_default(),
        manifest: &request.inputs.manifest,
        releases: &releases,
        renderer: &ModeRenderer::new(request.templates, &environment.variables)?,
    };
    let located = cpi_source::locate(environment, &parts, &validating)?;
    validating.finish();

    let connecting = environment.reporter.stage("Asking the CPI what it is");
    let mut cloud = Cloud::connect(environment, store, located, &connecting)?;
    let stemcell = cloud.state().current_stemcell().or(cloud.state().stemcells.first());
    let version = stemcell.and_then(|stemcell| stemcell.api_version).unwrap_or(1);
    let contract = cloud.negotiate(version);
    connecting.finish();

    let mut teardown = Teardown::new(environment, endpoint, request.stopping);
    teardown.registry = Registry::start(environment, &provider, &request.inputs.manifest, contract, &cloud)?;
    teardown.take(&plan, &mut cloud)?;
    cloud.into_store().remove()?;
    Ok("Deleted the environment".to_owned())
}
