//! The syntax tree of a document, before aliases and merge keys are followed and scalars resolved.
//!
//! The parser implements YAML 1.2, but upstream implements YAML 1.1. This module adapts the text and the
//! events where the two differ in documents that occur in practice:
//!
//! - Lines of a quoted scalar may have any indent, and a comment may directly follow a closing quote or
//!   bracket. When the parser fails on one of these, [`parse`] inserts spaces and parses again. Positions are
//!   those of the original text.
//! - Text that has one meaning in 1.1 and another in 1.2 is an error: `[a:, b]`, and anchors with unusual
//!   names.

use std::borrow::Cow;
use std::collections::HashMap;

use granit_parser::{ErrorKind, Event, Marker, Parser, ScalarStyle, ScanError, Span, Tag};

use super::Error;
use super::position::LineColumn;

/// The maximum number of nested collections in a document. Every walk over a tree is recursive and must fit
/// the stack.
pub const MAX_DEPTH: usize = 500;

/// The maximum number of bytes that are parsed again for one document.
const MAX_REREAD_BYTES: usize = 32 << 20;

/// Index of a [`RawNode`] in [`SyntaxTree::nodes`].
pub type NodeId = usize;

/// A node as written.
pub struct RawNode<'t> {
    /// The place where the node begins.
    pub position: LineColumn,
    /// The tag with its handle expanded (`tag:yaml.org,2002:int`), if the document gives one.
    pub tag: Option<String>,
    /// The content.
    pub kind: RawContent<'t>,
}

/// The content of a [`RawNode`].
pub enum RawContent<'t> {
    /// A scalar.
    Scalar {
        /// The text without quotes and escapes.
        text: Cow<'t, str>,
        /// True if the scalar has no tag and no quotes and is not a block scalar. Only then may it resolve to
        /// something other than a string.
        plain: bool,
    },
    /// An alias of an earlier node.
    Alias(NodeId),
    /// A sequence.
    Seq(Vec<NodeId>),
    /// A mapping: pairs of key and value.
    Map(Vec<(NodeId, NodeId)>),
}

/// A document.
#[derive(Default)]
pub struct SyntaxTree<'t> {
    /// All nodes, in the order in which they begin.
    pub nodes: Vec<RawNode<'t>>,
    /// The root node. `None` for a document without content.
    pub root: Option<NodeId>,
    /// True if another document follows this one.
    pub has_more_documents: bool,
}

/// Parses the first document of `text`, passes it to `use_tree`, and returns the result of `use_tree`.
///
/// The tree borrows from `text` or from a corrected copy of it, so it does not outlive the call.
///
/// # Errors
///
/// Returns an [`Error`] with line and column, and without a file, if the document is not valid YAML or is
/// nested deeper than [`MAX_DEPTH`].
pub fn parse<T>(text: &str, use_tree: impl FnOnce(&SyntaxTree<'_>) -> T) -> Result<T, Error> {
    // U+0085 is a line break in YAML 1.1, but not to the parser.
    let mut text =
        if text.contains('\u{85}') { Cow::Owned(text.replace('\u{85}', "\n")) } else { Cow::Borrowed(text) };
    let mut indented = HashMap::new();
    let mut reread = 0;
    loop {
        let unindent = |position: &mut LineColumn| {
            position.column -= indented.get(&position.line).copied().unwrap_or(0).min(position.column - 1);
        };
        let failure = match Builder::default().read(&text) {
            Ok(mut tree) => {
                tree.nodes.iter_mut().for_each(|node| unindent(&mut node.position));
                return Ok(use_tree(&tree));
            }
            Err(failure) => failure,
        };
        if let Failure::Parser(error) = &failure
            && reread < MAX_REREAD_BYTES
            && let Some((patched, width)) = mend(&text, error)
        {
            reread += text.len();
            *indented.entry(error.marker().line()).or_insert(0) += width;
            text = Cow::Owned(patched);
            continue;
        }
        let mut error = match failure {
            Failure::Parser(error) => {
                let found = Error::at_line_column(LineColumn::from(*error.marker()), error.info());
                match error.info() {
                    info if info.contains("mapping values are not allowed") => found.with_hint(
                        "indent the line like the lines around it, or put a value that contains ': ' \
                         in quotes",
                    ),
                    info if info.contains("tabs disallowed") => found.with_hint("indent with spaces"),
                    _ => found,
                }
            }
            Failure::Here { position, problem, hint } => {
                Error::at_line_column(position, problem).with_hint(hint)
            }
        };
        let mut position = LineColumn { line: error.line, column: error.column };
        unindent(&mut position);
        error.column = position.column;
        return Err(error);
    }
}

/// Corrects syntax that upstream accepts and the parser rejected. Returns the new text, and the number of
/// columns by which the line of the error was indented.
fn mend(text: &str, error: &ScanError) -> Option<(String, usize)> {
    match error.kind() {
        ErrorKind::InvalidQuotedScalarIndent => indent(text, error.marker()),
        // The rest of the line is a comment, so the inserted space moves no node.
        ErrorKind::CommentNotSeparated => {
            let (before, after) = text.split_at_checked(error.marker().byte_offset()?)?;
            let glued = after.starts_with('#') && before.ends_with(['"', '\'', ']', '}']);
            glued.then(|| (format!("{before} {after}"), 0))
        }
        _ => None,
    }
}

/// Indents a line of a quoted scalar, whose leading spaces do not count, deeper than every open block.
/// Returns the text and the added columns; `None` if it is deep enough.
///
fn indent(text: &str, mark: &Marker) -> Option<(String, usize)> {
    let (before, _) = text.split_at_checked(mark.byte_offset()?)?;
    let start = before.rfind(['\n', '\r']).map_or(0, |at| at + 1);
    let prefix = |line: &str| line.bytes().take_while(|byte| b" -?:".contains(byte)).count();
    let width = 1 + text[..start].split(['\n', '\r']).map(prefix).max().unwrap_or(0);
    (mark.col() < width).then(|| (format!("{}{:width$}{}", &text[..start], "", &text[start..]), width))
}

/// The reason why a document cannot be parsed.
enum Failure {
    /// An error of the parser, which `mend` may be able to correct.
    Parser(ScanError),
    /// An error that this module found.
    Here { position: LineColumn, problem: String, hint: &'static str },
}

impl Failure {
    fn here(span: &Span, problem: impl Into<String>, hint: &'static str) -> Self {
        Failure::Here { position: span.start.into(), problem: problem.into(), hint }
    }
}

/// A collection whose end has not been parsed.
struct Open {
    id: NodeId,
    /// The key whose value comes next.
    key: Option<NodeId>,
}

#[derive(Default)]
struct Builder<'t> {
    tree: SyntaxTree<'t>,
    open: Vec<Open>,
    anchors: HashMap<usize, NodeId>,
}

impl<'t> Builder<'t> {
    fn read(mut self, text: &'t str) -> Result<SyntaxTree<'t>, Failure> {
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
                self.tree.has_more_documents =
                    events.any(|event| matches!(event, Ok((Event::DocumentStart(..), _))));
                break;
            }
            self.event(event, &span, text)?;
        }
        Ok(self.tree)
    }

    fn event(&mut self, event: Event<'t>, span: &Span, text: &str) -> Result<(), Failure> {
        let (kind, tag, anchor) = match event {
            Event::Scalar(mut content, style, anchor, tag) => {
                // The parser adds a line break to a block scalar that ends with the text.
                let block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
                if block && content.ends_with('\n') && is_cut_off(span, text) {
                    content.to_mut().pop();
                }
                let plain = tag.is_none() && style == ScalarStyle::Plain;
                if plain && is_half_key(span, text) {
                    let problem = "':' directly before ',', ']' or '}' is ambiguous: a key or text";
                    let hint = "put a space after the ':' of a key, and put text that ends in ':' in quotes";
                    return Err(Failure::here(span, problem, hint));
                }
                (RawContent::Scalar { text: content, plain }, tag, anchor)
            }
            Event::SequenceStart(_, anchor, tag) => (RawContent::Seq(Vec::new()), tag, anchor),
            Event::MappingStart(_, anchor, tag) => (RawContent::Map(Vec::new()), tag, anchor),
            Event::Alias(anchor) => match self.anchors.get(&anchor) {
                Some(target) => (RawContent::Alias(*target), None, 0),
                None => {
                    let hint = "define the anchor (&NAME) before the alias (*NAME)";
                    return Err(Failure::here(span, "this alias has no anchor", hint));
                }
            },
            Event::SequenceEnd | Event::MappingEnd => {
                self.open.pop();
                return Ok(());
            }
            // At any other character, the name ends in YAML 1.1 but continues in 1.2.
            Event::Anchor(_, name)
                if !name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c)) =>
            {
                let problem =
                    "the name of this anchor has characters other than letters, digits, '-' and '_'";
                return Err(Failure::here(span, problem, "rename the anchor and its aliases"));
            }
            _ => return Ok(()),
        };
        let is_open = matches!(kind, RawContent::Seq(_) | RawContent::Map(_));
        let id = self.tree.nodes.len();
        let tag = tag.map(|tag: Cow<'_, Tag>| format!("{}{}", tag.handle(), tag.suffix()));
        self.tree.nodes.push(RawNode { position: span.start.into(), tag, kind });
        if anchor != 0 {
            self.anchors.insert(anchor, id);
        }
        self.attach(id);
        if is_open {
            self.open.push(Open { id, key: None });
            if self.open.len() > MAX_DEPTH {
                let problem = format!("the document is nested deeper than {MAX_DEPTH} levels");
                return Err(Failure::here(
                    span,
                    problem,
                    "move nested values closer to the top of the document",
                ));
            }
        }
        Ok(())
    }

    /// Makes a node the child of the innermost open collection.
    fn attach(&mut self, id: NodeId) {
        let Some(parent) = self.open.last_mut() else {
            self.tree.root.get_or_insert(id);
            return;
        };
        match &mut self.tree.nodes[parent.id].kind {
            RawContent::Seq(items) => items.push(id),
            RawContent::Map(entries) => match parent.key.take() {
                None => parent.key = Some(id),
                Some(key) => entries.push((key, id)),
            },
            RawContent::Scalar { .. } | RawContent::Alias(_) => {}
        }
    }
}

/// Returns true for an empty value as in `{a:}` or `[a:, b]`. YAML 1.1 reads `a:` there as text, and 1.2 as a
/// key.
fn is_half_key(span: &Span, text: &str) -> bool {
    let (start, end) = (span.start.byte_offset(), span.end.byte_offset());
    let Some((before, after)) = start.filter(|_| start == end).and_then(|at| text.split_at_checked(at))
    else {
        return false;
    };
    // The parser places the empty value before or after the colon.
    let (key, after) = match after.strip_prefix(':') {
        Some(after) => (before, after),
        None => (before.strip_suffix(':').unwrap_or_default(), after),
    };
    let plain = key.ends_with(|last: char| !last.is_whitespace() && !"\"'[{,?".contains(last));
    plain && after.starts_with([',', ']', '}'])
}

/// Returns true if the text ends with the node, without a line break.
fn is_cut_off(span: &Span, text: &str) -> bool {
    !text.ends_with(['\n', '\r'])
        && span.end.byte_offset().and_then(|end| text.get(end..)).is_some_and(str::is_empty)
}
