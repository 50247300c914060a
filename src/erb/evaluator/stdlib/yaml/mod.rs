//! `YAML`: writes and reads YAML as Ruby's Psych 4 does, with libyaml 0.2.5.

mod emit;
mod load;
mod resolve;
mod scalar;

use crate::evaluator::eval::{Args, EvalResult, Interpreter};
use crate::evaluator::value::Value;

/// Implements `value.to_yaml`.
pub(crate) fn to_yaml(interpreter: &mut Interpreter, value: &Value, args: &Args) -> EvalResult<Value> {
    if !args.is_empty() {
        return Err(interpreter.unsupported_error("to_yaml with options"));
    }
    Ok(Value::str(emit::dump(interpreter, value)?))
}

pub(crate) fn call_class_method(
    interpreter: &mut Interpreter,
    name: &str,
    args: &Args,
) -> EvalResult<Option<Value>> {
    Ok(Some(match name {
        "dump" => {
            let value = interpreter.arg(args, 0)?;
            to_yaml(interpreter, &value, &Args::new(args.list[1..].to_vec()))?
        }
        "load" | "safe_load" | "unsafe_load" => load::call_class_method(interpreter, name, args)?,
        _ => return Ok(None),
    }))
}
