//! The typed, validated manifest of an environment.
//!
//! [`Deployment::parse`] reads the interpolated tree and reports all problems at once, each with its
//! position.
//!
//! The format follows `deployment/manifest` and `installation/manifest` of the bosh CLI, and
//! `cli-env-deps.md` and `manifest-v2.md` of the documentation.

mod az;
mod disk;
mod network;
mod parse;
mod registry;
mod sections;
mod stemcell;
mod vm;

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::userland::UserlandRef;
use crate::variables::VariableOrigin;
pub use az::Az;
use base::secret::Secret;
pub use network::{Network, NetworkKind};
pub use parse::digest_hint;
pub(crate) use parse::{CPI_KEYS, unknown_cpi_key};
pub use registry::{RegistryConfig, SshTunnel, TunnelKey};
pub(crate) use sections::BY_CPI;
pub use stemcell::StemcellSpec;
pub(crate) use vm::{RESOURCE_KEYS, misspelt_size};

/// A validated manifest.
#[derive(Debug, Clone)]
pub struct Deployment {
    /// The name of the environment.
    pub name: String,
    /// The releases that jobs come from.
    pub releases: Vec<ReleaseRef>,
    /// The VM's stemcell.
    pub stemcell: ArtifactRef,
    /// The name and version that the stemcell must have, if `stemcells` describes it.
    pub stemcell_spec: Option<StemcellSpec>,
    /// The VM.
    pub vm: VmSpec,
    /// The persistent disk, if the VM has one.
    pub disk: Option<DiskSpec>,
    /// The only instance group.
    pub group: InstanceGroup,
    /// The availability zone, if the group names one. Its cloud properties are already merged into those of
    /// the VM.
    pub az: Option<Az>,
    /// Global properties of the manifest.
    pub properties: Map<String, Value>,
    /// Tags for the VM and its disks.
    pub tags: BTreeMap<String, String>,
    /// The wait for running jobs: the time before the first check, and the time until they count as failed.
    pub update_watch_time: WatchTime,
    /// The CPI and the connection to the agent.
    pub cloud_provider: CloudProvider,
}

/// A stemcell or release to fetch: a URL or path, and its digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArtifactRef {
    /// A `file://` or `http(s)://` URL, or a path.
    pub url: String,
    /// The digest in any BOSH notation.
    pub sha1: Option<String>,
    /// The origin of its `url` and `sha1`.
    pub origin: ArtifactOrigin,
}

/// The origin of a reference to an artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArtifactOrigin {
    /// The manifest.
    Manifest {
        /// The place of the `url`.
        url: String,
        /// The place of the `sha1`, if there is one.
        sha1: Option<String>,
    },
    /// The command line.
    CommandLine,
}

impl ArtifactOrigin {
    /// Returns the beginning of an error about the artifact: the place of its `url`, or nothing.
    pub fn prefix(&self) -> String {
        match self {
            ArtifactOrigin::Manifest { url, .. } => format!("{url}: "),
            ArtifactOrigin::CommandLine => String::new(),
        }
    }
}

/// A release of the manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReleaseRef {
    /// The name that jobs refer to.
    pub name: String,
    /// Its URL and digest.
    pub artifact: ArtifactRef,
}

/// The arguments of `create_vm` that come from the manifest.
#[derive(Debug, Clone, PartialEq)]
pub struct VmSpec {
    /// The cloud properties of zone, resource pool or VM type, and VM extensions. Later ones take precedence.
    /// With `vm_resources`, only those of the zone.
    pub cloud_properties: Map<String, Value>,
    /// The size from which the CPI calculates further cloud properties: `vm_resources`.
    pub resources: Option<VmResources>,
    /// The agent's environment, including tags.
    pub env: Map<String, Value>,
    /// The path of `env` in the manifest, for messages.
    pub env_path: &'static str,
    /// The networks in the format of `create_vm`.
    pub networks: Map<String, Value>,
}

/// The size of a VM, in place of a VM type.
#[derive(Debug, Clone, PartialEq)]
pub struct VmResources {
    /// The argument of `calculate_vm_cloud_properties`.
    pub size: Map<String, Value>,
    /// The cloud properties of VM extensions, which take precedence over calculated ones.
    pub extensions: Map<String, Value>,
    /// Its place in the manifest.
    pub place: String,
}

impl VmSpec {
    /// Returns all cloud properties, with those that the CPI calculated from `vm_resources`.
    pub fn cloud_properties_with(&self, calculated_properties: Map<String, Value>) -> Map<String, Value> {
        let mut properties = self.cloud_properties.clone();
        properties.extend(calculated_properties);
        properties.extend(self.resources.iter().flat_map(|resources| resources.extensions.clone()));
        properties
    }

    /// Returns the cloud properties in the manifest and, with `vm_resources`, the size.
    pub fn described_cloud_properties(&self) -> Value {
        let properties = Value::Object(self.cloud_properties.clone());
        match &self.resources {
            None => properties,
            Some(VmResources { size, extensions, .. }) => {
                serde_json::json!({"azs": properties, "vm_resources": size, "vm_extensions": extensions})
            }
        }
    }
}

/// The persistent disk.
#[derive(Debug, Clone, PartialEq)]
pub struct DiskSpec {
    /// Size in MiB.
    pub size: u64,
    /// The cloud properties of the disk pool or disk type.
    pub cloud_properties: Map<String, Value>,
}

/// The instance group: the jobs of the VM.
#[derive(Debug, Clone)]
pub struct InstanceGroup {
    /// The name, which is also the first part of the instance name.
    pub name: String,
    /// Its jobs in order.
    pub jobs: Vec<JobRef>,
    /// Properties that all its jobs see.
    pub properties: Map<String, Value>,
}

/// A job of the instance group.
#[derive(Debug, Clone)]
pub struct JobRef {
    /// Its name in the release.
    pub name: String,
    /// The release's name.
    pub release: String,
    /// Properties of this job. If present, its templates see no others.
    pub properties: Option<Map<String, Value>>,
    /// Its place in the manifest.
    pub place: String,
    /// The places of properties, by their dotted names.
    pub property_places: BTreeMap<String, String>,
}

impl JobRef {
    /// Returns the place of a property with this dotted name. It has the path of the job.
    pub fn place_of(&self, property: &str) -> &str {
        let is_above = |name: &str| {
            property.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let mut places = self.property_places.iter().rev().filter(|(name, _)| is_above(name));
        places.next().map_or(&self.place, |(_, place)| place)
    }
}

/// A watch time, written in the manifest as a range of milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchTime {
    /// The wait before the first check.
    pub start: Duration,
    /// The time after which the check gives up.
    pub end: Duration,
}

/// The CPI, and how to reach the agent of its VMs.
#[derive(Debug, Clone)]
pub struct CloudProvider {
    /// The CPI.
    pub cpi: CpiSource,
    /// The place of the CPI in the manifest.
    pub cpi_place: String,
    /// The root file system in which the CPI is compiled and runs; `None` for this machine.
    pub userland: Option<UserlandRef>,
    /// The agent's URL as reachable from this machine, with credentials.
    pub mbus: Secret,
    /// The place of `mbus` in the manifest.
    pub mbus_place: String,
    /// The agent's credentials and certificates that rotations replaced and that the VM may still have, the
    /// latest first.
    pub previous_agents: Vec<PreviousAgent>,
    /// The certificate that the agent presents, with its CA.
    pub cert: CertificateBundle,
    /// The place of `cert` in the manifest.
    pub cert_place: String,
    /// The variable whose value is `cert`, or its CA.
    pub ca_variable: Option<VariableOrigin>,
    /// Properties of the CPI.
    pub properties: Map<String, Value>,
    /// The registry of contract v1, if configured. It is also part of the properties.
    pub registry: Option<RegistryConfig>,
    /// The SSH tunnel of contract v1, if configured.
    pub ssh_tunnel: Option<SshTunnel>,
}

/// The agent's credentials and certificate before a rotation.
#[derive(Debug, Clone)]
pub struct PreviousAgent {
    /// The agent's URL, with credentials.
    pub mbus: Secret,
    /// The CA, as PEM.
    pub ca: Option<String>,
    /// The certificate, as PEM.
    pub certificate: Option<String>,
}

/// A certificate with its CA and private key, each as PEM.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct CertificateBundle {
    /// The CA certificate.
    pub ca: Option<String>,
    /// The certificate of the agent, signed by `ca`.
    pub certificate: Option<String>,
    /// The private key of `certificate`.
    pub private_key: Option<Secret>,
}

impl CertificateBundle {
    /// Returns the existing parts in the format of the agent's settings. The private key is in plain text.
    pub fn to_json(&self) -> Value {
        let key = self.private_key.as_ref().map(Secret::expose);
        let parts =
            [("ca", self.ca.as_deref()), ("certificate", self.certificate.as_deref()), ("private_key", key)];
        let present_parts =
            parts.into_iter().filter_map(|(name, part)| Some((name.to_owned(), part?.into())));
        Value::Object(present_parts.collect())
    }
}

impl std::fmt::Debug for CertificateBundle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CertificateBundle(…)")
    }
}

/// The source of the CPI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CpiSource {
    /// A CPI that is built into this program, by name.
    Builtin(String),
    /// An executable.
    Path {
        /// The path of the program, as written.
        path: String,
        /// The arguments of the program, in order.
        arguments: Vec<String>,
    },
    /// Jobs of releases as pairs of job and release. One of them has `bin/cpi`.
    Jobs(Vec<(String, String)>),
    /// No default CPI, because none is given or because of `cpi: none`. The zone names the CPI.
    None,
}

impl Deployment {
    /// Returns the instance name, `<instance group>/0`.
    pub fn instance(&self) -> String {
        format!("{}/0", self.group.name)
    }

    /// Returns the name of the availability zone for templates and agent.
    pub fn az_name(&self) -> &str {
        // The name that the bosh CLI uses if there is no zone.
        self.az.as_ref().map_or("unknown", |az| az.name.as_str())
    }

    /// Returns the name of the zone's CPI; `None` for the CPI of `cloud_provider`.
    pub fn cpi(&self) -> Option<&str> {
        self.az.as_ref()?.cpi.as_deref()
    }

    /// Returns the static IP of the network with the default gateway. Returns `None` if the IaaS assigns the
    /// address.
    pub fn static_address(&self) -> Option<&str> {
        let default = self.default_network()?;
        if default.get("type").and_then(Value::as_str) == Some("dynamic") {
            return None;
        }
        default.get("ip").and_then(Value::as_str)
    }

    /// Returns the name of the network with the VM's default gateway.
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

    /// Returns true if the IaaS assigns the address in any network.
    pub fn has_dynamic_network(&self) -> bool {
        self.vm
            .networks
            .values()
            .any(|network| network.get("type").and_then(Value::as_str) == Some("dynamic"))
    }
}
