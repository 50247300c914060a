//! The CPI's configuration: the `--config` file, with its keys overridden by those of the request's context.
//! With several CPIs, the director puts the properties of the CPI config into the context.
//!
//! ```json
//! {"root": "/abs/dir", "agent": {"mbus": "https://user:password@host:port",
//!   "cert": {"ca": "PEM", "certificate": "PEM", "private_key": "PEM"}}, "ntp": ["host"],
//!   "registry": {"host": "127.0.0.1", "port": 6901, "username": "user", "password": "password"},
//!   "stemcell_formats": ["local-directory", "local"]}
//! ```

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use crate::cpi::agent::AgentConfig;
use crate::cpi::failure::{CpiFailure, CpiResult};
use crate::cpi::files::read_json;
use crate::registry::Client;
use base::JsonObject;

/// The stemcell formats that the CPI can use.
const FORMATS: [&str; 2] = ["local-directory", "local"];

/// The configuration of one call.
#[derive(Debug, Deserialize)]
pub(super) struct Config {
    /// The absolute path of the directory with all VMs, disks, stemcells and snapshots.
    pub root: PathBuf,
    #[serde(default)]
    pub agent: AgentConfig,
    /// Time servers for the agent.
    #[serde(default)]
    pub ntp: Vec<String>,
    /// The registry from which agents get their settings under contract v1. Without it, they read a file.
    pub registry: Option<RegistrySettings>,
}

/// The address and credentials of the registry, for the CPI and for VMs.
#[derive(Deserialize)]
pub(super) struct RegistrySettings {
    host: String,
    port: u16,
    username: String,
    password: String,
}

impl std::fmt::Debug for RegistrySettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Registry({}:{})", self.host, self.port)
    }
}

impl RegistrySettings {
    /// Returns the URL with user and password.
    pub(super) fn endpoint(&self) -> String {
        Client::endpoint(&self.host, self.port, &self.username, &self.password)
    }

    /// Creates a client of the registry.
    pub(super) fn client(&self) -> CpiResult<Client> {
        Client::new(&self.endpoint()).map_err(|error| CpiFailure::cloud(error.to_string()))
    }
}

impl Config {
    /// Reads the file and overrides its keys with those of the context. Errors do not quote secrets.
    pub(super) fn load(file: &Path, context: &JsonObject) -> CpiResult<Config> {
        let mut properties = read_json::<JsonObject>(file)?.ok_or_else(|| {
            CpiFailure::cloud(format!("the CPI's configuration file '{}' does not exist", file.display()))
        })?;
        for key in ["root", "agent", "ntp", "registry"] {
            if let Some(value) = context.get(key) {
                properties.insert(key.to_owned(), value.clone());
            }
        }
        // serde's message may quote a value, and some values are secrets.
        let config: Config = serde_json::from_value(Value::Object(properties)).map_err(|_| {
            CpiFailure::cloud(format!(
                "the CPI's configuration '{}' is not valid. It needs: root (a path). Optional: agent.mbus (a \
                 URL), agent.cert (a hash), ntp (an array of strings), registry (host, port, username, \
                 password)",
                file.display()
            ))
        })?;
        if !config.root.is_absolute() || config.root.parent().is_none() {
            let root = config.root.display();
            return Err(CpiFailure::cloud(format!(
                "the CPI's root must be an absolute path below '/', not '{root}'"
            )));
        }
        Ok(config)
    }
}

/// Returns the stemcell formats that `info` reports: those of the configuration, or all that the CPI can use.
pub(super) fn stemcell_formats(file: &Path, context: &JsonObject) -> CpiResult<Vec<String>> {
    let properties = read_json::<JsonObject>(file)?.unwrap_or_default();
    match context.get("stemcell_formats").or(properties.get("stemcell_formats")) {
        None => Ok(FORMATS.map(str::to_owned).to_vec()),
        Some(formats) => serde_json::from_value(formats.clone())
            .map_err(|_| CpiFailure::cloud("the CPI's stemcell_formats must be an array of strings")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn load(file: Value, context: Value) -> CpiResult<Config> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.json");
        std::fs::write(&path, file.to_string()).unwrap();
        Config::load(&path, context.as_object().unwrap())
    }

    #[test]
    fn context_overrides_the_file() {
        let config =
            load(json!({"root": "/a", "ntp": ["x"]}), json!({"root": "/b", "director_uuid": "d"})).unwrap();
        assert_eq!((config.root.as_path(), config.ntp.as_slice()), (Path::new("/b"), &["x".to_owned()][..]));
    }

    #[test]
    fn configuration_can_limit_the_stemcell_formats() {
        let dir = tempfile::tempdir().unwrap();
        let absent = dir.path().join("config.json");
        let formats = |context: Value| {
            stemcell_formats(&absent, context.as_object().unwrap()).map_err(|error| error.message)
        };
        assert_eq!(formats(json!({})).unwrap(), FORMATS);
        assert_eq!(formats(json!({"stemcell_formats": ["a"]})).unwrap(), ["a"]);
        assert!(formats(json!({"stemcell_formats": "a"})).is_err());
    }

    #[test]
    fn errors_for_wrong_roots_and_types_do_not_quote_secrets() {
        for bad in [json!({}), json!({"root": "rel"}), json!({"root": "/"}), json!({"root": 1})] {
            assert!(load(bad, json!({})).is_err());
        }
        let error = load(json!({"root": "/a", "agent": "s3cret"}), json!({})).unwrap_err();
        assert!(!error.message.contains("s3cret"), "{error}");
    }
}
