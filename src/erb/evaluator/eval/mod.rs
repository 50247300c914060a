//! Evaluates a template by walking its tree.
//!
//! A template has no access to files, processes, network or environment. Its steps, memory, time and depth
//! are limited by [`Limits`], which `meter` accounts for.
//!
//! Exceptions, `break`, `return` and the like are the error type [`Flow`], so that `?` passes them on to the
//! code that handles them. Unsupported Ruby and exceeded limits are `Flow::Stop`, which no template can
//! rescue.

mod arguments;
mod assign;
mod calls;
mod classes;
mod control;
mod errors;
mod expr;
mod pattern;

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::FxHashMap;

pub(crate) use arguments::Args;

use super::meter::{self, Abort, Charge, Limits, SignalCheck};
use super::stdlib::regex::Regex;
use super::value::{Class, Data, Object, RMatch, VALUE_BYTES, Value, ValuePart, deep_drop, deep_drop_values};
use crate::context::Context;
use crate::error::RenderError;
use crate::parse::Template;
use crate::parse::ir::Name;

/// A transfer of control that ends the current expression.
pub(crate) enum Flow {
    /// `raise`, or an error of a method: the exception.
    Raise(Rc<Object>),
    /// `break` in a block. The number is the tag of the block, by which the call with that block recognises
    /// it.
    Break(u64, Value),
    /// `next` in a block.
    Next(Value),
    /// `break` in `while`, `until` or `for`.
    LoopBreak(Value),
    /// `next` in `while`, `until` or `for`.
    LoopNext,
    /// `return` from the frame with this id.
    Return(u64, Value),
    /// `throw`: the tag and the value.
    Throw(Value, Value),
    /// `retry` in a `rescue`.
    Retry,
    /// Ends the rendering. No `rescue` or `ensure` runs.
    Stop(Box<Stop>),
}

/// The reason for [`Flow::Stop`].
pub(crate) enum Stop {
    /// The name of the unsupported Ruby.
    Unsupported(String),
    /// The exceeded limit, or the signal.
    Abort(Abort),
}

impl From<Abort> for Flow {
    #[cold]
    fn from(abort: Abort) -> Flow {
        Flow::Stop(Box::new(Stop::Abort(abort)))
    }
}

/// The result of evaluating: a value, or the transfer of control instead of it.
pub(crate) type EvalResult<T = Value> = Result<T, Flow>;

/// The state of one method call, which the blocks in the method share.
pub(crate) struct Frame {
    /// The id by which `Flow::Return` names this call.
    pub(super) id: u64,
    pub(super) block: Option<Value>,
    pub(super) args: Vec<Value>,
    /// True if the last of `args` is a hash of keyword arguments.
    pub(super) has_keywords: bool,
    /// The name of the method. `None` for the template and for class bodies.
    pub(super) method: Option<Name>,
    /// The class that defines the method, for `super`.
    pub(super) owner: Option<Rc<Class>>,
    /// The value of `$~`.
    pub(super) last_match: RefCell<Option<Rc<RMatch>>>,
    pub(super) _charge: Charge,
}

/// The variables of one scope, and the context in which its code runs.
pub(crate) struct Env {
    /// The local variables, by slot.
    pub(super) vars: RefCell<Vec<Value>>,
    /// The scope around a block.
    pub(super) parent: Option<Rc<Env>>,
    pub(super) frame: Rc<Frame>,
    /// The value of `self`.
    pub(super) this: Value,
    /// The class in which `def` defines methods and the lookup of constants starts.
    pub(super) module: Rc<Class>,
    /// The tag of the current block, for `Flow::Break`.
    pub(super) tag: u64,
    pub(super) _charge: Charge,
}

/// The state of one rendering.
pub(crate) struct Interpreter {
    pub(super) template: Arc<Template>,
    pub(super) context: Context,
    limits: Limits,
    /// An address at the start of the thread's stack.
    stack_base: usize,
    /// The last id given out. Ids are multiples of 8 from 16 on, so that none is the `object_id` of nil (8)
    /// or true (20).
    last_id: u64,
    /// The source range of the current expression, which errors quote.
    pub(super) span: (u32, u32),
    /// Ruby's own classes that the template has used, by full name.
    pub(super) classes: FxHashMap<Name, Rc<Class>>,
    pub(super) globals: FxHashMap<Name, Value>,
    /// Compiled regular expressions, by source and options.
    pub(super) regexps: FxHashMap<(String, u8), Rc<Regex>>,
    /// True if the template has added methods to one of Ruby's own classes. Calls on their values must then
    /// look for such methods.
    pub(super) is_patched: bool,
    /// The evaluation context: `self` of the template.
    pub(super) main: Value,
    /// The value of `spec`. Nil before its first use, as are the next two.
    pub(super) spec: Value,
    /// The value of `properties`: the properties as property structs.
    pub(super) properties: Value,
    /// The value of `raw_properties`: the properties as hashes.
    pub(super) raw_properties: Value,
    /// The addresses of the collections that `inspect` is describing. They end the recursion into collections
    /// that contain themselves.
    pub(super) collections_in_inspect: Vec<usize>,
}

/// The bytes that an object takes, without the values of its variables and data.
const OBJECT_BYTES: usize = 320;
/// The bytes that a frame or a scope takes, without its values.
const FRAME_BYTES: usize = 160;

/// Renders a template. The calling thread must have `limits.stack` bytes of stack.
pub(crate) fn run(
    name: &str,
    template: &Arc<Template>,
    context: &Context,
    limits: Limits,
    signal_check: Option<SignalCheck>,
) -> Result<Vec<u8>, RenderError> {
    let base = 0u8;
    meter::start(limits, signal_check);
    let mut interpreter = Interpreter::new(template, context, limits, std::ptr::from_ref(&base) as usize);
    // Code without access to the interpreter unwinds to here when a limit is exceeded.
    let result = match catch_unwind(AssertUnwindSafe(|| interpreter.render())) {
        Ok(result) => result,
        Err(payload) => match payload.downcast::<Abort>() {
            Ok(abort) => Err(Flow::from(*abort)),
            Err(panic) => resume_unwind(panic),
        },
    };
    meter::end();
    let result = result.map_err(|flow| interpreter.render_error(name, flow));
    interpreter.break_cycles();
    result
}

impl Interpreter {
    fn new(template: &Arc<Template>, context: &Context, limits: Limits, stack_base: usize) -> Self {
        let mut interpreter = Interpreter {
            template: Arc::clone(template),
            context: context.clone(),
            limits,
            stack_base,
            last_id: 8,
            span: (0, 0),
            classes: FxHashMap::default(),
            globals: FxHashMap::default(),
            regexps: FxHashMap::default(),
            is_patched: false,
            main: Value::Nil,
            spec: Value::Nil,
            properties: Value::Nil,
            raw_properties: Value::Nil,
            collections_in_inspect: Vec::new(),
        };
        let class = interpreter.load_class("TemplateEvaluationContext");
        interpreter.main = interpreter.create_object(class, Data::Plain);
        interpreter
    }

    fn render(&mut self) -> EvalResult<Vec<u8>> {
        let template = Arc::clone(&self.template);
        let frame = Frame::outside_methods(self.allocate_id());
        let module = self.load_class("TemplateEvaluationContext");
        let env = Env::new(template.body.locals.len(), None, frame, self.main.clone(), module, 0);
        let result = match &template.body.code {
            Some(code) => self.eval(code, &env),
            None => Ok(Value::Nil),
        };
        // A block in a variable and its scope refer to each other. Dropping the variables frees both.
        env.vars.take();
        match result? {
            Value::Str(text) => Ok(text.bytes()),
            other => Ok(self.text_of(&other)?.into_bytes()),
        }
    }

    /// Breaks reference cycles so that evaluated classes are freed.
    ///
    /// Cycles between other values of the template are not freed. The memory limit bounds them.
    fn break_cycles(&mut self) {
        let mut remaining: Vec<Rc<Class>> = self.classes.drain().map(|(_, class)| class).collect();
        self.globals.clear();
        while let Some(class) = remaining.pop() {
            for value in class.constants.take().into_values() {
                if let Value::Class(inner) = value {
                    remaining.push(inner);
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

    /// Returns a new id for an object, a frame or a block.
    pub(super) fn allocate_id(&mut self) -> u64 {
        self.last_id += 8;
        self.last_id
    }

    pub(super) fn create_object(&mut self, class: Rc<Class>, data: Data) -> Value {
        Value::Object(self.create_raw_object(class, data))
    }

    /// Creates an object that is not wrapped in a [`Value`] yet.
    pub(super) fn create_raw_object(&mut self, class: Rc<Class>, data: Data) -> Rc<Object> {
        Rc::new(Object {
            class,
            id: self.allocate_id(),
            variables: RefCell::default(),
            data: RefCell::new(data),
            is_frozen: Cell::new(false),
            singleton: RefCell::new(None),
            charge: Charge::new(OBJECT_BYTES),
        })
    }

    /// Counts steps, and ends the rendering when the limit is exceeded.
    #[inline(always)]
    pub(super) fn step(&mut self, count: u64) -> EvalResult<()> {
        Ok(meter::step(count)?)
    }

    /// Counts memory until the current method of Ruby returns, and the steps of filling it. Ends the
    /// rendering when a limit is exceeded. Values count their memory themselves.
    #[inline(always)]
    pub(super) fn use_scratch(&mut self, bytes: usize) -> EvalResult<()> {
        Ok(meter::use_scratch(bytes)?)
    }

    /// Raises Ruby's error for deep recursion when three quarters of the stack are used.
    #[inline(always)]
    pub(super) fn check_depth(&mut self) -> EvalResult<()> {
        let local = 0u8;
        let used_bytes = self.stack_base.abs_diff(std::ptr::from_ref(&local) as usize);
        if used_bytes > self.limits.stack / 4 * 3 {
            return Err(self.ruby_error("SystemStackError", "stack level too deep"));
        }
        Ok(())
    }

    /// Returns the flow that ends the rendering because of unsupported Ruby. `construct` completes "… is not
    /// supported".
    pub(super) fn unsupported_error(&self, construct: impl Into<String>) -> Flow {
        Flow::Stop(Box::new(Stop::Unsupported(construct.into())))
    }
}

impl Frame {
    /// Creates the frame of code outside methods.
    pub(super) fn outside_methods(id: u64) -> Rc<Frame> {
        Frame::new(id, &Args::default(), None, None)
    }

    /// Creates the frame of a call with these arguments.
    pub(super) fn new(id: u64, args: &Args, method: Option<Name>, owner: Option<Rc<Class>>) -> Rc<Frame> {
        Rc::new(Frame {
            id,
            block: args.block.clone(),
            args: args.list.clone(),
            has_keywords: args.has_keywords,
            method,
            owner,
            last_match: RefCell::new(None),
            _charge: Charge::new(FRAME_BYTES + args.list.len() * VALUE_BYTES),
        })
    }
}

impl Env {
    /// Creates a scope with this number of variables.
    pub(super) fn new(
        local_count: usize,
        parent: Option<Rc<Env>>,
        frame: Rc<Frame>,
        this: Value,
        module: Rc<Class>,
        tag: u64,
    ) -> Rc<Env> {
        let _charge = Charge::new(FRAME_BYTES + local_count * VALUE_BYTES);
        Rc::new(Env {
            vars: RefCell::new(vec![Value::Nil; local_count]),
            parent,
            frame,
            this,
            module,
            tag,
            _charge,
        })
    }

    /// Returns the scope `depth` levels outwards.
    pub(super) fn outer_scope(self: &Rc<Env>, depth: u32) -> &Rc<Env> {
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

impl Drop for Frame {
    fn drop(&mut self) {
        deep_drop_values(std::mem::take(&mut self.args).into_iter().chain(self.block.take()));
    }
}

impl Drop for Env {
    fn drop(&mut self) {
        let variables = self.vars.take().into_iter();
        let this = std::mem::replace(&mut self.this, Value::Nil);
        let parent = self.parent.take().map(ValuePart::Env);
        deep_drop(variables.chain([this]).map(ValuePart::Value).chain(parent));
    }
}
