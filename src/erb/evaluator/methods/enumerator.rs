//! Methods of Enumerator.
//!
//! An enumerator stores a receiver, a method and arguments. It makes that call when it gets a block.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use crate::evaluator::eval::{Args, EvalResult, Interpreter};
use crate::evaluator::value::{Data, Object, Value};

impl Interpreter {
    /// Creates an enumerator for a call without its block.
    pub(crate) fn create_enumerator(
        &mut self,
        receiver: &Value,
        method: &str,
        args: Vec<Value>,
    ) -> EvalResult<Value> {
        let class = self.load_class("Enumerator");
        let data =
            Data::Enumerator { receiver: receiver.clone(), method: Arc::from(method), args, is_lazy: false };
        Ok(self.create_object(class, data))
    }

    /// Creates a lazy enumerator. Its elements are computed eagerly, so an endless range is not supported.
    pub(super) fn create_lazy_enumerator(&mut self, receiver: &Value) -> EvalResult<Value> {
        if let Value::Range(range) = receiver
            && range.end.is_nil()
        {
            return Err(self.unsupported_error("an endless lazy enumerator"));
        }
        let class = self.load_class("Enumerator::Lazy");
        let data = Data::Enumerator {
            receiver: receiver.clone(),
            method: Arc::from("each"),
            args: Vec::new(),
            is_lazy: true,
        };
        Ok(self.create_object(class, data))
    }

    /// Calls a method of Enumerator. Returns `None` if Enumerator does not implement it.
    pub(super) fn call_enumerator_method(
        &mut self,
        object: &Rc<Object>,
        name: &str,
        args: &Args,
    ) -> EvalResult<Option<Value>> {
        let enumerator = Value::Object(Rc::clone(object));
        let (receiver, method, call_args, is_lazy) = match &*object.data.borrow() {
            Data::Enumerator { receiver, method, args, is_lazy } => {
                (receiver.clone(), Arc::clone(method), args.clone(), *is_lazy)
            }
            _ => return Ok(None),
        };
        let block = args.block.clone();
        Ok(Some(match name {
            "each" | "with_index" | "each_with_index" | "with_object" | "each_with_object"
                if block.is_none() =>
            {
                if name == "each" {
                    return Ok(Some(enumerator));
                }
                self.create_enumerator(&enumerator, name, args.list.clone())?
            }
            "each" => {
                let block = self.block_arg(args)?;
                self.call_private(&receiver, &method, Args::with_block(call_args, block))?
            }
            "with_index" | "each_with_index" => {
                let block = self.block_arg(args)?;
                let start = match args.get(0) {
                    Some(Value::Nil) | None => 0,
                    Some(start) if name == "with_index" => self.int_arg(&start.clone())?,
                    Some(_) => 0,
                };
                let index = Cell::new(start);
                let counting_block = Value::native_block(move |interpreter, mut values| {
                    let value = if values.len() == 1 { values.swap_remove(0) } else { Value::array(values) };
                    let position = index.get();
                    index.set(position + 1);
                    interpreter.yield_to(&block, vec![value, Value::Int(position)])
                });
                let result =
                    self.call_private(&receiver, &method, Args::with_block(call_args, counting_block))?;
                if is_lazy { self.create_lazy_enumerator(&result)? } else { result }
            }
            "with_object" | "each_with_object" => {
                let block = self.block_arg(args)?;
                let memo = self.arg(args, 0)?;
                let passed_memo = memo.clone();
                let passing_block = Value::native_block(move |interpreter, mut values| {
                    let value = if values.len() == 1 { values.swap_remove(0) } else { Value::array(values) };
                    interpreter.yield_to(&block, vec![value, passed_memo.clone()])
                });
                self.call_private(&receiver, &method, Args::with_block(call_args, passing_block))?;
                memo
            }
            "next" | "peek" => {
                let key: Arc<str> = Arc::from("@position");
                let position = match self.instance_variable(&enumerator, &key) {
                    Value::Int(position) => position,
                    _ => 0,
                };
                let items = self.collect(&enumerator)?;
                match items.get(position as usize) {
                    Some(item) => {
                        if name == "next" {
                            object.variables.borrow_mut().insert(key, Value::Int(position + 1));
                        }
                        item.clone()
                    }
                    None => return Err(self.ruby_error("StopIteration", "iteration reached an end")),
                }
            }
            "rewind" => {
                object.variables.borrow_mut().clear();
                enumerator
            }
            "size" => {
                if matches!(&receiver, Value::Object(_)) {
                    Value::Nil
                } else {
                    Value::Int(self.collect(&enumerator)?.len() as i64)
                }
            }
            "lazy" => self.create_lazy_enumerator(&enumerator)?,
            "eager" | "force" | "to_a" | "first" if is_lazy => {
                let list = Value::array(self.collect(&receiver)?);
                match name {
                    "first" => self.call_with_args(&list, "first", args.clone())?,
                    _ => list,
                }
            }
            "inspect" | "to_s" => Value::str(self.inspect(&enumerator)?),
            _ if is_lazy => {
                let list = Value::array(self.collect(&receiver)?);
                let result = match self.call_enumerable_method(&list, name, args)? {
                    Some(result) => result,
                    None => return Ok(None),
                };
                match &result {
                    Value::Array(_)
                        if !matches!(
                            name,
                            "to_a" | "force" | "partition" | "minmax" | "sort" | "sort_by" | "group_by"
                        ) =>
                    {
                        self.create_lazy_enumerator(&result)?
                    }
                    _ => result,
                }
            }
            _ => return self.call_enumerable_method(&enumerator, name, args),
        }))
    }
}
