//! Opens the CPI of a manifest for the commands that CPI authors use. They need no locked state.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::names;
use super::source::{OwnedCpiInputs, ResolvedCpis, RunnableCpi};
use crate::cpi::Executable;
use crate::cpi::install::InstalledPackages;
use crate::prepare::{self, obtain};
use crate::protocol::VmCid;
use crate::registry_server::CallRegistry;
use crate::run_context::RunContext;
use crate::state::State;
use artifact::{self, Source, Stemcell};
use base::Result;
use base::events::Stage;
use erb::RendererChoice;
use manifest::{Deployment, Inputs};

/// A request to open the CPI of a manifest.
#[derive(Debug, Clone)]
pub struct OpenCpiRequest {
    /// The manifest, its ops files and variables.
    pub inputs: Inputs,
    /// `--renderer`: the renderer for the templates of its jobs.
    pub renderer_choice: RendererChoice,
    /// `--cpi`: the name of the CPI. The default is that of the availability zone, or the default CPI.
    pub cpi: Option<String>,
    /// True if the inputs of `create_vm` and `create_disk` are also needed.
    pub needs_vm_and_disk: bool,
    /// `--stemcell`: a stemcell in place of the manifest's.
    pub stemcell: Option<PathBuf>,
}

/// A CPI that can be run as long as this value exists.
pub struct OpenedCpi {
    /// The program with its arguments and environment.
    pub executable: Executable,
    /// The CPI-specific part of the context in its requests.
    pub context_properties: Map<String, Value>,
    /// The director id in the state; `None` without a state.
    pub director_uuid: Option<String>,
    /// The VM on record. It occupies the address in the manifest.
    pub deployed_vm: Option<VmCid>,
    /// The version of the stemcell on record.
    pub stemcell_api_version: Option<u32>,
    /// The inputs of `create_vm` and `create_disk`, if requested.
    pub vm_and_disk: Option<VmAndDiskInputs>,
    /// The registry of contract v1, which CPI calls need.
    _registry: Option<CallRegistry>,
    _packages: Option<Arc<InstalledPackages>>,
}

/// The inputs of `create_vm` and `create_disk`.
pub struct VmAndDiskInputs {
    /// The deployment; only its `vm` and `disk` are used.
    pub deployment: Deployment,
    /// The stemcell, unpacked.
    pub stemcell: Stemcell,
}

/// Finds or installs the CPI of a manifest. Takes no lock and does not write the state.
pub fn open_cpi(request: &OpenCpiRequest, run: &RunContext) -> Result<OpenedCpi> {
    let opening = run.reporter.begin_stage("Preparing the CPI");
    let state = State::read(&run.paths.storage)?;
    let manifest = prepare::load(run, &request.inputs)?;
    let cpi_inputs =
        OwnedCpiInputs::open(run, &request.inputs, request.renderer_choice, &manifest, &opening)?;
    let provider = &cpi_inputs.provider;
    let az = match &request.cpi {
        Some(_) => None,
        None => manifest.az()?,
    };
    names::check_az(cpi_inputs.config.as_ref(), az.as_ref())?;
    let name = request.cpi.as_deref().or_else(|| az.as_ref()?.cpi.as_deref());
    let name = match name {
        Some(name) => names::check_named_cpi(cpi_inputs.config.as_ref(), name)?,
        None => None,
    };
    let manifest_path = &request.inputs.manifest;
    let vm_and_disk = match request.needs_vm_and_disk {
        false => None,
        true => {
            let deployment = manifest.deployment()?;
            let stemcell = match &request.stemcell {
                Some(path) => open_stemcell(run, path, &opening)?,
                None => {
                    let directory = manifest_path.parent().unwrap_or(std::path::Path::new("."));
                    prepare::open_stemcell(run, &deployment, directory, &opening)?
                }
            };
            Some(VmAndDiskInputs { deployment, stemcell })
        }
    };
    let resolved_cpis = ResolvedCpis::find(run, cpi_inputs.borrowed())?;
    resolved_cpis.warn_about_unused_userland();
    let RunnableCpi { executable, context_properties, packages, .. } =
        resolved_cpis.install(name, &opening)?;
    let registry = match &provider.registry {
        Some(config) if request.needs_vm_and_disk => {
            Some(CallRegistry::start(config, run.paths.scratch.join("registry.json").as_path().into())?)
        }
        _ => None,
    };
    opening.finish();
    Ok(OpenedCpi {
        executable,
        context_properties,
        director_uuid: state.as_ref().map(|state| state.director_id.clone()),
        deployed_vm: state.as_ref().and_then(|state| state.vm_cid().cloned()),
        stemcell_api_version: state.as_ref().and_then(|state| state.current_stemcell()?.api_version),
        vm_and_disk,
        _registry: registry,
        _packages: packages,
    })
}

/// Unpacks a local stemcell into the scratch directory.
pub fn open_stemcell(run: &RunContext, path: &std::path::Path, stage: &Stage) -> Result<Stemcell> {
    let (title, directory) = (format!("stemcell '{}'", path.display()), run.paths.scratch.join("stemcell"));
    obtain::unpack(&title, &directory, stage, |stage| {
        artifact::stemcell::open(
            &Source::from_command_line("the stemcell", path, path.to_owned())?,
            None,
            &directory,
            stage,
        )
    })
}
