//! `cpi list`: lists the CPIs of a manifest with their answers to `info`. Takes no lock and writes nothing.

use serde::Serialize;

use super::target::TargetEnvironment;
use crate::cpi_set::{Cpis, OwnedCpiInputs, info_stage_name};
use crate::prepare;
use crate::run_context::{RunContext, signals};
use crate::state::State;
use base::Result;
use manifest::deployment::CpiSource;

/// A CPI in the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ListedCpi {
    /// Its name; `None` for the default CPI.
    pub name: Option<String>,
    /// Its kind: a `type` of the CPI config, a built-in CPI, the job of a release, or a path.
    #[serde(rename = "type")]
    pub kind: String,
    /// True if it answers `info`.
    #[serde(rename = "reachable")]
    pub is_reachable: bool,
    /// The version of the CPI itself, if it answers `info` with one.
    pub version: Option<String>,
    /// The release that it comes from: `NAME/VERSION`.
    pub release: Option<String>,
    /// The version of the CPI API that is used with it.
    pub api_version: Option<u32>,
    /// The stemcell formats that it accepts, if it declares them.
    pub stemcell_formats: Option<Vec<String>>,
    /// The reason why it is not reachable.
    pub problem: Option<String>,
}

/// Asks every CPI of the manifest for `info`. The default CPI comes first, if there is one.
pub fn list_cpis(target_environment: &TargetEnvironment, run: &RunContext) -> Result<Vec<ListedCpi>> {
    let validating = run.reporter.begin_stage("Validating");
    let manifest = prepare::load(run, &target_environment.inputs)?;
    let cpi_inputs = OwnedCpiInputs::open(
        run,
        &target_environment.inputs,
        target_environment.renderer_choice,
        &manifest,
        &validating,
    )?;
    let state = State::read(&run.paths.storage)?.unwrap_or_else(State::new);
    let cpis = Cpis::find(run, cpi_inputs.borrowed(), &state, target_environment.cpi_api_version)?;
    validating.finish();
    let default = default_kind(&cpi_inputs.provider.cpi).map(|kind| (None, kind));
    let configured_cpis = cpi_inputs.config.iter().flat_map(|config| &config.cpis);
    let configured_cpis = configured_cpis.map(|cpi| (Some(cpi.name.as_str()), cpi.kind.clone()));
    let mut listed_cpis = Vec::new();
    for (name, kind) in default.into_iter().chain(configured_cpis) {
        let stage = run.reporter.begin_stage(info_stage_name(name));
        let name = name.map(str::to_owned);
        listed_cpis.push(match cpis.connect(name.as_deref(), &stage) {
            Ok(connection) => {
                stage.finish();
                let (version, release) = connection.versions();
                ListedCpi {
                    name,
                    kind,
                    is_reachable: true,
                    version,
                    release,
                    api_version: Some(connection.api_version()),
                    stemcell_formats: connection.stemcell_formats().map(<[String]>::to_vec),
                    problem: None,
                }
            }
            Err(error) => {
                // After an interruption, the error does not show whether the CPI is reachable.
                signals::check_may_continue(run)?;
                let problem = run.redactor.clean_and_redact(&error.chain().join(": "));
                ListedCpi {
                    name,
                    kind,
                    is_reachable: false,
                    version: None,
                    release: None,
                    api_version: None,
                    stemcell_formats: None,
                    problem: Some(problem),
                }
            }
        });
    }
    Ok(listed_cpis)
}

/// Returns the kind of the default CPI, if there is one.
fn default_kind(cpi: &CpiSource) -> Option<String> {
    match cpi {
        CpiSource::Builtin(name) => Some(name.clone()),
        CpiSource::Path { path, .. } => Some(path.clone()),
        CpiSource::Jobs(jobs) => {
            Some(jobs.iter().map(|(job, _)| job.as_str()).collect::<Vec<_>>().join(", "))
        }
        CpiSource::None => None,
    }
}
