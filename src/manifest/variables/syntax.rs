//! References in text: `((name))`, `((!name))`, `((name.key.0))`, `(( name ))`.

use std::collections::BTreeSet;
use std::ops::Range;

use yaml::{Data, Node, Position};

/// One `((…))` in a string.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference<'a> {
    /// The name between the parentheses, without `!` and spaces: `default_ca.certificate`, `/global`.
    pub name: &'a str,
    /// The bytes of the reference, with parentheses.
    pub range: Range<usize>,
    /// True if there is a space inside the parentheses. Such a reference is replaced only if it is the whole
    /// value.
    pub has_spaces: bool,
}

impl<'a> Reference<'a> {
    /// Returns the variable's name: the text before the first `.`.
    pub fn variable(&self) -> &'a str {
        self.name.split('.').next().unwrap_or(self.name)
    }

    /// Returns the keys and indices below the variable, separated by `.` or `/`.
    pub fn keys(&self) -> impl Iterator<Item = &'a str> {
        let rest = self.name.split_once('.').map(|(_, rest)| rest);
        rest.into_iter().flat_map(|rest| rest.split(['.', '/']))
    }
}

/// Returns all references in `text`, from left to right.
pub fn references(text: &str) -> Vec<Reference<'_>> {
    let mut references = Vec::new();
    let mut search_start = 0;
    while let Some(offset) = text[search_start..].find('(') {
        let start = search_start + offset;
        match reference_at(text, start) {
            Some(reference) => {
                search_start = reference.range.end;
                references.push(reference);
            }
            // The search goes on one character later, not two: in `(((a))` the reference begins at the second
            // parenthesis.
            None => search_start = start + 1,
        }
    }
    references
}

/// Returns the beginnings of references that are not closed, such as `((a` in `((a` and `((a)`, with their
/// positions.
pub(crate) fn unclosed_references(root: &Node) -> Vec<(String, Position)> {
    let mut positions = Vec::new();
    collect_unclosed(root, &mut positions);
    positions
}

fn collect_unclosed(node: &Node, positions: &mut Vec<(String, Position)>) {
    match &node.data {
        Data::String(text) => {
            positions.extend(unclosed(text).map(|name| (format!("(({name}"), node.position.clone())));
        }
        Data::Seq(items) => items.iter().for_each(|item| collect_unclosed(item, positions)),
        Data::Map(map) => map.iter().for_each(|(_, value)| collect_unclosed(value, positions)),
        _ => {}
    }
}

/// Returns the name after a `((` that begins a text and whose parentheses are not closed. Arithmetic in a
/// script also has `((`, so the text must have nothing else.
fn unclosed(text: &str) -> Option<&str> {
    let inner = text.trim_end().strip_prefix("((")?;
    let name = inner.strip_suffix(')').unwrap_or(inner);
    let is_name = !name.is_empty() && name.trim_start_matches('!').chars().all(is_name_char);
    is_name.then_some(name)
}

/// Returns the variables that a tree refers to.
pub fn referenced_variables(root: &Node) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    collect_variables(root, &mut names);
    names
}

fn collect_variables(node: &Node, names: &mut BTreeSet<String>) {
    match &node.data {
        Data::String(text) => {
            names.extend(references(text).iter().map(|reference| reference.variable().to_owned()));
        }
        Data::Seq(items) => items.iter().for_each(|item| collect_variables(item, names)),
        Data::Map(map) => map.iter().for_each(|(key, value)| {
            collect_variables(key, names);
            collect_variables(value, names);
        }),
        _ => {}
    }
}

/// Returns the reference if it is all of `text`.
pub fn as_single_reference(text: &str) -> Option<Reference<'_>> {
    reference_at(text, 0).filter(|reference| reference.range.end == text.len())
}

fn reference_at(text: &str, start: usize) -> Option<Reference<'_>> {
    let inner = text[start..].strip_prefix("((")?;
    let after_space = inner.strip_prefix(' ').unwrap_or(inner);
    let after_mark = after_space.strip_prefix('!').unwrap_or(after_space);
    let length = after_mark.find(|character: char| !is_name_char(character)).unwrap_or(after_mark.len());
    let (name, rest) = after_mark.split_at(length);
    let rest_after_space = rest.strip_prefix(' ').unwrap_or(rest);
    let tail = rest_after_space.strip_prefix("))")?;
    (!name.is_empty()).then(|| Reference {
        name,
        range: start..text.len() - tail.len(),
        has_spaces: inner.len() != after_space.len() || rest.len() != rest_after_space.len(),
    })
}

fn is_name_char(character: char) -> bool {
    matches!(character, '-' | '/' | '.' | '_') || character.is_ascii_digit() || character.is_alphabetic()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<&str> {
        references(text).into_iter().map(|reference| reference.name).collect()
    }

    #[test]
    fn finds_the_same_references_as_bosh() {
        for (text, expected) in [
            ("((a))", vec!["a"]),
            ("(( a ))", vec!["a"]),
            ("(( a))", vec!["a"]),
            ("((!a))", vec!["a"]),
            ("(( !a ))", vec!["a"]),
            ("x((a))y((b.c))z", vec!["a", "b.c"]),
            ("((/abs/name.key))", vec!["/abs/name.key"]),
            ("((a-b_c.0.-1))", vec!["a-b_c.0.-1"]),
            ("((é))", vec!["é"]),
            ("(((a)))", vec!["a"]),
            ("((((a))((b))", vec!["a", "b"]),
            ("((  a))", vec![]),
            ("((! a))", vec![]),
            ("((a b))", vec![]),
            ("((!!a))", vec![]),
            ("(())", vec![]),
            ("((!))", vec![]),
            ("((a)", vec![]),
            ("((a:b))", vec![]),
            ("(( grab meta.x ))", vec![]),
            ("((", vec![]),
            ("", vec![]),
        ] {
            assert_eq!(names(text), expected, "{text:?}");
        }
    }

    #[test]
    fn unclosed_references_are_found() {
        for (text, name) in [
            ("((a", Some("a")),
            ("((a.b)", Some("a.b")),
            ("((!a)", Some("!a")),
            ("((a))", None),
            ("((a + 1", None),
            ("((", None),
            ("x ((a", None),
        ] {
            assert_eq!(unclosed(text), name, "{text}");
        }
    }

    #[test]
    fn single_reference_is_the_entire_text() {
        assert_eq!(as_single_reference("(( a.b ))").map(|reference| reference.name), Some("a.b"));
        assert_eq!(as_single_reference("((a)) "), None);
        assert_eq!(as_single_reference("((a))((b))"), None);
        assert_eq!(as_single_reference("(((a)))"), None);
    }

    #[test]
    fn reference_splits_into_variable_and_keys() {
        let text = "((/ca.x/y.0))";
        let reference = as_single_reference(text).unwrap();
        assert_eq!(reference.variable(), "/ca");
        assert_eq!(reference.keys().collect::<Vec<_>>(), ["x", "y", "0"]);
        assert_eq!(as_single_reference("((a))").unwrap().keys().count(), 0);
    }

    proptest::proptest! {
        #[test]
        fn ranges_cover_the_references(text in "[(]{0,3}[ !]?[a.é/]{0,3}[ \
            ]?[)]{0,3}[(]{0,3}[a-c!]{0,2}[)]{0,3}") {
            let mut end = 0;
            for reference in references(&text) {
                proptest::prop_assert!(reference.range.start >= end);
                end = reference.range.end;
                let piece = &text[reference.range.clone()];
                proptest::prop_assert!(piece.starts_with("((") && piece.ends_with("))"));
                proptest::prop_assert_eq!(as_single_reference(piece).map(|inner| inner.name), Some(reference.name));
            }
        }
    }
}
