//! From text to [`Node`]s: follows aliases and merge keys and resolves scalars.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::node::Key;
use super::position::Place;
use super::scalar::{self, Plain};
use super::tree::{self, Id, Kind, MAX_DEPTH, Raw, Tree};
use super::{Data, Error, Mapping, Node, Position};
use base64::Engine;
use foldhash::fast::RandomState;

/// How many bytes of text aliases may repeat.
const MAX_ALIAS_BYTES: usize = 64 << 20;

const TAG_PREFIX: &str = "tag:yaml.org,2002:";

/// Loads the first document of `text`. `source` names it in positions and errors. Without any document
/// the result is null.
///
/// Later documents are not looked at, as upstream does not.
pub fn load(text: &str, source: &Path) -> Result<Node, Error> {
    let source = Arc::new(source.to_owned());
    load_shared(text, &source).map_err(|error| error.in_file(&source))
}

fn load_shared(text: &str, source: &Arc<PathBuf>) -> Result<Node, Error> {
    tree::parse(text, |tree| decode(tree, source))?
}

fn decode(tree: &Tree<'_>, source: &Arc<PathBuf>) -> Result<Node, Error> {
    if tree.more {
        tracing::warn!(file = %source.display(), "only the first of several YAML documents is read");
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
    tree: &'a Tree<'a>,
    source: &'a Arc<PathBuf>,
    /// Per node of the tree, whether it is being decoded further up the stack.
    open: Vec<bool>,
    decoded: usize,
    from_aliases: usize,
    alias_bytes: usize,
    alias_depth: usize,
    depth: usize,
}

/// A mapping under construction. Keys set by a merge may be set again, keys written here may not.
#[derive(Default)]
struct Entries<'t> {
    entries: Vec<(Node, Node)>,
    index: HashMap<Key<'t>, Slot, RandomState>,
}

struct Slot {
    at: usize,
    merged: bool,
}

impl<'t> Entries<'t> {
    /// Sets a key, or gives it back with the place of the earlier entry that forbids it.
    fn set(
        &mut self,
        key: Node,
        hash: Option<Key<'t>>,
        value: Node,
        merged: bool,
    ) -> Result<(), (Node, Position)> {
        let Some(hash) = hash else {
            self.entries.push((key, value));
            return Ok(());
        };
        match self.index.entry(hash) {
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

/// A key in an error. What it leads to may be secret, the key is not.
fn name(key: &Node) -> String {
    match super::emit(key).trim_end() {
        text if text.len() > 60 || text.contains('\n') => "this key".into(),
        text => format!("the key '{}'", text.trim_matches(['\'', '"'])),
    }
}

impl<'a> Decoder<'a> {
    fn position(&self, id: Id) -> Position {
        let Place { line, column } = self.tree.nodes[id].place;
        Position { source: Some(Arc::clone(self.source)), line, column }
    }

    fn error(&self, id: Id, problem: impl Into<String>) -> Error {
        Error::at(self.tree.nodes[id].place, problem)
    }

    fn node(&mut self, id: Id) -> Result<Node, Error> {
        self.count(id)?;
        let raw = &self.tree.nodes[id];
        let data = match &raw.kind {
            Kind::Scalar { text, plain } => self.scalar(id, text, *plain)?,
            Kind::Alias(target) => {
                return self.alias(id, *target, Self::node);
            }
            Kind::Seq(items) => {
                self.enter(id)?;
                let items = items.iter().map(|item| self.node(*item)).collect::<Result<_, _>>()?;
                self.leave(id);
                Data::Seq(items)
            }
            Kind::Map(_) => {
                let mut entries = Entries::default();
                self.mapping(id, &mut entries, false)?;
                Data::Map(Mapping::from_iter(entries.entries))
            }
        };
        Ok(Node { data, position: self.position(id) })
    }

    /// Counts a node against the limits on what aliases may add: nearly everything in a small document,
    /// a tenth in a very large one.
    fn count(&mut self, id: Id) -> Result<(), Error> {
        const LOW: f64 = 400_000.0;
        const HIGH: f64 = 4_000_000.0;
        self.decoded += 1;
        if self.alias_depth == 0 {
            return Ok(());
        }
        self.from_aliases += 1;
        if let Kind::Scalar { text, .. } = &self.tree.nodes[id].kind {
            self.alias_bytes += text.len();
        }
        #[expect(clippy::cast_precision_loss, reason = "counts of nodes are far below 2^52")]
        let (decoded, from_aliases) = (self.decoded as f64, self.from_aliases as f64);
        let allowed = 0.99 - 0.89 * ((decoded.clamp(LOW, HIGH) - LOW) / (HIGH - LOW));
        let too_many = self.from_aliases > 100 && self.decoded > 1000 && from_aliases / decoded > allowed;
        if too_many || self.alias_bytes > MAX_ALIAS_BYTES {
            return Err(self
                .error(id, "aliases repeat too much of this document")
                .with_hint("write the value out, or use a variable"));
        }
        Ok(())
    }

    fn enter(&mut self, id: Id) -> Result<(), Error> {
        self.open[id] = true;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.error(id, format!("nested deeper than {MAX_DEPTH} levels, aliases included")));
        }
        Ok(())
    }

    fn leave(&mut self, id: Id) {
        self.open[id] = false;
        self.depth -= 1;
    }

    fn alias<T>(
        &mut self,
        id: Id,
        target: Id,
        decode: impl FnOnce(&mut Self, Id) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if self.open[target] {
            return Err(self.error(id, "this alias stands inside the value it refers to"));
        }
        self.alias_depth += 1;
        let result = decode(self, target);
        self.alias_depth -= 1;
        result
    }

    fn mapping(&mut self, id: Id, into: &mut Entries<'a>, merged: bool) -> Result<(), Error> {
        self.enter(id)?;
        let Kind::Map(entries) = &self.tree.nodes[id].kind else { return Ok(()) };
        for (key, value) in entries {
            if self.is_merge(*key) {
                self.merge(*value, into)?;
                continue;
            }
            let key_node = self.node(*key)?;
            if matches!(key_node.data, Data::Seq(_) | Data::Map(_)) {
                return Err(self.error(*key, format!("a {} cannot be a key", key_node.kind())));
            }
            let hash = self.hash(*key, &key_node);
            let value_node = self.node(*value)?;
            if let Err((key_node, first)) = into.set(key_node, hash, value_node, merged) {
                let problem = format!(
                    "{} is set already at line {}, column {}",
                    name(&key_node),
                    first.line,
                    first.column
                );
                return Err(self.error(*key, problem));
            }
        }
        self.leave(id);
        Ok(())
    }

    /// A key for the index. It lies in the document where the key does.
    fn hash(&self, id: Id, key: &Node) -> Option<Key<'a>> {
        match (&key.data, &self.tree.nodes[id]) {
            (Data::String(_), Raw { kind: Kind::Scalar { text, .. }, tag: None, .. }) => {
                Some(Key::String(text.as_ref().into()))
            }
            (data, _) => Key::of(data).map(Key::into_owned),
        }
    }

    fn is_merge(&self, key: Id) -> bool {
        let raw = &self.tree.nodes[key];
        match &raw.kind {
            Kind::Scalar { text, plain } => {
                text == "<<"
                    && (*plain || matches!(raw.tag.as_deref(), Some("!" | "tag:yaml.org,2002:merge")))
            }
            _ => false,
        }
    }

    fn merge(&mut self, id: Id, into: &mut Entries<'a>) -> Result<(), Error> {
        match &self.tree.nodes[id].kind {
            Kind::Seq(items) => {
                // Earlier mappings win, and the last one set wins.
                for item in items.iter().rev() {
                    self.merge_one(*item, into)?;
                }
                Ok(())
            }
            _ => self.merge_one(id, into),
        }
    }

    fn merge_one(&mut self, id: Id, into: &mut Entries<'a>) -> Result<(), Error> {
        self.count(id)?;
        match &self.tree.nodes[id].kind {
            Kind::Map(_) => self.mapping(id, into, true),
            Kind::Alias(target) if matches!(self.tree.nodes[*target].kind, Kind::Map(_)) => {
                self.alias(id, *target, |decoder, target| {
                    decoder.count(target)?;
                    decoder.mapping(target, into, true)
                })
            }
            _ => Err(self.error(id, "'<<' takes a mapping or a sequence of mappings")),
        }
    }

    fn scalar(&self, id: Id, text: &str, plain: bool) -> Result<Data, Error> {
        let tag = self.tree.nodes[id].tag.as_deref();
        let string = || Data::String(text.to_owned());
        let Some(tag) = tag else {
            return Ok(match scalar::resolve(text) {
                Plain::Value(data) if plain => data,
                _ => string(),
            });
        };
        let mismatch = |wanted: &str| Err(self.error(id, format!("this is not {wanted}, as its tag says")));
        match tag.strip_prefix(TAG_PREFIX) {
            Some("binary") => {
                let bytes = base64::engine::general_purpose::STANDARD
                    .decode(text.replace(['\n', '\r'], ""))
                    .map_err(|_| self.error(id, "this !!binary value is not base64"))?;
                String::from_utf8(bytes).map(Data::String).map_err(|_| {
                    self.error(id, "this !!binary value is not UTF-8 text, which is all that is taken")
                })
            }
            Some("bool") => match scalar::resolve_typed(text) {
                Plain::Value(data @ Data::Bool(_)) => Ok(data),
                _ => mismatch("a boolean"),
            },
            Some("int") => match scalar::resolve_typed(text) {
                Plain::Value(data @ (Data::Int(_) | Data::UInt(_))) => Ok(data),
                _ => mismatch("an integer"),
            },
            #[expect(clippy::cast_precision_loss, reason = "the tag asks for a float")]
            Some("float") => match scalar::resolve_typed(text) {
                Plain::Value(data @ Data::Float(_)) => Ok(data),
                Plain::Value(Data::Int(int)) => Ok(Data::Float(int as f64)),
                _ => mismatch("a float"),
            },
            Some("null") => match scalar::resolve_typed(text) {
                Plain::Value(Data::Null) => Ok(Data::Null),
                _ => mismatch("null"),
            },
            Some("timestamp") if !scalar::is_timestamp(text) => mismatch("a timestamp"),
            _ => Ok(string()),
        }
    }
}
