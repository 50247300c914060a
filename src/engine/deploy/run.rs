//! Takes the steps of `create-env` in order.

use std::time::Duration;

use serde_json::{Map, Value};

use super::disk::{self, AttachSettings};
use super::request::{CreateEnvRequest, OLD_AGENT_TIMEOUT, StopOptions};
use super::snapshot::{self, SnapshotPolicy};
use super::step_timer::StepTimer;
use super::teardown::{AgentAccess, Teardown, step_started_event};
use super::vm;
use crate::agent_client::{Agent, AgentEndpoint, StopReason};
use crate::effects::Executor;
use crate::jobs::render::{self, RenderedJobs};
use crate::jobs::{AgentState, Instance, JOBS_NOT_STOPPED, Packages};
use crate::plan::{DesiredLeaf, DiskRef, Plan, StemcellRef, Step, UpdateStrategy};
use crate::prepare::{OpenedArtifacts, PreparedDeployment};
use crate::protocol::Contract;
use crate::run_context::{RunContext, signals};
use crate::state::{Change, DiskHandle, Leaves, ReleaseRecord, Resource, State, StemcellRecord, VmHandle};
use base::events::{Event, Stage};
use base::{Error, ErrorKind, Result};
use erb::Renderer;

/// A running `create-env`.
pub(super) struct DeployRun<'a> {
    pub(super) run: &'a RunContext,
    pub(super) prepared_deployment: &'a PreparedDeployment,
    pub(super) artifacts: &'a OpenedArtifacts,
    pub(super) renderer: &'a dyn Renderer,
    pub(super) packages: Packages<'a>,
    /// The boot timeout of a new VM.
    pub(super) boot_timeout: Duration,
    /// True for `--update-strategy in-place`.
    must_keep_vm: bool,
    pub(super) agent_access: AgentAccess<'a>,
    stop_options: StopOptions,
    /// The cloud properties of a new VM.
    pub(super) vm_cloud_properties: Map<String, Value>,
    snapshot: SnapshotPolicy,
    rendered_jobs: Option<RenderedJobs>,
    step_timer: StepTimer,
}

impl<'a> DeployRun<'a> {
    /// Creates a run. Fails if the packages and the stemcell do not fit together, before anything is created.
    pub(super) fn new(
        run: &'a RunContext,
        prepared_deployment: &'a PreparedDeployment,
        artifacts: &'a OpenedArtifacts,
        renderer: &'a dyn Renderer,
        endpoint: AgentEndpoint,
        request: &CreateEnvRequest,
    ) -> Result<Self> {
        let packages =
            Packages::collect(&prepared_deployment.deployment, &artifacts.releases, &artifacts.stemcell)?;
        let boot_timeout = request.boot_timeout;
        let must_keep_vm = request.strategy == UpdateStrategy::InPlace;
        let (snapshot, rendered_jobs, step_timer) = (request.snapshot, None, StepTimer::default());
        Ok(DeployRun {
            run,
            prepared_deployment,
            artifacts,
            renderer,
            packages,
            must_keep_vm,
            boot_timeout,
            agent_access: AgentAccess { run, endpoint, registry: None },
            stop_options: request.stop_options,
            vm_cloud_properties: Map::new(),
            snapshot,
            rendered_jobs,
            step_timer,
        })
    }

    /// Renders the templates now. With a dynamic network it only checks them, because they may need an
    /// address that only the IaaS assigns.
    pub(super) fn render_early(&mut self, state: &State, stage: &Stage) -> Result<()> {
        if self.prepared_deployment.deployment.has_dynamic_network() {
            let (deployment, releases) = (&self.prepared_deployment.deployment, &self.artifacts.releases);
            return render::check(self.renderer, deployment, releases, &state.installation_id);
        }
        let rendering = stage.reporter().begin_timed_stage("render", "Rendering job templates");
        let networks = &self.prepared_deployment.deployment.vm.networks;
        self.rendered_jobs = Some(self.render(state, networks)?);
        rendering.finish();
        Ok(())
    }

    fn render(&self, state: &State, networks: &Map<String, Value>) -> Result<RenderedJobs> {
        render::render(
            self.renderer,
            &self.prepared_deployment.deployment,
            &self.artifacts.releases,
            networks,
            &state.installation_id,
            &self.run.paths.scratch,
        )
    }

    /// Takes every step. The step that deploys, updates or keeps the jobs records the deploy. Later steps
    /// only clean up. An error says whether the VM and its jobs still run, if a step may have ended them.
    pub(super) fn take_steps(
        self,
        plan: &Plan,
        executor: &mut Executor<'_>,
        contract: Contract,
    ) -> Result<()> {
        let previous_vm = executor.state().vm_handle();
        let mut has_begun_stop = false;
        let result = self.take_each_step(plan, executor, contract, &mut has_begun_stop);
        result.map_err(|error| with_vm_note(error, previous_vm.as_ref(), executor.state(), has_begun_stop))
    }

    /// Takes the steps one after the other. If the CPI declines to resize or update a disk, a plan that
    /// copies its data replaces the rest of the plan. Sets `has_begun_stop` when it begins to stop the jobs.
    fn take_each_step(
        mut self,
        plan: &Plan,
        executor: &mut Executor<'_>,
        contract: Contract,
        has_begun_stop: &mut bool,
    ) -> Result<()> {
        let usual_duration = plan.usual_duration(&executor.state().monopile.durations);
        let deploying = self.run.reporter.begin_stage_with_usual_duration("Deploying", usual_duration);
        let instance = self.prepared_deployment.deployment.instance();
        if plan.deploys_jobs() {
            let is_first = executor.state().monopile.credential_digests.is_none();
            if let Some(digests) = self.prepared_deployment.credential_digests.as_ref().filter(|_| is_first) {
                executor.commit(Change::CredentialsChosen(digests.clone()))?;
            }
            executor.commit(Change::DeployBegun { in_place: plan.updates_in_place() })?;
        }
        let (mut new_stemcell_id, mut new_disk, mut updated_disk) = (None, None, None);
        let agent = self.agent_access.create_client(executor.state());
        let mut plan = plan.clone();
        let mut index = 0;
        while let Some(planned_step) = plan.steps.get(index).cloned() {
            signals::check_before_step(self.run, &planned_step.step.describe(&instance))?;
            self.run.reporter.emit(step_started_event(&plan, index, &planned_step, &instance));
            self.step_timer.begin(&planned_step.step);
            let reason = planned_step.reason.as_str();
            match &planned_step.step {
                Step::CreateStemcell { cpi, .. } => {
                    let (stemcell, deployment) =
                        (&self.artifacts.stemcell, &self.prepared_deployment.deployment);
                    let cpi = cpi.as_deref();
                    let id = vm::create_stemcell(executor, stemcell, deployment, cpi, reason, &deploying)?;
                    new_stemcell_id = Some(id);
                }
                Step::CreateVm(stemcell_ref) => {
                    let stemcell =
                        stemcell_record(executor.state(), stemcell_ref, new_stemcell_id.as_deref())?;
                    // The agent of the new VM gets these values, even if the rest of the deploy fails.
                    let has_new_credentials = !self.prepared_deployment.changed_credentials.is_empty();
                    if let Some(digests) =
                        self.prepared_deployment.credential_digests.as_ref().filter(|_| has_new_credentials)
                    {
                        executor.commit(Change::CredentialsChosen(digests.clone()))?;
                    }
                    vm::create(&self, executor, &agent, &stemcell, contract, reason, &deploying)?;
                }
                Step::SnapshotDisk(disk) => {
                    let deployment = &self.prepared_deployment.deployment;
                    snapshot::take(executor, deployment, disk, self.snapshot, reason, &deploying)?;
                }
                Step::CreateDisk(spec) => {
                    let az = self.prepared_deployment.deployment.az.as_ref().map(|az| az.name.as_str());
                    new_disk = Some(disk::create(executor, spec, az, reason, &deploying)?);
                }
                Step::ResizeDisk(update) | Step::UpdateDisk(update) => {
                    updated_disk = disk::update(executor, &planned_step.step, update, reason, &deploying)?;
                    if updated_disk.is_none() {
                        plan = plan.with_disk_copy(index);
                        let headline = format!("Copy the data of disk {} to a new disk", update.disk);
                        self.run.reporter.report_plan(headline, plan.reported_steps(&instance));
                    }
                }
                Step::AttachDisk(disk_ref) => {
                    let disk = match disk_ref {
                        DiskRef::Existing(disk) => updated_disk.as_ref().unwrap_or(disk),
                        DiskRef::New => created_disk(new_disk.as_ref())?,
                    };
                    let attach_settings = AttachSettings {
                        deployment: &self.prepared_deployment.deployment,
                        timeout: self.boot_timeout,
                    };
                    let on_attached = || self.run.reporter.emit(Event::StepApplied);
                    disk::attach(&attach_settings, executor, &agent, disk, reason, &deploying, &on_attached)?;
                }
                Step::MigrateDisk => {
                    disk::migrate(executor, &agent, created_disk(new_disk.as_ref())?, &deploying)?;
                }
                Step::UseDisk => {
                    executor.commit(Change::DiskUsed(created_disk(new_disk.as_ref())?.clone()))?;
                }
                Step::DetachDisk(disk) => disk::detach(&self, executor, &agent, disk, reason, &deploying)?,
                Step::DeployJobs => {
                    executor.commit(Change::VmReady)?;
                    self.deploy_jobs(executor, &agent, &deploying)?;
                }
                Step::SetMetadata(vm) => vm::set_metadata(&self, executor, vm, &deploying)?,
                Step::UpdateVm(_) => self.update_vm(executor, &agent, &deploying)?,
                Step::KeepJobs(_) => executor.commit(self.deployed_change())?,
                // A CPI may return the CID of an old stemcell again, after the plan decided to delete that
                // stemcell.
                Step::Delete(resource) if is_in_use(executor.state(), resource) => {
                    deploying.reporter().begin_stage(format!("Deleting {resource}")).skip("it is in use");
                }
                step @ (Step::StopJobs(_) | Step::StopJobsIfPossible(_) | Step::Delete(_)) => {
                    *has_begun_stop |= !matches!(step, Step::Delete(_));
                    if let Some(error) =
                        self.teardown().take_step(step, reason, executor, &agent, &deploying)?
                    {
                        // The deploy itself succeeded, so a superseded resource that still exists is only a
                        // warning.
                        deploying.reporter().warn(format!(
                            "{}; it stays on record, and the next run tries again",
                            error.chain().join(": ")
                        ));
                    }
                }
            }
            index += 1;
        }
        deploying.finish();
        Ok(())
    }

    /// Deploys the jobs to a new VM and records the manifest as deployed.
    fn deploy_jobs(&mut self, executor: &mut Executor<'_>, agent: &Agent, stage: &Stage) -> Result<()> {
        let networks = self.instance(agent).resolve_networks(executor.state())?;
        let rendered_jobs = self.take_rendered_jobs(executor.state(), &networks, stage)?;
        self.instance(agent).deploy(&rendered_jobs, &networks, stage)?;
        self.step_timer.add_downtime_by_new_vm();
        executor.commit(self.deployed_change())
    }

    /// Updates the jobs on the running VM in place and records the manifest as deployed.
    fn update_vm(&mut self, executor: &mut Executor<'_>, agent: &Agent, stage: &Stage) -> Result<()> {
        let agent_state = AgentState::fetch(agent, executor.state())?;
        let rendered_jobs = self.take_rendered_jobs(
            executor.state(),
            &agent_state.networks(&self.prepared_deployment.deployment),
            stage,
        )?;
        let has_deployed = executor.state().monopile.manifest_leaves.is_some();
        let update_result = self.instance(agent).update(&rendered_jobs, &agent_state, has_deployed, stage);
        // An interrupted run does not mean that the VM failed.
        if update_result.as_ref().is_err_and(|error| !matches!(error.kind(), ErrorKind::Interrupted(_))) {
            executor.commit(Change::UpdateFailed)?;
        }
        let downtime = update_result?;
        self.step_timer.add_downtime_in_place(downtime);
        executor.commit(self.deployed_change())
    }

    /// Returns true if the VM has the jobs, rendered templates and packages of the manifest already.
    pub(super) fn is_applied(
        &mut self,
        agent_state: &AgentState,
        state: &State,
        stage: &Stage,
    ) -> Result<bool> {
        let rendered_jobs = self.take_rendered_jobs(
            state,
            &agent_state.networks(&self.prepared_deployment.deployment),
            stage,
        )?;
        let is_applied =
            self.instance(&self.agent_access.create_client(state)).is_applied(&rendered_jobs, agent_state);
        // With a dynamic network, the templates hold the addresses of this VM.
        if !self.prepared_deployment.deployment.has_dynamic_network() {
            self.rendered_jobs = Some(rendered_jobs);
        }
        Ok(is_applied)
    }

    /// Returns the [`Teardown`], which stops jobs and deletes resources.
    fn teardown(&self) -> Teardown<'_, 'a> {
        Teardown {
            agent_access: &self.agent_access,
            stop_options: self.stop_options,
            reason: StopReason::DeleteVm,
            agent_timeout: OLD_AGENT_TIMEOUT,
        }
    }

    fn instance<'i>(&'i self, agent: &'i Agent) -> Instance<'i> {
        Instance {
            run: self.run,
            agent,
            deployment: &self.prepared_deployment.deployment,
            packages: &self.packages,
            drain_timeout: self.stop_options.drain_timeout(),
            must_keep_vm: self.must_keep_vm,
        }
    }

    /// Returns the templates rendered earlier, or renders them now.
    fn take_rendered_jobs(
        &mut self,
        state: &State,
        networks: &Map<String, Value>,
        stage: &Stage,
    ) -> Result<RenderedJobs> {
        if let Some(rendered_jobs) = self.rendered_jobs.take() {
            return Ok(rendered_jobs);
        }
        let rendering = stage.reporter().begin_timed_stage("render", "Rendering job templates");
        let rendered_jobs = self.render(state, networks)?;
        rendering.finish();
        Ok(rendered_jobs)
    }

    fn deployed_change(&mut self) -> Change {
        let releases = self
            .prepared_deployment
            .release_identities()
            .into_iter()
            .map(|identity| ReleaseRecord {
                id: uuid::Uuid::new_v4().to_string(),
                digest: Some(identity.digest.to_string()),
                name: identity.name,
                version: identity.version,
                unknown_keys: serde_json::Map::new(),
            })
            .collect();
        let leaves =
            self.prepared_deployment.leaves.iter().map(|leaf| (leaf.path.as_str(), leaf.value.as_str()));
        let description = |leaf: &DesiredLeaf| Some((leaf.path.clone(), leaf.description()?));
        let descriptions = self.prepared_deployment.leaves.iter().filter_map(description);
        Change::Deployed {
            deploy_digest: self.prepared_deployment.deploy_digest.clone(),
            releases,
            manifest_leaves: Some(Leaves::of(leaves).with_descriptions(descriptions)),
            credential_digests: self.prepared_deployment.credential_digests.clone(),
            durations: self.step_timer.durations_so_far(self.run.reporter.finished_durations()),
        }
    }
}

/// Adds the note about the VM and its jobs after a step failed or was interrupted: a VM that this run created
/// is on record, and the next run replaces it because it was never ready for jobs; no VM runs after the old
/// one was deleted; or the jobs of the old one may be stopped.
fn with_vm_note(error: Error, previous_vm: Option<&VmHandle>, state: &State, has_begun_stop: bool) -> Error {
    let is_ready = state.vm().is_some_and(|vm| vm.is_ready);
    match (state.vm_handle(), previous_vm) {
        (None, Some(_)) => error.with_note(match state.current_disk() {
            Some(disk) => format!("no VM runs now; disk {} is kept", disk.handle()),
            None => "no VM runs now".to_owned(),
        }),
        (Some(vm), Some(previous_vm)) if vm == *previous_vm => match has_begun_stop {
            true if error.notes().iter().any(|note| note == JOBS_NOT_STOPPED) => {
                error.with_note("VM and disk are kept")
            }
            true => error.with_note("VM and disk are kept; the jobs may be stopped"),
            false => error,
        },
        (Some(vm), _) if !is_ready => error
            .with_note(format!("VM {vm} was created and is on record; the next run replaces it"))
            .with_retry_hint(),
        _ => error,
    }
}

/// Returns the disk that an earlier step created.
fn created_disk(disk: Option<&DiskHandle>) -> Result<&DiskHandle> {
    disk.ok_or_else(|| Error::failure("the plan uses a disk before it creates one"))
}

/// Finds the stemcell of a step; `new_record_id` is the id of the record that an earlier step created.
fn stemcell_record(
    state: &State,
    stemcell_ref: &StemcellRef,
    new_record_id: Option<&str>,
) -> Result<StemcellRecord> {
    let id = match stemcell_ref {
        StemcellRef::Existing(id) => Some(id.as_str()),
        StemcellRef::New => new_record_id,
    };
    let record = state.stemcells.iter().find(|record| Some(record.id.as_str()) == id);
    record.cloned().ok_or_else(|| Error::failure("the plan uses a stemcell that is not on record"))
}

fn is_in_use(state: &State, resource: &Resource) -> bool {
    match resource {
        Resource::Stemcell(handle) => {
            state.current_stemcell().is_some_and(|current| current.handle() == *handle)
        }
        Resource::Disk(handle) => state.current_disk().is_some_and(|current| current.handle() == *handle),
        // The VM of this environment may be deleted: a new one replaces it.
        Resource::Vm(_) | Resource::Snapshot(_) => false,
    }
}
