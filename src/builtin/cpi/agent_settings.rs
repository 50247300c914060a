//! The agent's configuration in a CPI, and the settings that the agent starts with.

use serde::Deserialize;
use serde_json::{Value, json};

use super::failure::{CpiFailure, CpiResult};
use base::JsonObject;

/// The address and the certificate of agents.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct AgentConfig {
    /// The URL on which the agent listens, with user and password.
    pub mbus: Option<String>,
    /// The agent's certificate: `ca`, `certificate`, `private_key`, each in PEM.
    pub cert: Option<JsonObject>,
}

/// The inputs of [`AgentConfig::settings`]: those of `create_vm`, and the time servers.
pub(crate) struct AgentSettingsInput<'a> {
    pub agent_id: &'a str,
    pub vm_cid: &'a str,
    pub networks: &'a JsonObject,
    /// The environment of `create_vm`.
    pub env: JsonObject,
    /// Time servers.
    pub ntp: &'a [String],
}

impl AgentConfig {
    /// Returns the URL. Fails if it is not configured.
    pub(crate) fn url(&self) -> CpiResult<&str> {
        self.mbus.as_deref().ok_or_else(|| {
            CpiFailure::cloud("the CPI's configuration lacks agent.mbus, the URL at which the agent listens")
        })
    }

    /// Returns the settings of a VM's agent (docs-bosh, "agent-cpi-interactions").
    pub(crate) fn settings(&self, input: AgentSettingsInput) -> CpiResult<JsonObject> {
        let settings = json!({
            "agent_id": input.agent_id,
            "vm": {"name": input.vm_cid, "id": input.vm_cid},
            "mbus": self.url()?,
            "networks": input.networks,
            "disks": {"system": null, "ephemeral": null, "persistent": {}},
            "env": env_with_certificate(input.env, self.cert.as_ref())?,
            "ntp": input.ntp,
            "blobstore": {"provider": "local", "options": {"blobstore_path": "/var/vcap/data/blobs"}},
        });
        match settings {
            Value::Object(settings) => Ok(settings),
            _ => Err(CpiFailure::cloud("the agent's settings are not an object")),
        }
    }
}

/// Adds the agent's certificate to `env` as `bosh.mbus.cert`, unless `env` has one.
fn env_with_certificate(mut env: JsonObject, cert: Option<&JsonObject>) -> CpiResult<JsonObject> {
    let Some(cert) = cert else { return Ok(env) };
    let mut section = &mut env;
    for key in ["bosh", "mbus"] {
        let subsection = section.entry(key).or_insert(Value::Null);
        if subsection.is_null() {
            *subsection = json!({});
        }
        let Value::Object(subsection) = subsection else {
            return Err(CpiFailure::invalid_call(format!(
                "create_vm: '{key}' in the environment must be an object"
            )));
        };
        section = subsection;
    }
    let env_cert = section.entry("cert").or_insert(Value::Null);
    if env_cert.is_null() {
        *env_cert = Value::Object(cert.clone());
    }
    Ok(env)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(value: Value) -> JsonObject {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn certificate_in_the_environment_takes_precedence() {
        let cert = hash(json!({"ca": "config"}));
        let env = env_with_certificate(hash(json!({"bosh": {"tags": {"a": "b"}}})), Some(&cert)).unwrap();
        assert_eq!(env["bosh"], json!({"tags": {"a": "b"}, "mbus": {"cert": {"ca": "config"}}}));
        let with_certificate = hash(json!({"bosh": {"mbus": {"cert": {"ca": "env"}}}}));
        assert_eq!(env_with_certificate(with_certificate.clone(), Some(&cert)).unwrap(), with_certificate);
        let env_without_settings = env_with_certificate(hash(json!({"bosh": null})), Some(&cert)).unwrap();
        assert_eq!(env_without_settings, hash(json!({"bosh": {"mbus": {"cert": {"ca": "config"}}}})));
        assert!(env_with_certificate(hash(json!({"bosh": 1})), Some(&cert)).is_err());
    }
}
