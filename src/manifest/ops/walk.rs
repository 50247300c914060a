//! Follows a path token by token, with errors for paths that lead nowhere.

use std::borrow::Cow;

use super::item_lookup::{ItemLookup, LookupResult};
use super::path::{Modifier, Path, Token};
use super::suggest::{self, Alternatives};
use crate::node_kind::kind_with_article;
use base::error::did_you_mean_question;
use yaml::{Data, Mapping, Node};

/// The error of a path that cannot be followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PathError {
    /// The kind of failure, for callers that handle absence.
    pub kind: PathErrorKind,
    /// The number of tokens followed, including the failing one.
    pub depth: usize,
    /// The problem.
    pub message: String,
    /// A description of what exists.
    pub note: Option<String>,
    /// The question whether an existing path was meant.
    pub suggestion: Option<String>,
    /// Advice for the operator.
    pub hint: Option<String>,
}

/// The kind of a [`PathError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathErrorKind {
    /// The mapping has no such key.
    MissingKey,
    /// The index is out of range.
    MissingIndex,
    /// Either no item or several items have this entry.
    NoSingleMatch,
    /// The value is not of the type that the token needs.
    WrongType,
    /// The token is not allowed here.
    Unsupported,
}

impl From<PathError> for base::Error {
    fn from(error: PathError) -> Self {
        base::Error::invalid(error.message)
            .with_notes(error.note)
            .with_hints(error.suggestion)
            .with_hints(error.hint)
    }
}

/// One token of a path while it is followed.
#[derive(Clone, Copy)]
pub(super) struct PathStep<'a> {
    pub path: &'a Path,
    pub token_index: usize,
}

/// The outcome of a match token.
pub(super) enum MatchResult {
    /// The index of the item, before modifiers.
    One(usize),
    /// There is no such item, and the path allows that.
    Absent,
}

impl<'a> PathStep<'a> {
    /// Returns all tokens of a path, each as a step.
    pub(super) fn all(path: &'a Path) -> impl Iterator<Item = (PathStep<'a>, &'a Token)> {
        path.tokens()
            .iter()
            .enumerate()
            .map(move |(token_index, token)| (PathStep { path, token_index }, token))
    }

    pub(super) fn is_last(self) -> bool {
        self.token_index + 1 == self.path.tokens().len()
    }

    /// Returns the token after this one.
    pub(super) fn next_token(self) -> Option<&'a Token> {
        self.path.tokens().get(self.token_index + 1)
    }

    /// Returns the path up to this token, inclusive.
    pub(super) fn path_so_far(self) -> Path {
        self.path.prefix(self.token_index + 1)
    }

    /// Describes the parent of this token for messages.
    fn describe_parent(self) -> String {
        match self.path.prefix(self.token_index).to_string() {
            root if root.is_empty() => "the document".into(),
            path => format!("'{path}'"),
        }
    }

    pub(super) fn error(self, kind: PathErrorKind, message: String) -> PathError {
        PathError { kind, depth: self.token_index + 1, message, note: None, suggestion: None, hint: None }
    }

    /// Returns the error for a path that does not exist up to this token.
    fn missing_error(self, kind: PathErrorKind, alternatives: Alternatives) -> PathError {
        let path = self.path_so_far();
        let error = self.error(kind, format!("'{path}' does not exist"));
        match alternatives {
            Alternatives::Listed(text) => PathError { note: Some(text), ..error },
            Alternatives::Nearest(name) => {
                let suggestion = format!("{}/{name}", self.path.prefix(self.token_index));
                PathError { suggestion: Some(did_you_mean_question(&suggestion)), ..error }
            }
        }
    }

    pub(super) fn unsupported_error(self, message: &str) -> PathError {
        self.error(PathErrorKind::Unsupported, format!("'{}': {message}", self.path_so_far()))
    }

    fn wrong_type_error(self, node: &Node, expected: &str) -> PathError {
        let place = match node.position.line {
            0 => String::new(),
            _ => format!(" ({})", node.position.describe()),
        };
        let message = format!(
            "'{}' needs a {expected}, but {}{place} is {}",
            self.path_so_far(),
            self.describe_parent(),
            kind_with_article(node)
        );
        let hint = match (&node.data, self.path.tokens().get(self.token_index)) {
            (Data::Seq(_), Some(Token::Key { key, .. })) if key != "-" => {
                let list = self.path.prefix(self.token_index);
                Some(format!(
                    "name an item of the list by an entry or its index: {list}/{}=VALUE or {list}/0",
                    key
                ))
            }
            _ => None,
        };
        PathError { hint, ..self.error(PathErrorKind::WrongType, message) }
    }

    pub(super) fn map(self, node: &Node) -> Result<&Mapping, PathError> {
        node.as_map().ok_or_else(|| self.wrong_type_error(node, "mapping"))
    }

    pub(super) fn seq(self, node: &Node) -> Result<&[Node], PathError> {
        node.as_seq().ok_or_else(|| self.wrong_type_error(node, "list"))
    }

    pub(super) fn map_mut(self, node: &mut Node) -> Result<&mut Mapping, PathError> {
        self.map(node)?;
        match &mut node.data {
            Data::Map(map) => Ok(map),
            _ => Err(self.unsupported_error("not a mapping")),
        }
    }

    pub(super) fn seq_mut(self, node: &mut Node) -> Result<&mut Vec<Node>, PathError> {
        self.seq(node)?;
        match &mut node.data {
            Data::Seq(items) => Ok(items),
            _ => Err(self.unsupported_error("not a list")),
        }
    }

    pub(super) fn missing_key_error(self, key: &str, map: &Mapping) -> PathError {
        let keys = map.iter().filter_map(|(key, _)| key.as_str());
        let alternatives = suggest::find_alternatives(key, keys, str::to_owned);
        let mut error = self.missing_error(PathErrorKind::MissingKey, alternatives);
        let subject = match self.is_last() {
            true => "it".to_owned(),
            false => format!("'{}'", self.path_so_far()),
        };
        error.hint = Some(format!("write '{}' if {subject} need not exist", self.optional_path()));
        error
    }

    /// Returns the whole path with this token as an optional one.
    fn optional_path(self) -> Path {
        let mut tokens = self.path.tokens().to_vec();
        if let Some(Token::Key { is_optional, .. }) = tokens.get_mut(self.token_index) {
            *is_optional = true;
        }
        tokens.into()
    }

    /// Applies modifiers to an index and returns it counted from the front of `items`.
    pub(super) fn resolve_index(
        self,
        index: i64,
        modifiers: &[Modifier],
        items: &[Node],
    ) -> Result<usize, PathError> {
        let mut result = index;
        for modifier in modifiers {
            result = match modifier {
                Modifier::Prev => result.saturating_sub(1),
                Modifier::Next => result.saturating_add(1),
                Modifier::Before | Modifier::After => {
                    return Err(self.unsupported_error(
                        "':before' and ':after' must be at the end of the path of a replace: they mark \
                         where it inserts",
                    ));
                }
            };
        }
        let length = items.len();
        let front = if result < 0 {
            usize::try_from(result.unsigned_abs()).ok().and_then(|back| length.checked_sub(back))
        } else {
            usize::try_from(result).ok().filter(|front| *front < length)
        };
        front.ok_or_else(|| {
            let length_text = match length {
                0 => "it is empty".into(),
                1 => "it has 1 item".into(),
                _ => format!("it has {length} items"),
            };
            let message = format!(
                "'{}' does not exist: {} has no index {result}, {length_text}",
                self.path_so_far(),
                self.describe_parent()
            );
            let mut error = self.error(PathErrorKind::MissingIndex, message);
            error.hint = Some("the first item is 0, the last one -1; to add one, replace '-'".to_owned());
            error
        })
    }

    /// Finds the item of a list in which `key` has the value `value`.
    pub(super) fn find(
        self,
        key: &str,
        value: &str,
        is_optional: bool,
        items: &[Node],
        lookup: &mut ItemLookup,
    ) -> Result<MatchResult, PathError> {
        match lookup.find(items, key, value) {
            LookupResult::One(index) => return Ok(MatchResult::One(index)),
            LookupResult::None if is_optional => return Ok(MatchResult::Absent),
            LookupResult::None | LookupResult::Unknown => {}
        }
        let entries = || items.iter().enumerate().filter_map(|(index, item)| Some((index, item.get(key)?)));
        let matching_indices: Vec<usize> = entries()
            .filter(|(_, candidate)| candidate.as_str() == Some(value))
            .map(|(index, _)| index)
            .collect();
        match matching_indices[..] {
            [one] => Ok(MatchResult::One(one)),
            [] if is_optional => Ok(MatchResult::Absent),
            [] => {
                let names = entries().filter_map(|(_, candidate)| candidate.as_str());
                let alternatives = if entries().next().is_none() {
                    Alternatives::Listed(format!("no item has a '{key}'"))
                } else {
                    suggest::find_entry_alternatives(key, value, names)
                };
                let mut error = self.missing_error(PathErrorKind::NoSingleMatch, alternatives);
                let has_other_type = entries().any(|(_, candidate)| suggest::is_same_text(candidate, value));
                error.hint = has_other_type.then(|| {
                    format!("a path matches only strings: put the value {value} of '{key}' in quotes")
                });
                Err(error)
            }
            _ => {
                let lines: Vec<String> =
                    matching_indices.iter().map(|index| items[*index].position.line.to_string()).collect();
                let message = format!(
                    "'{}' matches {} items (lines {}), but a path must lead to one",
                    self.path_so_far(),
                    matching_indices.len(),
                    lines.join(", ")
                );
                let mut error = self.error(PathErrorKind::NoSingleMatch, message);
                error.hint = Some("use an index, or another key that tells them apart".into());
                Err(error)
            }
        }
    }
}

/// Returns the value at a path.
///
/// If an optional part is missing, the result is null or the empty collection (with the entry that was
/// searched) that a `replace` would create.
pub fn find<'a>(root: &'a Node, path: &Path) -> Result<Cow<'a, Node>, PathError> {
    find_with_lookup(root, path, &mut ItemLookup::default())
}

/// Does the work of [`find`] with the lookup of the document.
pub(super) fn find_with_lookup<'a>(
    root: &'a Node,
    path: &Path,
    lookup: &mut ItemLookup,
) -> Result<Cow<'a, Node>, PathError> {
    let mut node = root;
    for (step, token) in PathStep::all(path) {
        node = match token {
            Token::Key { key, is_optional } => match step.map(node)?.get(key) {
                Some(value) => value,
                None if !is_optional => return Err(step.missing_key_error(key, step.map(node)?)),
                None if step.is_last() => return Ok(Cow::Owned(Data::Null.into())),
                None => {
                    let container: Node = match step.next_token() {
                        Some(Token::Match { .. }) => Data::Seq(Vec::new()).into(),
                        Some(Token::Key { .. }) => Data::Map(Mapping::new()).into(),
                        _ => return Err(step.unsupported_error("it does not exist")),
                    };
                    return find_in_created(container, path, step.token_index + 1);
                }
            },
            Token::Index { index, modifiers } => {
                let items = step.seq(node)?;
                &items[step.resolve_index(*index, modifiers, items)?]
            }
            Token::Match { key, value, is_optional, modifiers } => {
                let items = step.seq(node)?;
                match step.find(key, value, *is_optional, items, lookup)? {
                    MatchResult::One(index) => &items[step.resolve_index(to_i64(index), modifiers, items)?],
                    MatchResult::Absent => {
                        let entry = Mapping::from_iter([(Node::string(key), Node::string(value))]);
                        return find_in_created(Data::Map(entry).into(), path, step.token_index + 1);
                    }
                }
            }
            Token::End => {
                return Err(step.unsupported_error("'-' is the place after the last item: it has no value"));
            }
        };
    }
    Ok(Cow::Borrowed(node))
}

/// Continues from token `token_index` in a value that an optional token created.
fn find_in_created<'a>(
    mut node: Node,
    path: &Path,
    mut token_index: usize,
) -> Result<Cow<'a, Node>, PathError> {
    while let Some(token) = path.tokens().get(token_index) {
        let step = PathStep { path, token_index };
        node = match token {
            Token::Key { key, .. } => match (step.map(&node)?.get(key), step.next_token()) {
                (Some(value), _) => value.clone(),
                (None, None) => Data::Null.into(),
                (None, Some(Token::Match { .. })) => Data::Seq(Vec::new()).into(),
                (None, Some(Token::Key { .. })) => Data::Map(Mapping::new()).into(),
                (None, Some(_)) => return Err(step.unsupported_error("it does not exist")),
            },
            Token::Match { key, value, .. } => {
                step.seq(&node)?;
                Data::Map(Mapping::from_iter([(Node::string(key), Node::string(value))])).into()
            }
            Token::Index { index, modifiers } => {
                let items = step.seq(&node)?;
                items[step.resolve_index(*index, modifiers, items)?].clone()
            }
            Token::End => {
                return Err(step.unsupported_error("'-' is the place after the last item: it has no value"));
            }
        };
        token_index += 1;
    }
    Ok(Cow::Owned(node))
}

/// Converts an index; no sequence in memory is longer than `i64::MAX`.
pub(super) fn to_i64(index: usize) -> i64 {
    i64::try_from(index).unwrap_or(i64::MAX)
}
