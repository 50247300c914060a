//! The document as parsed, before aliases and merge keys are followed and scalars resolved.
//!
//! The parser speaks YAML 1.2. What upstream's YAML 1.1 takes beyond that, and what people do write, is
//! made up for here.

use std::borrow::Cow;
use std::collections::HashMap;

use granit_parser::{ErrorKind, Event, Marker, Parser, ScalarStyle, ScanError, Span, Tag};

use super::Error;
use super::position::Place;

/// How deep a document may nest. Every walk over a tree is recursive and must fit the stack.
pub const MAX_DEPTH: usize = 500;

/// How many bytes are parsed again to make up for badly indented quoted scalars.
const MAX_REREAD: usize = 32 << 20;

/// Index of a [`Raw`] in its tree.
pub type Id = usize;

/// A node as written.
pub struct Raw<'t> {
    /// The place where the node begins.
    pub place: Place,
    /// The tag, resolved, if the document gives one.
    pub tag: Option<String>,
    /// The content.
    pub kind: Kind<'t>,
}

/// What a [`Raw`] is.
pub enum Kind<'t> {
    /// Text, and whether it may resolve to something else than a string.
    Scalar {
        /// The text without quotes and escapes.
        text: Cow<'t, str>,
        /// True if the scalar was written without quotes and not as a block.
        plain: bool,
    },
    /// An alias of an earlier node.
    Alias(Id),
    /// A sequence.
    Seq(Vec<Id>),
    /// A mapping: pairs of key and value.
    Map(Vec<(Id, Id)>),
}

/// A document.
#[derive(Default)]
pub struct Tree<'t> {
    /// All nodes; an [`Id`] is an index into them.
    pub nodes: Vec<Raw<'t>>,
    /// None for a document without content.
    pub root: Option<Id>,
    /// Whether more documents follow.
    pub more: bool,
}

/// Reads the first document of a text, and hands it on: its scalars lie in the text where they can, and that may be a
/// mended one.
pub fn parse<T>(text: &str, use_tree: impl FnOnce(&Tree<'_>) -> T) -> Result<T, Error> {
    // A line break of YAML 1.1 that the parser does not know.
    let mut text =
        if text.contains('\u{85}') { Cow::Owned(text.replace('\u{85}', "\n")) } else { Cow::Borrowed(text) };
    let mut indented = HashMap::new();
    let mut reread = 0;
    loop {
        let unindent = |place: &mut Place| {
            place.column -= indented.get(&place.line).copied().unwrap_or(0).min(place.column - 1);
        };
        let failure = match Builder::default().read(&text) {
            Ok(mut tree) => {
                tree.nodes.iter_mut().for_each(|node| unindent(&mut node.place));
                return Ok(use_tree(&tree));
            }
            Err(failure) => failure,
        };
        if let Failure::Parser(error) = &failure
            && reread < MAX_REREAD
            && let Some((patched, width)) = mend(&text, error)
        {
            reread += text.len();
            *indented.entry(error.marker().line()).or_insert(0) += width;
            text = Cow::Owned(patched);
            continue;
        }
        let (mut place, problem) = match failure {
            Failure::Parser(error) => (Place::from(*error.marker()), error.info()),
            Failure::Here(place, problem) => (place, problem),
        };
        unindent(&mut place);
        return Err(Error::at(place, problem));
    }
}

/// The text without what the parser stumbled over and upstream does not, and how far that moved the line.
fn mend(text: &str, error: &ScanError) -> Option<(String, usize)> {
    match error.kind() {
        // The lines of a quoted scalar may start anywhere.
        ErrorKind::InvalidQuotedScalarIndent => indent(text, error.marker()),
        // A comment may follow a closing quote or bracket at once.
        ErrorKind::CommentNotSeparated => {
            let (before, after) = text.split_at_checked(error.marker().byte_offset()?)?;
            let glued = after.starts_with('#') && before.ends_with(['"', '\'', ']', '}']);
            glued.then(|| (format!("{before} {after}"), 0))
        }
        _ => None,
    }
}

/// The text with a line of a quoted scalar indented far enough, and by how much: deeper than any block
/// that is open there. Leading spaces do not count in such a line.
fn indent(text: &str, mark: &Marker) -> Option<(String, usize)> {
    let (before, _) = text.split_at_checked(mark.byte_offset()?)?;
    let start = before.rfind(['\n', '\r']).map_or(0, |at| at + 1);
    let prefix = |line: &str| line.bytes().take_while(|byte| b" -?:".contains(byte)).count();
    let width = 1 + text[..start].split(['\n', '\r']).map(prefix).max().unwrap_or(0);
    // Already as deep as can be: the parser wants something else.
    (mark.col() < width).then(|| (format!("{}{:width$}{}", &text[..start], "", &text[start..]), width))
}

/// What ends the reading.
enum Failure {
    Parser(ScanError),
    Here(Place, String),
}

/// A collection whose end has not been seen.
struct Open {
    id: Id,
    /// The key that waits for its value.
    key: Option<Id>,
}

#[derive(Default)]
struct Builder<'t> {
    tree: Tree<'t>,
    open: Vec<Open>,
    anchors: HashMap<usize, Id>,
}

impl<'t> Builder<'t> {
    fn read(mut self, text: &'t str) -> Result<Tree<'t>, Failure> {
        let mut options = granit_parser::options! {
            flow_nesting_limit: MAX_DEPTH,
            block_nesting_limit: MAX_DEPTH,
            emit_anchor_events: true,
        };
        options.set_emit_comments(false);
        let mut events = Parser::new_from_str_with_options(text, options);
        while let Some(event) = events.next() {
            let (event, span) = event.map_err(Failure::Parser)?;
            if matches!(event, Event::DocumentEnd) {
                self.tree.more = events.any(|event| matches!(event, Ok((Event::DocumentStart(..), _))));
                break;
            }
            self.event(event, &span, text)?;
        }
        Ok(self.tree)
    }

    fn event(&mut self, event: Event<'t>, span: &Span, text: &str) -> Result<(), Failure> {
        let (kind, tag, anchor) = match event {
            Event::Scalar(mut content, style, anchor, tag) => {
                // A block scalar that the end of the file cuts off has no last line break.
                let block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
                if block && content.ends_with('\n') && is_cut_off(span, text) {
                    content.to_mut().pop();
                }
                let plain = tag.is_none() && style == ScalarStyle::Plain;
                if plain && is_half_key(span, text) {
                    let problem =
                        "in brackets, a space follows the ':' of a key, and text that ends in ':' is quoted";
                    return Err(Failure::Here(span.start.into(), problem.into()));
                }
                (Kind::Scalar { text: content, plain }, tag, anchor)
            }
            Event::SequenceStart(_, anchor, tag) => (Kind::Seq(Vec::new()), tag, anchor),
            Event::MappingStart(_, anchor, tag) => (Kind::Map(Vec::new()), tag, anchor),
            Event::Alias(anchor) => match self.anchors.get(&anchor) {
                Some(target) => (Kind::Alias(*target), None, 0),
                None => return Err(Failure::Here(span.start.into(), "this anchor is not known".into())),
            },
            Event::SequenceEnd | Event::MappingEnd => {
                self.open.pop();
                return Ok(());
            }
            // Where YAML 1.1 ends the name, 1.2 goes on: a document must not mean two things.
            Event::Anchor(_, name)
                if !name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c)) =>
            {
                let problem = "the name of an anchor has only letters, digits, '-' and '_'";
                return Err(Failure::Here(span.start.into(), problem.into()));
            }
            _ => return Ok(()),
        };
        let is_open = matches!(kind, Kind::Seq(_) | Kind::Map(_));
        let id = self.tree.nodes.len();
        let tag = tag.map(|tag: Cow<'_, Tag>| format!("{}{}", tag.handle(), tag.suffix()));
        self.tree.nodes.push(Raw { place: span.start.into(), tag, kind });
        if anchor != 0 {
            self.anchors.insert(anchor, id);
        }
        self.attach(id);
        if is_open {
            self.open.push(Open { id, key: None });
            if self.open.len() > MAX_DEPTH {
                let problem = format!("nested deeper than {MAX_DEPTH} levels");
                return Err(Failure::Here(span.start.into(), problem));
            }
        }
        Ok(())
    }

    /// Makes a node the child of the innermost open collection.
    fn attach(&mut self, id: Id) {
        let Some(parent) = self.open.last_mut() else {
            self.tree.root.get_or_insert(id);
            return;
        };
        match &mut self.tree.nodes[parent.id].kind {
            Kind::Seq(items) => items.push(id),
            Kind::Map(entries) => match parent.key.take() {
                None => parent.key = Some(id),
                Some(key) => entries.push((key, id)),
            },
            Kind::Scalar { .. } | Kind::Alias(_) => {}
        }
    }
}

/// Whether an empty value stands in `{a:}` or `[a:, b]`: to YAML 1.1 that is the text `a:`, to 1.2 a key.
fn is_half_key(span: &Span, text: &str) -> bool {
    let (start, end) = (span.start.byte_offset(), span.end.byte_offset());
    let Some((before, after)) = start.filter(|_| start == end).and_then(|at| text.split_at_checked(at))
    else {
        return false;
    };
    // The empty value stands before or after the colon.
    let (key, after) = match after.strip_prefix(':') {
        Some(after) => (before, after),
        None => (before.strip_suffix(':').unwrap_or_default(), after),
    };
    let plain = key.ends_with(|last: char| !last.is_whitespace() && !"\"'[{,?".contains(last));
    plain && after.starts_with([',', ']', '}'])
}

/// Whether nothing follows a node, not even the line break of its last line.
fn is_cut_off(span: &Span, text: &str) -> bool {
    !text.ends_with(['\n', '\r'])
        && span.end.byte_offset().and_then(|end| text.get(end..)).is_some_and(str::is_empty)
}
