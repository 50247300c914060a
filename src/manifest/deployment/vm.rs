//! Stemcell, cloud properties and environment of the VM. They come from a resource pool, as in manifests for
//! create-env, or from a VM type and VM extensions, as in manifests for a director.

use serde_json::{Map, Value};

use super::az::Az;
use super::parse::read_artifact;
use super::sections::{Sections, VM_EXTENSIONS, VM_TYPES, names};
use super::stemcell::{self, StemcellSpec};
use super::{ArtifactRef, VmResources};
use crate::reader::{Field, Problems};
use base::error::did_you_mean;
use yaml::Node;

/// The keys of an instance group that size its VM.
const SIZE_KEYS: [&str; 3] = ["resource_pool", "vm_type", "vm_resources"];
/// The keys of `vm_resources`.
pub(crate) const RESOURCE_KEYS: [&str; 3] = ["cpu", "ram", "ephemeral_disk_size"];

/// The parts of a [`VmSpec`](super::VmSpec), and the stemcell.
pub(super) struct VmParts {
    pub(super) stemcell: ArtifactRef,
    pub(super) stemcell_spec: Option<StemcellSpec>,
    pub(super) cloud_properties: Map<String, Value>,
    pub(super) resources: Option<VmResources>,
    pub(super) env: Map<String, Value>,
    /// The path of `env` in the manifest.
    pub(super) env_path: &'static str,
}

/// Returns the key of an instance group without a size that seems to be the misspelt key of one.
pub(crate) fn misspelt_size(group: &Node) -> Option<&str> {
    let keys = || group.as_map().into_iter().flat_map(|map| map.iter()).filter_map(|(key, _)| key.as_str());
    let has_size = SIZE_KEYS.iter().any(|key| group.get(key).is_some_and(|size| !size.is_null()));
    keys().find(|key| !has_size && !did_you_mean(key, SIZE_KEYS).is_empty())
}

/// Reads the VM of the instance group.
pub(super) fn read(
    sections: &Sections<'_>,
    group: &Field<'_>,
    az: Option<&Az>,
    problems: &mut Problems,
) -> Option<VmParts> {
    let sizes: Vec<(&str, Field<'_>)> =
        SIZE_KEYS.into_iter().filter_map(|key| Some((key, group.get(key)?))).collect();
    let pool = read_resource_pool(sections, group, problems);
    let mut vm = match sizes.as_slice() {
        [] => {
            let key = misspelt_size(group.node).unwrap_or_default();
            let hint = did_you_mean(key, SIZE_KEYS);
            let problem = format!("needs `vm_type`, `vm_resources` or `resource_pool`{hint}");
            group.add_problem_at(key, problems, problem);
            return None;
        }
        [("resource_pool", _)] => {
            for key in ["stemcell", "vm_extensions"] {
                if let Some(field) = group.get(key) {
                    field.add_problem(problems, "and `resource_pool` cannot both be given");
                }
            }
            pool?
        }
        [("vm_resources", size)] => {
            let resources = read_vm_resources(size, problems);
            let vm = read_sized_vm(sections, group, Some(Map::new()), problems)?;
            let (extensions, cloud_properties) = (vm.cloud_properties, Map::new());
            let resources = Some(VmResources { extensions, ..resources? });
            VmParts { cloud_properties, resources, ..vm }
        }
        [(_, vm_type)] => {
            let entry = sections.find(VM_TYPES, vm_type, problems);
            let cloud_properties = entry.map(|entry| sections.read_cloud_properties(&entry, problems));
            read_sized_vm(sections, group, cloud_properties, problems)?
        }
        [(first, _), .., (_, last)] => {
            last.add_problem(problems, format!("and `{first}` cannot both be given"));
            return None;
        }
    };
    let mut cloud_properties = az.map(|az| az.cloud_properties.clone()).unwrap_or_default();
    cloud_properties.append(&mut vm.cloud_properties);
    Some(VmParts { cloud_properties, ..vm })
}

/// Reads the VM of a group with a VM type, which has `cloud_properties`, or with `vm_resources`.
fn read_sized_vm(
    sections: &Sections<'_>,
    group: &Field<'_>,
    cloud_properties: Option<Map<String, Value>>,
    problems: &mut Problems,
) -> Option<VmParts> {
    let stemcell = stemcell::read(sections, group, problems);
    let mut extensions = Map::new();
    for field in group.list("vm_extensions", problems) {
        if let Some(extension) = sections.find(VM_EXTENSIONS, &field, problems) {
            extensions.extend(sections.read_cloud_properties(&extension, problems));
        }
    }
    let env = group.object("env", problems);
    let (stemcell, stemcell_spec) = stemcell?;
    let mut cloud_properties = cloud_properties?;
    cloud_properties.extend(extensions);
    let stemcell_spec = Some(stemcell_spec);
    let (resources, env_path) = (None, "instance_groups[].env");
    Some(VmParts { stemcell, stemcell_spec, cloud_properties, resources, env, env_path })
}

/// Reads `vm_resources`, without VM extensions.
fn read_vm_resources(field: &Field<'_>, problems: &mut Problems) -> Option<VmResources> {
    if !field.check_mapping(problems) {
        return None;
    }
    let mut size = Map::new();
    for key in RESOURCE_KEYS {
        let (unit, number) = match key {
            "cpu" => ("", field.optional_number(key, 1, problems)),
            _ => (" in MiB", field.optional_mebibytes(key, 1, problems)),
        };
        if field.get(key).is_none() {
            field.add_problem(problems, format!("needs `{key}`{unit}"));
        }
        if let Some(number) = number {
            size.insert(key.to_owned(), number.into());
        }
    }
    Some(VmResources { size, extensions: Map::new(), place: field.place() })
}

/// Checks all resource pools, and returns the one that the instance group names.
fn read_resource_pool(
    sections: &Sections<'_>,
    group: &Field<'_>,
    problems: &mut Problems,
) -> Option<VmParts> {
    let root = &sections.root;
    let pool_name = group.get("resource_pool").and_then(|_| group.required_text("resource_pool", problems));
    let mut resource_pool = None;
    let networks = sections.names("networks");
    for pool in root.list("resource_pools", problems) {
        let name = pool.required_text("name", problems);
        let stemcell = match pool.get("stemcell") {
            Some(stemcell) => read_artifact(&stemcell, problems),
            None => {
                pool.add_problem(problems, "needs a `stemcell`");
                None
            }
        };
        if let Some(network) = pool.required_text("network", problems)
            && !networks.contains(&network)
        {
            let hint = did_you_mean(&network, networks.iter().map(String::as_str));
            pool.add_problem_at(
                "network",
                problems,
                format!("names network '{network}', which is not in `networks`{hint}"),
            );
        }
        let cloud_properties = sections.read_cloud_properties(&pool, problems);
        let env = pool.object("env", problems);
        if let (Some(name), Some(stemcell)) = (name, stemcell)
            && pool_name.as_ref() == Some(&name)
        {
            let env_path = "resource_pools[].env";
            let (stemcell_spec, resources) = (None, None);
            resource_pool =
                Some(VmParts { stemcell, stemcell_spec, cloud_properties, resources, env, env_path });
        }
    }
    let pool_names = names(root, "resource_pools");
    if let (Some(pool_name), None) = (&pool_name, &resource_pool)
        && !pool_names.contains(pool_name)
    {
        let hint = did_you_mean(pool_name, pool_names.iter().map(String::as_str));
        group.add_problem_at(
            "resource_pool",
            problems,
            format!("names resource pool '{pool_name}', which is not in `resource_pools`{hint}"),
        );
    }
    resource_pool
}
