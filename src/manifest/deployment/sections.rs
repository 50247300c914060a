//! The sections of manifest and cloud config, and the entries that the instance group names.

use crate::cloud_config::{CloudConfig, SECTIONS};
use crate::cpi_config::join_names;
use crate::reader::{Field, Problems};
use base::error::did_you_mean;
use serde_json::{Map, Value};

/// The key of the cloud properties that hold for one CPI only.
pub(crate) const BY_CPI: &str = "cloud_properties_by_cpi";

/// A section whose entries have names.
#[derive(Clone, Copy)]
pub(super) struct Section {
    pub(super) key: &'static str,
    /// The name of an entry in messages.
    pub(super) entry: &'static str,
}

pub(super) const AZS: Section = Section { key: "azs", entry: "availability zone" };
pub(super) const VM_TYPES: Section = Section { key: "vm_types", entry: "VM type" };
pub(super) const VM_EXTENSIONS: Section = Section { key: "vm_extensions", entry: "VM extension" };
pub(super) const DISK_TYPES: Section = Section { key: "disk_types", entry: "disk type" };

/// The manifest, and the cloud config if there is one.
pub(super) struct Sections<'n> {
    /// The manifest.
    pub(super) root: Field<'n>,
    config: Option<&'n CloudConfig>,
    /// The names in the CPI config, if there is one.
    cpis: Option<&'n [String]>,
    /// The CPI of the VM; `None` for the default CPI.
    pub(super) cpi: Option<String>,
}

impl<'n> Sections<'n> {
    /// Combines the two. A section of both is a problem.
    pub(super) fn new(
        root: Field<'n>,
        config: Option<&'n CloudConfig>,
        cpis: Option<&'n [String]>,
        problems: &mut Problems,
    ) -> Self {
        for key in SECTIONS {
            if let Some(section) = root.get(key)
                && config.is_some_and(|config| config.node.get(key).is_some())
            {
                let problem = format!("and `{key}` of the --cloud-config cannot both be given");
                section.add_problem(problems, problem);
            }
        }
        Sections { root, config, cpis, cpi: None }
    }

    /// Returns the document that defines a section: the cloud config or the manifest.
    fn defining_document(&self, key: &str) -> Field<'n> {
        let config = self.config.map(|config| Field::root(&config.node));
        config.filter(|config| config.get(key).is_some()).unwrap_or_else(|| self.root.clone())
    }

    /// Returns the entries of a section. Those of a cloud config that the instance group does not use are
    /// left out.
    pub(super) fn list(&self, key: &str, problems: &mut Problems) -> Vec<Field<'n>> {
        let mut entries = self.defining_document(key).list(key, problems);
        if self.config.is_some_and(|config| config.other_names(key).next().is_some()) {
            // The index is not that of the file.
            for entry in &mut entries {
                let name = entry.node.get("name").and_then(yaml::Node::as_str).unwrap_or("?");
                entry.path = format!("{key}[{name}]");
            }
        }
        entries
    }

    /// Returns the names of all entries of a section.
    pub(super) fn names(&self, key: &str) -> Vec<String> {
        let mut names = names(&self.defining_document(key), key);
        names.extend(self.config.iter().flat_map(|config| config.other_names(key)).map(str::to_owned));
        names
    }

    /// Returns the entry of a section whose name is the text of `reference`.
    pub(super) fn find(
        &self,
        section: Section,
        reference: &Field<'_>,
        problems: &mut Problems,
    ) -> Option<Field<'n>> {
        let name = reference.text(problems)?;
        let mut matching_entry: Option<Field<'n>> = None;
        for entry in self.list(section.key, problems) {
            if entry.required_text("name", problems).as_ref() != Some(&name) {
                continue;
            }
            if matching_entry.is_some() {
                entry.add_problem(problems, format!("defines {} '{name}' a second time", section.entry));
            }
            matching_entry = Some(entry);
        }
        if matching_entry.is_none() {
            let hint = self.suggest(section, &name);
            if self.config.is_none() && self.names(section.key).is_empty() {
                problems.add_hint(
                    "pass the cloud config of the director: `monopile SAME-COMMAND --cloud-config FILE`"
                        .to_owned(),
                );
            }
            let Section { key, entry } = section;
            reference.add_problem(problems, format!("names {entry} '{name}', which is not in `{key}`{hint}"));
        }
        matching_entry
    }

    /// Reads the cloud properties of an entry. Those for the VM's CPI take precedence over the general ones.
    /// The names of CPIs are checked if there is a CPI config.
    pub(super) fn read_cloud_properties(
        &self,
        entry: &Field<'_>,
        problems: &mut Problems,
    ) -> Map<String, Value> {
        let mut properties = entry.object("cloud_properties", problems);
        let Some(by_cpi) = entry.get(BY_CPI).filter(|by_cpi| by_cpi.check_mapping(problems)) else {
            return properties;
        };
        let names = by_cpi.node.as_map().into_iter().flat_map(|map| map.iter());
        for name in names.filter_map(|(name, _)| name.as_str()) {
            let cpi_properties = by_cpi.object(name, problems);
            if self.cpi.as_deref() == Some(name) {
                properties.extend(cpi_properties);
            }
            if let Some(cpis) = self.cpis.filter(|cpis| !cpis.iter().any(|cpi| cpi == name)) {
                let cpi_names = || cpis.iter().map(String::as_str);
                let hint =
                    nearest_or(name, cpi_names(), || format!("; its CPIs are: {}", join_names(cpi_names())));
                let problem = format!("names CPI '{name}', which the CPI config does not have{hint}");
                by_cpi.add_problem(problems, problem);
            }
        }
        properties
    }

    /// Returns the end of a message about an unknown name: the nearest name, or all names.
    pub(super) fn suggest(&self, section: Section, name: &str) -> String {
        let names = self.names(section.key);
        if names.is_empty() {
            return format!("; neither the manifest nor a --cloud-config defines `{}`", section.key);
        }
        nearest_or(name, names.iter().map(String::as_str), || {
            format!("; the {}s are {}", section.entry, names.join(", "))
        })
    }
}

/// Returns the end of a message about an unknown name: the nearest name, or `all` if none is near.
pub(super) fn nearest_or<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
    all: impl FnOnce() -> String,
) -> String {
    let suggestion = did_you_mean(name, candidates);
    if suggestion.is_empty() { all() } else { suggestion }
}

/// Returns the names in a list of the manifest, including those of entries with problems, so that a reference
/// to such an entry causes no second problem.
pub(super) fn names(root: &Field<'_>, list: &str) -> Vec<String> {
    let problems = &mut Problems::default();
    root.list(list, problems).iter().filter_map(|field| field.optional_text("name", problems)).collect()
}
