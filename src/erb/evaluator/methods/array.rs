//! Array methods that leave the array unchanged.

use std::cmp::Ordering;
use std::rc::Rc;

use super::to_f64;

use crate::evaluator::eval::{Args, EvalResult, Interpreter};
use crate::evaluator::stdlib;
use crate::evaluator::value::{RArray, RHash, VALUE_BYTES, Value};

impl Interpreter {
    /// Calls a method of Array. Returns `None` if Array does not implement it.
    pub(super) fn call_array_method(
        &mut self,
        array: &Rc<RArray>,
        name: &str,
        args: &Args,
    ) -> EvalResult<Option<Value>> {
        let receiver = Value::Array(Rc::clone(array));
        let block = args.block.as_ref();
        if let Some(value) = self.call_array_edit(array, name, args)? {
            array.recount_memory();
            return Ok(Some(value));
        }
        Ok(Some(match name {
            "[]" | "slice" => self.slice_array(array, args)?,
            "at" => {
                let index = self.index_or(args, 0, 0)?;
                element_at(array, index)
            }
            "dig" => self.dig(&receiver, &args.list)?,
            "fetch" => {
                let index = self.index_or(args, 0, 0)?;
                match position(index, array.len()) {
                    Some(position) => array.get(position).unwrap_or(Value::Nil),
                    None => match (block, args.get(1)) {
                        (Some(block), _) => {
                            let index = self.arg(args, 0)?;
                            self.yield_one(block, index)?
                        }
                        (None, Some(default)) => default.clone(),
                        (None, None) => {
                            let length = array.len();
                            let text = format!(
                                "index {index} outside of array bounds: {}...{length}",
                                -(length as i64)
                            );
                            return Err(self.ruby_error("IndexError", text));
                        }
                    },
                }
            }
            "values_at" => {
                let mut elements = Vec::new();
                for index in &args.list {
                    if let Value::Range(range) = index {
                        // The range may end past the end of the array.
                        let length = array.len() as i64;
                        let start = if range.begin.is_nil() { 0 } else { self.index_arg(&range.begin)? };
                        let start = if start < 0 { start + length } else { start };
                        if start < 0 {
                            let range_text = self.inspect(index)?;
                            return Err(self.ruby_error("RangeError", format!("{range_text} out of range")));
                        }
                        let end = if range.end.is_nil() { -1 } else { self.index_arg(&range.end)? };
                        let end = if end < 0 { end + length } else { end };
                        let end = if range.excludes_end && !range.end.is_nil() { end } else { end + 1 };
                        self.use_scratch(((end - start).max(0) as usize).saturating_mul(VALUE_BYTES))?;
                        elements.extend((start..end).map(|index| element_at(array, index)));
                        continue;
                    }
                    let index = self.index_arg(index)?;
                    elements.push(element_at(array, index));
                }
                Value::array(elements)
            }
            "first" => match args.get(0) {
                None => array.get(0).unwrap_or(Value::Nil),
                Some(_) => return self.call_enumerable_method(&receiver, name, args),
            },
            "last" => match args.get(0) {
                None => element_at(array, -1),
                Some(count) => {
                    let count = self.count_arg(&count.clone())?;
                    let items = array.to_vec();
                    Value::array(items[items.len().saturating_sub(count)..].to_vec())
                }
            },
            "length" | "size" => Value::Int(array.len() as i64),
            "empty?" => Value::Bool(array.len() == 0),
            "count" if args.is_empty() && block.is_none() => Value::Int(array.len() as i64),
            "each" => match block {
                Some(block) => {
                    let mut index = 0;
                    while let Some(item) = array.get(index) {
                        index += 1;
                        self.yield_one(block, item)?;
                    }
                    receiver
                }
                None => self.create_enumerator(&receiver, "each", Vec::new())?,
            },
            "each_index" if block.is_none() => self.create_enumerator(&receiver, name, Vec::new())?,
            "each_index" => {
                let block = self.block_arg(args)?;
                for index in 0..array.len() {
                    self.yield_one(&block, Value::Int(index as i64))?;
                }
                receiver
            }
            "to_a" | "entries" | "to_ary" => receiver,
            "to_s" | "inspect" => Value::str(self.inspect(&receiver)?),
            "join" => {
                let separator = match args.get(0) {
                    None | Some(Value::Nil) => String::new(),
                    Some(separator) => self.string_arg(&separator.clone())?,
                };
                let mut joined_text = String::new();
                self.join(array, &separator, &mut joined_text, 0)?;
                Value::str(joined_text)
            }
            "reverse" => Value::array(array.to_vec().into_iter().rev().collect()),
            "rotate" => {
                let mut items = array.to_vec();
                let count = self.index_or(args, 0, 1)?;
                if !items.is_empty() {
                    let count = count.rem_euclid(items.len() as i64) as usize;
                    items.rotate_left(count);
                }
                Value::array(items)
            }
            "+" => {
                let other = self.arg(args, 0)?;
                let other = self.array_arg(&other)?;
                let mut items = array.to_vec();
                items.extend(other);
                self.use_scratch(items.len() * VALUE_BYTES)?;
                Value::array(items)
            }
            "-" | "difference" => {
                let excluded_items = RHash::default();
                for other in &args.list {
                    for item in self.array_arg(other)? {
                        excluded_items.insert(item, Value::Nil);
                    }
                }
                Value::array(
                    array.to_vec().into_iter().filter(|item| excluded_items.get(item).is_none()).collect(),
                )
            }
            "&" | "intersection" | "intersect?" => {
                let mut common_items = array.to_vec();
                for other in &args.list {
                    let other =
                        RHash::from_pairs(self.array_arg(other)?.into_iter().map(|item| (item, Value::Nil)));
                    common_items.retain(|item| other.get(item).is_some());
                }
                if name == "intersect?" {
                    Value::Bool(!common_items.is_empty())
                } else if args.is_empty() {
                    Value::array(common_items)
                } else {
                    Value::array(self.remove_duplicates(common_items, None)?)
                }
            }
            "|" | "union" => {
                let mut items = array.to_vec();
                for other in &args.list {
                    let other = self.array_arg(other)?;
                    self.use_scratch(other.len() * VALUE_BYTES)?;
                    items.extend(other);
                }
                Value::array(self.remove_duplicates(items, None)?)
            }
            "*" => match self.arg(args, 0)? {
                Value::Str(separator) => {
                    let mut joined_text = String::new();
                    let separator = separator.get().clone();
                    self.join(array, &separator, &mut joined_text, 0)?;
                    Value::str(joined_text)
                }
                count => {
                    let count = self.index_arg(&count)?;
                    if count < 0 {
                        return self.raise_argument_error("argument must be non-negative");
                    }
                    let items = array.to_vec();
                    self.use_scratch(items.len().saturating_mul(count as usize).saturating_mul(VALUE_BYTES))?;
                    Value::array(items.iter().cloned().cycle().take(items.len() * count as usize).collect())
                }
            },
            "<=>" => {
                let other = self.arg(args, 0)?;
                match &other {
                    Value::Array(_) => self
                        .compare(&receiver, &other)?
                        .map_or(Value::Nil, |ordering| Value::Int(ordering as i64)),
                    _ => Value::Nil,
                }
            }
            "index" | "find_index" => return self.call_enumerable_method(&receiver, "find_index", args),
            "rindex" if args.is_empty() && block.is_none() => {
                return Ok(Some(self.create_enumerator(&receiver, name, Vec::new())?));
            }
            "rindex" => {
                for (index, item) in array.to_vec().into_iter().enumerate().rev() {
                    let is_match = match (args.get(0), block) {
                        (Some(target), _) => self.are_equal(&item, target)?,
                        (None, Some(block)) => self.yield_one(block, item)?.is_truthy(),
                        (None, None) => false,
                    };
                    if is_match {
                        return Ok(Some(Value::Int(index as i64)));
                    }
                }
                Value::Nil
            }
            "compact" => Value::array(array.to_vec().into_iter().filter(|item| !item.is_nil()).collect()),
            "flatten" => {
                let depth = match args.get(0) {
                    None | Some(Value::Nil) => -1,
                    Some(depth) => self.index_arg(&depth.clone())?,
                };
                let mut flat_items = Vec::new();
                self.flatten(array, depth, &mut flat_items)?;
                Value::array(flat_items)
            }
            "assoc" | "rassoc" => {
                let key_to_find = self.arg(args, 0)?;
                let pair_index = usize::from(name == "rassoc");
                for item in array.to_vec() {
                    if let Value::Array(pair) = &item
                        && let Some(key) = pair.get(pair_index)
                        && self.are_equal(&key, &key_to_find)?
                    {
                        return Ok(Some(item));
                    }
                }
                Value::Nil
            }
            "transpose" => {
                let mut columns: Vec<Vec<Value>> = Vec::new();
                for (number, row) in array.to_vec().iter().enumerate() {
                    let row = self.array_arg(row)?;
                    self.use_scratch(row.len() * VALUE_BYTES)?;
                    if number == 0 {
                        columns = vec![Vec::new(); row.len()];
                    } else if row.len() != columns.len() {
                        let text =
                            format!("element size differs ({} should be {})", row.len(), columns.len());
                        return Err(self.ruby_error("IndexError", text));
                    }
                    for (column, item) in columns.iter_mut().zip(row) {
                        column.push(item);
                    }
                }
                Value::array(columns.into_iter().map(Value::array).collect())
            }
            "product" => {
                let mut rows: Vec<Vec<Value>> = array.to_vec().into_iter().map(|item| vec![item]).collect();
                for other in &args.list {
                    let other = self.array_arg(other)?;
                    let mut new_rows = Vec::new();
                    for row in &rows {
                        for item in &other {
                            self.step(1)?;
                            self.use_scratch(2 * VALUE_BYTES * (row.len() + 1))?;
                            let mut row = row.clone();
                            row.push(item.clone());
                            new_rows.push(row);
                        }
                    }
                    rows = new_rows;
                }
                match block {
                    Some(block) => {
                        for row in rows {
                            self.yield_one(block, Value::array(row))?;
                        }
                        receiver
                    }
                    None => Value::array(rows.into_iter().map(Value::array).collect()),
                }
            }
            "combination" | "permutation" => {
                let items = array.to_vec();
                let size = self.index_or(args, 0, items.len() as i64)?;
                let mut choices = Vec::new();
                if size >= 0 {
                    let mut indices = Vec::new();
                    self.collect_choices(
                        &items,
                        size as usize,
                        name == "permutation",
                        0,
                        &mut indices,
                        &mut choices,
                    )?;
                }
                let list = Value::array(choices);
                match block {
                    Some(block) => {
                        for item in self.collect(&list)? {
                            self.yield_one(block, item)?;
                        }
                        receiver
                    }
                    None => self.create_enumerator(&list, "each", Vec::new())?,
                }
            }
            "bsearch" => {
                if block.is_none() {
                    return self.create_enumerator(&receiver, name, Vec::new()).map(Some);
                }
                let block = self.block_arg(args)?;
                let (mut low, mut high) = (0, array.len());
                let mut result = Value::Nil;
                while low < high {
                    let middle = low + (high - low) / 2;
                    let item = array.get(middle).unwrap_or(Value::Nil);
                    match self.yield_one(&block, item.clone())? {
                        Value::Bool(true) => {
                            result = item;
                            high = middle;
                        }
                        Value::Bool(false) | Value::Nil => low = middle + 1,
                        number @ (Value::Int(_) | Value::Float(_) | Value::Big(_)) => {
                            match to_f64(&number).partial_cmp(&0.0) {
                                Some(Ordering::Equal) => return Ok(Some(item)),
                                Some(Ordering::Greater) => low = middle + 1,
                                _ => high = middle,
                            }
                        }
                        other => {
                            let class = self.class_of(&other).label();
                            let text =
                                format!("wrong argument type {class} (must be numeric, true, false or nil)");
                            return self.raise_type_error(text);
                        }
                    }
                }
                result
            }
            "pack" => stdlib::pack::pack(self, &array.to_vec(), args)?,
            "sum"
                if args.is_empty()
                    && block.is_none()
                    && array.items.borrow().iter().all(|item| matches!(item, Value::Int(_))) =>
            {
                return self.call_enumerable_method(&receiver, name, args);
            }
            "shelljoin" => {
                return stdlib::shellwords::call_class_method(self, "join", &Args::new(vec![receiver]));
            }
            "shuffle" | "sample" => {
                return Err(self.unsupported_error(format!("Array#{name} (its result is random)")));
            }
            _ => return self.call_enumerable_method(&receiver, name, args),
        }))
    }

    /// Collects the combinations of `size` items, or the permutations if `is_ordered`.
    fn collect_choices(
        &mut self,
        items: &[Value],
        size: usize,
        is_ordered: bool,
        first_index: usize,
        indices: &mut Vec<usize>,
        choices: &mut Vec<Value>,
    ) -> EvalResult<()> {
        self.check_depth()?;
        if indices.len() == size {
            choices.push(Value::array(indices.iter().map(|index| items[*index].clone()).collect()));
            return Ok(());
        }
        let start = if is_ordered { 0 } else { first_index };
        for index in start..items.len() {
            self.step(1 + indices.len() as u64 / 16)?;
            if is_ordered && indices.contains(&index) {
                continue;
            }
            indices.push(index);
            self.collect_choices(items, size, is_ordered, index + 1, indices, choices)?;
            indices.pop();
        }
        Ok(())
    }

    /// Joins the elements, including those of nested arrays, and appends them to `joined_text`.
    fn join(
        &mut self,
        array: &Rc<RArray>,
        separator: &str,
        joined_text: &mut String,
        depth: u32,
    ) -> EvalResult<()> {
        if depth > 500 {
            return self.raise_argument_error("recursive array join");
        }
        for (index, item) in array.to_vec().iter().enumerate() {
            self.step(1)?;
            if index > 0 {
                self.use_scratch(separator.len())?;
                joined_text.push_str(separator);
            }
            match item {
                Value::Array(inner) => self.join(inner, separator, joined_text, depth + 1)?,
                other => {
                    let text = self.text_of(other)?;
                    self.use_scratch(text.len())?;
                    joined_text.push_str(&text);
                }
            }
        }
        Ok(())
    }

    pub(super) fn flatten(
        &mut self,
        array: &Rc<RArray>,
        depth: i64,
        flat_items: &mut Vec<Value>,
    ) -> EvalResult<()> {
        self.check_depth()?;
        for item in array.to_vec() {
            self.step(1)?;
            match &item {
                Value::Array(inner) if depth != 0 => self.flatten(inner, depth - 1, flat_items)?,
                _ => {
                    self.use_scratch(2 * VALUE_BYTES)?;
                    flat_items.push(item);
                }
            }
        }
        Ok(())
    }

    fn slice_array(&mut self, array: &Rc<RArray>, args: &Args) -> EvalResult<Value> {
        let length = array.len();
        match (self.arg(args, 0)?, args.get(1)) {
            (Value::Int(index), None) => Ok(element_at(array, index)),
            (Value::Range(range), None) => match self.range_bounds(&range, length)? {
                Some((start, count)) => Ok(Value::array(array.to_vec()[start..start + count].to_vec())),
                None => Ok(Value::Nil),
            },
            (index, None) => {
                let index = self.index_arg(&index)?;
                Ok(element_at(array, index))
            }
            (start, Some(count)) => {
                let start = self.index_arg(&start)?;
                let count = self.index_arg(&count.clone())?;
                let start = if start < 0 { start + length as i64 } else { start };
                if start < 0 || start > length as i64 || count < 0 {
                    return Ok(Value::Nil);
                }
                let start = start as usize;
                let end = start.saturating_add(count as usize).min(length);
                Ok(Value::array(array.to_vec()[start..end].to_vec()))
            }
        }
    }

    /// Implements `dig`: looks up one key after the other and stops at nil.
    pub(crate) fn dig(&mut self, collection: &Value, keys: &[Value]) -> EvalResult<Value> {
        let mut value = collection.clone();
        for key in keys {
            value = match &value {
                Value::Nil => return Ok(Value::Nil),
                Value::Array(_) => self.call(&value, "at", vec![key.clone()])?,
                Value::Hash(_) => self.call(&value, "[]", vec![key.clone()])?,
                Value::Object(_) if self.responds_to(&value, "dig") => {
                    self.call(&value, "dig", vec![key.clone()])?
                }
                other => {
                    let class = self.class_of(other).label();
                    return self.raise_type_error(format!("{class} does not have #dig method"));
                }
            };
        }
        Ok(value)
    }
}

/// Returns the element at an index, or nil if there is none. A negative index counts from the end.
pub(super) fn element_at(array: &RArray, index: i64) -> Value {
    position(index, array.len()).and_then(|index| array.get(index)).unwrap_or(Value::Nil)
}

/// Converts an index to a position. A negative index counts from the end. Returns `None` if it is out of
/// bounds.
pub(super) fn position(index: i64, length: usize) -> Option<usize> {
    let index = if index < 0 { index + length as i64 } else { index };
    (0..length as i64).contains(&index).then_some(index as usize)
}
