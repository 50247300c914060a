//! The methods of Ruby's built-in classes.
//!
//! Each class has a dispatch function such as `call_string_method`, which takes the receiver, the method's
//! name and the arguments. It returns `Ok(Some(value))` with the result, or `Ok(None)` if it does not
//! implement that method; `Interpreter::call_builtin` then tries the next function. A Ruby exception is an
//! `Err`, as is a call that is not supported.
//!
//! Loops count their work with `Interpreter::step`. Allocations whose size the template decides are counted
//! with `Interpreter::use_scratch` before they are made, or with a `Charge` if a value keeps them.

mod array;
mod array_edit;
mod class;
mod compare;
mod context;
mod convert;
mod enumerable;
mod enumerable_fold;
mod enumerable_search;
mod enumerator;
mod exception;
mod float;
mod float_round;
mod hash;
mod integer;
mod kernel;
mod math;
pub(crate) mod names;
mod object;
mod procs;
mod range;
mod regexp;
mod set;
mod show;
mod steps;
mod string;
mod string_edit;
mod string_query;
mod string_replace;
mod string_split;
mod structs;
mod successor;
mod symbol;
mod symbol_name;

use std::rc::Rc;

use super::eval::{Args, Env, EvalResult, Interpreter};
use super::meter::{self, MethodMemory};
use super::stdlib;
use super::value::{Data, ProcKind, VALUE_BYTES, Value};

impl Interpreter {
    /// Calls a built-in method. Returns `None` if neither the receiver's class nor its modules implement it.
    pub(super) fn call_builtin(
        &mut self,
        receiver: &Value,
        name: &str,
        args: &Args,
        env: Option<&Rc<Env>>,
    ) -> EvalResult<Option<Value>> {
        self.check_arity(receiver, name, args)?;
        let _scratch = MethodMemory::begin();
        self.count_call_cost(receiver, name, args)?;
        let result = match receiver {
            Value::Str(text) => self.call_string_method(text, name, args, env)?,
            Value::Array(array) => self.call_array_method(array, name, args)?,
            Value::Hash(hash) => self.call_hash_method(hash, name, args)?,
            Value::Symbol(symbol) => self.call_symbol_method(symbol, name, args, env)?,
            Value::Int(_) | Value::Big(_) => self.call_integer_method(receiver, name, args)?,
            Value::Float(float) => self.call_float_method(*float, name, args)?,
            Value::Range(range) => self.call_range_method(range, name, args)?,
            Value::Regexp(regexp) => self.call_regexp_method(regexp, name, args, env)?,
            Value::Match(result) => self.call_match_method(result, name, args)?,
            Value::Proc(block) => self.call_proc_method(block, name, args)?,
            Value::Class(class) => self.call_class_method(class, name, args, env)?,
            Value::Nil => self.call_nil_method(name, args)?,
            Value::Bool(flag) => self.call_bool_method(*flag, name, args)?,
            Value::Object(object) => {
                let kind = DataKind::of(&object.data.borrow());
                match kind {
                    DataKind::Plain if receiver.is_same(&self.main) => {
                        self.call_context_method(name, args)?
                    }
                    DataKind::Plain => self.call_plain_method(receiver, name, args)?,
                    DataKind::Struct => self.call_struct_method(object, name, args)?,
                    DataKind::Set => self.call_set_method(object, name, args)?,
                    DataKind::Exception => self.call_exception_method(object, name, args)?,
                    DataKind::Enumerator => self.call_enumerator_method(object, name, args)?,
                    DataKind::Address => stdlib::ipaddr::call_method(self, object, name, args)?,
                    DataKind::Uri => stdlib::uri::call_method(self, object, name, args)?,
                    DataKind::Time => stdlib::time::call_method(self, object, name, args)?,
                    DataKind::Digest => stdlib::digest::call_method(self, object, name, args)?,
                    DataKind::Certificate => stdlib::openssl::call_method(self, object, name, args)?,
                    DataKind::DistinguishedName => {
                        stdlib::openssl::call_part_method(self, object, name, args)?
                    }
                    DataKind::TextStream => stdlib::string_io::call_method(self, object, name, args)?,
                    DataKind::ElseBlock => self.call_else_block_method(object, name, args)?,
                    // Methods of every object come first. Any other name is a member, see below.
                    DataKind::Table => None,
                }
            }
        };
        if result.is_some() {
            return Ok(result);
        }
        if let Some(value) = self.call_object_method(receiver, name, args, env)? {
            return Ok(Some(value));
        }
        if let Value::Object(object) = receiver {
            if DataKind::of(&object.data.borrow()) == DataKind::Table {
                return self.call_table_method(object, name, args);
            }
            let is_enumerable = matches!(DataKind::of(&object.data.borrow()), DataKind::Plain)
                && self.includes(receiver, "Enumerable");
            if is_enumerable && let Some(value) = self.call_enumerable_method(receiver, name, args)? {
                return Ok(Some(value));
            }
            if self.includes(receiver, "Comparable")
                && let Some(value) = self.call_comparable_method(receiver, name, args)?
            {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }

    /// Counts the work that depends on the size of the receiver and arguments, and the memory of the copies
    /// that the method makes of them.
    fn count_call_cost(&mut self, receiver: &Value, name: &str, args: &Args) -> EvalResult<()> {
        let size = value_size(receiver);
        if size > MAX_FREE_COPY_BYTES && !is_constant_time(receiver, name) {
            meter::count_scratch_memory(size)?;
            // Collections copy references, which takes less time for each byte than text.
            let is_text = matches!(receiver, Value::Str(_) | Value::Symbol(_) | Value::Big(_));
            meter::step_bytes(if is_text { size } else { size / VALUE_BYTES })?;
        }
        for value in &args.list {
            if let Value::Str(text) = value
                && text.get().len() > MAX_FREE_COPY_BYTES
            {
                self.use_scratch(text.get().len())?;
            }
        }
        Ok(())
    }

    /// Raises `ArgumentError` if the method does not take this number of arguments. A method without a
    /// recorded number accepts any.
    fn check_arity(&mut self, receiver: &Value, name: &str, args: &Args) -> EvalResult<()> {
        let class = match (receiver.core_class(), receiver) {
            (Some(class), _) => class,
            // A class method can have the same name as a method that every class has.
            (None, Value::Class(_))
                if names::arity("Class", name).is_none() || self.has_class_method(receiver, name) =>
            {
                return Ok(());
            }
            (None, Value::Class(_)) => "Class",
            (None, Value::Proc(block)) if matches!(block.kind, ProcKind::Method { .. }) => "Method",
            (None, Value::Proc(_)) => "Proc",
            (None, Value::Object(object)) => match DataKind::of(&object.data.borrow()) {
                DataKind::Set => "Set",
                DataKind::Address => "IPAddr",
                DataKind::Time => "Time",
                DataKind::Enumerator => "Enumerator",
                DataKind::Struct => "Struct",
                DataKind::Exception => "Exception",
                DataKind::TextStream => "StringIO",
                DataKind::Uri if matches!(object.class.label().as_str(), "URI::HTTP" | "URI::HTTPS") => {
                    "URI::HTTP"
                }
                DataKind::Uri => "URI::Generic",
                DataKind::Table if object.class.label() == "OpenStruct" => "OpenStruct",
                _ => "Object",
            },
            _ => return Ok(()),
        };
        let Some((min, max)) = names::arity(class, name) else { return Ok(()) };
        let count = args.len();
        // Keywords are the last value of `args`. Some methods take them in addition to their positional
        // arguments.
        let has_keywords = args.has_keywords && count > min && names::KEYWORD_METHODS.contains(&name);
        let positional_count = count - usize::from(has_keywords);
        if positional_count >= min && max.is_none_or(|max| positional_count <= max) {
            return Ok(());
        }
        let expected = match max {
            Some(max) if max == min => max.to_string(),
            Some(max) => format!("{min}..{max}"),
            None => format!("{min}+"),
        };
        self.raise_argument_error(format!("wrong number of arguments (given {count}, expected {expected})"))
    }

    /// Returns true if the class of a value includes a module.
    fn includes(&mut self, value: &Value, module: &str) -> bool {
        // Built-in modules are created on first use: one that is not in `classes` is not included anywhere.
        match self.classes.get(module).cloned() {
            Some(module) => self.class_of(value).descends_from(&module),
            None => false,
        }
    }

    /// Returns true if Ruby defines a class method of this name for the class or one of its superclasses.
    fn has_class_method(&self, receiver: &Value, name: &str) -> bool {
        let Value::Class(class) = receiver else { return false };
        let mut next_class = Some(Rc::clone(class));
        while let Some(candidate) = next_class {
            if names::fact(&candidate.label())
                .is_some_and(|fact| names::list_contains(fact.class_methods, name))
            {
                return true;
            }
            next_class = candidate.superclass.clone();
        }
        false
    }

    /// Returns true if Ruby defines a public method of this name for the receiver, or if the receiver is a
    /// table with such a member.
    pub(super) fn has_ruby_method(&mut self, receiver: &Value, name: &str) -> bool {
        let contains_name = |list: &str| names::list_contains(list, name);
        if self.has_class_method(receiver, name) {
            return true;
        }
        if let Value::Object(object) = receiver
            && let Data::Table(table) = &*object.data.borrow()
            && table.get_symbol(name.trim_end_matches('=')).is_some()
        {
            return true;
        }
        let class = self.class_of(receiver);
        class
            .ancestors()
            .iter()
            .any(|class| names::fact(&class.label()).is_some_and(|fact| contains_name(fact.methods)))
    }

    /// Returns true if every object has a private method of this name.
    pub(super) fn has_kernel_method(&self, name: &str) -> bool {
        names::list_contains(names::KERNEL_METHODS, name)
    }

    /// Returns true if a value has a public method of this name, from the template or from Ruby.
    pub(super) fn responds_to(&mut self, value: &Value, name: &str) -> bool {
        match self.find_user_method(value, name) {
            Some(method) => method.visibility == super::value::Visibility::Public,
            None => self.has_ruby_method(value, name),
        }
    }

    /// Returns true if a value has a public or private method of this name.
    pub(super) fn responds_at_all(&mut self, value: &Value, name: &str) -> bool {
        self.find_user_method(value, name).is_some()
            || self.has_ruby_method(value, name)
            || self.has_kernel_method(name)
    }
}

/// Copies of values of up to this many bytes are not counted.
const MAX_FREE_COPY_BYTES: usize = 256;

/// Returns the size of a value in bytes, without the values in it.
fn value_size(value: &Value) -> usize {
    match value {
        Value::Str(text) => text.get().len(),
        Value::Symbol(name) => name.len(),
        Value::Array(array) => array.len() * VALUE_BYTES,
        Value::Hash(hash) => hash.len() * 2 * VALUE_BYTES,
        // Multiplication and conversion to text take more than linear time.
        Value::Big(big) => (big.bits() / 8) as usize * (1 + big.bits() as usize / (1 << 13)),
        Value::Match(match_data) => match_data.subject.len(),
        Value::Object(object) => match &*object.data.borrow() {
            Data::Set(hash) | Data::Table(hash) => hash.len() * 2 * VALUE_BYTES,
            Data::Struct(fields) => fields.len() * VALUE_BYTES,
            Data::Digest(_, bytes) => bytes.len(),
            Data::TextStream(text, _) => text.get().len(),
            Data::Certificate(bytes) => bytes.len(),
            _ => 0,
        },
        _ => 0,
    }
}

/// Returns true for methods that take the same time for values of any size.
fn is_constant_time(receiver: &Value, name: &str) -> bool {
    match receiver {
        Value::Str(_) => {
            matches!(name, "<<" | "concat" | "empty?" | "to_s" | "to_str" | "freeze" | "frozen?" | "nil?")
        }
        Value::Array(_) => matches!(
            name,
            "[]" | "[]="
                | "<<"
                | "push"
                | "append"
                | "pop"
                | "at"
                | "dig"
                | "fetch"
                | "first"
                | "last"
                | "length"
                | "size"
                | "empty?"
                | "each"
                | "freeze"
                | "frozen?"
                | "nil?"
                | "to_a"
                | "is_a?"
                | "class"
        ),
        Value::Hash(_) => matches!(
            name,
            "[]" | "[]="
                | "store"
                | "dig"
                | "fetch"
                | "key?"
                | "has_key?"
                | "include?"
                | "member?"
                | "length"
                | "size"
                | "empty?"
                | "freeze"
                | "frozen?"
                | "nil?"
                | "to_h"
                | "is_a?"
                | "class"
        ),
        Value::Object(object) => match &*object.data.borrow() {
            Data::Set(_) => matches!(name, "add" | "<<" | "add?" | "include?" | "member?" | "===" | "delete"),
            Data::Table(_) | Data::Digest(..) | Data::TextStream(..) => !matches!(
                name,
                "to_s" | "inspect" | "to_h" | "hexdigest" | "digest" | "read" | "string" | "dup"
            ),
            _ => false,
        },
        _ => false,
    }
}

/// The variant of an object's [`Data`] without its content, so that dispatch does not borrow the object.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DataKind {
    Plain,
    Struct,
    Table,
    Set,
    Exception,
    Enumerator,
    Address,
    Uri,
    Time,
    Digest,
    Certificate,
    DistinguishedName,
    TextStream,
    ElseBlock,
}

impl DataKind {
    fn of(data: &Data) -> DataKind {
        match data {
            Data::Plain => DataKind::Plain,
            Data::Struct(_) => DataKind::Struct,
            Data::Table(_) => DataKind::Table,
            Data::Set(_) => DataKind::Set,
            Data::Exception(_) => DataKind::Exception,
            Data::Enumerator { .. } => DataKind::Enumerator,
            Data::Address(_) => DataKind::Address,
            Data::Uri(_) => DataKind::Uri,
            Data::Time(_) => DataKind::Time,
            Data::Digest(..) => DataKind::Digest,
            Data::Certificate(_) => DataKind::Certificate,
            Data::DistinguishedName(_) => DataKind::DistinguishedName,
            Data::TextStream(..) => DataKind::TextStream,
            Data::ElseBlock { .. } => DataKind::ElseBlock,
        }
    }
}

pub(crate) use compare::{to_big, to_f64};
pub(crate) use show::float_to_s;
pub(crate) use string::dump;
