//! Creates, stops and describes the VM, and uploads its stemcell.

use serde_json::{Map, Value, json};

use super::run::DeployRun;
use super::teardown::Teardown;
use crate::agent_client::{Agent, ForeignAgent};
use crate::cpi::{Answer, CpiError, Method};
use crate::cpi_set::CpiConnection;
use crate::effects::{Contradiction, Effect, Executor};
use crate::jobs::Jobs;
use crate::protocol::{Contract, DiskCid, Unnamed};
use crate::run_context::RunContext;
use crate::state::{Change, StemcellRecord, VmHandle, VmPropertiesDigests, VmRecord};
use base::events::{Event, Stage};
use base::text;
use base::{Error, Result};
use manifest::Deployment;

/// Uploads the stemcell and returns the id of its record.
pub(super) fn create_stemcell(
    executor: &mut Executor<'_>,
    stemcell: &artifact::Stemcell,
    deployment: &Deployment,
    cpi: Option<&str>,
    reason: &str,
    stage: &Stage,
) -> Result<String> {
    let destination = cpi.map(|cpi| format!(" to CPI '{cpi}'")).unwrap_or_default();
    let upload_stage = stage.reporter().begin_timed_stage(
        "upload_stemcell",
        format!("Uploading stemcell '{}/{}'{destination}", stemcell.name, stemcell.version),
    );
    let (effect, arguments) = upload_effect(stemcell, deployment, cpi, false);
    executor.perform(&upload_stage, reason, &effect, arguments)?;
    let stemcell_record = executor.state().stemcell_at(cpi, &stemcell.identity());
    let id = stemcell_record.map(|record| record.id.clone());
    upload_stage.finish();
    id.ok_or_else(|| Error::failure("the stemcell is not on record after its upload"))
}

/// Returns the upload effect for a stemcell with the arguments of its call. `is_kept` marks a stemcell that
/// an operator uploaded.
pub(crate) fn upload_effect(
    stemcell: &artifact::Stemcell,
    deployment: &Deployment,
    cpi: Option<&str>,
    is_kept: bool,
) -> (Effect, Vec<Value>) {
    let record = StemcellRecord {
        id: uuid::Uuid::new_v4().to_string(),
        name: stemcell.name.clone(),
        version: stemcell.version.clone(),
        api_version: Some(stemcell.api_version),
        cid: Unnamed,
        cpi: cpi.map(str::to_owned),
        digest: Some(stemcell.identity().digest.to_string()),
        is_kept,
        unknown_keys: Map::new(),
    };
    // Requests of API version 3 carry the third argument (`cpi-api-v3-method/create-stemcell.md`).
    let arguments =
        vec![json!(stemcell.image), stemcell.cloud_properties.clone(), json!({"tags": deployment.tags})];
    (Effect::CreateStemcell { record }, arguments)
}

/// Returns the cloud properties of the VM. For `vm_resources`, asks the CPI, which calculates them.
pub(super) fn determine_cloud_properties(
    connection: &CpiConnection<'_>,
    deployment: &Deployment,
    run: &RunContext,
) -> Result<Map<String, Value>> {
    let spec = &deployment.vm;
    let Some(resources) = &spec.resources else { return Ok(spec.cloud_properties.clone()) };
    let asking = run.reporter.begin_stage("Asking the CPI for the cloud properties of `vm_resources`");
    let method = Method::CalculateVmCloudProperties;
    let calculated_properties =
        match connection.call_unrecorded(&asking, method, vec![json!(resources.size)])? {
            Ok(Answer::Hash(cloud_properties)) => cloud_properties,
            Ok(other) => return Err(Error::failure(format!("{other:?} is not an answer to `{method}`"))),
            Err(error @ CpiError::Killed { .. }) => return Err(connection.with_cpi_name(error)),
            Err(error) => {
                return Err(connection
                    .with_cpi_name(error)
                    .context(format!("{} has no cloud properties", resources.place))
                    .with_note("nothing was changed")
                    .with_hint(
                        "change the size, or give the instance group a `vm_type` in place of `vm_resources`",
                    ));
            }
        };
    asking.finish();
    Ok(spec.cloud_properties_with(calculated_properties))
}

/// Creates the VM and waits until its own agent answers.
pub(super) fn create(
    deploy_run: &DeployRun<'_>,
    executor: &mut Executor<'_>,
    agent: &Agent,
    stemcell: &StemcellRecord,
    contract: Contract,
    reason: &str,
    stage: &Stage,
) -> Result<()> {
    let deployment = &deploy_run.prepared_deployment.deployment;
    let creating = stage.reporter().begin_timed_stage(
        "create_vm",
        format!("Creating VM for instance '{}' from stemcell '{}'", deployment.instance(), stemcell.cid),
    );
    let agent_id = uuid::Uuid::new_v4().to_string();
    let record = VmRecord {
        cid: Unnamed,
        agent_id: agent_id.clone(),
        contract,
        networks: None,
        cpi: stemcell.cpi.clone(),
        instance: deployment.instance(),
        ssh_host_key: None,
        property_digests: Some(VmPropertiesDigests::of(&deploy_run.prepared_deployment.vm_properties)),
        is_ready: false,
        unknown_keys: Map::new(),
    };
    // The CPI does not know disks of other CPIs.
    let disks_of_cpi = executor.state().disks.iter().filter(|disk| disk.cpi == stemcell.cpi);
    let disks: Vec<&DiskCid> = disks_of_cpi.map(|disk| &disk.cid).collect();
    let addresses = deployment.vm.networks.values().filter_map(|network| network.get("ip")?.as_str());
    let address = addresses.map(str::to_owned).find(|address| !address.is_empty());
    let arguments = vec![
        json!(agent_id),
        json!(stemcell.cid),
        json!(deploy_run.vm_cloud_properties),
        json!(deployment.vm.networks),
        json!(disks),
        json!(deployment.vm.env),
    ];
    executor.perform(&creating, reason, &Effect::CreateVm { record, address }, arguments)?;
    stage.reporter().emit(Event::StepApplied);
    executor.commit(Change::StemcellUsed { id: stemcell.id.clone() })?;
    let vm = handle(executor)?;
    executor.set_vm_metadata(&creating, &vm, metadata(deployment))?;
    creating.finish();

    let wait_stage =
        stage.reporter().begin_timed_stage("boot_vm", format!("Waiting for the agent on VM {vm}"));
    let timeout = deploy_run.boot_timeout;
    let wait_result = match &deploy_run.agent_access.registry {
        Some(registry) => registry.wait_for_agent(executor, agent, &vm, timeout, &wait_stage),
        None => agent
            .wait_until_ready(timeout, &mut |problem| wait_stage.log_line(problem))
            .map_err(|error| error.into_new_vm_error(&vm, timeout, executor.read_last_boot(&vm).as_ref())),
    };
    wait_result?;
    ForeignAgent::check(agent, executor.state())?;
    wait_stage.finish();
    Ok(())
}

/// Sets the metadata of the VM on record, and of its disk, again.
pub(super) fn set_metadata(
    deploy_run: &DeployRun<'_>,
    executor: &mut Executor<'_>,
    vm: &VmHandle,
    stage: &Stage,
) -> Result<()> {
    let deployment = &deploy_run.prepared_deployment.deployment;
    let setting =
        stage.reporter().begin_timed_stage("set_metadata", format!("Setting the metadata of VM {vm}"));
    executor.set_vm_metadata(&setting, vm, metadata(deployment))?;
    if let Some(disk) = executor.state().current_disk().map(|disk| disk.handle()) {
        executor.set_disk_metadata(&setting, &disk, disk_metadata(deployment))?;
    }
    executor.commit(Change::MetadataSet(Box::new(deploy_run.prepared_deployment.vm_properties.clone())))?;
    setting.finish();
    Ok(())
}

/// Returns the handle of the VM on record.
pub(crate) fn handle(executor: &Executor<'_>) -> Result<VmHandle> {
    executor.state().vm_handle().ok_or_else(|| Error::failure("no VM is on record"))
}

/// Returns the metadata that the IaaS shows for the VM.
fn metadata(deployment: &Deployment) -> Value {
    let mut metadata = Map::new();
    metadata.insert("deployment".into(), json!(deployment.name));
    metadata.insert("director".into(), json!("bosh-init"));
    metadata.insert("job".into(), json!(deployment.group.name));
    metadata.insert("instance_group".into(), json!(deployment.group.name));
    metadata.insert("index".into(), json!("0"));
    metadata.insert("name".into(), json!(deployment.instance()));
    metadata.insert("created_at".into(), json!(base::encoding::now()));
    metadata.extend(deployment.tags.iter().map(|(key, value)| (key.clone(), json!(value))));
    Value::Object(metadata)
}

/// Returns the metadata that the IaaS shows for a disk.
pub(crate) fn disk_metadata(deployment: &Deployment) -> Value {
    let mut metadata = Map::new();
    metadata.insert("deployment".into(), json!(deployment.name));
    metadata.insert("director".into(), json!("bosh-init"));
    metadata.insert("instance_group".into(), json!(deployment.group.name));
    metadata.insert("instance_index".into(), json!("0"));
    metadata.insert("attached_at".into(), json!(base::encoding::now()));
    metadata.extend(deployment.tags.iter().map(|(key, value)| (key.clone(), json!(value))));
    Value::Object(metadata)
}

/// Stops the jobs and unmounts the disks. Skips a VM that is gone. Gives up, without an error, on a VM that
/// is foreign or whose agent does not answer: its jobs may still run. Fails if the CPI denies the VM and its
/// agent answers.
pub(super) fn stop(
    teardown: &Teardown<'_, '_>,
    executor: &Executor<'_>,
    agent: &Agent,
    vm: &VmHandle,
    stage: &Stage,
) -> Result<()> {
    let instance =
        executor.state().vm().map_or_else(|| "the VM".to_owned(), |vm| format!("instance '{}'", vm.instance));
    let expected_agent_id = executor.state().vm().map(|vm| vm.agent_id.clone());
    let wait_stage =
        stage.reporter().begin_timed_stage("reach_agent", format!("Waiting for the agent on VM {vm}"));
    if !executor.fetch_may_have_vm(&wait_stage, vm)? {
        wait_stage.skip("the CPI does not find the VM");
        return Contradiction::check(executor, agent, vm, stage.reporter());
    }
    // A restarted agent asks the registry before it answers.
    let tunnel = teardown
        .agent_access
        .registry
        .as_ref()
        .and_then(|registry| registry.begin_tunnel(executor.state(), teardown.agent_timeout));
    match agent.wait_until_ready(teardown.agent_timeout, &mut |problem| wait_stage.log_line(problem)) {
        Ok(()) => {}
        Err(error) if error.was_caused_by_this_run() => return Err(error.into()),
        Err(error) => {
            if let Some(problem) = tunnel.and_then(|tunnel| tunnel.last_error()) {
                stage.reporter().warn(format!("the ssh tunnel to VM {vm} cannot be opened: {problem}"));
            }
            wait_stage.give_up(match error.is_transient() {
                true => {
                    let timeout = text::format_duration(teardown.agent_timeout);
                    format!("no answer from the agent within {timeout}")
                }
                false => format!("the agent cannot be used: {error}"),
            });
            return Ok(());
        }
    }
    if let Some(expected_agent_id) = expected_agent_id
        && let Some(foreign) = ForeignAgent::ask(agent, &expected_agent_id)?
    {
        wait_stage.give_up(format!("another VM answers ({foreign})"));
        return Ok(());
    }
    wait_stage.finish();
    if let Some(task) = executor.state().agent_task() {
        let wait_stage = stage.reporter().begin_timed_stage(
            "wait_for_task",
            format!("Waiting for the agent's `{}` of an earlier run", task.method),
        );
        agent.wait_for_task(&task.method, &task.id)?;
        wait_stage.finish();
    }

    let jobs = Jobs { run: teardown.agent_access.run, agent, instance, has_run_before: true };
    jobs.stop(teardown.stop_options.drain_timeout(), teardown.reason, stage)?;
    jobs.unmount(stage)
}
