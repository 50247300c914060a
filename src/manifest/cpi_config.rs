//! The CPI config: several named CPIs, in the Director's format (docs-bosh, `cpi-config.md`).
//!
//! ```yaml
//! cpis:
//! - name: openstack-1a
//!   type: openstack                       # the job `openstack_cpi` of a release, or a built-in CPI
//!   exec_path: /usr/local/bin/my-cpi      # an executable instead of a job
//!   properties: {auth_url: …, api_key: …} # in the context of every request
//!   userland: ubuntu.tgz                  # the root file system in which it runs; see `userland.rs`
//!   migrated_from: [{name: openstack}]    # what it was called; "" for the CPI of `cloud_provider`
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde_json::{Map, Value};

use super::reader::{Field, Problems};
use super::userland::{self, UserlandRef};
use base::{Error, Result};
use yaml::Node;

/// The parsed CPI config.
#[derive(Debug, Clone, Default)]
pub struct CpiConfig {
    /// The CPIs in the order of the config.
    pub cpis: Vec<CpiEntry>,
}

/// One CPI of the config.
#[derive(Clone)]
pub struct CpiEntry {
    /// The name by which availability zones and records refer to it.
    pub name: String,
    /// The type of the CPI, such as `openstack`.
    pub kind: String,
    /// The CPI's executable as written, if the entry has one.
    pub exec_path: Option<String>,
    /// Properties for the context of every request.
    pub properties: Map<String, Value>,
    /// The root file system in which it is compiled and runs; `None` for this machine.
    pub userland: Option<UserlandRef>,
    /// The place of `exec_path`, or else of `type`.
    pub place: String,
    /// Earlier names of this CPI. `None` stands for the default CPI.
    pub migrated_from: Vec<Option<String>>,
    /// The config file, to which paths are relative; `None` if the config is part of the manifest.
    pub file: Option<PathBuf>,
}

/// Leaves out the properties, because they contain credentials.
impl fmt::Debug for CpiEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CpiEntry({} of type {})", self.name, self.kind)
    }
}

impl CpiConfig {
    /// Parses and validates a CPI config after interpolation.
    pub fn parse(config: &Node) -> Result<Self> {
        let mut problems = Problems::default();
        let root = Field::root(config);
        let cpis: Vec<CpiEntry> = match root.get("cpis") {
            None => {
                problems.add_to_document(config, "the CPI config needs `cpis`, a list of CPIs");
                Vec::new()
            }
            Some(_) => root
                .list("cpis", &mut problems)
                .iter()
                .filter_map(|item| read_entry(item, &mut problems))
                .collect(),
        };
        check_names(&cpis, &root, &mut problems);
        problems.into_result_of("the CPI config", Some(CpiConfig { cpis }))
    }

    /// Marks the config as part of the manifest and its ops files.
    pub fn in_manifest(mut self) -> Self {
        for cpi in &mut self.cpis {
            cpi.file = None;
            cpi.userland.iter_mut().for_each(|userland| userland.file = None);
        }
        self
    }

    /// Returns the CPI with this name.
    pub fn find(&self, name: &str) -> Option<&CpiEntry> {
        self.cpis.iter().find(|cpi| cpi.name == name)
    }

    /// Returns the names of all CPIs.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.cpis.iter().map(|cpi| cpi.name.as_str())
    }

    /// Returns the error for a name that no CPI has. `message_start` begins the message.
    pub fn unknown_cpi_error(&self, name: &str, message_start: &str) -> Error {
        Error::invalid(format!("{message_start} CPI '{name}', which the CPI config does not have"))
            .with_nearest(name, self.names(), || Some(format!("its CPIs are: {}", join_names(self.names()))))
    }
}

/// Lists names, or says `none`.
pub(crate) fn join_names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// Reads one CPI. Returns `None` if name or type is missing; all problems are collected.
fn read_entry(field: &Field<'_>, problems: &mut Problems) -> Option<CpiEntry> {
    let name = field.required_text("name", problems);
    let kind = field.required_text("type", problems);
    let exec_path = field.optional_text("exec_path", problems).filter(|path| !path.is_empty());
    let properties = field.object("properties", problems);
    let userland = userland::read(field, problems);
    let mut migrated_from = Vec::new();
    for former_cpi in field.list("migrated_from", problems) {
        match former_cpi.node.get("name").filter(|name| !name.is_null()) {
            None => former_cpi.add_problem(problems, "needs `name: NAME`"),
            Some(_) => {
                let name = former_cpi.optional_text("name", problems);
                migrated_from.extend(name.map(|name| Some(name).filter(|name| !name.is_empty())));
            }
        }
    }
    let file = field.node.position.file().map(std::path::Path::to_owned);
    let program = field.get("exec_path").filter(|_| exec_path.is_some()).or_else(|| field.get("type"));
    let place = program.as_ref().unwrap_or(field).node.position.describe();
    Some(CpiEntry { name: name?, kind: kind?, exec_path, properties, userland, place, migrated_from, file })
}

/// Checks that every name, including earlier ones, belongs to one CPI only.
fn check_names(cpis: &[CpiEntry], root: &Field<'_>, problems: &mut Problems) {
    let fields = root.list("cpis", &mut Problems::default());
    let field_of = |name: &str| {
        let has_name = |field: &&Field<'_>| field.node.get("name").and_then(Node::as_str) == Some(name);
        fields.iter().rfind(has_name).cloned().unwrap_or_else(|| root.clone())
    };
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    for cpi in cpis {
        *names.entry(&cpi.name).or_default() += 1;
    }
    for (name, _) in names.iter().filter(|(_, count)| **count > 1) {
        field_of(name).add_problem(problems, format!("defines CPI '{name}' a second time"));
    }
    let mut owners: BTreeMap<Option<&str>, &str> = BTreeMap::new();
    for cpi in cpis {
        for former_name in &cpi.migrated_from {
            let former_name = former_name.as_deref();
            let label = cpi_label(former_name);
            let mut report = |reason: String| {
                field_of(&cpi.name)
                    .add_problem(problems, format!("has {label} in `migrated_from`, but {reason}"))
            };
            if former_name == Some(&cpi.name) {
                report("that is this CPI itself".to_owned());
            } else if let Some(defined_name) =
                former_name.filter(|former_name| names.contains_key(former_name))
            {
                let is_cycle = cpis
                    .iter()
                    .find(|other| other.name == defined_name)
                    .is_some_and(|other| other.migrated_from.iter().flatten().any(|name| *name == cpi.name));
                report(match is_cycle {
                    true => "that CPI is migrated from this one: a cycle".to_owned(),
                    false => "the CPI config still defines it".to_owned(),
                });
            } else if let Some(other) = owners.insert(former_name, &cpi.name) {
                report(format!("CPI '{other}' has it too"));
            }
        }
    }
}

/// Returns the name of a CPI in messages: `CPI 'x'`, or `the default CPI` if it has no name.
pub fn cpi_label(name: Option<&str>) -> String {
    name.map_or_else(|| "the default CPI".to_owned(), |name| format!("CPI '{name}'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<CpiConfig> {
        CpiConfig::parse(&yaml::load(text, std::path::Path::new("cpis.yml")).unwrap())
    }

    #[test]
    fn parses_a_director_cpi_config() {
        let config = parse(
            "cpis:\n- {name: a, type: openstack, properties: {api_key: s3cret}}\n\
             - {name: b, type: local, exec_path: bin/cpi, migrated_from: [{name: c}, {name: \"\"}]}\n",
        )
        .unwrap();
        assert_eq!(config.names().collect::<Vec<_>>(), ["a", "b"]);
        assert!(!format!("{config:?}").contains("s3cret"));
        let b = config.find("b").unwrap();
        assert_eq!(b.migrated_from, [Some("c".to_owned()), None]);
        assert_eq!((b.exec_path.as_deref(), b.kind.as_str()), (Some("bin/cpi"), "local"));
        assert!(config.find("c").is_none());
        let unknown = config.unknown_cpi_error("bb", "AZ 'z1' uses").to_string();
        assert_eq!(unknown, "AZ 'z1' uses CPI 'bb', which the CPI config does not have");
    }

    #[test]
    fn rejects_invalid_entries_with_their_position() {
        for (text, problem) in [
            ("{}", "cpis.yml:1:1: the CPI config needs `cpis`, a list of CPIs"),
            ("cpis: 7", "`cpis` must be a list"),
            ("cpis: [{type: x}]", "cpis.yml:1:8: `cpis[0]` needs `name: NAME`"),
            ("cpis: [{name: a}]", "`cpis[0]` needs `type: TYPE`"),
            ("cpis: [{name: a, type: x, properties: 7}]", "`cpis[0].properties` must be a mapping"),
            ("cpis: [{name: a, type: x}, {name: a, type: y}]", "`cpis[1]` defines CPI 'a' a second time"),
            (
                "cpis: [{name: a, type: x, migrated_from: [{name: b}]}, {name: b, type: x}]",
                "`cpis[0]` has CPI 'b' in `migrated_from`, but the CPI config still defines it",
            ),
            (
                "cpis: [{name: a, type: x, migrated_from: [{name: b}]}, {name: b, type: x, migrated_from: \
                    [{name: a}]}]",
                "a cycle",
            ),
            ("cpis: [{name: a, type: x, migrated_from: [{name: a}]}]", "but that is this CPI itself"),
            (
                "cpis: [{name: a, type: x, migrated_from: [{name: c}]}, {name: b, type: x, migrated_from: \
                    [{name: c}]}]",
                "`cpis[1]` has CPI 'c' in `migrated_from`, but CPI 'a' has it too",
            ),
            (
                "cpis: [{name: a, type: x, migrated_from: [{name: \"\"}]}, {name: b, type: x, migrated_from: \
                    [{name: \"\"}]}]",
                "has the default CPI in `migrated_from`, but CPI 'a' has it too",
            ),
            ("cpis: [{name: a, type: x, migrated_from: [{}]}]", "migrated_from[0]` needs `name: NAME`"),
        ] {
            let error = parse(text).unwrap_err();
            let chain = error.chain().join(": ");
            assert!(chain.contains("cpis.yml:1:") && chain.contains(problem), "{text}: {chain}");
        }
    }
}
