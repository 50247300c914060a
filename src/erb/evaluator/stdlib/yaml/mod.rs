//! `YAML`: writes and reads YAML as Ruby's Psych 4 does, with libyaml 0.2.5.

mod emit;
mod load;
mod resolve;
mod scalar;

use crate::evaluator::eval::{Args, EvalResult, Interp};
use crate::evaluator::value::Value;

/// Implements `value.to_yaml`.
pub(crate) fn to_yaml(interp: &mut Interp, value: &Value, args: &Args) -> EvalResult<Value> {
    if !args.is_empty() {
        return Err(interp.unsupported_error("to_yaml with options"));
    }
    Ok(Value::str(emit::dump(interp, value)?))
}

pub(crate) fn class_method(interp: &mut Interp, name: &str, args: &Args) -> EvalResult<Option<Value>> {
    Ok(Some(match name {
        "dump" => {
            let value = interp.arg(args, 0)?;
            to_yaml(interp, &value, &Args::new(args.list[1..].to_vec()))?
        }
        "load" | "safe_load" | "unsafe_load" => load::class_method(interp, name, args)?,
        _ => return Ok(None),
    }))
}
