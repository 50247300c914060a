//! The manifest's `variables:` block: the declared variables with types and options.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::node_kind::kind_with_article;
use base::{Error, Result};
use yaml::{Data, Node, Position};

/// One entry of `variables:`.
#[derive(Debug, Clone)]
pub struct Definition {
    /// The variable.
    pub name: String,
    /// The type (`password`, `certificate`, …). A variable without a type must be given.
    pub kind: Option<String>,
    /// Options of the generator, before interpolation.
    pub options: Option<Node>,
    /// The reaction to changed options.
    pub update_mode: UpdateMode,
    /// The position in the manifest.
    pub position: Position,
    /// The index in the block.
    pub index: usize,
}

/// `update_mode` of a definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UpdateMode {
    /// Keeps the value once it is generated.
    #[default]
    NoOverwrite,
    /// Regenerates the value if its options have changed.
    Converge,
}

/// All entries of `variables:`, in the order of the manifest.
#[derive(Debug, Clone, Default)]
pub struct Definitions {
    entries: Vec<Definition>,
    by_name: BTreeMap<String, usize>,
    manifest: Option<Arc<PathBuf>>,
}

impl Definitions {
    /// Reads the `variables:` of a manifest. Without the key there are no definitions.
    pub fn of(root: &Node) -> Result<Self> {
        let mut definitions =
            Definitions { manifest: root.position.source.clone(), ..Definitions::default() };
        let block = match root.get("variables") {
            None => return Ok(definitions),
            Some(Node { data: Data::Null, .. }) => return Ok(definitions),
            Some(block) => block,
        };
        let Some(items) = block.as_seq() else {
            return Err(Error::invalid(format!(
                "{}: 'variables' is {}, not a list",
                block.position.describe(),
                kind_with_article(block)
            )));
        };
        for (index, item) in items.iter().enumerate() {
            let definition = Definition::of(item, index)?;
            if let Some(other_definition) = definitions.get(&definition.name) {
                return Err(Error::invalid(format!(
                    "{}: variable '{}' is already declared at {}",
                    definition.position.describe(),
                    definition.name,
                    other_definition.position.describe()
                )));
            }
            definitions.by_name.insert(definition.name.clone(), definitions.entries.len());
            definitions.entries.push(definition);
        }
        Ok(definitions)
    }

    /// Returns the definition of a variable.
    pub fn get(&self, name: &str) -> Option<&Definition> {
        self.by_name.get(name).and_then(|&index| self.entries.get(index))
    }

    /// Returns the path of the manifest.
    pub fn manifest(&self) -> Option<&Path> {
        self.manifest.as_deref().map(PathBuf::as_path)
    }

    /// Returns all definitions in the order of the manifest.
    pub fn iter(&self) -> impl Iterator<Item = &Definition> + Clone {
        self.entries.iter()
    }
}

impl Definition {
    /// Reads one entry of `variables`.
    fn of(node: &Node, index: usize) -> Result<Self> {
        let place = node.position.describe();
        if node.as_map().is_none() {
            return Err(Error::invalid(format!(
                "{place}: an entry of 'variables' is {}, not a mapping",
                kind_with_article(node)
            )));
        }
        let name = string_value(node, "name")?
            .ok_or_else(|| Error::invalid(format!("{place}: an entry of 'variables' has no 'name'")))?;
        let update_mode = match string_value(node, "update_mode")?.as_deref() {
            // `overwrite` would generate a new value on every run, which is useful only with a config server.
            None | Some("no-overwrite" | "overwrite") => UpdateMode::NoOverwrite,
            Some("converge") => UpdateMode::Converge,
            Some(other) => {
                return Err(Error::invalid(format!(
                    "{place}: variable '{name}' has the unknown update_mode '{other}'"
                ))
                .with_hint("use 'no-overwrite' (the default), 'overwrite' or 'converge'"));
            }
        };
        Ok(Definition {
            kind: string_value(node, "type")?.filter(|kind| !kind.is_empty()),
            options: node.get("options").filter(|options| !options.is_null()).cloned(),
            update_mode,
            position: node.position.clone(),
            index,
            name,
        })
    }
}

fn string_value(node: &Node, key: &str) -> Result<Option<String>> {
    match node.get(key) {
        None => Ok(None),
        Some(value) => match &value.data {
            Data::Null => Ok(None),
            Data::String(text) => Ok(Some(text.as_str().to_owned())),
            Data::Int(number) => Ok(Some(number.to_string())),
            Data::UInt(number) => Ok(Some(number.to_string())),
            _ => Err(Error::invalid(format!(
                "{}: '{key}' of a variable is {}, not a string",
                value.position.describe(),
                kind_with_article(value)
            ))),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definitions_of(text: &str) -> Result<Definitions> {
        Definitions::of(&yaml::load(text, std::path::Path::new("m.yml")).unwrap())
    }

    #[test]
    fn parses_the_variables_block() {
        let definitions = definitions_of(
            "variables:\n- {name: a}\n- name: b\n  type: password\n  update_mode: converge\n  options: \
                {length: 5}\n- {name: 12, options: ~}\n",
        )
        .unwrap();
        assert_eq!(
            definitions.iter().map(|definition| definition.name.as_str()).collect::<Vec<_>>(),
            ["a", "b", "12"]
        );
        let b = definitions.get("b").unwrap();
        assert_eq!(
            (b.kind.as_deref(), b.update_mode, b.position.line),
            (Some("password"), UpdateMode::Converge, 3)
        );
        assert!(definitions.get("12").unwrap().options.is_none());
        assert_eq!(definitions_of("- a").unwrap().iter().count(), 0);
        assert_eq!(definitions_of("variables: ~").unwrap().iter().count(), 0);
    }

    #[test]
    fn rejects_invalid_definitions_with_their_position() {
        for (text, expected) in [
            ("variables: 5", "m.yml:1:12: 'variables' is an integer, not a list"),
            ("variables: [5]", "m.yml:1:13: an entry of 'variables' is an integer, not a mapping"),
            ("variables: [{type: x}]", "m.yml:1:13: an entry of 'variables' has no 'name'"),
            ("variables: [{name: [x]}]", "m.yml:1:20: 'name' of a variable is a list, not a string"),
            ("variables:\n- name: a\n- name: a", "m.yml:3:3: variable 'a' is already declared at m.yml:2:3"),
            (
                "variables: [{name: a, update_mode: b}]",
                "m.yml:1:13: variable 'a' has the unknown update_mode 'b'",
            ),
        ] {
            assert_eq!(definitions_of(text).unwrap_err().to_string(), expected);
        }
    }
}
