//! The operations `replace`, `remove` and `test`.

use super::path::{Modifier, Path, Token};
use super::walk::{MatchResult, PathError, PathErrorKind, Step, find, to_i64};
use yaml::{Data, Mapping, Node};

/// Replaces the value at a path, or adds it as a new key or item.
pub(super) fn replace(root: &mut Node, path: &Path, value: Node) -> Result<(), PathError> {
    let mut node = root;
    for (step, token) in Step::all(path) {
        if step.is_last() {
            return put(node, step, token, value);
        }
        node = descend_making(node, step, token)?;
    }
    // An empty path means the whole document.
    *node = value;
    Ok(())
}

/// Descends one level for `replace`, and creates a missing value if the token is optional.
fn descend_making<'a>(node: &'a mut Node, step: Step<'_>, token: &Token) -> Result<&'a mut Node, PathError> {
    match token {
        Token::Key { key, optional } => {
            let map = step.map_mut(node)?;
            if !map.contains_key(key) {
                if !optional {
                    return Err(step.missing_key(key, map));
                }
                let made = match step.next_token() {
                    Some(Token::End | Token::Match { .. }) => Data::Seq(Vec::new()),
                    Some(Token::Key { .. }) => Data::Map(Mapping::new()),
                    _ => {
                        return Err(step
                            .unsupported("it does not exist, and '?' creates nothing in front of an index"));
                    }
                };
                map.insert(Node::string(key), made.into());
            }
            map.get_mut(key).ok_or_else(|| step.unsupported("it is gone"))
        }
        Token::Index { index, modifiers } => {
            let items = step.seq_mut(node)?;
            let at = step.index(*index, modifiers, items)?;
            Ok(&mut items[at])
        }
        Token::Match { key, value, optional, modifiers } => {
            let items = step.seq_mut(node)?;
            let at = match step.find(key, value, *optional, items)? {
                MatchResult::One(at) => step.index(to_i64(at), modifiers, items)?,
                MatchResult::Absent => {
                    let made = Mapping::from_iter([(Node::string(key), Node::string(value))]);
                    items.push(Data::Map(made).into());
                    items.len() - 1
                }
            };
            Ok(&mut items[at])
        }
        Token::End => Err(step.unsupported("'-' must be the last part of a path")),
    }
}

/// Writes the value at the last level of a `replace`.
fn put(node: &mut Node, step: Step<'_>, token: &Token, value: Node) -> Result<(), PathError> {
    match token {
        Token::Key { key, optional } => {
            let map = step.map_mut(node)?;
            if !optional && !map.contains_key(key) {
                return Err(step.missing_key(key, map));
            }
            map.insert(Node::string(key), value);
        }
        Token::Index { index, modifiers } => {
            let items = step.seq_mut(node)?;
            place(items, step, *index, modifiers, value)?;
        }
        Token::Match { key, value: wanted, optional, modifiers } => {
            let items = step.seq_mut(node)?;
            match step.find(key, wanted, *optional, items)? {
                MatchResult::One(at) => place(items, step, to_i64(at), modifiers, value)?,
                MatchResult::Absent => items.push(value),
            }
        }
        Token::End => step.seq_mut(node)?.push(value),
    }
    Ok(())
}

/// Replaces an item of a sequence, or inserts the value before or after it.
fn place(
    items: &mut Vec<Node>,
    step: Step<'_>,
    index: i64,
    modifiers: &[Modifier],
    value: Node,
) -> Result<(), PathError> {
    let (moves, insertion) = match modifiers {
        [moves @ .., Modifier::Before] => (moves, Some(0)),
        [moves @ .., Modifier::After] => (moves, Some(1)),
        moves => (moves, None),
    };
    let at = step.index(index, moves, items)?;
    match insertion {
        Some(behind) => items.insert(at + behind, value),
        None => items[at] = value,
    }
    Ok(())
}

/// Removes the value at a path. A missing value is an error unless its token is optional.
pub(super) fn remove(root: &mut Node, path: &Path) -> Result<(), PathError> {
    let mut node = root;
    for (step, token) in Step::all(path) {
        match token {
            Token::Key { key, optional } => {
                let map = step.map_mut(node)?;
                if !map.contains_key(key) {
                    return if *optional { Ok(()) } else { Err(step.missing_key(key, map)) };
                }
                if step.is_last() {
                    map.remove(key);
                    return Ok(());
                }
                node = map.get_mut(key).ok_or_else(|| step.unsupported("it is gone"))?;
            }
            Token::Index { .. } | Token::Match { .. } => {
                let items = step.seq_mut(node)?;
                let (index, modifiers) = match token {
                    Token::Index { index, modifiers } => (*index, modifiers),
                    Token::Match { key, value, optional, modifiers } => {
                        match step.find(key, value, *optional, items)? {
                            MatchResult::One(at) => (to_i64(at), modifiers),
                            MatchResult::Absent => return Ok(()),
                        }
                    }
                    _ => return Err(step.unsupported("not an item")),
                };
                let at = step.index(index, modifiers, items)?;
                if step.is_last() {
                    items.remove(at);
                    return Ok(());
                }
                node = &mut items[at];
            }
            Token::End => {
                return Err(
                    step.unsupported("'-' is the place after the last item: there is nothing to remove")
                );
            }
        }
    }
    Ok(())
}

/// Returns true if the value at a path equals `expected`.
pub(super) fn test_value(root: &Node, path: &Path, expected: &Node) -> Result<bool, PathError> {
    Ok(*find(root, path)? == *expected)
}

/// Returns true if there is no value at a path. Only the last token may be missing; otherwise it is an error.
pub(super) fn test_absent(root: &Node, path: &Path) -> Result<bool, PathError> {
    match find(root, path) {
        Ok(_) => Ok(false),
        Err(error)
            if error.depth == path.tokens().len()
                && matches!(error.kind, PathErrorKind::MissingKey | PathErrorKind::MissingIndex) =>
        {
            Ok(true)
        }
        Err(error) => Err(error),
    }
}
