//! The RPC: one request in, one answer out, whatever the request is.

use std::io::{Read, Write};

use serde::Deserialize;
use serde_json::{Value, json};

use super::args::{Hash, type_name};
use super::failure::{Failure, Outcome};
use base::{Error, Result};

/// The highest contract spoken.
pub(crate) const API_VERSION: u64 = 2;
/// No request of a caller in its right mind is larger.
const REQUEST_LIMIT: u64 = 16 << 20;

/// What was asked.
#[derive(Deserialize)]
pub(crate) struct Request {
    pub method: String,
    #[serde(default)]
    arguments: Value,
    #[serde(default)]
    context: Value,
    #[serde(default)]
    api_version: Value,
}

impl Request {
    /// Its arguments and its context, and whether contract 2 is in force.
    pub(crate) fn parts(self) -> Outcome<(Vec<Value>, Hash, bool)> {
        let context = match self.context {
            Value::Object(context) => context,
            Value::Null => Hash::new(),
            other => {
                return Err(Failure::call(format!("'context' must be a hash, {} given", type_name(&other))));
            }
        };
        let arguments = match self.arguments {
            Value::Array(arguments) => arguments,
            Value::Null => Vec::new(),
            other => {
                return Err(Failure::call(format!(
                    "'arguments' must be an array, {} given",
                    type_name(&other)
                )));
            }
        };
        let v2 = is_v2(&self.api_version, &context)?;
        Ok((arguments, context, v2))
    }
}

/// What is said while a request is carried out.
pub(crate) struct Log<'a> {
    stderr: &'a mut dyn Write,
    text: String,
}

impl Log<'_> {
    /// Says a line, on stderr and in the answer. Secrets have no place here.
    pub(crate) fn line(&mut self, line: impl std::fmt::Display) {
        let line = format!("{line}\n");
        // A caller that closed stderr still gets its answer.
        let _ = self.stderr.write_all(line.as_bytes());
        self.text.push_str(&line);
    }
}

/// Reads a request, has it carried out by `answer`, writes the answer.
pub(crate) fn exchange(
    request: impl Read,
    mut response: impl Write,
    mut log: impl Write,
    answer: impl FnOnce(Request, &mut Log) -> Outcome<Value>,
) -> Result<()> {
    let mut log = Log { stderr: &mut log, text: String::new() };
    let outcome = read(request).and_then(|request| answer(request, &mut log));
    let answer = match outcome {
        Ok(result) => json!({"result": result, "error": null, "log": log.text}),
        Err(failure) => {
            log.line(format_args!("{}: {failure}", failure.kind.name()));
            let error = json!({
                "type": failure.kind.name(),
                "message": failure.message,
                "ok_to_retry": failure.ok_to_retry,
            });
            json!({"result": null, "error": error, "log": log.text})
        }
    };
    let text = format!("{answer}\n");
    response
        .write_all(text.as_bytes())
        .and_then(|()| response.flush())
        .map_err(|error| Error::io("writing the CPI's answer", error))
}

fn read(request: impl Read) -> Outcome<Request> {
    let mut text = Vec::new();
    request
        .take(REQUEST_LIMIT + 1)
        .read_to_end(&mut text)
        .map_err(|error| Failure::call(format!("the request cannot be read: {error}")))?;
    if text.len() as u64 > REQUEST_LIMIT {
        return Err(Failure::call(format!("the request is larger than {} MiB", REQUEST_LIMIT >> 20)));
    }
    let value: Value = serde_json::from_slice(&text)
        .map_err(|error| Failure::call(format!("the request is not one JSON document: {error}")))?;
    if !value.is_object() {
        return Err(Failure::call(format!("the request must be a hash, {} given", type_name(&value))));
    }
    serde_json::from_value(value).map_err(|_| Failure::call("the request must have 'method', a string"))
}

/// Contract 2 is in force when both sides speak it; a request that names no stemcell leaves it to the caller.
fn is_v2(requested: &Value, context: &Hash) -> Outcome<bool> {
    let version = |value: &Value, what: &str| match value {
        Value::Null => Ok(None),
        value => value.as_u64().map(Some).ok_or_else(|| {
            Failure::call(format!("{what} must be a whole number, {} given", type_name(value)))
        }),
    };
    let requested = version(requested, "'api_version'")?.unwrap_or(1);
    if !(1..=API_VERSION).contains(&requested) {
        return Err(Failure::call(format!(
            "api_version {requested} is not spoken here, 1 to {API_VERSION} are"
        )));
    }
    let stemcell =
        context.get("vm").and_then(|vm| vm.pointer("/stemcell/api_version")).unwrap_or(&Value::Null);
    let stemcell = version(stemcell, "the context's vm.stemcell.api_version")?;
    Ok(requested >= 2 && stemcell.is_none_or(|version| version >= 2))
}
