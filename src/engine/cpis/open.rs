//! The CPI of a manifest, ready to be called, without an environment: for the commands that CPI authors use.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::names;
use super::source::{Located, OwnedParts, Sources};
use crate::cpi::Executable;
use crate::cpi::install::Installed;
use crate::environment::Environment;
use crate::prepare::{self, obtain};
use crate::protocol::VmCid;
use crate::registry::ForCalls;
use crate::state::State;
use artifact::{self, Source, Stemcell};
use base::Result;
use base::events::Stage;
use erb::Mode;
use manifest::{Deployment, Inputs};

/// Which CPI is wanted, and what else.
#[derive(Debug, Clone)]
pub struct OpenCpi {
    /// The manifest and what goes into it.
    pub inputs: Inputs,
    /// `--templates`: what renders the templates of its jobs.
    pub templates: Mode,
    /// `--cpi`: the CPI with this name; without it that of the availability zone, or the default one.
    pub cpi: Option<String>,
    /// Whether what `create_vm` and `create_disk` take is wanted too.
    pub life: bool,
    /// `--stemcell`: another stemcell than the manifest's.
    pub stemcell: Option<PathBuf>,
}

/// A CPI that can be run while this lives.
pub struct OpenedCpi {
    /// How it is started.
    pub executable: Executable,
    /// What the context of its requests carries.
    pub context: Map<String, Value>,
    /// Who the state says asks; `None` without a state.
    pub director_uuid: Option<String>,
    /// The VM on record, which has the manifest's address.
    pub deployed_vm: Option<VmCid>,
    /// The version of the stemcell on record.
    pub stemcell_api_version: Option<u32>,
    /// What `create_vm` and `create_disk` take.
    pub life: Option<LifeOf>,
    /// Contract v1 needs it while CPI calls are made.
    _registry: Option<ForCalls>,
    _installed: Option<Arc<Installed>>,
}

/// What a manifest says about its VM.
pub struct LifeOf {
    /// The manifest, of which `vm` and `disk` are of use here.
    pub deployment: Deployment,
    /// The stemcell, unpacked.
    pub stemcell: Stemcell,
}

/// Finds or installs the CPI of a manifest. Nothing is locked and nothing is written to the state.
pub fn open_cpi(request: &OpenCpi, environment: &Environment) -> Result<OpenedCpi> {
    let opening = environment.reporter.stage("Preparing the CPI");
    let state = State::read(&environment.paths.state)?;
    let loaded = prepare::load(environment, &request.inputs)?;
    let cpi_parts = OwnedParts::open(environment, &request.inputs, request.templates, &loaded, &opening)?;
    let provider = &cpi_parts.provider;
    let az = match &request.cpi {
        Some(_) => None,
        None => loaded.az()?,
    };
    names::check_az(cpi_parts.config.as_ref(), az.as_ref())?;
    let name = request.cpi.as_deref().or_else(|| az.as_ref()?.cpi.as_deref());
    let name = match name {
        Some(name) => names::named(cpi_parts.config.as_ref(), name)?,
        None => None,
    };
    let manifest = &request.inputs.manifest;
    let life = match request.life {
        false => None,
        true => {
            let deployment = loaded.deployment()?;
            let stemcell = match &request.stemcell {
                Some(path) => open_stemcell(environment, path, &opening)?,
                None => {
                    let directory = manifest.parent().unwrap_or(std::path::Path::new("."));
                    prepare::open_stemcell(environment, &deployment.stemcell, directory, &opening)?
                }
            };
            Some(LifeOf { deployment, stemcell })
        }
    };
    let sources = Sources::find(environment, cpi_parts.parts())?;
    let Located { executable, context, installed } = sources.locate(name, &opening)?;
    let registry = match &provider.registry {
        Some(config) if request.life => {
            Some(ForCalls::start(config, environment.paths.work.join("registry.json").as_path().into())?)
        }
        _ => None,
    };
    opening.finish();
    Ok(OpenedCpi {
        executable,
        context,
        director_uuid: state.as_ref().map(|state| state.director_id.clone()),
        deployed_vm: state.as_ref().and_then(|state| state.vm_cid().cloned()),
        stemcell_api_version: state.as_ref().and_then(|state| state.current_stemcell()?.api_version),
        life,
        _registry: registry,
        _installed: installed,
    })
}

/// Unpacks a stemcell of this machine into the scratch space.
pub fn open_stemcell(environment: &Environment, path: &std::path::Path, stage: &Stage) -> Result<Stemcell> {
    let unpacking = stage.reporter().stage(format!("Unpacking stemcell '{}'", path.display()));
    let directory = environment.paths.work.join("stemcell");
    obtain::create_directory(&directory)?;
    let stemcell = artifact::stemcell::open(&Source::local(path)?, None, &directory, &unpacking)?;
    unpacking.finish();
    Ok(stemcell)
}
