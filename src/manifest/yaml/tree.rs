//! The document as parsed, before aliases and merge keys are followed and scalars resolved.

use granit_parser::{Event, Marker, Parser, ScalarStyle, Span, Tag};

use super::LoadError;

/// How deep a document may nest. Every walk over a tree is recursive and must fit the stack.
pub const MAX_DEPTH: usize = 500;

/// Index of a [`Raw`] in its tree.
pub(super) type Id = usize;

/// A node as written.
pub(super) struct Raw<'a> {
    pub mark: Marker,
    pub tag: Option<String>,
    pub kind: Kind<'a>,
}

/// What a [`Raw`] is.
pub(super) enum Kind<'a> {
    /// Text, and whether it may resolve to something else than a string.
    Scalar {
        text: std::borrow::Cow<'a, str>,
        plain: bool,
    },
    Alias(Id),
    Seq(Vec<Id>),
    Map(Vec<(Id, Id)>),
}

/// A document.
pub(super) struct Tree<'a> {
    pub nodes: Vec<Raw<'a>>,
    /// None for a document without content.
    pub root: Option<Id>,
}

/// A collection whose end has not been seen.
struct Open {
    id: Id,
    /// The key that waits for its value.
    key: Option<Id>,
}

/// Reads the first document of a text.
pub(super) fn parse(text: &str) -> Result<Tree<'_>, LoadError> {
    let mut options = granit_parser::options! {
        flow_nesting_limit: MAX_DEPTH,
        block_nesting_limit: MAX_DEPTH,
    };
    options.set_emit_comments(false);
    let mut tree = Tree { nodes: Vec::new(), root: None };
    let mut open: Vec<Open> = Vec::new();
    let mut anchors = std::collections::HashMap::new();
    for event in Parser::new_from_str_with_options(text, options) {
        let (event, span) = event.map_err(|error| LoadError::at(*error.marker(), describe(&error)))?;
        let (kind, tag, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let tag = tag.map(|tag| full_tag(&tag));
                // The non-specific tag `!` stands for no tag on a plain scalar, whatever the quotes.
                let plain = match tag.as_deref() {
                    Some("!") => true,
                    Some(_) => false,
                    None => style == ScalarStyle::Plain,
                };
                (Kind::Scalar { text, plain }, tag.filter(|tag| tag != "!"), anchor)
            }
            Event::SequenceStart(_, anchor, tag) => {
                (Kind::Seq(Vec::new()), tag.map(|tag| full_tag(&tag)), anchor)
            }
            Event::MappingStart(_, anchor, tag) => {
                (Kind::Map(Vec::new()), tag.map(|tag| full_tag(&tag)), anchor)
            }
            Event::Alias(anchor) => {
                let Some(target) = anchors.get(&anchor) else {
                    return Err(LoadError::at(span.start, "there is no such anchor before this alias"));
                };
                (Kind::Alias(*target), None, 0)
            }
            Event::SequenceEnd | Event::MappingEnd => {
                open.pop();
                continue;
            }
            Event::DocumentEnd => break,
            _ => continue,
        };
        let is_open = matches!(kind, Kind::Seq(_) | Kind::Map(_));
        let id = tree.nodes.len();
        tree.nodes.push(Raw { mark: start(&span, text), tag, kind });
        if anchor != 0 {
            anchors.insert(anchor, id);
        }
        attach(&mut tree, &mut open, id);
        if is_open {
            open.push(Open { id, key: None });
            if open.len() > MAX_DEPTH {
                return Err(LoadError::at(span.start, format!("nested deeper than {MAX_DEPTH} levels")));
            }
        }
    }
    Ok(tree)
}

/// Makes a node the child of the innermost open collection.
fn attach(tree: &mut Tree<'_>, open: &mut [Open], id: Id) {
    let Some(parent) = open.last_mut() else {
        tree.root.get_or_insert(id);
        return;
    };
    match &mut tree.nodes[parent.id].kind {
        Kind::Seq(items) => items.push(id),
        Kind::Map(entries) => match parent.key.take() {
            None => parent.key = Some(id),
            Some(key) => entries.push((key, id)),
        },
        Kind::Scalar { .. } | Kind::Alias(_) => {}
    }
}

fn full_tag(tag: &Tag) -> String {
    format!("{}{}", tag.handle(), tag.suffix())
}

fn start(span: &Span, _text: &str) -> Marker {
    span.start
}

fn describe(error: &granit_parser::ScanError) -> String {
    error.info()
}
