//! Methods of every object, and those of tables and of objects without data.

use std::rc::Rc;
use std::sync::Arc;

use crate::evaluator::eval::{Args, Env, EvalResult, Interpreter};
use crate::evaluator::stdlib;
use crate::evaluator::value::ProcKind;
use crate::evaluator::value::{Class, Data, Method, MethodBody, RHash, RProc, Value, Visibility, hash_code};

impl Interpreter {
    /// Calls a method that every object has. Returns `None` for any other method.
    pub(super) fn call_object_method(
        &mut self,
        receiver: &Value,
        name: &str,
        args: &Args,
        env: Option<&Rc<Env>>,
    ) -> EvalResult<Option<Value>> {
        Ok(Some(match name {
            "==" | "eql?" | "equal?" => {
                let other = self.arg(args, 0)?;
                Value::Bool(match name {
                    "==" => self.are_equal(receiver, &other)?,
                    "eql?" => {
                        crate::evaluator::value::Key(receiver.clone()) == crate::evaluator::value::Key(other)
                    }
                    _ => receiver.is_same(&other),
                })
            }
            "===" => {
                let other = self.arg(args, 0)?;
                Value::Bool(self.is_case_equal(receiver, &other, env)?)
            }
            "!=" => {
                let other = self.arg(args, 0)?;
                Value::Bool(!self.are_equal(receiver, &other)?)
            }
            "!" => Value::Bool(!receiver.is_truthy()),
            "=~" => Value::Nil,
            "!~" => {
                let match_result = self.call_builtin_or_nil(receiver, "=~", args, env)?;
                Value::Bool(!match_result.is_truthy())
            }
            "<=>" => {
                let other = self.arg(args, 0)?;
                self.compare(receiver, &other)?.map_or(Value::Nil, |ordering| Value::Int(ordering as i64))
            }
            "nil?" => Value::Bool(false),
            "class" => Value::Class(self.class_of(receiver)),
            "singleton_class" => match receiver {
                Value::Object(object) => Value::Class(self.singleton_of(object)),
                Value::Class(class) => Value::Class(Rc::clone(class)),
                _ => return Err(self.unsupported_error("singleton_class of this value")),
            },
            "is_a?" | "kind_of?" | "instance_of?" => match self.arg(args, 0)? {
                Value::Class(class) => Value::Bool(if name == "instance_of?" {
                    Rc::ptr_eq(&self.class_of(receiver), &class)
                } else {
                    self.class_of(receiver).descends_from(&class) || self.extends(receiver, &class)
                }),
                _ => return self.raise_type_error("class or module required"),
            },
            "respond_to?" => {
                let method_name = self.arg(args, 0)?;
                let method_name = self.name_arg(&method_name)?;
                let includes_private = args.get(1).is_some_and(Value::is_truthy);
                let mut responds = if includes_private {
                    self.responds_at_all(receiver, &method_name)
                } else {
                    self.responds_to(receiver, &method_name)
                };
                if !responds && let Some(method) = self.find_user_method(receiver, "respond_to_missing?") {
                    let args = Args::new(vec![Value::symbol(&method_name), Value::Bool(includes_private)]);
                    responds = self.invoke(&method, receiver, args)?.is_truthy();
                }
                Value::Bool(responds)
            }
            "send" | "__send__" | "public_send" => {
                let method_name = self.arg(args, 0)?;
                let method_name = self.name_arg(&method_name)?;
                let args = Args {
                    list: args.list[1..].to_vec(),
                    has_keywords: args.has_keywords,
                    block: args.block.clone(),
                };
                if name == "public_send" {
                    self.call_with_args(receiver, &method_name, args)?
                } else {
                    self.call_private(receiver, &method_name, args)?
                }
            }
            "method" | "public_method" => {
                let method_name = self.arg(args, 0)?;
                let method_name = self.name_arg(&method_name)?;
                if !self.responds_at_all(receiver, &method_name) {
                    let class = self.class_of(receiver).label();
                    let text = format!("undefined method `{method_name}' for class `{class}'");
                    return Err(self.detailed_error("NameError", text, Value::symbol(&method_name)));
                }
                let kind = ProcKind::Method { receiver: receiver.clone(), name: Arc::from(method_name) };
                Value::Proc(RProc::new(kind, true, 0))
            }
            "tap" => {
                let block = self.block_arg(args)?;
                self.yield_one(&block, receiver.clone())?;
                receiver.clone()
            }
            "then" | "yield_self" => {
                let block = self.block_arg(args)?;
                self.yield_one(&block, receiver.clone())?
            }
            "itself" => receiver.clone(),
            "freeze" => {
                freeze(receiver);
                receiver.clone()
            }
            "frozen?" => Value::Bool(match receiver {
                Value::Str(text) => text.is_frozen.get(),
                Value::Array(array) => array.is_frozen.get(),
                Value::Hash(hash) => hash.is_frozen.get(),
                Value::Object(object) => object.is_frozen.get(),
                Value::Class(_) | Value::Proc(_) | Value::Match(_) => false,
                _ => true,
            }),
            "dup" | "clone" => self.copy(receiver, name, args)?,
            "hash" => match receiver {
                Value::Match(_) | Value::Proc(_) => {
                    return Err(self.unsupported_error("hash, whose result differs between runs"));
                }
                _ => Value::Int(hash_code(receiver)),
            },
            "object_id" | "__id__" => Value::Int(match receiver {
                Value::Nil => 8,
                Value::Bool(true) => 20,
                Value::Bool(false) => 0,
                Value::Int(int) => int.wrapping_mul(2).wrapping_add(1),
                Value::Object(object) => object.id as i64,
                _ => return Err(self.unsupported_error(format!("{name}, whose result differs between runs"))),
            }),
            "to_s" => Value::str(self.text_of(receiver)?),
            "inspect" => Value::str(self.inspect(receiver)?),
            "display" => Value::Nil,
            "instance_variable_get" | "instance_variable_set" | "instance_variable_defined?" => {
                let variable = self.arg(args, 0)?;
                let variable = self.name_arg(&variable)?;
                match name {
                    "instance_variable_get" => self.instance_variable(receiver, &variable),
                    "instance_variable_defined?" => {
                        Value::Bool(self.has_instance_variable(receiver, &variable))
                    }
                    _ => {
                        let value = self.arg(args, 1)?;
                        self.set_instance_variable(receiver, &Arc::from(variable), value.clone())?;
                        value
                    }
                }
            }
            "instance_variables" => match receiver {
                Value::Object(object) => Value::array(
                    object.variables.borrow().keys().map(|name| Value::Symbol(Arc::clone(name))).collect(),
                ),
                _ => Value::array(Vec::new()),
            },
            "methods" | "public_methods" | "singleton_methods" => {
                let mut names = Vec::new();
                if let Value::Object(object) = receiver {
                    for class in object.class.ancestors() {
                        let mut method_names: Vec<_> = class.methods.borrow().keys().cloned().collect();
                        method_names.sort();
                        names.extend(method_names.into_iter().map(Value::Symbol));
                    }
                }
                Value::array(names)
            }
            "extend" => {
                for module in &args.list {
                    let Value::Class(module) = module else {
                        return self.raise_type_error("wrong argument type (expected Module)");
                    };
                    match receiver {
                        Value::Object(object) => {
                            let singleton = self.singleton_of(object);
                            Class::mix_in(&singleton.included_modules, module);
                        }
                        Value::Class(class) => Class::mix_in(&class.singleton_modules, module),
                        _ => return Err(self.unsupported_error("extend on this value")),
                    }
                }
                receiver.clone()
            }
            "define_singleton_method" => {
                let method_name = self.arg(args, 0)?;
                let method_name: Arc<str> = Arc::from(self.name_arg(&method_name)?);
                let block = match &args.block {
                    Some(block) => block.clone(),
                    None => self.arg(args, 1)?,
                };
                match receiver {
                    Value::Object(object) => {
                        let singleton = self.singleton_of(object);
                        self.define_method(
                            &singleton,
                            &method_name,
                            MethodBody::Proc(block),
                            Visibility::Public,
                        );
                    }
                    Value::Class(class) => {
                        let method = Method {
                            name: Arc::clone(&method_name),
                            body: MethodBody::Proc(block),
                            owner: Rc::clone(class),
                            visibility: Visibility::Public,
                        };
                        class.singleton.borrow_mut().insert(Arc::clone(&method_name), Rc::new(method));
                    }
                    _ => return Err(self.unsupported_error("define_singleton_method on this value")),
                }
                Value::Symbol(method_name)
            }
            "instance_eval" | "instance_exec" => {
                let Some(Value::Proc(block)) = &args.block else {
                    return Err(self.unsupported_error("instance_eval of a string"));
                };
                let list = if name == "instance_exec" { args.list.clone() } else { vec![receiver.clone()] };
                let module = match receiver {
                    Value::Object(object) => Some(self.singleton_of(object)),
                    _ => None,
                };
                self.call_proc_as(&Rc::clone(block), Args::new(list), Some(receiver.clone()), false, module)?
            }
            "enum_for" | "to_enum" => {
                let method = match args.get(0) {
                    Some(name) => self.name_arg(&name.clone())?,
                    None => "each".into(),
                };
                let rest = args.list.iter().skip(1).cloned().collect();
                self.create_enumerator(receiver, &method, rest)?
            }
            "to_json" => stdlib::json::to_json(self, receiver, args)?,
            "to_yaml" => stdlib::yaml::to_yaml(self, receiver, args)?,
            "instance_variable_names" => return Ok(None),
            _ => return Ok(None),
        }))
    }

    /// Calls a built-in method in the caller's scope. Returns nil if the receiver does not have it.
    fn call_builtin_or_nil(
        &mut self,
        receiver: &Value,
        name: &str,
        args: &Args,
        env: Option<&Rc<Env>>,
    ) -> EvalResult<Value> {
        match self.call_builtin(receiver, name, args, env)? {
            Some(value) => Ok(value),
            None => Ok(Value::Nil),
        }
    }

    /// Implements `dup` and `clone`.
    fn copy(&mut self, value: &Value, name: &str, args: &Args) -> EvalResult<Value> {
        let keeps_frozen = name == "clone"
            && args
                .options()
                .and_then(|options| options.get_symbol("freeze"))
                .is_none_or(|freeze| freeze.is_truthy());
        let copy = match value {
            Value::Str(text) => Value::Str(Rc::new(text.copy())),
            Value::Array(array) => Value::array(array.to_vec()),
            Value::Hash(hash) => Value::Hash(Rc::new(hash.copy())),
            Value::Object(object) => {
                let data = match &*object.data.borrow() {
                    Data::Plain => Data::Plain,
                    Data::Struct(fields) => Data::Struct(fields.clone()),
                    Data::Table(table) => Data::Table(Rc::new(table.copy())),
                    Data::Set(set) => Data::Set(Rc::new(set.copy())),
                    Data::Address(address) => Data::Address(address.clone()),
                    Data::Uri(uri) => Data::Uri(uri.clone()),
                    Data::Time(time) => Data::Time(time.clone()),
                    Data::Digest(algorithm, bytes) => Data::Digest(algorithm, bytes.clone()),
                    _ => return Ok(value.clone()),
                };
                let copy = self.create_raw_object(Rc::clone(&object.class), data);
                copy.charge.grow(object.charge.size());
                *copy.variables.borrow_mut() = object.variables.borrow().clone();
                let new_object = Value::Object(Rc::clone(&copy));
                if self.find_user_method(&new_object, "initialize_copy").is_some() {
                    self.call_private(&new_object, "initialize_copy", Args::new(vec![value.clone()]))?;
                }
                new_object
            }
            other => return Ok(other.clone()),
        };
        let is_frozen = match value {
            Value::Str(text) => text.is_frozen.get(),
            Value::Array(array) => array.is_frozen.get(),
            Value::Hash(hash) => hash.is_frozen.get(),
            Value::Object(object) => object.is_frozen.get(),
            _ => false,
        };
        if keeps_frozen && is_frozen {
            freeze(&copy);
        }
        Ok(copy)
    }

    /// Calls a method of a property struct or an `OpenStruct`. Any other name is a member, and a missing
    /// member is nil.
    pub(super) fn call_table_method(
        &mut self,
        object: &Rc<crate::evaluator::value::Object>,
        name: &str,
        args: &Args,
    ) -> EvalResult<Option<Value>> {
        let table = match &*object.data.borrow() {
            Data::Table(table) => Rc::clone(table),
            _ => return Ok(None),
        };
        let is_open_struct = object.class.label() == "OpenStruct";
        if is_open_struct {
            match name {
                "to_h" => {
                    let copy = Value::hash(RHash::from_pairs(table.pairs()));
                    return match &args.block {
                        Some(_) => self.call_enumerable_method(&copy, "to_h", args),
                        None => Ok(Some(copy)),
                    };
                }
                "[]" => {
                    let key = self.arg(args, 0)?;
                    let key = self.name_arg(&key)?;
                    return Ok(Some(table.get_symbol(&key).unwrap_or(Value::Nil)));
                }
                "[]=" => {
                    let key = self.arg(args, 0)?;
                    let key = self.name_arg(&key)?;
                    let value = self.arg(args, 1)?;
                    table.insert(Value::symbol(&key), value.clone());
                    return Ok(Some(value));
                }
                "dig" => {
                    let key = self.arg(args, 0)?;
                    let key = self.name_arg(&key)?;
                    let value = table.get_symbol(&key).unwrap_or(Value::Nil);
                    return self.dig(&value, &args.list[1..]).map(Some);
                }
                "each_pair" => {
                    let copy = Value::hash(RHash::from_pairs(table.pairs()));
                    return self.call_builtin(&copy, "each_pair", args, None);
                }
                "delete_field" => {
                    let key = self.arg(args, 0)?;
                    let key = self.name_arg(&key)?;
                    return Ok(Some(table.remove(&Value::symbol(&key)).unwrap_or(Value::Nil)));
                }
                _ => {}
            }
        }
        if let Some(member) = name.strip_suffix('=')
            && !member.is_empty()
            && member.ends_with(|last: char| last.is_alphanumeric() || last == '_')
        {
            let value = self.arg(args, 0)?;
            let member_value = if is_open_struct { value.clone() } else { self.wrap_hashes(&value)? };
            table.insert(Value::symbol(member), member_value);
            return Ok(Some(value));
        }
        if self.has_kernel_method(name) && !is_open_struct && table.get_symbol(name).is_none() {
            return Ok(Some(Value::Nil));
        }
        Ok(Some(table.get_symbol(name).unwrap_or(Value::Nil)))
    }

    /// Converts hashes to property structs, at every depth.
    pub(super) fn wrap_hashes(&mut self, value: &Value) -> EvalResult<Value> {
        self.check_depth()?;
        Ok(match value {
            Value::Hash(hash) => {
                let table = RHash::default();
                for (key, value) in hash.pairs() {
                    let key = self.text_of(&key)?;
                    let value = self.wrap_hashes(&value)?;
                    table.insert(Value::symbol(&key), value);
                }
                let class = self.load_class("PropertyStruct");
                self.create_object(class, Data::Table(Rc::new(table)))
            }
            Value::Array(array) => {
                let mut items = Vec::new();
                for item in array.to_vec() {
                    items.push(self.wrap_hashes(&item)?);
                }
                Value::array(items)
            }
            other => other.clone(),
        })
    }

    /// Calls a method of a built-in class whose objects have no data of their own.
    pub(super) fn call_plain_method(
        &mut self,
        receiver: &Value,
        name: &str,
        args: &Args,
    ) -> EvalResult<Option<Value>> {
        let Value::Object(object) = receiver else { return Ok(None) };
        let class = object.class.label();
        match (class.as_str(), name) {
            ("IO", "puts" | "print" | "write" | "printf" | "<<" | "flush" | "sync=" | "sync") => {
                Ok(Some(Value::Nil))
            }
            ("Encoding", "to_s" | "name") => Ok(Some(self.instance_variable(receiver, "@name"))),
            ("Binding", "local_variable_get" | "local_variable_set" | "local_variable_defined?" | "eval") => {
                Err(self.unsupported_error(format!("Binding#{name}")))
            }
            ("OpenSSL::X509::Extension", _) => stdlib::openssl::call_part_method(self, object, name, args),
            _ => Ok(None),
        }
    }
}

fn freeze(value: &Value) {
    match value {
        Value::Str(text) => text.is_frozen.set(true),
        Value::Array(array) => array.is_frozen.set(true),
        Value::Hash(hash) => hash.is_frozen.set(true),
        Value::Object(object) => object.is_frozen.set(true),
        _ => {}
    }
}
