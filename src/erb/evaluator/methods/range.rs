//! Methods of Range.

use std::cmp::Ordering;
use std::ops::ControlFlow;
use std::rc::Rc;

use num_bigint::BigInt;

use crate::evaluator::eval::{Args, Interp, R};
use crate::evaluator::value::{RRange, Value};

impl Interp {
    /// Returns the first index and the number of elements that a range selects from `length` elements.
    /// Returns `None` if the range starts outside.
    pub(crate) fn range_bounds(&mut self, range: &RRange, length: usize) -> R<Option<(usize, usize)>> {
        let length = length as i64;
        let from = if range.from.is_nil() { 0 } else { self.int_arg(&range.from)? };
        let (to, exclusive) =
            if range.to.is_nil() { (-1, false) } else { (self.int_arg(&range.to)?, range.exclusive) };
        let from = if from < 0 { from + length } else { from };
        if from < 0 || from > length {
            return Ok(None);
        }
        let to = if to < 0 { to + length } else { to };
        let to = if exclusive { to } else { to + 1 }.min(length);
        Ok(Some((from as usize, (to - from).max(0) as usize)))
    }

    /// Returns true if a value lies within a range, by `<=>`.
    pub(crate) fn range_covers(&mut self, range: &RRange, value: &Value) -> R<bool> {
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
            Some(Ordering::Equal) => !range.exclusive,
            _ => false,
        })
    }

    /// Visits the elements of a range in order until `visit` breaks.
    pub(super) fn each_in_range(
        &mut self,
        range: &RRange,
        visit: &mut dyn FnMut(&mut Interp, Value) -> R<ControlFlow<()>>,
    ) -> R<()> {
        match (&range.from, &range.to) {
            (Value::Int(from), to) => {
                let mut at = *from;
                let last = match to {
                    Value::Nil => i64::MAX,
                    Value::Float(to) => {
                        let floor = to.floor();
                        if range.exclusive && floor == *to { floor as i64 - 1 } else { floor as i64 }
                    }
                    Value::Big(_) => i64::MAX,
                    to => {
                        let to = self.int_arg(&to.clone())?;
                        if range.exclusive { to.saturating_sub(1) } else { to }
                    }
                };
                while at <= last {
                    self.step(1)?;
                    if visit(self, Value::Int(at))?.is_break() || at == i64::MAX {
                        break;
                    }
                    at += 1;
                }
                Ok(())
            }
            (Value::Str(from), Value::Str(to)) => {
                let (from, to) = (from.get().clone(), to.get().clone());
                // Length counts before order, so that "9" comes before "10".
                if from.len() > to.len() && from.chars().count() > to.chars().count() {
                    return Ok(());
                }
                if from.len() == to.len() && from > to {
                    return Ok(());
                }
                let mut at = from;
                loop {
                    self.step(1)?;
                    let last = at == to;
                    if last && range.exclusive {
                        return Ok(());
                    }
                    if visit(self, Value::str(at.clone()))?.is_break() || last {
                        return Ok(());
                    }
                    at = super::successor::successor(&at, false);
                    if at.chars().count() > to.chars().count() {
                        return Ok(());
                    }
                }
            }
            (Value::Nil, _) => self.type_error("can't iterate from NilClass"),
            (from, _) => {
                if !self.responds(from, "succ") {
                    let class = self.class_of(from).label();
                    return self.type_error(format!("can't iterate from {class}"));
                }
                let mut at = from.clone();
                while self.range_covers(range, &at)? {
                    self.step(1)?;
                    if visit(self, at.clone())?.is_break() {
                        break;
                    }
                    at = self.call(&at, "succ", Vec::new())?;
                }
                Ok(())
            }
        }
    }

    pub(super) fn range_method(&mut self, range: &Rc<RRange>, name: &str, args: &Args) -> R<Option<Value>> {
        let this = Value::Range(Rc::clone(range));
        Ok(Some(match name {
            "first" | "begin" if args.is_empty() => {
                if name == "first" && range.from.is_nil() {
                    return Err(self.error("RangeError", "cannot get the first element of beginless range"));
                }
                range.from.clone()
            }
            "last" | "end" if args.is_empty() => {
                if name == "last" && range.to.is_nil() {
                    return Err(self.error("RangeError", "cannot get the last element of endless range"));
                }
                range.to.clone()
            }
            "last" => {
                let items = Value::array(self.collect(&this)?);
                self.call_with(&items, "last", args.clone())?
            }
            "min" | "max" if args.is_empty() && args.block.is_none() => match (&range.from, &range.to) {
                (Value::Int(from), Value::Int(to)) => {
                    let last = if range.exclusive { to.saturating_sub(1) } else { *to };
                    if *from > last || (range.exclusive && from == to) {
                        Value::Nil
                    } else {
                        Value::Int(if name == "min" { *from } else { last })
                    }
                }
                _ => {
                    let empty = self.order(&range.from, &range.to)? == Ordering::Greater;
                    if empty {
                        Value::Nil
                    } else if name == "min" {
                        range.from.clone()
                    } else {
                        range.to.clone()
                    }
                }
            },
            "each" => match &args.block {
                None => self.enumerator(&this, "each", Vec::new())?,
                Some(block) => {
                    let block = block.clone();
                    self.each_in_range(range, &mut |it, item| {
                        it.yield_one(&block, item)?;
                        Ok(ControlFlow::Continue(()))
                    })?;
                    this
                }
            },
            "exclude_end?" => Value::Bool(range.exclusive),
            "size" | "count" if args.is_empty() && args.block.is_none() => match (&range.from, &range.to) {
                (Value::Int(from), Value::Int(to)) => {
                    let count = i128::from(*to) - i128::from(*from) + i128::from(!range.exclusive);
                    Value::big(count.max(0).into())
                }
                (Value::Int(_), Value::Nil) => Value::Float(f64::INFINITY),
                (Value::Int(from), Value::Float(to)) => {
                    Value::Int((to.floor() as i64).saturating_sub(*from).saturating_add(1).max(0))
                }
                _ if name == "count" => Value::Int(self.collect(&this)?.len() as i64),
                _ => Value::Nil,
            },
            "include?" | "member?" | "===" | "cover?" => {
                let value = self.arg(args, 0)?;
                if let (Value::Range(inner), "cover?") = (&value, name) {
                    let covered = self.range_covers(range, &inner.from)?
                        && (self.range_covers(range, &inner.to)?
                            || (inner.exclusive && self.equal(&inner.to, &range.to)?));
                    return Ok(Some(Value::Bool(covered)));
                }
                if let (Value::Str(_), "include?" | "member?") = (&range.from, name) {
                    return self.enumerable_method(&this, name, args);
                }
                Value::Bool(self.range_covers(range, &value)?)
            }
            "step" | "%" => {
                let by = self.arg(args, 0)?;
                let mut out = Vec::new();
                match (&range.from, &by) {
                    (Value::Int(from), Value::Int(by)) if *by > 0 => {
                        let last = match &range.to {
                            Value::Nil => i64::MAX,
                            to => self.int_arg(&to.clone())?,
                        };
                        let mut at = *from;
                        while if range.exclusive { at < last } else { at <= last } {
                            self.step(1)?;
                            match &args.block {
                                Some(block) => {
                                    self.yield_one(block, Value::Int(at))?;
                                }
                                None => {
                                    self.charge(16)?;
                                    out.push(Value::Int(at));
                                }
                            }
                            match at.checked_add(*by) {
                                Some(next) => at = next,
                                None => break,
                            }
                        }
                    }
                    (Value::Int(_) | Value::Float(_), Value::Float(_) | Value::Int(_)) => {
                        let (from, to, by) = (
                            super::compare::to_f64(&range.from),
                            super::compare::to_f64(&range.to),
                            super::compare::to_f64(&by),
                        );
                        if by <= 0.0 {
                            return self.argument_error("step can't be negative");
                        }
                        let count = ((to - from) / by + 1e-9).floor() as i64;
                        for index in 0..=count {
                            self.step(1)?;
                            let value = Value::Float(from + index as f64 * by);
                            if range.exclusive && super::compare::to_f64(&value) >= to {
                                break;
                            }
                            match &args.block {
                                Some(block) => {
                                    self.yield_one(block, value)?;
                                }
                                None => out.push(value),
                            }
                        }
                    }
                    _ => return Err(self.unsupported("Range#step with values of these types")),
                }
                if args.block.is_some() {
                    this
                } else {
                    let list = Value::array(out);
                    self.enumerator(&list, "each", Vec::new())?
                }
            }
            "to_a" | "to_ary" | "entries" => {
                if range.to.is_nil() {
                    return Err(self.error("RangeError", "cannot convert endless range to an array"));
                }
                Value::array(self.collect(&this)?)
            }
            "sum" if args.is_empty() && args.block.is_none() => match (&range.from, &range.to) {
                (Value::Int(from), Value::Int(to)) => {
                    let last = i128::from(*to) - i128::from(range.exclusive);
                    let from = i128::from(*from);
                    if last < from {
                        return Ok(Some(Value::Int(0)));
                    }
                    let (sum, count) = (BigInt::from(from + last), BigInt::from(last - from + 1));
                    Value::big(sum * count / 2)
                }
                _ => return self.enumerable_method(&this, name, args),
            },
            "hash" => Value::Int(0),
            "inspect" => Value::str(self.inspect(&this)?),
            _ => return self.enumerable_method(&this, name, args),
        }))
    }
}
