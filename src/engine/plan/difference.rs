//! Compares the deployed manifest with the desired one, leaf by leaf.

use std::collections::BTreeSet;
use std::fmt;

use crate::state::Leaves;
use base::encoding::shortened;

/// The length to which values are shortened when shown, in bytes.
const SHOWN: usize = 60;

/// A leaf of the desired manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaf {
    /// Its path, in the syntax of ops files.
    pub path: String,
    /// Its value, as JSON.
    pub value: String,
    /// True if its value must not be shown.
    pub secret: bool,
}

/// A leaf that differs from the deployed manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Its path, in the syntax of ops files.
    pub path: String,
    /// The kind of change.
    pub alteration: Alteration,
}

/// The kind of change of a leaf, with the new value in plain text, or `None` if it is secret.
/// Old values are never on record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Alteration {
    /// The leaf is new.
    Added(Option<String>),
    /// The leaf had another value.
    Changed(Option<String>),
    /// The leaf is gone.
    Removed,
}

/// Compares the deployed manifest with the desired one. Returns differences in the order of the latter, with
/// removed leaves at the end.
pub fn differences(deployed: &Leaves, wanted: &[Leaf]) -> Vec<Difference> {
    let known: BTreeSet<&str> = wanted.iter().map(|leaf| leaf.path.as_str()).collect();
    let old: BTreeSet<&str> = deployed.paths().collect();
    let mut found: Vec<Difference> = wanted
        .iter()
        // A map or list that was emptied or filled is shown by the leaves that it held or holds.
        .filter(|leaf| !holds(&old, &leaf.path))
        .filter_map(|leaf| {
            let alteration = match deployed.had(&leaf.path, &leaf.value) {
                Some(true) => return None,
                Some(false) => Alteration::Changed(leaf.shown()),
                None => Alteration::Added(leaf.shown()),
            };
            Some(Difference { path: leaf.path.clone(), alteration })
        })
        .collect();
    found.extend(
        deployed
            .paths()
            .filter(|path| !known.contains(path) && !holds(&known, path))
            .map(|path| Difference { path: path.to_owned(), alteration: Alteration::Removed }),
    );
    found
}

/// Returns true if there are leaves below this path.
fn holds(paths: &BTreeSet<&str>, path: &str) -> bool {
    let below = format!("{path}/");
    paths.range(below.as_str()..).next().is_some_and(|next| next.starts_with(&below))
}

impl Leaf {
    fn shown(&self) -> Option<String> {
        let text = match serde_json::from_str(&self.value) {
            Ok(serde_json::Value::String(text)) => text,
            _ => self.value.clone(),
        };
        (!self.secret).then(|| shortened(text.lines().next().unwrap_or_default(), SHOWN).into_owned())
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = &self.path;
        match &self.alteration {
            Alteration::Added(Some(value)) => write!(f, "`{path}` is new: `{value}`"),
            Alteration::Added(None) => write!(f, "`{path}` is new"),
            Alteration::Changed(Some(value)) => write!(f, "`{path}` changes to `{value}`"),
            Alteration::Changed(None) => write!(f, "`{path}` is <changed>"),
            Alteration::Removed => write!(f, "`{path}` is gone"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf(path: &str, value: &str, secret: bool) -> Leaf {
        Leaf { path: path.into(), value: value.into(), secret }
    }

    #[test]
    fn differences_show_new_values_and_no_secret() {
        let deployed = Leaves::of([
            ("/a", "1"),
            ("/b", "\"x\""),
            ("/gone", "true"),
            ("/same", "null"),
            ("/filled", "{}"),
            ("/emptied/0", "1"),
        ]);
        let long = format!("\"{}\"", "long ".repeat(40));
        let wanted = [
            leaf("/same", "null", false),
            leaf("/a", "\"two\\nlines\"", false),
            leaf("/b", "\"hunter2\"", true),
            leaf("/new", &long, false),
            leaf("/filled/more", "1", false),
            leaf("/emptied", "[]", false),
        ];
        let shown: Vec<String> = differences(&deployed, &wanted).iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            [
                "`/a` changes to `two`".to_owned(),
                "`/b` is <changed>".to_owned(),
                format!("`/new` is new: `{}…`", "long ".repeat(12)),
                "`/filled/more` is new: `1`".to_owned(),
                "`/emptied/0` is gone".to_owned(),
                "`/gone` is gone".to_owned(),
            ]
        );
    }
}
