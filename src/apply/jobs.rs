//! Brings the jobs to the VM: the networks the agent resolves, rendered templates, packages, and the spec that
//! ties them together.

use serde_json::{Map, Value, json};

use super::lifecycle::Jobs;
use super::render::RenderedJobs;
use super::run::Run;
use crate::Result;
use crate::agent::{Agent, CompiledPackage};
use crate::ui::{Stage, Unit};

/// What upstream sends before there is a configuration.
const NO_CONFIGURATION: &str = "unused-configuration-hash";

/// Applies a spec without jobs, so that the agent learns its networks, and returns them with the addresses that
/// only it knows.
pub(super) fn resolve_networks(run: &Run<'_>, agent: &Agent) -> Result<Map<String, Value>> {
    let mut networks = run.prepared.deployment.vm.networks.clone();
    agent.apply(&spec(run, &networks, NO_CONFIGURATION, &[], &[], ("", "")))?;
    let state = agent.get_state()?;
    let found = state.get("networks").and_then(Value::as_object);
    for (name, network) in &mut networks {
        let Some(found) = found.and_then(|found| found.get(name)).and_then(Value::as_object) else {
            continue;
        };
        if let Value::Object(network) = network {
            for key in ["ip", "netmask", "gateway"] {
                if let Some(value) =
                    found.get(key).filter(|value| value.as_str().is_some_and(|text| !text.is_empty()))
                {
                    network.entry(key).or_insert_with(|| value.clone());
                }
            }
        }
    }
    Ok(networks)
}

/// Uploads the rendered jobs, compiles the packages, and starts it all.
pub(super) fn deploy(
    run: &Run<'_>,
    agent: &Agent,
    rendered: &RenderedJobs,
    networks: &Map<String, Value>,
    stage: &Stage,
) -> Result<()> {
    let instance = run.prepared.deployment.instance();
    let uploading = stage.reporter().stage("Uploading rendered job templates");
    let archive = uuid::Uuid::new_v4().to_string();
    agent.put_blob(&archive, &rendered.archive, &mut |done| uploading.progress(done, None, Unit::Bytes))?;
    uploading.finish();
    let packages = run.packages.provide(run.environment, agent, stage)?;

    let updating = stage.reporter().stage(format!("Updating instance '{instance}'"));
    let spec = spec(
        run,
        networks,
        &rendered.configuration_hash,
        &rendered.jobs,
        &packages,
        (&archive, &rendered.digest),
    );
    agent.stop()?;
    agent.apply(&spec)?;
    updating.finish();

    let jobs = Jobs { environment: run.environment, agent, instance: format!("instance '{instance}'") };
    jobs.start(run.prepared.deployment.update_watch_time, stage)
}

/// The spec in the shape the agent applies (`applyspec/v1_apply_spec.go`).
fn spec(
    run: &Run<'_>,
    networks: &Map<String, Value>,
    configuration_hash: &str,
    jobs: &[(String, String)],
    packages: &[CompiledPackage],
    (archive, digest): (&str, &str),
) -> Value {
    let deployment = &run.prepared.deployment;
    let templates: Vec<Value> = jobs
        .iter()
        .map(|(name, version)| json!({"name": name, "version": version, "sha1": "", "blobstore_id": ""}))
        .collect();
    let packages: Map<String, Value> =
        packages.iter().map(|package| (package.name.clone(), json!(package))).collect();
    json!({
        "deployment": deployment.name,
        "name": deployment.group.name,
        "id": "0",
        "index": 0,
        "az": deployment.az_name(),
        "job": {"name": deployment.group.name, "templates": templates},
        "packages": packages,
        "networks": networks,
        "persistent_disk": deployment.disk.as_ref().map_or(0, |disk| disk.size),
        "configuration_hash": configuration_hash,
        "rendered_templates_archive": {"blobstore_id": archive, "sha1": digest},
    })
}
