//! Splits a manifest into leaves, so that two manifests can be compared path by path.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use super::ops::{Path, Token};
use yaml::{Data, Node};

/// A scalar, an empty list or an empty mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaf {
    /// The path in the language of ops files. An item with a `name` is selected by it:
    /// `/networks/name=default/type`.
    pub path: String,
    /// The value as JSON.
    pub value: String,
}

/// Returns the leaves of a tree in document order.
pub(crate) fn leaves(root: &Node) -> Vec<Leaf> {
    let mut leaves = Vec::new();
    collect_leaves(root, &mut Vec::new(), &mut leaves);
    leaves
}

fn collect_leaves(node: &Node, tokens: &mut Vec<Token>, leaves: &mut Vec<Leaf>) {
    match &node.data {
        Data::Map(map) if !map.is_empty() => {
            for (key, value) in map.iter() {
                let key = key.as_str().map_or_else(|| value_text(key), str::to_owned);
                tokens.push(Token::Key { key, is_optional: false });
                collect_leaves(value, tokens, leaves);
                tokens.pop();
            }
        }
        Data::Seq(items) if !items.is_empty() => {
            let counts_by_name = name_counts(items);
            for (index, item) in items.iter().enumerate() {
                tokens.push(token(item, index, &counts_by_name));
                collect_leaves(item, tokens, leaves);
                tokens.pop();
            }
        }
        _ => leaves.push(Leaf { path: Path::from(tokens.clone()).to_string(), value: value_text(node) }),
    }
}

fn name(item: &Node) -> Option<&str> {
    item.get("name").and_then(Node::as_str)
}

/// Counts the items with each name.
fn name_counts(items: &[Node]) -> HashMap<&str, usize, RandomState> {
    let mut counts = HashMap::default();
    items.iter().filter_map(name).for_each(|name| *counts.entry(name).or_default() += 1);
    counts
}

/// Selects an item by its name if the name is unique, otherwise by its index.
fn token(item: &Node, index: usize, counts_by_name: &HashMap<&str, usize, RandomState>) -> Token {
    match name(item).filter(|item_name| counts_by_name.get(item_name) == Some(&1)) {
        Some(value) => Token::Match {
            key: "name".into(),
            value: value.into(),
            is_optional: false,
            modifiers: Vec::new(),
        },
        None => Token::Index { index: i64::try_from(index).unwrap_or(i64::MAX), modifiers: Vec::new() },
    }
}

/// Returns a leaf as JSON, or as YAML if JSON has no form for it.
fn value_text(node: &Node) -> String {
    match node.to_json() {
        Ok(value) => value.to_string(),
        Err(_) => yaml::emit(node).trim().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaves_of(text: &str) -> Vec<(String, String)> {
        let root = yaml::load(text, std::path::Path::new("m.yml")).unwrap();
        leaves(&root).into_iter().map(|leaf| (leaf.path, leaf.value)).collect()
    }

    fn pair(path: &str, value: &str) -> (String, String) {
        (path.to_owned(), value.to_owned())
    }

    #[test]
    fn items_with_unique_names_are_selected_by_name() {
        let leaves =
            leaves_of("networks:\n- {name: a, dns: [1.1.1.1, 8.8.8.8]}\n- {name: b, x: {}}\n- {name: b}\n");
        assert_eq!(
            leaves,
            [
                pair("/networks/name=a/name", "\"a\""),
                pair("/networks/name=a/dns/0", "\"1.1.1.1\""),
                pair("/networks/name=a/dns/1", "\"8.8.8.8\""),
                pair("/networks/1/name", "\"b\""),
                pair("/networks/1/x", "{}"),
                pair("/networks/2/name", "\"b\""),
            ]
        );
    }

    #[test]
    fn every_leaf_path_finds_its_leaf() {
        let text = "a: {b/c: 1, 'd:e': [x, [y, z]], 5: ~}\nlist:\n- {name: 'n/m', v: 1.5}\n";
        let root = yaml::load(text, std::path::Path::new("m.yml")).unwrap();
        for leaf in leaves(&root) {
            if leaf.path == "/a/5" {
                continue; // An ops path would read this as an index.
            }
            let path: Path = leaf.path.parse().unwrap();
            let node = super::super::ops::find(&root, &path).unwrap();
            assert_eq!(super::value_text(&node), leaf.value, "{}", leaf.path);
        }
    }
}
