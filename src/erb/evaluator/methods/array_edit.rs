//! Array methods that change the array.

use std::rc::Rc;

use super::array::position;
use crate::evaluator::eval::{Args, EvalResult, Interpreter};
use crate::evaluator::value::{RArray, VALUE_BYTES, Value};

const EDIT_METHODS: &[&str] = &[
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

/// The maximum length of an array in Ruby.
const MAX_ARRAY_ITEMS: i64 = 1 << 60;

impl Interpreter {
    /// Calls a method of Array that changes the array. Returns `None` for any other method.
    pub(super) fn call_array_edit(
        &mut self,
        array: &Rc<RArray>,
        name: &str,
        args: &Args,
    ) -> EvalResult<Option<Value>> {
        if !EDIT_METHODS.contains(&name) {
            return Ok(None);
        }
        let receiver = Value::Array(Rc::clone(array));
        if array.is_frozen.get() {
            return self.raise_frozen_error(&receiver);
        }
        let block = args.block.clone();
        const ENUMERATOR_METHODS: &[&str] =
            &["map!", "collect!", "select!", "filter!", "keep_if", "delete_if", "reject!", "sort_by!"];
        if block.is_none() && ENUMERATOR_METHODS.contains(&name) {
            return self.create_enumerator(&receiver, name, Vec::new()).map(Some);
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
                    let start = items.len().saturating_sub(count);
                    Value::array(items.split_off(start))
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
                    let end = count.min(items.len());
                    Value::array(items.drain(..end).collect())
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
                let position = if index < 0 { index + length + 1 } else { index };
                if position < 0 {
                    let text = format!("index {index} too small for array; minimum: -{}", length + 1);
                    return Err(self.ruby_error("IndexError", text));
                }
                self.grow(array, position)?;
                array
                    .items
                    .borrow_mut()
                    .splice(position as usize..position as usize, args.list.iter().skip(1).cloned());
                receiver
            }
            "[]=" => self.store_in_array(array, args)?,
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
                    if self.are_equal(&item, &item_to_delete)? {
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
                let block = self.block_arg(args)?;
                let keeps_matches = matches!(name, "select!" | "filter!" | "keep_if");
                let mut remaining_items = Vec::new();
                let old_length = array.len();
                for item in array.to_vec() {
                    if self.yield_one(&block, item.clone())?.is_truthy() == keeps_matches {
                        remaining_items.push(item);
                    }
                }
                let has_changed = remaining_items.len() != old_length;
                *array.items.borrow_mut() = remaining_items;
                if has_changed || !name.ends_with('!') { receiver } else { Value::Nil }
            }
            "map!" | "collect!" => {
                let block = self.block_arg(args)?;
                let mut new_items = Vec::new();
                for item in array.to_vec() {
                    new_items.push(self.yield_one(&block, item)?);
                }
                *array.items.borrow_mut() = new_items;
                receiver
            }
            "clear" => {
                array.items.borrow_mut().clear();
                receiver
            }
            "compact!" | "uniq!" | "flatten!" => {
                let old_length = array.len();
                let plain_name = name.trim_end_matches('!');
                let mut has_changed = false;
                if plain_name == "flatten"
                    && (args.get(0).is_none_or(Value::is_nil) || self.index_or(args, 0, 0)? != 0)
                {
                    has_changed = array.items.borrow().iter().any(|item| matches!(item, Value::Array(_)));
                }
                if let Some(Value::Array(new)) = self.call_array_method(array, plain_name, args)? {
                    has_changed |= new.len() != old_length;
                    *array.items.borrow_mut() = new.to_vec();
                }
                if has_changed { receiver } else { Value::Nil }
            }
            "reverse!" | "sort!" | "sort_by!" | "rotate!" => {
                let plain_name = name.trim_end_matches('!');
                if let Some(Value::Array(new)) = self.call_array_method(array, plain_name, args)? {
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
                let (start, end) = match rest {
                    [] | [Value::Nil] => (0, length),
                    [range_value @ Value::Range(range)] => {
                        // The range may end past the end of the array, which then grows.
                        let start = if range.begin.is_nil() { 0 } else { self.index_arg(&range.begin)? };
                        let start = if start < 0 { start + length as i64 } else { start };
                        if start < 0 {
                            let range_text = self.inspect(range_value)?;
                            return Err(self.ruby_error("RangeError", format!("{range_text} out of range")));
                        }
                        let end = if range.end.is_nil() { -1 } else { self.index_arg(&range.end)? };
                        let end = if end < 0 { end + length as i64 } else { end };
                        let leaves_out_end = range.excludes_end && !range.end.is_nil();
                        let end = if leaves_out_end { end } else { end + 1 };
                        (start as usize, end.max(start) as usize)
                    }
                    [start, other_args @ ..] => {
                        let start = if start.is_nil() { 0 } else { self.index_arg(start)? };
                        let start = (if start < 0 { start + length as i64 } else { start }).max(0) as usize;
                        match other_args.first() {
                            Some(Value::Nil) | None => (start, length),
                            Some(count) => {
                                let count = self.index_arg(count)?;
                                if count < 0 {
                                    return Ok(Some(receiver));
                                }
                                (start, start.saturating_add(count as usize))
                            }
                        }
                    }
                };
                if end > MAX_ARRAY_ITEMS as usize {
                    return self.raise_argument_error("argument too big");
                }
                if end > length {
                    self.grow(array, end as i64)?;
                }
                for index in start..end {
                    let item = match &block {
                        Some(block) => self.yield_one(block, Value::Int(index as i64))?,
                        None => value.clone(),
                    };
                    array.items.borrow_mut()[index] = item;
                }
                receiver
            }
            "slice!" => {
                let slice = self.call_array_method(array, "[]", args)?.unwrap_or(Value::Nil);
                let length = array.len();
                match (args.get(0).cloned(), args.get(1).cloned()) {
                    (Some(Value::Range(range)), None) => {
                        if let Some((start, count)) = self.range_bounds(&range, length)? {
                            array.items.borrow_mut().drain(start..start + count);
                        }
                    }
                    (Some(start), Some(_)) => {
                        if let Value::Array(items) = &slice {
                            let start = self.index_arg(&start)?;
                            let start = if start < 0 { start + length as i64 } else { start } as usize;
                            let count = items.len();
                            array.items.borrow_mut().drain(start..start + count);
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
        if length > MAX_ARRAY_ITEMS {
            let index = length.saturating_sub(1);
            return Err(self.ruby_error("IndexError", format!("index {index} too big")));
        }
        if length > array.len() as i64 {
            let missing_count = (length as usize).saturating_sub(array.len());
            self.use_scratch(missing_count.saturating_mul(VALUE_BYTES))?;
            array.items.borrow_mut().resize(length as usize, Value::Nil);
        }
        Ok(())
    }

    /// Implements `[]=`.
    fn store_in_array(&mut self, array: &Rc<RArray>, args: &Args) -> EvalResult<Value> {
        let length = array.len();
        let (start, count, value) = match args.list.as_slice() {
            [Value::Range(range), value] => match self.range_bounds(range, length)? {
                Some((start, count)) => (start as i64, count, value.clone()),
                None => {
                    let start = self.index_arg(&range.begin.clone())?;
                    if start < 0 {
                        let range_text = self.inspect(&args.list[0])?;
                        return Err(self.ruby_error("RangeError", format!("{range_text} out of range")));
                    }
                    (start, 0, value.clone())
                }
            },
            [index, value] => {
                let index = self.index_arg(index)?;
                let position = if index < 0 { index + length as i64 } else { index };
                if position < 0 {
                    let text = format!("index {index} too small for array; minimum: -{length}");
                    return Err(self.ruby_error("IndexError", text));
                }
                if position >= MAX_ARRAY_ITEMS {
                    let index = self.int_arg(&args.list[0])?;
                    return Err(self.ruby_error("IndexError", format!("index {index} too big")));
                }
                self.grow(array, position + 1)?;
                array.items.borrow_mut()[position as usize] = value.clone();
                return Ok(value.clone());
            }
            [start, count, value] => {
                let (start, count) = (self.index_arg(start)?, self.index_arg(count)?);
                if count < 0 {
                    return Err(self.ruby_error("IndexError", format!("negative length ({count})")));
                }
                let start = if start < 0 { start + length as i64 } else { start };
                (start, count as usize, value.clone())
            }
            _ => {
                let count = args.len();
                return self.raise_argument_error(format!(
                    "wrong number of arguments (given {count}, expected 2..3)"
                ));
            }
        };
        if start < 0 {
            return Err(self.ruby_error("IndexError", format!("index {start} too small for array")));
        }
        self.grow(array, start)?;
        let start = start as usize;
        let end = start.saturating_add(count).min(array.len());
        let new_items = match &value {
            Value::Array(list) => list.to_vec(),
            other => vec![other.clone()],
        };
        array.items.borrow_mut().splice(start..end, new_items);
        Ok(value)
    }
}
