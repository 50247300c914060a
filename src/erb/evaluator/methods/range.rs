//! Methods of Range.

use std::cmp::Ordering;
use std::ops::ControlFlow;
use std::rc::Rc;

use num_bigint::{BigInt, Sign};

use super::compare::is_number;
use super::steps::float_step_count;
use super::{to_big, to_f64};

use crate::evaluator::eval::{Args, EvalResult, Interpreter};
use crate::evaluator::value::{RRange, Value};

impl Interpreter {
    /// Returns the first index and the number of elements that a range selects from `length` elements.
    /// Returns `None` if the start is out of bounds.
    pub(crate) fn range_bounds(
        &mut self,
        range: &RRange,
        length: usize,
    ) -> EvalResult<Option<(usize, usize)>> {
        let length = length as i64;
        let start = if range.begin.is_nil() { 0 } else { self.index_arg(&range.begin)? };
        let (end, excludes_end) =
            if range.end.is_nil() { (-1, false) } else { (self.index_arg(&range.end)?, range.excludes_end) };
        let start = if start < 0 { start + length } else { start };
        if start < 0 || start > length {
            return Ok(None);
        }
        let end = if end < 0 { end + length } else { end };
        let end = if excludes_end { end } else { end + 1 }.min(length);
        Ok(Some((start as usize, (end - start).max(0) as usize)))
    }

    /// Returns true if a value lies within a range, by `<=>`.
    pub(crate) fn range_covers(&mut self, range: &RRange, value: &Value) -> EvalResult<bool> {
        if !range.begin.is_nil() {
            match self.compare(&range.begin, value)? {
                Some(Ordering::Less | Ordering::Equal) => {}
                _ => return Ok(false),
            }
        }
        if range.end.is_nil() {
            return Ok(true);
        }
        Ok(match self.compare(value, &range.end)? {
            Some(Ordering::Less) => true,
            Some(Ordering::Equal) => !range.excludes_end,
            _ => false,
        })
    }

    /// Implements `cover?` with a range.
    fn covers_range(&mut self, range: &RRange, inner: &Rc<RRange>) -> EvalResult<bool> {
        let is_wider = |end: &Value, inner_end: &Value| end.is_nil() && !inner_end.is_nil();
        if is_wider(&inner.begin, &range.begin) || is_wider(&inner.end, &range.end) {
            return Ok(false);
        }
        let is_empty = !inner.begin.is_nil() && !self.range_covers(inner, &inner.begin)?;
        if is_empty || !inner.begin.is_nil() && !self.range_covers(range, &inner.begin)? {
            return Ok(false);
        }
        match self.compare(&range.end, &inner.end)? {
            Some(Ordering::Less) if inner.excludes_end && !range.excludes_end => {}
            Some(Ordering::Less) => return Ok(false),
            Some(Ordering::Equal) => return Ok(inner.excludes_end || !range.excludes_end),
            _ => return Ok(true),
        }
        // The ends differ, but the range may have the last element.
        match self.call(&Value::Range(Rc::clone(inner)), "max", Vec::new()) {
            Err(flow) if self.is_exception(&flow, "TypeError") => Ok(false),
            last => self.range_covers(range, &last?),
        }
    }

    /// Visits the elements of a range in order until `visit` breaks.
    pub(super) fn each_in_range(
        &mut self,
        range: &RRange,
        visit: &mut dyn FnMut(&mut Interpreter, Value) -> EvalResult<ControlFlow<()>>,
    ) -> EvalResult<()> {
        match (&range.begin, &range.end) {
            (Value::Int(begin), end) => {
                let mut number = *begin;
                let (last, is_whole) = match end {
                    Value::Nil => (i128::MAX, false),
                    Value::Float(end) => (end.floor() as i128, end.floor() == *end),
                    Value::Big(end) if end.sign() == Sign::Minus => (i128::MIN, false),
                    Value::Big(_) => (i128::MAX, false),
                    end => (i128::from(self.int_arg(&end.clone())?), true),
                };
                let last = last.saturating_sub(i128::from(range.excludes_end && is_whole));
                while i128::from(number) <= last {
                    self.step(1)?;
                    if visit(self, Value::Int(number))?.is_break() {
                        break;
                    }
                    if number == i64::MAX {
                        if !matches!(end, Value::Int(_)) {
                            return Err(self.unsupported_error("a range with numbers beyond 64 bits"));
                        }
                        break;
                    }
                    number += 1;
                }
                Ok(())
            }
            (Value::Str(begin), Value::Str(end)) => {
                let (begin, end) = (begin.get().clone(), end.get().clone());
                self.each_between(&begin, &end, range.excludes_end, visit)
            }
            (Value::Nil, _) => self.raise_type_error("can't iterate from NilClass"),
            (begin, _) => {
                if !self.responds_to(begin, "succ") {
                    let class = self.class_of(begin).label();
                    return self.raise_type_error(format!("can't iterate from {class}"));
                }
                let mut value = begin.clone();
                while self.range_covers(range, &value)? {
                    self.step(1)?;
                    if visit(self, value.clone())?.is_break() {
                        break;
                    }
                    // The last value may have no successor.
                    if !range.excludes_end
                        && !range.end.is_nil()
                        && self.compare(&value, &range.end)? == Some(Ordering::Equal)
                    {
                        break;
                    }
                    value = self.call(&value, "succ", Vec::new())?;
                }
                Ok(())
            }
        }
    }

    /// Visits the strings from `begin` to `end`. Numbers and single characters are counted, and other strings
    /// follow `succ` until they are longer than `end`.
    fn each_between(
        &mut self,
        begin: &str,
        end: &str,
        excludes_end: bool,
        visit: &mut dyn FnMut(&mut Interpreter, Value) -> EvalResult<ControlFlow<()>>,
    ) -> EvalResult<()> {
        if let (&[begin], &[end]) = (begin.as_bytes(), end.as_bytes())
            && begin.is_ascii()
            && end.is_ascii()
        {
            for code in begin..=end {
                if excludes_end && code == end {
                    break;
                }
                self.step(1)?;
                if visit(self, Value::str(char::from(code)))?.is_break() {
                    break;
                }
            }
            return Ok(());
        }
        let has_only_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if has_only_digits(begin) && has_only_digits(end) {
            let (Ok(first), Ok(last)) = (begin.parse::<i64>(), end.parse::<i64>()) else {
                return Err(self.unsupported_error("a range of strings with numbers beyond 64 bits"));
            };
            let width = begin.len();
            for number in first..=last {
                if excludes_end && number == last {
                    break;
                }
                self.step(1)?;
                if visit(self, Value::str(format!("{number:0width$}")))?.is_break() {
                    break;
                }
            }
            return Ok(());
        }
        if begin > end || excludes_end && begin == end {
            return Ok(());
        }
        let stop_text = super::successor::successor(end, false);
        let mut text = begin.to_owned();
        while text != stop_text {
            self.step(1)?;
            let is_last = !excludes_end && text == end;
            if visit(self, Value::str(text.clone()))?.is_break() || is_last {
                break;
            }
            text = super::successor::successor(&text, false);
            if excludes_end && text == end || text.len() > end.len() || text.is_empty() {
                break;
            }
        }
        Ok(())
    }

    /// Implements `step` and `%`.
    fn step_range(&mut self, range: &Rc<RRange>, name: &str, args: &Args) -> EvalResult<Value> {
        let receiver = Value::Range(Rc::clone(range));
        let step = args.get(0).cloned().unwrap_or(Value::Int(1));
        if is_number(&step) && to_f64(&step) == 0.0 {
            return self.raise_argument_error("step can't be 0");
        }
        let Some(block) = args.block.clone() else {
            if is_number(&step) && to_f64(&step) < 0.0 {
                return Err(self.unsupported_error("a range with a negative step"));
            }
            return self.create_enumerator(&receiver, name, args.list.clone());
        };
        if is_number(&step) && to_f64(&step) < 0.0 {
            return self.raise_argument_error("step can't be negative");
        }
        match (&range.begin, &range.end, &step) {
            (Value::Int(begin), end @ (Value::Nil | Value::Int(_)), Value::Int(step)) => {
                let last = match end {
                    Value::Int(last) if range.excludes_end => last.checked_sub(1),
                    Value::Int(last) => Some(*last),
                    _ => Some(i64::MAX),
                };
                let mut next_number = Some(*begin);
                while let (Some(index), Some(last)) = (next_number, last) {
                    if index > last {
                        break;
                    }
                    self.step(1)?;
                    self.yield_one(&block, Value::Int(index))?;
                    next_number = index.checked_add(*step);
                }
            }
            (Value::Int(_) | Value::Float(_), end, Value::Int(_) | Value::Float(_))
                if end.is_nil() || is_number(end) =>
            {
                let end = if end.is_nil() { f64::INFINITY } else { to_f64(end) };
                let (begin, step) = (to_f64(&range.begin), to_f64(&step));
                self.visit_float_steps(begin, end, step, range.excludes_end, &mut |interpreter, value| {
                    interpreter.yield_one(&block, value).map(drop)
                })?;
            }
            _ => return Err(self.unsupported_error("Range#step with values of these types")),
        }
        Ok(receiver)
    }

    /// Raises `RangeError` if the range lacks the end that the method needs.
    fn require_end(&mut self, range: &RRange, name: &str) -> EvalResult<()> {
        let (end_name, range_kind) = match name {
            "min" if range.begin.is_nil() => ("minimum", "beginless"),
            "max" if range.end.is_nil() => ("maximum", "endless"),
            "minmax" if range.end.is_nil() => ("maximum", "endless"),
            "minmax" if range.begin.is_nil() => ("minimum", "beginless"),
            _ => return Ok(()),
        };
        Err(self.ruby_error("RangeError", format!("cannot get the {end_name} of {range_kind} range")))
    }

    /// Calls a method of Range. Returns `None` if Range does not implement it.
    pub(super) fn call_range_method(
        &mut self,
        range: &Rc<RRange>,
        name: &str,
        args: &Args,
    ) -> EvalResult<Option<Value>> {
        let receiver = Value::Range(Rc::clone(range));
        Ok(Some(match name {
            "first" | "begin" if args.is_empty() => {
                if name == "first" && range.begin.is_nil() {
                    return Err(
                        self.ruby_error("RangeError", "cannot get the first element of beginless range")
                    );
                }
                range.begin.clone()
            }
            "last" | "end" if args.is_empty() => {
                if name == "last" && range.end.is_nil() {
                    return Err(self.ruby_error("RangeError", "cannot get the last element of endless range"));
                }
                range.end.clone()
            }
            "first" if range.begin.is_nil() => {
                return Err(self.ruby_error("RangeError", "cannot get the first element of beginless range"));
            }
            "last" => {
                let items = self.collect(&receiver)?;
                if items.is_empty() {
                    return Ok(Some(Value::array(items)));
                }
                self.call_with_args(&Value::array(items), "last", args.clone())?
            }
            "min" | "max" | "minmax"
                if range.begin.is_nil() && name != "max" || range.end.is_nil() && name != "min" =>
            {
                self.require_end(range, name)?;
                return self.call_enumerable_method(&receiver, name, args);
            }
            "min" | "max" if !args.is_empty() || args.block.is_some() => {
                return self.call_enumerable_method(&receiver, name, args);
            }
            "max" if self.compare(&range.begin, &range.end)? == Some(Ordering::Greater) => Value::Nil,
            "max"
                if range.excludes_end
                    && !matches!(range.end, Value::Int(_) | Value::Big(_))
                    && is_number(&range.end) =>
            {
                return self.raise_type_error("cannot exclude non Integer value");
            }
            "max" if range.excludes_end && matches!(range.begin, Value::Float(_)) => {
                return self.raise_type_error("cannot exclude end value with non Integer begin value");
            }
            "max" if range.begin.is_nil() => {
                if range.excludes_end {
                    return self.raise_type_error("cannot exclude end value with non Integer begin value");
                }
                range.end.clone()
            }
            "min" if range.end.is_nil() => range.begin.clone(),
            "max" if range.excludes_end && !is_number(&range.end) => {
                return self.call_enumerable_method(&receiver, name, args);
            }
            "min" | "max" => match (&range.begin, &range.end) {
                (Value::Int(begin), Value::Int(end)) => {
                    let last = if range.excludes_end { end.saturating_sub(1) } else { *end };
                    if *begin > last || (range.excludes_end && begin == end) {
                        Value::Nil
                    } else {
                        Value::Int(if name == "min" { *begin } else { last })
                    }
                }
                _ => {
                    let order = self.compare_or_raise(&range.begin, &range.end)?;
                    let is_empty =
                        order == Ordering::Greater || order == Ordering::Equal && range.excludes_end;
                    if is_empty {
                        Value::Nil
                    } else if name == "min" {
                        range.begin.clone()
                    } else if range.excludes_end {
                        Value::integer(to_big(&range.end) - 1)
                    } else {
                        range.end.clone()
                    }
                }
            },
            "each" => match &args.block {
                None => self.create_enumerator(&receiver, "each", Vec::new())?,
                Some(block) => {
                    let block = block.clone();
                    self.each_in_range(range, &mut |interpreter, item| {
                        interpreter.yield_one(&block, item)?;
                        Ok(ControlFlow::Continue(()))
                    })?;
                    receiver
                }
            },
            "exclude_end?" => Value::Bool(range.excludes_end),
            "size" | "count" if args.is_empty() && args.block.is_none() => match (&range.begin, &range.end) {
                (Value::Int(begin), Value::Int(end)) => {
                    let count = i128::from(*end) - i128::from(*begin) + i128::from(!range.excludes_end);
                    Value::integer(count.max(0).into())
                }
                (Value::Int(_), Value::Nil) | (Value::Nil, Value::Int(_)) => Value::Float(f64::INFINITY),
                (begin, end)
                    if name == "size" && is_number(begin) && is_number(end) && is_float(begin, end) =>
                {
                    if [begin, end].iter().any(|bound| (1e15..f64::INFINITY).contains(&to_f64(bound).abs())) {
                        return Err(self.unsupported_error("the size of a range with large floats"));
                    }
                    match float_step_count(to_f64(begin), to_f64(end), 1.0, range.excludes_end) {
                        count if count.is_infinite() => Value::Float(count),
                        count => self.float_to_int(count)?,
                    }
                }
                (Value::Int(_) | Value::Big(_), Value::Int(_) | Value::Big(_)) => {
                    let count: BigInt =
                        to_big(&range.end) - to_big(&range.begin) + i32::from(!range.excludes_end);
                    Value::integer(count.max(BigInt::from(0)))
                }
                _ if name == "count" => Value::Int(self.collect(&receiver)?.len() as i64),
                _ => Value::Nil,
            },
            "include?" | "member?" | "===" | "cover?" => {
                let value = self.arg(args, 0)?;
                if let (Value::Range(inner), "cover?") = (&value, name) {
                    return Ok(Some(Value::Bool(self.covers_range(range, inner)?)));
                }
                if let (Value::Str(_), "include?" | "member?") = (&range.begin, name) {
                    return self.call_enumerable_method(&receiver, name, args);
                }
                Value::Bool(self.range_covers(range, &value)?)
            }
            "step" | "%" => self.step_range(range, name, args)?,
            "to_a" | "to_ary" | "entries" => {
                if range.end.is_nil() {
                    return Err(self.ruby_error("RangeError", "cannot convert endless range to an array"));
                }
                Value::array(self.collect(&receiver)?)
            }
            "sum" if args.is_empty() && args.block.is_none() => match (&range.begin, &range.end) {
                (Value::Int(_) | Value::Big(_), Value::Int(_) | Value::Big(_)) => {
                    let last = to_big(&range.end) - i32::from(range.excludes_end);
                    let first = to_big(&range.begin);
                    if last < first {
                        return Ok(Some(Value::Int(0)));
                    }
                    Value::integer((&first + &last) * (&last - &first + 1) / 2)
                }
                _ => return self.call_enumerable_method(&receiver, name, args),
            },
            "inspect" => Value::str(self.inspect(&receiver)?),
            _ => return self.call_enumerable_method(&receiver, name, args),
        }))
    }
}

fn is_float(one: &Value, other: &Value) -> bool {
    matches!(one, Value::Float(_)) || matches!(other, Value::Float(_))
}
