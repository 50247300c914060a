//! The operations `replace`, `remove` and `test`.

use super::item_lookup::{ItemAddress, ItemLookup};
use super::path::{Modifier, Path, Token};
use super::walk::{MatchResult, PathError, PathErrorKind, PathStep, find_with_lookup, to_i64};
use yaml::{Data, Mapping, Node};

/// A value, and its address if it is an item of a list.
struct Target<'n> {
    node: &'n mut Node,
    address: Option<ItemAddress>,
}

impl<'n> Target<'n> {
    fn item(items: &'n mut [Node], index: usize) -> Self {
        let address = Some(ItemAddress::new(items, index));
        Target { node: &mut items[index], address }
    }
}

/// Replaces the value at a path, or adds it as a new key or item.
pub(super) fn replace(
    root: &mut Node,
    path: &Path,
    value: Node,
    lookup: &mut ItemLookup,
) -> Result<(), PathError> {
    let mut target = Target { node: root, address: None };
    for (step, token) in PathStep::all(path) {
        if step.is_last() {
            return put(target, step, token, value, lookup);
        }
        target = descend_creating(target.node, step, token, lookup)?;
    }
    // An empty path means the whole document.
    lookup.drop_lists(target.node);
    *target.node = value;
    Ok(())
}

/// Descends one level for `replace`, and creates a missing value if the token is optional.
fn descend_creating<'a>(
    node: &'a mut Node,
    step: PathStep<'_>,
    token: &Token,
    lookup: &mut ItemLookup,
) -> Result<Target<'a>, PathError> {
    match token {
        Token::Key { key, is_optional } => {
            let map = step.map_mut(node)?;
            if !map.contains_key(key) {
                if !is_optional {
                    return Err(step.missing_key_error(key, map));
                }
                let container = match step.next_token() {
                    Some(Token::End | Token::Match { .. }) => Data::Seq(Vec::new()),
                    Some(Token::Key { .. }) => Data::Map(Mapping::new()),
                    _ => {
                        return Err(step.unsupported_error(
                            "it does not exist, and '?' cannot create a list item by its index: use '/-'",
                        ));
                    }
                };
                map.insert(Node::string(key), container.into());
            }
            let node = map.get_mut(key).ok_or_else(|| step.unsupported_error("it is gone"))?;
            Ok(Target { node, address: None })
        }
        Token::Index { index, modifiers } => {
            let items = step.seq_mut(node)?;
            let index = step.resolve_index(*index, modifiers, items)?;
            Ok(Target::item(items, index))
        }
        Token::Match { key, value, is_optional, modifiers } => {
            let items = step.seq_mut(node)?;
            let index = match step.find(key, value, *is_optional, items, lookup)? {
                MatchResult::One(index) => step.resolve_index(to_i64(index), modifiers, items)?,
                MatchResult::Absent => {
                    let entry = Mapping::from_iter([(Node::string(key), Node::string(value))]);
                    push(items, Data::Map(entry).into(), lookup);
                    items.len() - 1
                }
            };
            Ok(Target::item(items, index))
        }
        Token::End => {
            Err(step.unsupported_error("'-', the place after the last item, must be the last part of a path"))
        }
    }
}

/// Writes the value at the last level of a `replace`.
fn put(
    target: Target<'_>,
    step: PathStep<'_>,
    token: &Token,
    value: Node,
    lookup: &mut ItemLookup,
) -> Result<(), PathError> {
    match token {
        Token::Key { key, is_optional } => {
            let map = step.map_mut(target.node)?;
            if !is_optional && !map.contains_key(key) {
                return Err(step.missing_key_error(key, map));
            }
            let old = map.insert(Node::string(key), value);
            lookup.note_entry(target.address, key, old.as_ref(), map.get(key));
        }
        Token::Index { index, modifiers } => {
            let items = step.seq_mut(target.node)?;
            replace_or_insert(items, step, *index, modifiers, value, lookup)?;
        }
        Token::Match { key, value: match_value, is_optional, modifiers } => {
            let items = step.seq_mut(target.node)?;
            match step.find(key, match_value, *is_optional, items, lookup)? {
                MatchResult::One(index) => {
                    replace_or_insert(items, step, to_i64(index), modifiers, value, lookup)?
                }
                MatchResult::Absent => push(items, value, lookup),
            }
        }
        Token::End => push(step.seq_mut(target.node)?, value, lookup),
    }
    Ok(())
}

/// Adds an item at the end of a sequence.
fn push(items: &mut Vec<Node>, value: Node, lookup: &mut ItemLookup) {
    let end = ItemAddress::new(items, items.len());
    items.push(value);
    lookup.note_insertion(end, items);
}

/// Replaces an item of a sequence, or inserts the value before or after it.
fn replace_or_insert(
    items: &mut Vec<Node>,
    step: PathStep<'_>,
    index: i64,
    modifiers: &[Modifier],
    value: Node,
    lookup: &mut ItemLookup,
) -> Result<(), PathError> {
    let (moves, insertion) = match modifiers {
        [moves @ .., Modifier::Before] => (moves, Some(0)),
        [moves @ .., Modifier::After] => (moves, Some(1)),
        moves => (moves, None),
    };
    let index = step.resolve_index(index, moves, items)?;
    match insertion {
        Some(offset) => {
            let new_address = ItemAddress::new(items, index + offset);
            items.insert(index + offset, value);
            lookup.note_insertion(new_address, items);
        }
        None => {
            let old = std::mem::replace(&mut items[index], value);
            lookup.note_replacement(ItemAddress::new(items, index), &old, &items[index]);
        }
    }
    Ok(())
}

/// Removes the value at a path. A missing value is an error unless its token is optional.
pub(super) fn remove(root: &mut Node, path: &Path, lookup: &mut ItemLookup) -> Result<(), PathError> {
    let mut target = Target { node: root, address: None };
    for (step, token) in PathStep::all(path) {
        match token {
            Token::Key { key, is_optional } => {
                let map = step.map_mut(target.node)?;
                if !map.contains_key(key) {
                    return if *is_optional { Ok(()) } else { Err(step.missing_key_error(key, map)) };
                }
                if step.is_last() {
                    let old = map.remove(key);
                    lookup.note_entry(target.address, key, old.as_ref(), map.get(key));
                    return Ok(());
                }
                let node = map.get_mut(key).ok_or_else(|| step.unsupported_error("it is gone"))?;
                target = Target { node, address: None };
            }
            Token::Index { .. } | Token::Match { .. } => {
                let items = step.seq_mut(target.node)?;
                let (index, modifiers) = match token {
                    Token::Index { index, modifiers } => (*index, modifiers),
                    Token::Match { key, value, is_optional, modifiers } => {
                        match step.find(key, value, *is_optional, items, lookup)? {
                            MatchResult::One(index) => (to_i64(index), modifiers),
                            MatchResult::Absent => return Ok(()),
                        }
                    }
                    _ => return Err(step.unsupported_error("not an item")),
                };
                let index = step.resolve_index(index, modifiers, items)?;
                if step.is_last() {
                    let old = items.remove(index);
                    lookup.note_removal(ItemAddress::new(items, index), &old);
                    return Ok(());
                }
                target = Target::item(items, index);
            }
            Token::End => {
                return Err(step
                    .unsupported_error("'-' is the place after the last item: there is nothing to remove"));
            }
        }
    }
    Ok(())
}

/// Returns true if the value at a path equals `expected`.
pub(super) fn test_value(
    root: &Node,
    path: &Path,
    expected: &Node,
    lookup: &mut ItemLookup,
) -> Result<bool, PathError> {
    Ok(*find_with_lookup(root, path, lookup)? == *expected)
}

/// Returns true if there is no value at a path. Only the last token may be missing; otherwise it is an error.
pub(super) fn test_absent(root: &Node, path: &Path, lookup: &mut ItemLookup) -> Result<bool, PathError> {
    match find_with_lookup(root, path, lookup) {
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
