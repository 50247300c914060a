//! Evaluates calls of methods, blocks and procs.
//!
//! A method is looked up in this order: those that the template defined, Ruby's own (`call_builtin`), Ruby's
//! private ones (`call_kernel_method`) if the receiver is `self`, and `method_missing`. Before all of these,
//! a call on `self` tries the methods that need the caller's scope, such as `block_given?`
//! (`call_scope_method`).
//!
//! Two parameters recur here. `is_self_call` is true if the receiver is `self`, so private methods may be
//! called. `is_bare_name` is true for a name alone, without receiver and arguments, which Ruby's error calls
//! a "local variable or method".

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use super::arguments::Strictness;
use super::{Args, Env, EvalResult, FRAME_BYTES, Flow, Frame, Interpreter};
use crate::evaluator::meter::{self, Charge};
use crate::evaluator::value::{Class, Method, MethodBody, ProcKind, RProc, VALUE_BYTES, Value, Visibility};
use crate::parse::ir::{Argument, BlockArgument, Body, Expr, MethodCall, Name, Node};

impl Interpreter {
    /// Evaluates a method call: the receiver, the arguments, the block, then the method. A `break` in the
    /// block ends the call with its value.
    pub(super) fn eval_call(&mut self, call: &MethodCall, expr: &Expr, env: &Rc<Env>) -> EvalResult<Value> {
        let receiver = match &call.receiver {
            Some(receiver) => self.eval(receiver, env)?,
            None => env.this.clone(),
        };
        if call.is_safe_navigation && receiver.is_nil() {
            return Ok(Value::Nil);
        }
        let (list, has_keywords) = self.eval_args(&call.args, env)?;
        let (block, tag) = self.eval_block(call.block.as_ref(), env)?;
        self.span = expr.span;
        let args = Args { list, has_keywords, block };
        let is_self_call = match &call.receiver {
            None => true,
            Some(receiver) => matches!(receiver.node, Node::SelfValue),
        };
        let is_bare_name = call.receiver.is_none() && call.args.is_empty();
        let result = if is_self_call {
            match self.call_scope_method(&receiver, &call.name, &args, env)? {
                Some(value) => Ok(value),
                None => self.dispatch(&receiver, &call.name, args, true, is_bare_name, Some(env)),
            }
        } else {
            self.dispatch(&receiver, &call.name, args, false, false, Some(env))
        };
        match result {
            Err(Flow::Break(break_tag, value)) if tag != 0 && break_tag == tag => Ok(value),
            other => other,
        }
    }

    /// Evaluates the block of a call. Also returns its tag for `Flow::Break`, or 0 for a block that is not a
    /// literal.
    fn eval_block(
        &mut self,
        block: Option<&BlockArgument>,
        env: &Rc<Env>,
    ) -> EvalResult<(Option<Value>, u64)> {
        match block {
            None => Ok((None, 0)),
            Some(BlockArgument::Literal(body)) => {
                let tag = self.allocate_id();
                let kind = ProcKind::Block { body: Arc::clone(body), env: Rc::clone(env) };
                Ok((Some(Value::Proc(RProc::new(kind, false, tag))), tag))
            }
            Some(BlockArgument::Pass(None)) => Ok((env.frame.block.clone(), 0)),
            Some(BlockArgument::Pass(Some(expr))) => {
                let value = self.eval(expr, env)?;
                Ok((self.convert_to_block(value)?, 0))
            }
        }
    }

    /// Converts the value of `&value` to a block.
    pub(crate) fn convert_to_block(&mut self, value: Value) -> EvalResult<Option<Value>> {
        match value {
            Value::Nil => Ok(None),
            Value::Proc(_) => Ok(Some(value)),
            Value::Symbol(name) => {
                let kind = ProcKind::Symbol(name);
                Ok(Some(Value::Proc(RProc::new(kind, true, 0))))
            }
            other if self.responds_to(&other, "to_proc") => {
                let block = self.call(&other, "to_proc", Vec::new())?;
                Ok(Some(block))
            }
            other => {
                let class = self.class_of(&other).label();
                self.raise_type_error(format!("wrong argument type {class} (expected Proc)"))
            }
        }
    }

    pub(super) fn create_lambda(&mut self, body: &Arc<Body>, env: &Rc<Env>) -> Value {
        let kind = ProcKind::Block { body: Arc::clone(body), env: Rc::clone(env) };
        let tag = self.allocate_id();
        Value::Proc(RProc::new(kind, true, tag))
    }

    /// Calls a public method.
    pub(crate) fn call(&mut self, receiver: &Value, name: &str, args: Vec<Value>) -> EvalResult<Value> {
        self.check_depth()?;
        self.dispatch(receiver, name, Args::new(args), false, false, None)
    }

    /// Calls a public method with keywords or a block.
    pub(crate) fn call_with_args(&mut self, receiver: &Value, name: &str, args: Args) -> EvalResult<Value> {
        self.check_depth()?;
        self.dispatch(receiver, name, args, false, false, None)
    }

    /// Calls a public or private method.
    pub(crate) fn call_private(&mut self, receiver: &Value, name: &str, args: Args) -> EvalResult<Value> {
        self.check_depth()?;
        self.dispatch(receiver, name, args, true, false, None)
    }

    /// Calls `name=`.
    pub(super) fn call_attribute_writer(
        &mut self,
        receiver: &Value,
        name: &str,
        value: Value,
        is_self_call: bool,
    ) -> EvalResult<()> {
        self.dispatch(receiver, &format!("{name}="), Args::new(vec![value]), is_self_call, false, None)?;
        Ok(())
    }

    /// Finds a method that the template defined for this receiver.
    pub(crate) fn find_user_method(&mut self, receiver: &Value, name: &str) -> Option<Rc<Method>> {
        match receiver {
            Value::Object(object) => {
                if let Some(singleton) = &*object.singleton.borrow()
                    && let Some(method) = singleton.find_method(name)
                {
                    return Some(method);
                }
                object.class.find_method(name)
            }
            Value::Class(class) => class.find_singleton(name).or_else(|| {
                if !self.is_patched {
                    return None;
                }
                self.class_of(receiver).find_method(name)
            }),
            _ if self.is_patched => self.class_of(receiver).find_method(name),
            _ => None,
        }
    }

    /// Looks a method up and calls it. `env` is the caller's scope, for protected methods and for methods
    /// that use it.
    fn dispatch(
        &mut self,
        receiver: &Value,
        name: &str,
        args: Args,
        is_self_call: bool,
        is_bare_name: bool,
        env: Option<&Rc<Env>>,
    ) -> EvalResult<Value> {
        self.step(1)?;
        if let Some(method) = self.find_user_method(receiver, name) {
            if !is_self_call && method.visibility == Visibility::Private {
                if let Some(result) = self.call_method_missing(receiver, name, &args)? {
                    return Ok(result);
                }
                let description = self.describe_receiver(receiver)?;
                let text = format!("private method `{name}' called for {description}");
                return Err(self.detailed_error("NoMethodError", text, Value::symbol(name)));
            }
            if !is_self_call && method.visibility == Visibility::Protected {
                let is_inside = env.is_some_and(
                    |env| matches!(&env.this, Value::Object(this) if this.class.descends_from(&method.owner)),
                );
                if !is_inside {
                    let description = self.describe_receiver(receiver)?;
                    let text = format!("protected method `{name}' called for {description}");
                    return Err(self.detailed_error("NoMethodError", text, Value::symbol(name)));
                }
            }
            return self.invoke(&method, receiver, args);
        }
        if let Some(value) = self.call_builtin(receiver, name, &args, env)? {
            return Ok(value);
        }
        if is_self_call && let Some(value) = self.call_kernel_method(receiver, name, &args, env)? {
            return Ok(value);
        }
        if let Some(result) = self.call_method_missing(receiver, name, &args)? {
            return Ok(result);
        }
        self.raise_no_method_error(receiver, name, is_self_call, is_bare_name)
    }

    /// Calls the template's `method_missing`. Returns `None` if the receiver has none.
    fn call_method_missing(
        &mut self,
        receiver: &Value,
        name: &str,
        args: &Args,
    ) -> EvalResult<Option<Value>> {
        let Some(method) = self.find_user_method(receiver, "method_missing") else { return Ok(None) };
        let _charge = Charge::try_new(args.list.len() * VALUE_BYTES)?;
        meter::step_bytes(args.list.len() * VALUE_BYTES)?;
        let mut list = vec![Value::symbol(name)];
        list.extend(args.list.iter().cloned());
        let args = Args { list, has_keywords: args.has_keywords, block: args.block.clone() };
        self.invoke(&method, receiver, args).map(Some)
    }

    /// Raises the error for a missing method: "unsupported" if Ruby has the method, and otherwise Ruby's own
    /// error.
    fn raise_no_method_error(
        &mut self,
        receiver: &Value,
        name: &str,
        is_self_call: bool,
        is_bare_name: bool,
    ) -> EvalResult<Value> {
        if self.has_ruby_method(receiver, name) || (is_self_call && self.has_kernel_method(name)) {
            let class = self.class_of(receiver).label();
            let construct = match receiver {
                Value::Class(class) => format!("{}.{name}", class.label()),
                _ if is_self_call => format!("the method '{name}'"),
                _ => format!("{class}#{name}"),
            };
            return Err(self.unsupported_error(construct));
        }
        let description = self.describe_receiver(receiver)?;
        let detail = Value::symbol(name);
        if is_bare_name {
            let text = format!("undefined local variable or method `{name}' for {description}");
            return Err(self.detailed_error("NameError", text, detail));
        }
        Err(self.detailed_error(
            "NoMethodError",
            format!("undefined method `{name}' for {description}"),
            detail,
        ))
    }

    /// Calls a method that the template defined.
    pub(crate) fn invoke(&mut self, method: &Rc<Method>, receiver: &Value, args: Args) -> EvalResult<Value> {
        self.check_depth()?;
        match &method.body {
            MethodBody::AttributeReader(name) => Ok(self.instance_variable(receiver, name)),
            MethodBody::AttributeWriter(name) => {
                let value = args.list.into_iter().next().unwrap_or(Value::Nil);
                self.set_instance_variable(receiver, name, value.clone())?;
                Ok(value)
            }
            MethodBody::Builtin(name) => match self.call_builtin(receiver, name, &args, None)? {
                Some(value) => Ok(value),
                None => match self.call_kernel_method(receiver, name, &args, None)? {
                    Some(value) => Ok(value),
                    None => self.raise_no_method_error(receiver, name, false, false),
                },
            },
            MethodBody::Proc(block) => {
                let Value::Proc(block) = block else { return Ok(Value::Nil) };
                self.call_proc_as(block, args, Some(receiver.clone()), true, None)
            }
            MethodBody::Code(body) => {
                let id = self.allocate_id();
                let (name, owner) = (Arc::clone(&method.name), Rc::clone(&method.owner));
                let frame = Frame::new(id, &args, Some(name), Some(Rc::clone(&owner)));
                let env = Env::new(body.locals.len(), None, frame, receiver.clone(), owner, 0);
                self.bind(body, args, &env, Strictness::Method)?;
                match self.eval_optional(body.code.as_ref(), &env) {
                    Err(Flow::Return(frame, value)) if frame == id => Ok(value),
                    other => other,
                }
            }
        }
    }

    /// Calls a block with these values, as `yield` does.
    pub(crate) fn yield_to(&mut self, block: &Value, args: Vec<Value>) -> EvalResult<Value> {
        let Value::Proc(block) = block else {
            return Err(self.ruby_error("LocalJumpError", "no block given (yield)"));
        };
        self.step(1)?;
        self.call_proc_as(block, Args::new(args), None, false, None)
    }

    /// Calls a block with one value.
    pub(crate) fn yield_one(&mut self, block: &Value, value: Value) -> EvalResult<Value> {
        self.yield_to(block, vec![value])
    }

    /// Calls a proc, as `Proc#call` does.
    pub(crate) fn call_proc(&mut self, block: &Rc<RProc>, args: Args) -> EvalResult<Value> {
        self.call_proc_as(block, args, None, false, None)
    }

    /// Calls a proc. `this` replaces its `self`, and `module` the class in which `def` defines methods. With
    /// `is_method` it behaves like a method: it checks the number of arguments, and `return` leaves only the
    /// proc.
    pub(crate) fn call_proc_as(
        &mut self,
        block: &Rc<RProc>,
        args: Args,
        this: Option<Value>,
        is_method: bool,
        module: Option<Rc<Class>>,
    ) -> EvalResult<Value> {
        self.check_depth()?;
        match &block.kind {
            ProcKind::Native(native_block) => {
                let native_block = Rc::clone(native_block);
                native_block(self, args.list)
            }
            ProcKind::Symbol(name) => {
                let mut list = args.list.into_iter();
                match list.next() {
                    Some(receiver) => {
                        let args =
                            Args { list: list.collect(), has_keywords: args.has_keywords, block: None };
                        self.call_with_args(&receiver, name, args)
                    }
                    None => self.raise_argument_error("no receiver given"),
                }
            }
            ProcKind::Method { receiver, name } => self.call_private(&receiver.clone(), &name.clone(), args),
            ProcKind::Block { body, env } => {
                let is_lambda = block.is_lambda.get() || is_method;
                let id = if is_lambda { self.allocate_id() } else { env.frame.id };
                let frame = if is_lambda {
                    let outer = &env.frame;
                    Rc::new(Frame {
                        id,
                        block: outer.block.clone(),
                        args: outer.args.clone(),
                        has_keywords: outer.has_keywords,
                        method: outer.method.clone(),
                        owner: outer.owner.clone(),
                        last_match: RefCell::new(outer.last_match.borrow().clone()),
                        _charge: Charge::new(FRAME_BYTES + outer.args.len() * VALUE_BYTES),
                    })
                } else {
                    Rc::clone(&env.frame)
                };
                let this = this.unwrap_or_else(|| env.this.clone());
                let module = module.unwrap_or_else(|| Rc::clone(&env.module));
                let block_env =
                    Env::new(body.locals.len(), Some(Rc::clone(env)), frame, this, module, block.tag);
                let strictness = if is_lambda { Strictness::Method } else { Strictness::Block };
                self.bind(body, args, &block_env, strictness)?;
                match self.eval_optional(body.code.as_ref(), &block_env) {
                    Err(Flow::Next(value)) => Ok(value),
                    Err(Flow::Return(frame, value)) if is_lambda && frame == id => Ok(value),
                    Err(Flow::Break(tag, value)) if is_lambda && tag == block.tag => Ok(value),
                    other => other,
                }
            }
        }
    }

    pub(super) fn eval_yield(
        &mut self,
        list: Vec<Value>,
        has_keywords: bool,
        env: &Rc<Env>,
    ) -> EvalResult<Value> {
        let Some(Value::Proc(block)) = env.frame.block.clone() else {
            return Err(self.ruby_error("LocalJumpError", "no block given (yield)"));
        };
        self.step(1)?;
        self.call_proc(&block, Args { list, has_keywords, block: None })
    }

    /// Evaluates `super`. Without `args` it passes the arguments of the current method.
    pub(super) fn eval_super(
        &mut self,
        args: Option<&[Argument]>,
        block: Option<&BlockArgument>,
        env: &Rc<Env>,
    ) -> EvalResult<Value> {
        let (Some(name), Some(owner)) = (env.frame.method.clone(), env.frame.owner.clone()) else {
            return Err(self.ruby_error("RuntimeError", "super called outside of method"));
        };
        let (list, has_keywords) = match args {
            Some(args) => self.eval_args(args, env)?,
            None => (env.frame.args.clone(), env.frame.has_keywords),
        };
        let (own_block, _) = self.eval_block(block, env)?;
        let args = Args { list, has_keywords, block: own_block.or_else(|| env.frame.block.clone()) };
        let this = env.this.clone();
        match self.find_super_method(&this, &owner, &name) {
            Some(method) => self.invoke(&method, &this, args),
            None => {
                if let Some(value) = self.call_builtin(&this, &name, &args, Some(env))? {
                    return Ok(value);
                }
                match &*name {
                    "initialize" | "inherited" | "included" | "extended" | "method_added" => {
                        self.initialize_builtin(&this, &args)?;
                        Ok(Value::Nil)
                    }
                    "respond_to_missing?" => Ok(Value::Bool(false)),
                    "method_missing" => match args.list.first() {
                        Some(Value::Symbol(name)) => {
                            let name = Arc::clone(name);
                            self.raise_no_method_error(&this, &name, false, false)
                        }
                        _ => Ok(Value::Nil),
                    },
                    _ => {
                        let description = self.describe_receiver(&this)?;
                        let text = format!("super: no superclass method `{name}' for {description}");
                        Err(self.detailed_error("NoMethodError", text, Value::symbol(&name)))
                    }
                }
            }
        }
    }

    /// Finds the method that `super` calls: the next one after `owner` in the order of lookup.
    fn find_super_method(&mut self, this: &Value, owner: &Rc<Class>, name: &Name) -> Option<Rc<Method>> {
        if let Value::Class(class) = this {
            let mut parent = class.superclass.clone();
            let mut has_found_owner = class.singleton.borrow().contains_key(name);
            if !has_found_owner {
                let mut next_class = Some(Rc::clone(class));
                while let Some(candidate) = next_class {
                    if Rc::ptr_eq(&candidate, owner) {
                        parent = candidate.superclass.clone();
                        has_found_owner = true;
                        break;
                    }
                    next_class = candidate.superclass.clone();
                }
            }
            return if has_found_owner { parent.and_then(|class| class.find_singleton(name)) } else { None };
        }
        let mut classes = Vec::new();
        if let Value::Object(object) = this
            && let Some(singleton) = &*object.singleton.borrow()
        {
            classes.extend(singleton.ancestors());
        }
        for class in self.class_of(this).ancestors() {
            if !classes.iter().any(|other: &Rc<Class>| Rc::ptr_eq(other, &class)) {
                classes.push(class);
            }
        }
        let owner_index = classes.iter().position(|class| Rc::ptr_eq(class, owner))?;
        classes[owner_index + 1..].iter().find_map(|class| class.methods.borrow().get(name).cloned())
    }

    /// Describes a receiver as Ruby 3.1 does in its error messages.
    pub(crate) fn describe_receiver(&mut self, receiver: &Value) -> EvalResult<String> {
        Ok(match receiver {
            Value::Nil => "nil:NilClass".into(),
            Value::Bool(true) => "true:TrueClass".into(),
            Value::Bool(false) => "false:FalseClass".into(),
            Value::Class(class) => {
                let kind = if class.is_module { "Module" } else { "Class" };
                format!("{}:{kind}", class.label())
            }
            Value::Object(object) if object.is_same_as(&self.main) => {
                format!("#<{}>", object.class.label())
            }
            other => {
                let class = self.class_of(other).label();
                let text = self.inspect(other)?;
                if text.len() > 65 || text.starts_with("#<") {
                    match other {
                        Value::Object(object) => self.anonymous_text(object),
                        _ => format!("#<{class}>"),
                    }
                } else {
                    format!("{text}:{class}")
                }
            }
        })
    }
}

impl crate::evaluator::value::Object {
    fn is_same_as(self: &Rc<Self>, value: &Value) -> bool {
        matches!(value, Value::Object(other) if Rc::ptr_eq(self, other))
    }
}
