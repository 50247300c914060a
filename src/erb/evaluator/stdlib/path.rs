//! The functions of `File` that work on path names and access no file.

use crate::evaluator::eval::{Args, EvalResult, Interpreter};
use crate::evaluator::value::Value;

/// Calls a method of the class File that only computes with paths. Returns `None` for any other.
pub(crate) fn call_class_method(
    interpreter: &mut Interpreter,
    name: &str,
    args: &Args,
) -> EvalResult<Option<Value>> {
    Ok(Some(Value::str(match name {
        "join" => join(interpreter, &args.list)?,
        "basename" => {
            let path = interpreter.arg(args, 0)?;
            let path = interpreter.string_arg(&path)?;
            let clean_path = path.trim_end_matches('/');
            let base = if clean_path.is_empty() && !path.is_empty() {
                "/"
            } else {
                clean_path.rsplit('/').next().unwrap_or("")
            };
            match args.get(1) {
                Some(suffix) => {
                    let suffix = interpreter.string_arg(&suffix.clone())?;
                    let dots = base.len() - base.trim_start_matches('.').len();
                    let dot = base.rfind('.').filter(|offset| *offset > dots);
                    match (suffix.as_str(), dot) {
                        (".*", Some(offset)) => base[..offset].to_owned(),
                        (".*", None) => base.to_owned(),
                        (suffix, _) => {
                            base.strip_suffix(suffix).filter(|cut| !cut.is_empty()).unwrap_or(base).to_owned()
                        }
                    }
                }
                None => base.to_owned(),
            }
        }
        "dirname" => {
            let path = interpreter.arg(args, 0)?;
            let path = interpreter.string_arg(&path)?;
            let clean_path = path.trim_end_matches('/');
            match clean_path.rfind('/') {
                Some(slash) if clean_path[..slash].bytes().all(|byte| byte == b'/') => "/".into(),
                Some(slash) => {
                    let parent = clean_path[..slash].trim_end_matches('/');
                    match parent.strip_prefix("//") {
                        Some(rest) => format!("/{}", rest.trim_start_matches('/')),
                        None => parent.to_owned(),
                    }
                }
                None if clean_path.is_empty() && !path.is_empty() => "/".into(),
                None => ".".into(),
            }
        }
        "extname" => {
            let path = interpreter.arg(args, 0)?;
            let path = interpreter.string_arg(&path)?;
            let base = path.trim_end_matches('/').rsplit('/').next().unwrap_or("").trim_start_matches('.');
            match base.rfind('.') {
                Some(dot) if dot > 0 => base[dot..].to_owned(),
                _ => String::new(),
            }
        }
        _ => {
            return Err(
                interpreter.unsupported_error(format!("`File.{name}`, which reaches outside the template,"))
            );
        }
    })))
}

/// Joins the parts of a path with one slash between them. The parts in an array are joined first.
fn join(interpreter: &mut Interpreter, parts: &[Value]) -> EvalResult<String> {
    interpreter.check_depth()?;
    let mut path = String::new();
    for (index, part) in parts.iter().enumerate() {
        let part = match part {
            Value::Array(list) => join(interpreter, &list.to_vec())?,
            other => interpreter.string_arg(other)?,
        };
        match (path.ends_with('/'), part.starts_with('/')) {
            _ if index == 0 => {}
            (true, true) => path.truncate(path.trim_end_matches('/').len()),
            (false, false) => path.push('/'),
            _ => {}
        }
        path.push_str(&part);
    }
    Ok(path)
}
