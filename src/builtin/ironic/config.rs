//! The CPI's configuration:
//!
//! ```json
//! {"ironic": {"endpoint": "http://host:6385", "username": "…", "password": "…", "cacert": "PEM"},
//!  "storage": {"tool": "tgt", "directory": "/abs/dir", "portals": ["10.0.0.2:3260"],
//!              "iqn": "iqn.2016-06.org.example"},
//!  "agent": {"mbus": "https://user:password@host:port",
//!            "cert": {"ca": "PEM", "certificate": "PEM", "private_key": "PEM"}},
//!  "ntp": ["host"], "deploy_timeout": 3600, "power_timeout": 300, "outage_timeout": 120}
//! ```
//!
//! `ironic` has the keys of [`AccessSettings`], `storage` those of its tool. Timeouts are in seconds
//! (`docs/ironic.md`).

use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::storage;
use crate::cpi::agent_settings::AgentConfig;
use crate::cpi::config;
use crate::cpi::failure::{CpiFailure, CpiResult};
use base::JsonObject;
use ironic::AccessSettings;

/// The keys of the configuration.
const CONFIG_KEYS: [&str; 7] =
    ["ironic", "storage", "agent", "ntp", "deploy_timeout", "power_timeout", "outage_timeout"];

/// The configuration of one call.
#[derive(Deserialize)]
pub(super) struct IronicConfig {
    /// The connection to Ironic.
    pub ironic: AccessSettings,
    /// The storage tool and its settings.
    pub storage: storage::StorageSettings,
    #[serde(default)]
    pub agent: AgentConfig,
    /// Time servers for the agent.
    #[serde(default)]
    pub ntp: Vec<String>,
    #[serde(default = "deploy_timeout")]
    deploy_timeout: u64,
    #[serde(default = "power_timeout")]
    power_timeout: u64,
    #[serde(default = "outage_timeout")]
    outage_timeout: u64,
}

fn deploy_timeout() -> u64 {
    3600
}

fn power_timeout() -> u64 {
    300
}

fn outage_timeout() -> u64 {
    120
}

impl IronicConfig {
    /// Reads the file and overrides its keys with those of the context. Errors do not quote values.
    pub(super) fn load(file: &Path, context: &JsonObject) -> CpiResult<IronicConfig> {
        let properties = config::read(file, context, &CONFIG_KEYS)?;
        // serde's message may quote a value, and some values are secrets.
        serde_json::from_value(Value::Object(properties)).map_err(|_| {
            CpiFailure::cloud(format!(
                "the CPI's configuration '{}' is not valid. It needs: ironic (an object with endpoint), \
                 storage (an object with tool: tgt and directory, portals; or tool: lvm+targetcli and \
                 volume_group, thin_pool, portals; or tool: command and program). Optional: agent.mbus (a \
                 URL), agent.cert (an object), ntp (a list of strings), deploy_timeout, power_timeout and \
                 outage_timeout (seconds)",
                file.display()
            ))
        })
    }

    /// Returns the timeout of a deployment or an undeployment.
    pub(super) fn deploy_timeout(&self) -> Duration {
        Duration::from_secs(self.deploy_timeout)
    }

    /// Returns the timeout for powering a machine on or off.
    pub(super) fn power_timeout(&self) -> Duration {
        Duration::from_secs(self.power_timeout)
    }

    /// Returns the time during which requests are retried while Ironic fails or cannot be reached.
    pub(super) fn outage_timeout(&self) -> Duration {
        Duration::from_secs(self.outage_timeout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn context_overrides_the_file_and_errors_do_not_quote_values() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config.json");
        let storage = json!({"tool": "tgt", "directory": "/d", "portals": ["127.0.0.1:3260"]});
        let file = json!({"ironic": {"endpoint": "http://h"}, "storage": storage, "power_timeout": 7});
        std::fs::write(&path, file.to_string()).unwrap();
        let load = |context: Value| IronicConfig::load(&path, context.as_object().unwrap());
        let config = load(json!({"ironic": {"endpoint": "http://other"}, "director_uuid": "d"})).unwrap();
        assert_eq!(config.ironic.endpoint.as_deref(), Some("http://other"));
        assert_eq!(config.power_timeout(), Duration::from_secs(7));
        for bad in [
            json!({"ironic": "s3cret"}),
            json!({"ironic": {"endpiont": "s3cret"}}),
            json!({"storage": {"tool": "s3cret"}}),
            json!({"agent": {"mbus": {"s3cret": 1}}}),
        ] {
            let failure = load(bad).err().unwrap();
            assert!(!failure.message.contains("s3cret"), "{failure}");
        }
    }
}
