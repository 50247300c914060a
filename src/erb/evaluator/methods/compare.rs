//! `==`, `<=>`, `===`, the methods of Comparable, and sorting.

use std::cmp::Ordering;
use std::rc::Rc;

use num_bigint::BigInt;

use crate::evaluator::eval::{Args, Env, EvalResult, Interpreter};
use crate::evaluator::stdlib;
use crate::evaluator::value::{Data, Value};

impl Interpreter {
    /// Returns true if `a == b`.
    pub(crate) fn are_equal(&mut self, a: &Value, b: &Value) -> EvalResult<bool> {
        self.step(1)?;
        self.check_depth()?;
        Ok(match (a, b) {
            (Value::Str(x), Value::Str(y)) => {
                Rc::ptr_eq(x, y) || x.has_bytes() == y.has_bytes() && *x.get() == *y.get()
            }
            (Value::Int(_) | Value::Big(_), Value::Float(_))
            | (Value::Float(_), Value::Int(_) | Value::Big(_)) => {
                compare_numbers(a, b) == Some(Ordering::Equal)
            }
            (Value::Float(x), Value::Float(y)) => x == y,
            (Value::Array(x), Value::Array(y)) => {
                if Rc::ptr_eq(x, y) {
                    return Ok(true);
                }
                if x.len() != y.len() {
                    return Ok(false);
                }
                for (x, y) in x.to_vec().iter().zip(&y.to_vec()) {
                    if !self.are_equal(x, y)? {
                        return Ok(false);
                    }
                }
                true
            }
            (Value::Hash(x), Value::Hash(y)) => {
                if Rc::ptr_eq(x, y) {
                    return Ok(true);
                }
                if x.len() != y.len() {
                    return Ok(false);
                }
                for (key, value) in x.pairs() {
                    match y.get(&key) {
                        Some(other) if self.are_equal(&value, &other)? => {}
                        _ => return Ok(false),
                    }
                }
                true
            }
            (Value::Range(x), Value::Range(y)) => {
                x.excludes_end == y.excludes_end
                    && self.are_equal(&x.begin, &y.begin)?
                    && self.are_equal(&x.end, &y.end)?
            }
            (Value::Regexp(x), Value::Regexp(y)) => x.source == y.source && x.options == y.options,
            (Value::Object(x), _) => {
                if let Some(method) = self.find_user_method(a, "==") {
                    let result = self.invoke(&method, a, Args::new(vec![b.clone()]))?;
                    return Ok(result.is_truthy());
                }
                if a.is_same(b) {
                    return Ok(true);
                }
                if let Value::Object(y) = b {
                    let fields = match (&*x.data.borrow(), &*y.data.borrow()) {
                        (Data::Struct(p), Data::Struct(q)) => Some((p.clone(), q.clone())),
                        (Data::Table(p), Data::Table(q)) if x.class.label() == "OpenStruct" => {
                            Some((vec![Value::Hash(Rc::clone(p))], vec![Value::Hash(Rc::clone(q))]))
                        }
                        (Data::Set(p), Data::Set(q)) => {
                            return Ok(
                                p.len() == q.len() && p.pairs().iter().all(|(key, _)| q.get(key).is_some())
                            );
                        }
                        (Data::Address(p), Data::Address(q)) => return Ok(p.has_same_host(q)),
                        (Data::DistinguishedName(p), Data::DistinguishedName(q)) => return Ok(p == q),
                        (Data::Certificate(p), Data::Certificate(q)) => return Ok(p == q),
                        (Data::Uri(p), Data::Uri(q)) => return Ok(p.is_same(q)),
                        (Data::Time(p), Data::Time(q)) => return Ok(p.nanos() == q.nanos()),
                        (Data::Exception(p), Data::Exception(q)) => {
                            Some((vec![p.message.clone()], vec![q.message.clone()]))
                        }
                        _ => None,
                    };
                    if let Some((p, q)) = fields {
                        return Ok(Rc::ptr_eq(&x.class, &y.class)
                            && self.are_equal(&Value::array(p), &Value::array(q))?);
                    }
                }
                if matches!(&*x.data.borrow(), Data::Address(_)) {
                    return stdlib::ipaddr::equals(self, x, b);
                }
                if self.find_user_method(a, "<=>").is_some() {
                    return Ok(self.compare(a, b)? == Some(Ordering::Equal));
                }
                false
            }
            _ => a.is_same(b),
        })
    }

    /// Returns the result of `a <=> b`, or `None` if the values cannot be compared.
    pub(crate) fn compare(&mut self, a: &Value, b: &Value) -> EvalResult<Option<Ordering>> {
        self.step(1)?;
        self.check_depth()?;
        Ok(match (a, b) {
            (Value::Int(x), Value::Int(y)) => Some(x.cmp(y)),
            (Value::Str(x), Value::Str(y)) if x.has_bytes() != y.has_bytes() => {
                return Err(self.unsupported_error("the comparison of bytes with text"));
            }
            (Value::Str(x), Value::Str(y)) => Some(x.get().as_bytes().cmp(y.get().as_bytes())),
            (
                Value::Int(_) | Value::Float(_) | Value::Big(_),
                Value::Int(_) | Value::Float(_) | Value::Big(_),
            ) => compare_numbers(a, b),
            (Value::Symbol(x), Value::Symbol(y)) => Some(x.as_bytes().cmp(y.as_bytes())),
            (Value::Array(x), Value::Array(y)) => {
                for (x, y) in x.to_vec().iter().zip(&y.to_vec()) {
                    match self.compare(x, y)? {
                        Some(Ordering::Equal) => {}
                        other => return Ok(other),
                    }
                }
                Some(x.len().cmp(&y.len()))
            }
            (Value::Object(x), _) => {
                if self.find_user_method(a, "<=>").is_some() {
                    let result = self.call(a, "<=>", vec![b.clone()])?;
                    return match result {
                        Value::Nil => Ok(None),
                        other => Ok(Some(self.int_arg(&other)?.cmp(&0))),
                    };
                }
                if let Value::Object(y) = b {
                    match (&*x.data.borrow(), &*y.data.borrow()) {
                        (Data::Address(p), Data::Address(q)) => return Ok(p.compare(q)),
                        (Data::Time(p), Data::Time(q)) => return Ok(Some(p.nanos().cmp(&q.nanos()))),
                        _ => {}
                    }
                }
                if matches!(&*x.data.borrow(), Data::Address(_)) {
                    return stdlib::ipaddr::compare(self, x, b);
                }
                a.is_same(b).then_some(Ordering::Equal)
            }
            (Value::Class(x), Value::Class(y)) => {
                if Rc::ptr_eq(x, y) {
                    Some(Ordering::Equal)
                } else if x.descends_from(y) {
                    Some(Ordering::Less)
                } else if y.descends_from(x) {
                    Some(Ordering::Greater)
                } else {
                    None
                }
            }
            _ => self.are_equal(a, b)?.then_some(Ordering::Equal),
        })
    }

    /// Compares two values for `sort`, `max` and the like. Raises `ArgumentError` if they cannot be compared.
    pub(crate) fn compare_or_raise(&mut self, a: &Value, b: &Value) -> EvalResult<Ordering> {
        match self.compare(a, b)? {
            Some(ordering) => Ok(ordering),
            None => {
                let left = self.class_of(a).label();
                let right = self.comparison_text(b)?;
                self.raise_argument_error(format!("comparison of {left} with {right} failed"))
            }
        }
    }

    /// Returns the text that an error shows for the right side of a comparison.
    pub(crate) fn comparison_text(&mut self, value: &Value) -> EvalResult<String> {
        match value {
            Value::Nil | Value::Bool(_) | Value::Int(_) | Value::Float(_) => self.inspect(value),
            other => Ok(self.class_of(other).label()),
        }
    }

    /// Returns true if `pattern === value`, as `case` tests it. A regular expression stores its match in
    /// `env`.
    pub(crate) fn is_case_equal(
        &mut self,
        pattern: &Value,
        value: &Value,
        env: Option<&Rc<Env>>,
    ) -> EvalResult<bool> {
        if self.find_user_method(pattern, "===").is_some() {
            return Ok(self.call(pattern, "===", vec![value.clone()])?.is_truthy());
        }
        match pattern {
            Value::Class(class) => {
                Ok(self.class_of(value).descends_from(class) || self.extends(value, class))
            }
            Value::Range(range) => self.range_covers(range, value),
            Value::Regexp(regexp) => {
                let text = match value {
                    Value::Str(text) if text.has_bytes() => {
                        return Err(self.unsupported_error("text that is not UTF-8"));
                    }
                    Value::Str(text) => text.get().clone(),
                    Value::Symbol(name) => name.to_string(),
                    _ => {
                        if let Some(env) = env {
                            self.set_last_match(None, env);
                        }
                        return Ok(false);
                    }
                };
                let match_data = self.find_match(regexp, &text, 0)?;
                let is_hit = match_data.is_some();
                if let Some(env) = env {
                    self.set_last_match(match_data, env);
                }
                Ok(is_hit)
            }
            Value::Proc(block) => {
                Ok(self.call_proc(&Rc::clone(block), Args::new(vec![value.clone()]))?.is_truthy())
            }
            Value::Object(object) => {
                let set = match &*object.data.borrow() {
                    Data::Set(set) => Some(Rc::clone(set)),
                    _ => None,
                };
                if let Some(set) = set {
                    return Ok(set.get(value).is_some());
                }
                if matches!(&*object.data.borrow(), Data::Address(_)) {
                    return stdlib::ipaddr::includes(self, object, value);
                }
                self.are_equal(pattern, value)
            }
            _ => self.are_equal(pattern, value),
        }
    }

    /// Returns true if a module was added to an object by `extend`.
    pub(crate) fn extends(&mut self, value: &Value, module: &Rc<crate::evaluator::value::Class>) -> bool {
        match value {
            Value::Object(object) => {
                object.singleton.borrow().as_ref().is_some_and(|singleton| singleton.descends_from(module))
            }
            Value::Class(class) => {
                class.singleton_modules.borrow().iter().any(|extension| extension.descends_from(module))
            }
            _ => false,
        }
    }

    /// Calls a method of Comparable, which uses `<=>`.
    pub(crate) fn call_comparable_method(
        &mut self,
        receiver: &Value,
        name: &str,
        args: &Args,
    ) -> EvalResult<Option<Value>> {
        let other = args.get(0).cloned().unwrap_or(Value::Nil);
        Ok(Some(Value::Bool(match name {
            "<" => self.compare_or_raise(receiver, &other)? == Ordering::Less,
            "<=" => self.compare_or_raise(receiver, &other)? != Ordering::Greater,
            ">" => self.compare_or_raise(receiver, &other)? == Ordering::Greater,
            ">=" => self.compare_or_raise(receiver, &other)? != Ordering::Less,
            "between?" => {
                let high = self.arg(args, 1)?;
                self.compare_or_raise(receiver, &other)? != Ordering::Less
                    && self.compare_or_raise(receiver, &high)? != Ordering::Greater
            }
            "clamp" => return self.clamp(receiver, args).map(Some),
            _ => return Ok(None),
        })))
    }

    /// Implements `clamp` with two bounds or a range.
    pub(crate) fn clamp(&mut self, receiver: &Value, args: &Args) -> EvalResult<Value> {
        let (low, high) = match args.get(0) {
            Some(Value::Range(range)) if range.excludes_end && !range.end.is_nil() => {
                return self.raise_argument_error("cannot clamp with an exclusive range");
            }
            Some(Value::Range(range)) => (range.begin.clone(), range.end.clone()),
            _ => (self.arg(args, 0)?, self.arg(args, 1)?),
        };
        if !low.is_nil() && !high.is_nil() && self.compare_or_raise(&low, &high)? == Ordering::Greater {
            return self.raise_argument_error("min argument must be smaller than max argument");
        }
        if !low.is_nil() && self.compare_or_raise(receiver, &low)? == Ordering::Less {
            return Ok(low);
        }
        if !high.is_nil() && self.compare_or_raise(receiver, &high)? == Ordering::Greater {
            return Ok(high);
        }
        Ok(receiver.clone())
    }

    /// Sorts by a comparison that may raise.
    pub(crate) fn sort_with(
        &mut self,
        items: Vec<Value>,
        mut order: impl FnMut(&mut Interpreter, &Value, &Value) -> EvalResult<Ordering>,
    ) -> EvalResult<Vec<Value>> {
        // A merge sort that stops at the first error.
        let mut runs: Vec<Vec<Value>> = items.into_iter().map(|item| vec![item]).collect();
        if runs.is_empty() {
            return Ok(Vec::new());
        }
        while runs.len() > 1 {
            let mut merged_runs = Vec::with_capacity(runs.len().div_ceil(2));
            let mut pairs = runs.into_iter();
            while let Some(left) = pairs.next() {
                let Some(right) = pairs.next() else {
                    merged_runs.push(left);
                    break;
                };
                let mut merged_run = Vec::with_capacity(left.len() + right.len());
                let mut left = left.into_iter().peekable();
                let mut right = right.into_iter().peekable();
                loop {
                    match (left.peek(), right.peek()) {
                        (Some(a), Some(b)) => {
                            let is_from_right = order(self, a, b)? == Ordering::Greater;
                            merged_run.extend(if is_from_right { right.next() } else { left.next() });
                        }
                        (Some(_), None) => merged_run.extend(left.next()),
                        (None, Some(_)) => merged_run.extend(right.next()),
                        (None, None) => break,
                    }
                }
                merged_runs.push(merged_run);
            }
            runs = merged_runs;
        }
        Ok(runs.pop().unwrap_or_default())
    }
}

/// Returns true for integers and floats.
pub(crate) fn is_number(value: &Value) -> bool {
    matches!(value, Value::Int(_) | Value::Big(_) | Value::Float(_))
}

/// Compares two numbers exactly, even a float with an integer beyond the precision of floats. Returns `None`
/// for NaN.
pub(crate) fn compare_numbers(a: &Value, b: &Value) -> Option<Ordering> {
    match (a, b) {
        (Value::Float(x), Value::Float(y)) => x.partial_cmp(y),
        (Value::Float(x), y) => compare_with_float(y, *x).map(Ordering::reverse),
        (x, Value::Float(y)) => compare_with_float(x, *y),
        _ => Some(to_big(a).cmp(&to_big(b))),
    }
}

fn compare_with_float(integer: &Value, float: f64) -> Option<Ordering> {
    if float.is_nan() {
        return None;
    }
    if float.is_infinite() {
        return 0.0.partial_cmp(&float);
    }
    let integer_part = BigInt::parse_bytes(format!("{:.0}", float.trunc()).as_bytes(), 10)?;
    let order = to_big(integer).cmp(&integer_part);
    // If the whole parts are equal, the fraction decides.
    Some(order.then_with(|| 0.0.partial_cmp(&float.fract()).unwrap_or(Ordering::Equal)))
}

/// Converts a number to a float. Other values become NaN.
pub(crate) fn to_f64(value: &Value) -> f64 {
    match value {
        Value::Int(int) => *int as f64,
        Value::Float(float) => *float,
        Value::Big(big) => big.to_string().parse().unwrap_or(f64::NAN),
        _ => f64::NAN,
    }
}

/// Converts an integer to a big integer. Other values become 0.
pub(crate) fn to_big(value: &Value) -> BigInt {
    match value {
        Value::Int(int) => BigInt::from(*int),
        Value::Big(big) => (**big).clone(),
        _ => BigInt::default(),
    }
}
