//! Loads text as [`Node`]s: follows aliases and merge keys and resolves scalars.
//!
//! Aliases are expanded, so a small document can describe a huge tree. `Decoder::count` limits the nodes and
//! the text that come from aliases.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::node::Key;
use super::position::LineColumn;
use super::scalar::{self, ResolvedScalar};
use super::syntax_tree::{self, MAX_DEPTH, NodeId, RawContent, RawNode, SyntaxTree};
use super::{Data, Error, Mapping, Node, Position};
use base64::Engine;
use foldhash::fast::RandomState;

/// The maximum number of bytes of scalars that aliases may add.
const MAX_ALIAS_BYTES: usize = 64 << 20;
/// Documents of up to this many nodes may consist of aliases.
const FREE_NODES: usize = 1000;
/// Every document may have this many nodes from aliases.
const FREE_ALIAS_NODES: usize = 100;

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

fn decode(tree: &SyntaxTree<'_>, source: &Arc<PathBuf>) -> Result<Node, Error> {
    if tree.has_more_documents {
        tracing::warn!(file = %source.display(), "several YAML documents: only the first is used");
    }
    let Some(root) = tree.root else {
        return Ok(Node {
            data: Data::Null,
            position: Position { source: Some(Arc::clone(source)), line: 1, column: 1 },
        });
    };
    let mut decoder = Decoder {
        open: vec![false; tree.nodes.len()],
        tree,
        source,
        decoded: 0,
        from_aliases: 0,
        alias_bytes: 0,
        alias_depth: 0,
        depth: 0,
    };
    decoder.node(root)
}

struct Decoder<'a> {
    tree: &'a SyntaxTree<'a>,
    source: &'a Arc<PathBuf>,
    /// For each node of the tree, true while the node is being decoded.
    open: Vec<bool>,
    /// The number of decoded nodes, those from aliases included.
    decoded: usize,
    /// The number of decoded nodes that come from aliases.
    from_aliases: usize,
    /// The bytes of scalars that come from aliases.
    alias_bytes: usize,
    /// The number of aliases that are being followed.
    alias_depth: usize,
    /// The number of collections that are being decoded.
    depth: usize,
}

/// A mapping under construction. A key from a merge may be set again, but a key of the mapping itself may
/// not.
#[derive(Default)]
struct Entries<'t> {
    entries: Vec<(Node, Node)>,
    index: HashMap<Key<'t>, Slot, RandomState>,
}

struct Slot {
    /// Index into `Entries::entries`.
    at: usize,
    /// True if the entry comes from a merge.
    merged: bool,
}

impl<'t> Entries<'t> {
    /// Sets the value of a key. If the mapping itself has set the key before, returns the key and the
    /// position of the earlier one.
    fn set(
        &mut self,
        key: Node,
        index_key: Option<Key<'t>>,
        value: Node,
        merged: bool,
    ) -> Result<(), (Node, Position)> {
        let Some(index_key) = index_key else {
            self.entries.push((key, value));
            return Ok(());
        };
        match self.index.entry(index_key) {
            std::collections::hash_map::Entry::Vacant(vacant) => {
                vacant.insert(Slot { at: self.entries.len(), merged });
                self.entries.push((key, value));
            }
            std::collections::hash_map::Entry::Occupied(mut occupied) => {
                let slot = occupied.get_mut();
                if !merged && !slot.merged {
                    return Err((key, self.entries[slot.at].0.position.clone()));
                }
                slot.merged &= merged;
                self.entries[slot.at] = (key, value);
            }
        }
        Ok(())
    }
}

/// Names a key in an error. Keys are not secret, but values may be.
fn name(key: &Node) -> String {
    match super::emit(key).trim_end() {
        text if text.len() > 60 || text.contains('\n') => "this key".into(),
        text => format!("the key '{}'", text.trim_matches(['\'', '"'])),
    }
}

impl<'a> Decoder<'a> {
    fn position(&self, id: NodeId) -> Position {
        let LineColumn { line, column } = self.tree.nodes[id].position;
        Position { source: Some(Arc::clone(self.source)), line, column }
    }

    fn error(&self, id: NodeId, problem: impl Into<String>) -> Error {
        Error::at_line_column(self.tree.nodes[id].position, problem)
    }

    fn node(&mut self, id: NodeId) -> Result<Node, Error> {
        self.count(id)?;
        let raw = &self.tree.nodes[id];
        let data = match &raw.kind {
            RawContent::Scalar { text, plain } => self.scalar(id, text, *plain)?,
            RawContent::Alias(target) => {
                return self.alias(id, *target, Self::node);
            }
            RawContent::Seq(items) => {
                self.enter(id)?;
                let items = items.iter().map(|item| self.node(*item)).collect::<Result<_, _>>()?;
                self.leave(id);
                Data::Seq(items)
            }
            RawContent::Map(_) => {
                let mut entries = Entries::default();
                self.mapping(id, &mut entries, false)?;
                Data::Map(Mapping::from_iter(entries.entries))
            }
        };
        Ok(Node { data, position: self.position(id) })
    }

    /// Counts a node, and rejects the document if aliases add too much to it.
    ///
    /// Documents of up to [`FREE_NODES`] nodes, or with up to [`FREE_ALIAS_NODES`] from aliases, are accepted
    /// up to [`MAX_ALIAS_BYTES`]. Up to 400,000 nodes, 99 percent may come from aliases; the limit falls to
    /// 10 percent at 4,000,000.
    fn count(&mut self, id: NodeId) -> Result<(), Error> {
        const LOW: f64 = 400_000.0;
        const HIGH: f64 = 4_000_000.0;
        self.decoded += 1;
        if self.alias_depth == 0 {
            return Ok(());
        }
        self.from_aliases += 1;
        if let RawContent::Scalar { text, .. } = &self.tree.nodes[id].kind {
            self.alias_bytes += text.len();
        }
        #[expect(clippy::cast_precision_loss, reason = "counts of nodes are far below 2^52")]
        let (decoded, from_aliases) = (self.decoded as f64, self.from_aliases as f64);
        let allowed = 0.99 - 0.89 * ((decoded.clamp(LOW, HIGH) - LOW) / (HIGH - LOW));
        let is_small = self.decoded <= FREE_NODES || self.from_aliases <= FREE_ALIAS_NODES;
        let too_many = !is_small && from_aliases / decoded > allowed;
        if too_many || self.alias_bytes > MAX_ALIAS_BYTES {
            return Err(self
                .error(id, "aliases repeat too much of this document")
                .with_hint("replace aliases by the values themselves, or by variables"));
        }
        Ok(())
    }

    fn enter(&mut self, id: NodeId) -> Result<(), Error> {
        self.open[id] = true;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            let problem = format!("the document is nested deeper than {MAX_DEPTH} levels, aliases included");
            return Err(self
                .error(id, problem)
                .with_hint("move nested values closer to the top of the document"));
        }
        Ok(())
    }

    fn leave(&mut self, id: NodeId) {
        self.open[id] = false;
        self.depth -= 1;
    }

    fn alias<T>(
        &mut self,
        id: NodeId,
        target: NodeId,
        decode: impl FnOnce(&mut Self, NodeId) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if self.open[target] {
            return Err(self
                .error(id, "this alias is inside the value that it refers to")
                .with_hint("write out the value that the alias stands for"));
        }
        self.alias_depth += 1;
        let result = decode(self, target);
        self.alias_depth -= 1;
        result
    }

    fn mapping(&mut self, id: NodeId, into: &mut Entries<'a>, merged: bool) -> Result<(), Error> {
        self.enter(id)?;
        let RawContent::Map(entries) = &self.tree.nodes[id].kind else { return Ok(()) };
        for (key, value) in entries {
            if self.is_merge(*key) {
                self.merge(*value, into)?;
                continue;
            }
            let key_node = self.node(*key)?;
            if matches!(key_node.data, Data::Seq(_) | Data::Map(_)) {
                return Err(self
                    .error(*key, format!("a {} cannot be a key", key_node.kind()))
                    .with_hint("put the key in quotes if it is text"));
            }
            let index_key = self.index_key(*key, &key_node);
            let value_node = self.node(*value)?;
            if let Err((key_node, first)) = into.set(key_node, index_key, value_node, merged) {
                let problem = format!(
                    "{} is already set at line {}, column {}",
                    name(&key_node),
                    first.line,
                    first.column
                );
                return Err(self.error(*key, problem).with_hint("remove or rename one of the two keys"));
            }
        }
        self.leave(id);
        Ok(())
    }

    /// Returns the key under which the entry is indexed. It borrows the text of an untagged string from the
    /// document.
    fn index_key(&self, id: NodeId, key: &Node) -> Option<Key<'a>> {
        match (&key.data, &self.tree.nodes[id]) {
            (Data::String(_), RawNode { kind: RawContent::Scalar { text, .. }, tag: None, .. }) => {
                Some(Key::String(text.as_ref().into()))
            }
            (data, _) => Key::of(data).map(Key::into_owned),
        }
    }

    fn is_merge(&self, key: NodeId) -> bool {
        let raw = &self.tree.nodes[key];
        match &raw.kind {
            RawContent::Scalar { text, plain } => {
                text == "<<"
                    && (*plain || matches!(raw.tag.as_deref(), Some("!" | "tag:yaml.org,2002:merge")))
            }
            _ => false,
        }
    }

    fn merge(&mut self, id: NodeId, into: &mut Entries<'a>) -> Result<(), Error> {
        match &self.tree.nodes[id].kind {
            RawContent::Seq(items) => {
                // The first mapping takes precedence, so it is merged last.
                for item in items.iter().rev() {
                    self.merge_one(*item, into)?;
                }
                Ok(())
            }
            _ => self.merge_one(id, into),
        }
    }

    fn merge_one(&mut self, id: NodeId, into: &mut Entries<'a>) -> Result<(), Error> {
        self.count(id)?;
        match &self.tree.nodes[id].kind {
            RawContent::Map(_) => self.mapping(id, into, true),
            RawContent::Alias(target) if matches!(self.tree.nodes[*target].kind, RawContent::Map(_)) => self
                .alias(id, *target, |decoder, target| {
                    decoder.count(target)?;
                    decoder.mapping(target, into, true)
                }),
            _ => Err(self
                .error(id, "'<<' takes a mapping or a list of mappings")
                .with_hint("give it an alias of a mapping, or put '<<' in quotes if it is a key")),
        }
    }

    fn scalar(&self, id: NodeId, text: &str, plain: bool) -> Result<Data, Error> {
        let tag = self.tree.nodes[id].tag.as_deref();
        let string = || Data::String(text.to_owned());
        let Some(tag) = tag else {
            return Ok(match scalar::resolve(text) {
                ResolvedScalar::Value(data) if plain => data,
                _ => string(),
            });
        };
        let mismatch = |wanted: &str| {
            let problem = format!("the value does not fit its tag: it is not {wanted}");
            Err(self.error(id, problem).with_hint("correct the value, or remove the tag"))
        };
        match tag.strip_prefix(TAG_PREFIX) {
            Some("binary") => {
                let bytes = base64::engine::general_purpose::STANDARD
                    .decode(text.replace(['\n', '\r'], ""))
                    .map_err(|_| {
                        self.error(id, "this !!binary value is not base64")
                            .with_hint("encode the value as base64, or remove the tag")
                    })?;
                String::from_utf8(bytes).map(Data::String).map_err(|_| {
                    self.error(id, "this !!binary value is not UTF-8 text, and other bytes are not supported")
                        .with_hint("remove the tag, so that the value stays base64 text")
                })
            }
            Some("bool") => match scalar::resolve_except_timestamp(text) {
                ResolvedScalar::Value(data @ Data::Bool(_)) => Ok(data),
                _ => mismatch("a boolean"),
            },
            Some("int") => match scalar::resolve_except_timestamp(text) {
                ResolvedScalar::Value(data @ (Data::Int(_) | Data::UInt(_))) => Ok(data),
                _ => mismatch("an integer"),
            },
            #[expect(clippy::cast_precision_loss, reason = "the tag asks for a float")]
            Some("float") => match scalar::resolve_except_timestamp(text) {
                ResolvedScalar::Value(data @ Data::Float(_)) => Ok(data),
                ResolvedScalar::Value(Data::Int(int)) => Ok(Data::Float(int as f64)),
                _ => mismatch("a float"),
            },
            Some("null") => match scalar::resolve_except_timestamp(text) {
                ResolvedScalar::Value(Data::Null) => Ok(Data::Null),
                _ => mismatch("null"),
            },
            Some("timestamp") if !scalar::is_timestamp(text) => mismatch("a timestamp"),
            _ => Ok(string()),
        }
    }
}
