//! Compares the deployed manifest with the desired one, leaf by leaf.

use std::collections::BTreeSet;
use std::fmt;

use crate::state::Leaves;
use base::encoding::shorten;

/// The maximum length of a shown value, in bytes.
const MAX_SHOWN_BYTES: usize = 60;

/// A leaf of the desired manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DesiredLeaf {
    /// Its path, in the syntax of ops files.
    pub path: String,
    /// Its value, as JSON.
    pub value: String,
    /// True if its value must not be shown.
    pub is_secret: bool,
}

/// A leaf that differs from the deployed manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Its path, in the syntax of ops files.
    pub path: String,
    /// The kind of change.
    pub change: LeafChange,
}

/// The kind of change of a leaf, with its values in short form. A value is `None` if it is secret, or was
/// secret when it was deployed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeafChange {
    /// The leaf is new.
    Added(Option<String>),
    /// The leaf had another value.
    Changed {
        /// The deployed value.
        deployed_value: Option<String>,
        /// The desired value.
        desired_value: Option<String>,
    },
    /// The leaf is gone. It had this value.
    Removed(Option<String>),
}

/// Compares the deployed manifest with the desired one. Returns the differences in the order of the desired
/// manifest, with removed leaves at the end.
pub fn differences(deployed_leaves: &Leaves, desired_leaves: &[DesiredLeaf]) -> Vec<Difference> {
    let desired_paths: BTreeSet<&str> = desired_leaves.iter().map(|leaf| leaf.path.as_str()).collect();
    let deployed_paths: BTreeSet<&str> = deployed_leaves.paths().collect();
    let describe_deployed = |path: &str| deployed_leaves.description(path).map(str::to_owned);
    let mut differences: Vec<Difference> = desired_leaves
        .iter()
        // If a map or list was emptied or filled, the leaves below it show the change.
        .filter(|leaf| !has_leaves_below(&deployed_paths, &leaf.path))
        .filter_map(|leaf| {
            let change = match deployed_leaves.had_value(&leaf.path, &leaf.value) {
                Some(true) => return None,
                Some(false) => {
                    let desired_value = leaf.description();
                    // A value may have become secret.
                    let deployed_value = desired_value.as_ref().and_then(|_| describe_deployed(&leaf.path));
                    LeafChange::Changed { deployed_value, desired_value }
                }
                None => LeafChange::Added(leaf.description()),
            };
            Some(Difference { path: leaf.path.clone(), change })
        })
        .collect();
    differences.extend(
        deployed_leaves
            .paths()
            .filter(|path| !desired_paths.contains(path) && !has_leaves_below(&desired_paths, path))
            .map(|path| Difference {
                path: path.to_owned(),
                change: LeafChange::Removed(describe_deployed(path)),
            }),
    );
    differences
}

/// Returns true if there are leaves below this path.
fn has_leaves_below(paths: &BTreeSet<&str>, path: &str) -> bool {
    let prefix = format!("{path}/");
    paths.range(prefix.as_str()..).next().is_some_and(|next| next.starts_with(&prefix))
}

impl DesiredLeaf {
    /// Returns the value in short form, or `None` if it is secret. Describes a certificate by its expiry, and
    /// other text of several lines by the number of lines.
    pub fn description(&self) -> Option<String> {
        let text = match serde_json::from_str(&self.value) {
            Ok(serde_json::Value::String(text)) => text,
            _ => self.value.clone(),
        };
        // A certificate may count as secret, because its public key is part of the private key as well.
        if let Some(certificates) = manifest::describe_certificates(&text) {
            return Some(certificates);
        }
        if self.is_secret {
            return None;
        }
        Some(match text.trim_end().contains('\n') {
            true => format!("text of {} lines", text.lines().count()),
            false => shorten(text.trim_end(), MAX_SHOWN_BYTES).into_owned(),
        })
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = &self.path;
        match &self.change {
            LeafChange::Added(Some(value)) => write!(f, "+ {path}: {value}"),
            LeafChange::Added(None) => write!(f, "+ {path}: <redacted>"),
            // The values differ, but their short forms are equal.
            LeafChange::Changed {
                deployed_value: Some(deployed_value),
                desired_value: Some(desired_value),
            } if deployed_value == desired_value => {
                write!(f, "~ {path}: {deployed_value} -> new {desired_value}")
            }
            LeafChange::Changed {
                deployed_value: Some(deployed_value),
                desired_value: Some(desired_value),
            } => {
                write!(f, "~ {path}: {deployed_value} -> {desired_value}")
            }
            LeafChange::Changed { deployed_value: None, desired_value: Some(desired_value) } => {
                write!(f, "~ {path}: -> {desired_value}")
            }
            LeafChange::Changed { desired_value: None, .. } => write!(f, "~ {path}: <changed>"),
            LeafChange::Removed(Some(value)) => write!(f, "- {path}: {value}"),
            LeafChange::Removed(None) => write!(f, "- {path}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf(path: &str, value: &str, is_secret: bool) -> DesiredLeaf {
        DesiredLeaf { path: path.into(), value: value.into(), is_secret }
    }

    #[test]
    fn differences_show_old_and_new_values_and_no_secret() {
        let deployed_leaves = Leaves::of([
            ("/a", "1"),
            ("/b", "\"x\""),
            ("/c", "2"),
            ("/gone", "true"),
            ("/same", "null"),
            ("/filled", "{}"),
            ("/emptied/0", "1"),
        ])
        .with_descriptions(
            [("/a", "1"), ("/b", "x"), ("/gone", "true")].map(|(path, value)| (path.into(), value.into())),
        );
        let long = format!("\"{}\"", "long ".repeat(40));
        let desired = [
            leaf("/same", "null", false),
            leaf("/a", "\"two\\nlines\"", false),
            leaf("/b", "\"hunter2\"", true),
            leaf("/c", "3", false),
            leaf("/new", &long, false),
            leaf("/filled/more", "1", false),
            leaf("/emptied", "[]", false),
        ];
        let lines: Vec<String> =
            differences(&deployed_leaves, &desired).iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            [
                "~ /a: 1 -> text of 2 lines".to_owned(),
                "~ /b: <changed>".to_owned(),
                "~ /c: -> 3".to_owned(),
                format!("+ /new: {}…", "long ".repeat(12)),
                "+ /filled/more: 1".to_owned(),
                "- /emptied/0".to_owned(),
                "- /gone: true".to_owned(),
            ]
        );
    }

    #[test]
    fn certificates_are_shown_by_their_expiry() {
        let pem = |year| {
            let mut parameters = rcgen::CertificateParams::new(Vec::new()).unwrap();
            parameters.not_after = rcgen::date_time_ymd(year, 1, 1);
            let key = rcgen::KeyPair::generate().unwrap();
            serde_json::to_string(&parameters.self_signed(&key).unwrap().pem()).unwrap()
        };
        let (old_certificate, same_day_certificate, later_certificate) = (pem(2027), pem(2027), pem(2028));
        let old_certificate = leaf("/ca", &old_certificate, false);
        let deployed_leaves = Leaves::of([("/ca", old_certificate.value.as_str())])
            .with_descriptions([("/ca".into(), old_certificate.description().unwrap())]);
        for (value, expected) in [
            (
                same_day_certificate,
                "~ /ca: certificate, expires 2027-01-01 -> new certificate, expires 2027-01-01",
            ),
            (later_certificate, "~ /ca: certificate, expires 2027-01-01 -> certificate, expires 2028-01-01"),
        ] {
            assert_eq!(differences(&deployed_leaves, &[leaf("/ca", &value, false)])[0].to_string(), expected);
        }
    }
}
