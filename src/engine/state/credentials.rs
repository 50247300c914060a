//! The record of the credentials with which an environment was deployed, to notice a forgotten vars store.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::salted::Salt;
use manifest::VariableValue;

/// Salted digests of the values of declared variables, whatever their source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credentials {
    salt: Salt,
    digests: BTreeMap<String, String>,
    /// The variables whose values were not in the vars store: from flags, files or the environment.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    given: BTreeSet<String>,
    /// The path of the vars store, as a hint for the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vars_store: Option<String>,
}

impl Credentials {
    /// Computes the digests, with a new salt. Returns `None` if no variable has a value.
    pub fn of(values: &[VariableValue], vars_store: Option<String>) -> Option<Self> {
        let salt = Salt::fresh();
        let present = || values.iter().filter_map(|variable| Some((variable, variable.value.as_ref()?)));
        let digests: BTreeMap<String, String> = present()
            .map(|(variable, value)| (variable.name.clone(), salt.digest(&variable.name, value)))
            .collect();
        let given = present()
            .filter(|(variable, _)| !variable.stored)
            .map(|(variable, _)| variable.name.clone())
            .collect();
        (!digests.is_empty()).then_some(Credentials { salt, digests, given, vars_store })
    }

    /// Returns the names of the variables among `values` whose values differ from the record or are missing.
    pub fn changed<'v>(&self, values: &'v [VariableValue]) -> Vec<&'v str> {
        let has_changed = |variable: &&VariableValue| self.had_value(variable) != Some(true);
        self.recorded(values).filter(has_changed).map(|variable| variable.name.as_str()).collect()
    }

    /// Returns the names of the variables whose source is missing in this run. These are all variables that
    /// were in the vars store, or all that were given in another way, if each of them would be generated
    /// again.
    pub fn forgotten<'v>(&self, values: &'v [VariableValue]) -> Vec<&'v str> {
        let groups = [false, true].map(|given| {
            let group = self.recorded(values).filter(|variable| self.given.contains(&variable.name) == given);
            let group: Vec<&VariableValue> = group.collect();
            match group.iter().all(|variable| variable.value.is_none()) {
                true => group,
                false => Vec::new(),
            }
        });
        groups.concat().into_iter().map(|variable| variable.name.as_str()).collect()
    }

    /// Returns true if the variable was in the vars store.
    pub fn was_stored(&self, name: &str) -> bool {
        self.digests.contains_key(name) && !self.given.contains(name)
    }

    fn recorded<'v>(&self, values: &'v [VariableValue]) -> impl Iterator<Item = &'v VariableValue> {
        values.iter().filter(|variable| self.digests.contains_key(&variable.name))
    }

    /// Returns true if the variable had its current value; `None` if it has no value.
    fn had_value(&self, variable: &VariableValue) -> Option<bool> {
        let value = variable.value.as_ref()?;
        Some(self.digests.get(&variable.name) == Some(&self.salt.digest(&variable.name, value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(all: &[(&str, Option<&str>, bool)]) -> Vec<VariableValue> {
        let variable = |(name, value, stored): &(&str, Option<&str>, bool)| VariableValue {
            name: (*name).to_owned(),
            value: value.map(str::to_owned),
            stored: *stored,
        };
        all.iter().map(variable).collect()
    }

    #[test]
    fn digests_reveal_no_value_but_show_changes() {
        let deployed = values(&[("a", Some("hunter2"), true), ("b", Some("2"), true), ("c", None, false)]);
        let record = Credentials::of(&deployed, Some("/vars.yml".into())).unwrap();
        assert!(!serde_json::to_string(&record).unwrap().contains("hunter2"));
        assert_eq!(record.changed(&deployed), Vec::<&str>::new());
        let now = values(&[("a", Some("hunter3"), true), ("b", None, false), ("c", Some("3"), true)]);
        assert_eq!(record.changed(&now), ["a", "b"], "c had no value");
        assert_eq!(record.forgotten(&now), Vec::<&str>::new());
        assert_eq!(Credentials::of(&values(&[("a", None, false)]), None), None);
    }

    #[test]
    fn vars_store_is_missing_if_all_its_values_are() {
        let deployed = values(&[("a", Some("1"), true), ("b", Some("2"), true), ("c", Some("3"), false)]);
        let record = Credentials::of(&deployed, None).unwrap();
        let forgotten = |all: &[(&str, Option<&str>, bool)]| record.forgotten(&values(all)).join(" ");
        let given = ("c", Some("3"), false);
        assert_eq!(forgotten(&[("a", None, false), ("b", None, false), given]), "a b");
        assert_eq!(forgotten(&[("a", None, false), ("b", None, false), ("c", None, false)]), "a b c");
        assert_eq!(forgotten(&[("a", Some("1"), true), ("b", Some("2"), true), ("c", None, false)]), "c");
        // A value that differs, or is given in another way, shows that the operator did not forget it.
        assert_eq!(forgotten(&[("a", Some("9"), false), ("b", None, false), given]), "");
        // A variable that is no longer declared does not count.
        assert_eq!(forgotten(&[("b", None, false), given]), "b");
        assert_eq!(forgotten(&[given]), "");
    }
}
