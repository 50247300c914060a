//! Encodings: percent-encoding, Basic authorization, sorted JSON, RFC 3339. Also shortens text from outside.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Percent-encodes every character of a part of a URL except ASCII letters and digits.
pub fn percent_encode(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// Decodes the percent-encoding of a part of a URL. Invalid escapes stay unchanged.
pub fn percent_decode(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// Returns the value of an `Authorization` header (RFC 7617).
pub fn basic_authorization(user: &str, password: &str) -> String {
    basic_authorization_of(&format!("{user}:{password}"))
}

/// Returns the value of an `Authorization` header for `user:password`.
pub fn basic_authorization_of(credentials: &str) -> String {
    format!("Basic {}", STANDARD.encode(credentials))
}

/// Shortens text to at most `limit` bytes and `…`, for messages from outside that contain whole documents.
pub fn shorten(text: &str, limit: usize) -> Cow<'_, str> {
    match text.get(..text.floor_char_boundary(limit)) {
        Some(start) if start.len() < text.len() => Cow::Owned(format!("{start}…")),
        _ => Cow::Borrowed(text),
    }
}

/// Returns JSON text with the keys of objects sorted, so that equal values have equal texts.
pub fn sorted_json(value: &serde_json::Value) -> String {
    use serde_json::Value;
    fn sort_keys(value: &Value) -> Value {
        match value {
            Value::Object(object) => {
                let mut entries: Vec<_> = object.iter().collect();
                entries.sort_by_key(|(key, _)| key.as_str());
                entries.into_iter().map(|(key, value)| (key.clone(), sort_keys(value))).collect()
            }
            Value::Array(items) => items.iter().map(sort_keys).collect(),
            other => other.clone(),
        }
    }
    sort_keys(value).to_string()
}

/// Returns a time in seconds since 1970 to the minute: `2026-02-01 00:00 UTC`.
pub fn minute(seconds: u64) -> String {
    match i64::try_from(seconds).ok().and_then(|seconds| OffsetDateTime::from_unix_timestamp(seconds).ok()) {
        Some(time) => format!("{} {:02}:{:02} UTC", time.date(), time.hour(), time.minute()),
        None => format!("second {seconds} since 1970"),
    }
}

/// Returns the current time in UTC in the form of RFC 3339, to the second.
pub fn now() -> String {
    rfc3339(OffsetDateTime::now_utc())
}

/// Returns a time in the form of RFC 3339, to the second.
pub fn rfc3339(time: OffsetDateTime) -> String {
    time.replace_nanosecond(0).unwrap_or(time).format(&Rfc3339).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_escapes_stay_unchanged() {
        for (text, expected) in [("a%2Fb%2f", "a/b/"), ("%zz%4", "%zz%4"), ("%", "%"), ("%C3%A4", "ä")] {
            assert_eq!(percent_decode(text), expected);
        }
    }

    #[test]
    fn encodings_follow_their_rfcs() {
        // The example of RFC 7617.
        assert_eq!(basic_authorization("Aladdin", "open sesame"), "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
        assert_eq!(rfc3339(OffsetDateTime::UNIX_EPOCH), "1970-01-01T00:00:00Z");
    }
}
