//! Counting from one number to another: `times`, `upto`, `downto` and `step`.

use std::cmp::Ordering;

use super::compare::{compare_numbers, is_number, to_f64};
use crate::evaluator::eval::{Args, EvalResult, Interpreter};
use crate::evaluator::value::Value;

impl Interpreter {
    /// Implements `times`, `upto` and `downto` with a block.
    pub(super) fn count_numbers(&mut self, receiver: &Value, name: &str, args: &Args) -> EvalResult<Value> {
        let block = self.block_arg(args)?;
        let Value::Int(start) = *receiver else {
            return Err(self.unsupported_error(format!("Integer#{name} of a number beyond 64 bits")));
        };
        let limit = if name == "times" { Value::Int(start.saturating_sub(1)) } else { self.arg(args, 0)? };
        if !is_number(&limit) {
            let limit_text = self.comparison_text(&limit)?;
            return self.raise_argument_error(format!("comparison of Integer with {limit_text} failed"));
        }
        let order_past_limit = if name == "downto" { Ordering::Less } else { Ordering::Greater };
        let mut next_number = Some(if name == "times" { 0 } else { start });
        while let Some(index) = next_number {
            if compare_numbers(&Value::Int(index), &limit).is_none_or(|order| order == order_past_limit) {
                break;
            }
            self.yield_one(&block, Value::Int(index))?;
            next_number = index.checked_add(if name == "downto" { -1 } else { 1 });
        }
        Ok(receiver.clone())
    }

    /// Implements `step` of integers and floats.
    pub(super) fn step_number(&mut self, receiver: &Value, args: &Args) -> EvalResult<Value> {
        let positional_args = args.positional();
        let mut limit = positional_args.first().cloned().unwrap_or(Value::Nil);
        let mut step = positional_args.get(1).cloned().unwrap_or(Value::Int(1));
        if let Some(options) = args.options() {
            let (limit_option, step_option) = (options.get_symbol("to"), options.get_symbol("by"));
            if limit_option.is_some() && !positional_args.is_empty()
                || step_option.is_some() && positional_args.len() > 1
            {
                return self.raise_argument_error("step is given twice");
            }
            limit = limit_option.unwrap_or(limit);
            step = step_option.unwrap_or(step);
        }
        if step.is_nil() {
            step = Value::Int(1);
        }
        if !is_number(&step) || !(limit.is_nil() || is_number(&limit)) {
            return Err(self.unsupported_error("Integer#step with these values"));
        }
        if to_f64(&step) == 0.0 {
            return self.raise_argument_error("step can't be 0");
        }
        let Some(block) = args.block.clone() else {
            return self.create_enumerator(receiver, "step", vec![limit, step]);
        };
        let goes_down = to_f64(&step) < 0.0;
        if [receiver, &limit, &step].into_iter().any(|value| matches!(value, Value::Float(_))) {
            let (start, step) = (to_f64(receiver), to_f64(&step));
            let end = match &limit {
                Value::Nil if goes_down => f64::NEG_INFINITY,
                Value::Nil => f64::INFINITY,
                limit => to_f64(limit),
            };
            self.visit_float_steps(start, end, step, false, &mut |interpreter, value| {
                interpreter.yield_one(&block, value).map(drop)
            })?;
            return Ok(receiver.clone());
        }
        let order_past_limit = if goes_down { Ordering::Less } else { Ordering::Greater };
        let mut value = receiver.clone();
        while limit.is_nil() || compare_numbers(&value, &limit) != Some(order_past_limit) {
            self.yield_one(&block, value.clone())?;
            value = self.call(&value, "+", vec![step.clone()])?;
        }
        Ok(receiver.clone())
    }

    /// Visits the floats from `start` to `end`, as many as Ruby does despite rounding errors.
    pub(super) fn visit_float_steps(
        &mut self,
        start: f64,
        end: f64,
        step: f64,
        excludes_end: bool,
        visit: &mut dyn FnMut(&mut Interpreter, Value) -> EvalResult<()>,
    ) -> EvalResult<()> {
        if step.is_infinite() {
            if float_step_count(start, end, step, excludes_end) > 0.0 {
                visit(self, Value::Float(start))?;
            }
            return Ok(());
        }
        let count = float_step_count(start, end, step, excludes_end);
        let mut index = 0.0;
        while index < count {
            self.step(1)?;
            let value = index * step + start;
            let is_beyond = if step >= 0.0 { end < value } else { value < end };
            visit(self, Value::Float(if is_beyond { end } else { value }))?;
            index += 1.0;
        }
        Ok(())
    }
}

/// Returns the number of floats from `start` to `end`. As in Ruby, a rounding error does not drop the last
/// one.
pub(super) fn float_step_count(start: f64, end: f64, step: f64, excludes_end: bool) -> f64 {
    if step.is_infinite() {
        return f64::from(u8::from(if step > 0.0 { start <= end } else { start >= end }));
    }
    let steps = (end - start) / step;
    let error = ((start.abs() + end.abs() + (end - start).abs()) / step.abs() * f64::EPSILON).min(0.5);
    match excludes_end {
        true if steps <= 0.0 => 0.0,
        true => {
            let count = if steps < 1.0 { 0.0 } else { (steps - error).floor() };
            let next = (count + 1.0) * step + start;
            count + if start < end && next < end || start > end && next > end { 2.0 } else { 1.0 }
        }
        false if steps < 0.0 => 0.0,
        false => (steps + error).floor() + 1.0,
    }
}
