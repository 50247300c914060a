//! Methods of Range.

use std::cmp::Ordering;
use std::ops::ControlFlow;
use std::rc::Rc;

use num_bigint::{BigInt, Sign};

use super::compare::is_number;
use super::steps::float_step_count;
use super::{to_big, to_f64};

use crate::evaluator::eval::{Args, EvalResult, Interp};
use crate::evaluator::value::{RRange, Value};

impl Interp {
    /// Returns the first index and the number of elements that a range selects from `length` elements.
    /// Returns `None` if the start is out of bounds.
    pub(crate) fn range_bounds(
        &mut self,
        range: &RRange,
        length: usize,
    ) -> EvalResult<Option<(usize, usize)>> {
        let length = length as i64;
        let from = if range.from.is_nil() { 0 } else { self.index_arg(&range.from)? };
        let (to, excludes_end) =
            if range.to.is_nil() { (-1, false) } else { (self.index_arg(&range.to)?, range.excludes_end) };
        let from = if from < 0 { from + length } else { from };
        if from < 0 || from > length {
            return Ok(None);
        }
        let to = if to < 0 { to + length } else { to };
        let to = if excludes_end { to } else { to + 1 }.min(length);
        Ok(Some((from as usize, (to - from).max(0) as usize)))
    }

    /// Returns true if a value lies within a range, by `<=>`.
    pub(crate) fn range_covers(&mut self, range: &RRange, value: &Value) -> EvalResult<bool> {
        if !range.from.is_nil() {
            match self.compare(&range.from, value)? {
                Some(Ordering::Less | Ordering::Equal) => {}
                _ => return Ok(false),
            }
        }
        if range.to.is_nil() {
            return Ok(true);
        }
        Ok(match self.compare(value, &range.to)? {
            Some(Ordering::Less) => true,
            Some(Ordering::Equal) => !range.excludes_end,
            _ => false,
        })
    }

    /// Implements `cover?` with a range.
    fn covers_range(&mut self, range: &RRange, inner: &Rc<RRange>) -> EvalResult<bool> {
        let is_wider = |end: &Value, inner_end: &Value| end.is_nil() && !inner_end.is_nil();
        if is_wider(&inner.from, &range.from) || is_wider(&inner.to, &range.to) {
            return Ok(false);
        }
        let is_empty = !inner.from.is_nil() && !self.range_covers(inner, &inner.from)?;
        if is_empty || !inner.from.is_nil() && !self.range_covers(range, &inner.from)? {
            return Ok(false);
        }
        match self.compare(&range.to, &inner.to)? {
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
        visit: &mut dyn FnMut(&mut Interp, Value) -> EvalResult<ControlFlow<()>>,
    ) -> EvalResult<()> {
        match (&range.from, &range.to) {
            (Value::Int(from), to) => {
                let mut at = *from;
                let (last, is_whole) = match to {
                    Value::Nil => (i128::MAX, false),
                    Value::Float(to) => (to.floor() as i128, to.floor() == *to),
                    Value::Big(to) if to.sign() == Sign::Minus => (i128::MIN, false),
                    Value::Big(_) => (i128::MAX, false),
                    to => (i128::from(self.int_arg(&to.clone())?), true),
                };
                let last = last.saturating_sub(i128::from(range.excludes_end && is_whole));
                while i128::from(at) <= last {
                    self.step(1)?;
                    if visit(self, Value::Int(at))?.is_break() {
                        break;
                    }
                    if at == i64::MAX {
                        if !matches!(to, Value::Int(_)) {
                            return Err(self.unsupported_error("a range with numbers beyond 64 bits"));
                        }
                        break;
                    }
                    at += 1;
                }
                Ok(())
            }
            (Value::Str(from), Value::Str(to)) => {
                let (from, to) = (from.get().clone(), to.get().clone());
                self.each_between(&from, &to, range.excludes_end, visit)
            }
            (Value::Nil, _) => self.raise_type_error("can't iterate from NilClass"),
            (from, _) => {
                if !self.responds(from, "succ") {
                    let class = self.class_of(from).label();
                    return self.raise_type_error(format!("can't iterate from {class}"));
                }
                let mut at = from.clone();
                while self.range_covers(range, &at)? {
                    self.step(1)?;
                    if visit(self, at.clone())?.is_break() {
                        break;
                    }
                    // The last value may have no successor.
                    if !range.excludes_end
                        && !range.to.is_nil()
                        && self.compare(&at, &range.to)? == Some(Ordering::Equal)
                    {
                        break;
                    }
                    at = self.call(&at, "succ", Vec::new())?;
                }
                Ok(())
            }
        }
    }

    /// Visits the strings from `from` to `to`. Numbers and single characters are counted, and other strings
    /// follow `succ` until they are longer than `to`.
    fn each_between(
        &mut self,
        from: &str,
        to: &str,
        excludes_end: bool,
        visit: &mut dyn FnMut(&mut Interp, Value) -> EvalResult<ControlFlow<()>>,
    ) -> EvalResult<()> {
        if let (&[from], &[to]) = (from.as_bytes(), to.as_bytes())
            && from.is_ascii()
            && to.is_ascii()
        {
            for code in from..=to {
                if excludes_end && code == to {
                    break;
                }
                self.step(1)?;
                if visit(self, Value::str(char::from(code)))?.is_break() {
                    break;
                }
            }
            return Ok(());
        }
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if digits(from) && digits(to) {
            let (Ok(first), Ok(last)) = (from.parse::<i64>(), to.parse::<i64>()) else {
                return Err(self.unsupported_error("a range of strings with numbers beyond 64 bits"));
            };
            let width = from.len();
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
        if from > to || excludes_end && from == to {
            return Ok(());
        }
        let after = super::successor::successor(to, false);
        let mut at = from.to_owned();
        while at != after {
            self.step(1)?;
            let is_last = !excludes_end && at == to;
            if visit(self, Value::str(at.clone()))?.is_break() || is_last {
                break;
            }
            at = super::successor::successor(&at, false);
            if excludes_end && at == to || at.len() > to.len() || at.is_empty() {
                break;
            }
        }
        Ok(())
    }

    /// Implements `step` and `%`.
    fn range_step(&mut self, range: &Rc<RRange>, name: &str, args: &Args) -> EvalResult<Value> {
        let receiver = Value::Range(Rc::clone(range));
        let step = args.get(0).cloned().unwrap_or(Value::Int(1));
        if is_number(&step) && to_f64(&step) == 0.0 {
            return self.raise_argument_error("step can't be 0");
        }
        let Some(block) = args.block.clone() else {
            if is_number(&step) && to_f64(&step) < 0.0 {
                return Err(self.unsupported_error("a range with a negative step"));
            }
            return self.enumerator(&receiver, name, args.list.clone());
        };
        if is_number(&step) && to_f64(&step) < 0.0 {
            return self.raise_argument_error("step can't be negative");
        }
        match (&range.from, &range.to, &step) {
            (Value::Int(from), to @ (Value::Nil | Value::Int(_)), Value::Int(step)) => {
                let last = match to {
                    Value::Int(last) if range.excludes_end => last.checked_sub(1),
                    Value::Int(last) => Some(*last),
                    _ => Some(i64::MAX),
                };
                let mut at = Some(*from);
                while let (Some(index), Some(last)) = (at, last) {
                    if index > last {
                        break;
                    }
                    self.step(1)?;
                    self.yield_one(&block, Value::Int(index))?;
                    at = index.checked_add(*step);
                }
            }
            (Value::Int(_) | Value::Float(_), to, Value::Int(_) | Value::Float(_))
                if to.is_nil() || is_number(to) =>
            {
                let to = if to.is_nil() { f64::INFINITY } else { to_f64(to) };
                let (from, step) = (to_f64(&range.from), to_f64(&step));
                self.float_steps(from, to, step, range.excludes_end, &mut |interp, at| {
                    interp.yield_one(&block, at).map(drop)
                })?;
            }
            _ => return Err(self.unsupported_error("Range#step with values of these types")),
        }
        Ok(receiver)
    }

    /// Raises `RangeError` if the range lacks the end that the method needs.
    fn need_end(&mut self, range: &RRange, name: &str) -> EvalResult<()> {
        let (end_name, range_kind) = match name {
            "min" if range.from.is_nil() => ("minimum", "beginless"),
            "max" if range.to.is_nil() => ("maximum", "endless"),
            "minmax" if range.to.is_nil() => ("maximum", "endless"),
            "minmax" if range.from.is_nil() => ("minimum", "beginless"),
            _ => return Ok(()),
        };
        Err(self.ruby_error("RangeError", format!("cannot get the {end_name} of {range_kind} range")))
    }

    /// Calls a method of Range. Returns `None` if Range does not implement it.
    pub(super) fn range_method(
        &mut self,
        range: &Rc<RRange>,
        name: &str,
        args: &Args,
    ) -> EvalResult<Option<Value>> {
        let receiver = Value::Range(Rc::clone(range));
        Ok(Some(match name {
            "first" | "begin" if args.is_empty() => {
                if name == "first" && range.from.is_nil() {
                    return Err(
                        self.ruby_error("RangeError", "cannot get the first element of beginless range")
                    );
                }
                range.from.clone()
            }
            "last" | "end" if args.is_empty() => {
                if name == "last" && range.to.is_nil() {
                    return Err(self.ruby_error("RangeError", "cannot get the last element of endless range"));
                }
                range.to.clone()
            }
            "first" if range.from.is_nil() => {
                return Err(self.ruby_error("RangeError", "cannot get the first element of beginless range"));
            }
            "last" => {
                let items = self.collect(&receiver)?;
                if items.is_empty() {
                    return Ok(Some(Value::array(items)));
                }
                self.call_with(&Value::array(items), "last", args.clone())?
            }
            "min" | "max" | "minmax"
                if range.from.is_nil() && name != "max" || range.to.is_nil() && name != "min" =>
            {
                self.need_end(range, name)?;
                return self.enumerable_method(&receiver, name, args);
            }
            "min" | "max" if !args.is_empty() || args.block.is_some() => {
                return self.enumerable_method(&receiver, name, args);
            }
            "max" if self.compare(&range.from, &range.to)? == Some(Ordering::Greater) => Value::Nil,
            "max"
                if range.excludes_end
                    && !matches!(range.to, Value::Int(_) | Value::Big(_))
                    && is_number(&range.to) =>
            {
                return self.raise_type_error("cannot exclude non Integer value");
            }
            "max" if range.excludes_end && matches!(range.from, Value::Float(_)) => {
                return self.raise_type_error("cannot exclude end value with non Integer begin value");
            }
            "max" if range.from.is_nil() => {
                if range.excludes_end {
                    return self.raise_type_error("cannot exclude end value with non Integer begin value");
                }
                range.to.clone()
            }
            "min" if range.to.is_nil() => range.from.clone(),
            "max" if range.excludes_end && !is_number(&range.to) => {
                return self.enumerable_method(&receiver, name, args);
            }
            "min" | "max" => match (&range.from, &range.to) {
                (Value::Int(from), Value::Int(to)) => {
                    let last = if range.excludes_end { to.saturating_sub(1) } else { *to };
                    if *from > last || (range.excludes_end && from == to) {
                        Value::Nil
                    } else {
                        Value::Int(if name == "min" { *from } else { last })
                    }
                }
                _ => {
                    let order = self.order(&range.from, &range.to)?;
                    let is_empty =
                        order == Ordering::Greater || order == Ordering::Equal && range.excludes_end;
                    if is_empty {
                        Value::Nil
                    } else if name == "min" {
                        range.from.clone()
                    } else if range.excludes_end {
                        Value::big(to_big(&range.to) - 1)
                    } else {
                        range.to.clone()
                    }
                }
            },
            "each" => match &args.block {
                None => self.enumerator(&receiver, "each", Vec::new())?,
                Some(block) => {
                    let block = block.clone();
                    self.each_in_range(range, &mut |interp, item| {
                        interp.yield_one(&block, item)?;
                        Ok(ControlFlow::Continue(()))
                    })?;
                    receiver
                }
            },
            "exclude_end?" => Value::Bool(range.excludes_end),
            "size" | "count" if args.is_empty() && args.block.is_none() => match (&range.from, &range.to) {
                (Value::Int(from), Value::Int(to)) => {
                    let count = i128::from(*to) - i128::from(*from) + i128::from(!range.excludes_end);
                    Value::big(count.max(0).into())
                }
                (Value::Int(_), Value::Nil) | (Value::Nil, Value::Int(_)) => Value::Float(f64::INFINITY),
                (from, to) if name == "size" && is_number(from) && is_number(to) && is_float(from, to) => {
                    if [from, to].iter().any(|end| (1e15..f64::INFINITY).contains(&to_f64(end).abs())) {
                        return Err(self.unsupported_error("the size of a range with large floats"));
                    }
                    match float_step_count(to_f64(from), to_f64(to), 1.0, range.excludes_end) {
                        count if count.is_infinite() => Value::Float(count),
                        count => self.float_to_int(count)?,
                    }
                }
                (Value::Int(_) | Value::Big(_), Value::Int(_) | Value::Big(_)) => {
                    let count: BigInt =
                        to_big(&range.to) - to_big(&range.from) + i32::from(!range.excludes_end);
                    Value::big(count.max(BigInt::from(0)))
                }
                _ if name == "count" => Value::Int(self.collect(&receiver)?.len() as i64),
                _ => Value::Nil,
            },
            "include?" | "member?" | "===" | "cover?" => {
                let value = self.arg(args, 0)?;
                if let (Value::Range(inner), "cover?") = (&value, name) {
                    return Ok(Some(Value::Bool(self.covers_range(range, inner)?)));
                }
                if let (Value::Str(_), "include?" | "member?") = (&range.from, name) {
                    return self.enumerable_method(&receiver, name, args);
                }
                Value::Bool(self.range_covers(range, &value)?)
            }
            "step" | "%" => self.range_step(range, name, args)?,
            "to_a" | "to_ary" | "entries" => {
                if range.to.is_nil() {
                    return Err(self.ruby_error("RangeError", "cannot convert endless range to an array"));
                }
                Value::array(self.collect(&receiver)?)
            }
            "sum" if args.is_empty() && args.block.is_none() => match (&range.from, &range.to) {
                (Value::Int(_) | Value::Big(_), Value::Int(_) | Value::Big(_)) => {
                    let last = to_big(&range.to) - i32::from(range.excludes_end);
                    let from = to_big(&range.from);
                    if last < from {
                        return Ok(Some(Value::Int(0)));
                    }
                    Value::big((&from + &last) * (&last - &from + 1) / 2)
                }
                _ => return self.enumerable_method(&receiver, name, args),
            },
            "inspect" => Value::str(self.inspect(&receiver)?),
            _ => return self.enumerable_method(&receiver, name, args),
        }))
    }
}

fn is_float(one: &Value, other: &Value) -> bool {
    matches!(one, Value::Float(_)) || matches!(other, Value::Float(_))
}
