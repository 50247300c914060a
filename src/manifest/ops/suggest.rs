//! Suggestions for errors: names that exist near a missing one.

use base::redact::NameClass;
use yaml::{Data, Node};

/// The maximum number of names in an error.
const MAX_LISTED_NAMES: usize = 8;
/// The maximum length of a name in an error.
const MAX_NAME_BYTES: usize = 60;

/// The names that may have been meant.
pub(super) enum Alternatives {
    /// The nearest name.
    Nearest(String),
    /// A description of all names, for a note.
    Listed(String),
}

/// Finds the candidate nearest to `mistyped_name`, or describes a few candidates if none is near. `show`
/// formats a name.
pub(super) fn find_alternatives<'a>(
    mistyped_name: &str,
    candidates: impl Iterator<Item = &'a str>,
    show: impl Fn(&str) -> String,
) -> Alternatives {
    let mut distinct_names = std::collections::HashSet::new();
    let names: Vec<&str> =
        candidates.filter(|name| name.len() <= MAX_NAME_BYTES && distinct_names.insert(*name)).collect();
    if let Some(name) = base::error::nearest(mistyped_name, names.iter().copied()) {
        return Alternatives::Nearest(show(name));
    }
    Alternatives::Listed(match names.as_slice() {
        [] => "nothing is there".into(),
        [name] => format!("there is only '{}'", show(name)),
        names => {
            let quoted_names: Vec<String> =
                names.iter().take(MAX_LISTED_NAMES).map(|name| format!("'{}'", show(name))).collect();
            let hidden_text = match names.len().saturating_sub(MAX_LISTED_NAMES) {
                0 => String::new(),
                hidden_count => format!(" and {hidden_count} more"),
            };
            format!("there are {}{hidden_text}", quoted_names.join(", "))
        }
    })
}

/// Finds the nearest value of an entry among the items of a sequence. Values under keys named like secrets
/// are not shown.
pub(super) fn find_entry_alternatives<'a>(
    key: &str,
    mistyped_name: &str,
    values: impl Iterator<Item = &'a str>,
) -> Alternatives {
    if NameClass::of(key) > NameClass::Plain {
        let reason = "the existing values are not shown, because they may be secret";
        return Alternatives::Listed(reason.into());
    }
    let mut values = values.peekable();
    if values.peek().is_none() {
        return Alternatives::Listed(format!("no item has a string as its '{key}'"));
    }
    find_alternatives(mistyped_name, values, |value| format!("{key}={value}"))
}

/// Returns true if a value that is not a string reads like this text.
pub(super) fn is_same_text(node: &Node, text: &str) -> bool {
    match &node.data {
        Data::Int(int) => int.to_string() == text,
        Data::UInt(int) => int.to_string() == text,
        Data::Float(float) => float.to_string() == text,
        Data::Bool(flag) => flag.to_string() == text,
        _ => false,
    }
}
