//! Enumerable methods that search, count and take parts of a collection.

use std::ops::ControlFlow;
use std::rc::Rc;

use crate::evaluator::eval::{Args, EvalResult, Interpreter};
use crate::evaluator::value::{ProcKind, Value};

impl Interpreter {
    /// Calls a method of Enumerable that searches, counts or takes parts. Returns `None` for any other.
    pub(super) fn call_enumerable_search(
        &mut self,
        receiver: &Value,
        name: &str,
        args: &Args,
    ) -> EvalResult<Option<Value>> {
        let block = args.block.as_ref();
        Ok(Some(match name {
            "include?" | "member?" => {
                let item_to_find = self.arg(args, 0)?;
                let mut is_included = false;
                self.each(receiver, &mut |interpreter, item| {
                    is_included = interpreter.are_equal(&item, &item_to_find)?;
                    Ok(if is_included { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
                })?;
                Value::Bool(is_included)
            }
            "find" | "detect" | "find_index" => {
                if block.is_none() && (args.is_empty() || name != "find_index") {
                    return self.create_enumerator(receiver, name, args.list.clone()).map(Some);
                }
                let mut first_match = None;
                let mut index = 0;
                self.each(receiver, &mut |interpreter, item| {
                    let is_match = match (block, args.get(0)) {
                        (_, Some(target)) if name == "find_index" => interpreter.are_equal(&item, target)?,
                        (Some(block), _) => interpreter.yield_one(block, item.clone())?.is_truthy(),
                        _ => false,
                    };
                    if is_match {
                        first_match = Some(if name == "find_index" { Value::Int(index) } else { item });
                        return Ok(ControlFlow::Break(()));
                    }
                    index += 1;
                    Ok(ControlFlow::Continue(()))
                })?;
                match (first_match, args.get(0).cloned()) {
                    (Some(first_match), _) => first_match,
                    (None, Some(if_none)) if name != "find_index" && !if_none.is_nil() => {
                        self.call(&if_none, "call", Vec::new())?
                    }
                    (None, _) => Value::Nil,
                }
            }
            "any?" | "all?" | "none?" | "one?" => {
                let mut hits = 0;
                let mut misses = 0;
                self.each(receiver, &mut |interpreter, item| {
                    let is_match = match (args.get(0), block) {
                        (Some(pattern), _) => interpreter.is_case_equal(pattern, &item, None)?,
                        (None, Some(block)) => interpreter.yield_one(block, item)?.is_truthy(),
                        (None, None) => item.is_truthy(),
                    };
                    if is_match {
                        hits += 1
                    } else {
                        misses += 1
                    }
                    let is_decided = match name {
                        "any?" | "none?" => hits > 0,
                        "all?" => misses > 0,
                        _ => hits > 1,
                    };
                    Ok(if is_decided { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
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
                self.each(receiver, &mut |interpreter, item| {
                    let is_match = match (args.get(0), block) {
                        (Some(target), _) => interpreter.are_equal(&item, target)?,
                        (None, Some(block)) => interpreter.yield_one(block, item)?.is_truthy(),
                        (None, None) => true,
                    };
                    count += i64::from(is_match);
                    Ok(ControlFlow::Continue(()))
                })?;
                Value::Int(count)
            }
            "first" | "take" => {
                let count = match args.get(0) {
                    Some(argument) => Some(self.int_arg(&argument.clone())?),
                    None if name == "take" => return Ok(Some(self.arg(args, 0)?)),
                    None => None,
                };
                if count.is_some_and(|count| count < 0) {
                    return self.raise_argument_error("attempt to take negative size");
                }
                let limit = count.unwrap_or(1) as usize;
                let mut items = Vec::new();
                if limit > 0 {
                    self.each(receiver, &mut |_, item| {
                        items.push(item);
                        Ok(if items.len() >= limit {
                            ControlFlow::Break(())
                        } else {
                            ControlFlow::Continue(())
                        })
                    })?;
                }
                match count {
                    Some(_) => Value::array(items),
                    None => items.into_iter().next().unwrap_or(Value::Nil),
                }
            }
            "drop" => {
                let count = self.int_or(args, 0, 0)?;
                if count < 0 {
                    return self.raise_argument_error("attempt to drop negative size");
                }
                Value::array(self.collect(receiver)?.into_iter().skip(count as usize).collect())
            }
            "take_while" | "drop_while" if block.is_none() => {
                self.create_enumerator(receiver, name, Vec::new())?
            }
            "take_while" | "drop_while" => {
                let block = self.block_arg(args)?;
                let takes_while = name == "take_while";
                let mut items = Vec::new();
                let mut is_dropping = true;
                self.each(receiver, &mut |interpreter, item| {
                    if takes_while {
                        if !interpreter.yield_one(&block, item.clone())?.is_truthy() {
                            return Ok(ControlFlow::Break(()));
                        }
                        items.push(item);
                    } else {
                        if is_dropping {
                            is_dropping = interpreter.yield_one(&block, item.clone())?.is_truthy();
                        }
                        if !is_dropping {
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
                // The match is stored in the block's scope, so that the block can read it.
                let env = match block {
                    Some(Value::Proc(block)) => match &block.kind {
                        ProcKind::Block { env, .. } => Some(Rc::clone(env)),
                        _ => None,
                    },
                    _ => None,
                };
                for item in self.collect(receiver)? {
                    if self.is_case_equal(&pattern, &item, env.as_ref())? == (name == "grep") {
                        items.push(match block {
                            Some(block) => self.yield_one(block, item)?,
                            None => item,
                        });
                    }
                }
                Value::array(items)
            }
            "cycle" if block.is_none() => return Err(self.unsupported_error("cycle without a block")),
            "cycle" => {
                let block = self.block_arg(args)?;
                let rounds = match args.get(0) {
                    Some(Value::Nil) | None => i64::MAX,
                    Some(count) => self.int_arg(&count.clone())?,
                };
                let items = self.collect(receiver)?;
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
}
