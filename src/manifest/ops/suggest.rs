//! Suggestions for errors: names that exist near a missing one.

use base::redact::NameClass;
use yaml::{Data, Node};

/// The maximum number of names in an error.
const MAX_LISTED_NAMES: usize = 8;
/// The maximum length of a name in an error.
const MAX_NAME_BYTES: usize = 60;

/// Describes the candidate nearest to `mistyped_name`, or a few candidates if none is near. `show` formats a
/// name.
pub(super) fn nearest<'a>(
    mistyped_name: &str,
    candidates: impl Iterator<Item = &'a str>,
    show: impl Fn(&str) -> String,
) -> String {
    let mut listed_names = std::collections::HashSet::new();
    let names: Vec<&str> =
        candidates.filter(|name| name.len() <= MAX_NAME_BYTES && listed_names.insert(*name)).collect();
    match (base::error::nearest(mistyped_name, names.iter().copied()), names.as_slice()) {
        (_, []) => "nothing is there".into(),
        (Some(name), _) => base::error::did_you_mean_question(&show(name)),
        (None, [name]) => format!("there is only '{}'", show(name)),
        (None, _) => {
            let quoted_names: Vec<String> =
                names.iter().take(MAX_LISTED_NAMES).map(|name| format!("'{}'", show(name))).collect();
            let more = match names.len().saturating_sub(MAX_LISTED_NAMES) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            format!("there are {}{more}", quoted_names.join(", "))
        }
    }
}

/// Describes the nearest value of an entry among the items of a sequence. Values under keys named like
/// secrets are not shown.
pub(super) fn nearest_entry<'a>(
    key: &str,
    mistyped_name: &str,
    values: impl Iterator<Item = &'a str>,
) -> String {
    if NameClass::of(key) > NameClass::Plain {
        return "the existing values are not shown, because they may be secret".into();
    }
    let mut values = values.peekable();
    if values.peek().is_none() {
        return format!("no item has a string as its '{key}'");
    }
    nearest(mistyped_name, values, |value| format!("{key}={value}"))
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
