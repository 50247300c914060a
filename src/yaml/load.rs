//! Loads text as [`Node`]s: follows aliases and merge keys and resolves scalars.
//!
//! Aliases are expanded, so a small document can describe a huge tree. `Decoder::count` limits the nodes and
//! the text that come from aliases.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::node::Key;
use super::position::LineColumn;
use super::scalar::{self, ResolvedScalar};
use super::syntax_tree::{self, Contents, MAX_DEPTH, NodeId, RawContent, SyntaxTree};
use super::{Data, Error, Mapping, Node, Position};
use base64::Engine;
use foldhash::fast::RandomState;

/// The maximum number of bytes of scalars that aliases may add.
const MAX_ALIAS_BYTES: usize = 64 << 20;
/// A document of up to this many nodes may get any number of them from aliases.
const FREE_NODES: usize = 1000;
/// Every document may have this many nodes from aliases.
const FREE_ALIAS_NODES: usize = 100;

/// The prefix of the tags that YAML defines, such as `!!int` (`tag:yaml.org,2002:int`).
const TAG_PREFIX: &str = "tag:yaml.org,2002:";

/// Loads the first document of `text`. Positions and errors name it by `source`; no file is read.
///
/// Text without a document loads as null. Later documents are ignored, as in upstream, with a warning through
/// `tracing`.
///
/// # Errors
///
/// Returns an error with file, line and column if the document
///
/// - is not valid YAML, or has a value that does not fit its tag,
/// - has a key twice, or a key that is a collection,
/// - is nested deeper than [`MAX_DEPTH`], or
/// - has an alias inside the value that it refers to, or aliases that make it very large.
pub fn load(text: &str, source: &Path) -> Result<Node, Error> {
    let source = Arc::new(source.to_owned());
    load_shared(text, &source).map_err(|error| error.in_file(&source))
}

fn load_shared(text: &str, source: &Arc<PathBuf>) -> Result<Node, Error> {
    syntax_tree::parse(text, |tree| decode(tree, source))?
}

fn decode(tree: SyntaxTree<'_>, source: &Arc<PathBuf>) -> Result<Node, Error> {
    if tree.has_more_documents {
        tracing::warn!(file = %source.display(), "several YAML documents: only the first is used");
    }
    let Some(root) = tree.root() else {
        return Ok(Node {
            data: Data::Null,
            position: Position { source: Some(Arc::clone(source)), line: 1, column: 1 },
        });
    };
    let mut decoder = Decoder {
        is_open: vec![false; tree.len()],
        tree,
        source,
        decoded_count: 0,
        alias_node_count: 0,
        alias_bytes: 0,
        alias_depth: 0,
        depth: 0,
    };
    decoder.decode_node(root)
}

/// Builds the nodes of a document from its syntax tree, and frees the tree meanwhile, because both together
/// need twice the memory. Positions have the file `source`.
struct Decoder<'a> {
    tree: SyntaxTree<'a>,
    source: &'a Arc<PathBuf>,
    /// For each node of the tree, true while the node is being decoded.
    is_open: Vec<bool>,
    /// The number of decoded nodes, those from aliases included.
    decoded_count: usize,
    /// The number of decoded nodes that come from aliases.
    alias_node_count: usize,
    /// The bytes of scalars that come from aliases.
    alias_bytes: usize,
    /// The number of aliases that are being followed.
    alias_depth: usize,
    /// The number of collections that are being decoded.
    depth: usize,
}

/// Mappings with more entries than this get an index for their keys.
const MAX_UNINDEXED_PAIRS: usize = 8;

/// A mapping under construction. A key from a merge may be set again, but a key of the mapping itself may
/// not.
#[derive(Default)]
struct Entries<'t> {
    pairs: Vec<(Node, Node)>,
    /// The indices of the entries that come from merges.
    merged_indices: HashSet<usize, RandomState>,
    /// The indices of all entries, by key. Empty up to [`MAX_UNINDEXED_PAIRS`] entries.
    index: HashMap<Key<'t>, usize, RandomState>,
}

impl<'t> Entries<'t> {
    /// Sets the value of a key. If the mapping itself has set the key before, returns the key and the
    /// position of the earlier one.
    fn set(
        &mut self,
        key: Node,
        index_key: Option<Key<'t>>,
        value: Node,
        is_merged: bool,
    ) -> Result<(), (Node, Position)> {
        let Some(entry_index) = index_key.as_ref().and_then(|key| self.find(key)) else {
            self.add(key, index_key, value, is_merged);
            return Ok(());
        };
        if !is_merged && !self.merged_indices.remove(&entry_index) {
            return Err((key, self.pairs[entry_index].0.position.clone()));
        }
        self.pairs[entry_index] = (key, value);
        Ok(())
    }

    fn find(&self, key: &Key<'t>) -> Option<usize> {
        if self.index.is_empty() {
            return self.pairs.iter().position(|(other, _)| Key::of(&other.data).as_ref() == Some(key));
        }
        self.index.get(key).copied()
    }

    fn add(&mut self, key: Node, index_key: Option<Key<'t>>, value: Node, is_merged: bool) {
        let entry_index = self.pairs.len();
        if is_merged {
            self.merged_indices.insert(entry_index);
        }
        if entry_index == MAX_UNINDEXED_PAIRS {
            let indexed_pairs = self.pairs.iter().enumerate();
            let keys = indexed_pairs
                .filter_map(|(entry_index, (key, _))| Some((Key::of(&key.data)?.into_owned(), entry_index)));
            self.index.extend(keys);
        }
        if entry_index >= MAX_UNINDEXED_PAIRS {
            self.index.extend(index_key.map(|key| (key, entry_index)));
        }
        self.pairs.push((key, value));
    }
}

/// Describes a key for an error. Keys are not secret, but values may be.
fn describe_key(key: &Node) -> String {
    match super::emit(key).trim_end() {
        text if text.len() > 60 || text.contains('\n') => "this key".into(),
        text => format!("the key '{}'", text.trim_matches(['\'', '"'])),
    }
}

impl<'a> Decoder<'a> {
    fn position(&self, id: NodeId) -> Position {
        let LineColumn { line, column } = self.tree.position(id);
        Position { source: Some(Arc::clone(self.source)), line, column }
    }

    /// Returns an error with the position of a node.
    fn error_at(&self, id: NodeId, problem: impl Into<String>) -> Error {
        Error::at_line_column(self.tree.position(id), problem)
    }

    fn decode_node(&mut self, id: NodeId) -> Result<Node, Error> {
        self.count(id)?;
        self.tree.free_before(id);
        let position = self.position(id);
        let data = match self.tree.content(id) {
            RawContent::Scalar { text, is_plain } => self.decode_scalar(id, text, is_plain)?,
            RawContent::Alias(target) => {
                return self.follow_alias(id, target, Self::decode_node);
            }
            RawContent::Seq(mut contents) => {
                self.enter(id)?;
                let mut items = Vec::with_capacity(self.tree.items(contents).count());
                while let Some(item) = contents.take_next(&self.tree) {
                    items.push(self.decode_node(item)?);
                }
                self.leave(id);
                Data::Seq(items)
            }
            RawContent::Map(contents) => {
                let mut entries = Entries::default();
                entries.pairs.reserve_exact(self.tree.entries(contents).count());
                self.add_entries(id, contents, &mut entries, false)?;
                Data::Map(Mapping::from_iter(entries.pairs))
            }
        };
        Ok(Node { data, position })
    }

    /// Counts a node, and rejects the document if aliases add too much to it.
    ///
    /// Documents of up to [`FREE_NODES`] nodes, or with up to [`FREE_ALIAS_NODES`] from aliases, are accepted
    /// up to [`MAX_ALIAS_BYTES`]. Up to 400,000 nodes, 99 percent may come from aliases; the limit falls to
    /// 10 percent at 4,000,000.
    fn count(&mut self, id: NodeId) -> Result<(), Error> {
        /// The number of nodes above which the limit falls.
        const STRICTER_FROM_NODES: f64 = 400_000.0;
        /// The number of nodes from which the limit is lowest.
        const STRICTEST_FROM_NODES: f64 = 4_000_000.0;
        self.decoded_count += 1;
        if self.alias_depth == 0 {
            return Ok(());
        }
        self.alias_node_count += 1;
        if let RawContent::Scalar { text, .. } = self.tree.content(id) {
            self.alias_bytes += text.len();
        }
        #[expect(clippy::cast_precision_loss, reason = "counts of nodes are far below 2^52")]
        let (node_count, alias_count) = (self.decoded_count as f64, self.alias_node_count as f64);
        let excess = node_count.clamp(STRICTER_FROM_NODES, STRICTEST_FROM_NODES) - STRICTER_FROM_NODES;
        let max_ratio = 0.99 - 0.89 * (excess / (STRICTEST_FROM_NODES - STRICTER_FROM_NODES));
        let is_small = self.decoded_count <= FREE_NODES || self.alias_node_count <= FREE_ALIAS_NODES;
        let exceeds_ratio = !is_small && alias_count / node_count > max_ratio;
        if exceeds_ratio || self.alias_bytes > MAX_ALIAS_BYTES {
            return Err(self
                .error_at(id, "aliases repeat too much of this document")
                .with_hint("replace aliases by the values themselves, or by variables"));
        }
        Ok(())
    }

    fn enter(&mut self, id: NodeId) -> Result<(), Error> {
        self.is_open[id] = true;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            let problem = format!("the document is nested deeper than {MAX_DEPTH} levels, aliases included");
            return Err(self.error_at(id, problem).with_hint("write the document with fewer levels"));
        }
        Ok(())
    }

    fn leave(&mut self, id: NodeId) {
        self.is_open[id] = false;
        self.depth -= 1;
    }

    fn follow_alias<T>(
        &mut self,
        id: NodeId,
        target: NodeId,
        decode: impl FnOnce(&mut Self, NodeId) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if self.is_open[target] {
            return Err(self
                .error_at(id, "this alias is inside the value that it refers to")
                .with_hint("write out the value that the alias stands for"));
        }
        self.alias_depth += 1;
        let result = decode(self, target);
        self.alias_depth -= 1;
        result
    }

    /// Adds the entries of a mapping. Entries of a merge key give way to those of the mapping itself, and a
    /// key that is set twice is an error.
    fn add_entries(
        &mut self,
        id: NodeId,
        mut contents: Contents,
        entries: &mut Entries<'a>,
        is_merged: bool,
    ) -> Result<(), Error> {
        self.enter(id)?;
        while let (Some(key), Some(value)) = (contents.take_next(&self.tree), contents.take_next(&self.tree))
        {
            if self.is_merge(key) {
                self.add_merged(value, entries)?;
                continue;
            }
            let key_node = self.decode_node(key)?;
            let key_position = self.tree.position(key);
            if matches!(key_node.data, Data::Seq(_) | Data::Map(_)) {
                return Err(Error::at_line_column(
                    key_position,
                    format!("a {} cannot be a key", key_node.kind()),
                )
                .with_hint("put the key in quotes, so that it is a string"));
            }
            let index_key = self.index_key(key, &key_node);
            let value_node = self.decode_node(value)?;
            if let Err((key_node, first)) = entries.set(key_node, index_key, value_node, is_merged) {
                let problem = format!(
                    "{} is already set at line {}, column {}",
                    describe_key(&key_node),
                    first.line,
                    first.column
                );
                return Err(Error::at_line_column(key_position, problem)
                    .with_hint("remove or rename one of the two keys"));
            }
        }
        self.leave(id);
        Ok(())
    }

    /// Returns the key under which the entry is indexed. It borrows the text of an untagged string from the
    /// document.
    fn index_key(&self, id: NodeId, key: &Node) -> Option<Key<'a>> {
        match (&key.data, self.tree.document_text(id)) {
            (Data::String(_), Some(text)) if self.tree.tag(id).is_none() => Some(Key::String(text.into())),
            (data, _) => Key::of(data).map(Key::into_owned),
        }
    }

    fn is_merge(&self, key: NodeId) -> bool {
        match self.tree.content(key) {
            RawContent::Scalar { text, is_plain } => {
                text == "<<"
                    && (is_plain || matches!(self.tree.tag(key), Some("!" | "tag:yaml.org,2002:merge")))
            }
            _ => false,
        }
    }

    fn add_merged(&mut self, id: NodeId, entries: &mut Entries<'a>) -> Result<(), Error> {
        match self.tree.content(id) {
            RawContent::Seq(contents) => {
                // The first mapping takes precedence, so it is merged last.
                let items: Vec<NodeId> = self.tree.items(contents).collect();
                items.into_iter().rev().try_for_each(|item| self.add_merged_mapping(item, entries))
            }
            _ => self.add_merged_mapping(id, entries),
        }
    }

    fn add_merged_mapping(&mut self, id: NodeId, entries: &mut Entries<'a>) -> Result<(), Error> {
        self.count(id)?;
        match self.tree.content(id) {
            RawContent::Map(contents) => self.add_entries(id, contents, entries, true),
            RawContent::Alias(target) if let RawContent::Map(contents) = self.tree.content(target) => self
                .follow_alias(id, target, |decoder, target| {
                    decoder.count(target)?;
                    decoder.add_entries(target, contents, entries, true)
                }),
            _ => Err(self
                .error_at(id, "'<<' takes a mapping or a list of mappings")
                .with_hint("name the alias of a mapping, or put '<<' in quotes if it is a key")),
        }
    }

    /// Resolves a scalar by its tag. Without a tag, only a plain scalar can be anything but text.
    fn decode_scalar(&self, id: NodeId, text: &str, is_plain: bool) -> Result<Data, Error> {
        let tag = self.tree.tag(id);
        let string = || Data::String(text.into());
        let Some(tag) = tag else {
            return Ok(match scalar::resolve(text) {
                ResolvedScalar::Value(data) if is_plain => data,
                _ => string(),
            });
        };
        let refuse = |expected: &str| {
            let problem = format!("the value does not fit its tag: it is not {expected}");
            Err(self.error_at(id, problem).with_hint("correct the value, or remove the tag"))
        };
        match tag.strip_prefix(TAG_PREFIX) {
            Some("binary") => {
                let bytes = base64::engine::general_purpose::STANDARD
                    .decode(text.replace(['\n', '\r'], ""))
                    .map_err(|_| {
                        self.error_at(id, "this !!binary value is not base64")
                            .with_hint("encode the value as base64, or remove the tag")
                    })?;
                String::from_utf8(bytes).map(|text| Data::String(text.into())).map_err(|_| {
                    self.error_at(
                        id,
                        "this !!binary value is not UTF-8 text, and other bytes are not supported",
                    )
                    .with_hint("remove the tag, so that the value stays base64 text")
                })
            }
            Some("bool") => match scalar::resolve_except_timestamp(text) {
                ResolvedScalar::Value(data @ Data::Bool(_)) => Ok(data),
                _ => refuse("a boolean"),
            },
            Some("int") => match scalar::resolve_except_timestamp(text) {
                ResolvedScalar::Value(data @ (Data::Int(_) | Data::UInt(_))) => Ok(data),
                _ => refuse("an integer"),
            },
            #[expect(clippy::cast_precision_loss, reason = "the tag asks for a float")]
            Some("float") => match scalar::resolve_except_timestamp(text) {
                ResolvedScalar::Value(data @ Data::Float(_)) => Ok(data),
                ResolvedScalar::Value(Data::Int(int)) => Ok(Data::Float(int as f64)),
                _ => refuse("a float"),
            },
            Some("null") => match scalar::resolve_except_timestamp(text) {
                ResolvedScalar::Value(Data::Null) => Ok(Data::Null),
                _ => refuse("null"),
            },
            Some("timestamp") if !scalar::is_timestamp(text) => refuse("a timestamp"),
            _ => Ok(string()),
        }
    }
}
