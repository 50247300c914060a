//! The manifest content that decides whether a deploy is needed.
//!
//! The content has no CPI config, because changed credentials and renamed CPIs need no deploy. The
//! availability zone's CPI is compared with the state instead. The content has no userland of a CPI
//! either. Of a cloud config, the content has the entries in use.

use super::LoadedManifest;
use super::cloud_config::SECTIONS;
use super::deployment::BY_CPI;
use yaml::{self, Data, Mapping, Node};

/// The sections in which cloud properties may differ by CPI.
const WITH_CLOUD_PROPERTIES: [&str; 6] =
    ["disk_pools", "disk_types", "networks", "resource_pools", "vm_extensions", "vm_types"];

/// Returns the text whose digest the state records.
pub fn deploy_text(manifest: &LoadedManifest) -> String {
    let mut root = manifest.root.clone();
    let cpi = manifest.az().ok().flatten().and_then(|az| az.cpi);
    if let Data::Map(map) = &mut root.data
        && let Some(Node { data: Data::Map(provider), .. }) = map.get_mut("cloud_provider")
    {
        provider.remove("userland");
    }
    for section in WITH_CLOUD_PROPERTIES {
        if let Data::Map(map) = &mut root.data
            && let Some(section) = map.get_mut(section)
        {
            apply_by_cpi(section, cpi.as_deref());
        }
    }
    if manifest.has_cpi_config()
        && let Data::Map(map) = &mut root.data
    {
        map.remove("cpis");
        if let Some(Node { data: Data::Seq(zones), .. }) = map.get_mut("azs") {
            zones.iter_mut().for_each(remove_cpi);
        }
    }
    let mut text = yaml::emit(&root);
    for section in SECTIONS {
        let config = manifest.cloud_config.as_ref().and_then(|config| config.node.get(section)?.as_seq());
        for entry in config.unwrap_or_default() {
            let mut entry = entry.clone();
            match section {
                "azs" => remove_cpi(&mut entry),
                _ => apply_by_cpi(&mut entry, cpi.as_deref()),
            }
            text += &format!("--- # {section}\n{}", yaml::emit(&entry));
        }
    }
    text
}

/// Merges the cloud properties of one CPI into the general ones, and removes those of all other CPIs.
fn apply_by_cpi(node: &mut Node, cpi: Option<&str>) {
    match &mut node.data {
        Data::Seq(items) => items.iter_mut().for_each(|item| apply_by_cpi(item, cpi)),
        Data::Map(map) => {
            let cpi_properties = map.remove(BY_CPI).and_then(|by_cpi| by_cpi.get(cpi?).cloned());
            if let Some(Node { data: Data::Map(cpi_properties), .. }) = cpi_properties {
                if !map.contains_key("cloud_properties") {
                    map.insert(Node::string("cloud_properties"), Data::Map(Mapping::new()).into());
                }
                if let Some(Node { data: Data::Map(general), .. }) = map.get_mut("cloud_properties") {
                    cpi_properties.iter().for_each(|(key, value)| {
                        general.insert(key.clone(), value.clone());
                    });
                }
            }
            map.iter_mut().for_each(|(_, value)| apply_by_cpi(value, cpi));
        }
        _ => {}
    }
}

fn remove_cpi(zone: &mut Node) {
    if let Data::Map(zone) = &mut zone.data {
        zone.remove("cpi");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CloudConfig;
    use std::path::Path;

    fn text(manifest: &str, cpi_config: Option<&str>, cloud_config: Option<&str>) -> String {
        let node = |text: &str| yaml::load(text, Path::new("x.yml")).unwrap();
        let loaded_manifest = LoadedManifest {
            root: node(manifest),
            cpi_config: cpi_config.map(node),
            cloud_config: cloud_config.map(|text| CloudConfig::reduce(node(text), &node(manifest)).0),
            redactor: base::redact::Redactor::default(),
            notes: Vec::new(),
            warnings: Vec::new(),
            vars_store: None,
            encryption: Default::default(),
            replaced_references: Vec::new(),
            origins: std::collections::BTreeMap::new(),
            certificates_by_variable: Vec::new(),
            values: Vec::new(),
            generated_names: Vec::new(),
            unsaved_store: None,
            previous_mbus: Vec::new(),
            declared_certificates: std::collections::BTreeMap::new(),
        };
        deploy_text(&loaded_manifest)
    }

    const GROUP: &str = "instance_groups: [{name: g, azs: [z1]}]\n";

    #[test]
    fn digest_ignores_cpi_names_and_credentials() {
        let manifest = |cpis: &str, cpi: &str, key: &str| {
            format!("{GROUP}azs: [{{name: z1, cpi: {cpi}, cloud_properties: {{zone: {key}}}}}]\n{cpis}")
        };
        let one = text(&manifest("cpis: [{name: a, type: x, properties: {key: 1}}]", "a", "k"), None, None);
        assert_eq!(one, text(&manifest("cpis: [{name: b, type: x}]", "b", "k"), None, None));
        assert_eq!(one, text(&manifest("", "b", "k"), Some("cpis: []"), None));
        assert_ne!(one, text(&manifest("", "b", "other"), Some("cpis: []"), None));
        // Without a CPI config, the text is the whole manifest.
        let plain = manifest("", "a", "k");
        assert_eq!(text(&plain, None, None), yaml::emit(&yaml::load(&plain, Path::new("x.yml")).unwrap()));
    }

    #[test]
    fn digest_ignores_the_userland() {
        let manifest = |further_text: &str| {
            text(&format!("{GROUP}cloud_provider: {{mbus: m{further_text}}}\n"), None, None)
        };
        assert_eq!(manifest(""), manifest(", userland: {url: a.tgz}"));
        assert_ne!(manifest(""), manifest(", properties: {a: 1}"));
    }

    #[test]
    fn digest_ignores_cloud_properties_of_other_cpis() {
        let manifest = |east: u32, west: u32| {
            let by_cpi = format!("cloud_properties_by_cpi: {{east: {{a: {east}}}, west: {{a: {west}}}}}");
            let azs = "azs: [{name: z1, cpi: east}]\n";
            text(&format!("{GROUP}{azs}networks: [{{name: n, subnets: [{{{by_cpi}}}]}}]\n"), None, None)
        };
        assert_eq!(manifest(1, 1), manifest(1, 2));
        assert_ne!(manifest(1, 1), manifest(2, 1));
    }

    #[test]
    fn digest_covers_only_what_is_used_of_a_cloud_config() {
        let config = |zone: &str, other: &str| {
            let zones = format!(
                "azs: [{{name: z1, cpi: a, cloud_properties: {{zone: {zone}}}}}, {{name: z2{other}}}]\n"
            );
            text(GROUP, Some("cpis: []"), Some(&zones))
        };
        assert_eq!(config("k", ""), config("k", ", cpi: b"));
        assert_ne!(config("k", ""), config("other", ""));
        let group_manifest = "instance_groups: [{name: g, vm_type: t}]\n";
        let types = |value: &str, other: &str| {
            let types = format!("vm_types: [{{name: t, x: {value}}}, {{name: u, x: {other}}}]");
            text(group_manifest, None, Some(&types))
        };
        assert_eq!(types("1", "1"), types("1", "2"));
        assert_ne!(types("1", "1"), types("2", "1"));
        let unused = text("instance_groups: [{name: g}]\n", None, Some("azs: [{name: z1}]"));
        assert_eq!(unused, text("instance_groups: [{name: g}]\n", None, None));
    }
}
