//! Evaluates expressions: literals, variables, strings, and the output of the template.

use std::rc::Rc;
use std::sync::Arc;

use num_bigint::BigInt;

use super::{Env, EvalResult, Interpreter};
use crate::evaluator::meter;
use crate::evaluator::value::{RRange, RString, Value};
use crate::parse::ir::{Expr, LiteralPart, Node, Slot};

impl Interpreter {
    /// Evaluates an expression. The most frequent kinds are handled here, and the others in `eval_compound`.
    pub(crate) fn eval(&mut self, expr: &Expr, env: &Rc<Env>) -> EvalResult<Value> {
        self.step(1)?;
        match &expr.node {
            Node::Nil => Ok(Value::Nil),
            Node::True => Ok(Value::Bool(true)),
            Node::False => Ok(Value::Bool(false)),
            Node::SelfValue => Ok(env.this.clone()),
            Node::Int(int) => Ok(Value::Int(*int)),
            Node::Line => Ok(Value::Int(self.template.line_at(expr.span.0).into())),
            Node::BigInt(digits) => {
                Ok(Value::integer(BigInt::parse_bytes(digits.as_bytes(), 10).unwrap_or_default()))
            }
            Node::Float(float) => Ok(Value::Float(*float)),
            Node::Str(text) => Ok(Value::str(&**text)),
            Node::Binary(bytes) => Ok(Value::Str(Rc::new(RString::from_bytes(bytes)))),
            Node::Symbol(name) => Ok(Value::Symbol(Arc::clone(name))),
            Node::Local(slot) => Ok(self.local_variable(*slot, env)),
            Node::Text(number) => {
                let text = Arc::clone(&self.template.texts[*number as usize]);
                self.append_to_output(&text, false, expr, env)
            }
            Node::Emit(value) => self.emit_value(value, expr, env),
            Node::Sequence(list) => {
                let mut last_value = Value::Nil;
                for expr in list {
                    last_value = self.eval(expr, env)?;
                }
                Ok(last_value)
            }
            Node::Call(call) => {
                self.check_depth()?;
                self.eval_call(call, expr, env)
            }
            _ => {
                self.check_depth()?;
                self.eval_compound(expr, env)
            }
        }
    }

    /// Evaluates an expression of a kind that [`Interpreter::eval`] does not evaluate itself.
    fn eval_compound(&mut self, expr: &Expr, env: &Rc<Env>) -> EvalResult<Value> {
        match &expr.node {
            Node::Interpolated(parts) => Ok(Value::Str(Rc::new(self.eval_parts(parts, env)?))),
            Node::InterpolatedSymbol(parts) => {
                let text = self.eval_parts(parts, env)?;
                Ok(Value::symbol(&text.get()))
            }
            Node::Regexp { parts, options } => {
                let source = self.eval_regexp_parts(parts, env)?;
                self.span = expr.span;
                self.compile_regexp(&source, options)
            }
            Node::Array(list) => self.eval_array(list, env),
            Node::Splat(inner) => {
                let value = self.eval(inner, env)?;
                Ok(Value::array(self.splat(&value)?))
            }
            Node::Hash(pairs) | Node::Pairs(pairs) => Ok(Value::hash(self.eval_pairs(pairs, env)?)),
            Node::Range { begin, end, excludes_end } => {
                let begin = self.eval_optional(begin.as_deref(), env)?;
                let end = self.eval_optional(end.as_deref(), env)?;
                self.span = expr.span;
                self.create_range(begin, end, *excludes_end)
            }
            Node::InstanceVariable(name) => Ok(self.instance_variable(&env.this, name)),
            Node::ClassVariable(name) => {
                self.span = expr.span;
                self.class_variable(name, env)
            }
            Node::Global(name) => self.global_variable(name, env),
            Node::Constant { scope, name } => {
                self.span = expr.span;
                self.eval_constant(scope, name, env)
            }
            Node::NthMatch(number) => {
                Ok(self.last_match(env).map_or(Value::Nil, |match_data| match_data.value(*number as usize)))
            }
            Node::BackReference(which) => Ok(self.back_reference(*which, env)),
            Node::Assign(..)
            | Node::OperatorAssign { .. }
            | Node::OrAssign { .. }
            | Node::AndAssign { .. }
            | Node::MultipleAssign(..)
            | Node::MatchAssign { .. } => self.eval_assignment(expr, env),
            Node::Define { .. }
            | Node::Class { .. }
            | Node::SingletonClass { .. }
            | Node::Module { .. }
            | Node::Alias { .. } => self.eval_definition(expr, env),
            Node::Super { args, block } => {
                self.span = expr.span;
                self.eval_super(args.as_deref(), block.as_ref(), env)
            }
            Node::Yield(args) => {
                let (list, has_keywords) = self.eval_args(args, env)?;
                self.span = expr.span;
                self.eval_yield(list, has_keywords, env)
            }
            Node::Lambda(body) => Ok(self.create_lambda(body, env)),
            _ => self.eval_control(expr, env),
        }
    }

    /// Evaluates an expression if there is one. Returns nil otherwise.
    pub(super) fn eval_optional(&mut self, expr: Option<&Expr>, env: &Rc<Env>) -> EvalResult<Value> {
        expr.map_or(Ok(Value::Nil), |expr| self.eval(expr, env))
    }

    #[inline(always)]
    pub(super) fn local_variable(&self, slot: Slot, env: &Rc<Env>) -> Value {
        env.outer_scope(slot.depth).vars.borrow().get(slot.index as usize).cloned().unwrap_or(Value::Nil)
    }

    /// Appends to the output, which is the first variable of the template (`_erbout`), and returns it.
    fn append_to_output(
        &mut self,
        text: &str,
        is_binary: bool,
        expr: &Expr,
        env: &Rc<Env>,
    ) -> EvalResult<Value> {
        let mut top = env;
        while let Some(parent) = &top.parent {
            top = parent;
        }
        let buffer = top.vars.borrow().first().cloned().unwrap_or(Value::Nil);
        match &buffer {
            Value::Str(buffer) if !buffer.is_frozen.get() => {
                self.span = expr.span;
                self.append(buffer, text, is_binary)?;
            }
            other => {
                self.span = expr.span;
                self.call(other, "<<", vec![Value::str(text)])?;
            }
        }
        Ok(buffer)
    }

    /// Appends the value of `<%= … %>` to the output.
    fn emit_value(&mut self, value: &Expr, expr: &Expr, env: &Rc<Env>) -> EvalResult<Value> {
        let value = self.eval(value, env)?;
        match &value {
            Value::Str(text) => {
                let (text, is_binary) = (text.get().clone(), text.is_binary.get());
                self.append_to_output(&text, is_binary, expr, env)
            }
            Value::Nil => self.append_to_output("", false, expr, env),
            other => {
                self.span = expr.span;
                let text = self.text_of(other)?;
                self.append_to_output(&text, false, expr, env)
            }
        }
    }

    /// Concatenates the parts of an interpolated string.
    fn eval_parts(&mut self, parts: &[LiteralPart], env: &Rc<Env>) -> EvalResult<RString> {
        let string = RString::new(String::new());
        for part in parts {
            match part {
                LiteralPart::Text(piece) => self.append(&string, piece, false)?,
                LiteralPart::Code(expr) => match self.eval(expr, env)? {
                    Value::Str(piece) => {
                        self.span = expr.span;
                        self.append(&string, &piece.get(), piece.is_binary.get())?;
                    }
                    other => {
                        self.span = expr.span;
                        let piece = self.text_of(&other)?;
                        self.append(&string, &piece, false)?;
                    }
                },
            }
        }
        Ok(string)
    }

    /// Appends text or, if `is_binary`, bytes to a string, and counts the memory. Mixing bytes and text
    /// beyond ASCII is not supported.
    pub(crate) fn append(&mut self, string: &RString, text: &str, is_binary: bool) -> EvalResult<()> {
        meter::check_room(text.len())?;
        match string.append(text, is_binary) {
            true => Ok(()),
            false => Err(self.unsupported_error("a string that mixes bytes and characters beyond ASCII")),
        }
    }

    fn eval_regexp_parts(&mut self, parts: &[LiteralPart], env: &Rc<Env>) -> EvalResult<String> {
        let mut source = String::new();
        for part in parts {
            match part {
                LiteralPart::Text(piece) => source.push_str(piece),
                LiteralPart::Code(expr) => {
                    let value = self.eval(expr, env)?;
                    source.push_str(&self.text_of(&value)?);
                }
            }
        }
        Ok(source)
    }

    pub(super) fn eval_array(&mut self, list: &[Expr], env: &Rc<Env>) -> EvalResult<Value> {
        let mut items = Vec::with_capacity(list.len());
        for expr in list {
            match &expr.node {
                Node::Splat(inner) => {
                    let value = self.eval(inner, env)?;
                    items.extend(self.splat(&value)?);
                }
                Node::Pairs(pairs) => {
                    let hash = self.eval_pairs(pairs, env)?;
                    if hash.len() > 0 {
                        items.push(Value::hash(hash));
                    }
                }
                _ => items.push(self.eval(expr, env)?),
            }
        }
        Ok(Value::array(items))
    }

    /// Creates a range. Raises an `ArgumentError` if its ends cannot be compared.
    pub(crate) fn create_range(&mut self, begin: Value, end: Value, excludes_end: bool) -> EvalResult<Value> {
        let is_valid_range = match (&begin, &end) {
            (Value::Nil, _) | (_, Value::Nil) => true,
            (
                Value::Int(_) | Value::Float(_) | Value::Big(_),
                Value::Int(_) | Value::Float(_) | Value::Big(_),
            ) => true,
            (Value::Str(_), Value::Str(_)) => true,
            (a, b) => self.compare(a, b)?.is_some(),
        };
        if !is_valid_range {
            return self.raise_argument_error("bad value for range");
        }
        Ok(Value::Range(RRange::new(begin, end, excludes_end)))
    }
}
