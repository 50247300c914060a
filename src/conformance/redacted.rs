//! Redacts JSON documents so that they stay JSON.

use serde_json::{Map, Value};

use base::redact::Redactor;

/// Redacts values and keys. A secret number becomes a string.
pub(super) fn redact_value(redactor: &Redactor, value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(redactor.redact(text).into_owned()),
        Value::Array(values) => values.iter().map(|value| redact_value(redactor, value)).collect(),
        Value::Object(object) => Value::Object(
            object
                .iter()
                .map(|(key, value)| (redactor.redact(key).into_owned(), redact_value(redactor, value)))
                .collect::<Map<_, _>>(),
        ),
        Value::Number(number) => {
            let text = number.to_string();
            let redacted_text = redactor.redact(&text);
            if redacted_text == text { value.clone() } else { Value::String(redacted_text.into_owned()) }
        }
        Value::Null | Value::Bool(_) => value.clone(),
    }
}

/// Redacts text. If JSON contains a secret, it is encoded again.
pub(super) fn redact_text(redactor: &Redactor, text: &str) -> String {
    if let Ok(document) = serde_json::from_str::<Value>(text) {
        let redacted_document = redact_value(redactor, &document);
        if redacted_document != document {
            return redacted_document.to_string();
        }
    }
    redactor.redact(text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn redacted_document_stays_json() {
        let redactor = Redactor::default();
        redactor.add("12345");
        redactor.add("s3cret");
        let redacted_document =
            redact_value(&redactor, &json!({"a": [12345, "x s3cret y", null], "s3cret": 7}));
        assert_eq!(redacted_document, json!({"a": ["<redacted>", "x <redacted> y", null], "<redacted>": 7}));
        // Escapes do not hide a secret.
        assert!(!redact_text(&redactor, r#"{"result": "s3\u0063ret"}"#).contains("3\\u0063"));
        assert_eq!(redact_text(&redactor, "log s3cret {"), "log <redacted> {");
        assert_eq!(redact_text(&redactor, "{ \"a\": 1 }"), "{ \"a\": 1 }");
    }
}
