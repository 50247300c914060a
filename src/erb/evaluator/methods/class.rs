//! Methods called on a class or module: `new`, `name`, and the functions of Ruby's libraries.

use std::rc::Rc;
use std::sync::Arc;

use num_bigint::{BigInt, Sign};

use super::to_big;
use crate::evaluator::eval::{Args, Env, EvalResult, Interpreter};
use crate::evaluator::stdlib;
use crate::evaluator::value::{
    Class, Data, Exception, MethodBody, RHash, RString, VALUE_BYTES, Value, Visibility,
};

impl Interpreter {
    /// Calls a method of a class or module itself. Returns `None` if it does not implement the method.
    pub(super) fn call_class_method(
        &mut self,
        class: &Rc<Class>,
        name: &str,
        args: &Args,
        env: Option<&Rc<Env>>,
    ) -> EvalResult<Option<Value>> {
        let label = class.label();
        if let Some(value) = self.call_library_method(class, &label, name, args, env)? {
            return Ok(Some(value));
        }
        let receiver = Value::Class(Rc::clone(class));
        Ok(Some(match name {
            "new" | "allocate" if !class.is_module => self.instantiate(class, args)?,
            "[]" if class.members.borrow().is_some() => self.instantiate(class, args)?,
            "exception" => self.instantiate(class, args)?,
            "members" if class.members.borrow().is_some() => {
                let members = class.members.borrow().clone().map(|(names, _)| names).unwrap_or_default();
                Value::array(members.into_iter().map(Value::Symbol).collect())
            }
            "name" | "to_s" | "inspect" => match (&*class.name.borrow(), name) {
                (None, "name") => Value::Nil,
                _ => Value::str(label),
            },
            "superclass" => class.superclass.clone().map_or(Value::Nil, Value::Class),
            "ancestors" => {
                let mut list: Vec<Value> = class.ancestors().into_iter().map(Value::Class).collect();
                if !class.is_module && label != "BasicObject" {
                    let kernel = self.load_class("Kernel");
                    let root_index = list.len().saturating_sub(1);
                    if !list.iter().any(|module| module.is_same(&Value::Class(Rc::clone(&kernel)))) {
                        list.insert(root_index, Value::Class(kernel));
                    }
                }
                Value::array(list)
            }
            "===" => {
                let value = self.arg(args, 0)?;
                Value::Bool(self.is_case_equal(&receiver, &value, None)?)
            }
            "<" | "<=" | ">" | ">=" => {
                let Value::Class(other) = self.arg(args, 0)? else {
                    return self.raise_type_error("compared with non class/module");
                };
                let is_same = Rc::ptr_eq(class, &other);
                let (is_below, is_above) = (class.descends_from(&other), other.descends_from(class));
                match name {
                    "<" if is_same => Value::Bool(false),
                    ">" if is_same => Value::Bool(false),
                    "<" | "<=" if is_below => Value::Bool(true),
                    ">" | ">=" if is_above => Value::Bool(true),
                    _ if is_below || is_above => Value::Bool(false),
                    _ => Value::Nil,
                }
            }
            "hash" => Value::Int(Rc::as_ptr(class) as usize as i64),
            "instance_methods" | "public_instance_methods" => {
                let mut names: Vec<Value> = class
                    .methods
                    .borrow()
                    .values()
                    .filter(|method| method.visibility == Visibility::Public)
                    .map(|method| Value::Symbol(Arc::clone(&method.name)))
                    .collect();
                names.sort_by_key(|name| {
                    if let Value::Symbol(name) = name { name.to_string() } else { String::new() }
                });
                Value::array(names)
            }
            "method_defined?" | "instance_method" | "public_method_defined?" => {
                let method_name = self.arg(args, 0)?;
                let method_name = self.name_arg(&method_name)?;
                if name == "instance_method" {
                    return Err(self.unsupported_error("instance_method"));
                }
                let is_defined = class.find_method(&method_name).is_some()
                    || class.ancestors().iter().any(|class| {
                        super::names::fact(&class.label())
                            .is_some_and(|fact| super::names::list_contains(fact.methods, &method_name))
                    });
                Value::Bool(is_defined)
            }
            "const_get" => {
                let constant_path = self.arg(args, 0)?;
                let constant_path = self.name_arg(&constant_path)?;
                let mut scope = Rc::clone(class);
                let mut constant = receiver;
                for part in constant_path.split("::").filter(|part| !part.is_empty()) {
                    constant = self.look_up_constant_in(&scope, part)?;
                    if let Value::Class(inner) = &constant {
                        scope = Rc::clone(inner);
                    }
                }
                constant
            }
            "const_set" => {
                let constant_name = self.arg(args, 0)?;
                let constant_name = self.name_arg(&constant_name)?;
                let value = self.arg(args, 1)?;
                class.constants.borrow_mut().insert(Arc::from(constant_name), value.clone());
                value
            }
            "const_defined?" => {
                let constant_name = self.arg(args, 0)?;
                let constant_name = self.name_arg(&constant_name)?;
                match self.look_up_constant_in(class, &constant_name) {
                    Ok(_) => Value::Bool(true),
                    Err(flow) if self.is_exception(&flow, "NameError") => Value::Bool(false),
                    Err(other) => return Err(other),
                }
            }
            "constants" => Value::array(
                class.constants.borrow().keys().map(|name| Value::Symbol(Arc::clone(name))).collect(),
            ),
            "attr_reader" | "attr_writer" | "attr_accessor" => {
                let mut method_names = Vec::new();
                for arg in &args.list {
                    let attribute = self.name_arg(arg)?;
                    let variable: Arc<str> = Arc::from(format!("@{attribute}"));
                    let visibility = class.visibility.get();
                    if name != "attr_writer" {
                        let body = MethodBody::AttributeReader(Arc::clone(&variable));
                        self.define_method(class, &Arc::from(attribute.as_str()), body, visibility);
                        method_names.push(Value::symbol(&attribute));
                    }
                    if name != "attr_reader" {
                        let writer = format!("{attribute}=");
                        let body = MethodBody::AttributeWriter(Arc::clone(&variable));
                        self.define_method(class, &Arc::from(writer.as_str()), body, visibility);
                        method_names.push(Value::symbol(&writer));
                    }
                }
                Value::array(method_names)
            }
            "define_method" => {
                let method_name = self.arg(args, 0)?;
                let method_name: Arc<str> = Arc::from(self.name_arg(&method_name)?);
                let block = match &args.block {
                    Some(block) => block.clone(),
                    None => self.arg(args, 1)?,
                };
                self.define_method(class, &method_name, MethodBody::Proc(block), Visibility::Public);
                Value::Symbol(method_name)
            }
            "alias_method" => {
                let (new_name, old_name) = (self.arg(args, 0)?, self.arg(args, 1)?);
                let (new_name, old_name) = (self.name_arg(&new_name)?, self.name_arg(&old_name)?);
                self.alias(class, &Arc::from(new_name.as_str()), &Arc::from(old_name))?;
                Value::symbol(&new_name)
            }
            "remove_method" | "undef_method" => {
                for arg in &args.list {
                    let method_name = self.name_arg(arg)?;
                    class.methods.borrow_mut().remove(method_name.as_str());
                }
                receiver
            }
            "include" | "prepend" => {
                for module in &args.list {
                    let Value::Class(module) = module else {
                        return self.raise_type_error("wrong argument type (expected module)");
                    };
                    if name == "prepend" {
                        return Err(self.unsupported_error("prepend"));
                    }
                    self.record_patch(class);
                    Class::mix_in(&class.included_modules, module);
                    let hook = module.find_singleton("included");
                    if let Some(hook) = hook {
                        let args = Args::new(vec![receiver.clone()]);
                        self.invoke(&hook, &Value::Class(Rc::clone(module)), args)?;
                    }
                }
                receiver
            }
            "include?" => match self.arg(args, 0)? {
                Value::Class(module) => {
                    Value::Bool(class.descends_from(&module) && !Rc::ptr_eq(class, &module))
                }
                _ => return self.raise_type_error("wrong argument type (expected Module)"),
            },
            "class_eval" | "module_eval" | "class_exec" => {
                let Some(Value::Proc(block)) = &args.block else {
                    return Err(self.unsupported_error("class_eval of a string"));
                };
                let args = Args::new(args.list.clone());
                self.call_proc_as(&Rc::clone(block), args, Some(receiver), false, Some(Rc::clone(class)))?
            }
            "class_variable_get" | "class_variable_set" => {
                let variable_name = self.arg(args, 0)?;
                let variable_name: Arc<str> = Arc::from(self.name_arg(&variable_name)?);
                if name == "class_variable_set" {
                    let value = self.arg(args, 1)?;
                    class.variables.borrow_mut().insert(variable_name, value.clone());
                    value
                } else {
                    class.variables.borrow().get(&variable_name).cloned().unwrap_or(Value::Nil)
                }
            }
            "private_constant" | "private_class_method" | "module_function" | "private" | "public" => {
                Value::Nil
            }
            _ => return Ok(None),
        }))
    }

    /// Creates an object of a class and runs its `initialize`.
    fn instantiate(&mut self, class: &Rc<Class>, args: &Args) -> EvalResult<Value> {
        self.use_scratch(160)?;
        let Some(data) = self.data_for(class) else {
            let label = class.label();
            return Err(self.unsupported_error(format!("{label}.new")));
        };
        let object = self.create_raw_object(Rc::clone(class), data);
        let value = Value::Object(Rc::clone(&object));
        match class.find_method("initialize") {
            Some(initialize) => {
                self.invoke(&initialize, &value, args.clone())?;
            }
            None => self.initialize_builtin(&value, args)?,
        }
        Ok(value)
    }

    /// Returns the initial data of an object of a class, or `None` if objects of that class cannot be
    /// created.
    fn data_for(&mut self, class: &Rc<Class>) -> Option<Data> {
        let exception = self.load_class("Exception");
        if class.descends_from(&exception) {
            return Some(Data::Exception(Exception {
                message: Value::Nil,
                cause: Value::Nil,
                span: None,
                unknown_properties: Vec::new(),
                detail: Value::Nil,
            }));
        }
        let mut next_class = Some(Rc::clone(class));
        while let Some(class) = next_class {
            if class.members.borrow().is_some() {
                return Some(Data::Struct(Vec::new()));
            }
            match class.label().as_str() {
                "OpenStruct" => return Some(Data::Table(Rc::new(RHash::default()))),
                "Set" => return Some(Data::Set(Rc::new(RHash::default()))),
                "Object" | "BasicObject" => return Some(Data::Plain),
                label if super::names::fact(label).is_some() => return None,
                _ => {}
            }
            next_class = class.superclass.clone();
        }
        Some(Data::Plain)
    }

    /// Implements `initialize` of the built-in classes.
    pub(crate) fn initialize_builtin(&mut self, value: &Value, args: &Args) -> EvalResult<()> {
        let Value::Object(object) = value else { return Ok(()) };
        let is_struct = matches!(&*object.data.borrow(), Data::Struct(_));
        if is_struct {
            return self.fill_struct(object, args);
        }
        let table = match &*object.data.borrow() {
            Data::Table(table) => Some(Rc::clone(table)),
            _ => None,
        };
        if let Some(table) = table {
            if let Some(Value::Hash(hash)) = args.get(0) {
                for (key, value) in hash.pairs() {
                    let key = self.text_of(&key)?;
                    table.insert(Value::symbol(&key), value);
                }
            }
            return Ok(());
        }
        let set = match &*object.data.borrow() {
            Data::Set(set) => Some(Rc::clone(set)),
            _ => None,
        };
        if let Some(set) = set {
            if let Some(items) = args.get(0) {
                for item in self.collect(&items.clone())? {
                    set.insert(item, Value::Bool(true));
                }
            }
            return Ok(());
        }
        let is_exception = matches!(&*object.data.borrow(), Data::Exception(_));
        if is_exception {
            if let Data::Exception(inner) = &mut *object.data.borrow_mut() {
                inner.message = args.get(0).cloned().unwrap_or(Value::Nil);
            }
            return Ok(());
        }
        if !args.is_empty() {
            return self.check_arg_count(args, 0, 0);
        }
        Ok(())
    }

    /// Calls a class method of a built-in class or library.
    fn call_library_method(
        &mut self,
        class: &Rc<Class>,
        label: &str,
        name: &str,
        args: &Args,
        env: Option<&Rc<Env>>,
    ) -> EvalResult<Option<Value>> {
        match label {
            "JSON" => return stdlib::json::call_class_method(self, name, args),
            "YAML" | "Psych" => return stdlib::yaml::call_class_method(self, name, args),
            "Base64" => return stdlib::base64::call_class_method(self, name, args),
            "IPAddr" => return stdlib::ipaddr::call_class_method(self, class, name, args),
            "URI" | "URI::Generic" | "URI::HTTP" | "URI::HTTPS" => {
                return stdlib::uri::call_class_method(self, label, name, args);
            }
            "Time" | "Date" | "DateTime" => return stdlib::time::call_class_method(self, label, name, args),
            "Shellwords" => return stdlib::shellwords::call_class_method(self, name, args),
            "ERB::Util" | "CGI" => return stdlib::escape::call_class_method(self, name, args),
            "Math" => return self.call_math_method(name, args),
            "Regexp" => return self.call_regexp_class_method(name, args, env),
            "SecureRandom" | "Random" => {
                return Err(self.unsupported_error(format!("{label}.{name} (its result is random)")));
            }
            "File" => return stdlib::path::call_class_method(self, name, args),
            "Dir" | "IO" | "Process" | "Socket" | "Net::HTTP" | "FileUtils" | "Tempfile" | "Resolv" => {
                return Err(
                    self.unsupported_error(format!("`{label}.{name}`, which reaches outside the template,"))
                );
            }
            "OpenSSL::X509::Certificate" | "OpenSSL::X509::Name" | "OpenSSL::X509::Extension" => {
                return stdlib::openssl::call_class_method(self, class, name, args);
            }
            "StringIO" | "Zlib" | "Zlib::GzipReader" | "Zlib::Inflate" => {
                return stdlib::string_io::call_class_method(self, class, name, args);
            }
            "OpenSSL::HMAC" => return stdlib::digest::call_hmac_method(self, name, args),
            _ if label.starts_with("Digest::") || label.starts_with("OpenSSL::Digest") => {
                return stdlib::digest::call_class_method(self, class, name, args);
            }
            _ => {}
        }
        Ok(Some(match (label, name) {
            ("String", "new") => {
                let text = match args.positional().first() {
                    Some(text) => self.string_arg(&text.clone())?,
                    None => String::new(),
                };
                Value::Str(Rc::new(RString::new(text)))
            }
            ("Array", "new") => {
                let items = match (args.get(0), &args.block) {
                    (None, _) => Vec::new(),
                    (Some(Value::Array(list)), _) => list.to_vec(),
                    (Some(count), block) => {
                        let count = self.int_arg(&count.clone())?;
                        if count < 0 {
                            return self.raise_argument_error("negative array size");
                        }
                        self.use_scratch((count as usize).saturating_mul(VALUE_BYTES))?;
                        let mut items = Vec::new();
                        for index in 0..count {
                            items.push(match block {
                                Some(block) => self.yield_one(block, Value::Int(index))?,
                                None => args.get(1).cloned().unwrap_or(Value::Nil),
                            });
                        }
                        items
                    }
                };
                Value::array(items)
            }
            ("Array", "[]") => Value::array(args.list.clone()),
            ("Hash", "new") => {
                let hash = RHash::default();
                *hash.default_proc.borrow_mut() = args.block.clone();
                *hash.default.borrow_mut() = args.get(0).cloned();
                Value::hash(hash)
            }
            ("Hash", "[]") => match args.list.as_slice() {
                [Value::Hash(other)] => Value::hash(RHash::from_pairs(other.pairs())),
                [list @ Value::Array(_)] => {
                    return self.call_enumerable_method(list, "to_h", &Args::default());
                }
                list => {
                    if list.len() % 2 == 1 {
                        return self.raise_argument_error("odd number of arguments for Hash");
                    }
                    Value::hash(RHash::from_pairs(
                        list.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())),
                    ))
                }
            },
            ("Range", "new") => {
                let (begin, end) = (self.arg(args, 0)?, self.arg(args, 1)?);
                let excludes_end = args.get(2).is_some_and(Value::is_truthy);
                self.create_range(begin, end, excludes_end)?
            }
            ("Struct", "new") => self.create_struct_class(class, args)?,
            ("Class", "new") => {
                let superclass = match args.get(0) {
                    Some(Value::Class(superclass)) => Rc::clone(superclass),
                    None => self.load_class("Object"),
                    Some(_) => return self.raise_type_error("superclass must be a Class"),
                };
                let new_class = Class::new(None, Some(superclass), false, None);
                self.run_class_block(&new_class, args)?
            }
            ("Module", "new") => {
                let new_class = Class::new(None, None, true, None);
                self.run_class_block(&new_class, args)?
            }
            ("Proc", "new") => match &args.block {
                Some(block) => block.clone(),
                None => return self.raise_argument_error("tried to create Proc object without a block"),
            },
            ("Set", "[]") => self.create_set(args.list.clone()),
            ("Integer", "sqrt") => {
                let value = match self.arg(args, 0)? {
                    big @ Value::Big(_) => to_big(&big),
                    other => BigInt::from(self.int_arg(&other)?),
                };
                if value.sign() == Sign::Minus {
                    return Err(self
                        .ruby_error("Math::DomainError", "Numerical argument is out of domain - \"isqrt\""));
                }
                Value::integer(value.sqrt())
            }
            ("Enumerator", "new") => return Err(self.unsupported_error("Enumerator.new")),
            ("Kernel", _) => {
                let main = self.main.clone();
                return self.call_kernel_method(&main, name, args, env);
            }
            ("ObjectSpace" | "GC" | "Marshal" | "Signal" | "Thread", _) => {
                return Err(self.unsupported_error(format!("{label}.{name}")));
            }
            ("Symbol" | "Integer" | "Float" | "NilClass" | "TrueClass" | "FalseClass", "new") => {
                let text = format!("undefined method `new' for {label}:Class");
                return Err(self.ruby_error("NoMethodError", text));
            }
            _ => return Ok(None),
        }))
    }

    /// Runs the block of `Class.new` or `Module.new` as the body of the new class.
    fn run_class_block(&mut self, new_class: &Rc<Class>, args: &Args) -> EvalResult<Value> {
        let value = Value::Class(Rc::clone(new_class));
        if let Some(Value::Proc(block)) = &args.block {
            let args = Args::new(vec![value.clone()]);
            self.call_proc_as(
                &Rc::clone(block),
                args,
                Some(value.clone()),
                false,
                Some(Rc::clone(new_class)),
            )?;
        }
        Ok(value)
    }
}
