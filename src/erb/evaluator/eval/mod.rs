//! Walks a template's tree.
//!
//! Nothing here reaches outside: no file, process, network or environment. Steps, memory and depth are
//! limited, see [`Limits`].

mod arguments;
mod assign;
mod calls;
mod classes;
mod control;
mod errors;
mod expr;
mod pattern;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::FxHashMap;

pub(crate) use arguments::Args;

use super::stdlib::regex::Regex;
use super::value::{Class, Data, Object, RMatch, Value};
use crate::context::Context;
use crate::error::RenderError;
use crate::parse::Template;
use crate::parse::ir::Name;

/// What one rendering may use.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Expressions evaluated and elements visited.
    pub steps: u64,
    /// Bytes of strings and collections made, all told.
    pub memory: u64,
    /// Bytes of stack.
    pub stack: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { steps: 50_000_000, memory: 512 << 20, stack: 256 << 20 }
    }
}

/// Why evaluation left the usual path.
pub(crate) enum Flow {
    Raise(Rc<Object>),
    Break(u64, Value),
    Next(Value),
    LoopBreak(Value),
    LoopNext,
    Return(u64, Value),
    Throw(Value, Value),
    Retry,
    /// Not an exception: a template cannot rescue it.
    Stop(Box<Stop>),
}

/// What a template cannot rescue.
pub(crate) enum Stop {
    Unsupported(String),
    Limit(String),
}

pub(crate) type R<T = Value> = Result<T, Flow>;

/// What a method call has and its blocks share.
pub(crate) struct Frame {
    pub(super) id: u64,
    pub(super) block: Option<Value>,
    pub(super) args: Vec<Value>,
    pub(super) keywords: bool,
    pub(super) method: Option<Name>,
    /// The class the method belongs to, for `super`.
    pub(super) owner: Option<Rc<Class>>,
    pub(super) last_match: RefCell<Option<Rc<RMatch>>>,
}

/// The variables of one scope, with what is around it.
pub(crate) struct Env {
    pub(super) vars: RefCell<Vec<Value>>,
    pub(super) parent: Option<Rc<Env>>,
    pub(super) frame: Rc<Frame>,
    pub(super) this: Value,
    /// Where `def` defines and constants are looked up.
    pub(super) module: Rc<Class>,
    /// What a `break` here carries.
    pub(super) tag: u64,
}

/// The evaluator of one rendering.
pub(crate) struct Interp {
    pub(super) template: Arc<Template>,
    pub(super) context: Context,
    limits: Limits,
    steps: u64,
    memory: u64,
    stack_base: usize,
    next_id: u64,
    /// The call being evaluated, for errors.
    pub(super) span: (u32, u32),
    pub(super) classes: FxHashMap<Name, Rc<Class>>,
    pub(super) globals: FxHashMap<Name, Value>,
    pub(super) regexps: FxHashMap<(String, u8), Rc<Regex>>,
    /// Whether a template added methods to a class of Ruby's own.
    pub(super) patched: bool,
    pub(super) main: Value,
    pub(super) spec: Value,
    pub(super) properties: Value,
    pub(super) raw_properties: Value,
    /// Collections being shown, so that those that hold themselves end.
    pub(super) showing: Vec<usize>,
}

/// Renders a template. The stack of the calling thread must be as large as the limits say.
pub(crate) fn run(
    name: &str,
    template: &Arc<Template>,
    context: &Context,
    limits: Limits,
) -> Result<Vec<u8>, RenderError> {
    let base = 0u8;
    let mut interp = Interp::new(template, context, limits, std::ptr::from_ref(&base) as usize);
    let result = interp.render().map_err(|flow| interp.render_error(name, flow));
    interp.let_go();
    result
}

impl Interp {
    fn new(template: &Arc<Template>, context: &Context, limits: Limits, stack_base: usize) -> Self {
        let mut interp = Interp {
            template: Arc::clone(template),
            context: context.clone(),
            limits,
            steps: 0,
            memory: 0,
            stack_base,
            next_id: 8,
            span: (0, 0),
            classes: FxHashMap::default(),
            globals: FxHashMap::default(),
            regexps: FxHashMap::default(),
            patched: false,
            main: Value::Nil,
            spec: Value::Nil,
            properties: Value::Nil,
            raw_properties: Value::Nil,
            showing: Vec::new(),
        };
        let class = interp.class("TemplateEvaluationContext");
        interp.main = interp.object(class, Data::Plain);
        interp
    }

    fn render(&mut self) -> R<Vec<u8>> {
        let template = Arc::clone(&self.template);
        let frame = Rc::new(Frame {
            id: self.id(),
            block: None,
            args: Vec::new(),
            keywords: false,
            method: None,
            owner: None,
            last_match: RefCell::new(None),
        });
        let env = Rc::new(Env {
            vars: RefCell::new(vec![Value::Nil; template.body.locals.len()]),
            parent: None,
            frame,
            this: self.main.clone(),
            module: self.class("TemplateEvaluationContext"),
            tag: 0,
        });
        let result = match &template.body.code {
            Some(code) => self.eval(code, &env),
            None => Ok(Value::Nil),
        };
        // Blocks in variables hold the scope they stand in, and are held by it.
        env.vars.take();
        match result? {
            Value::Str(text) => Ok(text.bytes()),
            other => Ok(self.text_of(&other)?.into_bytes()),
        }
    }

    /// Takes apart what holds itself in a circle, and would not be freed: classes and what stands in them. Only
    /// values that a template made hold each other stay, as much as the limit of memory lets them be.
    fn let_go(&mut self) {
        let mut open: Vec<Rc<Class>> = self.classes.drain().map(|(_, class)| class).collect();
        self.globals.clear();
        while let Some(class) = open.pop() {
            for value in class.constants.take().into_values() {
                if let Value::Class(inner) = value {
                    open.push(inner);
                }
            }
            class.methods.take();
            class.singleton.take();
            class.variables.take();
        }
        if let Value::Object(main) = &self.main {
            main.variables.take();
        }
    }

    /// A number no other object has.
    pub(super) fn id(&mut self) -> u64 {
        self.next_id += 8;
        self.next_id
    }

    /// A new object.
    pub(super) fn object(&mut self, class: Rc<Class>, data: Data) -> Value {
        Value::Object(self.raw_object(class, data))
    }

    pub(super) fn raw_object(&mut self, class: Rc<Class>, data: Data) -> Rc<Object> {
        Rc::new(Object {
            class,
            id: self.id(),
            variables: RefCell::default(),
            data: RefCell::new(data),
            frozen: Cell::new(false),
            singleton: RefCell::new(None),
        })
    }

    /// Counts work done.
    #[inline(always)]
    pub(super) fn step(&mut self, count: u64) -> R<()> {
        self.steps += count;
        if self.steps > self.limits.steps {
            return Err(self.ran_too_long());
        }
        Ok(())
    }

    #[cold]
    fn ran_too_long(&self) -> Flow {
        let text = format!("the template ran for more than {} steps", self.limits.steps);
        Flow::Stop(Box::new(Stop::Limit(text)))
    }

    /// Counts memory about to be used.
    #[inline(always)]
    pub(super) fn charge(&mut self, bytes: usize) -> R<()> {
        self.memory = self.memory.saturating_add(bytes as u64);
        if self.memory > self.limits.memory {
            return Err(self.made_too_much());
        }
        Ok(())
    }

    #[cold]
    fn made_too_much(&self) -> Flow {
        let text =
            format!("the template made more than {} MiB of values, all told", self.limits.memory >> 20);
        Flow::Stop(Box::new(Stop::Limit(text)))
    }

    /// Refuses to go deeper than the stack allows. Ruby raises here as well.
    #[inline(always)]
    pub(super) fn check_depth(&mut self) -> R<()> {
        let here = 0u8;
        let used = self.stack_base.abs_diff(std::ptr::from_ref(&here) as usize);
        if used > self.limits.stack / 4 * 3 {
            return Err(self.error("SystemStackError", "stack level too deep"));
        }
        Ok(())
    }

    /// Ends the rendering: this is Ruby that is not supported.
    pub(super) fn unsupported(&self, construct: impl Into<String>) -> Flow {
        Flow::Stop(Box::new(Stop::Unsupported(construct.into())))
    }
}

impl Env {
    /// The scope so many levels up.
    pub(super) fn up(self: &Rc<Env>, depth: u32) -> &Rc<Env> {
        let mut env = self;
        for _ in 0..depth {
            match &env.parent {
                Some(parent) => env = parent,
                None => break,
            }
        }
        env
    }
}
