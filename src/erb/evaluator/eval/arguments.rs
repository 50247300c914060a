//! Evaluates the arguments of a call, and binds them to the parameters of a method or block.

use std::rc::Rc;

use super::{Env, EvalResult, Interpreter};
use crate::evaluator::value::{RHash, Value};
use crate::parse::ir::{Argument, Body, Pair, Parameter, Params};

/// The arguments of a call.
#[derive(Default, Clone)]
pub(crate) struct Args {
    pub(crate) list: Vec<Value>,
    /// True if the last of `list` is a hash of keyword arguments.
    pub(crate) has_keywords: bool,
    pub(crate) block: Option<Value>,
}

impl Args {
    pub(crate) fn new(list: Vec<Value>) -> Self {
        Args { list, has_keywords: false, block: None }
    }

    pub(crate) fn with_block(list: Vec<Value>, block: Value) -> Self {
        Args { list, has_keywords: false, block: Some(block) }
    }

    pub(crate) fn get(&self, index: usize) -> Option<&Value> {
        self.list.get(index)
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns the hash of keyword arguments.
    pub(crate) fn options(&self) -> Option<Rc<RHash>> {
        match self.list.last() {
            Some(Value::Hash(hash)) if self.has_keywords => Some(Rc::clone(hash)),
            _ => None,
        }
    }

    /// Returns the arguments that are not keywords.
    pub(crate) fn positional(&self) -> &[Value] {
        match self.list.len() {
            length if self.has_keywords && length > 0 => &self.list[..length - 1],
            _ => &self.list,
        }
    }
}

/// The rules for a wrong number of arguments.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Strictness {
    /// Methods and lambdas raise an `ArgumentError`.
    Method,
    /// Blocks ignore extra arguments, and missing ones are nil. A single array is spread over several
    /// parameters.
    Block,
}

impl Interpreter {
    /// Evaluates arguments. Returns the values, and true if the last one is a hash of keywords, as in
    /// [`Args`].
    pub(super) fn eval_args(&mut self, args: &[Argument], env: &Rc<Env>) -> EvalResult<(Vec<Value>, bool)> {
        let mut list = Vec::with_capacity(args.len());
        let mut has_keywords = false;
        for arg in args {
            match arg {
                Argument::Value(expr) => list.push(self.eval(expr, env)?),
                Argument::Splat(expr) => {
                    let value = self.eval(expr, env)?;
                    list.extend(self.splat(&value)?);
                }
                Argument::Keywords(pairs) => {
                    let hash = self.eval_pairs(pairs, env)?;
                    // `f(**{})` passes nothing.
                    if hash.len() > 0 || pairs.iter().any(|pair| matches!(pair, Pair::Entry(..))) {
                        has_keywords = true;
                        list.push(Value::hash(hash));
                    }
                }
            }
        }
        Ok((list, has_keywords))
    }

    /// Returns the values that `*value` expands to.
    pub(crate) fn splat(&mut self, value: &Value) -> EvalResult<Vec<Value>> {
        match value {
            Value::Nil => Ok(Vec::new()),
            Value::Array(array) => Ok(array.to_vec()),
            Value::Hash(_) | Value::Range(_) => self.collect(value),
            Value::Object(_) if self.responds_to(value, "to_a") => {
                match self.call(value, "to_a", Vec::new())? {
                    Value::Array(array) => Ok(array.to_vec()),
                    _ => Ok(vec![value.clone()]),
                }
            }
            other => Ok(vec![other.clone()]),
        }
    }

    /// Evaluates the entries of a hash, or of keyword arguments. `**other` adds the entries of another hash.
    pub(super) fn eval_pairs(&mut self, pairs: &[Pair], env: &Rc<Env>) -> EvalResult<RHash> {
        let hash = RHash::default();
        for pair in pairs {
            match pair {
                Pair::Entry(key, value) => {
                    let key = self.eval(key, env)?;
                    let value = self.eval(value, env)?;
                    hash.insert(key, value);
                }
                Pair::Splat(expr) => match self.eval(expr, env)? {
                    Value::Hash(other) => {
                        for (key, value) in other.pairs() {
                            hash.insert(key, value);
                        }
                    }
                    Value::Nil => return self.raise_type_error("no implicit conversion of nil into Hash"),
                    other => match self.call(&other, "to_hash", Vec::new())? {
                        Value::Hash(other) => {
                            for (key, value) in other.pairs() {
                                hash.insert(key, value);
                            }
                        }
                        _ => return self.raise_conversion_error(&other, "Hash"),
                    },
                },
            }
        }
        Ok(hash)
    }

    /// Binds arguments to the parameters of `body`, as variables of its scope `env`.
    pub(super) fn bind(
        &mut self,
        body: &Body,
        args: Args,
        env: &Rc<Env>,
        strictness: Strictness,
    ) -> EvalResult<()> {
        let params = &body.params;
        let Args { mut list, has_keywords, block } = args;
        if params.numbered_param_count > 0 {
            return self.bind_numbered(params.numbered_param_count, list, env);
        }
        // The fast path for a block with one parameter.
        if let ([Parameter::Slot(slot)], true) = (params.required_params.as_slice(), params.is_simple())
            && strictness == Strictness::Block
            && params.is_single
        {
            let value = if list.is_empty() { Value::Nil } else { list.swap_remove(0) };
            set_variable(env, *slot, value);
            return Ok(());
        }
        let takes_keywords = !params.keywords.is_empty() || params.keyword_rest.is_some();
        let mut passed_keywords = None;
        if strictness == Strictness::Block
            && list.len() == 1
            && !has_keywords
            && !params.is_single
            && (params.required_params.len() + params.optional_params.len() + params.trailing_params.len()
                > 1
                || (params.required_params.len() + params.optional_params.len() > 0 && params.rest.is_some())
                || (params.required_params.len() == 1 && !params.is_single && params.rest.is_none())
                || (params.optional_params.len() == 1 && takes_keywords))
            && let Some(Value::Array(array)) = list.first()
        {
            let items = array.to_vec();
            list = items;
        }
        if takes_keywords
            && has_keywords
            && let Some(Value::Hash(hash)) = list.last()
        {
            passed_keywords = Some(Rc::clone(hash));
            list.pop();
        }
        let required_count = params.required_params.len() + params.trailing_params.len();
        let max = required_count + params.optional_params.len();
        if strictness == Strictness::Method {
            let is_wrong_count = list.len() < required_count || (params.rest.is_none() && list.len() > max);
            if is_wrong_count {
                let expected = if params.rest.is_some() {
                    format!("{required_count}+")
                } else if params.optional_params.is_empty() {
                    required_count.to_string()
                } else {
                    format!("{required_count}..{max}")
                };
                let missing_keywords: Vec<_> =
                    params.keywords.iter().filter(|keyword| keyword.default.is_none()).collect();
                let mut text =
                    format!("wrong number of arguments (given {}, expected {expected}", list.len());
                if passed_keywords.is_none() && !missing_keywords.is_empty() {
                    let plural = if missing_keywords.len() > 1 { "s" } else { "" };
                    let names: Vec<_> =
                        missing_keywords.iter().map(|keyword| keyword.name.to_string()).collect();
                    text.push_str(&format!("; required keyword{plural}: {}", names.join(", ")));
                }
                return self.raise_argument_error(format!("{text})"));
            }
        } else {
            if params.rest.is_none() && list.len() > max {
                list.truncate(max);
            }
            while list.len() < required_count {
                list.push(Value::Nil);
            }
        }
        self.bind_positional(params, list, env)?;
        self.bind_keywords(params, passed_keywords, env)?;
        if let Some(slot) = params.block {
            set_variable(env, slot, block.unwrap_or(Value::Nil));
        }
        Ok(())
    }

    /// Binds positional arguments in the order of Ruby: required parameters first and last, then optional
    /// ones, and the remaining arguments to the splat. The caller has checked their number.
    fn bind_positional(&mut self, params: &Params, list: Vec<Value>, env: &Rc<Env>) -> EvalResult<()> {
        let spare_count = list.len() - params.required_params.len() - params.trailing_params.len();
        let mut values = list.into_iter();
        for parameter in &params.required_params {
            let value = values.next().unwrap_or(Value::Nil);
            self.bind_one(parameter, value, env)?;
        }
        let optional_count = spare_count.min(params.optional_params.len());
        for (slot, _) in params.optional_params.iter().take(optional_count) {
            set_variable(env, *slot, values.next().unwrap_or(Value::Nil));
        }
        for (slot, default) in params.optional_params.iter().skip(optional_count) {
            let value = self.eval(default, env)?;
            set_variable(env, *slot, value);
        }
        let rest_count = spare_count - optional_count;
        let rest_values: Vec<Value> = values.by_ref().take(rest_count).collect();
        if let Some(Some(slot)) = params.rest {
            set_variable(env, slot, Value::array(rest_values));
        }
        for parameter in &params.trailing_params {
            let value = values.next().unwrap_or(Value::Nil);
            self.bind_one(parameter, value, env)?;
        }
        Ok(())
    }

    /// Binds keyword arguments. Raises ArgumentError for a missing one, and for an unknown one unless the
    /// parameters have `**rest` or `**nil`.
    fn bind_keywords(
        &mut self,
        params: &Params,
        passed_keywords: Option<Rc<RHash>>,
        env: &Rc<Env>,
    ) -> EvalResult<()> {
        if params.keywords.is_empty() && params.keyword_rest.is_none() {
            return Ok(());
        }
        let rest = passed_keywords.map_or_else(RHash::default, |keywords| keywords.copy());
        let mut missing_keywords = Vec::new();
        for keyword in &params.keywords {
            match rest.remove(&Value::Symbol(keyword.name.clone())) {
                Some(value) => set_variable(env, keyword.slot, value),
                None => match &keyword.default {
                    Some(default) => {
                        let value = self.eval(default, env)?;
                        set_variable(env, keyword.slot, value);
                    }
                    None => missing_keywords.push(keyword.name.clone()),
                },
            }
        }
        if !missing_keywords.is_empty() {
            let plural = if missing_keywords.len() > 1 { "s" } else { "" };
            let names: Vec<String> = missing_keywords.iter().map(|name| format!(":{name}")).collect();
            return self.raise_argument_error(format!("missing keyword{plural}: {}", names.join(", ")));
        }
        match params.keyword_rest {
            Some(Some(slot)) => set_variable(env, slot, Value::hash(rest)),
            Some(None) => {}
            None if rest.len() > 0 => {
                let plural = if rest.len() > 1 { "s" } else { "" };
                let mut names = Vec::new();
                for (key, _) in rest.pairs() {
                    names.push(self.inspect(&key)?);
                }
                return self.raise_argument_error(format!("unknown keyword{plural}: {}", names.join(", ")));
            }
            None => {}
        }
        Ok(())
    }

    fn bind_one(&mut self, parameter: &Parameter, value: Value, env: &Rc<Env>) -> EvalResult<()> {
        match parameter {
            Parameter::Slot(slot) => {
                set_variable(env, *slot, value);
                Ok(())
            }
            Parameter::Nested(multi) => self.assign_multi(multi, &value, env),
        }
    }

    /// Binds the arguments of a block that uses `_1`, `_2`, …
    fn bind_numbered(&mut self, count: u32, mut list: Vec<Value>, env: &Rc<Env>) -> EvalResult<()> {
        if count == 1 {
            set_variable(env, 0, list.into_iter().next().unwrap_or(Value::Nil));
            return Ok(());
        }
        if let [Value::Array(array)] = list.as_slice() {
            let items = array.to_vec();
            list = items;
        }
        for (slot, value) in (0..count).zip(list) {
            set_variable(env, slot, value);
        }
        Ok(())
    }
}

#[inline(always)]
pub(super) fn set_variable(env: &Rc<Env>, slot: u32, value: Value) {
    if let Some(variable) = env.vars.borrow_mut().get_mut(slot as usize) {
        *variable = value;
    }
}

impl Params {
    /// Returns true if all parameters are required and positional.
    fn is_simple(&self) -> bool {
        self.optional_params.is_empty()
            && self.rest.is_none()
            && self.trailing_params.is_empty()
            && self.keywords.is_empty()
            && self.keyword_rest.is_none()
            && self.block.is_none()
    }

    /// Returns the `arity` of a method or lambda with these parameters.
    pub(crate) fn arity(&self) -> i64 {
        let required_count = (self.required_params.len() + self.trailing_params.len()) as i64;
        let has_required_keyword = self.keywords.iter().any(|keyword| keyword.default.is_none());
        let has_rest = self.rest.is_some();
        let count = if has_required_keyword && required_count == 0 { 1 } else { required_count };
        if self.numbered_param_count > 0 {
            return i64::from(self.numbered_param_count);
        }
        if has_rest || !self.optional_params.is_empty() { -required_count - 1 } else { count }
    }
}
