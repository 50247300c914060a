//! Methods of Set.

use std::rc::Rc;

use crate::evaluator::eval::{Args, EvalResult, Interpreter};
use crate::evaluator::value::{Data, Object, RHash, Value};

impl Interpreter {
    pub(super) fn create_set(&mut self, items: Vec<Value>) -> Value {
        let class = self.load_class("Set");
        let hash = RHash::from_pairs(items.into_iter().map(|item| (item, Value::Bool(true))));
        self.create_object(class, Data::Set(Rc::new(hash)))
    }

    /// Calls a method of Set. Returns `None` if Set does not implement it.
    pub(super) fn call_set_method(
        &mut self,
        object: &Rc<Object>,
        name: &str,
        args: &Args,
    ) -> EvalResult<Option<Value>> {
        let receiver = Value::Object(Rc::clone(object));
        let set = match &*object.data.borrow() {
            Data::Set(set) => Rc::clone(set),
            _ => return Ok(None),
        };
        let keys = |set: &RHash| set.pairs().into_iter().map(|(key, _)| key).collect::<Vec<_>>();
        let changes = matches!(
            name,
            "<<" | "add"
                | "add?"
                | "delete"
                | "delete?"
                | "merge"
                | "subtract"
                | "clear"
                | "delete_if"
                | "select!"
                | "reject!"
                | "map!"
                | "keep_if"
                | "filter!"
        );
        if changes && object.is_frozen.get() {
            return self.raise_frozen_error(&receiver);
        }
        Ok(Some(match name {
            "<<" | "add" | "add?" => {
                let item = self.arg(args, 0)?;
                let is_member = set.get(&item).is_some();
                self.use_scratch(64)?;
                set.insert(item, Value::Bool(true));
                if is_member && name == "add?" { Value::Nil } else { receiver }
            }
            "delete" | "delete?" => {
                let item = self.arg(args, 0)?;
                let was_removed = set.remove(&item).is_some();
                if !was_removed && name == "delete?" { Value::Nil } else { receiver }
            }
            "merge" | "subtract" => {
                for other in &args.list {
                    for item in self.collect(other)? {
                        if name == "merge" {
                            set.insert(item, Value::Bool(true));
                        } else {
                            set.remove(&item);
                        }
                    }
                }
                receiver
            }
            "clear" => {
                set.map.borrow_mut().clear();
                receiver
            }
            "include?" | "member?" | "===" | "contain?" => {
                let item = self.arg(args, 0)?;
                Value::Bool(set.get(&item).is_some())
            }
            "size" | "length" => Value::Int(set.len() as i64),
            "count" if args.is_empty() && args.block.is_none() => Value::Int(set.len() as i64),
            "empty?" => Value::Bool(set.len() == 0),
            "each" => {
                let block = self.block_arg(args)?;
                for item in keys(&set) {
                    self.yield_one(&block, item)?;
                }
                receiver
            }
            "to_a" => Value::array(keys(&set)),
            "to_set" if args.block.is_none() => receiver,
            "|" | "union" | "+" | "&" | "intersection" | "-" | "difference" | "^" => {
                let argument = self.arg(args, 0)?;
                let other = self.collect(&argument)?;
                let right = RHash::from_pairs(other.iter().map(|item| (item.clone(), Value::Bool(true))));
                let mut items = keys(&set);
                let is_larger_set = right.len() > set.len() && self.class_of(&argument).label() == "Set";
                match name {
                    "|" | "union" | "+" => items.extend(other),
                    "&" | "intersection" if is_larger_set => items.retain(|item| right.get(item).is_some()),
                    "&" | "intersection" => {
                        items = other.into_iter().filter(|item| set.get(item).is_some()).collect();
                    }
                    "-" | "difference" => items.retain(|item| right.get(item).is_none()),
                    _ => {
                        let mut excludes_end: Vec<Value> =
                            other.into_iter().filter(|item| set.get(item).is_none()).collect();
                        excludes_end.extend(items.into_iter().filter(|item| right.get(item).is_none()));
                        items = excludes_end;
                    }
                }
                self.create_set(items)
            }
            "subset?" | "<=" | "superset?" | ">=" | "proper_subset?" | "<" | "proper_superset?" | ">"
            | "disjoint?" | "intersect?" => {
                let other = self.arg(args, 0)?;
                let other =
                    RHash::from_pairs(self.collect(&other)?.into_iter().map(|item| (item, Value::Nil)));
                let is_subset = |a: &RHash, b: &RHash| keys(a).iter().all(|item| b.get(item).is_some());
                let overlaps = keys(&set).iter().any(|item| other.get(item).is_some());
                Value::Bool(match name {
                    "subset?" | "<=" => is_subset(&set, &other),
                    "superset?" | ">=" => is_subset(&other, &set),
                    "proper_subset?" | "<" => is_subset(&set, &other) && set.len() < other.len(),
                    "proper_superset?" | ">" => is_subset(&other, &set) && other.len() < set.len(),
                    "disjoint?" => !overlaps,
                    _ => overlaps,
                })
            }
            "delete_if" | "reject!" | "select!" | "keep_if" | "filter!" => {
                let block = self.block_arg(args)?;
                let keeps_matches = matches!(name, "select!" | "keep_if" | "filter!");
                let old_length = set.len();
                for item in keys(&set) {
                    if self.yield_one(&block, item.clone())?.is_truthy() != keeps_matches {
                        set.remove(&item);
                    }
                }
                if name.ends_with('!') && set.len() == old_length { Value::Nil } else { receiver }
            }
            "inspect" | "to_s" => Value::str(self.inspect(&receiver)?),
            _ => return self.call_enumerable_method(&receiver, name, args),
        }))
    }
}
