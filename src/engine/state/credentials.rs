//! The record of the credentials with which an environment was deployed, to notice a forgotten or another
//! vars store.

use std::collections::{BTreeMap, BTreeSet};

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::salted_digests::Salt;
use base::redact::Redactor;
use manifest::{LoadedManifest, VariableValue};

/// The values of the declared variables in a run.
#[derive(Debug, Clone, Default)]
pub struct RunCredentials {
    /// The variables that are declared with a type, with their values.
    pub values: Vec<VariableValue>,
    /// The absolute path of the vars store, because another run may have another working directory.
    pub vars_store: Option<String>,
}

impl RunCredentials {
    /// Combines the values with the vars store in use.
    pub fn new(values: &[VariableValue], vars_store: Option<&Path>) -> Self {
        let absolute = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let vars_store = vars_store.map(|path| absolute(path).display().to_string());
        RunCredentials { values: values.to_vec(), vars_store }
    }
}

impl From<&LoadedManifest> for RunCredentials {
    fn from(manifest: &LoadedManifest) -> Self {
        RunCredentials::new(&manifest.values, manifest.vars_store.as_deref())
    }
}

/// The minimum number of values that differ before they seem to come from another source. One value alone may
/// have been changed on purpose.
const MIN_DIFFERING_VALUES: usize = 2;
/// The minimum number of values that differ for each value that is as deployed.
const DIFFERING_FOR_EACH_UNCHANGED: usize = 3;

/// Salted digests of the values of declared variables from all sources.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CredentialDigests {
    salt: Salt,
    digests: BTreeMap<String, String>,
    /// The variables whose values were not in the vars store: from options, files or the environment.
    #[serde(default, alias = "given", skip_serializing_if = "BTreeSet::is_empty")]
    given_names: BTreeSet<String>,
    /// The path of the vars store, as a hint for the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vars_store: Option<String>,
}

impl CredentialDigests {
    /// Computes the digests, with a new salt. Returns `None` if no variable has a value.
    pub fn of(run_credentials: &RunCredentials) -> Option<Self> {
        let salt = Salt::fresh();
        let present_values = || {
            run_credentials.values.iter().filter_map(|variable| Some((variable, variable.value.as_ref()?)))
        };
        let digests: BTreeMap<String, String> = present_values()
            .map(|(variable, value)| (variable.name.clone(), salt.digest(&variable.name, value)))
            .collect();
        let given_names = present_values()
            .filter(|(variable, _)| !variable.is_stored)
            .map(|(variable, _)| variable.name.clone())
            .collect();
        let vars_store = run_credentials.vars_store.clone();
        (!digests.is_empty()).then_some(CredentialDigests { salt, digests, given_names, vars_store })
    }

    /// Returns the names of the variables among `values` whose values differ from the record or are missing.
    pub fn changed_names<'v>(&self, values: &'v [VariableValue]) -> Vec<&'v str> {
        let has_changed = |variable: &&VariableValue| self.had_value(variable) != Some(true);
        self.recorded_variables(values).filter(has_changed).map(|variable| variable.name.as_str()).collect()
    }

    /// Returns the names of the variables whose source is missing in this run. These are all variables that
    /// were in the vars store, or all that were given in another way, if each of them would be generated
    /// again.
    pub fn names_with_missing_source<'v>(&self, values: &'v [VariableValue]) -> Vec<&'v str> {
        self.names_by_source(values, |group| match group.iter().all(|variable| variable.value.is_none()) {
            true => group,
            false => Vec::new(),
        })
    }

    /// Returns the names of all variables without a value if the VM's agent would refuse a new value of one.
    pub fn missing_names_for_agent<'v>(&self, values: &'v [VariableValue]) -> Vec<&'v str> {
        let missing_variables: Vec<&VariableValue> =
            self.recorded_variables(values).filter(|variable| variable.value.is_none()).collect();
        match missing_variables.iter().any(|variable| variable.is_for_agent) {
            true => missing_variables.iter().map(|variable| variable.name.as_str()).collect(),
            false => Vec::new(),
        }
    }

    /// Returns the names of the variables that seem to come from another source than the deployed ones, such
    /// as the vars store of another environment: nearly all values of a source differ. Rotated values do not
    /// count, because only the right vars store keeps their earlier values.
    pub fn names_from_other_source<'v>(&self, values: &'v [VariableValue]) -> Vec<&'v str> {
        self.names_by_source(values, |group| {
            let (unchanged_variables, differing_variables): (Vec<&VariableValue>, Vec<&VariableValue>) =
                group
                    .into_iter()
                    .filter(|variable| variable.value.is_some())
                    .partition(|variable| self.had_value(variable) == Some(true));
            let differing_variables: Vec<_> =
                differing_variables.into_iter().filter(|variable| !variable.was_rotated).collect();
            match differing_variables.len()
                >= MIN_DIFFERING_VALUES.max(DIFFERING_FOR_EACH_UNCHANGED * unchanged_variables.len())
            {
                true => differing_variables,
                false => Vec::new(),
            }
        })
    }

    /// Returns the names of the variables that an agent with the deployed credentials may not accept: they
    /// differ, and no rotation kept their earlier values.
    pub fn names_unknown_to_agent<'v>(&self, values: &'v [VariableValue]) -> Vec<&'v str> {
        let has_changed =
            |variable: &&VariableValue| !variable.was_rotated && self.had_value(variable) != Some(true);
        self.recorded_variables(values).filter(has_changed).map(|variable| variable.name.as_str()).collect()
    }

    /// Returns hints about how to pass the deployed value of a variable in place of the given one. The record
    /// may be missing.
    pub fn hints_to_pass(
        record: Option<&Self>,
        name: &str,
        run_credentials: &RunCredentials,
        redactor: &Redactor,
    ) -> Vec<String> {
        let path =
            record.filter(|record| record.was_stored(name)).and_then(|record| record.vars_store.as_ref());
        for path in path.into_iter().chain(&run_credentials.vars_store) {
            let path = Path::new(path);
            redactor.exempt_path(path);
            path.file_name().into_iter().for_each(|name| redactor.exempt_path(Path::new(name)));
        }
        match path {
            Some(path) if !Path::new(path).exists() => vec![
                "if the vars store of the last deploy was moved: `monopile SAME-COMMAND --vars-store FILE`"
                    .to_owned(),
                format!("otherwise restore '{path}' from a backup"),
            ],
            Some(path) if run_credentials.vars_store.as_ref() == Some(path) => vec![format!(
                "put the deployed values back into the vars store '{path}', or restore it from a backup"
            )],
            Some(path) => {
                vec![manifest::pass_file_hint("the vars store of the last deploy", "--vars-store", path)]
            }
            None => vec![
                "pass them as for the last deploy (--vars-store, --vars-file, --var, --var-file, \
                 --vars-exec or --vars-env)"
                    .to_owned(),
            ],
        }
    }

    /// Applies `choose` to the variables that were in the vars store, then to those that were given in
    /// another way, and returns the names of its results.
    fn names_by_source<'v>(
        &self,
        values: &'v [VariableValue],
        choose: impl Fn(Vec<&'v VariableValue>) -> Vec<&'v VariableValue>,
    ) -> Vec<&'v str> {
        let choose_from_source = |is_given| {
            let is_of_source =
                |variable: &&VariableValue| self.given_names.contains(&variable.name) == is_given;
            choose(self.recorded_variables(values).filter(is_of_source).collect())
        };
        [false, true]
            .map(choose_from_source)
            .concat()
            .into_iter()
            .map(|variable| variable.name.as_str())
            .collect()
    }

    /// Returns true if the variable was in the vars store.
    pub fn was_stored(&self, name: &str) -> bool {
        self.digests.contains_key(name) && !self.given_names.contains(name)
    }

    fn recorded_variables<'v>(&self, values: &'v [VariableValue]) -> impl Iterator<Item = &'v VariableValue> {
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

    fn values(variables: &[(&str, Option<&str>, bool)]) -> Vec<VariableValue> {
        let variable = |(name, value, is_stored): &(&str, Option<&str>, bool)| VariableValue {
            name: (*name).to_owned(),
            value: value.map(str::to_owned),
            is_stored: *is_stored,
            was_rotated: false,
            is_for_agent: false,
        };
        variables.iter().map(variable).collect()
    }

    fn digests_of(values: &[VariableValue]) -> Option<CredentialDigests> {
        CredentialDigests::of(&RunCredentials::new(values, Some(Path::new("/nowhere/vars.yml"))))
    }

    #[test]
    fn digests_reveal_no_value_but_show_changes() {
        let deployed_values =
            values(&[("a", Some("hunter2"), true), ("b", Some("2"), true), ("c", None, false)]);
        let record = digests_of(&deployed_values).unwrap();
        assert!(!serde_json::to_string(&record).unwrap().contains("hunter2"));
        assert_eq!(record.changed_names(&deployed_values), Vec::<&str>::new());
        let now = values(&[("a", Some("hunter3"), true), ("b", None, false), ("c", Some("3"), true)]);
        assert_eq!(
            record.changed_names(&now),
            ["a", "b"],
            "a variable without a deployed value counts as changed"
        );
        assert_eq!(record.names_with_missing_source(&now), Vec::<&str>::new());
        assert_eq!(digests_of(&values(&[("a", None, false)])), None);
    }

    #[test]
    fn vars_store_is_missing_if_all_its_values_are() {
        let deployed_values =
            values(&[("a", Some("1"), true), ("b", Some("2"), true), ("c", Some("3"), false)]);
        let record = digests_of(&deployed_values).unwrap();
        let missing_names = |variables: &[(&str, Option<&str>, bool)]| {
            record.names_with_missing_source(&values(variables)).join(" ")
        };
        let given_value = ("c", Some("3"), false);
        assert_eq!(missing_names(&[("a", None, false), ("b", None, false), given_value]), "a b");
        assert_eq!(missing_names(&[("a", None, false), ("b", None, false), ("c", None, false)]), "a b c");
        assert_eq!(missing_names(&[("a", Some("1"), true), ("b", Some("2"), true), ("c", None, false)]), "c");
        // A value that differs, or is given in another way, shows that the operator did not forget it.
        assert_eq!(missing_names(&[("a", Some("9"), false), ("b", None, false), given_value]), "");
        // A variable that is no longer declared does not count.
        assert_eq!(missing_names(&[("b", None, false), given_value]), "b");
        assert_eq!(missing_names(&[given_value]), "");
    }

    #[test]
    fn values_are_foreign_if_nearly_all_of_a_source_differ() {
        let all = ["a", "b", "c", "d", "e"];
        let stored_values =
            |value: &'static str, names: &[&'static str]| -> Vec<(&str, Option<&str>, bool)> {
                names.iter().map(|name| (*name, Some(value), true)).collect()
            };
        let given_value = |value| ("g", Some(value), false);
        let deployed_values = values(&[stored_values("old", &all), vec![given_value("old")]].concat());
        let record = digests_of(&deployed_values).unwrap();
        let foreign_names = |now: Vec<(&'static str, Option<&'static str>, bool)>| {
            record.names_from_other_source(&values(&now)).join(" ")
        };
        assert_eq!(foreign_names(stored_values("old", &all)), "");
        assert_eq!(
            foreign_names([stored_values("new", &all), vec![given_value("old")]].concat()),
            "a b c d e"
        );
        assert_eq!(
            foreign_names([stored_values("new", &all[..4]), stored_values("old", &all[4..])].concat()),
            "a b c d"
        );
        assert_eq!(
            foreign_names([stored_values("new", &all[..3]), stored_values("old", &all[3..])].concat()),
            ""
        );
        // A single value may have been changed on purpose, and missing ones would be generated.
        assert_eq!(foreign_names(vec![("a", Some("new"), true), ("b", None, false), given_value("new")]), "");
        assert_eq!(foreign_names(vec![("a", Some("new"), true), ("b", Some("new"), true)]), "a b");
        let mut rotated_values = values(&stored_values("new", &["a", "b"]));
        rotated_values.iter_mut().for_each(|variable| variable.was_rotated = true);
        assert_eq!(record.names_from_other_source(&rotated_values), Vec::<&str>::new());
        assert_eq!(record.changed_names(&rotated_values), ["a", "b"]);
        assert_eq!(record.names_unknown_to_agent(&rotated_values), Vec::<&str>::new());
    }
}
