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

mod problem;

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::{Index, IndexMut};

use granit_parser::{ErrorKind, Event, Marker, Parser, ScalarStyle, ScanError, Span};

use super::Error;
use super::position::{LineColumn, narrow, widen};

/// The maximum number of nested collections in a document. Every walk over a tree is recursive and must fit
/// the stack.
pub const MAX_DEPTH: usize = 500;

/// The maximum number of bytes that are parsed again for one document.
const MAX_REREAD_BYTES: usize = 32 << 20;

/// A node of a [`SyntaxTree`]. Nodes are numbered in the order in which they begin.
pub type NodeId = usize;

/// The content of a node, as written.
#[derive(Clone, Copy)]
pub enum RawContent<'n> {
    /// A scalar.
    Scalar {
        /// The text without quotes and escapes.
        text: &'n str,
        /// True if the scalar has no tag and no quotes and is not a block scalar. Only then may it resolve to
        /// something other than a string.
        is_plain: bool,
    },
    /// An alias of an earlier node.
    Alias(NodeId),
    /// A sequence. Its items are [`SyntaxTree::items`].
    Seq(Contents),
    /// A mapping. Its entries are [`SyntaxTree::entries`].
    Map(Contents),
}

/// The nodes in a collection that were not read yet.
#[derive(Clone, Copy)]
pub struct Contents {
    next: NodeId,
    /// The first node after the collection and all its nodes.
    end: NodeId,
}

impl Contents {
    /// Returns the next node in the collection. Its own nodes are skipped.
    pub(crate) fn take_next(&mut self, tree: &SyntaxTree<'_>) -> Option<NodeId> {
        let id = self.next;
        (id < self.end).then(|| {
            self.next = tree.node_after(id);
            id
        })
    }
}

/// A node in 20 bytes, because a large document has millions.
struct RawNode {
    kind: NodeKind,
    position: LineColumn,
    /// The offset of a scalar's text in the document, or its index in [`SyntaxTree::texts`]. The target of an
    /// alias. The end of a collection.
    payload: u32,
    /// The length of a text in the document.
    length: u32,
}

/// The kind of a [`RawNode`].
#[derive(Clone, Copy)]
enum NodeKind {
    /// A scalar whose text is a part of the document.
    Scalar {
        is_plain: bool,
    },
    /// A scalar whose text is in [`SyntaxTree::texts`].
    OwnText {
        is_plain: bool,
    },
    Alias,
    Seq,
    Map,
}

/// The number of nodes in a chunk of [`RawNodes`].
const CHUNK_LENGTH: usize = 4096;

/// A list of nodes whose beginning can be freed before its end.
#[derive(Default)]
struct RawNodes {
    /// All chunks but the last one have [`CHUNK_LENGTH`] nodes, or none if they are freed.
    chunks: Vec<Vec<RawNode>>,
    length: usize,
    freed_chunk_count: usize,
}

impl RawNodes {
    fn push(&mut self, node: RawNode) {
        match self.chunks.last_mut() {
            Some(chunk) if chunk.len() < CHUNK_LENGTH => chunk.push(node),
            _ => {
                let mut chunk = Vec::with_capacity(CHUNK_LENGTH);
                chunk.push(node);
                self.chunks.push(chunk);
            }
        }
        self.length += 1;
    }

    /// Frees the memory of chunks whose nodes all have lower ids.
    fn free_before(&mut self, id: NodeId) {
        while self.freed_chunk_count < id / CHUNK_LENGTH {
            self.chunks[self.freed_chunk_count] = Vec::new();
            self.freed_chunk_count += 1;
        }
    }
}

impl Index<NodeId> for RawNodes {
    type Output = RawNode;

    fn index(&self, id: NodeId) -> &RawNode {
        &self.chunks[id / CHUNK_LENGTH][id % CHUNK_LENGTH]
    }
}

impl IndexMut<NodeId> for RawNodes {
    fn index_mut(&mut self, id: NodeId) -> &mut RawNode {
        &mut self.chunks[id / CHUNK_LENGTH][id % CHUNK_LENGTH]
    }
}

/// A document.
#[derive(Default)]
pub struct SyntaxTree<'t> {
    document: &'t str,
    nodes: RawNodes,
    /// The texts of scalars that are no parts of the document: they have escapes or several lines.
    texts: Vec<String>,
    /// The tags, for the few nodes that have one, with their handles expanded (`tag:yaml.org,2002:int`).
    tags: HashMap<NodeId, String>,
    /// True if a later node may make a reader go back to an earlier one: the document has an alias, or `<<`,
    /// whose mappings are merged from the last to the first.
    is_read_backwards: bool,
    /// True if another document follows this one.
    pub has_more_documents: bool,
}

impl<'t> SyntaxTree<'t> {
    /// Returns the root node, or `None` for a document without content.
    pub fn root(&self) -> Option<NodeId> {
        (!self.is_empty()).then_some(0)
    }

    /// Returns the number of nodes.
    pub fn len(&self) -> usize {
        self.nodes.length
    }

    /// Returns true for a document without content.
    pub fn is_empty(&self) -> bool {
        self.nodes.length == 0
    }

    /// Frees the memory of nodes before this one, if it is not needed to read those that follow. They then
    /// have no content.
    pub(crate) fn free_before(&mut self, id: NodeId) {
        if !self.is_read_backwards {
            self.nodes.free_before(id);
        }
    }

    /// Returns the position at which a node begins.
    pub fn position(&self, id: NodeId) -> LineColumn {
        self.nodes[id].position
    }

    /// Returns the content of a node.
    pub fn content(&self, id: NodeId) -> RawContent<'_> {
        let node = &self.nodes[id];
        let payload = widen(node.payload);
        match node.kind {
            NodeKind::Scalar { is_plain } => {
                RawContent::Scalar { text: self.document_text(id).unwrap_or_default(), is_plain }
            }
            NodeKind::OwnText { is_plain } => RawContent::Scalar { text: &self.texts[payload], is_plain },
            NodeKind::Alias => RawContent::Alias(payload),
            NodeKind::Seq => RawContent::Seq(Contents { next: id + 1, end: payload }),
            NodeKind::Map => RawContent::Map(Contents { next: id + 1, end: payload }),
        }
    }

    /// Returns the text of a scalar that is a part of the document.
    pub(crate) fn document_text(&self, id: NodeId) -> Option<&'t str> {
        let node = &self.nodes[id];
        let start = widen(node.payload);
        matches!(node.kind, NodeKind::Scalar { .. })
            .then(|| &self.document[start..start + widen(node.length)])
    }

    /// Returns the tag of a node.
    pub fn tag(&self, id: NodeId) -> Option<&str> {
        if self.tags.is_empty() { None } else { self.tags.get(&id).map(String::as_str) }
    }

    /// Returns the items of a sequence.
    pub fn items(&self, contents: Contents) -> impl Iterator<Item = NodeId> {
        let mut contents = contents;
        std::iter::from_fn(move || contents.take_next(self))
    }

    /// Returns the entries of a mapping: pairs of key and value.
    pub fn entries(&self, contents: Contents) -> impl Iterator<Item = (NodeId, NodeId)> {
        let mut nodes = self.items(contents);
        std::iter::from_fn(move || Some((nodes.next()?, nodes.next()?)))
    }

    /// Returns the node that begins next after the end of a node.
    fn node_after(&self, id: NodeId) -> NodeId {
        match self.nodes[id].kind {
            NodeKind::Seq | NodeKind::Map => widen(self.nodes[id].payload),
            NodeKind::Scalar { .. } | NodeKind::OwnText { .. } | NodeKind::Alias => id + 1,
        }
    }
}

/// Parses the first document of `text`, passes it to `use_tree`, and returns the result of `use_tree`.
///
/// The tree borrows from `text` or from a corrected copy of it, so it does not outlive the call.
///
/// # Errors
///
/// Returns an [`Error`] with line and column, and without a file, if the document is not valid YAML or is
/// nested deeper than [`MAX_DEPTH`].
pub fn parse<T>(text: &str, use_tree: impl FnOnce(SyntaxTree<'_>) -> T) -> Result<T, Error> {
    // U+0085 is a line break in YAML 1.1, but not to the parser.
    let mut text =
        if text.contains('\u{85}') { Cow::Owned(text.replace('\u{85}', "\n")) } else { Cow::Borrowed(text) };
    let mut added_columns = HashMap::new();
    let mut reread_bytes = 0;
    loop {
        let unindent = |position: &mut LineColumn| {
            let width = added_columns.get(&position.line).copied().unwrap_or(0);
            position.column -= width.min(position.column - 1);
        };
        let failure = match Builder::default().read(&text) {
            Ok(mut tree) => {
                if !added_columns.is_empty() {
                    let nodes = tree.nodes.chunks.iter_mut().flatten();
                    nodes.for_each(|node| unindent(&mut node.position));
                }
                return Ok(use_tree(tree));
            }
            Err(failure) => failure,
        };
        if let ReadFailure::Parser(error) = &failure
            && reread_bytes < MAX_REREAD_BYTES
            && let Some((new_text, width)) = correct_syntax(&text, error)
        {
            reread_bytes += text.len();
            *added_columns.entry(LineColumn::from(*error.marker()).line).or_insert(0) += narrow(width);
            text = Cow::Owned(new_text);
            continue;
        }
        let mut error = match failure {
            ReadFailure::Parser(error) => {
                if let Some(position) = problem::line_without_colon(&text, &error) {
                    let problem = "this line has no ':' after its key";
                    Error::at_line_column(position, problem).with_hint("write 'key: value'")
                } else if let Some((position, bracket)) = problem::unclosed_bracket(&text, &error) {
                    Error::at_line_column(position, format!("the bracket '{bracket}' is not closed"))
                        .with_hint(problem::CLOSE_BRACKET_HINT)
                } else {
                    parser_error(&text, &error)
                }
            }
            ReadFailure::Rejected { position, problem, hint } => {
                Error::at_line_column(position, problem).with_hint(hint)
            }
        };
        let mut position = LineColumn { line: narrow(error.line), column: narrow(error.column) };
        unindent(&mut position);
        error.column = widen(position.column);
        return Err(error);
    }
}

/// Corrects syntax that upstream accepts and the parser rejected. Returns the new text, and the number of
/// columns by which the line of the error was indented.
fn correct_syntax(text: &str, error: &ScanError) -> Option<(String, usize)> {
    match error.kind() {
        ErrorKind::InvalidQuotedScalarIndent => indent(text, error.marker()),
        // The rest of the line is a comment, so the inserted space moves no node.
        ErrorKind::CommentNotSeparated => {
            let (text_before, text_after) = text.split_at_checked(error.marker().byte_offset()?)?;
            let is_glued = text_after.starts_with('#') && text_before.ends_with(['"', '\'', ']', '}']);
            is_glued.then(|| (format!("{text_before} {text_after}"), 0))
        }
        _ => None,
    }
}

/// Indents a line of a quoted scalar, whose leading spaces do not count, deeper than every open block.
/// Returns the text and the added columns; `None` if it is deep enough.
fn indent(text: &str, mark: &Marker) -> Option<(String, usize)> {
    let (text_before, _) = text.split_at_checked(mark.byte_offset()?)?;
    let start = text_before.rfind(['\n', '\r']).map_or(0, |line_break| line_break + 1);
    let prefix_length = |line: &str| line.bytes().take_while(|byte| b" -?:".contains(byte)).count();
    let width = 1 + text[..start].split(['\n', '\r']).map(prefix_length).max().unwrap_or(0);
    (mark.col() < width).then(|| (format!("{}{:width$}{}", &text[..start], "", &text[start..]), width))
}

/// The reason why a document cannot be parsed.
enum ReadFailure {
    /// An error of the parser, which `correct_syntax` may be able to correct.
    Parser(ScanError),
    /// An error that this module found.
    Rejected { position: LineColumn, problem: String, hint: &'static str },
}

impl ReadFailure {
    /// Creates the error for a part of the document that the parser accepted.
    fn from_problem(span: &Span, problem: impl Into<String>, hint: &'static str) -> Self {
        ReadFailure::Rejected { position: span.start.into(), problem: problem.into(), hint }
    }
}

/// Builds the syntax tree of a document from the events of the parser.
#[derive(Default)]
struct Builder<'t> {
    tree: SyntaxTree<'t>,
    /// The collections whose ends have not been parsed.
    open_collections: Vec<NodeId>,
    /// The anchored nodes, by the parser's number of the anchor.
    anchors: HashMap<usize, NodeId>,
}

impl<'t> Builder<'t> {
    fn read(mut self, text: &'t str) -> Result<SyntaxTree<'t>, ReadFailure> {
        let mut options = granit_parser::options! {
            flow_nesting_limit: MAX_DEPTH,
            block_nesting_limit: MAX_DEPTH,
            emit_anchor_events: true,
        };
        options.set_emit_comments(false);
        let mut events = Parser::new_from_str_with_options(text, options);
        self.tree.document = text;
        while let Some(event) = events.next() {
            let (event, span) = event.map_err(ReadFailure::Parser)?;
            if matches!(event, Event::DocumentEnd) {
                let mut rest = events.peekable();
                if let Some(Err(error)) = rest.peek()
                    && matches!(error.kind(), ErrorKind::ExpectedDocumentStart)
                {
                    return Err(self.lost_text(error));
                }
                self.tree.has_more_documents =
                    rest.any(|event| matches!(event, Ok((Event::DocumentStart(..), _))));
                break;
            }
            self.add_event(event, &span, text)?;
        }
        Ok(self.tree)
    }

    /// Returns the failure for text after the end of the document, which upstream ignores.
    fn lost_text(&self, error: &ScanError) -> ReadFailure {
        let position = LineColumn::from(*error.marker());
        let root = self.tree.root().map(|root| self.tree.position(root));
        let (problem, hint) = match root.filter(|root| root.column > position.column) {
            Some(root) => (
                format!("this line is indented less than line {}, with which the document begins", root.line),
                "indent both lines alike",
            ),
            None => {
                ("the document ends before this line".to_owned(), "remove the line, or put '---' before it")
            }
        };
        ReadFailure::Rejected { position, problem, hint }
    }

    /// Adds the node of an event to the tree. Rejects text that the parser accepts but other YAML programs
    /// read differently.
    fn add_event(&mut self, event: Event<'t>, span: &Span, text: &'t str) -> Result<(), ReadFailure> {
        let (kind, (payload, length), tag, anchor) = match event {
            Event::Scalar(mut content, style, anchor, tag) => {
                // The parser adds a line break to a block scalar that ends with the text.
                let is_block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
                if is_block && content.ends_with('\n') && is_cut_off(span, text) {
                    content.to_mut().pop();
                }
                self.tree.is_read_backwards |= content == "<<";
                let is_plain = tag.is_none() && style == ScalarStyle::Plain;
                if is_plain && is_half_key(span, text) {
                    let problem = "':' directly before ',', ']' or '}' is ambiguous: a key or text";
                    let hint = "put a space after the ':' of a key, and put text that ends in ':' in quotes";
                    return Err(ReadFailure::from_problem(span, problem, hint));
                }
                match range_in(text, &content) {
                    Some(range) => (NodeKind::Scalar { is_plain }, range, tag, anchor),
                    None => {
                        self.tree.texts.push(content.into_owned());
                        (NodeKind::OwnText { is_plain }, (narrow(self.tree.texts.len() - 1), 0), tag, anchor)
                    }
                }
            }
            Event::SequenceStart(_, anchor, tag) => (NodeKind::Seq, (0, 0), tag, anchor),
            Event::MappingStart(_, anchor, tag) => (NodeKind::Map, (0, 0), tag, anchor),
            Event::Alias(anchor) => match self.anchors.get(&anchor) {
                Some(target) => {
                    self.tree.is_read_backwards = true;
                    (NodeKind::Alias, (narrow(*target), 0), None, 0)
                }
                None => {
                    let hint = "define the anchor (&NAME) before the alias (*NAME)";
                    return Err(ReadFailure::from_problem(span, "this alias has no anchor", hint));
                }
            },
            Event::SequenceEnd | Event::MappingEnd => {
                let end = narrow(self.tree.len());
                if let Some(id) = self.open_collections.pop() {
                    self.tree.nodes[id].payload = end;
                }
                return Ok(());
            }
            // At any other character, the name ends in YAML 1.1 but continues in 1.2.
            Event::Anchor(_, name)
                if !name
                    .chars()
                    .all(|character| character.is_ascii_alphanumeric() || "-_".contains(character)) =>
            {
                let problem =
                    "the name of this anchor has characters other than letters, digits, '-' and '_'";
                return Err(ReadFailure::from_problem(span, problem, "rename the anchor and its aliases"));
            }
            _ => return Ok(()),
        };
        let is_open = matches!(kind, NodeKind::Seq | NodeKind::Map);
        let id = self.tree.len();
        if let Some(tag) = tag {
            self.tree.tags.insert(id, format!("{}{}", tag.handle(), tag.suffix()));
        }
        self.tree.nodes.push(RawNode { kind, position: span.start.into(), payload, length });
        if anchor != 0 {
            self.anchors.insert(anchor, id);
        }
        if is_open {
            self.open_collections.push(id);
            if self.open_collections.len() > MAX_DEPTH {
                let problem = format!("the document is nested deeper than {MAX_DEPTH} levels");
                return Err(ReadFailure::from_problem(span, problem, "write the document with fewer levels"));
            }
        }
        Ok(())
    }
}

/// Returns offset and length of `part` if it is a part of `document` and not a copy.
fn range_in(document: &str, part: &str) -> Option<(u32, u32)> {
    let start = part.as_ptr().addr().checked_sub(document.as_ptr().addr())?;
    let is_inside =
        document.get(start..start + part.len()).is_some_and(|slice| slice.as_ptr() == part.as_ptr());
    is_inside.then_some((u32::try_from(start).ok()?, u32::try_from(part.len()).ok()?))
}

/// Returns true for an empty value as in `{a:}` or `[a:, b]`. YAML 1.1 reads `a:` there as text, and 1.2 as a
/// key.
fn is_half_key(span: &Span, text: &str) -> bool {
    let (start, end) = (span.start.byte_offset(), span.end.byte_offset());
    let Some((text_before, text_after)) =
        start.filter(|_| start == end).and_then(|offset| text.split_at_checked(offset))
    else {
        return false;
    };
    // The parser places the empty value before or after the colon.
    let (key, text_after) = match text_after.strip_prefix(':') {
        Some(text_after) => (text_before, text_after),
        None => (text_before.strip_suffix(':').unwrap_or_default(), text_after),
    };
    let is_plain = key.ends_with(|last: char| !last.is_whitespace() && !"\"'[{,?".contains(last));
    is_plain && text_after.starts_with([',', ']', '}'])
}

/// Returns true if the text ends with the node, without a line break.
fn is_cut_off(span: &Span, text: &str) -> bool {
    !text.ends_with(['\n', '\r'])
        && span.end.byte_offset().and_then(|end| text.get(end..)).is_some_and(str::is_empty)
}

/// Returns the error for a problem that the parser found.
fn parser_error(text: &str, error: &ScanError) -> Error {
    let (problem, hint) = problem::describe(text, error);
    let position = problem::indenting_tab(text, error).unwrap_or_else(|| LineColumn::from(*error.marker()));
    let syntax_error = Error::at_line_column(position, problem);
    match hint {
        Some(hint) => syntax_error.with_hint(hint),
        None => syntax_error,
    }
}
