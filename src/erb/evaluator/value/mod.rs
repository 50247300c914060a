//! Ruby's values.

mod hash;
mod object;
mod string;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use num_bigint::BigInt;

pub(crate) use hash::{Key, RHash};
pub(crate) use object::{Class, Data, Exception, Method, MethodBody, Object, Visibility};
pub(crate) use string::RString;

use super::eval::{Env, Interp, R};
use super::stdlib::regex::Regex;
use crate::parse::ir::{Body, Name};

/// A value. A clone shares the mutable content and is cheap.
#[derive(Clone)]
pub(crate) enum Value {
    Nil,
    Bool(bool),
    Int(i64),
    Big(Rc<BigInt>),
    Float(f64),
    Str(Rc<RString>),
    Symbol(Name),
    Array(Rc<RArray>),
    Hash(Rc<RHash>),
    Range(Rc<RRange>),
    Regexp(Rc<Regex>),
    Match(Rc<RMatch>),
    Proc(Rc<RProc>),
    Class(Rc<Class>),
    Object(Rc<Object>),
}

/// An array.
pub(crate) struct RArray {
    pub(super) items: RefCell<Vec<Value>>,
    pub(super) frozen: Cell<bool>,
}

/// A range. An end of nil means that the range is open there.
pub(crate) struct RRange {
    pub(super) from: Value,
    pub(super) to: Value,
    pub(super) exclusive: bool,
}

/// The result of matching a regular expression.
pub(crate) struct RMatch {
    pub(super) regexp: Rc<Regex>,
    /// The text that was searched.
    pub(super) subject: Rc<str>,
    /// The byte ranges of the groups in `subject`. The first is the whole match.
    pub(super) groups: Vec<Option<(usize, usize)>>,
}

/// A block, proc, lambda or method object.
pub(crate) struct RProc {
    pub(super) kind: ProcKind,
    pub(super) lambda: Cell<bool>,
    /// Identifies the call that a `break` in the block ends (`Flow::Break`). 0 if it has no such call.
    pub(super) tag: u64,
}

/// A block implemented in Rust.
pub(crate) type NativeBlock = Rc<dyn Fn(&mut Interp, Vec<Value>) -> R<Value>>;

/// The code of a proc.
pub(crate) enum ProcKind {
    Block { body: Arc<Body>, env: Rc<Env> },
    Symbol(Name),
    Method { receiver: Value, name: Name },
    Native(NativeBlock),
}

impl RMatch {
    /// Returns the text of a group. None if there is no such group or it did not match.
    pub(super) fn group(&self, index: usize) -> Option<&str> {
        let (from, to) = (*self.groups.get(index)?)?;
        self.subject.get(from..to)
    }

    /// Returns the text of a group as a value, or nil.
    pub(super) fn value(&self, index: usize) -> Value {
        self.group(index).map_or(Value::Nil, Value::str)
    }
}

impl Value {
    pub(super) fn str(text: impl Into<String>) -> Value {
        Value::Str(Rc::new(RString::new(text.into())))
    }

    pub(super) fn symbol(text: &str) -> Value {
        Value::Symbol(Arc::from(text))
    }

    /// Returns the name of the class if the variant alone decides it, and None for objects, procs and
    /// classes.
    pub(super) fn core_class(&self) -> Option<&'static str> {
        Some(match self {
            Value::Nil => "NilClass",
            Value::Bool(true) => "TrueClass",
            Value::Bool(false) => "FalseClass",
            Value::Int(_) | Value::Big(_) => "Integer",
            Value::Float(_) => "Float",
            Value::Str(_) => "String",
            Value::Symbol(_) => "Symbol",
            Value::Array(_) => "Array",
            Value::Hash(_) => "Hash",
            Value::Range(_) => "Range",
            Value::Regexp(_) => "Regexp",
            Value::Match(_) => "MatchData",
            Value::Object(_) | Value::Proc(_) | Value::Class(_) => return None,
        })
    }

    pub(super) fn array(items: Vec<Value>) -> Value {
        Value::Array(Rc::new(RArray { items: RefCell::new(items), frozen: Cell::new(false) }))
    }

    pub(super) fn hash(hash: RHash) -> Value {
        Value::Hash(Rc::new(hash))
    }

    /// Creates an integer, in the small form if it fits.
    pub(super) fn big(value: BigInt) -> Value {
        match i64::try_from(&value) {
            Ok(small) => Value::Int(small),
            Err(_) => Value::Big(Rc::new(value)),
        }
    }

    pub(super) fn native(block: impl Fn(&mut Interp, Vec<Value>) -> R<Value> + 'static) -> Value {
        let kind = ProcKind::Native(Rc::new(block));
        Value::Proc(Rc::new(RProc { kind, lambda: Cell::new(false), tag: 0 }))
    }

    pub(super) fn truthy(&self) -> bool {
        !matches!(self, Value::Nil | Value::Bool(false))
    }

    pub(super) fn is_nil(&self) -> bool {
        matches!(self, Value::Nil)
    }

    /// Returns true if both values are the same object, as `equal?` does.
    pub(super) fn same(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Nil, Value::Nil) => true,
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::Int(a), Value::Int(b)) => a == b,
            (Value::Big(a), Value::Big(b)) => a == b,
            (Value::Float(a), Value::Float(b)) => a.to_bits() == b.to_bits(),
            (Value::Symbol(a), Value::Symbol(b)) => a == b,
            (Value::Str(a), Value::Str(b)) => Rc::ptr_eq(a, b),
            (Value::Array(a), Value::Array(b)) => Rc::ptr_eq(a, b),
            (Value::Hash(a), Value::Hash(b)) => Rc::ptr_eq(a, b),
            (Value::Range(a), Value::Range(b)) => Rc::ptr_eq(a, b),
            (Value::Regexp(a), Value::Regexp(b)) => Rc::ptr_eq(a, b),
            (Value::Match(a), Value::Match(b)) => Rc::ptr_eq(a, b),
            (Value::Proc(a), Value::Proc(b)) => Rc::ptr_eq(a, b),
            (Value::Class(a), Value::Class(b)) => Rc::ptr_eq(a, b),
            (Value::Object(a), Value::Object(b)) => Rc::ptr_eq(a, b),
            _ => false,
        }
    }

    /// Converts a JSON value. The keys of hashes are strings.
    pub(super) fn from_json(json: &serde_json::Value) -> Value {
        use serde_json::Value as Json;
        match json {
            Json::Null => Value::Nil,
            Json::Bool(flag) => Value::Bool(*flag),
            Json::Number(number) => match (number.as_i64(), number.as_u64()) {
                (Some(int), _) => Value::Int(int),
                (None, Some(int)) => Value::big(BigInt::from(int)),
                (None, None) => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
            },
            Json::String(text) => Value::str(text.clone()),
            Json::Array(items) => Value::array(items.iter().map(Value::from_json).collect()),
            Json::Object(entries) => {
                let hash = RHash::default();
                for (key, value) in entries {
                    hash.insert(Value::str(key.clone()), Value::from_json(value));
                }
                Value::hash(hash)
            }
        }
    }
}

impl RArray {
    pub(super) fn len(&self) -> usize {
        self.items.borrow().len()
    }

    pub(super) fn get(&self, index: usize) -> Option<Value> {
        self.items.borrow().get(index).cloned()
    }

    pub(super) fn to_vec(&self) -> Vec<Value> {
        self.items.borrow().clone()
    }
}
