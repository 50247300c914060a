//! The state that the agent reports: facts about the VM, and the spec that was applied last.

use serde_json::{Map, Value};

use crate::agent_client::{Agent, CompiledPackage, ForeignAgent};
use crate::state::State;
use base::Result;
use manifest::Deployment;

/// The answer of the agent to `get_state`.
pub(crate) struct AgentState(Value);

impl AgentState {
    /// Asks the agent for its state. Fails if it is not the agent of the VM on record.
    pub(crate) fn fetch(agent: &Agent, state: &State) -> Result<Self> {
        Self::from_answer(agent.get_state()?, agent, state)
    }

    /// Reads the answer of the agent to `get_state`. Fails if it is not the agent of the VM on record.
    pub(crate) fn from_answer(answer: Value, agent: &Agent, state: &State) -> Result<Self> {
        ForeignAgent::check_answer(&answer, agent, state)?;
        Ok(AgentState(answer))
    }

    /// Asks the agent of the VM on record. Returns true if no jobs were deployed to the VM, because its
    /// deploy did not finish. Makes no request if a deploy has finished.
    pub(crate) fn fetch_lacks_jobs(agent: &Agent, state: &State) -> Result<bool> {
        Ok(state.current_deploy_digest.is_empty() && !Self::fetch(agent, state)?.has_jobs())
    }

    /// Returns the state of the jobs: `running`, `stopped`, `failing`… Jobs count as running
    /// unless the agent says otherwise.
    pub(crate) fn job_state(&self) -> &str {
        self.0.get("job_state").and_then(Value::as_str).unwrap_or("running")
    }

    /// Returns true if jobs were applied.
    pub(crate) fn has_jobs(&self) -> bool {
        let jobs = self.0.pointer("/job/templates").and_then(Value::as_array);
        jobs.is_some_and(|jobs| !jobs.is_empty())
    }

    /// Returns true if the spec that was applied last has the deployment, jobs and rendered templates of
    /// `spec`. Does not compare packages.
    pub(super) fn has_jobs_of(&self, spec: &Value) -> bool {
        let is_same =
            |path: &str| self.0.pointer(path).is_some_and(|value| Some(value) == spec.pointer(path));
        let jobs = |spec: &Value| {
            let job = |job: &Value| Some((job.get("name")?.clone(), job.get("version")?.clone()));
            spec.pointer("/job/templates")?.as_array()?.iter().map(job).collect::<Option<Vec<_>>>()
        };
        let paths = ["/deployment", "/name", "/job/name", "/configuration_hash"];
        paths.into_iter().all(is_same) && jobs(&self.0).is_some_and(|own_jobs| Some(own_jobs) == jobs(spec))
    }

    /// Returns the packages installed on the VM.
    pub(super) fn packages(&self) -> Vec<CompiledPackage> {
        let packages = self.0.get("packages").and_then(Value::as_object);
        let read = |package: &Value| serde_json::from_value(package.clone()).ok();
        packages.into_iter().flat_map(Map::values).filter_map(read).collect()
    }

    /// Returns the networks of the deployment, completed with the addresses that the agent reports.
    pub(crate) fn networks(&self, deployment: &Deployment) -> Map<String, Value> {
        let mut networks = deployment.vm.networks.clone();
        let agent_networks = self.0.get("networks").and_then(Value::as_object);
        for (name, network) in &mut networks {
            let Some(agent_network) =
                agent_networks.and_then(|networks| networks.get(name)).and_then(Value::as_object)
            else {
                continue;
            };
            if let Value::Object(network) = network {
                for key in ["ip", "netmask", "gateway"] {
                    let agent_value = agent_network
                        .get(key)
                        .filter(|value| value.as_str().is_some_and(|text| !text.is_empty()));
                    if let Some(value) = agent_value {
                        network.entry(key).or_insert_with(|| value.clone());
                    }
                }
            }
        }
        networks
    }
}
