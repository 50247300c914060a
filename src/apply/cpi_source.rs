//! From what the manifest says about the CPI to an executable.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::request::Environment;
use crate::cpi::Executable;
use crate::durable::write_atomically;
use crate::manifest::deployment::{CloudProvider, CpiSource};
use crate::{Error, Result};

/// The CPI and what its requests carry in their context.
pub(super) struct Located {
    pub(super) executable: Executable,
    pub(super) context: Map<String, Value>,
}

/// Finds or prepares the CPI; `manifest` is the file its paths are relative to.
pub(super) fn locate(
    environment: &Environment,
    provider: &CloudProvider,
    manifest: &Path,
) -> Result<Located> {
    let mut variables = environment.variables.clone();
    let installed = environment.paths.package_dir.clone().unwrap_or_else(|| environment.paths.work.clone());
    variables.retain(|(name, _)| name != "BOSH_PACKAGES_DIR" && name != "BOSH_JOBS_DIR");
    variables.push(("BOSH_PACKAGES_DIR".into(), installed.join("packages").display().to_string()));
    variables.push(("BOSH_JOBS_DIR".into(), installed.join("jobs").display().to_string()));
    match &provider.cpi {
        CpiSource::Builtin(name) if name == "local" => {
            let config = environment.paths.work.join("local-cpi.json");
            let text = local_config(environment, provider).to_string();
            write_atomically(&config, text.as_bytes())
                .map_err(|error| Error::io("writing the configuration of the built-in CPI", error))?;
            Ok(Located {
                executable: Executable {
                    program: environment.paths.executable.clone(),
                    arguments: vec![
                        "cpi-exec".into(),
                        "local".into(),
                        "--config".into(),
                        config.display().to_string(),
                    ],
                    environment: variables,
                },
                context: Map::new(),
            })
        }
        CpiSource::Builtin(name) => Err(Error::invalid(format!("there is no built-in CPI '{name}'"))
            .with_hint("the built-in CPI is: local")),
        CpiSource::Path { path, arguments } => Ok(Located {
            executable: Executable {
                program: manifest.parent().unwrap_or(Path::new(".")).join(path),
                arguments: arguments.clone(),
                environment: variables,
            },
            // A plain executable has no rendered job to take its properties from.
            context: provider.properties.clone(),
        }),
        CpiSource::Jobs(jobs) => {
            let names: Vec<_> = jobs.iter().map(|(job, release)| format!("{job} of {release}")).collect();
            Err(Error::invalid(format!(
                "CPIs from releases ({}) cannot be installed by this version",
                names.join(", ")
            ))
            .with_hint("use `cloud_provider.cpi: {builtin: local}` or `{path: EXECUTABLE}`"))
        }
    }
}

fn local_config(environment: &Environment, provider: &CloudProvider) -> Value {
    let mut config = Map::new();
    config.insert("root".into(), json!(environment.paths.data.join("local")));
    let mut agent = json!({"mbus": provider.mbus, "cert": provider.cert});
    // What the manifest says of the agent wins, as in a CPI release's job.
    if let (Some(Value::Object(own)), Value::Object(agent)) = (provider.properties.get("agent"), &mut agent) {
        agent.extend(own.clone());
    }
    config.extend(provider.properties.clone());
    config.insert("agent".into(), agent);
    Value::Object(config)
}
