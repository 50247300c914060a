//! The CPI's configuration:
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

use crate::cpi::agent_settings::AgentConfig;
use crate::cpi::config;
use crate::cpi::failure::{CpiFailure, CpiResult};
use crate::registry_client::Client;
use base::JsonObject;

/// The configuration of one call.
#[derive(Debug, Deserialize)]
pub(super) struct LocalConfig {
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

    pub(super) fn create_client(&self) -> CpiResult<Client> {
        Client::new(&self.endpoint()).map_err(|error| CpiFailure::cloud(error.to_string()))
    }
}

impl LocalConfig {
    /// Reads the file and overrides its keys with those of the context. Errors do not quote secrets.
    pub(super) fn load(file: &Path, context: &JsonObject) -> CpiResult<LocalConfig> {
        let properties = config::read(file, context, &["root", "agent", "ntp", "registry"])?;
        // serde's message may quote a value, and some values are secrets.
        let config: LocalConfig = serde_json::from_value(Value::Object(properties)).map_err(|_| {
            CpiFailure::cloud(format!(
                "the CPI's configuration '{}' is not valid. It needs: root (a path). Optional: agent.mbus (a \
                 URL), agent.cert (an object), ntp (a list of strings), registry (host, port, username, \
                 password)",
                file.display()
            ))
        })?;
        config::check_path("root", &config.root)?;
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn load(file: Value, context: Value) -> CpiResult<LocalConfig> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config.json");
        std::fs::write(&path, file.to_string()).unwrap();
        LocalConfig::load(&path, context.as_object().unwrap())
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
