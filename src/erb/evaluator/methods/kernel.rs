//! Private methods of every object: `raise`, `loop`, `format`, `Integer` and the like, and the methods that
//! need the caller's scope.

use std::rc::Rc;
use std::sync::Arc;

use crate::evaluator::eval::{Args, Env, EvalResult, Flow, Interpreter};
use crate::evaluator::meter::MethodMemory;
use crate::evaluator::stdlib;
use crate::evaluator::value::{Class, Data, Object, ProcKind, RProc, Value, Visibility};

/// Libraries that a template can `require`. Their supported parts are built in.
const LIBRARIES: &[&str] = &[
    "base64",
    "bigdecimal",
    "cgi",
    "date",
    "digest",
    "digest/md5",
    "digest/sha1",
    "digest/sha2",
    "English",
    "erb",
    "forwardable",
    "ipaddr",
    "json",
    "openssl",
    "ostruct",
    "pathname",
    "psych",
    "securerandom",
    "set",
    "shellwords",
    "singleton",
    "stringio",
    "time",
    "timeout",
    "tsort",
    "uri",
    "yaml",
    "zlib",
    "rubygems",
    "pp",
    "digest/sha256",
    "cgi/util",
    "cgi/escape",
    "erb/util",
    "json/ext",
    "delegate",
    "strscan",
];

impl Interpreter {
    /// Calls a method that needs the caller's scope, such as `block_given?` or `private`.
    pub(crate) fn call_scope_method(
        &mut self,
        receiver: &Value,
        name: &str,
        args: &Args,
        env: &Rc<Env>,
    ) -> EvalResult<Option<Value>> {
        if !matches!(
            name,
            "block_given?"
                | "binding"
                | "proc"
                | "lambda"
                | "private"
                | "public"
                | "protected"
                | "module_function"
                | "__method__"
                | "local_variables"
                | "define_method"
                | "private_constant"
                | "public_constant"
                | "private_class_method"
                | "attr_reader"
                | "attr_writer"
                | "attr_accessor"
        ) || self.find_user_method(receiver, name).is_some()
        {
            return Ok(None);
        }
        Ok(Some(match name {
            "block_given?" => Value::Bool(env.frame.block.is_some()),
            "__method__" => env.frame.method.clone().map_or(Value::Nil, Value::Symbol),
            "lambda" | "proc" => match &args.block {
                Some(Value::Proc(block)) => {
                    if name == "lambda"
                        && let ProcKind::Block { body, env } = &block.kind
                    {
                        let kind = ProcKind::Block { body: Arc::clone(body), env: Rc::clone(env) };
                        Value::Proc(RProc::new(kind, true, block.tag))
                    } else {
                        Value::Proc(Rc::clone(block))
                    }
                }
                _ => return self.raise_argument_error("tried to create Proc object without a block"),
            },
            "binding" => {
                let class = self.load_class("Binding");
                self.create_object(class, Data::Plain)
            }
            "local_variables" => return Err(self.unsupported_error("local_variables")),
            "private"
            | "public"
            | "protected"
            | "module_function"
            | "private_class_method"
            | "private_constant"
            | "public_constant" => {
                let class = match receiver {
                    Value::Class(class) => Rc::clone(class),
                    _ => Rc::clone(&env.module),
                };
                self.set_visibility(&class, name, args)?
            }
            "define_method" | "attr_reader" | "attr_writer" | "attr_accessor" => {
                let class = match receiver {
                    Value::Class(class) => Rc::clone(class),
                    _ => Rc::clone(&env.module),
                };
                match self.call_class_method(&class, name, args, Some(env))? {
                    Some(value) => value,
                    None => return Ok(None),
                }
            }
            _ => return Ok(None),
        }))
    }

    /// Implements `private`, `public`, `protected` and `module_function`. The variants for class methods and
    /// constants have no effect.
    fn set_visibility(
        &mut self,
        class: &Rc<crate::evaluator::value::Class>,
        name: &str,
        args: &Args,
    ) -> EvalResult<Value> {
        if matches!(name, "private_class_method" | "private_constant" | "public_constant") {
            return Ok(Value::Nil);
        }
        let visibility = match name {
            "private" => Visibility::Private,
            "protected" => Visibility::Protected,
            _ => Visibility::Public,
        };
        if args.is_empty() {
            class.defines_module_functions.set(name == "module_function");
            class.visibility.set(visibility);
            return Ok(Value::Nil);
        }
        let mut names = Vec::new();
        for arg in &args.list {
            match arg {
                Value::Array(list) => names.extend(list.to_vec()),
                other => names.push(other.clone()),
            }
        }
        for method_arg in &names {
            let method_name: Arc<str> = Arc::from(self.name_arg(method_arg)?);
            let Some(method) = class.find_method(&method_name) else { continue };
            let new_method = crate::evaluator::value::Method {
                name: Arc::clone(&method_name),
                body: method.body.shallow_copy(),
                owner: Rc::clone(class),
                visibility: if name == "module_function" { method.visibility } else { visibility },
            };
            let new_method = Rc::new(new_method);
            if name == "module_function" {
                class.singleton.borrow_mut().insert(method_name, new_method);
            } else {
                class.methods.borrow_mut().insert(method_name, new_method);
            }
        }
        Ok(args.list.first().cloned().unwrap_or(Value::Nil))
    }

    /// Calls a private method that every object has.
    pub(crate) fn call_kernel_method(
        &mut self,
        receiver: &Value,
        name: &str,
        args: &Args,
        env: Option<&Rc<Env>>,
    ) -> EvalResult<Option<Value>> {
        let _scratch = MethodMemory::begin();
        Ok(Some(match name {
            "raise" | "fail" => return self.raise(args, env).map(Some),
            "require" | "require_relative" => {
                let library = self.arg(args, 0)?;
                let library = self.string_arg(&library)?;
                if name == "require_relative" || !LIBRARIES.contains(&library.as_str()) {
                    return Err(self.unsupported_error(format!("{name} '{library}'")));
                }
                Value::Bool(false)
            }
            "loop" => match &args.block {
                None => self.create_enumerator(receiver, "loop", Vec::new())?,
                Some(block) => {
                    let block = block.clone();
                    loop {
                        match self.yield_to(&block, Vec::new()) {
                            Ok(_) => {}
                            Err(flow) if self.ends_iteration(&flow) => return Ok(Some(Value::Nil)),
                            Err(other) => return Err(other),
                        }
                    }
                }
            },
            "format" | "sprintf" => {
                let template = self.arg(args, 0)?;
                let template = self.string_arg(&template)?;
                Value::str(stdlib::format::format(self, &template, &args.list[1..])?)
            }
            // Output goes to the standard output of BOSH's renderer and not into the file, so it is
            // discarded.
            "puts" | "print" | "printf" | "warn" | "putc" => Value::Nil,
            "pp" => args.get(0).cloned().unwrap_or(Value::Nil),
            // `rand` is not supported, so its seed has no effect. Constants are never private.
            "srand" | "private_constant" => Value::Nil,
            "Integer" => {
                let value = self.arg(args, 0)?;
                let is_strict =
                    args.options().and_then(|o| o.get_symbol("exception")).is_none_or(|v| v.is_truthy());
                let radix = match args.positional().get(1) {
                    // With a negative base, a prefix of the digits takes precedence.
                    Some(Value::Int(..0)) => {
                        return Err(self.unsupported_error("Integer() with a negative base"));
                    }
                    Some(_) if !matches!(value, Value::Str(_)) => {
                        return self.raise_argument_error("base specified for non string value");
                    }
                    Some(radix) => {
                        let radix = self.int_arg(&radix.clone())?;
                        self.check_radix(radix)?
                    }
                    None => 0,
                };
                match self.convert_to_integer(&value, radix) {
                    Err(Flow::Raise(_)) if !is_strict => Value::Nil,
                    other => other?,
                }
            }
            "Float" => {
                let value = self.arg(args, 0)?;
                let is_strict =
                    args.options().and_then(|o| o.get_symbol("exception")).is_none_or(|v| v.is_truthy());
                match self.convert_to_float(&value) {
                    Err(Flow::Raise(_)) if !is_strict => Value::Nil,
                    other => other?,
                }
            }
            "String" => {
                let value = self.arg(args, 0)?;
                Value::str(self.text_of(&value)?)
            }
            "Array" => match self.arg(args, 0)? {
                Value::Nil => Value::array(Vec::new()),
                value @ Value::Array(_) => value,
                value @ (Value::Hash(_) | Value::Range(_)) => Value::array(self.collect(&value)?),
                value @ Value::Object(_) => {
                    let mut items = vec![value.clone()];
                    if self.responds_to(&value, "to_a") {
                        items = self.splat(&value)?;
                    }
                    Value::array(items)
                }
                other => Value::array(vec![other]),
            },
            "Hash" => match self.arg(args, 0)? {
                Value::Nil => Value::hash(Default::default()),
                Value::Array(list) if list.len() == 0 => Value::hash(Default::default()),
                value @ Value::Hash(_) => value,
                other => {
                    let class = self.class_of(&other).label();
                    return self.raise_type_error(format!("can't convert {class} into Hash"));
                }
            },
            "URI" => {
                let value = self.arg(args, 0)?;
                stdlib::uri::convert_to_uri(self, &value)?
            }
            "catch" => {
                let tag = match args.get(0) {
                    Some(tag) => tag.clone(),
                    None => {
                        let class = self.load_class("Object");
                        self.create_object(class, Data::Plain)
                    }
                };
                let block = self.block_arg(args)?;
                match self.yield_one(&block, tag.clone()) {
                    Err(Flow::Throw(thrown, value)) if thrown.is_same(&tag) => value,
                    other => other?,
                }
            }
            "throw" => {
                let tag = self.arg(args, 0)?;
                return Err(Flow::Throw(tag, args.get(1).cloned().unwrap_or(Value::Nil)));
            }
            "rand" => return Err(self.unsupported_error("rand (its result is random)")),
            "caller" | "caller_locations" => Value::array(Vec::new()),
            "freeze" => receiver.clone(),
            "exit" | "abort" | "exit!" => {
                let text = args.get(0).cloned().unwrap_or(Value::str("exit"));
                let text = self.text_of(&text)?;
                return Err(self.ruby_error("SystemExit", text));
            }
            "include" | "extend" if receiver.is_same(&self.main.clone()) => {
                let singleton = match receiver {
                    Value::Object(object) => self.singleton_of(object),
                    _ => return Ok(None),
                };
                for module in &args.list {
                    if let Value::Class(module) = module {
                        Class::mix_in(&singleton.included_modules, module);
                    }
                }
                receiver.clone()
            }
            "system" | "exec" | "spawn" | "fork" | "`" | "open" | "gets" | "readline" | "readlines"
            | "sleep" | "load" | "select" | "syscall" | "trap" | "eval" | "test" => {
                return Err(self.unsupported_error(format!("`{name}`, which reaches outside the template,")));
            }
            _ => return Ok(None),
        }))
    }

    /// Implements `Float(value)`.
    pub(crate) fn convert_to_float(&mut self, value: &Value) -> EvalResult<Value> {
        Ok(Value::Float(match value {
            Value::Float(float) => *float,
            Value::Int(_) | Value::Big(_) => super::compare::to_f64(value),
            Value::Str(text) => match stdlib::number::float_strict(&text.get()) {
                Some(float) => float,
                None if text.get().contains(['x', 'X']) && text.get().contains('_') => {
                    return Err(self.unsupported_error("Float() of hexadecimal digits with '_'"));
                }
                None => {
                    let value_text = self.inspect(value)?;
                    return self.raise_argument_error(format!("invalid value for Float(): {value_text}"));
                }
            },
            Value::Nil => return self.raise_type_error("can't convert nil into Float"),
            other => {
                let class = self.class_of(other).label();
                return self.raise_type_error(format!("can't convert {class} into Float"));
            }
        }))
    }

    /// Implements `Integer(value, radix)`. If the radix is 0, the prefix of the digits determines it.
    pub(crate) fn convert_to_integer(&mut self, value: &Value, radix: u32) -> EvalResult<Value> {
        match value {
            Value::Int(_) | Value::Big(_) => Ok(value.clone()),
            Value::Float(_) => self.call(value, "to_i", Vec::new()),
            Value::Str(text) => match stdlib::number::integer_strict(&text.get(), radix) {
                Some(number) => Ok(number),
                None => {
                    let value_text = self.inspect(value)?;
                    self.raise_argument_error(format!("invalid value for Integer(): {value_text}"))
                }
            },
            Value::Nil => self.raise_type_error("can't convert nil into Integer"),
            other => {
                let class = self.class_of(other).label();
                self.raise_type_error(format!("can't convert {class} into Integer"))
            }
        }
    }

    /// Implements `raise` with an exception, a class, a text, or nothing, which raises the current exception
    /// again.
    fn raise(&mut self, args: &Args, _env: Option<&Rc<Env>>) -> EvalResult<Value> {
        let span = self.span;
        let exception = match args.positional() {
            [] => match self.globals.get("$!").cloned() {
                Some(Value::Object(current)) => return Err(Flow::Raise(current)),
                _ => return Err(self.ruby_error("RuntimeError", "unhandled exception")),
            },
            [Value::Str(text), ..] => {
                let class = self.load_class("RuntimeError");
                self.create_exception(class, Value::Str(Rc::clone(text)))
            }
            [first @ Value::Class(_), rest @ ..] => {
                let list: Vec<Value> = rest.iter().take(1).cloned().collect();
                match self.call(first, "new", list)? {
                    Value::Object(object) if is_exception(&object) => object,
                    _ => return self.raise_type_error("exception class/object expected"),
                }
            }
            [Value::Object(object), rest @ ..] if is_exception(object) => {
                if let (Some(message), Data::Exception(inner)) =
                    (rest.first(), &mut *object.data.borrow_mut())
                {
                    inner.message = message.clone();
                }
                Rc::clone(object)
            }
            _ => return self.raise_type_error("exception class/object expected"),
        };
        if let Data::Exception(inner) = &mut *exception.data.borrow_mut() {
            if inner.span.is_none() {
                inner.span = Some(span);
            }
            if let Some(cause) = args.options().and_then(|options| options.get_symbol("cause")) {
                inner.cause = cause;
            }
        }
        Err(Flow::Raise(exception))
    }
}

fn is_exception(object: &Rc<Object>) -> bool {
    matches!(&*object.data.borrow(), Data::Exception(_))
}
