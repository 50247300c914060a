//! The tree that a YAML document loads into: resolved values with their positions.

mod key;
mod text;

use super::{Error, Position};

pub(crate) use key::Key;
pub use text::Text;

/// A value with its position. Two nodes with equal values are equal, even at different positions.
#[derive(Debug, Clone)]
pub struct Node {
    /// The value.
    pub data: Data,
    /// The position of the value in its document.
    pub position: Position,
}

/// A resolved YAML value.
#[derive(Debug, Clone, PartialEq)]
pub enum Data {
    /// `~`, `null` or an empty scalar.
    Null,
    /// A boolean in any YAML 1.1 spelling.
    Bool(bool),
    /// An integer that fits 64 signed bits.
    Int(i64),
    /// An integer above `i64::MAX`.
    UInt(u64),
    /// A float, infinities and NaN included.
    Float(f64),
    /// A string.
    String(Text),
    /// A sequence.
    Seq(Vec<Node>),
    /// A mapping in the order of the document.
    Map(Mapping),
}

/// A mapping that keeps the order of its keys. [`load`](crate::load()) accepts any scalar as a key.
///
/// Two mappings with the same entries in different order are equal. The methods that look up a key search all
/// entries.
#[derive(Debug, Clone, Default)]
pub struct Mapping {
    entries: Vec<(Node, Node)>,
}

impl PartialEq for Mapping {
    fn eq(&self, other: &Self) -> bool {
        if self.len() != other.len() {
            return false;
        }
        // The fast path: most compared mappings have the same order.
        if self.entries.iter().zip(&other.entries).all(|(mine, theirs)| mine == theirs) {
            return true;
        }
        let index: std::collections::HashMap<Key, &Node> =
            other.iter().filter_map(|(key, value)| Some((Key::of(&key.data)?, value))).collect();
        self.iter().all(|(key, value)| {
            Key::of(&key.data).and_then(|key| index.get(&key)).is_some_and(|theirs| *theirs == value)
        })
    }
}

impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.data == other.data
    }
}

impl From<Data> for Node {
    fn from(data: Data) -> Self {
        Node { data, position: Position::default() }
    }
}

impl Node {
    /// Creates a string node without a position.
    pub fn string(text: impl Into<Text>) -> Self {
        Data::String(text.into()).into()
    }

    /// Converts a JSON value to a tree without positions.
    pub fn from_json(value: &serde_json::Value) -> Self {
        use serde_json::Value;
        match value {
            Value::Null => Data::Null,
            Value::Bool(flag) => Data::Bool(*flag),
            Value::Number(number) => match (number.as_i64(), number.as_u64()) {
                (Some(int), _) => Data::Int(int),
                (None, Some(int)) => Data::UInt(int),
                (None, None) => Data::Float(number.as_f64().unwrap_or(f64::NAN)),
            },
            Value::String(text) => Data::String(text.into()),
            Value::Array(items) => Data::Seq(items.iter().map(Node::from_json).collect()),
            Value::Object(entries) => Data::Map(
                entries.iter().map(|(key, value)| (Node::string(key), Node::from_json(value))).collect(),
            ),
        }
        .into()
    }

    /// Converts this tree to JSON.
    ///
    /// # Errors
    ///
    /// Returns an error with the position of a key that is not a string, or of an infinite or undefined
    /// float.
    pub fn to_json(&self) -> Result<serde_json::Value, Error> {
        use serde_json::Value;
        let not_finite_error = |float: &f64| {
            Error::at_position(&self.position, format!("the number {float} cannot be written as JSON"))
                .with_hint("use a finite number, or put the value in quotes")
        };
        Ok(match &self.data {
            Data::Null => Value::Null,
            Data::Bool(flag) => Value::Bool(*flag),
            Data::Int(int) => (*int).into(),
            Data::UInt(int) => (*int).into(),
            Data::Float(float) => serde_json::Number::from_f64(*float)
                .map(Value::Number)
                .ok_or_else(|| not_finite_error(float))?,
            Data::String(text) => Value::String(text.as_str().to_owned()),
            Data::Seq(items) => Value::Array(items.iter().map(Node::to_json).collect::<Result<_, Error>>()?),
            Data::Map(map) => {
                let mut object = serde_json::Map::new();
                for (key, value) in map.iter() {
                    let Some(name) = key.as_str() else {
                        return Err(Error::at_position(
                            &key.position,
                            format!("the key has the type {}, but must be a string", key.kind()),
                        )
                        .with_hint("put the key in quotes"));
                    };
                    object.insert(name.to_owned(), value.to_json()?);
                }
                Value::Object(object)
            }
        })
    }

    /// Returns the name of the type for error messages, without an article: `integer`, `mapping`.
    pub fn kind(&self) -> &'static str {
        match self.data {
            Data::Null => "null",
            Data::Bool(_) => "boolean",
            Data::Int(_) | Data::UInt(_) => "integer",
            Data::Float(_) => "float",
            Data::String(_) => "string",
            Data::Seq(_) => "list",
            Data::Map(_) => "mapping",
        }
    }

    /// Returns the number of collections nested in each other: 0 for a scalar, 1 for a sequence of scalars.
    pub fn depth(&self) -> usize {
        match &self.data {
            Data::Seq(items) => 1 + items.iter().map(Node::depth).max().unwrap_or(0),
            Data::Map(map) => 1 + map.iter().map(|(_, value)| value.depth()).max().unwrap_or(0),
            _ => 0,
        }
    }

    /// Returns true for null.
    pub fn is_null(&self) -> bool {
        matches!(self.data, Data::Null)
    }

    /// Returns the text of a string, and `None` for other types.
    pub fn as_str(&self) -> Option<&str> {
        match &self.data {
            Data::String(text) => Some(text),
            _ => None,
        }
    }

    /// Returns an integer up to `i64::MAX`, and `None` for larger integers and other types.
    pub fn as_i64(&self) -> Option<i64> {
        match self.data {
            Data::Int(int) => Some(int),
            _ => None,
        }
    }

    /// Returns a boolean, and `None` for other types.
    pub fn as_bool(&self) -> Option<bool> {
        match self.data {
            Data::Bool(flag) => Some(flag),
            _ => None,
        }
    }

    /// Returns the items of a sequence, and `None` for other types.
    pub fn as_seq(&self) -> Option<&[Node]> {
        match &self.data {
            Data::Seq(items) => Some(items),
            _ => None,
        }
    }

    /// Returns a mapping, and `None` for other types.
    pub fn as_map(&self) -> Option<&Mapping> {
        match &self.data {
            Data::Map(map) => Some(map),
            _ => None,
        }
    }

    /// Returns the value of a string key. Returns `None` if the key is missing or the node is not a mapping.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.as_map()?.get(key)
    }
}

impl FromIterator<(Node, Node)> for Mapping {
    fn from_iter<I: IntoIterator<Item = (Node, Node)>>(entries: I) -> Self {
        Mapping { entries: entries.into_iter().collect() }
    }
}

impl IntoIterator for Mapping {
    type Item = (Node, Node);
    type IntoIter = std::vec::IntoIter<(Node, Node)>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.into_iter()
    }
}

impl Mapping {
    /// Creates an empty mapping.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns true if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Iterates over the entries in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&Node, &Node)> {
        self.entries.iter().map(|(key, value)| (key, value))
    }

    /// Iterates over the entries in order, with mutable values.
    pub fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = (&Node, &mut Node)> {
        self.entries.iter_mut().map(|(key, value)| (&*key, value))
    }

    /// Returns the value of a string key.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entries.iter().find(|(candidate, _)| candidate.as_str() == Some(key)).map(|(_, value)| value)
    }

    /// Returns the value of a string key for modification.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Node> {
        self.entries.iter_mut().find(|(candidate, _)| candidate.as_str() == Some(key)).map(|(_, value)| value)
    }

    /// Returns true if the mapping has this string key.
    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Returns true if the mapping has this key, which may have any type.
    pub fn contains(&self, key: &Node) -> bool {
        self.entries.iter().any(|(candidate, _)| candidate == key)
    }

    /// Sets the value of a key and returns the previous value. A new key is added at the end.
    pub fn insert(&mut self, key: Node, value: Node) -> Option<Node> {
        match self.entries.iter_mut().find(|(candidate, _)| *candidate == key) {
            Some((_, slot)) => Some(std::mem::replace(slot, value)),
            None => {
                // Doubling would leave much memory unused. The search above takes longer than the copies.
                if self.entries.len() == self.entries.capacity() {
                    self.entries.reserve_exact((self.entries.len() / 8).max(4));
                }
                self.entries.push((key, value));
                None
            }
        }
    }

    /// Removes the entry of a string key and returns its value.
    pub fn remove(&mut self, key: &str) -> Option<Node> {
        let index = self.entries.iter().position(|(candidate, _)| candidate.as_str() == Some(key))?;
        Some(self.entries.remove(index).1)
    }
}
