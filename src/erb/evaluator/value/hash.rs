//! Ruby's hashes: in the order of insertion, with keys compared by `eql?`.

use std::cell::{Cell, RefCell};
use std::hash::{Hash, Hasher};
use std::rc::Rc;

use indexmap::IndexMap;
use rustc_hash::{FxBuildHasher, FxHasher};

use super::{Data, ENTRY_BYTES, RString, Value, deep_drop_values};
use crate::evaluator::meter::{self, Charge};

/// A key, compared by `eql?`.
#[derive(Clone)]
pub(crate) struct Key(pub(crate) Value);

/// The memory of a hash without its entries.
const HASH_BYTES: usize = 240;

/// Ruby's Hash, which keeps the order of insertion.
pub(crate) struct RHash {
    pub(crate) map: RefCell<IndexMap<Key, Value, FxBuildHasher>>,
    /// The value for missing keys.
    pub(crate) default: RefCell<Option<Value>>,
    /// The block of `Hash.new`, which computes the value for a missing key.
    pub(crate) default_proc: RefCell<Option<Value>>,
    pub(crate) is_frozen: Cell<bool>,
    charge: Charge,
}

impl Default for RHash {
    fn default() -> Self {
        RHash {
            map: RefCell::default(),
            default: RefCell::default(),
            default_proc: RefCell::default(),
            is_frozen: Cell::default(),
            charge: Charge::new(HASH_BYTES),
        }
    }
}

impl Drop for RHash {
    fn drop(&mut self) {
        let map = std::mem::take(self.map.get_mut());
        let defaults = [self.default.take(), self.default_proc.take()].into_iter().flatten();
        let entries = map.into_iter().flat_map(|(key, value)| [key.0, value]);
        deep_drop_values(entries.chain(defaults));
    }
}

impl RHash {
    /// Returns the value of a key, without the hash's default.
    pub(crate) fn get(&self, key: &Value) -> Option<Value> {
        if let Value::Str(text) = key {
            return self.get_str(&text.get(), text.is_binary.get());
        }
        self.map.borrow().get(&Key(key.clone())).cloned()
    }

    fn get_str(&self, text: &str, is_binary: bool) -> Option<Value> {
        self.map.borrow().get(&StrKey { text, is_binary }).cloned()
    }

    /// Returns the value of a string key.
    pub(crate) fn get_text(&self, text: &str) -> Option<Value> {
        self.get_str(text, false)
    }

    /// Returns the value of a symbol key.
    pub(crate) fn get_symbol(&self, text: &str) -> Option<Value> {
        self.get(&Value::symbol(text))
    }

    /// Sets the value of a key. As in Ruby, a string key is copied and frozen, so that later changes of the
    /// string do not change the key.
    pub(crate) fn insert(&self, key: Value, value: Value) {
        let key = match key {
            Value::Str(text) if !text.is_frozen.get() => {
                let copy = text.copy();
                copy.is_frozen.set(true);
                Value::Str(Rc::new(copy))
            }
            other => other,
        };
        self.map.borrow_mut().insert(Key(key), value);
        self.recount_memory();
    }

    /// Replaces the content.
    pub(crate) fn replace(&self, other: &RHash) {
        let map = other.map.borrow().clone();
        *self.map.borrow_mut() = map;
        self.recount_memory();
    }

    /// Counts the memory again after the content has changed.
    fn recount_memory(&self) {
        self.charge.resize(HASH_BYTES + self.map.borrow().capacity() * ENTRY_BYTES);
    }

    pub(crate) fn remove(&self, key: &Value) -> Option<Value> {
        self.map.borrow_mut().shift_remove(&Key(key.clone()))
    }

    pub(crate) fn len(&self) -> usize {
        self.map.borrow().len()
    }

    pub(crate) fn pairs(&self) -> Vec<(Value, Value)> {
        self.map.borrow().iter().map(|(key, value)| (key.0.clone(), value.clone())).collect()
    }

    pub(crate) fn from_pairs(pairs: impl IntoIterator<Item = (Value, Value)>) -> RHash {
        let hash = RHash::default();
        for (key, value) in pairs {
            hash.insert(key, value);
        }
        hash
    }

    /// Returns a copy with the same defaults that is not frozen.
    pub(crate) fn copy(&self) -> RHash {
        let copy = RHash::default();
        copy.default.replace(self.default.borrow().clone());
        copy.default_proc.replace(self.default_proc.borrow().clone());
        copy.replace(self);
        copy
    }
}

/// A borrowed string key.
#[derive(PartialEq, Eq)]
struct StrKey<'a> {
    text: &'a str,
    is_binary: bool,
}

impl Hash for StrKey<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        hash_str(self.text, state);
    }
}

impl indexmap::Equivalent<Key> for StrKey<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        match &key.0 {
            Value::Str(text) => is_same_text(text, self.text, self.is_binary),
            _ => false,
        }
    }
}

fn is_same_text(string: &RString, text: &str, is_binary: bool) -> bool {
    *string.get() == text && (string.is_binary.get() == is_binary || text.is_ascii())
}

fn hash_str<H: Hasher>(text: &str, state: &mut H) {
    state.write_u8(4);
    text.hash(state);
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        hash_value(&self.0, state, 0);
    }
}

/// The levels of nested values that a hash code covers. This limit also ends the recursion into values that
/// contain themselves.
const MAX_HASH_DEPTH: u32 = 32;

/// Hashes a value so that values that are equal as keys in Ruby (`eql?`) have the same hash.
fn hash_value<H: Hasher>(value: &Value, state: &mut H, depth: u32) {
    if depth > MAX_HASH_DEPTH {
        return;
    }
    meter::step_or_unwind(1);
    match value {
        Value::Nil => state.write_u8(0),
        // In Ruby, false has the hash code of 0.0.
        Value::Bool(false) => hash_value(&Value::Float(0.0), state, depth),
        Value::Bool(true) => state.write_u8(1),
        Value::Int(int) => {
            state.write_u8(3);
            state.write_i64(*int);
        }
        Value::Str(text) => hash_str(&text.get(), state),
        Value::Symbol(name) => {
            state.write_u8(5);
            name.hash(state);
        }
        Value::Float(float) => {
            state.write_u8(6);
            // 0.0 and -0.0 are the same key.
            state.write_u64(if *float == 0.0 { 0 } else { float.to_bits() });
        }
        Value::Big(big) => big.hash(state),
        Value::Array(array) => {
            state.write_u8(7);
            for item in array.items.borrow().iter() {
                hash_value(item, state, depth + 1);
            }
        }
        Value::Hash(hash) => {
            state.write_u8(8);
            // Equal hashes may differ in the order of their entries.
            let entries = hash.map.borrow().iter().fold(0u64, |sum, (key, value)| {
                let mut entry = FxHasher::default();
                hash_value(&key.0, &mut entry, depth + 1);
                hash_value(value, &mut entry, depth + 1);
                sum.wrapping_add(entry.finish())
            });
            state.write_u64(entries);
        }
        Value::Range(range) => {
            state.write_u8(11 + u8::from(range.excludes_end));
            hash_value(&range.begin, state, depth + 1);
            hash_value(&range.end, state, depth + 1);
        }
        Value::Regexp(regexp) => (&regexp.source, regexp.options).hash(state),
        Value::Object(object) => match &*object.data.borrow() {
            Data::Struct(fields) => {
                Rc::as_ptr(&object.class).hash(state);
                for field in fields {
                    hash_value(field, state, depth + 1);
                }
            }
            Data::Address(address) => address.hash(state),
            Data::Time(moment) => moment.nanos().hash(state),
            Data::Uri(uri) => uri.hash(state),
            Data::DistinguishedName(name) => name.hash(state),
            Data::Set(set) => {
                state.write_u8(9);
                hash_value(&Value::Hash(Rc::clone(set)), state, depth + 1);
            }
            _ => state.write_u64(object.id),
        },
        Value::Match(_) | Value::Proc(_) | Value::Class(_) => state.write_u8(10),
    }
}

/// Returns the result of `hash`, which is the same for values that are `eql?`.
pub(crate) fn hash_code(value: &Value) -> i64 {
    let mut state = FxHasher::default();
    hash_value(value, &mut state, 0);
    (state.finish() >> 2) as i64
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        eql(&self.0, &other.0, 0)
    }
}

impl Eq for Key {}

/// Compares by `eql?`: equal and of the same class. Values nested deeper than 1000 levels are not equal.
pub(crate) fn eql(a: &Value, b: &Value, depth: u32) -> bool {
    if depth > 1000 {
        return false;
    }
    meter::step_or_unwind(1);
    match (a, b) {
        (Value::Str(a), Value::Str(b)) => Rc::ptr_eq(a, b) || is_same_text(a, &b.get(), b.is_binary.get()),
        (Value::Array(a), Value::Array(b)) => {
            if Rc::ptr_eq(a, b) {
                return true;
            }
            let (a, b) = (a.items.borrow(), b.items.borrow());
            a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| eql(a, b, depth + 1))
        }
        (Value::Hash(a), Value::Hash(b)) => {
            Rc::ptr_eq(a, b)
                || a.len() == b.len()
                    && a.pairs()
                        .into_iter()
                        .all(|(key, value)| b.get(&key).is_some_and(|other| eql(&value, &other, depth + 1)))
        }
        (Value::Range(a), Value::Range(b)) => {
            a.excludes_end == b.excludes_end
                && eql(&a.begin, &b.begin, depth + 1)
                && eql(&a.end, &b.end, depth + 1)
        }
        (Value::Regexp(a), Value::Regexp(b)) => a.source == b.source && a.options == b.options,
        (Value::Object(a), Value::Object(b)) => {
            if Rc::ptr_eq(a, b) {
                return true;
            }
            match (&*a.data.borrow(), &*b.data.borrow()) {
                (Data::Struct(x), Data::Struct(y)) => {
                    Rc::ptr_eq(&a.class, &b.class)
                        && x.len() == y.len()
                        && x.iter().zip(y).all(|(x, y)| eql(x, y, depth + 1))
                }
                (Data::Address(x), Data::Address(y)) => x == y,
                (Data::Time(x), Data::Time(y)) => x.nanos() == y.nanos(),
                (Data::Uri(x), Data::Uri(y)) => x.eql(y),
                (Data::DistinguishedName(x), Data::DistinguishedName(y)) => x == y,
                (Data::Set(x), Data::Set(y)) => {
                    x.len() == y.len() && x.pairs().iter().all(|(key, _)| y.get(key).is_some())
                }
                _ => false,
            }
        }
        (Value::Float(a), Value::Float(b)) if a == b => true,
        _ => a.is_same(b),
    }
}
