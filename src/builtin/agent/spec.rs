//! The apply spec: the wanted jobs, packages and networks of the VM (agent/applier/applyspec of the
//! bosh-agent). It is stored in `bosh/spec.json`, and `get_state` returns it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use parking_lot::Mutex;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::settings::{AgentSettings, MbusEndpoint};
use super::{digest, directories};
use base::files::{JsonLayout, read_json, write_json};
use base::{Error, Result};

/// The apply spec. A null value means the same as an absent key.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Spec {
    /// Logging limits and the like.
    #[serde(deserialize_with = "deserialize_leniently")]
    pub properties: Map<String, Value>,
    /// The instance group and its jobs.
    #[serde(deserialize_with = "deserialize_leniently")]
    pub job: JobSpec,
    /// Compiled packages by name.
    #[serde(deserialize_with = "deserialize_leniently")]
    pub packages: BTreeMap<String, Package>,
    /// The digest of all rendered templates. If it is empty, `apply` installs nothing.
    #[serde(deserialize_with = "deserialize_leniently")]
    pub configuration_hash: String,
    /// Networks by name, with the addresses of dynamic networks filled in.
    #[serde(deserialize_with = "deserialize_leniently")]
    pub networks: Map<String, Value>,
    /// Unused by the agent. `get_state` returns it.
    #[serde(deserialize_with = "deserialize_leniently")]
    pub resource_pool: Map<String, Value>,
    /// The name of the deployment.
    #[serde(deserialize_with = "deserialize_leniently")]
    pub deployment: String,
    /// The name of the instance group.
    #[serde(deserialize_with = "deserialize_leniently")]
    pub name: String,
    /// The index of the instance in its group.
    pub index: Option<i64>,
    /// The id of the instance.
    #[serde(deserialize_with = "deserialize_leniently")]
    pub id: String,
    /// The availability zone.
    #[serde(deserialize_with = "deserialize_leniently")]
    pub az: String,
    /// The size of the persistent disk, in MiB.
    #[serde(deserialize_with = "deserialize_leniently")]
    pub persistent_disk: i64,
    /// The rendered templates of all jobs, one directory per job.
    pub rendered_templates_archive: Option<Archive>,
}

/// The key `job` of the spec.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct JobSpec {
    /// The name of the instance group.
    pub name: Option<String>,
    /// Unused by the agent.
    #[serde(deserialize_with = "deserialize_leniently")]
    pub release: String,
    /// Unused by the agent.
    #[serde(deserialize_with = "deserialize_leniently")]
    pub template: String,
    /// Unused by the agent.
    #[serde(deserialize_with = "deserialize_leniently")]
    pub version: String,
    /// The jobs of the instance group.
    pub templates: Option<Vec<Job>>,
}

/// One job. The spec calls jobs templates, by their older name.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Job {
    /// The name of the job, and of its directory in the rendered templates.
    #[serde(deserialize_with = "deserialize_leniently")]
    pub name: String,
    #[serde(deserialize_with = "deserialize_leniently")]
    pub version: String,
}

/// One package: a compiled one in a spec, or source in `compile_package`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Package {
    #[serde(deserialize_with = "deserialize_leniently")]
    pub name: String,
    #[serde(deserialize_with = "deserialize_leniently")]
    pub version: String,
    /// The digest of the blob.
    #[serde(deserialize_with = "deserialize_leniently")]
    pub sha1: String,
    /// The id of the blob.
    #[serde(deserialize_with = "deserialize_leniently")]
    pub blobstore_id: String,
}

impl Package {
    /// Returns the directory name of this build of the package. It depends on version and digest, and has no
    /// `:` or `;`.
    pub(super) fn build_name(&self) -> String {
        digest::sha1_hex(&format!("{}-{}", self.version, self.sha1))
    }

    /// Fails if the name is not safe as a file name, or the version is missing.
    pub(super) fn check(&self) -> Result<()> {
        check("package", &self.name, &self.version)
    }
}

/// The blob of the rendered templates.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Archive {
    /// The digest of the blob, SHA-1 or `sha256:…`, under the name that BOSH gave it.
    pub sha1: Option<String>,
    /// The id of the blob.
    #[serde(deserialize_with = "deserialize_leniently")]
    pub blobstore_id: String,
}

impl Spec {
    /// Returns the jobs, or an empty list if the spec has no rendered templates.
    pub(super) fn jobs(&self) -> &[Job] {
        match (&self.rendered_templates_archive, &self.job.templates) {
            (Some(_), Some(templates)) => templates,
            _ => &[],
        }
    }

    /// Returns the directory name of this build of a job: of its version and the digest of the templates.
    pub(super) fn job_build_name(&self, job: &Job) -> String {
        let sha1 = self
            .rendered_templates_archive
            .as_ref()
            .and_then(|archive| archive.sha1.as_deref())
            .unwrap_or_default();
        digest::sha1_hex(&format!("{}-{sha1}", job.version))
    }

    /// Fails if the name of a job or package is not safe as a file name, or its version is missing.
    pub(super) fn check(&self) -> Result<()> {
        for job in self.jobs() {
            check("job", &job.name, &job.version)?;
        }
        self.packages.values().try_for_each(Package::check)
    }

    /// Fills in the addresses of dynamic networks. Fails if a network is not in the settings.
    pub(super) fn resolve_networks(
        &mut self,
        settings: &AgentSettings,
        endpoint: &MbusEndpoint,
    ) -> Result<()> {
        for (name, network) in &mut self.networks {
            let text = |value: &Value, key: &str| {
                value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
            };
            if name == "local" && text(network, "ip") == "127.0.0.1" {
                continue;
            }
            let network_settings = settings
                .networks
                .get(name)
                .ok_or_else(|| Error::invalid(format!("Network '{name}' is not found in settings")))?;
            if !is_dynamic(network_settings) {
                continue;
            }
            let (mut ip, mut netmask) = (text(network_settings, "ip"), text(network_settings, "netmask"));
            if ip.is_empty() {
                // The VM shares the machine's network, so its address is that of the agent.
                let own_ip = endpoint.own_ip();
                ip = own_ip.map_or_else(|| "127.0.0.1".to_owned(), |ip| ip.to_string());
                netmask =
                    if own_ip.is_none_or(|ip| ip.is_loopback()) { "255.0.0.0" } else { "255.255.255.255" }
                        .to_owned();
            }
            if !network.is_object() {
                *network = Value::Object(Map::new());
            }
            network["ip"] = ip.into();
            network["netmask"] = netmask.into();
            network["gateway"] = text(network_settings, "gateway").into();
        }
        Ok(())
    }
}

fn is_dynamic(network: &Value) -> bool {
    let text = |key| network.get(key).and_then(Value::as_str).unwrap_or_default();
    let flag = |key| network.get(key).and_then(Value::as_bool).unwrap_or_default();
    match text("type") {
        "vip" => false,
        "dynamic" => true,
        _ => flag("use_dhcp") || flag("resolved") || text("ip").is_empty() || text("netmask").is_empty(),
    }
}

fn check(kind: &str, name: &str, version: &str) -> Result<()> {
    if !directories::is_safe_name(name) {
        return Err(Error::invalid(format!("'{name}' is not a valid name of a {kind}")));
    }
    if version.is_empty() {
        return Err(Error::invalid(format!("{kind} '{name}' has no version")));
    }
    Ok(())
}

fn deserialize_leniently<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    input: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(input)?.unwrap_or_default())
}

/// The current spec, on disk and in memory.
pub(super) struct SpecStore {
    path: PathBuf,
    current: Mutex<Spec>,
}

impl SpecStore {
    /// Reads the spec that an earlier agent process stored.
    pub(super) fn load(path: PathBuf) -> Result<SpecStore> {
        let spec = read_json(&path)?.unwrap_or_default();
        Ok(SpecStore { path, current: Mutex::new(spec) })
    }

    /// Returns the current spec, which is empty before the first `apply`.
    pub(super) fn get(&self) -> Spec {
        self.current.lock().clone()
    }

    /// Replaces the current spec.
    pub(super) fn set(&self, spec: Spec) -> Result<()> {
        write_json(&self.path, &spec, JsonLayout::Compact)?;
        *self.current.lock() = spec;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn endpoint() -> MbusEndpoint {
        MbusEndpoint::parse("https://u:p@127.0.0.1:1").unwrap()
    }

    #[test]
    fn null_values_in_a_spec_are_defaults() {
        let spec: Spec = serde_json::from_value(json!({
            "job": {"name": "x", "templates": [{"name": "a", "version": "1", "sha1": ""}]},
            "packages": null, "index": 0, "rendered_templates_archive": {"sha1": null, "blobstore_id": null},
        }))
        .unwrap();
        assert_eq!(spec.jobs().len(), 1);
        assert!(spec.packages.is_empty());
        spec.check().unwrap();
    }

    #[test]
    fn dynamic_networks_get_addresses_and_unknown_ones_fail() {
        let settings = AgentSettings {
            networks: json!({"d": {"type": "dynamic"}, "m": {"type": "manual", "ip": "10.0.0.2",
                "netmask": "255.255.255.0"}})
            .as_object()
            .unwrap()
            .clone(),
            ..AgentSettings::default()
        };
        let mut spec = Spec {
            networks: json!({"d": {"type": "dynamic"}, "m": {"type": "manual", "ip": "10.0.0.2"}})
                .as_object()
                .unwrap()
                .clone(),
            ..Spec::default()
        };
        spec.resolve_networks(&settings, &endpoint()).unwrap();
        assert_eq!(spec.networks["d"]["ip"], "127.0.0.1");
        assert_eq!(spec.networks["m"], json!({"type": "manual", "ip": "10.0.0.2"}));
        spec.networks.insert("x".into(), json!({}));
        let error = spec.resolve_networks(&settings, &endpoint()).unwrap_err();
        assert_eq!(error.to_string(), "Network 'x' is not found in settings");
    }

    #[test]
    fn names_with_path_components_are_rejected() {
        let spec: Spec = serde_json::from_value(json!({
            "job": {"templates": [{"name": "../../etc", "version": "1"}]}, "rendered_templates_archive": {},
        }))
        .unwrap();
        spec.check().unwrap_err();
        Package { name: "a/b".into(), version: "1".into(), ..Package::default() }.check().unwrap_err();
        // The agent itself uses hidden directories beside those of packages.
        Package { name: ".links".into(), version: "1".into(), ..Package::default() }.check().unwrap_err();
        Package { name: "a".into(), ..Package::default() }.check().unwrap_err();
    }
}
