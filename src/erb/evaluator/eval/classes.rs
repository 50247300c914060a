//! Evaluates definitions of classes, modules and methods, and looks up constants and variables.

use std::rc::Rc;
use std::sync::Arc;

use super::{Env, EvalResult, Flow, Frame, Interpreter};
use crate::evaluator::methods::names::{self, ClassFact};
use crate::evaluator::value::{Class, ENTRY_BYTES, Method, MethodBody, ProcKind, RMatch, Value, Visibility};
use crate::parse::ir::{Body, ConstScope, Expr, Name, Node};

impl Interpreter {
    /// Returns one of Ruby's own classes by its full name. It is created on first use.
    pub(crate) fn load_class(&mut self, name: &str) -> Rc<Class> {
        if let Some(class) = self.classes.get(name) {
            return Rc::clone(class);
        }
        let (superclass, is_module) = match names::fact(name) {
            Some(ClassFact { superclass, is_module, .. }) => {
                (superclass.map(|superclass| self.load_class(superclass)), *is_module)
            }
            None => (Some(self.load_class("Object")), false),
        };
        let outer = name.rsplit_once("::").map(|(outer, _)| self.load_class(outer));
        let class = Class::new(Some(name), superclass, is_module, outer);
        for module in names::included_modules(name) {
            let module = self.load_class(module);
            class.included_modules.borrow_mut().push(module);
        }
        self.classes.insert(Arc::from(name), Rc::clone(&class));
        class
    }

    pub(crate) fn class_of(&mut self, value: &Value) -> Rc<Class> {
        let name = match (value.core_class(), value) {
            (Some(name), _) => name,
            (None, Value::Object(object)) => return Rc::clone(&object.class),
            (None, Value::Proc(block)) if matches!(block.kind, ProcKind::Method { .. }) => "Method",
            (None, Value::Class(class)) if class.is_module => "Module",
            (None, Value::Class(_)) => "Class",
            // All other variants have a core class.
            (None, _) => "Proc",
        };
        self.load_class(name)
    }

    /// Returns one of Ruby's own classes by its full name, if there is one.
    fn find_class(&mut self, name: &str) -> Option<Rc<Class>> {
        if let Some(class) = self.classes.get(name) {
            return Some(Rc::clone(class));
        }
        names::fact(name).map(|_| self.load_class(name))
    }

    pub(super) fn eval_constant(
        &mut self,
        scope: &ConstScope,
        name: &Name,
        env: &Rc<Env>,
    ) -> EvalResult<Value> {
        match scope {
            ConstScope::Lexical => self.look_up_constant(name, env),
            ConstScope::Top => {
                let object = self.load_class("Object");
                self.look_up_constant_in(&object, name)
            }
            ConstScope::In(expr) => match self.eval(expr, env)? {
                Value::Class(class) => self.look_up_constant_in(&class, name),
                other => {
                    let value_text = self.inspect(&other)?;
                    self.raise_type_error(format!("{value_text} is not a class/module"))
                }
            },
        }
    }

    /// Looks up a constant from the current scope: in the classes around it, then at the top level.
    pub(super) fn look_up_constant(&mut self, name: &Name, env: &Rc<Env>) -> EvalResult<Value> {
        let mut next_class = Some(Rc::clone(&env.module));
        while let Some(class) = next_class {
            for ancestor in class.ancestors() {
                if let Some(value) = ancestor.constants.borrow().get(name) {
                    return Ok(value.clone());
                }
            }
            let full_name = format!("{}::{name}", class.label());
            if let Some(class) = self.find_class(&full_name) {
                return Ok(Value::Class(class));
            }
            next_class = class.outer.clone();
        }
        // All code of a template, even in `class ::String`, is inside the evaluation context class.
        let context = self.load_class("TemplateEvaluationContext");
        if let Some(value) = context.constants.borrow().get(name) {
            return Ok(value.clone());
        }
        let object = self.load_class("Object");
        match self.look_up_constant_in(&object, name) {
            Err(flow) if self.is_exception(&flow, "NameError") => {
                // Ruby's message names the class around the code.
                let text = format!("uninitialized constant {}::{name}", env.module.label());
                Err(self.detailed_error("NameError", text, Value::symbol(name)))
            }
            other => other,
        }
    }

    /// Looks up a constant in a class and its ancestors.
    pub(crate) fn look_up_constant_in(&mut self, class: &Rc<Class>, name: &str) -> EvalResult<Value> {
        for ancestor in class.ancestors() {
            if let Some(value) = ancestor.constants.borrow().get(name) {
                return Ok(value.clone());
            }
        }
        let is_top_level = class.label() == "Object";
        let full_name = if is_top_level { name.to_owned() } else { format!("{}::{name}", class.label()) };
        if let Some(class) = self.find_class(&full_name) {
            return Ok(Value::Class(class));
        }
        if let Some(value) = self.builtin_constant(&full_name)? {
            class.constants.borrow_mut().insert(Arc::from(name), value.clone());
            return Ok(value);
        }
        if names::UNSUPPORTED_CONSTANTS.contains(&full_name.as_str()) {
            return Err(self.unsupported_error(format!("the constant {full_name}")));
        }
        let detail = Value::symbol(name);
        Err(self.detailed_error("NameError", format!("uninitialized constant {full_name}"), detail))
    }

    /// Returns the full name of a constant in a class.
    pub(super) fn qualified_name(&mut self, outer: &Rc<Class>, name: &str) -> Name {
        let is_top_level = matches!(&*outer.label(), "Object");
        Arc::from(if is_top_level { name.to_owned() } else { format!("{}::{name}", outer.label()) })
    }

    /// Evaluates a definition: `def`, `class`, `module`, `class << self` or `alias`.
    pub(super) fn eval_definition(&mut self, expr: &Expr, env: &Rc<Env>) -> EvalResult<Value> {
        self.span = expr.span;
        match &expr.node {
            Node::Define { name, body, on } => match on {
                None => {
                    let class = Rc::clone(&env.module);
                    self.define(&class, name, body);
                    Ok(Value::Symbol(Arc::clone(name)))
                }
                Some(on) => {
                    let target = self.eval(on, env)?;
                    let method = Method {
                        name: Arc::clone(name),
                        body: MethodBody::Code(Arc::clone(body)),
                        owner: Rc::clone(&env.module),
                        visibility: Visibility::Public,
                    };
                    self.define_singleton(&target, name, method)?;
                    Ok(Value::Symbol(Arc::clone(name)))
                }
            },
            Node::Class { name, superclass, body } => {
                let superclass = superclass.as_deref().map(|expr| self.eval(expr, env)).transpose()?;
                let class = self.open_class(name, superclass, false, env)?;
                self.run_body(&class, body, env)
            }
            Node::Module { name, body } => {
                let class = self.open_class(name, None, true, env)?;
                self.run_body(&class, body, env)
            }
            Node::SingletonClass { object, body } => match self.eval(object, env)? {
                Value::Class(class) => {
                    let singleton_class = Class::new(None, None, false, Some(Rc::clone(&class)));
                    let result = self.run_body(&singleton_class, body, env)?;
                    let methods = singleton_class.methods.take();
                    if !methods.is_empty() && names::fact(&class.label()).is_some() {
                        self.is_patched = true;
                    }
                    for (name, method) in methods {
                        class.singleton.borrow_mut().insert(name, method);
                    }
                    for (name, value) in singleton_class.constants.take() {
                        class.constants.borrow_mut().insert(name, value);
                    }
                    Ok(result)
                }
                Value::Object(object) => {
                    let singleton = self.singleton_of(&object);
                    self.run_body(&singleton, body, env)
                }
                _ => Err(self.unsupported_error("a singleton class of this value")),
            },
            Node::Alias { new_name, old_name } => {
                let class = Rc::clone(&env.module);
                self.alias(&class, new_name, old_name)?;
                Ok(Value::Nil)
            }
            _ => Ok(Value::Nil),
        }
    }

    fn define(&mut self, class: &Rc<Class>, name: &Name, body: &Arc<Body>) {
        let visibility = if &**name == "initialize" { Visibility::Private } else { class.visibility.get() };
        self.define_method(class, name, MethodBody::Code(Arc::clone(body)), visibility);
    }

    pub(crate) fn define_method(
        &mut self,
        class: &Rc<Class>,
        name: &Name,
        body: MethodBody,
        visibility: Visibility,
    ) {
        self.record_patch(class);
        let method = Rc::new(Method { name: Arc::clone(name), body, owner: Rc::clone(class), visibility });
        if class.defines_module_functions.get() {
            class.singleton.borrow_mut().insert(Arc::clone(name), Rc::clone(&method));
        }
        if class.methods.borrow_mut().insert(Arc::clone(name), method).is_none() {
            class.charge.grow(2 * ENTRY_BYTES);
        }
    }

    /// Records that a class gets methods, if it is one of Ruby's own. See [`Interpreter::is_patched`].
    pub(crate) fn record_patch(&mut self, class: &Rc<Class>) {
        if names::fact(&class.label()).is_some() && class.label() != "TemplateEvaluationContext" {
            self.is_patched = true;
        }
    }

    /// Returns the singleton class of an object. It is created on first use.
    pub(crate) fn singleton_of(&mut self, object: &Rc<crate::evaluator::value::Object>) -> Rc<Class> {
        let singleton = object.singleton.borrow().clone();
        singleton.unwrap_or_else(|| {
            let class = Class::new(Some(&object.class.label()), None, false, Some(Rc::clone(&object.class)));
            *object.singleton.borrow_mut() = Some(Rc::clone(&class));
            class
        })
    }

    fn define_singleton(&mut self, target: &Value, name: &Name, mut method: Method) -> EvalResult<()> {
        match target {
            Value::Class(class) => {
                method.owner = Rc::clone(class);
                class.singleton.borrow_mut().insert(Arc::clone(name), Rc::new(method));
            }
            Value::Object(object) => {
                let singleton = self.singleton_of(object);
                method.owner = Rc::clone(&singleton);
                singleton.methods.borrow_mut().insert(Arc::clone(name), Rc::new(method));
            }
            _ => return Err(self.unsupported_error("a singleton method of this value")),
        }
        Ok(())
    }

    /// Defines `new_name` as another name of the method `old_name`.
    pub(crate) fn alias(&mut self, class: &Rc<Class>, new_name: &Name, old_name: &Name) -> EvalResult<()> {
        let body = match class.find_method(old_name) {
            Some(method) => Rc::new(Method {
                name: Arc::clone(new_name),
                body: method.body.shallow_copy(),
                owner: Rc::clone(&method.owner),
                visibility: method.visibility,
            }),
            None => Rc::new(Method {
                name: Arc::clone(new_name),
                body: MethodBody::Builtin(Arc::clone(old_name)),
                owner: Rc::clone(class),
                visibility: Visibility::Public,
            }),
        };
        self.record_patch(class);
        class.methods.borrow_mut().insert(Arc::clone(new_name), body);
        Ok(())
    }

    /// Returns the class or module that a definition opens. It is created if it does not exist.
    fn open_class(
        &mut self,
        name: &Expr,
        superclass: Option<Value>,
        is_module: bool,
        env: &Rc<Env>,
    ) -> EvalResult<Rc<Class>> {
        let Node::Constant { scope, name } = &name.node else {
            return Err(self.unsupported_error("a class of this name"));
        };
        let outer = match scope {
            ConstScope::Lexical => Rc::clone(&env.module),
            ConstScope::Top => self.load_class("Object"),
            ConstScope::In(expr) => match self.eval(expr, env)? {
                Value::Class(class) => class,
                _ => return self.raise_type_error("not a class/module"),
            },
        };
        let constant = outer.constants.borrow().get(name).cloned();
        if let Some(Value::Class(class)) = constant {
            return Ok(class);
        }
        let full_name = self.qualified_name(&outer, name);
        // The template is inside the evaluation context class. So, as in Ruby, `class String` creates a new
        // class there, and only `class ::String` reopens Ruby's own.
        if let Some(class) = self.find_class(&full_name) {
            return Ok(class);
        }
        let superclass = match superclass {
            Some(Value::Class(class)) => Some(class),
            Some(_) => return self.raise_type_error("superclass must be a Class"),
            None if is_module => None,
            None => Some(self.load_class("Object")),
        };
        let parent = superclass.clone();
        let class = Class::new(Some(&full_name), superclass, is_module, Some(Rc::clone(&env.module)));
        outer.constants.borrow_mut().insert(Arc::clone(name), Value::Class(Rc::clone(&class)));
        if let Some(parent) = parent
            && let Some(hook) = parent.find_singleton("inherited")
        {
            let args = super::Args::new(vec![Value::Class(Rc::clone(&class))]);
            self.invoke(&hook, &Value::Class(parent), args)?;
        }
        Ok(class)
    }

    /// Evaluates the body of a class or module definition.
    pub(crate) fn run_body(
        &mut self,
        class: &Rc<Class>,
        body: &Arc<Body>,
        _env: &Rc<Env>,
    ) -> EvalResult<Value> {
        class.visibility.set(Visibility::Public);
        let frame = Frame::outside_methods(self.allocate_id());
        let this = Value::Class(Rc::clone(class));
        let env = Env::new(body.locals.len(), None, frame, this, Rc::clone(class), 0);
        self.eval_optional(body.code.as_ref(), &env)
    }

    pub(crate) fn instance_variable(&self, this: &Value, name: &str) -> Value {
        match this {
            Value::Object(object) => object.variables.borrow().get(name).cloned().unwrap_or(Value::Nil),
            Value::Class(class) => class.variables.borrow().get(name).cloned().unwrap_or(Value::Nil),
            _ => Value::Nil,
        }
    }

    pub(crate) fn has_instance_variable(&self, this: &Value, name: &str) -> bool {
        match this {
            Value::Object(object) => object.variables.borrow().contains_key(name),
            Value::Class(class) => class.variables.borrow().contains_key(name),
            _ => false,
        }
    }

    pub(crate) fn set_instance_variable(
        &mut self,
        this: &Value,
        name: &Name,
        value: Value,
    ) -> EvalResult<()> {
        match this {
            Value::Object(object) if object.is_frozen.get() => return self.raise_frozen_error(this),
            Value::Object(object) => {
                if object.variables.borrow_mut().insert(Arc::clone(name), value).is_none() {
                    object.charge.grow(ENTRY_BYTES);
                }
            }
            Value::Class(class) => {
                if class.variables.borrow_mut().insert(Arc::clone(name), value).is_none() {
                    class.charge.grow(ENTRY_BYTES);
                }
            }
            _ => return Err(self.unsupported_error("an instance variable of this value")),
        }
        Ok(())
    }

    pub(super) fn class_variable(&mut self, name: &Name, env: &Rc<Env>) -> EvalResult<Value> {
        for class in env.module.ancestors() {
            if let Some(value) = class.variables.borrow().get(name) {
                return Ok(value.clone());
            }
        }
        let text = format!("uninitialized class variable {name} in {}", env.module.label());
        Err(self.ruby_error("NameError", text))
    }

    pub(super) fn set_class_variable(&mut self, name: &Name, value: Value, env: &Rc<Env>) {
        for class in env.module.ancestors() {
            if class.variables.borrow().contains_key(name) {
                class.variables.borrow_mut().insert(Arc::clone(name), value);
                return;
            }
        }
        env.module.variables.borrow_mut().insert(Arc::clone(name), value);
    }

    pub(super) fn global_variable(&mut self, name: &Name, env: &Rc<Env>) -> EvalResult<Value> {
        if let Some(value) = self.globals.get(name) {
            return Ok(value.clone());
        }
        match &**name {
            "$~" => Ok(self.last_match(env).map_or(Value::Nil, Value::Match)),
            "$/" => Ok(Value::str("\n")),
            "$," | "$;" | "$!" | "$@" | "$_" | "$." => Ok(Value::Nil),
            "$PROGRAM_NAME" | "$0" | "$$" | "$:" | "$LOAD_PATH" | "$\"" | "$LOADED_FEATURES" | "$*"
            | "$?" | "$<" | "$FILENAME" => Err(self.unsupported_error(format!("the global variable {name}"))),
            "$stderr" | "$stdout" | "$stdin" => {
                let class = self.load_class("IO");
                let io = self.create_object(class, crate::evaluator::value::Data::Plain);
                self.globals.insert(Arc::clone(name), io.clone());
                Ok(io)
            }
            _ => Ok(Value::Nil),
        }
    }

    pub(crate) fn last_match(&self, env: &Rc<Env>) -> Option<Rc<RMatch>> {
        env.frame.last_match.borrow().clone()
    }

    pub(crate) fn set_last_match(&self, last_match: Option<Rc<RMatch>>, env: &Rc<Env>) {
        *env.frame.last_match.borrow_mut() = last_match;
    }

    pub(super) fn back_reference(&self, character: char, env: &Rc<Env>) -> Value {
        let Some(match_data) = self.last_match(env) else { return Value::Nil };
        let Some((start, end)) = match_data.groups.first().copied().flatten() else { return Value::Nil };
        match character {
            '&' => match_data.value(0),
            '`' => Value::str(&match_data.subject[..start]),
            '\'' => Value::str(&match_data.subject[end..]),
            '+' => (1..match_data.groups.len())
                .rev()
                .map(|index| match_data.value(index))
                .find(Value::is_truthy)
                .unwrap_or(Value::Nil),
            _ => Value::Nil,
        }
    }

    /// Returns true if a flow is an exception of this class or a subclass.
    pub(crate) fn is_exception(&mut self, flow: &Flow, class: &str) -> bool {
        match flow {
            Flow::Raise(exception) => {
                let class = self.load_class(class);
                exception.class.descends_from(&class)
            }
            _ => false,
        }
    }
}

impl MethodBody {
    /// Returns a copy that shares the code, for an alias.
    pub(crate) fn shallow_copy(&self) -> MethodBody {
        match self {
            MethodBody::Code(body) => MethodBody::Code(Arc::clone(body)),
            MethodBody::AttributeReader(name) => MethodBody::AttributeReader(Arc::clone(name)),
            MethodBody::AttributeWriter(name) => MethodBody::AttributeWriter(Arc::clone(name)),
            MethodBody::Proc(block) => MethodBody::Proc(block.clone()),
            MethodBody::Builtin(name) => MethodBody::Builtin(Arc::clone(name)),
        }
    }
}
