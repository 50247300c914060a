//! Iteration over collections, and the methods of Enumerable.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::rc::Rc;

use super::enumerable_fold::{first, second};
use crate::evaluator::eval::{Args, EvalResult, Flow, Interpreter};
use crate::evaluator::meter::Charge;
use crate::evaluator::value::{Data, RHash, VALUE_BYTES, Value};

impl Interpreter {
    /// Visits the elements of a collection until `visit` breaks. Other values raise `TypeError`.
    pub(crate) fn each(
        &mut self,
        receiver: &Value,
        visit: &mut dyn FnMut(&mut Interpreter, Value) -> EvalResult<ControlFlow<()>>,
    ) -> EvalResult<()> {
        match receiver {
            Value::Array(array) => {
                let mut index = 0;
                // The visitor can change the array.
                while let Some(item) = array.get(index) {
                    self.step(1)?;
                    index += 1;
                    if visit(self, item)?.is_break() {
                        return Ok(());
                    }
                }
                Ok(())
            }
            Value::Hash(hash) => {
                for (key, value) in hash.pairs() {
                    self.step(1)?;
                    if visit(self, Value::array(vec![key, value]))?.is_break() {
                        return Ok(());
                    }
                }
                Ok(())
            }
            Value::Range(range) => self.each_in_range(range, visit),
            Value::Object(object) => {
                let items = match &*object.data.borrow() {
                    Data::Struct(fields) => Some(fields.clone()),
                    Data::Set(set) => Some(set.pairs().into_iter().map(|(key, _)| key).collect()),
                    Data::Table(table) => Some(
                        table
                            .pairs()
                            .into_iter()
                            .map(|(key, value)| Value::array(vec![key, value]))
                            .collect(),
                    ),
                    _ => None,
                };
                if let Some(items) = items {
                    for item in items {
                        self.step(1)?;
                        if visit(self, item)?.is_break() {
                            return Ok(());
                        }
                    }
                    return Ok(());
                }
                self.each_by_method(receiver, visit)
            }
            other => {
                let class = self.class_of(other).label();
                self.raise_type_error(format!("can't iterate from {class}"))
            }
        }
    }

    /// Visits the values that `each` yields. For an enumerator its stored method is called instead.
    fn each_by_method(
        &mut self,
        receiver: &Value,
        visit: &mut dyn FnMut(&mut Interpreter, Value) -> EvalResult<ControlFlow<()>>,
    ) -> EvalResult<()> {
        // A block must own its data, so all elements are collected before the first visit. The limits end an
        // endless iteration.
        let values = Rc::new(RefCell::new(Vec::new()));
        let sink = Rc::clone(&values);
        let charge = Rc::new(Charge::default());
        let block_charge = Rc::clone(&charge);
        let block = Value::native_block(move |interpreter, args| {
            interpreter.step(1)?;
            block_charge.grow(2 * VALUE_BYTES);
            let mut args = args;
            let value = if args.len() == 1 { args.swap_remove(0) } else { Value::array(args) };
            sink.borrow_mut().push(value);
            Ok(Value::Nil)
        });
        self.run_each(receiver, block)?;
        let items = values.take();
        for item in items {
            if visit(self, item)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Calls `each` with a block, or for an enumerator its stored method.
    pub(crate) fn run_each(&mut self, receiver: &Value, block: Value) -> EvalResult<Value> {
        if let Value::Object(object) = receiver {
            let call = match &*object.data.borrow() {
                Data::Enumerator { receiver: stored_receiver, method, args, .. } => {
                    Some((stored_receiver.clone(), method.clone(), args.clone()))
                }
                _ => None,
            };
            if let Some((stored_receiver, method, args)) = call {
                return self.call_private(&stored_receiver, &method, Args::with_block(args, block));
            }
        }
        self.call_with_args(receiver, "each", Args::with_block(Vec::new(), block))
    }

    /// Returns the elements of a collection.
    pub(crate) fn collect(&mut self, receiver: &Value) -> EvalResult<Vec<Value>> {
        if let Value::Array(array) = receiver {
            return Ok(array.to_vec());
        }
        let mut items = Vec::new();
        self.each(receiver, &mut |interpreter, item| {
            interpreter.use_scratch(2 * VALUE_BYTES)?;
            items.push(item);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(items)
    }

    pub(crate) fn call_enumerable_method(
        &mut self,
        receiver: &Value,
        name: &str,
        args: &Args,
    ) -> EvalResult<Option<Value>> {
        if let Some(value) = self.call_enumerable_search(receiver, name, args)? {
            return Ok(Some(value));
        }
        let block = args.block.as_ref();
        // Methods that return an enumerator when they are called without a block.
        const ENUMERATOR_METHODS: &[&str] = &[
            "map",
            "collect",
            "flat_map",
            "collect_concat",
            "select",
            "filter",
            "reject",
            "each_with_index",
            "each_entry",
            "each_slice",
            "each_cons",
            "each_with_object",
            "group_by",
            "partition",
            "min_by",
            "max_by",
            "minmax_by",
            "sort_by",
            "filter_map",
            "reverse_each",
            "chunk",
            "find_all",
        ];
        if block.is_none() && ENUMERATOR_METHODS.contains(&name) {
            if matches!(name, "each_with_index" | "reverse_each") && !args.is_empty() {
                return Err(self.unsupported_error(format!("{name} with arguments")));
            }
            return self.create_enumerator(receiver, name, args.list.clone()).map(Some);
        }
        Ok(Some(match name {
            "to_a" | "entries" | "force" => Value::array(self.collect(receiver)?),
            "map" | "collect" => {
                let block = self.block_arg(args)?;
                let mut results = Vec::new();
                self.each(receiver, &mut |interpreter, item| {
                    interpreter.use_scratch(2 * VALUE_BYTES)?;
                    results.push(interpreter.yield_one(&block, item)?);
                    Ok(ControlFlow::Continue(()))
                })?;
                Value::array(results)
            }
            "flat_map" | "collect_concat" => {
                let block = self.block_arg(args)?;
                let mut results = Vec::new();
                for item in self.collect(receiver)? {
                    match self.yield_one(&block, item)? {
                        Value::Array(list) => {
                            self.use_scratch(list.len() * 2 * VALUE_BYTES)?;
                            results.extend(list.to_vec());
                        }
                        other => {
                            self.use_scratch(2 * VALUE_BYTES)?;
                            results.push(other);
                        }
                    }
                }
                Value::array(results)
            }
            "select" | "filter" | "find_all" | "reject" => {
                let block = self.block_arg(args)?;
                let mut selected_items = Vec::new();
                for item in self.collect(receiver)? {
                    if self.yield_one(&block, item.clone())?.is_truthy() == (name != "reject") {
                        selected_items.push(item);
                    }
                }
                Value::array(selected_items)
            }
            "filter_map" => {
                let block = self.block_arg(args)?;
                let mut results = Vec::new();
                for item in self.collect(receiver)? {
                    let value = self.yield_one(&block, item)?;
                    if value.is_truthy() {
                        results.push(value);
                    }
                }
                Value::array(results)
            }
            "each_entry" => {
                let block = self.block_arg(args)?;
                for item in self.collect(receiver)? {
                    self.yield_one(&block, item)?;
                }
                receiver.clone()
            }
            "each_with_index" | "reverse_each" if !args.is_empty() => {
                return Err(self.unsupported_error(format!("{name} with arguments")));
            }
            "each_with_index" | "each_with_object" => {
                let block = self.block_arg(args)?;
                let object = args.get(0).cloned();
                let mut index = 0;
                self.each(receiver, &mut |interpreter, item| {
                    let second = match &object {
                        Some(object) if name == "each_with_object" => object.clone(),
                        _ => Value::Int(index),
                    };
                    index += 1;
                    interpreter.yield_to(&block, vec![item, second])?;
                    Ok(ControlFlow::Continue(()))
                })?;
                match object {
                    Some(object) if name == "each_with_object" => object,
                    _ => receiver.clone(),
                }
            }
            "reverse_each" => {
                let block = self.block_arg(args)?;
                for item in self.collect(receiver)?.into_iter().rev() {
                    self.yield_one(&block, item)?;
                }
                receiver.clone()
            }
            "each_slice" | "each_cons" => {
                let size = self.int_or(args, 0, 0)?;
                if size <= 0 {
                    let unit = if name == "each_slice" { "slice" } else { "" };
                    return self.raise_argument_error(format!("invalid {unit} size").replace("  ", " "));
                }
                let block = self.block_arg(args)?;
                let items = self.collect(receiver)?;
                let size = size as usize;
                if name == "each_slice" {
                    for chunk in items.chunks(size) {
                        self.yield_one(&block, Value::array(chunk.to_vec()))?;
                    }
                } else {
                    for window in items.windows(size) {
                        self.yield_one(&block, Value::array(window.to_vec()))?;
                    }
                }
                receiver.clone()
            }
            "inject" | "reduce" => self.inject(receiver, args)?,
            "sum" => self.sum(receiver, args)?,
            "group_by" => {
                let block = self.block_arg(args)?;
                let groups = RHash::default();
                for item in self.collect(receiver)? {
                    let key = self.yield_one(&block, item.clone())?;
                    match groups.get(&key) {
                        Some(Value::Array(list)) => list.push(item),
                        _ => groups.insert(key, Value::array(vec![item])),
                    }
                }
                Value::hash(groups)
            }
            "partition" => {
                let block = self.block_arg(args)?;
                let (mut yes, mut no) = (Vec::new(), Vec::new());
                for item in self.collect(receiver)? {
                    let is_match = self.yield_one(&block, item.clone())?.is_truthy();
                    if is_match { yes.push(item) } else { no.push(item) }
                }
                Value::array(vec![Value::array(yes), Value::array(no)])
            }
            "tally" if !args.is_empty() => return Err(self.unsupported_error("tally into a hash")),
            "tally" => {
                let counts = RHash::default();
                for item in self.collect(receiver)? {
                    let count = match counts.get(&item) {
                        Some(Value::Int(count)) => count + 1,
                        _ => 1,
                    };
                    counts.insert(item, Value::Int(count));
                }
                Value::hash(counts)
            }
            "sort" => {
                let items = self.collect(receiver)?;
                Value::array(self.sort_values(items, block)?)
            }
            "sort_by" => {
                let block = self.block_arg(args)?;
                let mut keyed_items = Vec::new();
                for item in self.collect(receiver)? {
                    let key = self.yield_one(&block, item.clone())?;
                    keyed_items.push(Value::array(vec![key, item]));
                }
                let sorted_pairs = self.sort_with(keyed_items, |interpreter, a, b| {
                    interpreter.compare_or_raise(&first(a), &first(b))
                })?;
                Value::array(sorted_pairs.iter().map(second).collect())
            }
            "min" | "max" | "min_by" | "max_by" | "minmax" | "minmax_by" => {
                self.min_max(receiver, name, args)?
            }
            "zip" => {
                let items = self.collect(receiver)?;
                let mut other_lists = Vec::new();
                for other in &args.list {
                    other_lists.push(self.collect(other)?);
                }
                let rows: Vec<Value> = items
                    .into_iter()
                    .enumerate()
                    .map(|(index, item)| {
                        let mut row = vec![item];
                        row.extend(
                            other_lists.iter().map(|other| other.get(index).cloned().unwrap_or(Value::Nil)),
                        );
                        Value::array(row)
                    })
                    .collect();
                match block {
                    Some(block) => {
                        for row in rows {
                            self.yield_one(block, row)?;
                        }
                        Value::Nil
                    }
                    None => Value::array(rows),
                }
            }
            "uniq" => {
                let items = self.collect(receiver)?;
                Value::array(self.remove_duplicates(items, block)?)
            }
            "to_h" => {
                let hash = RHash::default();
                for item in self.collect(receiver)? {
                    let pair = match block {
                        Some(block) => self.yield_one(block, item)?,
                        None => item,
                    };
                    match &pair {
                        Value::Array(pair) if pair.len() == 2 => {
                            hash.insert(pair.get(0).unwrap_or(Value::Nil), pair.get(1).unwrap_or(Value::Nil));
                        }
                        Value::Array(pair) => {
                            let length = pair.len();
                            let text = format!(
                                "{} (expected 2, was {length})",
                                if block.is_some() {
                                    "element has wrong array length"
                                } else {
                                    "wrong array length at 0"
                                }
                            );
                            return self.raise_argument_error(text);
                        }
                        other => {
                            let class = self.class_of(other).label();
                            return self
                                .raise_type_error(format!("wrong element type {class} (expected array)"));
                        }
                    }
                }
                Value::hash(hash)
            }
            "to_set" if !args.is_empty() => return Err(self.unsupported_error("to_set with arguments")),
            "to_set" => {
                let mut items = self.collect(receiver)?;
                if let Some(block) = &args.block {
                    for item in &mut items {
                        *item = self.yield_one(block, item.clone())?;
                    }
                }
                self.create_set(items)
            }
            "each_index" => return Ok(None),
            "chunk_while" | "slice_when" if block.is_none() => {
                return self.raise_argument_error("wrong number of arguments (given 0, expected 1)");
            }
            "chunk_while" | "slice_when" => {
                let block = self.block_arg(args)?;
                let mut chunks: Vec<Value> = Vec::new();
                let mut chunk: Vec<Value> = Vec::new();
                for item in self.collect(receiver)? {
                    if let Some(last) = chunk.last() {
                        let is_match = self.yield_to(&block, vec![last.clone(), item.clone()])?.is_truthy();
                        if is_match == (name == "slice_when") {
                            chunks.push(Value::array(std::mem::take(&mut chunk)));
                        }
                    }
                    chunk.push(item);
                }
                if !chunk.is_empty() {
                    chunks.push(Value::array(chunk));
                }
                let list = Value::array(chunks);
                self.create_enumerator(&list, "each", Vec::new())?
            }
            "lazy" => self.create_lazy_enumerator(receiver)?,
            _ => return Ok(None),
        }))
    }

    /// Returns true for the exception `StopIteration`, which ends `loop`.
    pub(crate) fn ends_iteration(&mut self, flow: &Flow) -> bool {
        self.is_exception(flow, "StopIteration")
    }
}
