//! Checks the number and types of a CPI method's positional arguments.

use serde_json::Value;

use super::failure::{CpiFailure, CpiResult};
use base::JsonObject;

/// The arguments of one call, taken one after the other.
pub(crate) struct Arguments<'a> {
    method: &'a str,
    values: std::vec::IntoIter<Value>,
    position: usize,
}

impl<'a> Arguments<'a> {
    /// Checks that there are `minimum` to `maximum` arguments.
    pub(crate) fn new(
        method: &'a str,
        values: Vec<Value>,
        minimum: usize,
        maximum: usize,
    ) -> CpiResult<Self> {
        if !(minimum..=maximum).contains(&values.len()) {
            let expected_count =
                if minimum == maximum { format!("{minimum}") } else { format!("{minimum} to {maximum}") };
            let count = values.len();
            return Err(CpiFailure::invalid_call(format!(
                "{method} takes {expected_count} argument{}, not {count}",
                if expected_count == "1" { "" } else { "s" }
            ))
            .before_any_effect());
        }
        Ok(Arguments { method, values: values.into_iter(), position: 0 })
    }

    fn take_next(&mut self) -> Value {
        self.position += 1;
        self.values.next().unwrap_or(Value::Null)
    }

    /// Returns the error for the wrong type of the last taken argument. The message does not quote the value,
    /// which may be a secret.
    fn mismatch_error(&self, name: &str, expected: &str, value: &Value) -> CpiFailure {
        let value_type = type_name(value);
        let (method, position) = (self.method, self.position);
        CpiFailure::invalid_call(format!(
            "{method}: argument {position} ({name}) must be {expected}, not {value_type}"
        ))
        .before_any_effect()
    }

    /// Takes a string that is not empty. `name` is the argument's name, for errors.
    pub(crate) fn take_string(&mut self, name: &str) -> CpiResult<String> {
        match self.take_next() {
            Value::String(text) if !text.is_empty() => Ok(text),
            other => Err(self.mismatch_error(name, "a non-empty string", &other)),
        }
    }

    /// Takes a hash. Null means an empty one.
    pub(crate) fn take_hash(&mut self, name: &str) -> CpiResult<JsonObject> {
        match self.take_next() {
            Value::Object(hash) => Ok(hash),
            Value::Null => Ok(JsonObject::new()),
            other => Err(self.mismatch_error(name, "an object", &other)),
        }
    }

    /// Takes a size in MiB, a whole number above 0.
    pub(crate) fn take_size(&mut self, name: &str) -> CpiResult<u64> {
        let value = self.take_next();
        match value.as_u64() {
            Some(size) if size > 0 => Ok(size),
            _ => Err(self.mismatch_error(name, "a whole number above 0", &value)),
        }
    }

    /// Takes an array of strings. Null means an empty one.
    pub(crate) fn take_strings(&mut self, name: &str) -> CpiResult<Vec<String>> {
        match self.take_next() {
            Value::Null => Ok(Vec::new()),
            Value::Array(values) => {
                let texts = values.iter().map(|value| value.as_str().map(str::to_owned)).collect();
                match texts {
                    Some(texts) => Ok(texts),
                    None => Err(self.mismatch_error(name, "a list of strings", &Value::Array(values))),
                }
            }
            other => Err(self.mismatch_error(name, "a list of strings", &other)),
        }
    }
}

/// Returns the type of a JSON value with its article, for messages.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(text) if text.is_empty() => "an empty string",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::super::failure::FailureKind;
    use super::*;
    use serde_json::json;

    fn arguments(values: &[Value]) -> Arguments<'static> {
        Arguments::new("m", values.to_vec(), 0, 9).unwrap()
    }

    #[test]
    fn errors_name_the_wrong_number_or_type() {
        let error = Arguments::new("delete_vm", vec![], 1, 1).err().unwrap();
        assert_eq!(
            (error.kind, error.message.as_str()),
            (FailureKind::InvalidCall, "delete_vm takes 1 argument, not 0")
        );
        let error = arguments(&[json!(7)]).take_string("vm_cid").unwrap_err();
        assert_eq!(error.message, "m: argument 1 (vm_cid) must be a non-empty string, not a number");
        for bad in [json!(0), json!(-1), json!(1.5), json!("1"), json!(null)] {
            assert!(arguments(&[bad]).take_size("size").is_err());
        }
        assert!(arguments(&[json!([1])]).take_strings("disk_cids").is_err());
        assert!(arguments(&[json!("")]).take_hash("env").is_err());
    }
}
