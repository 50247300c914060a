//! The CPI's RPC: reads one request and writes one answer, even to a malformed request.

use std::io::{Read, Write};
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use super::args::type_name;
use super::failure::{CpiFailure, CpiResult};
use super::files::read_json;
use base::JsonObject;
use base::{Error, Result};

/// The highest version of the CPI API that the built-in CPIs implement.
const API_VERSION: u64 = 2;
/// The maximum size of a request, in bytes.
const MAX_REQUEST_BYTES: u64 = 16 << 20;

/// A request. All fields but the method are checked in [`Request::parts`].
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
    /// Returns the arguments, the context, and true if contract v2 applies.
    pub(crate) fn parts(self) -> CpiResult<(Vec<Value>, JsonObject, bool)> {
        let context = match self.context {
            Value::Object(context) => context,
            Value::Null => JsonObject::new(),
            other => {
                return Err(CpiFailure::invalid_call(format!(
                    "'context' must be an object, not {}",
                    type_name(&other)
                )));
            }
        };
        let arguments = match self.arguments {
            Value::Array(arguments) => arguments,
            Value::Null => Vec::new(),
            other => {
                return Err(CpiFailure::invalid_call(format!(
                    "'arguments' must be a list, not {}",
                    type_name(&other)
                )));
            }
        };
        let is_v2 = check_is_v2(&self.api_version, &context)?;
        Ok((arguments, context, is_v2))
    }
}

/// The log of one request.
pub(crate) struct Log<'a> {
    stderr: &'a mut dyn Write,
    text: String,
}

impl Log<'_> {
    /// Writes a line to standard error and to the answer's log. It must not contain secrets.
    pub(crate) fn write_line(&mut self, line: impl std::fmt::Display) {
        let line = format!("{line}\n");
        // A caller that closed standard error still gets its answer.
        let _ = self.stderr.write_all(line.as_bytes());
        self.text.push_str(&line);
    }
}

/// Reads a request, calls `answer` with it, and writes the answer. An `Err` means that writing the answer
/// failed.
pub(crate) fn exchange(
    request: impl Read,
    mut answer_out: impl Write,
    mut stderr: impl Write,
    answer: impl FnOnce(Request, &mut Log) -> CpiResult<Value>,
) -> Result<()> {
    let mut log = Log { stderr: &mut stderr, text: String::new() };
    let outcome =
        read(request).map_err(CpiFailure::before_any_effect).and_then(|request| answer(request, &mut log));
    let answer = match outcome {
        Ok(result) => json!({"result": result, "error": null, "log": log.text}),
        Err(failure) => {
            log.write_line(format_args!("{}: {failure}", failure.kind.name()));
            let mut error = json!({
                "type": failure.kind.name(),
                "message": failure.message,
                "ok_to_retry": failure.ok_to_retry,
            });
            if failure.made_nothing {
                error["made_nothing"] = json!(true);
            }
            if !failure.hints.is_empty() {
                error["hints"] = json!(failure.hints);
            }
            json!({"result": null, "error": error, "log": log.text})
        }
    };
    let text = format!("{answer}\n");
    answer_out
        .write_all(text.as_bytes())
        .and_then(|()| answer_out.flush())
        .map_err(|error| Error::io("writing the CPI's answer", error))
}

fn read(request: impl Read) -> CpiResult<Request> {
    let mut text = Vec::new();
    request
        .take(MAX_REQUEST_BYTES + 1)
        .read_to_end(&mut text)
        .map_err(|error| CpiFailure::invalid_call(format!("the request cannot be read: {error}")))?;
    if text.len() as u64 > MAX_REQUEST_BYTES {
        return Err(CpiFailure::invalid_call(format!(
            "the request is larger than {} MiB",
            MAX_REQUEST_BYTES >> 20
        )));
    }
    let value: Value = serde_json::from_slice(&text).map_err(|error| {
        CpiFailure::invalid_call(format!("the request is not one JSON document: {error}"))
    })?;
    if !value.is_object() {
        return Err(CpiFailure::invalid_call(format!(
            "the request must be an object, not {}",
            type_name(&value)
        )));
    }
    serde_json::from_value(value)
        .map_err(|_| CpiFailure::invalid_call("the request must have 'method', a string"))
}

/// The version of the built-in CPIs, which `info` reports.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Returns the API version that `info` reports. The property `debug.cpi.api_version` caps it, as in other
/// CPIs.
pub(crate) fn api_version(config: &Path, context: &JsonObject) -> CpiResult<u64> {
    let properties = read_json::<JsonObject>(config)?.unwrap_or_default();
    let debug = context.get("debug").or(properties.get("debug"));
    match debug.and_then(|debug| debug.pointer("/cpi/api_version")) {
        None | Some(Value::Null) => Ok(API_VERSION),
        Some(version) => match version.as_u64() {
            Some(version @ 1..) => Ok(version.min(API_VERSION)),
            _ => Err(CpiFailure::cloud("debug.cpi.api_version must be a whole number of at least 1")),
        },
    }
}

/// Returns true if contract v2 applies: the request and the stemcell are of version 2 or later. A missing
/// version means 1.
fn check_is_v2(requested_version: &Value, context: &JsonObject) -> CpiResult<bool> {
    let version = |value: &Value, name: &str| match value {
        Value::Null => Ok(None),
        value => value.as_u64().map(Some).ok_or_else(|| {
            CpiFailure::invalid_call(format!("{name} must be a whole number, not {}", type_name(value)))
        }),
    };
    let requested_version = version(requested_version, "'api_version'")?.unwrap_or(1);
    if !(1..=API_VERSION).contains(&requested_version) {
        return Err(CpiFailure::invalid_call(format!(
            "api_version {requested_version} is not supported: use 1 to {API_VERSION}"
        )));
    }
    let stemcell =
        context.get("vm").and_then(|vm| vm.pointer("/stemcell/api_version")).unwrap_or(&Value::Null);
    let stemcell = version(stemcell, "the context's vm.stemcell.api_version")?;
    Ok(requested_version >= 2 && stemcell.unwrap_or(1) >= 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_stemcell_version_means_contract_v1() {
        for (requested_version, stemcell, expected) in [
            (json!(2), json!({"vm": {"stemcell": {"api_version": 2}}}), true),
            (json!(2), json!({"vm": {"stemcell": {"api_version": 1}}}), false),
            (json!(2), json!({"vm": {"stemcell": {}}}), false),
            (json!(2), json!({}), false),
            (json!(1), json!({"vm": {"stemcell": {"api_version": 3}}}), false),
            (Value::Null, json!({"vm": {"stemcell": {"api_version": 3}}}), false),
        ] {
            let request =
                json!({"method": "create_vm", "context": stemcell, "api_version": requested_version});
            let (_, _, v2) = serde_json::from_value::<Request>(request.clone()).unwrap().parts().unwrap();
            assert_eq!(v2, expected, "{request}");
        }
    }
}
