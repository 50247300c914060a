//! The checks of a `create-env` before its first CPI call. `plan` makes the same checks.

use super::request::CreateEnvRequest;
use super::run::DeployRun;
use crate::agent::AgentEndpoint;
use crate::cpi_set::{self, Cpis};
use crate::jobs::unknown_properties;
use crate::prepare::{OpenedArtifacts, PreparedDeployment};
use crate::run_context::RunContext;
use crate::state::State;
use base::Result;
use base::events::Stage;
use erb::Renderer;

/// Checks that releases, stemcell, templates and the CPI config fit together. Returns the run that takes the
/// steps, and its CPIs, which are not installed yet.
pub(super) fn validate<'a>(
    run: &'a RunContext,
    request: &CreateEnvRequest,
    (prepared, endpoint): (&'a PreparedDeployment, &AgentEndpoint),
    (opened, renderer): (&'a OpenedArtifacts, &'a dyn Renderer),
    state: &State,
    stage: &Stage,
) -> Result<(DeployRun<'a>, Cpis<'a>)> {
    for warning in unknown_properties(&prepared.deployment, &opened.releases)? {
        run.reporter.warn(warning);
    }
    let mut deploy_run = DeployRun::new(run, prepared, opened, renderer, endpoint.clone(), request)?;
    // A template that cannot be rendered must fail before a VM is created or a job is stopped.
    deploy_run.render_early(state, stage)?;
    let parts = cpi_set::CpiInputs {
        provider: &prepared.deployment.cloud_provider,
        config: prepared.cpi_config.as_ref(),
        environment_name: &prepared.deployment.name,
        manifest: &prepared.manifest_path,
        releases: &opened.releases,
        renderer,
    };
    let mut cpis = Cpis::find(run, parts, state, request.cpi_api_version)?;
    cpis.use_stemcell(prepared.deployment.cpi(), opened.stemcell.api_version);
    Ok((deploy_run, cpis))
}
