//! Ruby's values.

mod deep_drop;
mod hash;
mod object;
mod string;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use num_bigint::BigInt;
use rustc_hash::FxHashSet;

pub(crate) use deep_drop::{ValuePart, deep_drop, deep_drop_values};
pub(crate) use hash::{Key, RHash, hash_code};
pub(crate) use object::{Class, Data, Exception, Method, MethodBody, Object, Visibility};
pub(crate) use string::RString;

use super::eval::{Env, EvalResult, Interpreter};
use super::meter::Charge;
use super::stdlib::regex::Regex;
use crate::parse::ir::{Body, Name};

thread_local! {
    /// The symbols that the template created.
    static SYMBOLS: RefCell<FxHashSet<Name>> = RefCell::default();
}

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

/// The memory of a value in a collection.
pub(crate) const VALUE_BYTES: usize = size_of::<Value>();
/// The memory of an array, range, match or proc, without the values and the text in it.
const BASE_BYTES: usize = 112;
/// The memory of integers up to this number of bits is not counted.
const FREE_BITS: u64 = 1024;
/// The memory of an entry of a hash, and of a variable or constant.
pub(crate) const ENTRY_BYTES: usize = 96;

/// Ruby's Array, whose items other values can change through the same reference.
pub(crate) struct RArray {
    pub(super) items: RefCell<Vec<Value>>,
    pub(super) is_frozen: Cell<bool>,
    charge: Charge,
}

/// A range. An end of nil means that the range is open there.
pub(crate) struct RRange {
    pub(super) begin: Value,
    pub(super) end: Value,
    pub(super) excludes_end: bool,
    _charge: Charge,
}

/// The result of matching a regular expression.
pub(crate) struct RMatch {
    pub(super) regexp: Rc<Regex>,
    /// The text that was searched.
    pub(super) subject: Rc<str>,
    /// The byte ranges of the groups in `subject`. The first is the whole match.
    pub(super) groups: Vec<Option<(usize, usize)>>,
    _charge: Charge,
}

/// A block, proc, lambda or method object.
pub(crate) struct RProc {
    pub(super) kind: ProcKind,
    pub(super) is_lambda: Cell<bool>,
    /// Identifies the call that a `break` in the block ends (`Flow::Break`). 0 if it has no such call.
    pub(super) tag: u64,
    _charge: Charge,
}

/// A block implemented in Rust.
pub(crate) type NativeBlock = Rc<dyn Fn(&mut Interpreter, Vec<Value>) -> EvalResult<Value>>;

/// The code of a proc.
pub(crate) enum ProcKind {
    Block { body: Arc<Body>, env: Rc<Env> },
    Symbol(Name),
    Method { receiver: Value, name: Name },
    Native(NativeBlock),
}

impl RMatch {
    /// Creates a match in `subject`. If `owns_subject` is true, the memory of the subject counts as part of
    /// the match.
    pub(super) fn new(
        regexp: Rc<Regex>,
        subject: Rc<str>,
        groups: Vec<Option<(usize, usize)>>,
        owns_subject: bool,
    ) -> Rc<RMatch> {
        let text = if owns_subject { subject.len() } else { 0 };
        let _charge = Charge::new(BASE_BYTES + groups.capacity() * VALUE_BYTES + text);
        Rc::new(RMatch { regexp, subject, groups, _charge })
    }

    /// Returns the text of a group. Returns `None` if there is no such group or it did not match.
    pub(super) fn group(&self, index: usize) -> Option<&str> {
        let (start, end) = (*self.groups.get(index)?)?;
        self.subject.get(start..end)
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

    /// Returns the symbol of this name. Equal symbols share their memory, which is never freed.
    pub(super) fn symbol(text: &str) -> Value {
        SYMBOLS.with_borrow_mut(|symbols| {
            if let Some(known_symbol) = symbols.get(text) {
                return Value::Symbol(Arc::clone(known_symbol));
            }
            std::mem::forget(Charge::new(ENTRY_BYTES + text.len()));
            let name: Name = Arc::from(text);
            symbols.insert(Arc::clone(&name));
            Value::Symbol(name)
        })
    }

    /// Returns the name of the class if the variant alone decides it. Returns `None` for objects, procs and
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
        Value::Array(RArray::new(items))
    }

    pub(super) fn hash(hash: RHash) -> Value {
        Value::Hash(Rc::new(hash))
    }

    /// Creates an integer, in the small form if it fits.
    pub(super) fn integer(value: BigInt) -> Value {
        match i64::try_from(&value) {
            Ok(small) => Value::Int(small),
            Err(_) => {
                // A `BigInt` has no drop hook, so its memory stays counted until the rendering ends.
                if value.bits() > FREE_BITS {
                    std::mem::forget(Charge::new((value.bits() / 8) as usize));
                }
                Value::Big(Rc::new(value))
            }
        }
    }

    pub(super) fn native_block(
        block: impl Fn(&mut Interpreter, Vec<Value>) -> EvalResult<Value> + 'static,
    ) -> Value {
        let kind = ProcKind::Native(Rc::new(block));
        Value::Proc(RProc::new(kind, false, 0))
    }

    pub(super) fn is_truthy(&self) -> bool {
        !matches!(self, Value::Nil | Value::Bool(false))
    }

    pub(super) fn is_nil(&self) -> bool {
        matches!(self, Value::Nil)
    }

    /// Returns true if both values are the same object, as `equal?` does.
    pub(super) fn is_same(&self, other: &Value) -> bool {
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
                (None, Some(int)) => Value::integer(BigInt::from(int)),
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
    pub(super) fn new(items: Vec<Value>) -> Rc<RArray> {
        let charge = Charge::new(BASE_BYTES + items.capacity() * VALUE_BYTES);
        Rc::new(RArray { items: RefCell::new(items), is_frozen: Cell::new(false), charge })
    }

    pub(super) fn push(&self, item: Value) {
        self.items.borrow_mut().push(item);
        self.recount_memory();
    }

    /// Counts the memory again after the elements have changed.
    pub(super) fn recount_memory(&self) {
        self.charge.resize(BASE_BYTES + self.items.borrow().capacity() * VALUE_BYTES);
    }

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

impl Drop for RArray {
    fn drop(&mut self) {
        let items = std::mem::take(self.items.get_mut());
        if items.iter().any(Value::nests) {
            deep_drop_values(items.into_iter());
        }
    }
}

impl RRange {
    pub(super) fn new(begin: Value, end: Value, excludes_end: bool) -> Rc<RRange> {
        Rc::new(RRange { begin, end, excludes_end, _charge: Charge::new(BASE_BYTES) })
    }
}

impl Drop for RRange {
    fn drop(&mut self) {
        let parts = [&mut self.begin, &mut self.end].map(|part| std::mem::replace(part, Value::Nil));
        deep_drop_values(parts.into_iter());
    }
}

impl RProc {
    pub(super) fn new(kind: ProcKind, is_lambda: bool, tag: u64) -> Rc<RProc> {
        Rc::new(RProc { kind, is_lambda: Cell::new(is_lambda), tag, _charge: Charge::new(BASE_BYTES) })
    }
}

impl Drop for RProc {
    fn drop(&mut self) {
        // The scope of a block drops its own parts.
        if matches!(self.kind, ProcKind::Method { .. } | ProcKind::Native(_)) {
            let kind = std::mem::replace(&mut self.kind, ProcKind::Symbol(Arc::default()));
            deep_drop(std::iter::once(ValuePart::Kind(kind)));
        }
    }
}
