//! Evaluates assignments.

use std::rc::Rc;
use std::sync::Arc;

use super::arguments::set_variable;
use super::{Env, EvalResult, Flow, Interpreter};
use crate::evaluator::value::{RMatch, Value};
use crate::parse::ir::{Expr, MultiTarget, Name, Node, Slot, Target};

/// A target whose receiver and indices have been evaluated, so that it can be read and then written.
enum EvaluatedTarget {
    /// A variable or constant, which has neither a receiver nor indices.
    Simple,
    /// The receiver and the indices of `receiver[index]`.
    Index(Value, Vec<Value>),
    /// The receiver of `receiver.name`.
    Attribute(Value),
    /// `nil&.name = value`, which assigns nothing.
    Nowhere,
}

impl Interpreter {
    /// Evaluates an assignment of any form (`=`, `+=`, `||=`, `a, b = …`) and returns its value.
    pub(super) fn eval_assignment(&mut self, expr: &Expr, env: &Rc<Env>) -> EvalResult<Value> {
        match &expr.node {
            Node::Assign(Target::Local(slot), value) => {
                let value = self.eval(value, env)?;
                self.set_local(*slot, value.clone(), env);
                Ok(value)
            }
            Node::Assign(target, value) => {
                let evaluated_target = self.evaluate_target(target, env)?;
                if matches!(evaluated_target, EvaluatedTarget::Nowhere) {
                    return Ok(Value::Nil);
                }
                let value = self.eval(value, env)?;
                self.span = expr.span;
                self.write_target(target, &evaluated_target, value.clone(), env)?;
                Ok(value)
            }
            Node::OperatorAssign { target, operator, value } => {
                let evaluated_target = self.evaluate_target(target, env)?;
                if matches!(evaluated_target, EvaluatedTarget::Nowhere) {
                    return Ok(Value::Nil);
                }
                self.span = expr.span;
                let old_value = self.read_target(target, &evaluated_target, env)?;
                let value = self.eval(value, env)?;
                self.span = expr.span;
                let new_value = self.call(&old_value, operator, vec![value])?;
                self.write_target(target, &evaluated_target, new_value.clone(), env)?;
                Ok(new_value)
            }
            Node::OrAssign { target, value } => {
                let evaluated_target = self.evaluate_target(target, env)?;
                if matches!(evaluated_target, EvaluatedTarget::Nowhere) {
                    return Ok(Value::Nil);
                }
                self.span = expr.span;
                let old_value = self.read_or_nil(target, &evaluated_target, env)?;
                if old_value.is_truthy() {
                    return Ok(old_value);
                }
                let value = self.eval(value, env)?;
                self.span = expr.span;
                self.write_target(target, &evaluated_target, value.clone(), env)?;
                Ok(value)
            }
            Node::AndAssign { target, value } => {
                let evaluated_target = self.evaluate_target(target, env)?;
                self.span = expr.span;
                let old_value = self.read_or_nil(target, &evaluated_target, env)?;
                if !old_value.is_truthy() {
                    return Ok(old_value);
                }
                let value = self.eval(value, env)?;
                self.span = expr.span;
                self.write_target(target, &evaluated_target, value.clone(), env)?;
                Ok(value)
            }
            Node::MultipleAssign(multi, value) => {
                let value = self.eval(value, env)?;
                self.span = expr.span;
                self.assign_multi(multi, &value, env)?;
                Ok(value)
            }
            Node::MatchAssign { regexp, value, names } => {
                self.eval_match_assign(expr, regexp, value, names, env)
            }
            _ => Ok(Value::Nil),
        }
    }

    /// Evaluates `/(?<name>…)/ =~ value`, which sets a variable for each named group.
    fn eval_match_assign(
        &mut self,
        expr: &Expr,
        regexp: &Expr,
        value: &Expr,
        names: &[(Name, Slot)],
        env: &Rc<Env>,
    ) -> EvalResult<Value> {
        let regexp = self.eval(regexp, env)?;
        let value = self.eval(value, env)?;
        self.span = expr.span;
        let Value::Regexp(regexp) = regexp else { return Ok(Value::Nil) };
        let match_data = match &value {
            Value::Nil => None,
            other => {
                let text = self.string_arg(other)?;
                self.find_match(&regexp, &text, 0)?
            }
        };
        self.set_last_match(match_data.clone(), env);
        for (name, slot) in names {
            let value = match_data.as_ref().map_or(Value::Nil, |match_data| group_value(match_data, name));
            self.set_local(*slot, value, env);
        }
        Ok(match_data.map_or(Value::Nil, |match_data| Value::Int(match_data.char_start())))
    }

    pub(super) fn set_local(&self, slot: Slot, value: Value, env: &Rc<Env>) {
        set_variable(env.outer_scope(slot.depth), slot.index, value);
    }

    fn evaluate_target(&mut self, target: &Target, env: &Rc<Env>) -> EvalResult<EvaluatedTarget> {
        Ok(match target {
            Target::Index(receiver, indices) => {
                let receiver = self.eval(receiver, env)?;
                EvaluatedTarget::Index(receiver, self.eval_args(indices, env)?.0)
            }
            Target::Attribute { receiver, is_safe_navigation, .. } => {
                let receiver = self.eval(receiver, env)?;
                if *is_safe_navigation && receiver.is_nil() {
                    EvaluatedTarget::Nowhere
                } else {
                    EvaluatedTarget::Attribute(receiver)
                }
            }
            _ => EvaluatedTarget::Simple,
        })
    }

    fn read_target(
        &mut self,
        target: &Target,
        evaluated_target: &EvaluatedTarget,
        env: &Rc<Env>,
    ) -> EvalResult<Value> {
        match (target, evaluated_target) {
            (Target::Local(slot), _) => Ok(self.local_variable(*slot, env)),
            (Target::InstanceVariable(name), _) => Ok(self.instance_variable(&env.this, name)),
            (Target::ClassVariable(name), _) => self.class_variable(name, env),
            (Target::Global(name), _) => self.global_variable(name, env),
            (Target::Constant(None, name), _) => self.look_up_constant(name, env),
            (_, EvaluatedTarget::Index(receiver, indices)) => self.call(receiver, "[]", indices.clone()),
            (Target::Attribute { name, .. }, EvaluatedTarget::Attribute(receiver)) => {
                self.call(receiver, name, Vec::new())
            }
            _ => Ok(Value::Nil),
        }
    }

    /// Reads a target for `||=` or `&&=`. A constant or class variable that does not exist is nil.
    fn read_or_nil(
        &mut self,
        target: &Target,
        evaluated_target: &EvaluatedTarget,
        env: &Rc<Env>,
    ) -> EvalResult<Value> {
        match (target, self.read_target(target, evaluated_target, env)) {
            (Target::Constant(..) | Target::ClassVariable(_), Err(Flow::Raise(_))) => Ok(Value::Nil),
            (_, result) => result,
        }
    }

    /// Assigns a value to a target. `evaluated_target` has the values of its parts, such as the receiver,
    /// which are evaluated only once.
    fn write_target(
        &mut self,
        target: &Target,
        evaluated_target: &EvaluatedTarget,
        value: Value,
        env: &Rc<Env>,
    ) -> EvalResult<()> {
        match (target, evaluated_target) {
            (Target::Local(slot), _) => self.set_local(*slot, value, env),
            (Target::InstanceVariable(name), _) => self.set_instance_variable(&env.this, name, value)?,
            (Target::ClassVariable(name), _) => self.set_class_variable(name, value, env),
            (Target::Global(name), _) => {
                self.globals.insert(Arc::clone(name), value);
            }
            (Target::Constant(scope, name), _) => {
                let class = match scope {
                    Some(scope) => match self.eval(scope, env)? {
                        Value::Class(class) => class,
                        other => {
                            let value_text = self.inspect(&other)?;
                            return self.raise_type_error(format!("{value_text} is not a class/module"));
                        }
                    },
                    None => Rc::clone(&env.module),
                };
                if let Value::Class(unnamed_class) = &value
                    && unnamed_class.name.borrow().is_none()
                {
                    let full_name = self.qualified_name(&class, name);
                    *unnamed_class.name.borrow_mut() = Some(full_name);
                }
                class.constants.borrow_mut().insert(Arc::clone(name), value);
            }
            (_, EvaluatedTarget::Index(receiver, indices)) => {
                let mut args = indices.clone();
                args.push(value);
                self.call(receiver, "[]=", args)?;
            }
            (Target::Attribute { name, .. }, EvaluatedTarget::Attribute(receiver)) => {
                let is_self = receiver.is_same(&env.this);
                self.call_attribute_writer(receiver, name, value, is_self)?;
            }
            (Target::Nested(multi), _) => self.assign_multi(multi, &value, env)?,
            _ => {}
        }
        Ok(())
    }

    /// Evaluates a target and writes it.
    pub(super) fn assign(&mut self, target: &Target, value: Value, env: &Rc<Env>) -> EvalResult<()> {
        let evaluated_target = self.evaluate_target(target, env)?;
        self.write_target(target, &evaluated_target, value, env)
    }

    /// Spreads a value over several targets.
    pub(super) fn assign_multi(
        &mut self,
        multi: &MultiTarget,
        value: &Value,
        env: &Rc<Env>,
    ) -> EvalResult<()> {
        let list = match value {
            Value::Array(array) => array.to_vec(),
            Value::Object(_) if self.responds_to(value, "to_ary") => {
                let list = self.call(value, "to_ary", Vec::new())?;
                self.splat(&list)?
            }
            other => vec![other.clone()],
        };
        let item_at = |index: usize| list.get(index).cloned().unwrap_or(Value::Nil);
        for (index, target) in multi.leading_targets.iter().enumerate() {
            self.assign(target, item_at(index), env)?;
        }
        let Some(splat) = &multi.splat else { return Ok(()) };
        let splat_start = multi.leading_targets.len().min(list.len());
        let splat_end = list.len().saturating_sub(multi.trailing_targets.len()).max(splat_start);
        if let Some(target) = splat {
            self.assign(target, Value::array(list[splat_start..splat_end].to_vec()), env)?;
        }
        for (index, target) in multi.trailing_targets.iter().enumerate() {
            self.assign(target, item_at(splat_end + index), env)?;
        }
        Ok(())
    }
}

/// Returns the text of a named group.
fn group_value(match_data: &RMatch, name: &str) -> Value {
    match_data.regexp.group_index(name).map_or(Value::Nil, |index| match_data.value(index))
}
