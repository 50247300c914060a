//! Brings the jobs to run: apply, compile, start, and the scripts around it.

use std::time::Instant;

use serde_json::{Map, Value, json};

use super::render::RenderedJobs;
use super::run::Run;
use super::signals;
use crate::agent::{Agent, AgentError, Backoff, CompiledPackage};
use crate::timing::Activity;
use crate::ui::{Stage, Unit};
use crate::{Error, Result};

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
    agent.run_script("pre-start")?;
    agent.start()?;
    updating.finish();

    let waiting = stage.reporter().stage(format!("Waiting for instance '{instance}' to be running"));
    wait_until_running(run, agent)?;
    waiting.finish();

    let scripts = stage.reporter().stage(format!("Running the post-start scripts of instance '{instance}'"));
    agent.run_script("post-start")?;
    scripts.finish();
    Ok(())
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
        "az": "unknown",
        "job": {"name": deployment.group.name, "templates": templates},
        "packages": packages,
        "networks": networks,
        "configuration_hash": configuration_hash,
        "rendered_templates_archive": {"blobstore_id": archive, "sha1": digest},
    })
}

/// Waits within the manifest's `update_watch_time` until every job runs.
fn wait_until_running(run: &Run<'_>, agent: &Agent) -> Result<()> {
    let watch = run.prepared.deployment.update_watch_time;
    signals::pause(run.environment, watch.start)?;
    let patience = watch.end.saturating_sub(watch.start);
    let begun = Instant::now();
    let mut backoff = Backoff::up_to(std::time::Duration::from_secs(1));
    loop {
        let state = agent.get_state()?;
        let job_state = state.get("job_state").and_then(Value::as_str).unwrap_or("unknown").to_owned();
        if job_state == "running" {
            return Ok(());
        }
        if begun.elapsed() >= patience {
            return Err(not_running(agent, &job_state, watch.end.as_millis()));
        }
        signals::check(run.environment)?;
        backoff.wait(&run.environment.clock, Activity::Waiting);
    }
}

fn not_running(agent: &Agent, job_state: &str, milliseconds: u128) -> Error {
    let failing = failing_processes(agent).unwrap_or_default();
    let which = if failing.is_empty() { String::new() } else { format!(": {}", failing.join(", ")) };
    Error::environment(format!(
        "the jobs are '{job_state}' and not 'running' after {milliseconds} ms (`update.update_watch_time`){which}"
    ))
    .with_hint("look into /var/vcap/sys/log on the VM; the VM is kept, and the next create-env replaces it")
}

fn failing_processes(agent: &Agent) -> Result<Vec<String>, AgentError> {
    let state = agent.send("get_state", json!(["full"]))?;
    let processes = state.get("processes").and_then(Value::as_array).cloned().unwrap_or_default();
    Ok(processes
        .iter()
        .filter(|process| process.get("state").and_then(Value::as_str) != Some("running"))
        .filter_map(|process| process.get("name").and_then(Value::as_str).map(str::to_owned))
        .collect())
}
