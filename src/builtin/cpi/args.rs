//! Positional arguments of a CPI method, checked in number and type.

use serde_json::{Map, Value};

use super::failure::{Failure, Outcome};

/// A JSON object.
pub(crate) type Hash = Map<String, Value>;

/// The arguments not taken yet.
pub(crate) struct Arguments<'a> {
    method: &'a str,
    values: std::vec::IntoIter<Value>,
    position: usize,
}

impl<'a> Arguments<'a> {
    /// The arguments of `method`, which takes `least` to `most` of them.
    pub(crate) fn new(method: &'a str, values: Vec<Value>, least: usize, most: usize) -> Outcome<Self> {
        if !(least..=most).contains(&values.len()) {
            let wanted = if least == most { format!("{least}") } else { format!("{least} to {most}") };
            let given = values.len();
            return Err(Failure::call(format!("{method} takes {wanted} arguments, {given} given")));
        }
        Ok(Arguments { method, values: values.into_iter(), position: 0 })
    }

    fn next(&mut self) -> Value {
        self.position += 1;
        self.values.next().unwrap_or(Value::Null)
    }

    /// The error that says what the argument just taken should have been. Its value stays out of the
    /// message: it may be a secret.
    fn mismatch(&self, name: &str, wanted: &str, value: &Value) -> Failure {
        let given = type_name(value);
        let (method, position) = (self.method, self.position);
        Failure::call(format!("{method}: argument {position} ({name}) must be {wanted}, {given} given"))
    }

    pub(crate) fn string(&mut self, name: &str) -> Outcome<String> {
        match self.next() {
            Value::String(text) if !text.is_empty() => Ok(text),
            other => Err(self.mismatch(name, "a string that is not empty", &other)),
        }
    }

    /// A hash; null stands for an empty one.
    pub(crate) fn hash(&mut self, name: &str) -> Outcome<Hash> {
        match self.next() {
            Value::Object(hash) => Ok(hash),
            Value::Null => Ok(Hash::new()),
            other => Err(self.mismatch(name, "a hash", &other)),
        }
    }

    /// A size in MiB.
    pub(crate) fn size(&mut self, name: &str) -> Outcome<u64> {
        let value = self.next();
        match value.as_u64() {
            Some(size) if size > 0 => Ok(size),
            _ => Err(self.mismatch(name, "a whole number above 0", &value)),
        }
    }

    /// A list of strings; null stands for an empty one.
    pub(crate) fn strings(&mut self, name: &str) -> Outcome<Vec<String>> {
        match self.next() {
            Value::Null => Ok(Vec::new()),
            Value::Array(values) => {
                let texts = values.iter().map(|value| value.as_str().map(str::to_owned)).collect();
                match texts {
                    Some(texts) => Ok(texts),
                    None => Err(self.mismatch(name, "an array of strings", &Value::Array(values))),
                }
            }
            other => Err(self.mismatch(name, "an array of strings", &other)),
        }
    }
}

/// What a JSON value is, in words.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(text) if text.is_empty() => "an empty string",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "a hash",
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
    fn number_and_type_are_checked_and_named() {
        let error = Arguments::new("delete_vm", vec![], 1, 1).err().unwrap();
        assert_eq!(
            (error.kind, error.message.as_str()),
            (FailureKind::InvalidCall, "delete_vm takes 1 arguments, 0 given")
        );
        let error = arguments(&[json!(7)]).string("vm_cid").unwrap_err();
        assert_eq!(
            error.message,
            "m: argument 1 (vm_cid) must be a string that is not empty, a number given"
        );
        for bad in [json!(0), json!(-1), json!(1.5), json!("1"), json!(null)] {
            assert!(arguments(&[bad]).size("size").is_err());
        }
        assert!(arguments(&[json!([1])]).strings("disk_cids").is_err());
        assert!(arguments(&[json!("")]).hash("env").is_err());
    }
}
