//! Warns of unknown keys. They are ignored as in the bosh CLI, but most of them are misspelt.

use crate::deployment::did_you_mean;
use crate::load::LoadedManifest;
use yaml::Node;

const CLOUD_PROVIDER: &[&str] = &["cert", "cpi", "mbus", "properties", "ssh_tunnel", "template", "templates"];
const CPI: &[&str] = &["args", "arguments", "builtin", "path", "properties"];
const CPI_CONFIG_ENTRY: &[&str] = &["exec_path", "migrated_from", "name", "properties", "type"];

/// Returns a warning for each unknown key of `cloud_provider`, its `cpi` and the CPIs of the CPI config.
pub fn unknown_keys(loaded: &LoadedManifest) -> Vec<String> {
    let mut warnings = Vec::new();
    let provider = loaded.root.get("cloud_provider");
    if let Some(provider) = provider {
        check(provider, "cloud_provider", CLOUD_PROVIDER, &mut warnings);
        if let Some(cpi) = provider.get("cpi") {
            check(cpi, "cloud_provider.cpi", CPI, &mut warnings);
        }
    }
    let config = loaded.cpi_config.as_ref().unwrap_or(&loaded.root);
    let cpis = config.get("cpis").and_then(Node::as_seq).unwrap_or_default();
    for (index, cpi) in cpis.iter().enumerate() {
        check(cpi, &format!("cpis[{index}]"), CPI_CONFIG_ENTRY, &mut warnings);
    }
    warnings
}

fn check(node: &Node, path: &str, known: &[&str], warnings: &mut Vec<String>) {
    let Some(map) = node.as_map() else { return };
    for (key, _) in map.iter() {
        let Some(name) = key.as_str().filter(|name| !known.contains(name)) else { continue };
        let hint = did_you_mean(name, known.iter().copied());
        // A key that the path of an operation created has no position.
        let location =
            key.position.file().map(|_| format!("{}: ", key.position.describe())).unwrap_or_default();
        warnings.push(format!("{location}`{path}` has the unknown key '{name}', which is ignored{hint}"));
    }
}
