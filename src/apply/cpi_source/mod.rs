//! From what the manifest says about the CPI to an executable.

//!
//! A built-in CPI and an executable are where they are; the CPI of a release is installed first, see `jobs`.

pub(super) mod jobs;

use std::path::Path;

use serde_json::{Map, Value, json};

use super::prepare;
use super::request::Environment;
use crate::artifact::Release;
use crate::cpi::Executable;
use crate::cpi::install::Installed;
use crate::durable::write_atomically;
use crate::manifest::deployment::{CloudProvider, CpiSource};
use crate::manifest::{Deployment, Inputs, Loaded, yaml};
use crate::template::{Mode, ModeRenderer, Renderer};
use crate::ui::Stage;
use crate::{Error, Result, builtin};

/// What the CPI is made from.
pub(super) struct Parts<'a> {
    /// What the manifest says about it.
    pub(super) provider: &'a CloudProvider,
    /// The name of the deployment.
    pub(super) deployment: &'a str,
    /// The file that paths are relative to.
    pub(super) manifest: &'a Path,
    /// The releases its jobs are of, at least.
    pub(super) releases: &'a [Release],
    /// Renders their templates.
    pub(super) renderer: &'a dyn Renderer,
}

/// The CPI and what its requests carry in their context.
pub(super) struct Located {
    pub(super) executable: Executable,
    pub(super) context: Map<String, Value>,
    /// Keeps its packages where they are.
    pub(super) installed: Option<Installed>,
}

/// Finds or installs the CPI.
pub(super) fn locate(environment: &Environment, parts: &Parts<'_>, stage: &Stage) -> Result<Located> {
    let (provider, manifest) = (parts.provider, parts.manifest);
    let root = environment.paths.work.join("cpi");
    let variables = || with_directories(environment, &root.join("packages"), &root.join("jobs"));
    match &provider.cpi {
        CpiSource::Builtin(name) if builtin::CPIS.contains(&name.as_str()) => {
            let config = environment.paths.work.join(format!("{name}-cpi.json"));
            let text = builtin_config(environment, name, provider).to_string();
            write_atomically(&config, text.as_bytes())
                .map_err(|error| Error::io("writing the configuration of the built-in CPI", error))?;
            Ok(Located {
                executable: Executable {
                    program: environment.paths.executable.clone(),
                    arguments: vec![
                        "cpi-exec".into(),
                        name.clone(),
                        "--config".into(),
                        config.display().to_string(),
                    ],
                    environment: variables(),
                },
                context: Map::new(),
                installed: None,
            })
        }
        CpiSource::Builtin(name) => Err(Error::invalid(format!("there is no built-in CPI '{name}'"))
            .with_hint(format!("the built-in CPIs are: {}", builtin::CPIS.join(", ")))),
        CpiSource::Path { path, arguments } => Ok(Located {
            executable: Executable {
                program: manifest.parent().unwrap_or(Path::new(".")).join(path),
                arguments: arguments.clone(),
                environment: variables(),
            },
            // A plain executable has no rendered job to take its properties from.
            context: provider.properties.clone(),
            installed: None,
        }),
        CpiSource::Jobs(jobs) => jobs::install(environment, parts, jobs, &root, stage),
    }
}

/// Finds or installs the CPI for a command that needs nothing else: releases whose files are gone are no obstacle.
pub(super) fn locate_alone(
    environment: &Environment,
    inputs: &Inputs,
    templates: Mode,
    loaded: &Loaded,
    provider: &CloudProvider,
    stage: &Stage,
) -> Result<Located> {
    let releases = Deployment::parse_cpi_releases(&loaded.root, &provider.cpi)?;
    let releases = prepare::open_releases(environment, &releases, &inputs.manifest, stage)?;
    let parts = Parts {
        provider,
        deployment: loaded.root.get("name").and_then(yaml::Node::as_str).unwrap_or_default(),
        manifest: &inputs.manifest,
        releases: &releases,
        renderer: &ModeRenderer::new(templates, &environment.variables)?,
    };
    locate(environment, &parts, stage)
}

/// The environment of a CPI process: what this program has, and where packages and jobs are.
fn with_directories(environment: &Environment, packages: &Path, jobs: &Path) -> Vec<(String, String)> {
    let mut variables = environment.variables.clone();
    variables.retain(|(name, _)| name != "BOSH_PACKAGES_DIR" && name != "BOSH_JOBS_DIR");
    variables.push(("BOSH_PACKAGES_DIR".into(), packages.display().to_string()));
    variables.push(("BOSH_JOBS_DIR".into(), jobs.display().to_string()));
    variables
}

fn builtin_config(environment: &Environment, name: &str, provider: &CloudProvider) -> Value {
    let mut config = Map::new();
    if name == "local" {
        config.insert("root".into(), json!(environment.paths.data.join("local")));
    }
    let mut agent = json!({"mbus": provider.mbus, "cert": provider.cert});
    // What the manifest says of the agent wins, as in a CPI release's job.
    if let (Some(Value::Object(own)), Value::Object(agent)) = (provider.properties.get("agent"), &mut agent) {
        agent.extend(own.clone());
    }
    config.extend(provider.properties.clone());
    config.insert("agent".into(), agent);
    Value::Object(config)
}
