//! Methods of Proc and Method.

use std::rc::Rc;
use std::sync::Arc;

use crate::evaluator::eval::{Args, EvalResult, Interpreter};
use crate::evaluator::value::{ProcKind, RProc, Value};

impl Interpreter {
    /// Calls a method of Proc. Returns `None` if Proc does not implement it.
    pub(super) fn call_proc_method(
        &mut self,
        block: &Rc<RProc>,
        name: &str,
        args: &Args,
    ) -> EvalResult<Option<Value>> {
        Ok(Some(match name {
            "call" | "()" | "yield" | "===" | "[]" => self.call_proc(block, args.clone())?,
            "to_proc" => Value::Proc(Rc::clone(block)),
            "lambda?" => Value::Bool(block.is_lambda.get()),
            "arity" => match &block.kind {
                ProcKind::Block { body, .. } => Value::Int(body.params.arity()),
                ProcKind::Method { receiver, name } => {
                    let (receiver, name) = (receiver.clone(), Arc::clone(name));
                    match self.find_user_method(&receiver, &name).map(|method| method.body.shallow_copy()) {
                        Some(crate::evaluator::value::MethodBody::Code(body)) => {
                            Value::Int(body.params.arity())
                        }
                        _ => return Err(self.unsupported_error("Method#arity")),
                    }
                }
                ProcKind::Symbol(_) => Value::Int(-2),
                ProcKind::Native(_) => Value::Int(-1),
            },
            "parameters" => return Err(self.unsupported_error("Proc#parameters")),
            "curry" => {
                let count = match args.get(0) {
                    Some(count) => self.int_arg(&count.clone())?,
                    None => match self.call_proc_method(block, "arity", &Args::default())? {
                        Some(Value::Int(count)) if count >= 0 => count,
                        Some(Value::Int(count)) => -count - 1,
                        _ => 0,
                    },
                };
                curry(Rc::clone(block), count.max(0) as usize, Vec::new())
            }
            ">>" | "<<" => {
                let other = self.arg(args, 0)?;
                let receiver = Value::Proc(Rc::clone(block));
                let (first, second) = if name == ">>" { (receiver, other) } else { (other, receiver) };
                Value::native_block(move |interpreter, values| {
                    let first_result = interpreter.call(&first, "call", values)?;
                    interpreter.call(&second, "call", vec![first_result])
                })
            }
            "name" => match &block.kind {
                ProcKind::Method { name, .. } => Value::Symbol(Arc::clone(name)),
                _ => return Ok(None),
            },
            "receiver" => match &block.kind {
                ProcKind::Method { receiver, .. } => receiver.clone(),
                _ => return Ok(None),
            },
            "owner" => match &block.kind {
                ProcKind::Method { receiver, .. } => Value::Class(self.class_of(&receiver.clone())),
                _ => return Ok(None),
            },
            "unbind" | "source_location" | "binding" => {
                return Err(self.unsupported_error(format!("Proc#{name}")));
            }
            "inspect" | "to_s" => Value::str(self.inspect(&Value::Proc(Rc::clone(block)))?),
            _ => return Ok(None),
        }))
    }
}

/// Returns a proc that calls `block` once it has collected `count` arguments.
fn curry(block: Rc<RProc>, count: usize, collected_args: Vec<Value>) -> Value {
    Value::native_block(move |interpreter, values| {
        let mut all_args = collected_args.clone();
        all_args.extend(values);
        if all_args.len() >= count {
            interpreter.call_proc(&block, Args::new(all_args))
        } else {
            Ok(curry(Rc::clone(&block), count, all_args))
        }
    })
}
