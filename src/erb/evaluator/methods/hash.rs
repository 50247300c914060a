//! Methods of Hash.

use std::rc::Rc;

use crate::evaluator::eval::{Args, EvalResult, Interpreter};
use crate::evaluator::value::{RHash, Value};

const EDIT_METHODS: &[&str] = &[
    "[]=",
    "store",
    "delete",
    "delete_if",
    "reject!",
    "select!",
    "filter!",
    "keep_if",
    "merge!",
    "update",
    "replace",
    "clear",
    "shift",
    "transform_values!",
    "transform_keys!",
    "compact!",
    "default=",
    "default_proc=",
    "compare_by_identity",
    "rehash",
];

impl Interpreter {
    /// Returns `hash[key]`, or the hash's default if the key is missing.
    pub(crate) fn look_up_in_hash(&mut self, hash: &Rc<RHash>, key: &Value) -> EvalResult<Value> {
        if let Some(value) = hash.get(key) {
            return Ok(value);
        }
        self.hash_default(hash, key)
    }

    fn hash_default(&mut self, hash: &Rc<RHash>, key: &Value) -> EvalResult<Value> {
        let block = hash.default_proc.borrow().clone();
        match block {
            Some(block) => self.yield_to(&block, vec![Value::Hash(Rc::clone(hash)), key.clone()]),
            None => Ok(hash.default.borrow().clone().unwrap_or(Value::Nil)),
        }
    }

    /// Calls a method of Hash. Returns `None` if Hash does not implement it.
    pub(super) fn call_hash_method(
        &mut self,
        hash: &Rc<RHash>,
        name: &str,
        args: &Args,
    ) -> EvalResult<Option<Value>> {
        let receiver = Value::Hash(Rc::clone(hash));
        if EDIT_METHODS.contains(&name) {
            return self.call_hash_edit(hash, name, args).map(Some);
        }
        let block = args.block.as_ref();
        const ENUMERATOR_METHODS: &[&str] = &[
            "each",
            "each_pair",
            "select",
            "filter",
            "reject",
            "map",
            "collect",
            "flat_map",
            "each_key",
            "each_value",
            "transform_values",
            "filter_map",
            "partition",
            "group_by",
            "min_by",
            "max_by",
            "sort_by",
            "each_with_index",
            "find_all",
        ];
        if block.is_none()
            && (ENUMERATOR_METHODS.contains(&name) || name == "transform_keys" && args.is_empty())
        {
            return self.create_enumerator(&receiver, name, args.list.clone()).map(Some);
        }
        Ok(Some(match name {
            "[]" => {
                let key = self.arg(args, 0)?;
                self.look_up_in_hash(hash, &key)?
            }
            "fetch" => {
                let key = self.arg(args, 0)?;
                match (hash.get(&key), block, args.get(1)) {
                    (Some(value), _, _) => value,
                    (None, Some(block), _) => self.yield_one(block, key)?,
                    (None, None, Some(default)) => default.clone(),
                    (None, None, None) => {
                        let key_text = self.inspect(&key)?;
                        return Err(self.detailed_error(
                            "KeyError",
                            format!("key not found: {key_text}"),
                            key,
                        ));
                    }
                }
            }
            "dig" => self.dig(&receiver, &args.list)?,
            "key?" | "has_key?" | "include?" | "member?" => {
                let key = self.arg(args, 0)?;
                Value::Bool(hash.get(&key).is_some())
            }
            "value?" | "has_value?" | "key" => {
                let value_to_find = self.arg(args, 0)?;
                let mut matching_key = None;
                for (key, value) in hash.pairs() {
                    if self.are_equal(&value, &value_to_find)? {
                        matching_key = Some(key);
                        break;
                    }
                }
                if name == "key" {
                    matching_key.unwrap_or(Value::Nil)
                } else {
                    Value::Bool(matching_key.is_some())
                }
            }
            "keys" => Value::array(hash.pairs().into_iter().map(|(key, _)| key).collect()),
            "values" => Value::array(hash.pairs().into_iter().map(|(_, value)| value).collect()),
            "values_at" => {
                let mut values = Vec::new();
                for key in &args.list {
                    values.push(self.look_up_in_hash(hash, key)?);
                }
                Value::array(values)
            }
            "fetch_values" => {
                let mut values = Vec::new();
                for key in &args.list {
                    values.push(self.call_with_args(
                        &receiver,
                        "fetch",
                        Args { list: vec![key.clone()], has_keywords: false, block: args.block.clone() },
                    )?);
                }
                Value::array(values)
            }
            "length" | "size" => Value::Int(hash.len() as i64),
            "count" if args.is_empty() && block.is_none() => Value::Int(hash.len() as i64),
            "empty?" => Value::Bool(hash.len() == 0),
            "each" | "each_pair" => {
                let block = self.block_arg(args)?;
                for (key, value) in hash.pairs() {
                    self.yield_one(&block, Value::array(vec![key, value]))?;
                }
                receiver
            }
            "each_key" | "each_value" => {
                let block = self.block_arg(args)?;
                for (key, value) in hash.pairs() {
                    self.yield_one(&block, if name == "each_key" { key } else { value })?;
                }
                receiver
            }
            "select" | "filter" | "reject" => {
                let block = self.block_arg(args)?;
                let selected_pairs = RHash::default();
                for (key, value) in hash.pairs() {
                    let is_match = self.yield_to(&block, vec![key.clone(), value.clone()])?.is_truthy();
                    if is_match == (name != "reject") {
                        selected_pairs.insert(key, value);
                    }
                }
                Value::hash(selected_pairs)
            }
            "partition" => {
                let block = self.block_arg(args)?;
                let (mut yes, mut no) = (Vec::new(), Vec::new());
                for (key, value) in hash.pairs() {
                    let pair = Value::array(vec![key, value]);
                    let is_match = self.yield_one(&block, pair.clone())?.is_truthy();
                    if is_match { yes.push(pair) } else { no.push(pair) }
                }
                Value::array(vec![Value::array(yes), Value::array(no)])
            }
            "any?" if args.is_empty() => {
                let Some(block) = block else { return Ok(Some(Value::Bool(hash.len() > 0))) };
                for (key, value) in hash.pairs() {
                    if self.yield_one(block, Value::array(vec![key, value]))?.is_truthy() {
                        return Ok(Some(Value::Bool(true)));
                    }
                }
                Value::Bool(false)
            }
            "transform_values" => {
                let block = self.block_arg(args)?;
                let new_hash = RHash::default();
                for (key, value) in hash.pairs() {
                    new_hash.insert(key, self.yield_one(&block, value)?);
                }
                Value::hash(new_hash)
            }
            "transform_keys" => {
                let names = args.get(0).cloned();
                if let Some(other) = names.as_ref().filter(|names| !matches!(names, Value::Hash(_))) {
                    return self.raise_conversion_error(other, "Hash");
                }
                let renamed_hash = RHash::default();
                for (key, value) in hash.pairs() {
                    let new_key = match &names {
                        Some(Value::Hash(names)) => names.get(&key),
                        _ => None,
                    };
                    let key = match (new_key, block) {
                        (Some(new_key), _) => new_key,
                        (None, Some(block)) => self.yield_one(block, key)?,
                        (None, None) => key,
                    };
                    renamed_hash.insert(key, value);
                }
                Value::hash(renamed_hash)
            }
            "to_h" => match block {
                Some(block) => {
                    let mut pairs = Vec::new();
                    for (key, value) in hash.pairs() {
                        pairs.push(self.yield_to(block, vec![key, value])?);
                    }
                    let pairs = Value::array(pairs);
                    self.call(&pairs, "to_h", Vec::new())?
                }
                None => receiver,
            },
            "to_hash" => receiver,
            "to_a" => Value::array(self.collect(&receiver)?),
            "to_s" | "inspect" => Value::str(self.inspect(&receiver)?),
            "merge" => {
                let copy = Rc::new(hash.copy());
                self.call_hash_edit(&copy, "merge!", args)?
            }
            "invert" => {
                Value::hash(RHash::from_pairs(hash.pairs().into_iter().map(|(key, value)| (value, key))))
            }
            "slice" => {
                let pairs = args.list.iter().filter_map(|key| Some((key.clone(), hash.get(key)?)));
                Value::hash(RHash::from_pairs(pairs))
            }
            "except" => {
                let copy = RHash::from_pairs(hash.pairs());
                for key in &args.list {
                    copy.remove(key);
                }
                Value::hash(copy)
            }
            "compact" => {
                Value::hash(RHash::from_pairs(hash.pairs().into_iter().filter(|(_, value)| !value.is_nil())))
            }
            "min_by" | "max_by" | "sort_by" | "group_by" | "sum" | "find" | "detect" | "all?" | "none?"
            | "count" | "flat_map" | "map" | "collect" | "filter_map" | "each_with_index"
            | "each_with_object" | "inject" | "reduce" | "find_all" => {
                return self.call_enumerable_method(&receiver, name, args);
            }
            "default" => match args.get(0) {
                Some(key) if hash.default_proc.borrow().is_some() => self.hash_default(hash, &key.clone())?,
                _ => hash.default.borrow().clone().unwrap_or(Value::Nil),
            },
            "default_proc" => hash.default_proc.borrow().clone().unwrap_or(Value::Nil),
            "flatten" => {
                let depth = self.int_or(args, 0, 1)?;
                let pairs = Value::array(self.collect(&receiver)?);
                self.call(&pairs, "flatten", vec![Value::Int(depth)])?
            }
            "assoc" | "rassoc" => {
                let item_to_find = self.arg(args, 0)?;
                let by_key = name == "assoc";
                if by_key && let Some(value) = hash.get(&item_to_find) {
                    return Ok(Some(Value::array(vec![item_to_find, value])));
                }
                // Unlike a lookup, this finds 0 for 0.0.
                for (key, value) in hash.pairs() {
                    if self.are_equal(if by_key { &key } else { &value }, &item_to_find)? {
                        return Ok(Some(Value::array(vec![key, value])));
                    }
                }
                Value::Nil
            }
            "<=" | ">=" | "<" | ">" => {
                let Value::Hash(other) = self.arg(args, 0)? else {
                    let other = self.arg(args, 0)?;
                    return self.raise_conversion_error(&other, "Hash");
                };
                let (small, large) = if name.starts_with('<') { (hash, &other) } else { (&other, hash) };
                let mut is_subset = name.len() == 2 || small.len() < large.len();
                for (key, value) in small.pairs() {
                    is_subset &= match large.get(&key) {
                        Some(other) => self.are_equal(&other, &value)?,
                        None => false,
                    };
                }
                Value::Bool(is_subset)
            }
            "compare_by_identity?" => Value::Bool(false),
            "to_proc" => {
                let hash = Rc::clone(hash);
                Value::native_block(move |interpreter, args| {
                    interpreter.look_up_in_hash(&hash, args.first().unwrap_or(&Value::Nil))
                })
            }
            "deconstruct_keys" => receiver,
            _ => return self.call_enumerable_method(&receiver, name, args),
        }))
    }

    /// Calls a method that changes the hash.
    fn call_hash_edit(&mut self, hash: &Rc<RHash>, name: &str, args: &Args) -> EvalResult<Value> {
        let receiver = Value::Hash(Rc::clone(hash));
        if hash.is_frozen.get() {
            return self.raise_frozen_error(&receiver);
        }
        const ENUMERATOR_METHODS: &[&str] = &[
            "select!",
            "filter!",
            "keep_if",
            "delete_if",
            "reject!",
            "transform_values!",
            "transform_keys!",
        ];
        if args.block.is_none() && args.is_empty() && ENUMERATOR_METHODS.contains(&name) {
            return self.create_enumerator(&receiver, name, Vec::new());
        }
        Ok(match name {
            "[]=" | "store" => {
                let (key, value) = (self.arg(args, 0)?, self.arg(args, 1)?);
                self.use_scratch(64)?;
                hash.insert(key, value.clone());
                value
            }
            "delete" => {
                let key = self.arg(args, 0)?;
                match (hash.remove(&key), &args.block) {
                    (Some(value), _) => value,
                    (None, Some(block)) => self.yield_one(block, key)?,
                    (None, None) => Value::Nil,
                }
            }
            "delete_if" | "reject!" | "select!" | "filter!" | "keep_if" => {
                let block = self.block_arg(args)?;
                let keeps_matches = matches!(name, "select!" | "filter!" | "keep_if");
                let mut has_changed = false;
                for (key, value) in hash.pairs() {
                    if self.yield_to(&block, vec![key.clone(), value])?.is_truthy() != keeps_matches {
                        hash.remove(&key);
                        has_changed = true;
                    }
                }
                if has_changed || !name.ends_with('!') { receiver } else { Value::Nil }
            }
            "merge!" | "update" => {
                for other in &args.list {
                    let pairs = match other {
                        Value::Hash(other) => other.pairs(),
                        other
                            if self.responds_to(other, "to_hash")
                                || self.responds_to(other, "to_h") && matches!(other, Value::Object(_)) =>
                        {
                            match self.call(other, "to_hash", Vec::new())? {
                                Value::Hash(other) => other.pairs(),
                                _ => return self.raise_conversion_error(other, "Hash"),
                            }
                        }
                        other => return self.raise_conversion_error(other, "Hash"),
                    };
                    self.use_scratch(pairs.len() * 64)?;
                    for (key, value) in pairs {
                        let value = match (&args.block, hash.get(&key)) {
                            (Some(block), Some(old)) => {
                                self.yield_to(block, vec![key.clone(), old, value])?
                            }
                            _ => value,
                        };
                        hash.insert(key, value);
                    }
                }
                receiver
            }
            "replace" => {
                let other = self.arg(args, 0)?;
                let Value::Hash(other) = &other else { return self.raise_conversion_error(&other, "Hash") };
                hash.replace(other);
                receiver
            }
            "clear" => {
                hash.map.borrow_mut().clear();
                receiver
            }
            "shift" => {
                let first_pair = hash.map.borrow_mut().shift_remove_index(0);
                first_pair.map_or(Value::Nil, |(key, value)| Value::array(vec![key.0, value]))
            }
            "transform_values!" | "transform_keys!" | "compact!" => {
                let plain_name = name.trim_end_matches('!');
                let old_length = hash.len();
                if let Some(Value::Hash(new)) = self.call_hash_method(hash, plain_name, args)? {
                    hash.replace(&new);
                }
                if name == "compact!" && hash.len() == old_length { Value::Nil } else { receiver }
            }
            "default=" => {
                let value = self.arg(args, 0)?;
                *hash.default_proc.borrow_mut() = None;
                *hash.default.borrow_mut() = Some(value.clone());
                value
            }
            "default_proc=" => {
                let value = self.arg(args, 0)?;
                *hash.default_proc.borrow_mut() = value.is_truthy().then(|| value.clone());
                value
            }
            "rehash" => receiver,
            _ => return Err(self.unsupported_error(format!("Hash#{name}"))),
        })
    }
}
