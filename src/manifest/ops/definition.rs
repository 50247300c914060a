//! Parses an ops file. All operations are checked before the first one runs.

use std::cell::OnceCell;
use std::path::Path as FilePath;

use super::apply;
use super::item_lookup::ItemLookup;
use super::path::{ParseError, Path};
use super::walk::PathError;
use crate::document_kind;
use crate::node_kind::kind_with_article;
use base::error::{did_you_mean, nearest};
use base::text::{and_list, shell_word};
use base::{Error, Result};
use yaml::{self, Data, MAX_DEPTH, Mapping, Node, Position};

/// The operations of one ops file, in order.
#[derive(Debug, Clone, Default)]
pub struct Ops {
    ops: Vec<Op>,
    warnings: Vec<String>,
}

/// One operation.
#[derive(Debug, Clone)]
pub struct Op {
    /// The number of the operation, from 1.
    number: usize,
    /// The `name` of the operation.
    name: Option<String>,
    /// The `error` text, shown when the operation fails.
    error: Option<String>,
    position: Position,
    path: Path,
    action: Action,
}

/// The action of an operation, with its value.
#[derive(Debug, Clone)]
enum Action {
    Replace(Node),
    Remove,
    TestValue(Node),
    TestAbsent,
}

impl Ops {
    /// Parses an ops file. An empty file has no operations.
    pub fn load(text: &str, source: &FilePath) -> Result<Ops> {
        let root = yaml::load(text, source)?;
        let items = match &root.data {
            Data::Null => &[],
            Data::Seq(items) => items.as_slice(),
            _ => {
                let path = source.to_string_lossy();
                let path = shell_word(&path);
                return Err(Error::invalid(format!(
                    "{}: an ops file must be a list of operations, not {}",
                    root.position.describe(),
                    kind_with_article(&root)
                ))
                .with_hint(match document_kind::variables_option(&root) {
                    None if document_kind::has_manifest_section(&root) => {
                        format!("it is a manifest: leave out `-o {path}`")
                    }
                    Some(option) => format!("it has variables: pass it with `{option} {path}`"),
                    None => "begin each operation with `- type: replace`, `- type: remove` or `- type: test`"
                        .to_owned(),
                }));
            }
        };
        let lines = OnceCell::<Vec<&str>>::new();
        let line = |number: usize| lines.get_or_init(|| text.lines().collect()).get(number).copied();
        let ops = items
            .iter()
            .enumerate()
            .map(|(index, item)| Op::read(item, index + 1, &line))
            .collect::<Result<_>>()?;
        let warnings = items.iter().enumerate().flat_map(|(index, item)| unknown_keys(item, index + 1));
        Ok(Ops { ops, warnings: warnings.collect() })
    }

    /// Returns warnings about unknown keys, which are ignored as in the bosh CLI.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns the number of operations.
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// Returns true if there are no operations.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Applies all operations in order.
    pub fn apply(&self, mut root: Node) -> Result<Node> {
        self.clone().apply_to(&mut root, &mut ItemLookup::default())?;
        Ok(root)
    }

    /// Applies all operations in place. `lookup` is that of the document. After an error, `root` keeps the
    /// changes of the earlier operations.
    pub(crate) fn apply_to(self, root: &mut Node, lookup: &mut ItemLookup) -> Result<()> {
        self.ops.into_iter().try_for_each(|op| op.apply(root, lookup))
    }
}

/// The keys of an operation.
const KNOWN_KEYS: [&str; 6] = ["type", "path", "value", "name", "error", "absent"];

/// Returns a warning for each unknown key of an operation.
fn unknown_keys(item: &Node, number: usize) -> Vec<String> {
    let keys = item.as_map().into_iter().flat_map(Mapping::iter).map(|(key, _)| key);
    let warning = |key: &Node| {
        let name = key.as_str().filter(|name| !KNOWN_KEYS.contains(name))?;
        let (place, hint) = (key.position.describe(), did_you_mean(name, KNOWN_KEYS));
        Some(format!("{place}: operation {number} has the unknown key '{name}', which is ignored{hint}"))
    };
    keys.filter_map(warning).collect()
}

/// Returns `; is 'pth' (POSITION) a misspelling?` for a misspelt key, or an empty text.
fn misspelling_note(map: &Mapping, expected_key: &str) -> String {
    let mut keys = map.iter().filter_map(|(key, _)| Some((key.as_str()?, &key.position)));
    let misspelt =
        keys.find(|(key, _)| !KNOWN_KEYS.contains(key) && nearest(key, KNOWN_KEYS) == Some(expected_key));
    misspelt.map_or_else(String::new, |(key, position)| {
        format!("; is '{key}' ({}) a misspelling?", position.describe())
    })
}

impl Op {
    /// Reads an operation. `line` returns a line of the file, by its index.
    fn read<'t>(item: &Node, number: usize, line: &dyn Fn(usize) -> Option<&'t str>) -> Result<Op> {
        let place = item.position.describe();
        let operation_error =
            |problem: String| Error::invalid(format!("{place}: operation {number} {problem}"));
        let Some(map) = item.as_map() else {
            return Err(operation_error(format!("is {}, not a mapping", kind_with_article(item))));
        };
        let text = |key: &str| -> Result<Option<String>> {
            map.get(key)
                .filter(|node| !node.is_null())
                .map(|node| {
                    let problem = || format!("needs a string as its {key}, not {}", kind_with_article(node));
                    scalar_text(node).ok_or_else(|| operation_error(problem()))
                })
                .transpose()
        };
        let kind = text("type")?;
        let known_types = ["replace", "remove", "test"];
        let kind = match kind.as_deref() {
            Some(kind) if known_types.contains(&kind) => kind,
            Some(kind) => {
                return Err(operation_error(format!("has an unknown type, '{kind}'")).with_nearest(
                    kind,
                    known_types,
                    || Some(format!("the types are {}", and_list(&known_types))),
                ));
            }
            None => {
                let suggestion = misspelling_note(map, "type");
                return Err(operation_error(format!("has no type (replace, remove or test){suggestion}")));
            }
        };
        let Some(path_text) = text("path")? else {
            return Err(operation_error(format!("({kind}) has no `path`{}", misspelling_note(map, "path"))));
        };
        let path: Path = path_text.parse().map_err(|error| {
            let has_slash = !matches!(error, ParseError::NoSlash);
            let error =
                operation_error(format!("({kind} {path_text}) has an invalid path")).with_source(error);
            if has_slash { error } else { error.with_hint(format!("write '/{path_text}'")) }
        })?;
        let operation = format!("({kind} {path_text})");
        let value = map.get("value").filter(|value| !value.is_null() || is_explicit_null(value, line));
        let action = match (kind, value) {
            ("replace", Some(value)) => Action::Replace(round_trip(value)),
            ("replace", None) => {
                let misspelling_note = misspelling_note(map, "value");
                let error = operation_error(format!("{operation} has no value{misspelling_note}"));
                return Err(match misspelling_note.is_empty() {
                    true => error.with_hint("add `value: VALUE`, or `value: null` for no value"),
                    false => error,
                });
            }
            ("remove", value) if value.is_none_or(Node::is_null) => Action::Remove,
            ("remove", _) => {
                return Err(operation_error(format!("{operation} has a value, but remove takes none")));
            }
            (_, value) => {
                let not_a_boolean_error =
                    |kind| operation_error(format!("{operation} needs true or false as absent, not {kind}"));
                match (read_absent(map).map_err(not_a_boolean_error)?, value) {
                    (Some(true), _) => Action::TestAbsent,
                    (_, Some(value)) => Action::TestValue(value.clone()),
                    (Some(false), None) => Action::TestValue(Data::Null.into()),
                    (None, None) => {
                        return Err(operation_error(format!("{operation} has neither value nor absent")));
                    }
                }
            }
        };
        if let Action::Replace(value) = &action
            && value.depth() + path.tokens().len() > MAX_DEPTH
        {
            return Err(operation_error(format!("{operation} would nest deeper than {MAX_DEPTH} levels")));
        }
        let (name, error) = (text("name")?, text("error")?);
        let position = map.get("path").map_or(&item.position, |path| &path.position).clone();
        Ok(Op { number, name, error, position, path, action })
    }

    /// Returns `replace`, `remove` or `test`.
    pub fn kind(&self) -> &'static str {
        match self.action {
            Action::Replace(_) => "replace",
            Action::Remove => "remove",
            Action::TestValue(_) | Action::TestAbsent => "test",
        }
    }

    /// Returns the path of the operation.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn apply(mut self, root: &mut Node, lookup: &mut ItemLookup) -> Result<()> {
        let outcome = match &mut self.action {
            Action::Replace(value) => {
                let value = std::mem::replace(value, Data::Null.into());
                apply::replace(root, &self.path, value, lookup).map(|()| true)
            }
            Action::Remove if self.path.tokens().is_empty() => {
                return Err(Error::invalid("the whole document cannot be removed").context(self.title()));
            }
            Action::Remove => apply::remove(root, &self.path, lookup).map(|()| true),
            Action::TestValue(expected) => apply::test_value(root, &self.path, expected, lookup),
            Action::TestAbsent => apply::test_absent(root, &self.path, lookup),
        };
        match outcome {
            Ok(true) => Ok(()),
            Ok(false) => Err(self.failed_test_error(root)),
            Err(error) => Err(self.with_operation(error)),
        }
    }

    fn title(&self) -> String {
        let name = self.name.as_ref().map_or(String::new(), |name| format!(" \"{name}\""));
        let error = self.error.as_ref().map_or(String::new(), |error| format!(": {error}"));
        format!(
            "{}: operation {}{name} ({} {}) failed{error}",
            self.position.describe(),
            self.number,
            self.kind(),
            self.path
        )
    }

    fn with_operation(&self, mut error: PathError) -> Error {
        // The hint about `?` does not apply to tests.
        if matches!(self.action, Action::TestValue(_) | Action::TestAbsent) {
            error.hint = None;
        }
        Error::from(error).context(self.title())
    }

    /// Returns the error of a failed test. It shows no values, because they may be secret.
    fn failed_test_error(&self, root: &Node) -> Error {
        let place = super::find(root, &self.path)
            .ok()
            .filter(|node| node.position.line > 0)
            .map_or(String::new(), |node| format!(" (set at {})", node.position.describe()));
        let problem = match self.action {
            Action::TestAbsent => format!("'{}' exists{place}, but must be absent", self.path),
            _ => format!("'{}' does not have the expected value{place}", self.path),
        };
        Error::invalid(problem).context(self.title())
    }
}

/// Returns true if a null is spelled out. An empty value is usually a forgotten or badly indented one.
fn is_explicit_null<'t>(null: &Node, line: &dyn Fn(usize) -> Option<&'t str>) -> bool {
    let (number, column) = (null.position.line.saturating_sub(1), null.position.column.saturating_sub(1));
    let Some(line) = line(number as usize) else { return false };
    let rest: String = line.chars().skip(column as usize).collect();
    let word = rest.split([' ', '\t', ',', '}', ']']).next().unwrap_or_default();
    matches!(word, "~" | "null" | "Null" | "NULL" | "!!null")
}

/// Converts a scalar to text: ops files may use any scalar as a string.
fn scalar_text(node: &Node) -> Option<String> {
    match &node.data {
        Data::Seq(_) | Data::Map(_) => None,
        Data::String(text) => Some(text.as_str().to_owned()),
        _ => Some(yaml::emit(node).trim_end().to_owned()),
    }
}

/// Returns the value of `absent`. The error is the kind of a value that is not a boolean.
fn read_absent(map: &Mapping) -> Result<Option<bool>, String> {
    match map.get("absent") {
        None => Ok(None),
        Some(node) if node.is_null() => Ok(None),
        Some(node) => node.as_bool().map(Some).ok_or_else(|| kind_with_article(node)),
    }
}

/// Converts a value as if it were written and read again, as the bosh CLI does: a float without a fraction
/// becomes an integer.
fn round_trip(value: &Node) -> Node {
    let data = match &value.data {
        Data::Float(_) => yaml::after_round_trip(&value.data),
        Data::Seq(items) => Data::Seq(items.iter().map(round_trip).collect()),
        Data::Map(map) => {
            Data::Map(map.iter().map(|(key, value)| (round_trip(key), round_trip(value))).collect())
        }
        data => data.clone(),
    };
    Node { data, position: value.position.clone() }
}
