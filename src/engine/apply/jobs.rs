//! Brings the jobs to the VM: the networks the agent resolves, rendered templates, packages, and the spec that
//! ties them together.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::identity::Stranger;
use super::lifecycle::Jobs;
use super::render::RenderedJobs;
use super::run::Run;
use crate::agent::{Agent, Before, CompiledPackage};
use crate::state::State;
use base::events::{Stage, Unit};
use base::{Error, Result};

/// What upstream sends before there is a configuration.
const NO_CONFIGURATION: &str = "unused-configuration-hash";

/// Applies a spec without jobs, so that the agent learns its networks, and returns them with the addresses that
/// only it knows.
pub(super) fn resolve_networks(run: &Run<'_>, agent: &Agent, state: &State) -> Result<Map<String, Value>> {
    agent.apply(&spec(run, &run.prepared.deployment.vm.networks, NO_CONFIGURATION, &[], &[], ("", "")))?;
    Ok(Applied::of(agent, state)?.networks(run))
}

/// What the agent says of the VM and the spec that was applied last.
pub(super) struct Applied(Value);

impl Applied {
    /// Asks the agent, which must be that of the VM on record.
    pub(super) fn of(agent: &Agent, state: &State) -> Result<Self> {
        let seen = agent.get_state()?;
        if let Some(expected) = state.vm().map(|vm| vm.agent_id.as_str())
            && let Some(stranger) = Stranger::in_answer(&seen, expected)
        {
            return Err(stranger.error(agent, state));
        }
        Ok(Applied(seen))
    }

    /// The packages the VM has.
    fn packages(&self) -> Vec<CompiledPackage> {
        let packages = self.0.get("packages").and_then(Value::as_object);
        let read = |package: &Value| serde_json::from_value(package.clone()).ok();
        packages.into_iter().flat_map(Map::values).filter_map(read).collect()
    }

    /// The networks, with the addresses that the agent has learned.
    pub(super) fn networks(&self, run: &Run<'_>) -> Map<String, Value> {
        let mut networks = run.prepared.deployment.vm.networks.clone();
        let found = self.0.get("networks").and_then(Value::as_object);
        for (name, network) in &mut networks {
            let Some(found) = found.and_then(|found| found.get(name)).and_then(Value::as_object) else {
                continue;
            };
            if let Value::Object(network) = network {
                for key in ["ip", "netmask", "gateway"] {
                    let known =
                        found.get(key).filter(|value| value.as_str().is_some_and(|text| !text.is_empty()));
                    if let Some(value) = known {
                        network.entry(key).or_insert_with(|| value.clone());
                    }
                }
            }
        }
        networks
    }
}

/// Uploads the rendered jobs, compiles the packages, and starts it all.
pub(super) fn deploy(
    run: &Run<'_>,
    agent: &Agent,
    rendered: &RenderedJobs,
    networks: &Map<String, Value>,
    stage: &Stage,
) -> Result<()> {
    let spec = bring(run, agent, rendered, networks, &[], stage)?;
    let instance = run.prepared.deployment.instance();
    let updating = stage.reporter().timed("apply", format!("Updating instance '{instance}'"));
    agent.stop()?;
    agent.apply(&spec)?;
    updating.finish();
    on(run, agent).start(run.prepared.deployment.update_watch_time, stage)
}

/// Brings everything to the VM while its jobs run as they were, and only then stops them and starts the new ones.
/// Returns how long none of them ran.
pub(super) fn update(
    run: &Run<'_>,
    agent: &Agent,
    rendered: &RenderedJobs,
    applied: &Applied,
    stage: &Stage,
) -> Result<Duration> {
    let untouched = |error: Error| error.with_hint("nothing was stopped: the jobs run as before");
    let spec =
        bring(run, agent, rendered, &applied.networks(run), &applied.packages(), stage).map_err(untouched)?;
    let instance = run.prepared.deployment.instance();
    let preparing = stage.reporter().timed("prepare", format!("Preparing instance '{instance}'"));
    agent.prepare(&spec).map_err(|error| untouched(error.into()))?;
    preparing.finish();

    let jobs = on(run, agent);
    let stopping = Instant::now();
    let update = || {
        jobs.stop(run.teardown.stopping.drain(), Before::Update(&spec), stage)?;
        let updating = stage.reporter().timed("apply", format!("Updating instance '{instance}'"));
        agent.apply(&spec)?;
        updating.finish();
        jobs.start(run.prepared.deployment.update_watch_time, stage)
    };
    update().map_err(|error: Error| {
        error
            .context(format!("the update of instance '{instance}' in place failed"))
            .with_hint(
                "VM and disk are kept; the same command, with what is wrong put right, goes on from here",
            )
            .with_hint("the way back: run it with the manifest and the releases that were deployed before")
            .with_hint("--recreate makes a new VM and keeps the data of the persistent disk")
    })?;
    Ok(stopping.elapsed())
}

fn on<'a>(run: &'a Run<'_>, agent: &'a Agent) -> Jobs<'a> {
    let instance = format!("instance '{}'", run.prepared.deployment.instance());
    Jobs { environment: run.environment, agent, instance }
}

/// Uploads the rendered jobs, has the packages compiled, and returns the spec that ties them together.
fn bring(
    run: &Run<'_>,
    agent: &Agent,
    rendered: &RenderedJobs,
    networks: &Map<String, Value>,
    installed: &[CompiledPackage],
    stage: &Stage,
) -> Result<Value> {
    let uploading = stage.reporter().timed("upload_templates", "Uploading rendered job templates");
    let archive = uuid::Uuid::new_v4().to_string();
    agent.put_blob(&archive, &rendered.archive, &mut |done| uploading.progress(done, None, Unit::Bytes))?;
    uploading.finish();
    let packages = run.packages.provide(run.environment, agent, installed, stage)?;
    Ok(spec(
        run,
        networks,
        &rendered.configuration_hash,
        &rendered.jobs,
        &packages,
        (&archive, &rendered.digest),
    ))
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
