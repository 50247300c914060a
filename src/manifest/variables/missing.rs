//! Collects missing variables and missing parts of their values, so that one error reports them all.

use std::collections::{BTreeMap, BTreeSet};

use base::Error;
use base::error::{did_you_mean_question, differ_slightly, nearest};
use yaml::Position;

/// The variables without a value, and the references to parts that a value lacks.
#[derive(Debug, Default)]
pub struct MissingVariables {
    variables: BTreeMap<String, MissingVariable>,
    parts: Vec<MissingPart>,
}

/// A variable without a value.
#[derive(Debug, Default)]
struct MissingVariable {
    /// The positions of the references to it.
    positions: Vec<Position>,
    /// The variable whose definition refers to it.
    needed_by: Option<String>,
    /// True if the definition of `needed_by` names this variable as its CA, and nothing declares it.
    is_unknown_ca: bool,
}

/// A reference to a part that the value of its variable lacks.
#[derive(Debug)]
struct MissingPart {
    reference: String,
    position: Position,
    message: String,
    /// The note with the variable and its file.
    note: Option<String>,
}

/// The maximum number of places that an error shows for one missing variable.
const MAX_SHOWN_POSITIONS: usize = 3;

impl MissingVariables {
    /// Adds a variable without a value, referred to at `position`. `needed_by` is the variable whose
    /// definition refers to it.
    pub fn add_variable(&mut self, name: &str, position: &Position, needed_by: Option<&str>) {
        let entry = self.variables.entry(name.to_owned()).or_default();
        if !entry.positions.contains(position) {
            entry.positions.push(position.clone());
        }
        if entry.needed_by.is_none() {
            entry.needed_by = needed_by.map(str::to_owned);
        }
    }

    /// Notes that the definition which refers to this variable names it as its CA, and that nothing declares
    /// it.
    pub(super) fn mark_unknown_ca(&mut self, name: &str) {
        self.variables.entry(name.to_owned()).or_default().is_unknown_ca = true;
    }

    /// Adds a reference to a part that its variable's value lacks. `note` names the variable and its file.
    pub(super) fn add_part(
        &mut self,
        reference: &str,
        position: &Position,
        message: String,
        note: Option<String>,
    ) {
        let (reference, position) = (reference.to_owned(), position.clone());
        self.parts.push(MissingPart { reference, position, message, note });
    }

    /// Returns true if this variable is missing.
    pub fn contains(&self, name: &str) -> bool {
        self.variables.contains_key(name)
    }

    /// Returns the variables without a value.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.variables.keys().map(String::as_str)
    }

    /// Returns the variables to which the operator can give a value. Leaves out variables that are generated
    /// from them, and unknown CAs.
    pub(super) fn names_to_give(&self) -> impl Iterator<Item = &str> {
        self.causes().filter(|(_, entry)| !entry.is_unknown_ca).map(|(name, _)| name)
    }

    /// Returns the missing variables that are causes: without those that lack a value only because another
    /// variable lacks its value.
    fn causes(&self) -> impl Iterator<Item = (&str, &MissingVariable)> {
        let dependent_names: BTreeSet<&str> =
            self.variables.values().filter_map(|entry| entry.needed_by.as_deref()).collect();
        let all = self.variables.iter().map(|(name, entry)| (name.as_str(), entry));
        all.filter(move |(name, _)| !dependent_names.contains(name))
    }

    /// Returns one error that lists the missing variables and parts, or `None` if nothing is missing. Without
    /// `reports_variables`, lists only the parts.
    ///
    /// `similar_variable` returns the variable to suggest for a name.
    pub fn error<'a>(
        &self,
        reports_variables: bool,
        similar_variable: impl Fn(&str) -> Option<&'a str>,
    ) -> Option<Error> {
        let mut problems: Vec<MissingProblem> = Vec::new();
        if reports_variables {
            // A declared variable has no value if a variable that it needs has none. The error names only the
            // needed variable.
            problems.extend(self.causes().map(|(name, entry)| {
                let hint = similar_variable(name)
                    .map(|suggestion| format!("; {}", did_you_mean_question(suggestion)));
                entry.describe(name, &hint.unwrap_or_default())
            }));
        }
        let variable_count = problems.len();
        problems.extend(self.parts.iter().map(|MissingPart { reference, position, message, .. }| {
            let place = position.describe();
            MissingProblem {
                headline: format!("{place}: (({reference})): {message}"),
                line: format!("(({reference})) at {place}: {message}"),
            }
        }));
        let title = match (variable_count, self.parts.len()) {
            (count, 0) => format!("{count} variables have no value"),
            (0, count) => format!("{count} references name parts that their variables do not have"),
            (..) => format!("{} references cannot be resolved", problems.len()),
        };
        let message = match problems.as_slice() {
            [] => return None,
            [problem] => problem.headline.clone(),
            problems => {
                let lines: Vec<&str> = problems.iter().map(|problem| problem.line.as_str()).collect();
                return Some(self.with_notes(Error::invalid(format!("{title}:\n  {}", lines.join("\n  ")))));
            }
        };
        Some(self.with_notes(Error::from_problem(&message)))
    }

    fn with_notes(&self, error: Error) -> Error {
        self.parts.iter().filter_map(|part| part.note.clone()).fold(error, Error::with_note)
    }
}

/// A problem as the only one of an error, and as a line of a list.
struct MissingProblem {
    headline: String,
    line: String,
}

/// Returns the one of `known_names` that `name` may stand for. One for which `is_used` returns true must
/// differ only slightly, because the manifest refers to it elsewhere.
pub(super) fn similar_variable<'a>(
    name: &str,
    known_names: impl Iterator<Item = &'a str>,
    is_used: impl Fn(&str) -> bool,
) -> Option<&'a str> {
    nearest(name, known_names.filter(|known_name| !is_used(known_name) || differ_slightly(name, known_name)))
}

impl MissingVariable {
    fn describe(&self, name: &str, hint: &str) -> MissingProblem {
        let mut places: Vec<String> =
            self.positions.iter().take(MAX_SHOWN_POSITIONS).map(Position::describe).collect();
        if self.positions.len() > MAX_SHOWN_POSITIONS {
            places.push(match self.positions.len() - MAX_SHOWN_POSITIONS {
                1 => "1 more place".to_owned(),
                hidden_count => format!("{hidden_count} more places"),
            });
        }
        let (first_place, other_places) = match places.split_first() {
            Some((first, rest)) => (first.as_str(), rest),
            None => ("", &[][..]),
        };
        if let (true, Some(dependent)) = (self.is_unknown_ca, &self.needed_by) {
            let text = format!("variable '{dependent}' names the CA '{name}', which does not exist{hint}");
            let headline = format!("{first_place}: {text}");
            return MissingProblem { line: headline.clone(), headline };
        }
        let purpose = self
            .needed_by
            .as_ref()
            .map(|dependent| format!(", needed to generate variable '{dependent}'"))
            .unwrap_or_default();
        let more_places = match other_places {
            [] => String::new(),
            places => format!(" (also at {})", places.join(", ")),
        };
        MissingProblem {
            headline: format!("{first_place}: (({name})) has no value{more_places}{purpose}{hint}"),
            line: format!("(({name})) at {}{purpose}{hint}", places.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_lists_all_missing_variables_with_suggestions() {
        let mut missing = MissingVariables::default();
        let position =
            |line| Position { source: Some(std::sync::Arc::new("bosh.yml".into())), line, column: 5 };
        missing.add_variable("internal_ipp", &position(3), None);
        missing.add_variable("internal_ipp", &position(9), None);
        missing.add_variable("domain", &position(4), Some("tls"));
        let similar_used =
            |name: &str| similar_variable(name, ["internal_ip", "region"].into_iter(), |_| true);
        let error = missing.error(true, similar_used).unwrap();
        assert_eq!(
            error.to_string(),
            "2 variables have no value:\n  ((domain)) at bosh.yml:4:5, needed to generate variable 'tls'\n  \
             ((internal_ipp)) at bosh.yml:3:5, bosh.yml:9:5; did you mean 'internal_ip'?"
        );
        missing.add_variable("tls", &position(5), None);
        let similar_unused = |name: &str| similar_variable(name, ["tls"].into_iter(), |_| false);
        let error = missing.error(true, similar_unused).unwrap();
        assert!(
            error.to_string().starts_with("2 variables") && !error.to_string().contains("((tls))"),
            "{error}"
        );
        assert!(missing.error(false, |_| None).is_none());
        assert_eq!(missing.names_to_give().collect::<Vec<_>>(), ["domain", "internal_ipp"]);
    }

    #[test]
    fn single_problem_is_the_message() {
        let position =
            |line| Position { source: Some(std::sync::Arc::new("bosh.yml".into())), line, column: 5 };
        let mut missing = MissingVariables::default();
        missing.add_variable("ip", &position(3), None);
        missing.add_variable("ip", &position(9), None);
        let error = missing.error(true, |_| Some("ips")).unwrap();
        assert_eq!(error.to_string(), "bosh.yml:3:5: ((ip)) has no value (also at bosh.yml:9:5)");
        assert_eq!(error.hints(), ["did you mean 'ips'?"]);
        let mut missing = MissingVariables::default();
        missing.add_variable("tls", &position(2), None);
        missing.add_variable("defalt_ca", &position(4), Some("tls"));
        missing.mark_unknown_ca("defalt_ca");
        let error = missing.error(true, |_| None).unwrap().to_string();
        assert_eq!(error, "bosh.yml:4:5: variable 'tls' names the CA 'defalt_ca', which does not exist");
        assert_eq!(missing.names_to_give().count(), 0);
        let mut missing = MissingVariables::default();
        missing.add_part("tls.cert", &position(2), "there is no key 'cert'".to_owned(), None);
        let error = missing.error(true, |_| None).unwrap().to_string();
        assert_eq!(error, "bosh.yml:2:5: ((tls.cert)): there is no key 'cert'");
    }

    #[test]
    fn used_name_is_suggested_only_if_it_differs_slightly() {
        for (name, known_name, expected) in [
            ("mbus_bootstrap_tls", "mbus_bootstrap_ssl", true),
            ("internal_ipp", "internal_ip", true),
            // Manifests use both of these.
            ("internal_gw", "internal_ip", false),
        ] {
            let suggestion = similar_variable(name, [known_name].into_iter(), |_| true);
            assert_eq!(suggestion.is_some(), expected, "{name}");
            assert_eq!(similar_variable(name, [known_name].into_iter(), |_| false), Some(known_name));
        }
    }
}
