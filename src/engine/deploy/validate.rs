//! The checks that need rendered templates and the sources of CPIs. `create-env` and `plan` make them before
//! anything changes.

use super::request::CreateEnvRequest;
use super::run::DeployRun;
use crate::agent_client::AgentEndpoint;
use crate::cpi_set::{self, Cpis};
use crate::jobs::unknown_properties;
use crate::prepare::{OpenedArtifacts, PreparedDeployment};
use crate::run_context::RunContext;
use crate::state::State;
use base::Result;
use base::events::Stage;
use erb::Renderer;

/// The inputs that have to fit together.
pub(super) struct ValidationInputs<'a, 'e> {
    pub(super) prepared_deployment: &'a PreparedDeployment,
    /// The address and the credentials of the agent.
    pub(super) endpoint: &'e AgentEndpoint,
    pub(super) artifacts: &'a OpenedArtifacts,
    pub(super) renderer: &'a dyn Renderer,
}

/// Checks that releases, stemcell, templates and the CPI config fit together. Returns the run that takes the
/// steps, and its CPIs, which are not installed yet.
pub(super) fn validate<'a>(
    run: &'a RunContext,
    request: &CreateEnvRequest,
    inputs: ValidationInputs<'a, '_>,
    state: &State,
    stage: &Stage,
) -> Result<(DeployRun<'a>, Cpis<'a>)> {
    let ValidationInputs { prepared_deployment, endpoint, artifacts, renderer } = inputs;
    for warning in unknown_properties(&prepared_deployment.deployment, &artifacts.releases)? {
        run.reporter.warn(warning);
    }
    let mut deploy_run =
        DeployRun::new(run, prepared_deployment, artifacts, renderer, endpoint.clone(), request)?;
    // A template that cannot be rendered must fail before a VM is created or a job is stopped.
    deploy_run.render_early(state, stage)?;
    let cpi_inputs = cpi_set::CpiInputs {
        provider: &prepared_deployment.deployment.cloud_provider,
        config: prepared_deployment.cpi_config.as_ref(),
        environment_name: &prepared_deployment.deployment.name,
        manifest: &prepared_deployment.manifest_path,
        releases: &artifacts.releases,
        renderer,
    };
    let mut cpis = Cpis::find(run, cpi_inputs, state, request.cpi_api_version)?;
    cpis.other_kind_warning()?.into_iter().for_each(|warning| run.reporter.warn(warning));
    let stemcell_origin = &prepared_deployment.deployment.stemcell.origin;
    cpis.check_builtin(prepared_deployment.deployment.cpi(), stemcell_origin, &artifacts.stemcell)?;
    cpis.use_stemcell(prepared_deployment.deployment.cpi(), artifacts.stemcell.api_version);
    Ok((deploy_run, cpis))
}
