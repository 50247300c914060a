//! The location of a CPI's resources, recorded to notice a run that looks elsewhere.

use serde::{Deserialize, Serialize};

use super::salted_digests::Leaves;

/// The difference between a built-in CPI of this machine and any other.
const OTHER_KIND_PROPERTY: &str = "`cpi` (another kind of CPI)";

/// Returns true if these differences of [`CpiLocation::differences`] show another kind of CPI.
pub fn is_other_kind(differences: &[String]) -> bool {
    matches!(differences, [property] if property == OTHER_KIND_PROPERTY)
}

/// The location of one CPI's resources when they were created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpiLocation {
    /// The name of the CPI; `None` for the default CPI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpi: Option<String>,
    /// The id of the directory of a built-in CPI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Salted digests of the CPI's properties, except those that are named like secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub properties: Option<Leaves>,
}

/// The location that a run uses for a CPI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CurrentLocation {
    /// A directory of this machine with this id, if it has one.
    Directory(Option<String>),
    /// An IaaS that these properties select, by path.
    Properties(Vec<(String, String)>),
}

impl CpiLocation {
    /// Creates the record. Returns `None` if the directory has no id.
    pub fn of(cpi: Option<&str>, current_location: &CurrentLocation) -> Option<Self> {
        let (id, properties) = match current_location {
            CurrentLocation::Directory(id) => (Some(id.clone()?), None),
            CurrentLocation::Properties(properties) => (None, Some(Leaves::of(pairs(properties)))),
        };
        Some(CpiLocation { cpi: cpi.map(str::to_owned), id, properties })
    }

    /// Returns true if the record describes this location.
    pub fn matches(&self, current_location: &CurrentLocation) -> bool {
        match current_location {
            CurrentLocation::Directory(id) => self.id == *id,
            CurrentLocation::Properties(_) => {
                self.id.is_none() && self.differences(current_location).is_empty()
            }
        }
    }

    /// Returns the paths of properties that differ from the record, sorted. A directory has no properties, so
    /// that a CPI of the other kind is a difference of its own.
    pub fn differences(&self, current_location: &CurrentLocation) -> Vec<String> {
        let (properties, recorded_properties) = match (current_location, &self.properties) {
            (CurrentLocation::Properties(properties), Some(recorded_properties)) => {
                (properties, recorded_properties)
            }
            (CurrentLocation::Properties(_), None) if self.id.is_some() => {
                return vec![OTHER_KIND_PROPERTY.to_owned()];
            }
            (CurrentLocation::Directory(_), Some(_)) => return vec![OTHER_KIND_PROPERTY.to_owned()],
            (CurrentLocation::Properties(_) | CurrentLocation::Directory(_), None) => return Vec::new(),
        };
        let mut paths: Vec<String> = pairs(properties)
            .filter(|(path, value)| recorded_properties.had_value(path, value) != Some(true))
            .map(|(path, _)| path.to_owned())
            .collect();
        let removed_paths =
            recorded_properties.paths().filter(|path| !properties.iter().any(|(name, _)| name == path));
        paths.extend(removed_paths.map(str::to_owned));
        paths.sort();
        paths
    }
}

fn pairs(properties: &[(String, String)]) -> impl Iterator<Item = (&str, &str)> {
    properties.iter().map(|(path, value)| (path.as_str(), value.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_changed_new_and_missing_properties() {
        let properties = |pairs: &[(&str, &str)]| {
            let to_owned_pair = |(path, value): &(&str, &str)| ((*path).to_owned(), (*value).to_owned());
            CurrentLocation::Properties(pairs.iter().map(to_owned_pair).collect())
        };
        let properties_before = properties(&[("aws/region", "\"eu\""), ("aws/old", "1"), ("aws/same", "2")]);
        let location = CpiLocation::of(None, &properties_before).unwrap();
        assert!(location.matches(&properties_before));
        let properties_after = properties(&[("aws/region", "\"us\""), ("aws/new", "1"), ("aws/same", "2")]);
        assert_eq!(location.differences(&properties_after), ["aws/new", "aws/old", "aws/region"]);
        assert!(!location.matches(&properties_after));
        let text = serde_json::to_string(&location).unwrap();
        assert!(!text.contains("eu"), "{text}");
    }

    #[test]
    fn directory_is_recognised_by_its_id() {
        let a = CurrentLocation::Directory(Some("a".into()));
        let location = CpiLocation::of(None, &a).unwrap();
        assert!(location.matches(&a));
        assert!(!location.matches(&CurrentLocation::Directory(None)));
        assert!(!location.matches(&CurrentLocation::Directory(Some("b".into()))));
        assert_eq!(CpiLocation::of(None, &CurrentLocation::Directory(None)), None);
        let other_location = CurrentLocation::Properties(vec![("aws/region".into(), "1".into())]);
        assert_eq!(location.differences(&other_location), [OTHER_KIND_PROPERTY]);
        assert_eq!(CpiLocation::of(None, &other_location).unwrap().differences(&a), [OTHER_KIND_PROPERTY]);
    }
}
