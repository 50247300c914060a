//! Reads fields of a YAML tree and collects all problems, so that one error reports them together.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value};

use crate::node_kind::kind_with_article;
use crate::variables::VariableOrigin;
use base::Error;
use base::error::split_suggestion;
use yaml::{Data, Node, Position};

/// The maximum length of a value in a problem.
const MAX_QUOTED_BYTES: usize = 40;

/// The problems found so far, with their places, and hints to correct them.
#[derive(Default)]
pub(super) struct Problems {
    list: Vec<(Position, String)>,
    hints: Vec<String>,
}

/// The problems of a document, in the order of their lines. The cause of an error.
#[derive(Debug, Clone)]
pub(super) struct ProblemList {
    /// The document, in messages.
    source_name: String,
    problems: Vec<(Position, String)>,
}

impl ProblemList {
    /// Returns the error with all problems. A single problem is the message itself.
    fn into_error(self) -> Error {
        let source_name = &self.source_name;
        let title = match self.problems.as_slice() {
            [] => format!("{source_name} is not valid"),
            // The cause is the same text, which is shown once.
            [(_, problem)] => problem.clone(),
            problems => format!("{source_name} is not valid: {} problems", problems.len()),
        };
        Error::from_problem(&title).with_source(self)
    }

    /// Adds to the error of a document the variables that the values with problems come from. `origin`
    /// returns the variable whose value is at a position.
    pub(super) fn with_origins(error: Error, origin: impl Fn(&Position) -> Option<VariableOrigin>) -> Error {
        let Some(list) = std::error::Error::source(&error).and_then(|cause| cause.downcast_ref::<Self>())
        else {
            return error;
        };
        let origins = list.problems.iter().filter_map(|(position, _)| origin(position));
        let origins: BTreeMap<String, VariableOrigin> =
            origins.map(|origin| (origin.name.clone(), origin)).collect();
        if origins.is_empty() {
            return error;
        }
        let source_name = format!("{} with its variables", list.source_name);
        let list_error = ProblemList { source_name, ..list.clone() }.into_error().with_advice_of(&error);
        origins.values().fold(list_error, |error, origin| origin.explain(error))
    }
}

impl fmt::Display for ProblemList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.problems.as_slice() {
            [(_, problem)] => f.write_str(split_suggestion(problem).0),
            problems => {
                let problems: Vec<&str> = problems.iter().map(|(_, problem)| problem.as_str()).collect();
                f.write_str(&problems.join("\n"))
            }
        }
    }
}

impl std::error::Error for ProblemList {}

impl Problems {
    /// Adds a problem with the node at `path`.
    pub(super) fn add(&mut self, node: &Node, path: &str, problem: impl std::fmt::Display) {
        self.push(&node.position, &format!("`{path}` {problem}"));
    }

    /// Adds a problem with a document itself.
    pub(super) fn add_to_document(&mut self, root: &Node, problem: &str) {
        self.push(&root.position, problem);
    }

    /// Adds a problem once, because an entry may be read more than once.
    fn push(&mut self, position: &Position, problem: &str) {
        let problem = (position.clone(), format!("{}: {problem}", position.describe()));
        if !self.list.contains(&problem) {
            self.list.push(problem);
        }
    }

    /// Adds a hint once.
    pub(super) fn add_hint(&mut self, hint: String) {
        if !self.hints.contains(&hint) {
            self.hints.push(hint);
        }
    }

    /// Returns `value`, or one error with all problems of the manifest.
    pub(super) fn into_result<T>(self, value: Option<T>) -> base::Result<T> {
        self.into_result_of("the manifest", value)
    }

    /// Returns `value`, or one error with all problems of the document that messages call `source_name`. They
    /// are in the order of their lines.
    pub(super) fn into_result_of<T>(mut self, source_name: &str, value: Option<T>) -> base::Result<T> {
        self.list.sort_by(|(one, _), (other, _)| {
            (&one.source, one.line, one.column).cmp(&(&other.source, other.line, other.column))
        });
        match value {
            Some(value) if self.list.is_empty() => Ok(value),
            _ => {
                let list = ProblemList { source_name: source_name.to_owned(), problems: self.list };
                Err(list.into_error().with_hints(self.hints))
            }
        }
    }
}

/// A node with its path.
#[derive(Clone)]
pub(super) struct Field<'a> {
    /// The node, of any kind.
    pub(super) node: &'a Node,
    /// The path as shown to the operator: `instance_groups[0].jobs[1]`.
    pub(super) path: String,
}

impl<'a> Field<'a> {
    pub(super) fn root(node: &'a Node) -> Self {
        Field { node, path: String::new() }
    }

    fn join(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// Returns the field under a key, or `None` if it is absent or null.
    pub(super) fn get(&self, key: &str) -> Option<Field<'a>> {
        let node = self.node.get(key).filter(|node| !node.is_null())?;
        Some(Field { node, path: self.join(key) })
    }

    /// Returns the place of the field: its position and its path, such as "m.yml:3:3: `name`".
    pub(super) fn place(&self) -> String {
        format!("{}: `{}`", self.node.position.describe(), self.path)
    }

    /// Adds a problem with this field.
    pub(super) fn add_problem(&self, problems: &mut Problems, problem: impl std::fmt::Display) {
        match self.path.as_str() {
            "" => problems.push(&self.node.position, &format!("the manifest {problem}")),
            path => problems.add(self.node, path, problem),
        }
    }

    /// Adds a problem with this field, at the position of the value under a key.
    pub(super) fn add_problem_at(&self, key: &str, problems: &mut Problems, problem: impl std::fmt::Display) {
        let node = self.node.get(key).unwrap_or(self.node);
        Field { node, path: self.path.clone() }.add_problem(problems, problem);
    }

    fn add_missing(&self, key: &str, problems: &mut Problems) {
        let owner = Field { node: self.node, path: self.path.clone() };
        owner.add_problem(problems, format!("needs `{key}: {}`", key.to_uppercase()));
    }

    /// Adds the problem that this field is not `expected`.
    pub(super) fn add_mismatch(&self, expected: &str, problems: &mut Problems) {
        self.add_problem(problems, format!("must be {expected}, not {}", kind_with_article(self.node)));
    }

    /// Returns true if the field is a mapping, and otherwise adds a problem.
    pub(super) fn check_mapping(&self, problems: &mut Problems) -> bool {
        let is_mapping = self.node.as_map().is_some();
        match is_mapping {
            true => {}
            false if self.path.is_empty() => {
                match self.node.is_null() {
                    true => self.add_problem(problems, "is empty"),
                    false => self.add_mismatch("a mapping", problems),
                }
                problems.add_hint("for an example: `monopile example hello`".to_owned());
            }
            false => self.add_mismatch("a mapping", problems),
        }
        is_mapping
    }

    /// Returns the text of a scalar. Numbers and booleans become text, as in the bosh CLI.
    pub(super) fn text(&self, problems: &mut Problems) -> Option<String> {
        match &self.node.data {
            Data::String(text) => Some(text.as_str().to_owned()),
            Data::Int(int) => Some(int.to_string()),
            Data::UInt(int) => Some(int.to_string()),
            Data::Float(float) => Some(float.to_string()),
            Data::Bool(flag) => Some(flag.to_string()),
            _ => {
                self.add_mismatch("a string", problems);
                None
            }
        }
    }

    /// Returns the text under a key, if the key exists.
    pub(super) fn optional_text(&self, key: &str, problems: &mut Problems) -> Option<String> {
        self.get(key)?.text(problems)
    }

    /// Returns the text under a required key. Text of whitespace alone is also a problem.
    pub(super) fn required_text(&self, key: &str, problems: &mut Problems) -> Option<String> {
        match self.get(key) {
            None => {
                self.add_missing(key, problems);
                None
            }
            Some(field) => {
                let text = field.text(problems)?;
                if text.trim().is_empty() {
                    field.add_problem(problems, "must not be blank");
                    return None;
                }
                Some(text)
            }
        }
    }

    /// Returns the integer under a key, if the key exists. A number below `minimum` is a problem.
    pub(super) fn optional_number(&self, key: &str, minimum: i64, problems: &mut Problems) -> Option<i64> {
        self.whole_number(key, minimum, "a whole number", "", problems)
    }

    /// Returns the size in MiB under a key, if the key exists. A size below `minimum` is a problem.
    pub(super) fn optional_mebibytes(&self, key: &str, minimum: i64, problems: &mut Problems) -> Option<i64> {
        self.whole_number(key, minimum, "a whole number of MiB", ", such as 1024", problems)
    }

    /// Returns the integer under a key, if the key exists. `expected` describes it, and an example follows
    /// that.
    fn whole_number(
        &self,
        key: &str,
        minimum: i64,
        expected: &str,
        example: &str,
        problems: &mut Problems,
    ) -> Option<i64> {
        let field = self.get(key)?;
        match field.node.as_i64() {
            Some(number) if number >= minimum => Some(number),
            Some(number) => {
                field.add_problem(problems, format!("must be at least {minimum}, not {number}"));
                None
            }
            None => {
                match field.node.as_str().filter(|text| text.len() <= MAX_QUOTED_BYTES) {
                    Some(text) if text.parse::<i64>().is_ok() => {
                        let problem = format!("must be {expected}, but '{text}' is text: remove its quotes");
                        field.add_problem(problems, problem);
                    }
                    Some(text) => {
                        field.add_problem(problems, format!("must be {expected}{example}, not '{text}'"));
                    }
                    None => field.add_mismatch(&format!("{expected}{example}"), problems),
                }
                None
            }
        }
    }

    /// Returns the fields of the sequence under a key; an absent key gives an empty list.
    pub(super) fn list(&self, key: &str, problems: &mut Problems) -> Vec<Field<'a>> {
        let Some(field) = self.get(key) else { return Vec::new() };
        match field.node.as_seq() {
            Some(items) => items
                .iter()
                .enumerate()
                .map(|(index, node)| Field { node, path: format!("{}[{index}]", field.path) })
                .collect(),
            None => {
                field.add_mismatch("a list", problems);
                Vec::new()
            }
        }
    }

    /// Returns the texts of the sequence under a key.
    pub(super) fn texts(&self, key: &str, problems: &mut Problems) -> Vec<String> {
        self.list(key, problems).iter().filter_map(|field| field.text(problems)).collect()
    }

    /// Returns the mapping under a key as JSON; an absent key gives an empty map.
    pub(super) fn object(&self, key: &str, problems: &mut Problems) -> Map<String, Value> {
        self.optional_object(key, problems).unwrap_or_default()
    }

    /// Returns the mapping under a key as JSON, if the key exists.
    pub(super) fn optional_object(&self, key: &str, problems: &mut Problems) -> Option<Map<String, Value>> {
        let field = self.get(key)?;
        if !field.check_mapping(problems) {
            return None;
        }
        match field.node.to_json() {
            Ok(Value::Object(object)) => Some(object),
            Ok(_) => None,
            Err(error) => {
                field.add_problem(problems, format!("cannot be used: {error}"));
                None
            }
        }
    }
}
