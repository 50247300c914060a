//! Recognises files that are named in place of a manifest: ops files, and files of other kinds.

use std::path::Path;

use crate::node_kind::kind_with_article;
use base::encryption::{Encryption, StoredForm};
use base::error::nearest;
use base::files::input::{self, FileKind};
use base::text::shell_word;
use base::{Error, Result};
use yaml::{Data, Node};

/// The maximum size in bytes of a file that [`non_manifest_reason`] reads.
const MAX_BYTES: u64 = 1 << 20;

/// Sections of manifests. A vars store or a state has none of them.
pub const MANIFEST_SECTIONS: [&str; 2] = ["instance_groups", "cloud_provider"];

/// Keys of a manifest at its top.
pub(crate) const MANIFEST_KEYS: &[&str] = &[
    "azs",
    "cloud_provider",
    "compilation",
    "cpis",
    "disk_pools",
    "disk_types",
    "features",
    "instance_groups",
    "jobs",
    "name",
    "networks",
    "properties",
    "releases",
    "resource_pools",
    "stemcells",
    "tags",
    "update",
    "variables",
    "vm_extensions",
    "vm_types",
];

/// Keys that every state has. A vars store may have a variable with one of these names, but not variables
/// with both.
const STATE_KEYS: [&str; 2] = ["director_id", "installation_id"];

/// Returns the first of the keys of a state if a mapping has all of them. `has_key` returns true for the keys
/// of the mapping.
pub(crate) fn matched_state_key(has_key: impl Fn(&str) -> bool) -> Option<&'static str> {
    STATE_KEYS.iter().all(|key| has_key(key)).then_some(STATE_KEYS[0])
}

/// Returns true if the document has a section of manifests or a name. Every manifest has one of them, even
/// before ops files add others.
fn has_manifest_key(root: &Node) -> bool {
    MANIFEST_SECTIONS.iter().chain(&["name"]).any(|key| root.get(key).is_some())
}

/// Returns true for a mapping with `type` and `path`.
fn is_operation(node: &Node) -> bool {
    node.get("type").is_some() && node.get("path").is_some()
}

/// Returns true for the document of an ops file: a list of mappings with `type` and `path`.
pub(crate) fn is_ops_file(root: &Node) -> bool {
    root.as_seq().is_some_and(|items| !items.is_empty() && items.iter().all(is_operation))
}

/// Returns true for the document of a vars store: a mapping without a key of a manifest, in which an entry
/// has a private key.
fn is_vars_store(root: &Node) -> bool {
    let entries = root.as_map();
    let mut values = entries.iter().flat_map(|map| map.iter()).map(|(_, value)| value);
    !has_manifest_key(root) && values.any(|value| value.get("private_key").is_some())
}

/// Fails if the document at `path` is an ops file or a vars store.
pub(crate) fn refuse_other_files(root: &Node, path: &Path) -> Result<()> {
    let (kind, option) = if is_ops_file(root) {
        ("an ops file", "-o")
    } else if is_vars_store(root) {
        ("a vars store", "--vars-store")
    } else {
        return Ok(());
    };
    let file = path.to_string_lossy();
    Err(Error::invalid(format!("'{}' is {kind}, not a manifest", path.display()))
        .with_hint(format!("name the manifest, and pass this file with `{option} {}`", shell_word(&file))))
}

/// Returns the reason why a file cannot be a manifest. Returns `None` if it may be one, and for files that
/// are encrypted or large, or have a mistake in YAML. A mistake in a file that ends in `.json` is a reason.
pub fn non_manifest_reason(path: &Path) -> Option<String> {
    let bytes = path.is_file().then(|| input::read(path, MAX_BYTES).ok()).flatten()?;
    if Encryption::default().stored_form(&bytes) != StoredForm::Plain {
        return None;
    }
    let root = match yaml::load(&String::from_utf8(bytes).ok()?, path) {
        Ok(root) => root,
        // Programs write JSON, so it has no mistakes unless it is damaged.
        Err(error) => {
            let is_json = path.extension().is_some_and(|extension| extension == "json");
            return is_json.then(|| error.to_string());
        }
    };
    match &root.data {
        Data::Null => Some("the file is empty".to_owned()),
        Data::Map(_) => (!has_manifest_key(&root))
            .then(|| "it has no key of a manifest, such as `instance_groups`".to_owned()),
        _ if is_ops_file(&root) => Some("it is an ops file".to_owned()),
        _ => Some(format!("it is {}, not a mapping", kind_with_article(&root))),
    }
}

/// Returns true for a mapping with a section that only manifests have.
pub(crate) fn has_manifest_section(root: &Node) -> bool {
    MANIFEST_SECTIONS.iter().any(|key| root.get(key).is_some())
}

/// Returns the name of the option for a mapping with variables: that of a vars store, or the short one of a
/// vars file. Returns `None` for other documents, and for an operation of an ops file.
pub(crate) fn variables_option(root: &Node) -> Option<&'static str> {
    let is_empty = root.as_map()?.is_empty();
    match is_vars_store(root) {
        true => Some("--vars-store"),
        false => (!is_empty && !has_manifest_key(root) && !is_operation(root)).then_some("-l"),
    }
}

/// Returns hints about keys of a manifest that are probably misspelt ones of these sections. Sections that
/// the manifest has are left out.
pub(crate) fn hints_for_misspelt_sections(root: &Node, sections: &[&str]) -> Vec<String> {
    let missing_sections: Vec<&str> =
        sections.iter().copied().filter(|section| root.get(section).is_none()).collect();
    let hint = |(key, _): (&Node, &Node)| {
        let name = key.as_str().filter(|name| !MANIFEST_KEYS.contains(name))?;
        let section = nearest(name, missing_sections.iter().copied())?;
        Some(format!("write `{section}` in place of the key '{name}' ({})", key.position.describe()))
    };
    root.as_map().into_iter().flat_map(|map| map.iter()).filter_map(hint).collect()
}

/// Returns true for a file that is probably a manifest.
pub fn is_manifest(path: &Path) -> bool {
    read_plain(path).is_some_and(|root| has_manifest_section(&root))
}

/// Returns the option with which a file is passed to a command that takes a manifest: an ops file, a state,
/// or a file with variables. Returns `None` for other files.
pub fn file_option(path: &Path) -> Option<&'static str> {
    let root = read_plain(path)?;
    match &root.data {
        Data::Map(_) if matched_state_key(|key| root.get(key).is_some()).is_some() => Some("--state"),
        Data::Map(_) if !has_manifest_key(&root) => Some("--vars-file"),
        _ if is_ops_file(&root) => Some("--ops-file"),
        _ => None,
    }
}

/// Reads the document of a file that is neither encrypted nor large.
fn read_plain(path: &Path) -> Option<Node> {
    let bytes = path.is_file().then(|| input::read(path, MAX_BYTES).ok()).flatten()?;
    yaml::load(&String::from_utf8(bytes).ok()?, path).ok()
}

/// Returns true unless the file is an ops file, a vars store or a state.
fn may_be_manifest(path: &Path) -> bool {
    let is_other = |root: Node| {
        is_ops_file(&root)
            || is_vars_store(&root)
            || matched_state_key(|key| root.get(key).is_some()).is_some()
    };
    !read_plain(path).is_some_and(is_other)
}

/// The kind of a manifest among the files that an error suggests.
const FILE_KIND: FileKind = FileKind { can_match: may_be_manifest, certainly_matches: is_manifest };

/// Returns the error for a manifest that does not exist. Its hint names only manifests.
pub fn missing_manifest_error(path: &Path) -> Error {
    input::missing_error_among(input::MANIFEST_KIND, path, FILE_KIND)
}

/// Returns the error for a missing file of a command that takes a manifest or a state. A YAML file is no
/// state.
pub fn missing_manifest_or_state_error(path: &Path) -> Error {
    if path.extension().is_some_and(|extension| extension == "yml" || extension == "yaml") {
        return missing_manifest_error(path);
    }
    let certainly_matches = |path: &Path| {
        let has_state_key = |root: Node| matched_state_key(|key| root.get(key).is_some()).is_some();
        is_manifest(path) || read_plain(path).is_some_and(has_state_key)
    };
    input::missing_error_among("manifest or state", path, FileKind { certainly_matches, ..input::ANY_FILE })
}

/// Returns the error for a manifest that does not exist, without a hint. It names a manifest with a similar
/// name.
pub fn bare_missing_manifest_error(path: &Path) -> Error {
    input::bare_missing_error(input::MANIFEST_KIND, path, FILE_KIND)
}

/// Returns the error for a directory in place of a manifest. Its hint names the manifests in it.
pub fn manifest_directory_error(path: &Path) -> Error {
    input::directory_error(input::MANIFEST_KIND, path, FILE_KIND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_values_are_a_vars_store() {
        for (text, expected) in [
            ("{password: x, ca: {certificate: c, private_key: k}}", true),
            ("{password: x}", false),
            ("{name: x, ca: {private_key: k}}", false),
            ("[]", false),
        ] {
            assert_eq!(is_vars_store(&yaml::load(text, Path::new("v.yml")).unwrap()), expected, "{text}");
        }
    }

    #[test]
    fn list_of_operations_is_an_ops_file() {
        for (text, expected) in [
            ("- {type: remove, path: /a}\n- {type: replace, path: /b, value: 1}\n", true),
            ("- {type: remove, path: /a}\n- {name: b}\n", false),
            ("[]", false),
            ("{type: remove, path: /a}", false),
        ] {
            assert_eq!(is_ops_file(&yaml::load(text, Path::new("o.yml")).unwrap()), expected, "{text}");
        }
    }
}
