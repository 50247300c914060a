//! The apply spec: what the VM is to be (agent/applier/applyspec of the agent). Kept in `bosh/spec.json` and
//! handed back by `get_state`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::settings::{AgentSettings, Endpoint};
use super::{digest, dirs};
use base::{Error, Result};

/// The document. A `null` anywhere means what an absent key means.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Spec {
    /// Logging limits and the like.
    #[serde(deserialize_with = "lenient")]
    pub properties: Map<String, Value>,
    /// The instance group and its jobs.
    #[serde(deserialize_with = "lenient")]
    pub job: JobSpec,
    /// Compiled packages by name.
    #[serde(deserialize_with = "lenient")]
    pub packages: BTreeMap<String, Package>,
    /// Digest of all rendered templates; empty means that nothing is to be installed.
    #[serde(deserialize_with = "lenient")]
    pub configuration_hash: String,
    /// Networks by name, as sent, with the address of dynamic ones filled in.
    #[serde(deserialize_with = "lenient")]
    pub networks: Map<String, Value>,
    /// Kept for the director's sake.
    #[serde(deserialize_with = "lenient")]
    pub resource_pool: Map<String, Value>,
    /// Deployment name.
    #[serde(deserialize_with = "lenient")]
    pub deployment: String,
    /// Instance group name.
    #[serde(deserialize_with = "lenient")]
    pub name: String,
    /// Index in the instance group.
    pub index: Option<i64>,
    /// Instance id.
    #[serde(deserialize_with = "lenient")]
    pub id: String,
    /// Availability zone.
    #[serde(deserialize_with = "lenient")]
    pub az: String,
    /// Size of the persistent disk, MiB.
    #[serde(deserialize_with = "lenient")]
    pub persistent_disk: i64,
    /// The rendered templates of all jobs, one directory each.
    pub rendered_templates_archive: Option<Archive>,
}

/// `job` of the spec.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct JobSpec {
    /// Instance group name.
    pub name: Option<String>,
    /// Unused here.
    #[serde(deserialize_with = "lenient")]
    pub release: String,
    /// Unused here.
    #[serde(deserialize_with = "lenient")]
    pub template: String,
    /// Unused here.
    #[serde(deserialize_with = "lenient")]
    pub version: String,
    /// The jobs.
    pub templates: Option<Vec<Template>>,
}

/// One job.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Template {
    /// Its name, also its directory in the rendered templates.
    #[serde(deserialize_with = "lenient")]
    pub name: String,
    /// Its version.
    #[serde(deserialize_with = "lenient")]
    pub version: String,
}

/// One compiled package.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Package {
    /// Its name.
    #[serde(deserialize_with = "lenient")]
    pub name: String,
    /// Its version.
    #[serde(deserialize_with = "lenient")]
    pub version: String,
    /// Digest of its blob.
    #[serde(deserialize_with = "lenient")]
    pub sha1: String,
    /// Its blob.
    #[serde(deserialize_with = "lenient")]
    pub blobstore_id: String,
}

impl Package {
    /// The directory of this very build, below the package's name: stable and free of `:` and `;`.
    pub(super) fn bundle(&self) -> String {
        digest::short(&format!("{}-{}", self.version, self.sha1))
    }

    /// Refuses names that are no names.
    pub(super) fn check(&self) -> Result<()> {
        check("package", &self.name, &self.version)
    }
}

/// A blob of rendered templates.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Archive {
    /// Its digest.
    pub sha1: Option<String>,
    /// Its id.
    #[serde(deserialize_with = "lenient")]
    pub blobstore_id: String,
}

impl Spec {
    /// The jobs whose templates came along: none without rendered templates.
    pub(super) fn jobs(&self) -> &[Template] {
        match (&self.rendered_templates_archive, &self.job.templates) {
            (Some(_), Some(templates)) => templates,
            _ => &[],
        }
    }

    /// The directory of a job with these very templates, below the job's name.
    pub(super) fn job_bundle(&self, job: &Template) -> String {
        let sha1 =
            self.rendered_templates_archive.as_ref().and_then(|a| a.sha1.as_deref()).unwrap_or_default();
        digest::short(&format!("{}-{sha1}", job.version))
    }

    /// Refuses names that are no names.
    pub(super) fn check(&self) -> Result<()> {
        for job in self.jobs() {
            check("job", &job.name, &job.version)?;
        }
        self.packages.values().try_for_each(Package::check)
    }

    /// Fills in the addresses of dynamic networks. Every network must be one the CPI told of.
    pub(super) fn resolve_networks(&mut self, settings: &AgentSettings, endpoint: &Endpoint) -> Result<()> {
        for (name, network) in &mut self.networks {
            let text = |value: &Value, key: &str| {
                value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
            };
            if name == "local" && text(network, "ip") == "127.0.0.1" {
                continue;
            }
            let known = settings
                .networks
                .get(name)
                .ok_or_else(|| Error::invalid(format!("Network '{name}' is not found in settings")))?;
            if !is_dynamic(known) {
                continue;
            }
            let (mut ip, mut netmask) = (text(known, "ip"), text(known, "netmask"));
            if ip.is_empty() {
                // The VM shares the machine's network: it is where its agent listens.
                let own = endpoint.own_ip();
                ip = own.map_or_else(|| "127.0.0.1".to_owned(), |ip| ip.to_string());
                netmask = if own.is_none_or(|ip| ip.is_loopback()) { "255.0.0.0" } else { "255.255.255.255" }
                    .to_owned();
            }
            if !network.is_object() {
                *network = Value::Object(Map::new());
            }
            network["ip"] = ip.into();
            network["netmask"] = netmask.into();
            network["gateway"] = text(known, "gateway").into();
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

fn check(what: &str, name: &str, version: &str) -> Result<()> {
    if !dirs::is_safe_name(name) {
        return Err(Error::invalid(format!("'{name}' is not the name of a {what}")));
    }
    if version.is_empty() {
        return Err(Error::invalid(format!("{what} '{name}' has no version")));
    }
    Ok(())
}

fn lenient<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(input: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(input)?.unwrap_or_default())
}

/// The spec in force, on disk and in memory.
pub(super) struct SpecStore {
    path: PathBuf,
    current: Mutex<Spec>,
}

impl SpecStore {
    /// Reads what an earlier agent process kept.
    pub(super) fn load(path: PathBuf) -> Result<SpecStore> {
        let spec = read_json(&path)?.unwrap_or_default();
        Ok(SpecStore { path, current: Mutex::new(spec) })
    }

    /// The spec in force; an empty one before the first `apply`.
    pub(super) fn get(&self) -> Spec {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts another one in force.
    pub(super) fn set(&self, spec: Spec) -> Result<()> {
        write_json(&self.path, &spec)?;
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = spec;
        Ok(())
    }
}

/// Reads a document of the agent's own; `None` where there is none.
pub(super) fn read_json<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<Option<T>> {
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(Error::io(format!("reading '{}'", path.display()), e)),
    };
    serde_json::from_slice(&text)
        .map(Some)
        .map_err(|e| Error::environment(format!("'{}' is damaged", path.display())).with_source(e))
}

/// Writes a document of the agent's own.
pub(super) fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<()> {
    let text = serde_json::to_vec(value)
        .map_err(|e| Error::environment(format!("writing '{}' failed", path.display())).with_source(e))?;
    dirs::write_atomically(path, &text, 0o600)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn endpoint() -> Endpoint {
        Endpoint::parse("https://u:p@127.0.0.1:1").unwrap()
    }

    #[test]
    fn a_spec_with_nulls_is_read() {
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
    fn dynamic_networks_get_their_address_and_unknown_ones_are_refused() {
        let settings = AgentSettings {
            networks: json!({"d": {"type": "dynamic"}, "m": {"type": "manual", "ip": "10.0.0.2", "netmask": "255.255.255.0"}})
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
    fn names_that_would_leave_the_tree_are_refused() {
        let spec: Spec = serde_json::from_value(json!({
            "job": {"templates": [{"name": "../../etc", "version": "1"}]}, "rendered_templates_archive": {},
        }))
        .unwrap();
        spec.check().unwrap_err();
        Package { name: "a/b".into(), version: "1".into(), ..Package::default() }.check().unwrap_err();
        Package { name: "a".into(), ..Package::default() }.check().unwrap_err();
    }
}
