//! Array methods that change the array.

use std::rc::Rc;

use super::array::position;
use crate::evaluator::eval::{Args, EvalResult, Interp};
use crate::evaluator::value::{RArray, VALUE_BYTES, Value};

const EDITS: &[&str] = &[
    "<<",
    "push",
    "append",
    "pop",
    "shift",
    "unshift",
    "prepend",
    "insert",
    "[]=",
    "concat",
    "delete",
    "delete_at",
    "delete_if",
    "reject!",
    "select!",
    "filter!",
    "keep_if",
    "map!",
    "collect!",
    "clear",
    "compact!",
    "uniq!",
    "flatten!",
    "reverse!",
    "sort!",
    "sort_by!",
    "rotate!",
    "fill",
    "replace",
    "slice!",
    "shuffle!",
];

/// A length that no array in Ruby can have.
const MAX_LENGTH: i64 = 1 << 60;

impl Interp {
    /// Calls a method of Array that changes the array. Returns `None` for any other method.
    pub(super) fn array_edit(
        &mut self,
        array: &Rc<RArray>,
        name: &str,
        args: &Args,
    ) -> EvalResult<Option<Value>> {
        if !EDITS.contains(&name) {
            return Ok(None);
        }
        let receiver = Value::Array(Rc::clone(array));
        if array.is_frozen.get() {
            return self.raise_frozen_error(&receiver);
        }
        let block = args.block.clone();
        const ENUMERATING: &[&str] =
            &["map!", "collect!", "select!", "filter!", "keep_if", "delete_if", "reject!", "sort_by!"];
        if block.is_none() && ENUMERATING.contains(&name) {
            return self.enumerator(&receiver, name, Vec::new()).map(Some);
        }
        Ok(Some(match name {
            "<<" | "push" | "append" => {
                self.use_scratch(args.len() * VALUE_BYTES)?;
                array.items.borrow_mut().extend(args.list.iter().cloned());
                receiver
            }
            "pop" => match args.get(0) {
                None => array.items.borrow_mut().pop().unwrap_or(Value::Nil),
                Some(count) => {
                    let count = self.count_arg(&count.clone())?;
                    let mut items = array.items.borrow_mut();
                    let from = items.len().saturating_sub(count);
                    Value::array(items.split_off(from))
                }
            },
            "shift" => match args.get(0) {
                None => {
                    let mut items = array.items.borrow_mut();
                    if items.is_empty() { Value::Nil } else { items.remove(0) }
                }
                Some(count) => {
                    let count = self.count_arg(&count.clone())?;
                    let mut items = array.items.borrow_mut();
                    let to = count.min(items.len());
                    Value::array(items.drain(..to).collect())
                }
            },
            "unshift" | "prepend" => {
                array.items.borrow_mut().splice(0..0, args.list.iter().cloned());
                receiver
            }
            "insert" if args.len() == 1 => {
                self.index_or(args, 0, 0)?;
                receiver
            }
            "insert" => {
                let index = self.index_or(args, 0, 0)?;
                let length = array.len() as i64;
                let at = if index < 0 { index + length + 1 } else { index };
                if at < 0 {
                    let text = format!("index {index} too small for array; minimum: -{}", length + 1);
                    return Err(self.ruby_error("IndexError", text));
                }
                self.grow(array, at)?;
                array.items.borrow_mut().splice(at as usize..at as usize, args.list.iter().skip(1).cloned());
                receiver
            }
            "[]=" => self.array_store(array, args)?,
            "concat" => {
                for other in &args.list {
                    let other = self.array_arg(other)?;
                    self.use_scratch(other.len() * VALUE_BYTES)?;
                    array.items.borrow_mut().extend(other);
                }
                receiver
            }
            "replace" => {
                let other = self.arg(args, 0)?;
                let other = self.array_arg(&other)?;
                *array.items.borrow_mut() = other;
                receiver
            }
            "delete" => {
                let item_to_delete = self.arg(args, 0)?;
                let mut deleted_item = None;
                let mut remaining_items = Vec::new();
                for item in array.to_vec() {
                    if self.equal(&item, &item_to_delete)? {
                        deleted_item = Some(item)
                    } else {
                        remaining_items.push(item)
                    }
                }
                *array.items.borrow_mut() = remaining_items;
                match (deleted_item, block) {
                    (Some(deleted_item), _) => deleted_item,
                    (None, Some(block)) => self.yield_one(&block, item_to_delete)?,
                    (None, None) => Value::Nil,
                }
            }
            "delete_at" => {
                let index = self.index_or(args, 0, 0)?;
                match position(index, array.len()) {
                    Some(index) => array.items.borrow_mut().remove(index),
                    None => Value::Nil,
                }
            }
            "delete_if" | "reject!" | "select!" | "filter!" | "keep_if" => {
                let block = self.block(args)?;
                let keeps = matches!(name, "select!" | "filter!" | "keep_if");
                let mut remaining_items = Vec::new();
                let before = array.len();
                for item in array.to_vec() {
                    if self.yield_one(&block, item.clone())?.is_truthy() == keeps {
                        remaining_items.push(item);
                    }
                }
                let has_changed = remaining_items.len() != before;
                *array.items.borrow_mut() = remaining_items;
                if has_changed || !name.ends_with('!') { receiver } else { Value::Nil }
            }
            "map!" | "collect!" => {
                let block = self.block(args)?;
                let mut out = Vec::new();
                for item in array.to_vec() {
                    out.push(self.yield_one(&block, item)?);
                }
                *array.items.borrow_mut() = out;
                receiver
            }
            "clear" => {
                array.items.borrow_mut().clear();
                receiver
            }
            "compact!" | "uniq!" | "flatten!" => {
                let before = array.len();
                let plain = name.trim_end_matches('!');
                let mut has_changed = false;
                if plain == "flatten"
                    && (args.get(0).is_none_or(Value::is_nil) || self.index_or(args, 0, 0)? != 0)
                {
                    has_changed = array.items.borrow().iter().any(|item| matches!(item, Value::Array(_)));
                }
                if let Some(Value::Array(new)) = self.array_method(array, plain, args)? {
                    has_changed |= new.len() != before;
                    *array.items.borrow_mut() = new.to_vec();
                }
                if has_changed { receiver } else { Value::Nil }
            }
            "reverse!" | "sort!" | "sort_by!" | "rotate!" => {
                let plain = name.trim_end_matches('!');
                if let Some(Value::Array(new)) = self.array_method(array, plain, args)? {
                    *array.items.borrow_mut() = new.to_vec();
                }
                receiver
            }
            "fill" => {
                let length = array.len();
                let (value, rest) = match &block {
                    Some(_) => (Value::Nil, &args.list[..]),
                    None => (self.arg(args, 0)?, &args.list[1..]),
                };
                let (from, to) = match rest {
                    [] | [Value::Nil] => (0, length),
                    [at @ Value::Range(range)] => {
                        // The range may end past the end of the array, which then grows.
                        let from = if range.from.is_nil() { 0 } else { self.index_arg(&range.from)? };
                        let from = if from < 0 { from + length as i64 } else { from };
                        if from < 0 {
                            let range_text = self.inspect(at)?;
                            return Err(self.ruby_error("RangeError", format!("{range_text} out of range")));
                        }
                        let to = if range.to.is_nil() { -1 } else { self.index_arg(&range.to)? };
                        let to = if to < 0 { to + length as i64 } else { to };
                        let leaves_out_end = range.excludes_end && !range.to.is_nil();
                        let to = if leaves_out_end { to } else { to + 1 };
                        (from as usize, to.max(from) as usize)
                    }
                    [from, more @ ..] => {
                        let from = if from.is_nil() { 0 } else { self.index_arg(from)? };
                        let from = (if from < 0 { from + length as i64 } else { from }).max(0) as usize;
                        match more.first() {
                            Some(Value::Nil) | None => (from, length),
                            Some(count) => {
                                let count = self.index_arg(count)?;
                                if count < 0 {
                                    return Ok(Some(receiver));
                                }
                                (from, from.saturating_add(count as usize))
                            }
                        }
                    }
                };
                if to > MAX_LENGTH as usize {
                    return self.raise_argument_error("argument too big");
                }
                if to > length {
                    self.grow(array, to as i64)?;
                }
                for index in from..to {
                    let item = match &block {
                        Some(block) => self.yield_one(block, Value::Int(index as i64))?,
                        None => value.clone(),
                    };
                    array.items.borrow_mut()[index] = item;
                }
                receiver
            }
            "slice!" => {
                let slice = self.array_method(array, "[]", args)?.unwrap_or(Value::Nil);
                let length = array.len();
                match (args.get(0).cloned(), args.get(1).cloned()) {
                    (Some(Value::Range(range)), None) => {
                        if let Some((from, count)) = self.range_bounds(&range, length)? {
                            array.items.borrow_mut().drain(from..from + count);
                        }
                    }
                    (Some(from), Some(_)) => {
                        if let Value::Array(items) = &slice {
                            let from = self.index_arg(&from)?;
                            let from = if from < 0 { from + length as i64 } else { from } as usize;
                            let count = items.len();
                            array.items.borrow_mut().drain(from..from + count);
                        }
                    }
                    (Some(index), None) => {
                        let index = self.index_arg(&index)?;
                        if let Some(index) = position(index, length) {
                            array.items.borrow_mut().remove(index);
                        }
                    }
                    (None, _) => {}
                }
                slice
            }
            _ => return Err(self.unsupported_error(format!("Array#{name}"))),
        }))
    }

    /// Extends an array with nils to at least this length.
    fn grow(&mut self, array: &Rc<RArray>, length: i64) -> EvalResult<()> {
        if length > MAX_LENGTH {
            let index = length.saturating_sub(1);
            return Err(self.ruby_error("IndexError", format!("index {index} too big")));
        }
        if length > array.len() as i64 {
            let more = (length as usize).saturating_sub(array.len());
            self.use_scratch(more.saturating_mul(VALUE_BYTES))?;
            array.items.borrow_mut().resize(length as usize, Value::Nil);
        }
        Ok(())
    }

    /// Implements `[]=`.
    fn array_store(&mut self, array: &Rc<RArray>, args: &Args) -> EvalResult<Value> {
        let length = array.len();
        let (from, count, value) = match args.list.as_slice() {
            [Value::Range(range), value] => match self.range_bounds(range, length)? {
                Some((from, count)) => (from as i64, count, value.clone()),
                None => {
                    let from = self.index_arg(&range.from.clone())?;
                    if from < 0 {
                        let range_text = self.inspect(&args.list[0])?;
                        return Err(self.ruby_error("RangeError", format!("{range_text} out of range")));
                    }
                    (from, 0, value.clone())
                }
            },
            [index, value] => {
                let index = self.index_arg(index)?;
                let at = if index < 0 { index + length as i64 } else { index };
                if at < 0 {
                    let text = format!("index {index} too small for array; minimum: -{length}");
                    return Err(self.ruby_error("IndexError", text));
                }
                if at >= MAX_LENGTH {
                    let index = self.int_arg(&args.list[0])?;
                    return Err(self.ruby_error("IndexError", format!("index {index} too big")));
                }
                self.grow(array, at + 1)?;
                array.items.borrow_mut()[at as usize] = value.clone();
                return Ok(value.clone());
            }
            [from, count, value] => {
                let (from, count) = (self.index_arg(from)?, self.index_arg(count)?);
                if count < 0 {
                    return Err(self.ruby_error("IndexError", format!("negative length ({count})")));
                }
                let from = if from < 0 { from + length as i64 } else { from };
                (from, count as usize, value.clone())
            }
            _ => {
                let count = args.len();
                return self.raise_argument_error(format!(
                    "wrong number of arguments (given {count}, expected 2..3)"
                ));
            }
        };
        if from < 0 {
            return Err(self.ruby_error("IndexError", format!("index {from} too small for array")));
        }
        self.grow(array, from)?;
        let from = from as usize;
        let to = from.saturating_add(count).min(array.len());
        let new = match &value {
            Value::Array(list) => list.to_vec(),
            other => vec![other.clone()],
        };
        array.items.borrow_mut().splice(from..to, new);
        Ok(value)
    }
}
