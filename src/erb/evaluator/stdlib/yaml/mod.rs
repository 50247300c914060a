//! `YAML`: writes and reads YAML as Ruby's Psych 4 does, with libyaml 0.2.5.

mod emit;
mod load;
mod resolve;
mod scalar;

use crate::evaluator::eval::{Args, Interp, R};
use crate::evaluator::value::Value;

/// Implements `value.to_yaml`.
pub(crate) fn to_yaml(it: &mut Interp, value: &Value, args: &Args) -> R<Value> {
    if !args.is_empty() {
        return Err(it.unsupported("to_yaml with options"));
    }
    Ok(Value::str(emit::dump(it, value)?))
}

pub(crate) fn class_method(it: &mut Interp, name: &str, args: &Args) -> R<Option<Value>> {
    Ok(Some(match name {
        "dump" => {
            let value = it.arg(args, 0)?;
            to_yaml(it, &value, &Args::new(args.list[1..].to_vec()))?
        }
        "load" | "safe_load" | "unsafe_load" => load::class_method(it, name, args)?,
        _ => return Ok(None),
    }))
}
