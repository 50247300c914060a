//! The methods of Ruby's own classes.

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

use super::eval::{Args, Env, Interp, R};
use super::stdlib;
use super::value::{Data, ProcKind, Value};

impl Interp {
    /// Calls a method of Ruby's own; none if it is not there.
    pub(super) fn builtin(
        &mut self,
        receiver: &Value,
        name: &str,
        args: &Args,
        env: Option<&Rc<Env>>,
    ) -> R<Option<Value>> {
        self.check_arity(receiver, name, args)?;
        let found = match receiver {
            Value::Str(text) => self.string_method(text, name, args, env)?,
            Value::Array(array) => self.array_method(array, name, args)?,
            Value::Hash(hash) => self.hash_method(hash, name, args)?,
            Value::Symbol(symbol) => self.symbol_method(symbol, name, args, env)?,
            Value::Int(_) | Value::Big(_) => self.integer_method(receiver, name, args)?,
            Value::Float(float) => self.float_method(*float, name, args)?,
            Value::Range(range) => self.range_method(range, name, args)?,
            Value::Regexp(regexp) => self.regexp_method(regexp, name, args, env)?,
            Value::Match(found) => self.match_method(found, name, args)?,
            Value::Proc(block) => self.proc_method(block, name, args)?,
            Value::Class(class) => self.class_method(class, name, args, env)?,
            Value::Nil => self.nil_method(name, args)?,
            Value::Bool(flag) => self.bool_method(*flag, name, args)?,
            Value::Object(object) => {
                let kind = Kind::of(&object.data.borrow());
                match kind {
                    Kind::Plain if receiver.same(&self.main) => self.context_method(name, args)?,
                    Kind::Plain => self.plain_method(receiver, name, args)?,
                    Kind::Struct => self.struct_method(object, name, args)?,
                    Kind::Set => self.set_method(object, name, args)?,
                    Kind::Exception => self.exception_method(object, name, args)?,
                    Kind::Enumerator => self.enumerator_method(object, name, args)?,
                    Kind::Address => stdlib::ipaddr::method(self, object, name, args)?,
                    Kind::Uri => stdlib::uri::method(self, object, name, args)?,
                    Kind::Time => stdlib::time::method(self, object, name, args)?,
                    Kind::Digest => stdlib::digest::method(self, object, name, args)?,
                    Kind::Certificate => stdlib::openssl::method(self, object, name, args)?,
                    Kind::DistinguishedName => stdlib::openssl::part_method(self, object, name, args)?,
                    Kind::Reader => stdlib::reader::method(self, object, name, args)?,
                    Kind::Else => self.else_method(object, name, args)?,
                    // What is not a method of every object is a member.
                    Kind::Table => None,
                }
            }
        };
        if found.is_some() {
            return Ok(found);
        }
        if let Some(value) = self.object_method(receiver, name, args, env)? {
            return Ok(Some(value));
        }
        if let Value::Object(object) = receiver {
            if Kind::of(&object.data.borrow()) == Kind::Table {
                return self.table_method(object, name, args);
            }
            let enumerable = matches!(Kind::of(&object.data.borrow()), Kind::Plain)
                && self.includes(receiver, "Enumerable");
            if enumerable && let Some(value) = self.enumerable_method(receiver, name, args)? {
                return Ok(Some(value));
            }
            if self.includes(receiver, "Comparable")
                && let Some(value) = self.comparable_method(receiver, name, args)?
            {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }

    /// Refuses a call with too few or too many arguments, as far as the facts tell.
    fn check_arity(&mut self, receiver: &Value, name: &str, args: &Args) -> R<()> {
        let class = match (receiver.core_class(), receiver) {
            (Some(class), _) => class,
            // A class method may be called like one that every class has.
            (None, Value::Class(_))
                if names::arity("Class", name).is_none() || self.has_own(receiver, name) =>
            {
                return Ok(());
            }
            (None, Value::Class(_)) => "Class",
            (None, Value::Proc(block)) if matches!(block.kind, ProcKind::Method { .. }) => "Method",
            (None, Value::Proc(_)) => "Proc",
            (None, Value::Object(object)) => match Kind::of(&object.data.borrow()) {
                Kind::Set => "Set",
                Kind::Address => "IPAddr",
                Kind::Time => "Time",
                Kind::Enumerator => "Enumerator",
                Kind::Struct => "Struct",
                Kind::Exception => "Exception",
                Kind::Reader => "StringIO",
                Kind::Uri if matches!(object.class.label().as_str(), "URI::HTTP" | "URI::HTTPS") => {
                    "URI::HTTP"
                }
                Kind::Uri => "URI::Generic",
                Kind::Table if object.class.label() == "OpenStruct" => "OpenStruct",
                _ => "Object",
            },
            _ => return Ok(()),
        };
        let Some((least, most)) = names::arity(class, name) else { return Ok(()) };
        let given = args.len();
        // Keywords are the last argument here; some methods take them besides.
        let besides = args.keywords && given > least && names::TAKE_KEYWORDS.contains(&name);
        let counted = given - usize::from(besides);
        if counted >= least && most.is_none_or(|most| counted <= most) {
            return Ok(());
        }
        let expected = match most {
            Some(most) if most == least => most.to_string(),
            Some(most) => format!("{least}..{most}"),
            None => format!("{least}+"),
        };
        self.argument_error(format!("wrong number of arguments (given {given}, expected {expected})"))
    }

    fn includes(&mut self, value: &Value, module: &str) -> bool {
        // A module nobody has named yet is one nobody has included.
        match self.classes.get(module).cloned() {
            Some(module) => self.class_of(value).descends_from(&module),
            None => false,
        }
    }

    /// Whether Ruby has such a method of a class itself, its superclasses' included.
    fn has_own(&self, receiver: &Value, name: &str) -> bool {
        let Value::Class(class) = receiver else { return false };
        let mut at = Some(Rc::clone(class));
        while let Some(candidate) = at {
            if names::fact(&candidate.label()).is_some_and(|fact| names::lists(fact.own, name)) {
                return true;
            }
            at = candidate.superclass.clone();
        }
        false
    }

    /// Whether Ruby has such a public method.
    pub(super) fn ruby_has(&mut self, receiver: &Value, name: &str) -> bool {
        let has = |list: &str| names::lists(list, name);
        if self.has_own(receiver, name) {
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
            .any(|class| names::fact(&class.label()).is_some_and(|fact| has(fact.methods)))
    }

    /// Whether every object has such a private method.
    pub(super) fn kernel_has(&self, name: &str) -> bool {
        names::lists(names::KERNEL, name)
    }

    /// Whether a value answers to a public method.
    pub(super) fn responds(&mut self, value: &Value, name: &str) -> bool {
        match self.find_user_method(value, name) {
            Some(method) => method.visibility == super::value::Visibility::Public,
            None => self.ruby_has(value, name),
        }
    }

    /// Whether a value answers to a method, private ones included.
    pub(super) fn responds_privately(&mut self, value: &Value, name: &str) -> bool {
        self.find_user_method(value, name).is_some() || self.ruby_has(value, name) || self.kernel_has(name)
    }
}

/// What an object keeps, without borrowing it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
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
    Reader,
    Else,
}

impl Kind {
    fn of(data: &Data) -> Kind {
        match data {
            Data::Plain => Kind::Plain,
            Data::Fields(_) => Kind::Struct,
            Data::Table(_) => Kind::Table,
            Data::Set(_) => Kind::Set,
            Data::Exception(_) => Kind::Exception,
            Data::Enumerator { .. } => Kind::Enumerator,
            Data::Address(_) => Kind::Address,
            Data::Uri(_) => Kind::Uri,
            Data::Time(_) => Kind::Time,
            Data::Digest(..) => Kind::Digest,
            Data::Certificate(_) => Kind::Certificate,
            Data::DistinguishedName(_) => Kind::DistinguishedName,
            Data::Reader(..) => Kind::Reader,
            Data::Else { .. } => Kind::Else,
        }
    }
}

pub(crate) use compare::{to_big, to_f64};
pub(crate) use show::float_to_s;
