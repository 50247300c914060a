//! Warns of unknown keys. The bosh CLI ignores them silently, but most are misspelt. Also warns of an
//! instance group without jobs, and of ignored addresses that are wrong.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::deployment::{CPI_KEYS, RESOURCE_KEYS, misspelt_size, unknown_cpi_key};
use crate::document_kind::MANIFEST_KEYS;
use crate::load::LoadedManifest;
use base::error::did_you_mean;
use yaml::Node;

const CLOUD_PROVIDER_KEYS: &[&str] =
    &["cert", "cpi", "mbus", "properties", "ssh_tunnel", "template", "templates", "userland"];
const USERLAND_KEYS: &[&str] = &["compile_with_network", "files", "sha1", "url"];
const JOB_KEYS: &[&str] =
    &["consumes", "custom_provider_definitions", "name", "properties", "provides", "release"];
const RELEASE_KEYS: &[&str] = &["exported_from", "name", "sha1", "stemcell", "url", "version"];
/// Keys of a CPI in a CPI config.
const CPI_CONFIG_ENTRY_KEYS: &[&str] =
    &["exec_path", "migrated_from", "name", "properties", "type", "userland"];
/// Keys of entries by their section in the manifest or the cloud config.
const ENTRY_KEYS: [(&str, &[&str]); 5] = [
    ("azs", &["cloud_properties", "cpi", "name"]),
    ("vm_types", &["cloud_properties", "cloud_properties_by_cpi", "name"]),
    ("vm_extensions", &["cloud_properties", "cloud_properties_by_cpi", "name"]),
    ("disk_types", &["cloud_properties", "cloud_properties_by_cpi", "disk_size", "name"]),
    ("stemcells", &["alias", "name", "os", "sha1", "url", "version"]),
];
/// Keys of pools by their section. In pools, [`MANIFEST_KEYS`], [`JOB_KEYS`], [`RELEASE_KEYS`] and the lists
/// below, an unknown key is reported only if it resembles one of these (`check_spelling`). So keys that only
/// `bosh` or a director knows may be missing.
const POOL_KEYS: [(&str, &[&str]); 2] = [
    (
        "resource_pools",
        &["cloud_properties", "cloud_properties_by_cpi", "env", "name", "network", "size", "stemcell"],
    ),
    ("disk_pools", &["cloud_properties", "cloud_properties_by_cpi", "disk_size", "name"]),
];
/// Keys of the stemcell of a resource pool.
const POOL_STEMCELL_KEYS: &[&str] = &["name", "sha1", "url", "version"];
const NETWORK_KEYS: &[&str] =
    &["cloud_properties", "cloud_properties_by_cpi", "default", "dns", "name", "subnets", "type"];
const SUBNET_KEYS: &[&str] = &[
    "az",
    "azs",
    "cloud_properties",
    "cloud_properties_by_cpi",
    "dns",
    "gateway",
    "range",
    "reserved",
    "static",
];
const INSTANCE_GROUP_KEYS: &[&str] = &[
    "azs",
    "env",
    "instances",
    "jobs",
    "lifecycle",
    "name",
    "networks",
    "persistent_disk",
    "persistent_disk_pool",
    "persistent_disk_type",
    "persistent_disks",
    "properties",
    "resource_pool",
    "stemcell",
    "templates",
    "update",
    "vm_extensions",
    "vm_resources",
    "vm_type",
];

/// Returns a warning for each unknown key of a section whose keys are all listed here, for each misspelt key
/// of the others, for each wrong address of a subnet, and for an instance group without jobs.
pub fn unknown_keys(manifest: &LoadedManifest) -> Vec<String> {
    let mut warnings = Vec::new();
    check_spelling(&manifest.root, "", MANIFEST_KEYS, &mut warnings);
    for (path, release) in entries(manifest, "releases") {
        check_spelling(release, &path, RELEASE_KEYS, &mut warnings);
    }
    let provider = manifest.root.get("cloud_provider");
    if let Some(provider) = provider {
        check(provider, "cloud_provider", CLOUD_PROVIDER_KEYS, &mut warnings);
        // A key in place of `path` is an error.
        if let Some(cpi) = provider.get("cpi").filter(|cpi| unknown_cpi_key(cpi).is_none()) {
            check(cpi, "cloud_provider.cpi", &CPI_KEYS, &mut warnings);
        }
        if let Some(userland) = provider.get("userland") {
            check(userland, "cloud_provider.userland", USERLAND_KEYS, &mut warnings);
        }
    }
    let config = manifest.cpi_config.as_ref().unwrap_or(&manifest.root);
    let cpis = config.get("cpis").and_then(Node::as_seq).unwrap_or_default();
    for (index, cpi) in cpis.iter().enumerate() {
        check(cpi, &format!("cpis[{index}]"), CPI_CONFIG_ENTRY_KEYS, &mut warnings);
        if let Some(userland) = cpi.get("userland") {
            check(userland, &format!("cpis[{index}].userland"), USERLAND_KEYS, &mut warnings);
        }
    }
    for (section, known_keys) in ENTRY_KEYS {
        for (path, entry) in entries(manifest, section) {
            check(entry, &path, known_keys, &mut warnings);
        }
    }
    for (section, known_keys) in POOL_KEYS {
        for (path, entry) in entries(manifest, section) {
            check_spelling(entry, &path, known_keys, &mut warnings);
            if let Some(stemcell) = entry.get("stemcell") {
                check_spelling(stemcell, &format!("{path}.stemcell"), POOL_STEMCELL_KEYS, &mut warnings);
            }
        }
    }
    for (path, network) in entries(manifest, "networks") {
        check_spelling(network, &path, NETWORK_KEYS, &mut warnings);
        let subnets = network.get("subnets").and_then(Node::as_seq).unwrap_or_default();
        for (index, subnet) in subnets.iter().enumerate() {
            let path = format!("{path}.subnets[{index}]");
            check_spelling(subnet, &path, SUBNET_KEYS, &mut warnings);
            check_addresses(subnet, &path, &mut warnings);
        }
    }
    let groups = ["instance_groups", "jobs"].into_iter().find_map(|key| manifest.root.get(key)?.as_seq());
    for (index, group) in groups.unwrap_or_default().iter().enumerate() {
        let path = format!("instance_groups[{index}]");
        // A key in place of `resource_pool` is an error.
        let known_keys: Vec<&str> = INSTANCE_GROUP_KEYS.iter().copied().chain(misspelt_size(group)).collect();
        check_spelling(group, &path, &known_keys, &mut warnings);
        if group.as_map().is_some() && group.get("jobs").or_else(|| group.get("templates")).is_none() {
            let place = group.position.describe();
            warnings.push(format!("{place}: `{path}` has no `jobs`, so nothing will run on the VM"));
        }
        let jobs = group.get("jobs").and_then(Node::as_seq).unwrap_or_default();
        for (index, job) in jobs.iter().enumerate() {
            check_spelling(job, &format!("{path}.jobs[{index}]"), JOB_KEYS, &mut warnings);
        }
        if let Some(resources) = group.get("vm_resources") {
            check(resources, &format!("{path}.vm_resources"), &RESOURCE_KEYS, &mut warnings);
        }
    }
    warnings
}

/// Returns the entries of a section of the manifest or the cloud config with their paths.
fn entries<'l>(manifest: &'l LoadedManifest, section: &str) -> Vec<(String, &'l Node)> {
    let config = manifest.cloud_config.as_ref().and_then(|config| config.node.get(section));
    let entries = config.or(manifest.root.get(section)).and_then(Node::as_seq).unwrap_or_default();
    let has_other_entries =
        manifest.cloud_config.as_ref().is_some_and(|config| config.other_names(section).next().is_some());
    let name = |entry: &'l Node| ["name", "alias"].into_iter().find_map(|key| entry.get(key)?.as_str());
    let paths = entries.iter().enumerate().map(|(index, entry)| match has_other_entries {
        // The index is not that of the file.
        true => format!("{section}[{}]", name(entry).unwrap_or("?")),
        false => format!("{section}[{index}]"),
    });
    paths.zip(entries).collect()
}

fn check(node: &Node, path: &str, known_keys: &[&str], warnings: &mut Vec<String>) {
    add_warnings(node, path, known_keys, false, warnings);
}

/// Warns of static and reserved addresses of a subnet that are no addresses, or not in its range. A director
/// uses them; this program ignores them, as the bosh CLI does.
fn check_addresses(subnet: &Node, path: &str, warnings: &mut Vec<String>) {
    let range: Option<IpNet> = subnet.get("range").and_then(|range| range.as_str()?.parse().ok());
    for key in ["static", "reserved"] {
        for entry in subnet.get(key).and_then(Node::as_seq).unwrap_or_default() {
            let Some(text) = entry.as_str() else { continue };
            // An entry may be a range, such as `10.0.0.5 - 10.0.0.9`.
            let problem = text.split('-').find_map(|part| address_problem(part.trim(), range));
            if let Some(problem) = problem {
                let place = warning_start(entry);
                warnings.push(format!(
                    "{place}`{path}.{key}` has '{text}', which {problem}: only a director uses `{key}`"
                ));
            }
        }
    }
}

fn address_problem(text: &str, range: Option<IpNet>) -> Option<String> {
    let address = text.parse::<IpNet>().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from));
    match (address, range) {
        (None, _) => Some("is not an IP address".to_owned()),
        (Some(address), Some(range)) if !range.contains(&address) => {
            Some(format!("is not in the `range` {range}"))
        }
        (Some(_), _) => None,
    }
}

/// Returns the start of a warning. A node that the path of an operation created has no position.
fn warning_start(node: &Node) -> String {
    node.position.file().map(|_| format!("{}: ", node.position.describe())).unwrap_or_default()
}

/// Warns only of unknown keys that resemble a known one.
fn check_spelling(node: &Node, path: &str, known_keys: &[&str], warnings: &mut Vec<String>) {
    add_warnings(node, path, known_keys, true, warnings);
}

fn add_warnings(
    node: &Node,
    path: &str,
    known_keys: &[&str],
    needs_similar: bool,
    warnings: &mut Vec<String>,
) {
    let Some(map) = node.as_map() else { return };
    for (key, value) in map.iter() {
        let Some(name) = key.as_str().filter(|name| !known_keys.contains(name)) else { continue };
        let hint = match value.as_str().filter(|_| name == "sha256" && known_keys.contains(&"sha1")) {
            Some(digest) => format!("; write `sha1: sha256:{digest}`"),
            None => did_you_mean(name, known_keys.iter().copied()),
        };
        if needs_similar && hint.is_empty() {
            continue;
        }
        let place = warning_start(key);
        let owner = if path.is_empty() { "the manifest".to_owned() } else { format!("`{path}`") };
        warnings.push(format!("{place}{owner} has the unknown key '{name}', which is ignored{hint}"));
    }
}
