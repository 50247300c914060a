//! Evaluates control flow: branches, loops, `case`, `rescue`, jumps and `defined?`.

use std::rc::Rc;

use super::{Env, EvalResult, Flow, Interpreter};
use crate::evaluator::value::{Data, Value};
use crate::parse::ir::{Expr, InArm, MultiTarget, Node, RescueArm, When};

impl Interpreter {
    /// Evaluates an expression that decides which code runs: conditions, loops, `case`, `rescue`, and the
    /// jumps out of them.
    pub(super) fn eval_control(&mut self, expr: &Expr, env: &Rc<Env>) -> EvalResult<Value> {
        match &expr.node {
            Node::If { condition, then_branch, otherwise } => {
                let branch = if self.eval(condition, env)?.is_truthy() { then_branch } else { otherwise };
                self.eval_optional(branch.as_deref(), env)
            }
            Node::And(left, right) => {
                let value = self.eval(left, env)?;
                if value.is_truthy() { self.eval(right, env) } else { Ok(value) }
            }
            Node::Or(left, right) => {
                let value = self.eval(left, env)?;
                if value.is_truthy() { Ok(value) } else { self.eval(right, env) }
            }
            Node::While { condition, body, is_until, runs_body_first } => {
                self.eval_while(condition, body.as_deref(), *is_until, *runs_body_first, env)
            }
            Node::For { target, has_one_target, iterable, body } => {
                self.eval_for(target, *has_one_target, iterable, body.as_deref(), env)
            }
            Node::Case { subject, whens, otherwise } => {
                self.eval_case(subject.as_deref(), whens, otherwise.as_deref(), env)
            }
            Node::CaseIn { subject, arms, otherwise } => {
                self.eval_case_in(expr, subject, arms, otherwise, env)
            }
            Node::MatchPattern { value, pattern, raises } => {
                let value = self.eval(value, env)?;
                let is_match = self.matches(pattern, &value, env)?;
                if *raises && !is_match {
                    self.span = expr.span;
                    let text = self.inspect(&value)?;
                    return Err(self.ruby_error("NoMatchingPatternError", text));
                }
                Ok(if *raises { Value::Nil } else { Value::Bool(is_match) })
            }
            Node::Rescue { body, rescues, otherwise } => {
                self.eval_rescue(body.as_deref(), rescues, otherwise.as_deref(), env)
            }
            Node::Ensure { body, ensure } => {
                let result = self.eval_optional(body.as_deref(), env);
                if matches!(result, Err(Flow::Stop(_))) {
                    return result;
                }
                self.eval_optional(ensure.as_deref(), env)?;
                result
            }
            Node::Return(value) => {
                let value = self.eval_optional(value.as_deref(), env)?;
                Err(Flow::Return(env.frame.id, value))
            }
            Node::Break { value, in_loop } => {
                let value = self.eval_optional(value.as_deref(), env)?;
                Err(if *in_loop { Flow::LoopBreak(value) } else { Flow::Break(env.tag, value) })
            }
            Node::Next { value, in_loop } => {
                let value = self.eval_optional(value.as_deref(), env)?;
                Err(if *in_loop { Flow::LoopNext } else { Flow::Next(value) })
            }
            Node::Retry => Err(Flow::Retry),
            Node::Defined(inner) => self.eval_defined(inner, env),
            _ => Err(self.unsupported_error("this expression")),
        }
    }

    fn eval_while(
        &mut self,
        condition: &Expr,
        body: Option<&Expr>,
        is_until: bool,
        runs_body_first: bool,
        env: &Rc<Env>,
    ) -> EvalResult<Value> {
        let mut checks_condition = !runs_body_first;
        loop {
            self.step(1)?;
            if checks_condition && self.eval(condition, env)?.is_truthy() == is_until {
                return Ok(Value::Nil);
            }
            checks_condition = true;
            match self.eval_optional(body, env) {
                Ok(_) | Err(Flow::LoopNext) => {}
                Err(Flow::LoopBreak(value)) => return Ok(value),
                Err(other) => return Err(other),
            }
        }
    }

    /// Evaluates `for`. Unlike a block, its body has no scope of its own.
    fn eval_for(
        &mut self,
        target: &MultiTarget,
        has_one_target: bool,
        iterable: &Expr,
        body: Option<&Expr>,
        env: &Rc<Env>,
    ) -> EvalResult<Value> {
        let collection = self.eval(iterable, env)?;
        self.span = iterable.span;
        for value in self.collect(&collection)? {
            self.step(1)?;
            if has_one_target {
                if let Some(target) = target.leading_targets.first() {
                    self.assign(target, value, env)?;
                }
            } else {
                self.assign_multi(target, &value, env)?;
            }
            match self.eval_optional(body, env) {
                Ok(_) | Err(Flow::LoopNext) => {}
                Err(Flow::LoopBreak(value)) => return Ok(value),
                Err(other) => return Err(other),
            }
        }
        Ok(collection)
    }

    /// Evaluates `case … when`. Without a subject, the first true pattern decides.
    fn eval_case(
        &mut self,
        subject: Option<&Expr>,
        whens: &[When],
        otherwise: Option<&Expr>,
        env: &Rc<Env>,
    ) -> EvalResult<Value> {
        let subject = subject.map(|expr| self.eval(expr, env)).transpose()?;
        for when in whens {
            for pattern in &when.patterns {
                let candidates = match &pattern.node {
                    Node::Splat(inner) => {
                        let value = self.eval(inner, env)?;
                        self.splat(&value)?
                    }
                    _ => vec![self.eval(pattern, env)?],
                };
                for candidate in candidates {
                    self.span = pattern.span;
                    let is_match = match &subject {
                        Some(subject) => self.is_case_equal(&candidate, subject, Some(env))?,
                        None => candidate.is_truthy(),
                    };
                    if is_match {
                        return self.eval_optional(when.body.as_ref(), env);
                    }
                }
            }
        }
        self.eval_optional(otherwise, env)
    }

    /// Evaluates `case … in`. `otherwise` is `None` without `else`, and then a value that matches no pattern
    /// raises NoMatchingPatternError.
    fn eval_case_in(
        &mut self,
        expr: &Expr,
        subject: &Expr,
        arms: &[InArm],
        otherwise: &Option<Option<Box<Expr>>>,
        env: &Rc<Env>,
    ) -> EvalResult<Value> {
        let value = self.eval(subject, env)?;
        for arm in arms {
            if !self.matches(&arm.pattern, &value, env)? {
                continue;
            }
            if let Some((guard, expected)) = &arm.guard
                && self.eval(guard, env)?.is_truthy() != *expected
            {
                continue;
            }
            return self.eval_optional(arm.body.as_ref(), env);
        }
        match otherwise {
            Some(body) => self.eval_optional(body.as_deref(), env),
            None => {
                self.span = expr.span;
                let text = self.inspect(&value)?;
                let class = if matches!(value, Value::Hash(_)) {
                    "NoMatchingPatternKeyError"
                } else {
                    "NoMatchingPatternError"
                };
                Err(self.ruby_error(class, text))
            }
        }
    }

    /// Evaluates `begin … rescue … else`. `retry` runs the body again. During a handler, `$!` is the
    /// exception, and an exception that the handler raises has it as its cause.
    fn eval_rescue(
        &mut self,
        body: Option<&Expr>,
        rescues: &[RescueArm],
        otherwise: Option<&Expr>,
        env: &Rc<Env>,
    ) -> EvalResult<Value> {
        loop {
            self.step(1)?;
            let exception = match self.eval_optional(body, env) {
                Err(Flow::Raise(exception)) => exception,
                Ok(value) => {
                    return match otherwise {
                        Some(otherwise) => self.eval(otherwise, env),
                        None => Ok(value),
                    };
                }
                Err(other) => return Err(other),
            };
            let exception_value = Value::Object(Rc::clone(&exception));
            let Some(arm) = self.find_rescue(rescues, &exception_value, env)? else {
                return Err(Flow::Raise(exception));
            };
            if let Some(target) = &arm.target {
                self.assign(target, exception_value.clone(), env)?;
            }
            let outer_exception =
                self.globals.insert("$!".into(), exception_value.clone()).unwrap_or(Value::Nil);
            let result = self.eval_optional(arm.body.as_ref(), env);
            self.globals.insert("$!".into(), outer_exception);
            match result {
                Err(Flow::Retry) => {}
                Err(Flow::Raise(new_exception)) => {
                    if let Data::Exception(inner) = &mut *new_exception.data.borrow_mut()
                        && inner.cause.is_nil()
                        && !Rc::ptr_eq(&new_exception, &exception)
                    {
                        inner.cause = exception_value;
                    }
                    return Err(Flow::Raise(new_exception));
                }
                other => return other,
            }
        }
    }

    /// Returns the first `rescue` that handles an exception.
    fn find_rescue<'a>(
        &mut self,
        arms: &'a [RescueArm],
        exception: &Value,
        env: &Rc<Env>,
    ) -> EvalResult<Option<&'a RescueArm>> {
        for arm in arms {
            if arm.classes.is_empty() {
                let standard_error = self.load_class("StandardError");
                if self.class_of(exception).descends_from(&standard_error) {
                    return Ok(Some(arm));
                }
            }
            for class in &arm.classes {
                let candidates = match &class.node {
                    Node::Splat(inner) => {
                        let value = self.eval(inner, env)?;
                        self.splat(&value)?
                    }
                    _ => vec![self.eval(class, env)?],
                };
                for candidate in candidates {
                    if self.is_case_equal(&candidate, exception, None)? {
                        return Ok(Some(arm));
                    }
                }
            }
        }
        Ok(None)
    }

    /// Evaluates `defined?(inner)`: Ruby's name for the kind of expression, or nil.
    fn eval_defined(&mut self, inner: &Expr, env: &Rc<Env>) -> EvalResult<Value> {
        let kind = match &inner.node {
            Node::Local(_) => "local-variable",
            Node::Nil => "expression",
            Node::SelfValue => "self",
            Node::True => "true",
            Node::False => "false",
            Node::Yield(_) => {
                if env.frame.block.is_none() {
                    return Ok(Value::Nil);
                }
                "yield"
            }
            Node::Assign(..)
            | Node::OperatorAssign { .. }
            | Node::OrAssign { .. }
            | Node::AndAssign { .. } => "assignment",
            Node::InstanceVariable(name) => {
                if !self.has_instance_variable(&env.this, name) {
                    return Ok(Value::Nil);
                }
                "instance-variable"
            }
            Node::Global(name) => {
                if !self.globals.contains_key(name) {
                    return Ok(Value::Nil);
                }
                "global-variable"
            }
            Node::Constant { .. } => match self.eval(inner, env) {
                Ok(_) => "constant",
                Err(Flow::Raise(_)) => return Ok(Value::Nil),
                Err(other) => return Err(other),
            },
            Node::Call(call) => {
                let is_defined = match &call.receiver {
                    None => self.responds_at_all(&env.this, &call.name),
                    Some(receiver) => match self.eval(receiver, env) {
                        Ok(value) => self.responds_to(&value, &call.name),
                        Err(Flow::Raise(_)) => false,
                        Err(other) => return Err(other),
                    },
                };
                if !is_defined {
                    return Ok(Value::Nil);
                }
                "method"
            }
            _ => "expression",
        };
        Ok(Value::str(kind))
    }
}
