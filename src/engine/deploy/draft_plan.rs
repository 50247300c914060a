//! Plans a `create-env` without calling a CPI.

use super::liveness::{self, Liveness, UnusableAgent};
use super::request::CreateEnvRequest;
use super::run::DeployRun;
use super::{mbus_certificate, mbus_url};
use crate::agent_client::AgentEndpoint;
use crate::cpi_set::Cpis;
use crate::jobs::AgentState;
use crate::plan::{self, Plan, PlanOptions, UpdateStrategy};
use crate::prepare::PreparedDeployment;
use crate::recovery::suspects;
use crate::run_context::RunContext;
use crate::state::{DiskRecord, State, VmHandle};
use base::Result;
use base::events::{Stage, Warning};

/// Changes a plan so that the jobs run on, if the agent applied the same jobs and packages before. Does
/// nothing if the last deploy did not finish.
pub(super) fn keep_applied_jobs(
    plan: &mut Plan,
    agent_state: Option<&AgentState>,
    deploy_run: &mut DeployRun<'_>,
    state: &State,
    stage: &Stage,
) -> Result<()> {
    let can_keep = plan.updates_in_place() && !state.current_deploy_digest.is_empty();
    if let Some(agent_state) = agent_state.filter(|_| can_keep)
        && deploy_run.is_applied(agent_state, state, stage)?
    {
        plan.keep_jobs();
    }
    Ok(())
}

/// A plan with its inputs.
pub(super) struct DraftPlan {
    pub(super) prepared_deployment: PreparedDeployment,
    pub(super) endpoint: AgentEndpoint,
    pub(super) plan: Plan,
    options: PlanOptions,
    /// The agent that did not answer as expected, if the plan deploys nothing.
    pub(super) unusable_agent: Option<UnusableAgent>,
    /// The state of the agent if its jobs run.
    pub(super) agent_state: Option<AgentState>,
    /// True if the plan deploys nothing, and the jobs are stopped, as `stop-env` leaves them.
    pub(super) jobs_are_stopped: bool,
    /// The VM on record, if its agent does not answer because its processes on this machine have ended. Set
    /// only if the plan deploys nothing.
    pub(super) vm_that_is_off: Option<VmHandle>,
}

impl DraftPlan {
    /// Makes the plan as a part of `stage`, and asks the VM's agent if the plan depends on it. Changes
    /// nothing.
    pub(super) fn create(
        run: &RunContext,
        request: &CreateEnvRequest,
        prepared_deployment: PreparedDeployment,
        state: &State,
        stage: &Stage,
    ) -> Result<Self> {
        let options = PlanOptions {
            command: request.command,
            replaces_unchanged_vm: request.replaces_unchanged_vm,
            recreate_persistent_disks: request.recreate_persistent_disks,
            strategy: request.strategy,
            takes_snapshot: request.snapshot.is_taken(),
            now: base::encoding::now(),
            vm_is_gone: request.vm_is_gone,
            ..PlanOptions::default()
        };
        let endpoint = prepared_deployment.endpoint.clone();
        if let Some(certificate) = &prepared_deployment.mbus_certificate {
            mbus_certificate::check(certificate, &endpoint, &prepared_deployment.deployment, state)?;
        }
        suspects::check_suspected_vm(run, stage.reporter(), &endpoint, state)?;
        let plan = Plan::default();
        let mut draft = DraftPlan {
            prepared_deployment,
            endpoint,
            plan,
            options,
            unusable_agent: None,
            agent_state: None,
            jobs_are_stopped: false,
            vm_that_is_off: None,
        };
        draft.update_plan(state)?;
        // The agent may refuse new credentials, and then cannot stop the jobs of a VM that is replaced.
        let has_new_credentials = !draft.prepared_deployment.changed_credentials.is_empty();
        let asks_agent = match draft.plan.deploys_jobs() {
            true => draft.plan.updates_in_place() || has_new_credentials,
            false => request.asks_agent_if_unchanged,
        };
        let ask_agent = || {
            liveness::fetch_liveness(
                run,
                &draft.endpoint,
                state,
                &draft.prepared_deployment.run_credentials,
                stage,
            )
        };
        match asks_agent.then(ask_agent).transpose()?.flatten() {
            Some(Liveness::Alive(agent_state)) => match agent_state.job_state() {
                "running" => draft.agent_state = Some(agent_state),
                "stopped" if !draft.plan.deploys_jobs() => draft.jobs_are_stopped = true,
                job_state if !draft.plan.deploys_jobs() => run.reporter.warn(
                    Warning::new(format!("the jobs are '{job_state}', not 'running'"))
                        .with_hint("see why: `monopile logs MANIFEST`")
                        .with_hint("to start them: `monopile start-env MANIFEST`"),
                ),
                // The agent is not asked again: after a failed update the jobs may never run, and waiting
                // would only delay the next update.
                job_state if state.update_failed() && request.strategy == UpdateStrategy::Auto => {
                    draft.options.jobs_after_failed_update = Some(job_state.to_owned());
                    draft.update_plan(state)?;
                }
                _ => {}
            },
            Some(Liveness::Unusable(agent)) if draft.plan.updates_in_place() => {
                run.reporter.warn(agent.replacement_warning());
                draft.options.unusable_agent_reason =
                    Some(format!("its agent {}: {}", agent.predicate(), agent.error));
                draft.update_plan(state)?;
                draft.plan.expect_stop_failure(&format!("its agent {}", agent.predicate()));
            }
            Some(Liveness::Unusable(agent)) if !draft.plan.deploys_jobs() => {
                draft.unusable_agent = Some(agent)
            }
            Some(Liveness::Unusable(agent))
                if agent.has_other_credentials && agent.other_address.is_none() =>
            {
                run.reporter.warn(running_jobs_warning(&agent));
                draft.plan.expect_stop_failure("the agent refuses the new credentials");
            }
            Some(Liveness::Unusable(agent)) => {
                run.reporter.warn(agent.running_jobs_warning());
                draft.plan.expect_stop_failure(&format!("the agent {}", agent.predicate()));
            }
            None => {}
        }
        if draft.plan.creates_vm() {
            mbus_url::check_credentials(&draft.prepared_deployment.deployment)?;
            mbus_url::port_warning(&draft.prepared_deployment.deployment)
                .into_iter()
                .for_each(|warning| run.reporter.warn(warning));
        }
        Ok(draft)
    }

    /// Returns true if nothing changed and the VM need not be checked.
    pub(super) fn has_nothing_to_do(&self) -> bool {
        self.plan.is_empty() && self.unusable_agent.is_none()
    }

    /// Makes the plan again, with the options as they are now.
    fn update_plan(&mut self, state: &State) -> Result<()> {
        self.plan = self.make_plan(state, &self.options)?;
        Ok(())
    }

    fn make_plan(&self, state: &State, options: &PlanOptions) -> Result<Plan> {
        let releases = self.prepared_deployment.release_identities();
        plan::create(state, &self.prepared_deployment.desired_deployment(&releases), options)
    }

    /// Returns the disk that a move to another CPI or zone would leave behind with its data.
    pub(super) fn disk_left_behind<'s>(&self, state: &'s State) -> Option<&'s DiskRecord> {
        let releases = self.prepared_deployment.release_identities();
        plan::disk_left_behind(state, &self.prepared_deployment.desired_deployment(&releases))
    }

    /// Returns the question to the operator before the plan is carried out.
    pub(super) fn question(&self, state: &State) -> String {
        let deployment = &self.prepared_deployment.deployment;
        match () {
            () if self.plan.updates_in_place() => {
                format!("Stop, update and start the jobs of '{}'?", deployment.instance())
            }
            () if self.plan.creates_vm() && state.vm_cid().is_some() => {
                format!("Replace the VM of '{}'?", deployment.name)
            }
            () if self.plan.creates_vm() => format!("Create the VM of '{}'?", deployment.name),
            () => "Delete what is not in use?".to_owned(),
        }
    }

    /// Returns the persistent disk that a new VM does not get, because the manifest has none any more.
    pub(super) fn detached_disk<'s>(&self, state: &'s State) -> Option<&'s DiskRecord> {
        let is_detached = self.plan.creates_vm() && self.prepared_deployment.deployment.disk.is_none();
        state.current_disk().filter(|_| is_detached)
    }

    /// Returns the plan for the case that the VM on record does not exist.
    pub(super) fn plan_without_vm(&self, state: &State) -> Result<Plan> {
        self.make_plan(state, &PlanOptions { vm_is_gone: true, ..self.options.clone() })
    }
}

/// Returns the VM on record if its agent cannot be reached and its processes on this machine have ended.
pub(super) fn find_vm_that_is_off(
    unusable_agent: Option<&UnusableAgent>,
    cpis: &Cpis<'_>,
    state: &State,
) -> Result<Option<VmHandle>> {
    match state.vm_handle().filter(|_| unusable_agent.is_some()) {
        Some(vm) if cpis.is_off(&vm)? => Ok(Some(vm)),
        _ => Ok(None),
    }
}

/// Returns the warning for a VM that is replaced although its agent refuses the new credentials, with the
/// steps that stop the jobs first.
fn running_jobs_warning(agent: &UnusableAgent) -> Warning {
    const STOP_ENV: &str = "monopile stop-env MANIFEST";
    let stopping_hint = |hint: &String| {
        format!("to stop the jobs first, {}", hint.replacen("monopile SAME-COMMAND", STOP_ENV, 1))
    };
    let hints: Vec<String> = agent.error.hints().iter().map(stopping_hint).collect();
    let has_command = hints.iter().any(|hint| hint.contains(STOP_ENV));
    let warning = Warning::new(format!(
        "the jobs cannot be stopped before the VM is replaced, because its agent refuses the new \
         credentials: {}",
        agent.error
    ))
    .with_hints(hints);
    if has_command { warning } else { warning.with_hint("then stop the jobs: `monopile stop-env MANIFEST`") }
}
