//! The part of a value that `((name.key.0))` asks for.

use crate::error::nearest;
use crate::manifest::words::a_kind;
use crate::manifest::yaml::{Data, Node};

/// Why there is no such part.
#[derive(Debug, PartialEq, Eq)]
pub struct NoSuchPart {
    /// What is wrong, without the value itself (it may be secret).
    pub message: String,
    /// What may have been meant.
    pub suggestion: Option<String>,
}

/// Follows `keys` into `value`: names in mappings, indices (negative: from the end) in sequences.
pub fn descend<'n, 'k>(value: &'n Node, keys: impl Iterator<Item = &'k str>) -> Result<&'n Node, NoSuchPart> {
    let mut here = value;
    for key in keys {
        here = match &here.data {
            Data::Map(map) => match map.get(key).or_else(|| integer_key(map, key)) {
                Some(value) => value,
                None => {
                    let names: Vec<&str> = map.iter().filter_map(|(name, _)| name.as_str()).collect();
                    return Err(NoSuchPart {
                        message: format!("there is no key '{key}'; there is {}", list(&names)),
                        suggestion: nearest(key, names.iter().copied()).map(str::to_owned),
                    });
                }
            },
            Data::Seq(items) => index(items, key)?,
            _ => {
                return Err(NoSuchPart {
                    message: format!("'{key}' is asked of {}, which has no parts", a_kind(here)),
                    suggestion: None,
                });
            }
        };
    }
    Ok(here)
}

fn integer_key<'n>(map: &'n crate::manifest::yaml::Mapping, key: &str) -> Option<&'n Node> {
    let wanted: i64 = key.parse().ok()?;
    map.iter().find(|(name, _)| name.as_i64() == Some(wanted)).map(|(_, value)| value)
}

fn index<'n>(items: &'n [Node], key: &str) -> Result<&'n Node, NoSuchPart> {
    let fail = |message| NoSuchPart { message, suggestion: None };
    let wanted: i64 = key
        .parse()
        .map_err(|_| fail(format!("'{key}' is asked of a sequence, which has numbered items only")))?;
    let position = if wanted < 0 {
        items.len().checked_sub(usize::try_from(wanted.unsigned_abs()).unwrap_or(usize::MAX))
    } else {
        usize::try_from(wanted).ok()
    };
    position
        .and_then(|position| items.get(position))
        .ok_or_else(|| fail(format!("there is no item {wanted}; the sequence has {}", items.len())))
}

fn list(names: &[&str]) -> String {
    const SHOWN: usize = 10;
    match names.len() {
        0 => "none".into(),
        count => {
            let shown: Vec<String> = names.iter().take(SHOWN).map(|name| format!("'{name}'")).collect();
            let rest = if count > SHOWN { format!(" and {} more", count - SHOWN) } else { String::new() };
            format!("{}{rest}", shown.join(", "))
        }
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

    fn at(path: &str) -> Result<Node, String> {
        descend(&value(), path.split('.')).cloned().map_err(|error| error.message)
    }

    #[test]
    fn follows_names_and_indices() {
        assert_eq!(at("certificate"), Ok(Node::string("c")));
        assert_eq!(at("list.0"), Ok(Data::Int(1).into()));
        assert_eq!(at("list.-2"), Ok(Data::Int(2).into()));
        assert_eq!(at("list.-1.1"), Ok(Node::string("one")));
        assert_eq!(at("x.y"), Ok(Data::Null.into()));
    }

    #[test]
    fn says_what_there_is_instead() {
        assert_eq!(at("cert").unwrap_err(), "there is no key 'cert'; there is 'certificate', 'list', 'x'");
        assert_eq!(at("list.3").unwrap_err(), "there is no item 3; the sequence has 3");
        assert_eq!(at("list.-4").unwrap_err(), "there is no item -4; the sequence has 3");
        assert_eq!(at("list.a").unwrap_err(), "'a' is asked of a sequence, which has numbered items only");
        assert_eq!(at("certificate.a").unwrap_err(), "'a' is asked of a string, which has no parts");
        assert_eq!(at("").unwrap_err(), "there is no key ''; there is 'certificate', 'list', 'x'");
    }
}
