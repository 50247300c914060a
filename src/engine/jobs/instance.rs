//! Deploys the jobs to the VM: resolved networks, rendered templates, packages, and the spec that refers to
//! them.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::agent_state::AgentState;
use super::lifecycle::{JOBS_NOT_STOPPED, Jobs};
use super::packages::Packages;
use super::render::RenderedJobs;
use crate::agent_client::{Agent, CompiledPackage, StopReason};
use crate::run_context::RunContext;
use crate::state::State;
use base::events::{Stage, Unit};
use base::text::format_duration;
use base::{Error, ErrorKind, Result};
use manifest::Deployment;

/// The instance to which the jobs of an environment are deployed.
pub(crate) struct Instance<'a> {
    pub(crate) run: &'a RunContext,
    pub(crate) agent: &'a Agent,
    pub(crate) deployment: &'a Deployment,
    pub(crate) packages: &'a Packages<'a>,
    /// The drain timeout for replaced jobs; `None` stops them without draining.
    pub(crate) drain_timeout: Option<Duration>,
    /// True for `--update-strategy in-place`: after a failed update, the next one uses the same VM.
    pub(crate) must_keep_vm: bool,
}

/// The archive of rendered templates in the agent's blobstore. It is empty before it is uploaded.
#[derive(Default)]
struct UploadedArchive<'a> {
    blob_id: &'a str,
    digest: &'a str,
}

/// The configuration hash that the bosh CLI sends before jobs are rendered.
const NO_CONFIGURATION: &str = "unused-configuration-hash";
/// The time after which a note explains why the agent still prepares an instance.
const SLOW_PREPARE: Duration = Duration::from_secs(10);

impl<'a> Instance<'a> {
    /// Applies a spec without jobs, so that the agent learns its networks. Returns the networks with the
    /// addresses that only the agent knows.
    pub(crate) fn resolve_networks(&self, state: &State) -> Result<Map<String, Value>> {
        self.agent.apply(&self.spec(
            &self.deployment.vm.networks,
            NO_CONFIGURATION,
            &[],
            &[],
            &UploadedArchive::default(),
        ))?;
        Ok(AgentState::fetch(self.agent, state)?.networks(self.deployment))
    }

    /// Uploads the rendered jobs, compiles the packages, and starts the jobs.
    pub(crate) fn deploy(
        &self,
        rendered_jobs: &RenderedJobs,
        networks: &Map<String, Value>,
        stage: &Stage,
    ) -> Result<()> {
        let spec = self
            .upload_jobs_and_packages(rendered_jobs, networks, &[], stage)
            .map_err(|error| with_vm_hint(error.with_note("VM and disk are kept; no job runs yet")))?;
        let instance = self.deployment.instance();
        let updating = stage.reporter().begin_timed_stage("apply", format!("Updating instance '{instance}'"));
        self.agent.stop().map_err(|error| error.with_stage(&updating))?;
        self.agent.apply(&spec).map_err(|error| error.with_stage(&updating))?;
        updating.finish();
        let jobs = Jobs { has_run_before: false, ..self.jobs() };
        jobs.start(self.deployment, stage).map_err(|error| {
            let error = error.with_note("the VM is kept");
            match error.kind() {
                ErrorKind::Interrupted(_) => error,
                _ => error.with_hint(
                    "correct the cause, then deploy the jobs to this VM again: `monopile create-env \
                     MANIFEST`",
                ),
            }
        })
    }

    /// Uploads everything while the old jobs still run, then stops them and starts the new ones. Returns the
    /// time from the beginning of the stop until the new jobs run. `has_deployed` is true if an earlier
    /// deploy succeeded.
    pub(crate) fn update(
        &self,
        rendered_jobs: &RenderedJobs,
        agent_state: &AgentState,
        has_deployed: bool,
        stage: &Stage,
    ) -> Result<Duration> {
        let with_untouched_jobs = |error: Error| {
            with_vm_hint(error.with_note(match agent_state.job_state() {
                _ if !agent_state.has_jobs() => "VM and disk are kept; no job runs yet".to_owned(),
                "running" => "nothing was stopped: the jobs run as before".to_owned(),
                job_state => format!("VM and disk are kept; the jobs are '{job_state}', as before this run"),
            }))
        };
        let spec = self
            .upload_jobs_and_packages(
                rendered_jobs,
                &agent_state.networks(self.deployment),
                &agent_state.packages(),
                stage,
            )
            .map_err(with_untouched_jobs)?;
        let instance = self.deployment.instance();
        let preparing =
            stage.reporter().begin_timed_stage("prepare", format!("Preparing instance '{instance}'"));
        let prepare_start = Instant::now();
        let mut is_slow = false;
        let mut on_wait = || {
            if !is_slow && prepare_start.elapsed() >= SLOW_PREPARE {
                is_slow = true;
                stage.reporter().note(format!(
                    "the agent has been preparing instance '{instance}' for {}: it fetches packages, or \
                     first finishes a script of a run that was killed",
                    format_duration(SLOW_PREPARE)
                ));
            }
        };
        self.agent
            .prepare(&spec, &mut on_wait)
            .map_err(|error| with_untouched_jobs(error.with_stage(&preparing).into()))?;
        preparing.finish();

        let jobs = self.jobs();
        let stop_began = Instant::now();
        let mut is_drained = false;
        let mut update = || {
            jobs.drain(self.drain_timeout, StopReason::Update(&spec), stage)?;
            is_drained = true;
            jobs.stop_drained(stage)?;
            jobs.wait_until_gone(self.deployment.update_watch_time.end, stage)?;
            let updating =
                stage.reporter().begin_timed_stage("apply", format!("Updating instance '{instance}'"));
            self.agent.apply(&spec).map_err(|error| error.with_stage(&updating))?;
            updating.finish();
            jobs.start(self.deployment, stage)
        };
        let result = update();
        result.map_err(|error: Error| {
            if matches!(error.kind(), ErrorKind::Interrupted(_)) {
                return error
                    .context(format!("the update of instance '{instance}' in place was interrupted"))
                    .with_note("VM and disk are kept; the jobs may be stopped until the update is finished");
            }
            let error = error.context(format!("the update of instance '{instance}' in place failed"));
            let error = match is_drained {
                true => {
                    error.with_note("VM and disk are kept; the jobs were stopped, and may not all run now")
                }
                false => error.with_note(JOBS_NOT_STOPPED).with_note("VM and disk are kept"),
            };
            // The next run decides by the state of the jobs then.
            let are_running = || {
                let agent_answer = self.agent.get_state();
                agent_answer.is_ok_and(|answer| answer["job_state"].as_str() == Some("running"))
            };
            let error = match self.must_keep_vm || are_running() {
                true => error
                    .with_rerun_hint(
                        "correct the cause, then run the same command again: it tries on the same VM",
                    )
                    .with_hint(
                        "for a new VM with the same persistent disk: `monopile create-env MANIFEST \
                         --recreate`",
                    ),
                false => error
                    .with_rerun_hint(
                        "correct the cause, then run the same command again: it creates a new VM with the \
                         same persistent disk",
                    )
                    .with_hint(
                        "to try again on the same VM: `monopile SAME-COMMAND --update-strategy in-place`",
                    ),
            };
            match has_deployed && is_drained {
                true => error.with_hint(
                    "to go back, restore the manifest and the releases of the last deploy, then run the \
                     same command again",
                ),
                false => error,
            }
        })?;
        Ok(stop_began.elapsed())
    }

    /// Returns true if the VM has exactly these jobs, rendered templates and packages already. Networks and
    /// disks are not compared, because a change of them needs a new VM.
    pub(crate) fn is_applied(&self, rendered_jobs: &RenderedJobs, agent_state: &AgentState) -> bool {
        let spec = self.spec(
            &Map::new(),
            &rendered_jobs.configuration_hash,
            &rendered_jobs.jobs,
            &[],
            &UploadedArchive::default(),
        );
        agent_state.has_jobs_of(&spec) && self.packages.are_installed(self.run, &agent_state.packages())
    }

    fn jobs(&self) -> Jobs<'a> {
        let instance = format!("instance '{}'", self.deployment.instance());
        Jobs { run: self.run, agent: self.agent, instance, has_run_before: true }
    }

    /// Uploads the rendered jobs and provides the packages. Returns the spec that refers to them.
    fn upload_jobs_and_packages(
        &self,
        rendered_jobs: &RenderedJobs,
        networks: &Map<String, Value>,
        installed_packages: &[CompiledPackage],
        stage: &Stage,
    ) -> Result<Value> {
        let upload_stage =
            stage.reporter().begin_timed_stage("upload_templates", "Uploading rendered job templates");
        let blob_id = uuid::Uuid::new_v4().to_string();
        self.agent.put_blob(&blob_id, &rendered_jobs.archive, &mut |bytes_done| {
            upload_stage.report_progress(bytes_done, None, Unit::Bytes)
        })?;
        upload_stage.finish();
        let packages = self.packages.provide(self.run, self.agent, installed_packages, stage)?;
        Ok(self.spec(
            networks,
            &rendered_jobs.configuration_hash,
            &rendered_jobs.jobs,
            &packages,
            &UploadedArchive { blob_id: &blob_id, digest: &rendered_jobs.digest },
        ))
    }

    /// Builds the spec in the form that the agent applies (`applyspec/v1_apply_spec.go`).
    fn spec(
        &self,
        networks: &Map<String, Value>,
        configuration_hash: &str,
        jobs: &[(String, String)],
        packages: &[CompiledPackage],
        archive: &UploadedArchive<'_>,
    ) -> Value {
        let deployment = self.deployment;
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
            "rendered_templates_archive": {"blobstore_id": archive.blob_id, "sha1": archive.digest},
        })
    }
}

/// Adds the hint for a failure after which the next run uses the VM. An interruption needs no correction.
fn with_vm_hint(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Interrupted(_) => error,
        _ => error.with_rerun_hint("correct the cause, then run the same command again: it uses this VM"),
    }
}
