//! Iteration, and the methods every collection has.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::ops::ControlFlow;
use std::rc::Rc;

use crate::template::eval::{Args, Flow, Interp, R};
use crate::template::value::{Data, ProcKind, RHash, Value};

impl Interp {
    /// Visits the elements of a collection until told to stop.
    pub(in crate::template) fn each(
        &mut self,
        over: &Value,
        visit: &mut dyn FnMut(&mut Interp, Value) -> R<ControlFlow<()>>,
    ) -> R<()> {
        match over {
            Value::Array(array) => {
                let mut index = 0;
                // The array may change on the way.
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
                    Data::Fields(fields) => Some(fields.clone()),
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
                self.each_by_method(over, visit)
            }
            other => {
                let class = self.class_of(other).label();
                self.type_error(format!("can't iterate from {class}"))
            }
        }
    }

    /// Visits by calling `each` (or what an enumerator stands for) with a block.
    fn each_by_method(
        &mut self,
        over: &Value,
        visit: &mut dyn FnMut(&mut Interp, Value) -> R<ControlFlow<()>>,
    ) -> R<()> {
        // A block must own what it uses, so elements are gathered first; a bound keeps endless ones finite.
        let gathered = Rc::new(RefCell::new(Vec::new()));
        let sink = Rc::clone(&gathered);
        let block = Value::native(move |it, args| {
            it.step(1)?;
            it.charge(32)?;
            let mut args = args;
            let value = if args.len() == 1 { args.swap_remove(0) } else { Value::array(args) };
            sink.borrow_mut().push(value);
            Ok(Value::Nil)
        });
        self.run_each(over, block)?;
        let items = gathered.take();
        for item in items {
            if visit(self, item)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Calls `each`, or for an enumerator the method it stands for, with this block.
    pub(in crate::template) fn run_each(&mut self, over: &Value, block: Value) -> R<Value> {
        if let Value::Object(object) = over {
            let call = match &*object.data.borrow() {
                Data::Enumerator { receiver, method, args, .. } => {
                    Some((receiver.clone(), method.clone(), args.clone()))
                }
                _ => None,
            };
            if let Some((receiver, method, args)) = call {
                return self.call_any(&receiver, &method, Args::with_block(args, block));
            }
        }
        self.call_with(over, "each", Args::with_block(Vec::new(), block))
    }

    /// The elements of a collection.
    pub(in crate::template) fn collect(&mut self, over: &Value) -> R<Vec<Value>> {
        if let Value::Array(array) = over {
            return Ok(array.to_vec());
        }
        let mut items = Vec::new();
        self.each(over, &mut |it, item| {
            it.charge(16)?;
            items.push(item);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(items)
    }

    /// The methods of Enumerable.
    pub(in crate::template) fn enumerable_method(
        &mut self,
        over: &Value,
        name: &str,
        args: &Args,
    ) -> R<Option<Value>> {
        if let Some(value) = self.enumerable_search(over, name, args)? {
            return Ok(Some(value));
        }
        let block = args.block.as_ref();
        // Without a block these make an enumerator.
        const ENUMERATING: &[&str] = &[
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
            "sum_by",
            "reverse_each",
            "chunk_while",
            "slice_when",
            "chunk",
            "uniq_by",
            "find_all",
        ];
        if block.is_none() && ENUMERATING.contains(&name) {
            return self.enumerator(over, name, args.list.clone()).map(Some);
        }
        Ok(Some(match name {
            "to_a" | "entries" | "force" => Value::array(self.collect(over)?),
            "map" | "collect" => {
                let block = self.block(args)?;
                let mut out = Vec::new();
                self.each(over, &mut |it, item| {
                    it.charge(16)?;
                    out.push(it.yield_one(&block, item)?);
                    Ok(ControlFlow::Continue(()))
                })?;
                Value::array(out)
            }
            "flat_map" | "collect_concat" => {
                let block = self.block(args)?;
                let mut out = Vec::new();
                for item in self.collect(over)? {
                    match self.yield_one(&block, item)? {
                        Value::Array(list) => out.extend(list.to_vec()),
                        other => out.push(other),
                    }
                    self.charge(16)?;
                }
                Value::array(out)
            }
            "select" | "filter" | "find_all" | "reject" => {
                let block = self.block(args)?;
                let mut out = Vec::new();
                for item in self.collect(over)? {
                    if self.yield_one(&block, item.clone())?.truthy() == (name != "reject") {
                        out.push(item);
                    }
                }
                Value::array(out)
            }
            "filter_map" => {
                let block = self.block(args)?;
                let mut out = Vec::new();
                for item in self.collect(over)? {
                    let value = self.yield_one(&block, item)?;
                    if value.truthy() {
                        out.push(value);
                    }
                }
                Value::array(out)
            }
            "each_entry" => {
                let block = self.block(args)?;
                for item in self.collect(over)? {
                    self.yield_one(&block, item)?;
                }
                over.clone()
            }
            "each_with_index" | "each_with_object" => {
                let block = self.block(args)?;
                let object = args.get(0).cloned();
                let mut index = 0;
                self.each(over, &mut |it, item| {
                    let second = match &object {
                        Some(object) if name == "each_with_object" => object.clone(),
                        _ => Value::Int(index),
                    };
                    index += 1;
                    it.yield_to(&block, vec![item, second])?;
                    Ok(ControlFlow::Continue(()))
                })?;
                match object {
                    Some(object) if name == "each_with_object" => object,
                    _ => over.clone(),
                }
            }
            "reverse_each" => {
                let block = self.block(args)?;
                for item in self.collect(over)?.into_iter().rev() {
                    self.yield_one(&block, item)?;
                }
                over.clone()
            }
            "each_slice" | "each_cons" => {
                let size = self.int_or(args, 0, 0)?;
                if size <= 0 {
                    let what = if name == "each_slice" { "slice" } else { "" };
                    return self.argument_error(format!("invalid {what} size").replace("  ", " "));
                }
                let block = self.block(args)?;
                let items = self.collect(over)?;
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
                over.clone()
            }
            "inject" | "reduce" => self.inject(over, args)?,
            "sum" => self.sum(over, args)?,
            "group_by" => {
                let block = self.block(args)?;
                let groups = RHash::default();
                for item in self.collect(over)? {
                    let key = self.yield_one(&block, item.clone())?;
                    match groups.get(&key) {
                        Some(Value::Array(list)) => list.items.borrow_mut().push(item),
                        _ => groups.insert(key, Value::array(vec![item])),
                    }
                }
                Value::hash(groups)
            }
            "partition" => {
                let block = self.block(args)?;
                let (mut yes, mut no) = (Vec::new(), Vec::new());
                for item in self.collect(over)? {
                    let hit = self.yield_one(&block, item.clone())?.truthy();
                    if hit { yes.push(item) } else { no.push(item) }
                }
                Value::array(vec![Value::array(yes), Value::array(no)])
            }
            "tally" => {
                let counts = RHash::default();
                for item in self.collect(over)? {
                    let count = match counts.get(&item) {
                        Some(Value::Int(count)) => count + 1,
                        _ => 1,
                    };
                    counts.insert(item, Value::Int(count));
                }
                Value::hash(counts)
            }
            "sort" => {
                let items = self.collect(over)?;
                Value::array(self.sort_values(items, block)?)
            }
            "sort_by" => {
                let block = self.block(args)?;
                let mut keyed = Vec::new();
                for item in self.collect(over)? {
                    let key = self.yield_one(&block, item.clone())?;
                    keyed.push(Value::array(vec![key, item]));
                }
                let sorted = self.sort_with(keyed, |it, a, b| it.order(&first(a), &first(b)))?;
                Value::array(sorted.iter().map(second).collect())
            }
            "min" | "max" | "min_by" | "max_by" | "minmax" | "minmax_by" => self.extreme(over, name, args)?,
            "zip" => {
                let items = self.collect(over)?;
                let mut others = Vec::new();
                for other in &args.list {
                    others.push(self.collect(other)?);
                }
                let rows: Vec<Value> = items
                    .into_iter()
                    .enumerate()
                    .map(|(index, item)| {
                        let mut row = vec![item];
                        row.extend(
                            others.iter().map(|other| other.get(index).cloned().unwrap_or(Value::Nil)),
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
                let items = self.collect(over)?;
                Value::array(self.unique(items, block)?)
            }
            "to_h" => {
                let hash = RHash::default();
                for item in self.collect(over)? {
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
                            return self.argument_error(text);
                        }
                        other => {
                            let class = self.class_of(other).label();
                            return self.type_error(format!("wrong element type {class} (expected array)"));
                        }
                    }
                }
                Value::hash(hash)
            }
            "to_set" => {
                let mut items = self.collect(over)?;
                if let Some(block) = &args.block {
                    for item in &mut items {
                        *item = self.yield_one(block, item.clone())?;
                    }
                }
                self.new_set(items)
            }
            "each_index" => return Ok(None),
            "chunk_while" | "slice_when" => {
                let block = self.block(args)?;
                let mut chunks: Vec<Value> = Vec::new();
                let mut chunk: Vec<Value> = Vec::new();
                for item in self.collect(over)? {
                    if let Some(last) = chunk.last() {
                        let hit = self.yield_to(&block, vec![last.clone(), item.clone()])?.truthy();
                        if hit == (name == "slice_when") {
                            chunks.push(Value::array(std::mem::take(&mut chunk)));
                        }
                    }
                    chunk.push(item);
                }
                if !chunk.is_empty() {
                    chunks.push(Value::array(chunk));
                }
                let list = Value::array(chunks);
                self.enumerator(&list, "each", Vec::new())?
            }
            "lazy" => self.lazy(over)?,
            _ => return Ok(None),
        }))
    }

    fn enumerable_search(&mut self, over: &Value, name: &str, args: &Args) -> R<Option<Value>> {
        let block = args.block.as_ref();
        Ok(Some(match name {
            "include?" | "member?" => {
                let wanted = self.arg(args, 0)?;
                let mut found = false;
                self.each(over, &mut |it, item| {
                    found = it.equal(&item, &wanted)?;
                    Ok(if found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
                })?;
                Value::Bool(found)
            }
            "find" | "detect" | "find_index" => {
                if block.is_none() && (args.is_empty() || name != "find_index") {
                    return self.enumerator(over, name, args.list.clone()).map(Some);
                }
                let mut found = Value::Nil;
                let mut index = 0;
                self.each(over, &mut |it, item| {
                    let hit = match (block, args.get(0)) {
                        (_, Some(wanted)) if name == "find_index" => it.equal(&item, wanted)?,
                        (Some(block), _) => it.yield_one(block, item.clone())?.truthy(),
                        _ => false,
                    };
                    if hit {
                        found = if name == "find_index" { Value::Int(index) } else { item };
                        return Ok(ControlFlow::Break(()));
                    }
                    index += 1;
                    Ok(ControlFlow::Continue(()))
                })?;
                found
            }
            "any?" | "all?" | "none?" | "one?" => {
                let mut hits = 0;
                let mut misses = 0;
                self.each(over, &mut |it, item| {
                    let hit = match (args.get(0), block) {
                        (Some(pattern), _) => it.case_equal(pattern, &item, None)?,
                        (None, Some(block)) => it.yield_one(block, item)?.truthy(),
                        (None, None) => item.truthy(),
                    };
                    if hit {
                        hits += 1
                    } else {
                        misses += 1
                    }
                    let done = match name {
                        "any?" | "none?" => hits > 0,
                        "all?" => misses > 0,
                        _ => hits > 1,
                    };
                    Ok(if done { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
                })?;
                Value::Bool(match name {
                    "any?" => hits > 0,
                    "none?" => hits == 0,
                    "all?" => misses == 0,
                    _ => hits == 1,
                })
            }
            "count" => {
                let mut count = 0;
                self.each(over, &mut |it, item| {
                    let hit = match (args.get(0), block) {
                        (Some(wanted), _) => it.equal(&item, wanted)?,
                        (None, Some(block)) => it.yield_one(block, item)?.truthy(),
                        (None, None) => true,
                    };
                    count += i64::from(hit);
                    Ok(ControlFlow::Continue(()))
                })?;
                Value::Int(count)
            }
            "first" | "take" => {
                let wanted = match args.get(0) {
                    Some(count) => Some(self.int_arg(&count.clone())?),
                    None if name == "take" => return Ok(Some(self.arg(args, 0)?)),
                    None => None,
                };
                if wanted.is_some_and(|wanted| wanted < 0) {
                    return self.argument_error("attempt to take negative size");
                }
                let limit = wanted.unwrap_or(1) as usize;
                let mut items = Vec::new();
                if limit > 0 {
                    self.each(over, &mut |_, item| {
                        items.push(item);
                        Ok(if items.len() >= limit {
                            ControlFlow::Break(())
                        } else {
                            ControlFlow::Continue(())
                        })
                    })?;
                }
                match wanted {
                    Some(_) => Value::array(items),
                    None => items.into_iter().next().unwrap_or(Value::Nil),
                }
            }
            "drop" => {
                let count = self.int_or(args, 0, 0)?;
                if count < 0 {
                    return self.argument_error("attempt to drop negative size");
                }
                Value::array(self.collect(over)?.into_iter().skip(count as usize).collect())
            }
            "take_while" | "drop_while" => {
                let block = self.block(args)?;
                let take = name == "take_while";
                let mut items = Vec::new();
                let mut dropping = true;
                self.each(over, &mut |it, item| {
                    if take {
                        if !it.yield_one(&block, item.clone())?.truthy() {
                            return Ok(ControlFlow::Break(()));
                        }
                        items.push(item);
                    } else {
                        if dropping {
                            dropping = it.yield_one(&block, item.clone())?.truthy();
                        }
                        if !dropping {
                            items.push(item);
                        }
                    }
                    Ok(ControlFlow::Continue(()))
                })?;
                Value::array(items)
            }
            "grep" | "grep_v" => {
                let pattern = self.arg(args, 0)?;
                let mut items = Vec::new();
                // The block sees what the pattern matched.
                let env = match block {
                    Some(Value::Proc(block)) => match &block.kind {
                        ProcKind::Block { env, .. } => Some(Rc::clone(env)),
                        _ => None,
                    },
                    _ => None,
                };
                for item in self.collect(over)? {
                    if self.case_equal(&pattern, &item, env.as_ref())? == (name == "grep") {
                        items.push(match block {
                            Some(block) => self.yield_one(block, item)?,
                            None => item,
                        });
                    }
                }
                Value::array(items)
            }
            "cycle" if block.is_none() => return Err(self.unsupported("cycle without a block")),
            "cycle" => {
                let block = self.block(args)?;
                let rounds = match args.get(0) {
                    Some(Value::Nil) | None => i64::MAX,
                    Some(count) => self.int_arg(&count.clone())?,
                };
                let items = self.collect(over)?;
                let mut round = 0;
                while round < rounds && !items.is_empty() {
                    for item in &items {
                        self.yield_one(&block, item.clone())?;
                    }
                    round += 1;
                }
                Value::Nil
            }
            _ => return Ok(None),
        }))
    }

    fn inject(&mut self, over: &Value, args: &Args) -> R<Value> {
        let (mut total, operator) = match (args.list.as_slice(), &args.block) {
            ([operator], None) => (None, Some(self.name_arg(operator)?)),
            ([start, operator], _) => (Some(start.clone()), Some(self.name_arg(operator)?)),
            ([start], Some(_)) => (Some(start.clone()), None),
            _ => (None, None),
        };
        for item in self.collect(over)? {
            total = Some(match total {
                None => item,
                Some(total) => match (&operator, &args.block) {
                    (Some(operator), _) => self.call(&total, operator, vec![item])?,
                    (None, Some(block)) => self.yield_to(block, vec![total, item])?,
                    (None, None) => return Err(self.error("LocalJumpError", "no block given")),
                },
            });
        }
        Ok(total.unwrap_or(Value::Nil))
    }

    fn sum(&mut self, over: &Value, args: &Args) -> R<Value> {
        let mut total = args.get(0).cloned().unwrap_or(Value::Int(0));
        // Floats are added with compensation, as Ruby does.
        let mut compensation = 0.0;
        let mut floating = matches!(total, Value::Float(_));
        for item in self.collect(over)? {
            let item = match &args.block {
                Some(block) => self.yield_one(block, item)?,
                None => item,
            };
            match (&total, &item) {
                (Value::Int(_) | Value::Float(_), Value::Float(_)) => floating = true,
                (Value::Float(_), Value::Int(_)) => {}
                _ => floating = false,
            }
            if floating {
                let (sum, next) = (super::compare::to_f64(&total), super::compare::to_f64(&item));
                let new = sum + next;
                compensation += if sum.abs() >= next.abs() { (sum - new) + next } else { (next - new) + sum };
                total = Value::Float(new);
            } else {
                total = self.call(&total, "+", vec![item])?;
            }
        }
        match total {
            Value::Float(float) if floating && compensation != 0.0 => Ok(Value::Float(float + compensation)),
            other => Ok(other),
        }
    }

    /// Sorted by `<=>` or by a block.
    pub(in crate::template) fn sort_values(
        &mut self,
        items: Vec<Value>,
        block: Option<&Value>,
    ) -> R<Vec<Value>> {
        match block {
            None => self.sort_with(items, |it, a, b| it.order(a, b)),
            Some(block) => {
                let block = block.clone();
                self.sort_with(items, move |it, a, b| it.block_order(&block, a, b))
            }
        }
    }

    fn block_order(&mut self, block: &Value, a: &Value, b: &Value) -> R<Ordering> {
        match self.yield_to(block, vec![a.clone(), b.clone()])? {
            Value::Nil => {
                let (left, right) = (self.class_of(a).label(), self.class_of(b).label());
                self.argument_error(format!("comparison of {left} with {right} failed"))
            }
            Value::Float(float) => Ok(float.partial_cmp(&0.0).unwrap_or(Ordering::Equal)),
            other => Ok(self.int_arg(&other)?.cmp(&0)),
        }
    }

    /// Without repetitions.
    pub(in crate::template) fn unique(&mut self, items: Vec<Value>, block: Option<&Value>) -> R<Vec<Value>> {
        let seen = RHash::default();
        let mut out = Vec::new();
        for item in items {
            let key = match block {
                Some(block) => self.yield_one(block, item.clone())?,
                None => item.clone(),
            };
            if seen.get(&key).is_none() {
                seen.insert(key, Value::Bool(true));
                out.push(item);
            }
        }
        Ok(out)
    }

    fn extreme(&mut self, over: &Value, name: &str, args: &Args) -> R<Value> {
        let items = self.collect(over)?;
        let by = name.ends_with("_by");
        let block = args.block.clone();
        let mut keyed = Vec::with_capacity(items.len());
        for item in items {
            let key = match &block {
                Some(block) if by => self.yield_one(block, item.clone())?,
                _ => item.clone(),
            };
            keyed.push((key, item));
        }
        let order = |it: &mut Interp, a: &Value, b: &Value| -> R<Ordering> {
            match &block {
                Some(block) if !by => it.block_order(block, a, b),
                _ => it.order(a, b),
            }
        };
        if let Some(count) = args.get(0) {
            let count = self.int_arg(&count.clone())?.max(0) as usize;
            let pairs = keyed.into_iter().map(|(key, item)| Value::array(vec![key, item])).collect();
            let sorted = self.sort_with(pairs, |it, a, b| {
                let found = order(it, &first(a), &first(b))?;
                Ok(if name.starts_with("max") { found.reverse() } else { found })
            })?;
            return Ok(Value::array(sorted.iter().take(count).map(second).collect()));
        }
        let mut least: Option<(Value, Value)> = None;
        let mut most: Option<(Value, Value)> = None;
        for (key, item) in keyed {
            let replace = match &least {
                None => true,
                Some((best, _)) => order(self, &key, best)? == Ordering::Less,
            };
            if replace {
                least = Some((key.clone(), item.clone()));
            }
            let replace = match &most {
                None => true,
                Some((best, _)) => order(self, best, &key)? == Ordering::Less,
            };
            if replace {
                most = Some((key, item));
            }
        }
        let least = least.map_or(Value::Nil, |(_, item)| item);
        let most = most.map_or(Value::Nil, |(_, item)| item);
        Ok(if name.starts_with("minmax") {
            Value::array(vec![least, most])
        } else if name.starts_with("min") {
            least
        } else {
            most
        })
    }

    /// `loop` and friends end at `StopIteration`.
    pub(in crate::template) fn ends_iteration(&mut self, flow: &Flow) -> bool {
        self.raised(flow, "StopIteration")
    }
}

fn first(pair: &Value) -> Value {
    match pair {
        Value::Array(pair) => pair.get(0).unwrap_or(Value::Nil),
        _ => Value::Nil,
    }
}

fn second(pair: &Value) -> Value {
    match pair {
        Value::Array(pair) => pair.get(1).unwrap_or(Value::Nil),
        _ => Value::Nil,
    }
}
