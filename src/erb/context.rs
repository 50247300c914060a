//! The evaluation context: the data about a job and its instance that a template can read.
//!
//! The JSON has the form that upstream writes for its renderer (`job_evaluation_context.go`): `index`, `id`,
//! `az`, `bootstrap`, `job`, `deployment`, `address`, `networks`, `global_properties`, `cluster_properties`,
//! `job_properties` and `default_properties`.
//!
//! A template sees only the properties that the job's spec declares: the keys of `default_properties`, which
//! are dotted names. Their values come from `job_properties` if the context has them. Otherwise they come
//! from `cluster_properties` (those of the instance group) merged over `global_properties`. A property
//! without a value there has its default.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::ContextError;

/// The evaluation context of one job on one instance. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Context {
    inner: Arc<Inner>,
}

/// The content of a [`Context`], which its clones share.
#[derive(Debug)]
struct Inner {
    /// The whole context, which templates see as `spec`.
    spec: Value,
    /// The declared properties, nested by their dotted names.
    properties: Value,
}

impl Context {
    /// Reads a context in upstream's JSON form. Every section may be missing or null.
    ///
    /// # Errors
    ///
    /// Returns an error if `json` is not an object, if one of `job`, `networks` and the four sections of
    /// properties is neither an object nor null, or if a declared property is below another one that is a
    /// value.
    pub fn from_json(json: &Value) -> Result<Self, ContextError> {
        let Value::Object(spec) = json else {
            return Err(ContextError::NotAnObject);
        };
        for key in [
            "job",
            "job_properties",
            "global_properties",
            "cluster_properties",
            "default_properties",
            "networks",
        ] {
            if let Some(value) = spec.get(key)
                && !value.is_null()
                && !value.is_object()
            {
                return Err(ContextError::Section(key));
            }
        }
        let mut spec = spec.clone();
        let job_properties = match spec.get("job_properties") {
            Some(Value::Object(properties)) => Value::Object(properties.clone()),
            _ => {
                let mut merged_properties = object_or_empty(spec.get("global_properties"));
                merge(&mut merged_properties, object_or_empty(spec.get("cluster_properties")));
                // Upstream merges in place, so `spec.global_properties` has the merged properties.
                spec.insert("global_properties".into(), Value::Object(merged_properties.clone()));
                Value::Object(merged_properties)
            }
        };
        let mut properties = Map::new();
        for (name, default) in object_or_empty(spec.get("default_properties")) {
            let value = find_property(&job_properties, &name)
                .filter(|value| !value.is_null())
                .cloned()
                .unwrap_or(default);
            set_property(&mut properties, &name, value)?;
        }
        let inner = Inner { spec: Value::Object(spec), properties: Value::Object(properties) };
        Ok(Context { inner: Arc::new(inner) })
    }

    /// Checks that every integer in the JSON text of a context fits into 64 bits. The JSON reader would
    /// silently round any other.
    ///
    /// # Errors
    ///
    /// Returns [`ContextError::Integer`] with the first such integer.
    pub fn check_integers(text: &str) -> Result<(), ContextError> {
        let bytes = text.as_bytes();
        let mut index = 0;
        while let Some(byte) = bytes.get(index) {
            let start = index;
            index += 1;
            match byte {
                b'"' => {
                    while let Some(byte) = bytes.get(index) {
                        index += if *byte == b'\\' { 2 } else { 1 };
                        if *byte == b'"' {
                            break;
                        }
                    }
                }
                b'-' | b'0'..=b'9' => {
                    let is_number_byte = |byte: &&u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
                    index += bytes[index..].iter().take_while(is_number_byte).count();
                    let number = &text[start..index];
                    let is_float = number.contains(['.', 'e', 'E']);
                    if !is_float && number.parse::<i64>().is_err() && number.parse::<u64>().is_err() {
                        return Err(ContextError::Integer(number.to_owned()));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns the object that templates see as `spec`.
    pub fn spec(&self) -> &Value {
        &self.inner.spec
    }

    /// Returns the object that templates see as `raw_properties`: all declared properties, nested by their
    /// dotted names.
    pub fn raw_properties(&self) -> &Value {
        &self.inner.properties
    }

    /// Returns the name of the job, which templates see as `name`.
    pub fn job_name(&self) -> Option<&str> {
        self.inner.spec.get("job")?.get("name")?.as_str()
    }

    /// Returns the dotted names of all properties that have a value. Groups of properties and the keys of
    /// hashes in values are included.
    pub fn property_names(&self) -> Vec<String> {
        let mut names = Vec::new();
        collect_names("", &self.inner.properties, &mut names);
        names
    }
}

/// Returns a copy of an object. Returns an empty one for other values.
fn object_or_empty(value: Option<&Value>) -> Map<String, Value> {
    value.and_then(Value::as_object).cloned().unwrap_or_default()
}

/// Merges `source` into `target`. Objects are merged key by key, and other values are replaced.
fn merge(target: &mut Map<String, Value>, source: Map<String, Value>) {
    for (key, value) in source {
        match (target.get_mut(&key), value) {
            (Some(Value::Object(target_value)), Value::Object(source_value)) => {
                merge(target_value, source_value)
            }
            (Some(target_value), source_value) => *target_value = source_value,
            (None, source_value) => {
                target.insert(key, source_value);
            }
        }
    }
}

/// Returns the property with a dotted name.
fn find_property<'a>(properties: &'a Value, name: &str) -> Option<&'a Value> {
    name.split('.').try_fold(properties, |group, key| group.get(key))
}

/// Sets the property with a dotted name, and creates the groups around it. A group that is null or false is
/// replaced.
fn set_property(properties: &mut Map<String, Value>, name: &str, value: Value) -> Result<(), ContextError> {
    let mut group = properties;
    let mut keys = name.split('.').peekable();
    while let Some(key) = keys.next() {
        if keys.peek().is_none() {
            group.insert(key.to_owned(), value);
            return Ok(());
        }
        let slot = group.entry(key).or_insert(Value::Null);
        if slot.is_null() || *slot == Value::Bool(false) {
            *slot = Value::Object(Map::new());
        }
        let Value::Object(subgroup) = slot else {
            return Err(ContextError::Nested { name: name.to_owned(), parent: key.to_owned() });
        };
        group = subgroup;
    }
    Ok(())
}

/// Adds the dotted names of all properties in `value`, which is itself at `prefix`.
fn collect_names(prefix: &str, value: &Value, names: &mut Vec<String>) {
    let Value::Object(map) = value else { return };
    for (key, value) in map {
        let name = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        if !value.is_null() {
            names.push(name.clone());
        }
        collect_names(&name, value, names);
    }
}

#[cfg(test)]
mod tests {
    use super::{Context, ContextError};

    #[test]
    fn rejects_integers_beyond_64_bits() {
        let fine = [
            r#"{"a": 18446744073709551615}"#,
            "[-9223372036854775808, 1e400]",
            r#""99999999999999999999\"1""#,
        ];
        for text in fine {
            assert_eq!(Context::check_integers(text), Ok(()), "{text}");
        }
        let error = Context::check_integers(r#"{"a": [1, 18446744073709551616]}"#).unwrap_err();
        assert_eq!(error, ContextError::Integer("18446744073709551616".into()));
    }
}
