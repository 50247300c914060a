//! Methods of Struct and of the classes that `Struct.new` creates.

use std::rc::Rc;
use std::sync::Arc;

use super::array::position;
use crate::evaluator::eval::{Args, EvalResult, Interpreter};
use crate::evaluator::value::{Class, Data, Object, RHash, Value};
use crate::parse::ir::Name;

impl Interpreter {
    /// Implements `Struct.new(:a, :b, keyword_init: true) { … }`.
    pub(super) fn create_struct_class(&mut self, base: &Rc<Class>, args: &Args) -> EvalResult<Value> {
        let keyword_init = args
            .options()
            .and_then(|options| options.get_symbol("keyword_init"))
            .is_some_and(|flag| flag.is_truthy());
        let mut name = None;
        let mut members: Vec<Name> = Vec::new();
        for arg in args.positional() {
            match arg {
                Value::Str(text) if members.is_empty() => name = Some(format!("Struct::{}", text.get())),
                other => members.push(Arc::from(self.name_arg(other)?)),
            }
        }
        let class = Class::new(name.as_deref(), Some(Rc::clone(base)), false, None);
        *class.members.borrow_mut() = Some((members, keyword_init));
        let value = Value::Class(Rc::clone(&class));
        if let Some(Value::Proc(block)) = &args.block {
            self.call_proc_as(&Rc::clone(block), Args::default(), Some(value.clone()), false, Some(class))?;
        }
        Ok(value)
    }

    /// Sets the fields of a new struct from the arguments of `new`.
    pub(super) fn fill_struct(&mut self, object: &Rc<Object>, args: &Args) -> EvalResult<()> {
        let Some((members, keyword_init)) = object.class.members.borrow().clone() else { return Ok(()) };
        let mut fields = vec![Value::Nil; members.len()];
        if keyword_init {
            if let Some(options) = args.options() {
                for (key, value) in options.pairs() {
                    let key = self.name_arg(&key)?;
                    match members.iter().position(|member| **member == *key) {
                        Some(index) => fields[index] = value,
                        None => return self.raise_argument_error(format!("unknown keywords: {key}")),
                    }
                }
            } else if !args.is_empty() {
                return self.raise_argument_error(format!(
                    "wrong number of arguments (given {}, expected 0)",
                    args.len()
                ));
            }
        } else {
            if args.len() > members.len() {
                return self.raise_argument_error("struct size differs");
            }
            for (field, value) in fields.iter_mut().zip(&args.list) {
                *field = value.clone();
            }
        }
        *object.data.borrow_mut() = Data::Struct(fields);
        Ok(())
    }

    /// Calls a method of an object of a Struct. Returns `None` if Struct does not implement it.
    pub(super) fn call_struct_method(
        &mut self,
        object: &Rc<Object>,
        name: &str,
        args: &Args,
    ) -> EvalResult<Option<Value>> {
        let receiver = Value::Object(Rc::clone(object));
        let members = object.class.members.borrow().clone().map(|(names, _)| names).unwrap_or_default();
        let fields = match &*object.data.borrow() {
            Data::Struct(fields) => fields.clone(),
            _ => return Ok(None),
        };
        if let Some(index) = members.iter().position(|member| **member == *name) {
            return Ok(fields.get(index).cloned());
        }
        if let Some(member) = name.strip_suffix('=')
            && let Some(index) = members.iter().position(|candidate| **candidate == *member)
        {
            let value = self.arg(args, 0)?;
            self.store_field(object, index, value.clone())?;
            return Ok(Some(value));
        }
        Ok(Some(match name {
            "[]" | "[]=" => {
                let key = self.arg(args, 0)?;
                let field_index = match &key {
                    Value::Int(index) => match position(*index, fields.len()) {
                        Some(index) => index,
                        None => {
                            let (size, offset) = (fields.len(), *index);
                            let text = format!("offset {offset} too large for struct(size:{size})");
                            return Err(self.ruby_error("IndexError", text));
                        }
                    },
                    other => {
                        let member_name = self.name_arg(other)?;
                        match members.iter().position(|member| **member == *member_name) {
                            Some(index) => index,
                            None => {
                                let text = format!("no member '{member_name}' in struct");
                                return Err(self.ruby_error("NameError", text));
                            }
                        }
                    }
                };
                if name == "[]" {
                    fields[field_index].clone()
                } else {
                    let value = self.arg(args, 1)?;
                    self.store_field(object, field_index, value.clone())?;
                    value
                }
            }
            "to_a" | "deconstruct" | "values" => Value::array(fields),
            "members" => Value::array(members.into_iter().map(Value::Symbol).collect()),
            "to_h" => {
                let hash = RHash::from_pairs(members.into_iter().map(Value::Symbol).zip(fields));
                let hash = Value::hash(hash);
                match &args.block {
                    Some(_) => return self.call_enumerable_method(&hash, "to_h", args),
                    None => hash,
                }
            }
            "deconstruct_keys" => {
                Value::hash(RHash::from_pairs(members.into_iter().map(Value::Symbol).zip(fields)))
            }
            "each" => {
                let block = self.block_arg(args)?;
                for field in fields {
                    self.yield_one(&block, field)?;
                }
                receiver
            }
            "each_pair" => {
                let block = self.block_arg(args)?;
                for (name, field) in members.into_iter().zip(fields) {
                    self.yield_to(&block, vec![Value::Symbol(name), field])?;
                }
                receiver
            }
            "dig" => {
                let key = self.arg(args, 0)?;
                let value = self.call(&receiver, "[]", vec![key])?;
                self.dig(&value, &args.list[1..])?
            }
            "size" | "length" => Value::Int(fields.len() as i64),
            "inspect" | "to_s" => Value::str(self.inspect(&receiver)?),
            "==" | "eql?" | "class" | "dup" | "clone" | "hash" | "is_a?" | "respond_to?" => return Ok(None),
            _ => return self.call_enumerable_method(&receiver, name, args),
        }))
    }

    /// Sets a field, or raises `FrozenError`.
    fn store_field(&mut self, object: &Rc<Object>, index: usize, value: Value) -> EvalResult<()> {
        if object.is_frozen.get() {
            return self.raise_frozen_error(&Value::Object(Rc::clone(object)));
        }
        if let Data::Struct(fields) = &mut *object.data.borrow_mut()
            && let Some(field) = fields.get_mut(index)
        {
            *field = value;
        }
        Ok(())
    }
}
