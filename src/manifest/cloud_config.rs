//! The cloud config of a director (docs-bosh, `cloud-config.md`), reduced to what the instance group uses.
//!
//! A director's cloud config serves many deployments. Its other entries are dropped before variables are
//! looked up, so that they need no values here, and so that a change of them causes no deploy.

use base::error::did_you_mean;
use yaml::{Data, Node};

/// The sections that an environment uses.
pub(crate) const SECTIONS: [&str; 5] = ["azs", "vm_types", "vm_extensions", "disk_types", "networks"];

/// The section that only a director uses, for VMs that compile packages.
const COMPILATION_KEY: &str = "compilation";

/// A cloud config.
#[derive(Debug, Clone)]
pub struct CloudConfig {
    /// The sections with the entries that the instance group names.
    pub(crate) node: Node,
    /// The names of all other entries with their sections, for suggestions.
    unused_entries: Vec<(&'static str, String)>,
}

impl CloudConfig {
    /// Returns a cloud config with all its entries.
    pub(crate) fn with_all_entries(node: Node) -> Self {
        CloudConfig { node, unused_entries: Vec::new() }
    }

    /// Reduces a cloud config to what the instance group of an interpolated manifest uses. Returns notes
    /// about ignored sections.
    pub(crate) fn reduce(mut node: Node, manifest: &Node) -> (Self, Vec<String>) {
        let (mut unused_entries, mut notes) = (Vec::new(), Vec::new());
        let Data::Map(map) = &mut node.data else { return (CloudConfig { node, unused_entries }, notes) };
        let keys: Vec<String> = map.iter().filter_map(|(key, _)| key.as_str().map(str::to_owned)).collect();
        for key in keys.iter().filter(|key| !SECTIONS.contains(&key.as_str())) {
            map.remove(key);
            if key != COMPILATION_KEY {
                let hint = did_you_mean(key, SECTIONS);
                notes.push(format!(
                    "the cloud config has the unknown section '{key}', which is ignored{hint}"
                ));
            }
        }
        // A manifest for create-env has networks, whatever else a director has.
        if map.contains_key("networks")
            && manifest.get("networks").is_some_and(|networks| !networks.is_null())
        {
            map.remove("networks");
            notes.push("the manifest has `networks`, so those of the cloud config are ignored".to_owned());
        }
        for section in SECTIONS {
            let Some(Node { data: Data::Seq(items), .. }) = map.get_mut(section) else { continue };
            let used_names = names_used(manifest, section);
            items.retain(|item| match item.get("name").and_then(Node::as_str) {
                Some(name) if !used_names.contains(&name) => {
                    unused_entries.push((section, name.to_owned()));
                    false
                }
                _ => true,
            });
        }
        (CloudConfig { node, unused_entries }, notes)
    }

    /// Returns the names of the entries of a section that the instance group does not use.
    pub(crate) fn other_names(&self, section: &str) -> impl Iterator<Item = &str> {
        self.unused_entries
            .iter()
            .filter(move |(other_section, _)| *other_section == section)
            .map(|(_, name)| name.as_str())
    }
}

/// Returns the names by which the instance group refers to entries of a section.
fn names_used<'n>(manifest: &'n Node, section: &str) -> Vec<&'n str> {
    let groups = ["instance_groups", "jobs"].into_iter().filter_map(|key| manifest.get(key)?.as_seq());
    groups.flatten().flat_map(|group| names_used_by(group, section)).collect()
}

fn names_used_by<'n>(group: &'n Node, section: &str) -> Vec<&'n str> {
    let list = |key: &str| group.get(key).and_then(Node::as_seq).unwrap_or_default().iter();
    let text = |key: &str| group.get(key).and_then(Node::as_str).into_iter().collect();
    match section {
        "azs" => list("azs").filter_map(Node::as_str).collect(),
        "vm_extensions" => list("vm_extensions").filter_map(Node::as_str).collect(),
        "networks" => list("networks").filter_map(|item| item.get("name")?.as_str()).collect(),
        "vm_types" => text("vm_type"),
        "disk_types" => text("persistent_disk_type"),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(text: &str) -> Node {
        yaml::load(text, std::path::Path::new("x.yml")).unwrap()
    }

    #[test]
    fn only_entries_in_use_are_kept() {
        let manifest = node(
            "instance_groups: [{azs: [z1], vm_type: small, vm_extensions: [fast], \
             persistent_disk_type: ssd, networks: [{name: net}]}]",
        );
        let text = "azs: [{name: z1}]\ncompilation: {az: ((unset))}\ndisk_types: [{name: ssd}]\n\
                    networks: [{name: net}]\nvm_extensions: [{name: fast}]\nvm_types: [{name: small}]\n";
        let longer_text = text.replace("}]", "}, {name: other, x: ((unset))}]") + "vm_typs: []\n";
        let (config, notes) = CloudConfig::reduce(node(&longer_text), &manifest);
        let expected = node(&text.replace("compilation: {az: ((unset))}\n", ""));
        assert_eq!(yaml::emit(&config.node), yaml::emit(&expected));
        for section in SECTIONS {
            assert_eq!(config.other_names(section).collect::<Vec<_>>(), ["other"], "{section}");
        }
        let typo =
            "the cloud config has the unknown section 'vm_typs', which is ignored; did you mean 'vm_types'?";
        assert_eq!(notes, [typo]);
    }

    #[test]
    fn networks_of_the_manifest_come_first() {
        let manifest = node("networks: []\njobs: [{networks: [{name: net}]}]");
        let (config, notes) = CloudConfig::reduce(node("networks: [{name: net}]"), &manifest);
        assert!(config.node.get("networks").is_none());
        assert_eq!(notes.len(), 1);
    }
}
