//! Enumerable methods that reduce a collection to one value or sort it.

use std::cmp::Ordering;

use super::compare::{is_number, to_f64};
use crate::evaluator::eval::{Args, EvalResult, Flow, Interpreter};
use crate::evaluator::value::{Key, RHash, Value};

impl Interpreter {
    /// Implements `inject` and `reduce`.
    pub(super) fn inject(&mut self, receiver: &Value, args: &Args) -> EvalResult<Value> {
        let (mut total, operator) = match (args.list.as_slice(), &args.block) {
            ([operator], None) => (None, Some(self.name_arg(operator)?)),
            ([start, operator], _) => (Some(start.clone()), Some(self.name_arg(operator)?)),
            ([start], Some(_)) => (Some(start.clone()), None),
            _ => (None, None),
        };
        for item in self.collect(receiver)? {
            total = Some(match total {
                None => item,
                Some(total) => match (&operator, &args.block) {
                    (Some(operator), _) => self.call(&total, operator, vec![item])?,
                    (None, Some(block)) => self.yield_to(block, vec![total, item])?,
                    (None, None) => return Err(self.ruby_error("LocalJumpError", "no block given")),
                },
            });
        }
        Ok(total.unwrap_or(Value::Nil))
    }

    /// Implements `sum`.
    pub(super) fn sum(&mut self, receiver: &Value, args: &Args) -> EvalResult<Value> {
        let mut total = args.get(0).cloned().unwrap_or(Value::Int(0));
        // Floats are added by the Kahan-Babuska algorithm, as in Ruby: the sum so far, and its compensation.
        let mut float_sum = match total {
            Value::Float(start) => Some((start, 0.0)),
            _ => None,
        };
        let mut has_items = false;
        for item in self.collect(receiver)? {
            has_items = true;
            let item = match &args.block {
                Some(block) => self.yield_one(block, item)?,
                None => item,
            };
            if let (Value::Int(_) | Value::Big(_), Value::Float(_), None) = (&total, &item, float_sum) {
                float_sum = Some((to_f64(&total), 0.0));
            }
            match (&mut float_sum, is_number(&item)) {
                (Some(sum), true) => add_float(sum, to_f64(&item)),
                (Some((sum, _)), false) => {
                    total = self.call(&Value::Float(*sum), "+", vec![item])?;
                    float_sum = None;
                }
                (None, _) => total = self.call(&total, "+", vec![item])?,
            }
        }
        match float_sum {
            Some((sum, compensation)) if has_items || !matches!(receiver, Value::Array(_)) => {
                Ok(Value::Float(sum + compensation))
            }
            _ => Ok(total),
        }
    }

    /// Sorts by a block, or by `<=>` without one.
    pub(crate) fn sort_values(&mut self, items: Vec<Value>, block: Option<&Value>) -> EvalResult<Vec<Value>> {
        match block {
            None => self.sort_with(items, |interpreter, a, b| interpreter.compare_or_raise(a, b)),
            Some(block) => {
                let block = block.clone();
                self.sort_with(items, move |interpreter, a, b| interpreter.compare_with_block(&block, a, b))
            }
        }
    }

    /// Compares two values by a block. Raises `ArgumentError` if the block returns nil.
    pub(super) fn compare_with_block(&mut self, block: &Value, a: &Value, b: &Value) -> EvalResult<Ordering> {
        match self.yield_to(block, vec![a.clone(), b.clone()])? {
            Value::Nil => {
                let (left, right) = (self.class_of(a).label(), self.class_of(b).label());
                self.raise_argument_error(format!("comparison of {left} with {right} failed"))
            }
            Value::Float(float) => Ok(float.partial_cmp(&0.0).unwrap_or(Ordering::Equal)),
            other => Ok(self.int_arg(&other)?.cmp(&0)),
        }
    }

    /// Removes repeated items. With a block, items are equal if the block returns equal values.
    pub(crate) fn remove_duplicates(
        &mut self,
        items: Vec<Value>,
        block: Option<&Value>,
    ) -> EvalResult<Vec<Value>> {
        let earlier_keys = RHash::default();
        let mut distinct_items = Vec::new();
        for item in items {
            let key = match block {
                Some(block) => self.yield_one(block, item.clone())?,
                None => item.clone(),
            };
            if earlier_keys.get(&key).is_none() {
                earlier_keys.insert(key, Value::Bool(true));
                distinct_items.push(item);
            }
        }
        Ok(distinct_items)
    }

    /// Implements `min`, `max`, `minmax` and their forms that end in `_by`.
    pub(super) fn min_max(&mut self, receiver: &Value, name: &str, args: &Args) -> EvalResult<Value> {
        let count = match args.get(0) {
            Some(count) if !count.is_nil() => Some(self.int_arg(&count.clone())?),
            _ => None,
        };
        match count {
            Some(count @ ..0) => return self.raise_argument_error(format!("negative size ({count})")),
            Some(0) => return Ok(Value::array(Vec::new())),
            _ => {}
        }
        let items = self.collect(receiver)?;
        let is_by_key = name.ends_with("_by");
        let block = args.block.clone();
        let mut keyed_items = Vec::with_capacity(items.len());
        for item in items {
            let key = match &block {
                Some(block) if is_by_key => self.yield_one(block, item.clone())?,
                _ => item.clone(),
            };
            keyed_items.push((key, item));
        }
        let order = |interpreter: &mut Interpreter, a: &Value, b: &Value| -> EvalResult<Ordering> {
            match &block {
                Some(block) if !is_by_key => interpreter.compare_with_block(block, a, b),
                _ => interpreter.compare_or_raise(a, b),
            }
        };
        if let Some(count) = count {
            let count = count as usize;
            let selects = count < keyed_items.len();
            let pairs = keyed_items.into_iter().map(|(key, item)| Value::array(vec![key, item])).collect();
            let mut sorted_pairs = self.sort_with(pairs, |interpreter, a, b| {
                let ordering = order(interpreter, &first(a), &first(b));
                let is_unclear = match &ordering {
                    Ok(order) => *order == Ordering::Equal && !is_alike(&second(a), &second(b)),
                    Err(flow) => matches!(flow, Flow::Raise(_)),
                };
                // Ruby compares only some of the items, in the order of its quicksort.
                if selects && is_unclear {
                    let text = format!("{name} with a number, and items that are equal or not comparable");
                    return Err(interpreter.unsupported_error(text));
                }
                ordering
            })?;
            if name.starts_with("max") {
                sorted_pairs.reverse();
            }
            return Ok(Value::array(sorted_pairs.iter().take(count).map(second).collect()));
        }
        let mut min: Option<(Value, Value)> = None;
        let mut max: Option<(Value, Value)> = None;
        for (key, item) in keyed_items {
            let replace = match &min {
                _ if name.starts_with("max") => false,
                None => true,
                Some((best_key, _)) => order(self, &key, best_key)? == Ordering::Less,
            };
            if replace {
                min = Some((key.clone(), item.clone()));
            }
            let replace = match &max {
                _ if !name.starts_with("max") && !name.starts_with("minmax") => false,
                None => true,
                Some((best_key, _)) => order(self, &key, best_key)? == Ordering::Greater,
            };
            if replace {
                max = Some((key, item));
            }
        }
        let min = min.map_or(Value::Nil, |(_, item)| item);
        let max = max.map_or(Value::Nil, |(_, item)| item);
        Ok(if name.starts_with("minmax") {
            Value::array(vec![min, max])
        } else if name.starts_with("min") {
            min
        } else {
            max
        })
    }
}

/// Returns true if a template cannot tell two items apart by their text.
fn is_alike(one: &Value, other: &Value) -> bool {
    one.is_same(other) || matches!(one, Value::Str(_)) && Key(one.clone()) == Key(other.clone())
}

/// Adds a float to a sum and its compensation.
fn add_float((sum, compensation): &mut (f64, f64), float: f64) {
    if sum.is_nan() {
        return;
    }
    if float.is_nan() || float.is_infinite() {
        let are_opposite = sum.is_infinite() && sum.is_sign_negative() != float.is_sign_negative();
        *sum = if are_opposite { f64::NAN } else { float };
        return;
    }
    if sum.is_infinite() {
        return;
    }
    let new_sum = *sum + float;
    *compensation +=
        if sum.abs() >= float.abs() { (*sum - new_sum) + float } else { (float - new_sum) + *sum };
    *sum = new_sum;
}

pub(super) fn first(pair: &Value) -> Value {
    match pair {
        Value::Array(pair) => pair.get(0).unwrap_or(Value::Nil),
        _ => Value::Nil,
    }
}

pub(super) fn second(pair: &Value) -> Value {
    match pair {
        Value::Array(pair) => pair.get(1).unwrap_or(Value::Nil),
        _ => Value::Nil,
    }
}
