//! Changes of single keys (RFC 6902). A patch cannot replace an object of several keys as a whole, because
//! the values that the caller read may be masked.

use serde_json::{Value, json};

use super::error::IronicError;
use super::values;

/// Changes to one object, applied in order.
#[derive(Debug, Clone, Default)]
pub struct Patch {
    operations: Vec<(Vec<String>, Option<Value>)>,
}

impl Patch {
    /// Creates an empty patch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the value at a path of keys, and overwrites an existing value.
    #[must_use]
    pub fn set(mut self, path: &[&str], value: impl Into<Value>) -> Self {
        self.operations.push((path_keys(path), Some(value.into())));
        self
    }

    /// Removes the value at a path of keys. Ironic refuses the whole patch if there is none.
    #[must_use]
    pub fn remove(mut self, path: &[&str]) -> Self {
        self.operations.push((path_keys(path), None));
        self
    }

    /// Returns true if the patch has no changes.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Returns the JSON patch to send. Fails if a key or value must not be written, see [`values::check`].
    pub(super) fn document(&self) -> Result<Value, IronicError> {
        let mut document = Vec::new();
        for (path, value) in &self.operations {
            let name = path.join(".");
            for key in path {
                values::check(&Value::String(key.clone()), "a key")?;
            }
            let pointer = path.iter().map(|key| format!("/{}", escape(key))).collect::<String>();
            document.push(match value {
                Some(value) => {
                    values::check(value, &name)?;
                    json!({"op": "add", "path": pointer, "value": value})
                }
                None => json!({"op": "remove", "path": pointer}),
            });
        }
        Ok(Value::Array(document))
    }
}

fn path_keys(path: &[&str]) -> Vec<String> {
    path.iter().map(|key| (*key).to_owned()).collect()
}

/// Escapes a key for a JSON pointer (RFC 6901).
fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_escaped_and_values_checked() {
        let patch = Patch::new().set(&["extra", "a/b~c"], 1).remove(&["properties", "x"]);
        assert_eq!(
            patch.document().unwrap(),
            json!([{"op": "add", "path": "/extra/a~1b~0c", "value": 1}, {"op": "remove",
                "path": "/properties/x"}])
        );
        assert!(Patch::new().set(&["properties", "auth_password"], "******").document().is_err());
        assert!(Patch::new().set(&["extra", "a\nb"], 1).document().is_err());
        assert!(Patch::new().remove(&["extra", "a\0"]).document().is_err());
    }
}
