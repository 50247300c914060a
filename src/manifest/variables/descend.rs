//! Selects the part of a value that `((name.key.0))` refers to.

use crate::node_kind::kind_with_article;
use base::error::did_you_mean;
use yaml::{Data, Node};

/// Follows `keys` into `value`: names in mappings, indices in sequences. Negative indices count from the end.
/// The error for a missing part does not show the value, which may be secret.
pub(super) fn descend<'n, 'k>(
    value: &'n Node,
    keys: impl Iterator<Item = &'k str>,
) -> Result<&'n Node, String> {
    let mut node = value;
    for key in keys {
        node = match &node.data {
            Data::Map(map) => match map.get(key).or_else(|| integer_key(map, key)) {
                Some(value) => value,
                None => {
                    let names: Vec<&str> = map.iter().filter_map(|(name, _)| name.as_str()).collect();
                    let suggestion = did_you_mean(key, names.iter().copied());
                    return Err(format!(
                        "there is no key '{key}', only {}{suggestion}",
                        list_keys(map.iter())
                    ));
                }
            },
            Data::Seq(items) => item_at(items, key)?,
            _ => {
                return Err(format!("the value is {}, so it has no key '{key}'", kind_with_article(node)));
            }
        };
    }
    Ok(node)
}

fn integer_key<'n>(map: &'n yaml::Mapping, key: &str) -> Option<&'n Node> {
    let number: i64 = key.parse().ok()?;
    map.iter().find(|(name, _)| name.as_i64() == Some(number)).map(|(_, value)| value)
}

fn item_at<'n>(items: &'n [Node], key: &str) -> Result<&'n Node, String> {
    let index: i64 = key.parse().map_err(|_| format!("the value is a list, so '{key}' must be a number"))?;
    let position = if index < 0 {
        items.len().checked_sub(usize::try_from(index.unsigned_abs()).unwrap_or(usize::MAX))
    } else {
        usize::try_from(index).ok()
    };
    position.and_then(|position| items.get(position)).ok_or_else(|| match items.len() {
        1 => format!("there is no item {index}: the list has 1 item"),
        count => format!("there is no item {index}: the list has {count} items"),
    })
}

fn list_keys<'n>(entries: impl Iterator<Item = (&'n Node, &'n Node)>) -> String {
    const MAX_SHOWN_KEYS: usize = 10;
    let mut keys: Vec<String> = entries.map(|(name, _)| format_key(name)).collect();
    let rest = keys.len().saturating_sub(MAX_SHOWN_KEYS);
    keys.truncate(MAX_SHOWN_KEYS);
    match rest {
        _ if keys.is_empty() => "an empty mapping".into(),
        0 => keys.join(", "),
        rest => format!("{} and {rest} more", keys.join(", ")),
    }
}

/// Formats a key for errors. A plain `y` or `on` is a boolean, which references cannot name.
fn format_key(key: &Node) -> String {
    match (&key.data, key.as_str()) {
        (_, Some(name)) => format!("'{name}'"),
        (Data::Int(number), _) => number.to_string(),
        (Data::Bool(value), _) => format!("the boolean {value} (quote the key if it is meant as text)"),
        _ => kind_with_article(key),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value() -> Node {
        Node::from_json(
            &serde_json::json!({"certificate": "c", "list": [1, 2, {"1": "one"}], "x": {"y": null}}),
        )
    }

    fn part_at(path: &str) -> Result<Node, String> {
        descend(&value(), path.split('.')).cloned()
    }

    #[test]
    fn follows_names_and_indices() {
        assert_eq!(part_at("certificate"), Ok(Node::string("c")));
        assert_eq!(part_at("list.0"), Ok(Data::Int(1).into()));
        assert_eq!(part_at("list.-2"), Ok(Data::Int(2).into()));
        assert_eq!(part_at("list.-1.1"), Ok(Node::string("one")));
        assert_eq!(part_at("x.y"), Ok(Data::Null.into()));
    }

    #[test]
    fn errors_show_keys_that_are_not_strings() {
        let map = yaml::load("{y: 1, 7: 2}", std::path::Path::new("v.yml")).unwrap();
        assert_eq!(
            descend(&map, ["y"].into_iter()).unwrap_err(),
            "there is no key 'y', only the boolean true (quote the key if it is meant as text), 7"
        );
    }

    #[test]
    fn errors_list_the_existing_keys() {
        assert_eq!(part_at("cert").unwrap_err(), "there is no key 'cert', only 'certificate', 'list', 'x'");
        assert_eq!(part_at("list.3").unwrap_err(), "there is no item 3: the list has 3 items");
        assert_eq!(part_at("list.-4").unwrap_err(), "there is no item -4: the list has 3 items");
        assert_eq!(part_at("list.a").unwrap_err(), "the value is a list, so 'a' must be a number");
        assert_eq!(part_at("certificate.a").unwrap_err(), "the value is a string, so it has no key 'a'");
        assert_eq!(part_at("").unwrap_err(), "there is no key '', only 'certificate', 'list', 'x'");
    }
}
