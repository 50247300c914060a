//! Takes the steps of `delete-env`: stops the jobs, and deletes what is on record. `create-env` takes its own
//! steps of these kinds in the same way.

use std::time::Duration;

use super::request::StopOptions;
use super::vm;
use crate::agent_client::{Agent, AgentEndpoint, StopReason, create_client};
use crate::effects::{Executor, RunRegistry, deletion};
use crate::plan::{Plan, PlannedStep, Step};
use crate::run_context::{RunContext, signals};
use crate::state::{Change, Resource, State, UndeployedBy};
use base::events::{Event, Stage};
use base::{Error, Result};

/// The access of a run to the agent on the VM.
pub(super) struct AgentAccess<'a> {
    pub(super) run: &'a RunContext,
    pub(super) endpoint: AgentEndpoint,
    /// The registry, if contract v1 is in force.
    pub(super) registry: Option<RunRegistry<'a>>,
}

/// A running `delete-env`, or the steps of a `create-env` that stop jobs and delete resources.
pub(super) struct Teardown<'r, 'a> {
    pub(super) agent_access: &'r AgentAccess<'a>,
    pub(super) stop_options: StopOptions,
    /// The reason for stopping the jobs, which pre-stop and drain scripts receive.
    pub(super) reason: StopReason<'static>,
    /// The time after which a VM to delete counts as dead if its agent does not answer.
    pub(super) agent_timeout: Duration,
}

impl AgentAccess<'_> {
    /// Returns a client of the agent on the VM.
    pub(super) fn create_client(&self, state: &State) -> Agent {
        create_client(self.run, self.endpoint.clone(), state)
    }
}

impl Teardown<'_, '_> {
    /// Takes every step of a deletion. Returns the errors of resources that could not be deleted.
    pub(super) fn take_steps(&self, plan: &Plan, executor: &mut Executor<'_>) -> Result<Vec<Error>> {
        let run = self.agent_access.run;
        let deleting = run.reporter.begin_stage("Deleting");
        let agent = self.agent_access.create_client(executor.state());
        let instance = executor.state().vm().map_or_else(String::new, |vm| vm.instance.clone());
        executor.commit(Change::DeployRequired(UndeployedBy::Deletion))?;
        let mut failures = Vec::new();
        for (index, planned_step) in plan.steps.iter().enumerate() {
            signals::check_before_step(run, &planned_step.step.describe(&instance))?;
            run.reporter.emit(step_started_event(plan, index, planned_step, &instance));
            failures.extend(self.take_step(
                &planned_step.step,
                &planned_step.reason,
                executor,
                &agent,
                &deleting,
            )?);
        }
        if failures.is_empty() {
            deleting.finish();
        }
        Ok(failures)
    }

    /// Takes a step. Returns the error of a disk, stemcell or snapshot on record, or of an earlier VM, that
    /// could not be deleted.
    pub(super) fn take_step(
        &self,
        step: &Step,
        reason: &str,
        executor: &mut Executor<'_>,
        agent: &Agent,
        stage: &Stage,
    ) -> Result<Option<Error>> {
        match step {
            Step::StopJobs(vm) | Step::StopJobsIfPossible(vm) => {
                vm::stop(self, executor, agent, vm, stage).map(|()| None)
            }
            Step::Delete(resource) => {
                let failure = deletion::delete(executor, resource, reason, stage)?;
                // An undeleted VM stops the run: nothing may replace it or touch its resources before it is
                // gone.
                match failure {
                    Some(error)
                        if executor.state().vm_handle().is_some_and(|vm| *resource == Resource::Vm(vm)) =>
                    {
                        Err(error)
                    }
                    failure => Ok(failure),
                }
            }
            other => Err(Error::failure(format!("a deletion cannot take the step {other:?}"))),
        }
    }
}

/// Returns the event for the start of a step.
pub(super) fn step_started_event(
    plan: &Plan,
    index: usize,
    planned_step: &PlannedStep,
    instance: &str,
) -> Event {
    Event::StepStarted {
        number: index + 1,
        count: plan.steps.len(),
        step_kind: planned_step.step.name(),
        description: planned_step.step.describe(instance),
        text: planned_step.step.text(instance),
        reason: planned_step.reason.clone(),
    }
}
