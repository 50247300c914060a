//! Matches the patterns of `case … in` and `=>`.

use std::rc::Rc;

use super::{Env, EvalResult, Interpreter};
use crate::evaluator::value::{RHash, Value};
use crate::parse::ir::{Expr, HashRest, Name, Pattern, Slot};

impl Interpreter {
    /// Returns true if a value matches, and sets the variables of the pattern. A failed match may have set
    /// some of them.
    pub(super) fn matches(&mut self, pattern: &Pattern, value: &Value, env: &Rc<Env>) -> EvalResult<bool> {
        self.step(1)?;
        self.check_depth()?;
        match pattern {
            Pattern::Value(expr) => {
                let pattern_value = self.eval(expr, env)?;
                self.is_case_equal(&pattern_value, value, Some(env))
            }
            Pattern::Constant(expr) => {
                let pattern_value = self.eval(expr, env)?;
                self.is_case_equal(&pattern_value, value, Some(env))
            }
            Pattern::Bind(slot) => {
                self.set_local(*slot, value.clone(), env);
                Ok(true)
            }
            Pattern::Ignore => Ok(true),
            Pattern::As(inner, slot) => {
                let is_match = self.matches(inner, value, env)?;
                if is_match {
                    self.set_local(*slot, value.clone(), env);
                }
                Ok(is_match)
            }
            Pattern::Either(left, right) => {
                Ok(self.matches(left, value, env)? || self.matches(right, value, env)?)
            }
            Pattern::Array { constant, leading_patterns, rest, trailing_patterns } => {
                if !self.matches_constant(constant.as_ref(), value, env)? {
                    return Ok(false);
                }
                let Some(items) = self.deconstruct(value)? else { return Ok(false) };
                let fixed_count = leading_patterns.len() + trailing_patterns.len();
                if items.len() < fixed_count || (rest.is_none() && items.len() != fixed_count) {
                    return Ok(false);
                }
                let tail = items.len() - trailing_patterns.len();
                for (pattern, item) in leading_patterns.iter().zip(&items) {
                    if !self.matches(pattern, item, env)? {
                        return Ok(false);
                    }
                }
                if let Some(Some(slot)) = rest {
                    self.set_local(*slot, Value::array(items[leading_patterns.len()..tail].to_vec()), env);
                }
                for (pattern, item) in trailing_patterns.iter().zip(&items[tail..]) {
                    if !self.matches(pattern, item, env)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Pattern::Find { constant, slot_before, middle, slot_after } => {
                if !self.matches_constant(constant.as_ref(), value, env)? {
                    return Ok(false);
                }
                let Some(items) = self.deconstruct(value)? else { return Ok(false) };
                self.matches_find_pattern(&items, *slot_before, middle, *slot_after, env)
            }
            Pattern::Hash { constant, entries, rest } => {
                if !self.matches_constant(constant.as_ref(), value, env)? {
                    return Ok(false);
                }
                self.matches_hash_pattern(value, entries, rest, env)
            }
        }
    }

    fn matches_constant(
        &mut self,
        constant: Option<&Expr>,
        value: &Value,
        env: &Rc<Env>,
    ) -> EvalResult<bool> {
        match constant {
            None => Ok(true),
            Some(expr) => {
                let class = self.eval(expr, env)?;
                self.is_case_equal(&class, value, Some(env))
            }
        }
    }

    /// Returns the items of an array, or of an object with `deconstruct`. Returns `None` for other values.
    fn deconstruct(&mut self, value: &Value) -> EvalResult<Option<Vec<Value>>> {
        match value {
            Value::Array(array) => Ok(Some(array.to_vec())),
            Value::Object(_) if self.responds_to(value, "deconstruct") => {
                let list = self.call(value, "deconstruct", Vec::new())?;
                self.splat(&list).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Matches `[*, middle, *]`: searches for the first run of items that match.
    fn matches_find_pattern(
        &mut self,
        items: &[Value],
        slot_before: Option<Slot>,
        middle: &[Pattern],
        slot_after: Option<Slot>,
        env: &Rc<Env>,
    ) -> EvalResult<bool> {
        for start in 0..=items.len().saturating_sub(middle.len()) {
            if start + middle.len() > items.len() {
                break;
            }
            let mut all_match = true;
            for (pattern, item) in middle.iter().zip(&items[start..]) {
                if !self.matches(pattern, item, env)? {
                    all_match = false;
                    break;
                }
            }
            if all_match {
                if let Some(slot) = slot_before {
                    self.set_local(slot, Value::array(items[..start].to_vec()), env);
                }
                if let Some(slot) = slot_after {
                    self.set_local(slot, Value::array(items[start + middle.len()..].to_vec()), env);
                }
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns true if a hash matches the pattern `{key: pattern, …}`, and binds its variables. Objects are
    /// converted by `deconstruct_keys`.
    fn matches_hash_pattern(
        &mut self,
        value: &Value,
        entries: &[(Name, Option<Pattern>, Option<Slot>)],
        rest: &HashRest,
        env: &Rc<Env>,
    ) -> EvalResult<bool> {
        let hash = match value {
            Value::Hash(hash) => Rc::clone(hash),
            Value::Object(_) if self.responds_to(value, "deconstruct_keys") => {
                let keys = entries.iter().map(|(name, _, _)| Value::Symbol(name.clone())).collect();
                match self.call(value, "deconstruct_keys", vec![Value::array(keys)])? {
                    Value::Hash(hash) => hash,
                    _ => return self.raise_type_error("deconstruct_keys must return Hash"),
                }
            }
            _ => return Ok(false),
        };
        // The pattern `{}` matches only an empty hash.
        if entries.is_empty() && matches!(rest, HashRest::Any) {
            return Ok(hash.len() == 0);
        }
        let remaining = RHash::from_pairs(hash.pairs());
        for (name, pattern, slot) in entries {
            let key = Value::Symbol(name.clone());
            let Some(item) = remaining.remove(&key) else { return Ok(false) };
            match (pattern, slot) {
                (Some(pattern), _) => {
                    if !self.matches(pattern, &item, env)? {
                        return Ok(false);
                    }
                }
                (None, Some(slot)) => self.set_local(*slot, item, env),
                (None, None) => {}
            }
        }
        match rest {
            HashRest::Any => Ok(true),
            HashRest::Nothing => Ok(remaining.len() == 0),
            HashRest::Bind(slot) => {
                self.set_local(*slot, Value::hash(remaining), env);
                Ok(true)
            }
        }
    }
}
