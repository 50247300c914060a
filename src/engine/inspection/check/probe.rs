//! The parts of a check that ask and change nothing: the CPIs of the resources on record, and the agent.

use super::super::{is_deploy_unfinished, read_recorded_runs};
use super::ReportRequest;
use crate::agent_client::{Agent, AgentEndpoint, create_client, resolve_endpoint};
use crate::cpi_set::{Cpis, OwnedCpiInputs};
use crate::effects::Executor;
use crate::prepare;
use crate::run_context::RunContext;
use crate::state::{RunCredentials, State, Store};
use base::Result;
use base::events::Stage;
use manifest::LoadedManifest;

/// The inputs of a check, read from the manifest.
pub(super) struct CloudCheckInputs {
    pub(super) cpi_inputs: OwnedCpiInputs,
    endpoint: AgentEndpoint,
    run_credentials: RunCredentials,
}

impl CloudCheckInputs {
    /// Reads the manifest of the environment with this state, as a part of `stage`.
    pub(super) fn load(
        request: &ReportRequest,
        run: &RunContext,
        state: &State,
        stage: &Stage,
    ) -> Result<(Self, LoadedManifest)> {
        let manifest = prepare::load_deployed(run, &request.inputs, state)?;
        let cpi_inputs =
            OwnedCpiInputs::open(run, &request.inputs, request.renderer_choice, &manifest, stage)?;
        let endpoint = resolve_endpoint(run, &cpi_inputs.provider)?;
        let run_credentials = (&manifest).into();
        Ok((CloudCheckInputs { cpi_inputs, endpoint, run_credentials }, manifest))
    }
}

/// An environment whose CPIs and agent can be asked.
pub(super) struct Probe<'a> {
    pub(super) run: &'a RunContext,
    pub(super) executor: Executor<'a>,
    pub(super) agent: Agent,
    pub(super) endpoint: &'a AgentEndpoint,
    pub(super) run_credentials: &'a RunCredentials,
    /// The state to check. The names of CPIs in it are those of the CPI config.
    pub(super) state: State,
    /// True if the records of runs show that the last deploy to the VM did not finish.
    pub(super) has_unfinished_deploy: bool,
}

impl<'a> Probe<'a> {
    /// Finds the CPIs and creates the client of the agent. Neither is asked yet.
    pub(super) fn open(
        request: &ReportRequest,
        run: &'a RunContext,
        check_inputs: &'a CloudCheckInputs,
        state: State,
        store: Store,
    ) -> Result<Self> {
        let inputs = check_inputs.cpi_inputs.borrowed();
        let cpis = Cpis::find(run, inputs, &state, request.cpi_api_version)?;
        let CloudCheckInputs { endpoint, run_credentials, .. } = check_inputs;
        let agent = create_client(run, endpoint.clone(), &state);
        let executor = Executor::new(run, cpis, store);
        let runs = request
            .history_directory
            .as_deref()
            .map_or(Ok(Vec::new()), |directory| read_recorded_runs(run, directory))?;
        let has_unfinished_deploy = is_deploy_unfinished(&state, &runs);
        Ok(Probe { run, executor, agent, endpoint, run_credentials, state, has_unfinished_deploy })
    }
}
