//! The typed, validated manifest of an environment.
//!
//! [`Deployment::parse`] reads the interpolated tree and reports everything that is wrong with it at once, each
//! with its place. What it returns can be deployed as far as the manifest alone can tell.
//! Source of the format: `deployment/manifest` and `installation/manifest` of upstream's CLI, and
//! `cli-env-deps.md` and `manifest-v2.md` of the documentation.

mod az;
mod network;
mod parse;
mod registry;

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value};

pub use az::Az;
use base::secret::Secret;
pub use network::{Network, NetworkKind};
pub(crate) use parse::did_you_mean;
pub use registry::{RegistryConfig, SshTunnel, TunnelKey};

/// What is to be deployed.
#[derive(Debug, Clone)]
pub struct Deployment {
    /// The deployment's name.
    pub name: String,
    /// The releases that jobs come from.
    pub releases: Vec<ReleaseRef>,
    /// The VM's stemcell.
    pub stemcell: ArtifactRef,
    /// The VM.
    pub vm: VmSpec,
    /// The persistent disk, if the VM shall have one.
    pub disk: Option<DiskSpec>,
    /// The one instance group.
    pub group: InstanceGroup,
    /// The availability zone that it is in, if the manifest has such. Its cloud properties are in those of VM, disk
    /// and networks already.
    pub az: Option<Az>,
    /// Properties of the whole manifest.
    pub properties: Map<String, Value>,
    /// Tags for the VM and its disks.
    pub tags: BTreeMap<String, String>,
    /// How long jobs may take to run: a wait before looking, and the time after which they count as failed.
    pub update_watch_time: WatchTime,
    /// How VMs come about.
    pub cloud_provider: CloudProvider,
}

/// Something to fetch: a URL or path, and its digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArtifactRef {
    /// `file://`, `http(s)://` or a path.
    pub url: String,
    /// The digest, in any of BOSH's notations.
    pub sha1: Option<String>,
}

/// A release of the manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReleaseRef {
    /// The name jobs refer to.
    pub name: String,
    /// Where it is.
    pub artifact: ArtifactRef,
}

/// What `create_vm` needs.
#[derive(Debug, Clone, PartialEq)]
pub struct VmSpec {
    /// The resource pool's cloud properties.
    pub cloud_properties: Map<String, Value>,
    /// The agent's environment, tags included.
    pub env: Map<String, Value>,
    /// The networks in the shape `create_vm` takes.
    pub networks: Map<String, Value>,
}

/// The persistent disk.
#[derive(Debug, Clone, PartialEq)]
pub struct DiskSpec {
    /// Size in MiB.
    pub size: u64,
    /// The disk pool's cloud properties.
    pub cloud_properties: Map<String, Value>,
}

/// The instance group: what runs on the VM.
#[derive(Debug, Clone)]
pub struct InstanceGroup {
    /// Its name.
    pub name: String,
    /// Its jobs in order.
    pub jobs: Vec<JobRef>,
    /// Properties all its jobs see.
    pub properties: Map<String, Value>,
}

/// A job of the instance group.
#[derive(Debug, Clone)]
pub struct JobRef {
    /// Its name in the release.
    pub name: String,
    /// The release's name.
    pub release: String,
    /// Properties of its own; when given, nothing else is seen by its templates.
    pub properties: Option<Map<String, Value>>,
    /// Where the manifest says so.
    pub place: String,
}

/// A range of milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchTime {
    /// How long to wait before the first look.
    pub start: Duration,
    /// When to give up.
    pub end: Duration,
}

/// How VMs come about and how their agent is reached.
#[derive(Debug, Clone)]
pub struct CloudProvider {
    /// The CPI.
    pub cpi: CpiSource,
    /// The agent's URL as seen from here, with its credentials.
    pub mbus: Secret,
    /// The certificate the agent will present, with its CA.
    pub cert: Certificate,
    /// Properties of the CPI.
    pub properties: Map<String, Value>,
    /// The registry of contract v1, if one is configured; also part of the properties.
    pub registry: Option<RegistryConfig>,
    /// The way to the VM for contract v1, if one is configured.
    pub ssh_tunnel: Option<SshTunnel>,
}

/// A certificate with what belongs to it; each part is PEM.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Certificate {
    /// The CA that signed it.
    pub ca: Option<String>,
    /// The certificate.
    pub certificate: Option<String>,
    /// Its private key.
    pub private_key: Option<Secret>,
}

impl Certificate {
    /// The parts that there are, as the agent's settings have them; the key is in the open.
    pub fn to_json(&self) -> Value {
        let key = self.private_key.as_ref().map(Secret::expose);
        let parts =
            [("ca", self.ca.as_deref()), ("certificate", self.certificate.as_deref()), ("private_key", key)];
        let there = parts.into_iter().filter_map(|(name, part)| Some((name.to_owned(), part?.into())));
        Value::Object(there.collect())
    }
}

impl std::fmt::Debug for Certificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Certificate(…)")
    }
}

/// Where the CPI comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CpiSource {
    /// One that ships inside this program.
    Builtin(String),
    /// An executable.
    Path {
        /// The program, as written.
        path: String,
        /// Its arguments.
        arguments: Vec<String>,
    },
    /// Jobs of releases, one of which has `bin/cpi`: (job, release).
    Jobs(Vec<(String, String)>),
}

impl Deployment {
    /// `<instance group>/0`.
    pub fn instance(&self) -> String {
        format!("{}/0", self.group.name)
    }

    /// What templates and agent know the availability zone by.
    pub fn az_name(&self) -> &str {
        // As upstream says it where there is none.
        self.az.as_ref().map_or("unknown", |az| az.name.as_str())
    }

    /// The name of the CPI of the availability zone; none for that of `cloud_provider`.
    pub fn cpi(&self) -> Option<&str> {
        self.az.as_ref()?.cpi.as_deref()
    }

    /// The VM's address where the manifest says it: the static IP of the network that is the default gateway.
    /// `None` while only the IaaS knows it.
    pub fn static_address(&self) -> Option<&str> {
        let default = self.default_network()?;
        if default.get("type").and_then(Value::as_str) == Some("dynamic") {
            return None;
        }
        default.get("ip").and_then(Value::as_str)
    }

    /// The name of the network whose gateway is the VM's default.
    pub fn default_network_name(&self) -> Option<&str> {
        let is_default = |network: &Value| {
            let roles = network.get("default").and_then(Value::as_array);
            roles.is_some_and(|roles| roles.iter().any(|role| role == "gateway"))
        };
        self.vm.networks.iter().find(|(_, network)| is_default(network)).map(|(name, _)| name.as_str())
    }

    fn default_network(&self) -> Option<&Value> {
        self.vm.networks.get(self.default_network_name()?)
    }

    /// Whether an address in it is decided by the IaaS only.
    pub fn has_dynamic_network(&self) -> bool {
        self.vm
            .networks
            .values()
            .any(|network| network.get("type").and_then(Value::as_str) == Some("dynamic"))
    }
}
