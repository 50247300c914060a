//! Methods of Symbol, nil, true and false.

use std::rc::Rc;
use std::sync::Arc;

use crate::evaluator::eval::{Args, Env, EvalResult, Interpreter};
use crate::evaluator::value::{ProcKind, RHash, RProc, RString, Value};
use crate::parse::ir::Name;

impl Interpreter {
    /// Calls a method of Symbol. Returns `None` if Symbol does not implement it.
    pub(super) fn call_symbol_method(
        &mut self,
        symbol: &Name,
        name: &str,
        args: &Args,
        env: Option<&Rc<Env>>,
    ) -> EvalResult<Option<Value>> {
        Ok(Some(match name {
            "to_s" | "id2name" | "name" => Value::str(&**symbol),
            "to_sym" => Value::Symbol(Arc::clone(symbol)),
            "to_proc" => Value::Proc(RProc::new(ProcKind::Symbol(Arc::clone(symbol)), true, 0)),
            "<=>" => match self.arg(args, 0)? {
                Value::Symbol(other) => Value::Int(symbol.as_bytes().cmp(other.as_bytes()) as i64),
                _ => Value::Nil,
            },
            "length" | "size" | "empty?" | "[]" | "slice" | "start_with?" | "end_with?" | "=~" | "match"
            | "match?" => {
                let text = Rc::new(RString::new(symbol.to_string()));
                return self.call_string_method(&text, name, args, env);
            }
            "upcase" | "downcase" | "capitalize" | "swapcase" | "succ" | "next" => {
                let text = Rc::new(RString::new(symbol.to_string()));
                match self.call_string_method(&text, name, args, env)? {
                    Some(Value::Str(text)) => Value::symbol(&text.get()),
                    other => return Ok(other),
                }
            }
            "inspect" => Value::str(self.inspect(&Value::Symbol(Arc::clone(symbol)))?),
            "<" | "<=" | ">" | ">=" | "between?" | "clamp" => {
                return self.call_comparable_method(&Value::Symbol(Arc::clone(symbol)), name, args);
            }
            _ => return Ok(None),
        }))
    }

    /// Calls a method of nil. Returns `None` if NilClass does not implement it.
    pub(super) fn call_nil_method(&mut self, name: &str, args: &Args) -> EvalResult<Option<Value>> {
        Ok(Some(match name {
            "to_s" => {
                let empty = RString::new(String::new());
                empty.is_frozen.set(true);
                Value::Str(Rc::new(empty))
            }
            "to_a" => Value::array(Vec::new()),
            "to_h" => Value::hash(RHash::default()),
            "to_i" => Value::Int(0),
            "to_f" => Value::Float(0.0),
            "inspect" => Value::str("nil"),
            "nil?" => Value::Bool(true),
            "&" => Value::Bool(false),
            "|" => Value::Bool(self.arg(args, 0)?.is_truthy()),
            "=~" => Value::Nil,
            _ => return Ok(None),
        }))
    }

    /// Calls a method of true or false. Returns `None` if their classes do not implement it.
    pub(super) fn call_bool_method(
        &mut self,
        receiver: bool,
        name: &str,
        args: &Args,
    ) -> EvalResult<Option<Value>> {
        Ok(Some(match name {
            "to_s" | "inspect" => Value::str(receiver.to_string()),
            "&" => Value::Bool(receiver && self.arg(args, 0)?.is_truthy()),
            "|" => Value::Bool(self.arg(args, 0)?.is_truthy() || receiver),
            "^" => Value::Bool(self.arg(args, 0)?.is_truthy() != receiver),
            _ => return Ok(None),
        }))
    }
}
