//! The envelope of an answer. The module `answer` reads the result in it.

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::error::{CpiError, CpiErrorKind};
use super::methods::Method;
use crate::protocol::RequestId;
use base::encoding::shorten;
use base::text::{clean_line, json_problem};

/// The maximum size of an answer that is read, in bytes.
pub const MAX_ANSWER_BYTES: u64 = 16 * 1024 * 1024;
/// The maximum length of a CPI's message, in bytes. Some messages contain whole HTTP answers.
const MAX_MESSAGE_BYTES: usize = 16 * 1024;
/// The maximum length of an error type, in bytes.
const MAX_TYPE_BYTES: usize = 200;
/// The maximum length of the shown beginning of an answer that is not JSON, in characters.
const MAX_BEGINNING_CHARS: usize = 120;

/// The document that a CPI writes. A missing key is `None`, a null is `Some(Value::Null)`.
#[derive(Deserialize)]
struct Envelope {
    #[serde(default, deserialize_with = "deserialize_present")]
    result: Option<Value>,
    #[serde(default, deserialize_with = "deserialize_present")]
    error: Option<Value>,
}

fn deserialize_present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// The error in the document of a CPI.
#[derive(Deserialize)]
struct ErrorBody {
    #[serde(rename = "type")]
    error_type: Option<String>,
    message: Option<String>,
    ok_to_retry: Option<bool>,
    /// A field of the built-in CPIs. Any value is accepted here, because other CPIs may use the name for
    /// another purpose. The same holds for `hints`.
    made_nothing: Option<Value>,
    hints: Option<Value>,
}

/// Reads the JSON document that a CPI wrote: its result, or its error.
pub fn parse_answer(bytes: &[u8], method: Method, request_id: &RequestId) -> Result<Value, CpiError> {
    let no_answer_error = |problem: String| CpiError::no_answer(method, request_id, problem);
    if bytes.len() as u64 > MAX_ANSWER_BYTES {
        return Err(no_answer_error(format!("it is larger than {} MiB", MAX_ANSWER_BYTES >> 20)));
    }
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(no_answer_error("it wrote nothing".to_owned()));
    }
    if bytes.trim_ascii_start().starts_with(b"[") {
        serde_json::from_slice::<IgnoredAny>(bytes)
            .map_err(|error| no_answer_error(not_json_problem(method, bytes, &error)))?;
        return Err(no_answer_error(problem_with_beginning(
            method,
            bytes,
            "it is a list, not an object with `result` or `error`",
        )));
    }
    let Envelope { result, error } = serde_json::from_slice(bytes)
        .map_err(|error| no_answer_error(not_json_problem(method, bytes, &error)))?;
    if result.is_none() && error.is_none() {
        return Err(no_answer_error(problem_with_beginning(
            method,
            bytes,
            "it has neither `result` nor `error`",
        )));
    }
    let result = result.unwrap_or_default();
    match error.filter(|error| !error.is_null()) {
        None => Ok(result),
        Some(_) if !result.is_null() => Err(no_answer_error("it has both a result and an error".to_owned())),
        Some(error) => {
            let error: ErrorBody = serde_json::from_value(error).map_err(|error| {
                no_answer_error(format!("its `error` is malformed: {}", json_problem(&error)))
            })?;
            let error_type = error.error_type.unwrap_or_default();
            let message = error.message.unwrap_or_default();
            let kind = CpiErrorKind::of(&error_type, &message);
            let cpi_message = [&message, &error_type].into_iter().find(|text| !text.trim().is_empty());
            let error_type = match message.trim() {
                // The type then takes the place of the message.
                "" => Box::default(),
                _ => shorten(&error_type, MAX_TYPE_BYTES).into(),
            };
            Err(CpiError::Answered {
                method,
                request_id: request_id.clone(),
                kind,
                message: cpi_message
                    .map(|cpi_message| shorten(cpi_message, MAX_MESSAGE_BYTES).into())
                    .unwrap_or_default(),
                error_type,
                ok_to_retry: error.ok_to_retry.unwrap_or_default(),
                is_builtin: false,
                made_nothing: error.made_nothing == Some(Value::Bool(true)),
                hints: error.hints.and_then(|hints| serde_json::from_value(hints).ok()).unwrap_or_default(),
                log_tail: Box::default(),
            })
        }
    }
}

fn not_json_problem(method: Method, bytes: &[u8], error: &serde_json::Error) -> String {
    if error.is_data() {
        return format!("it is malformed: {}", json_problem(error));
    }
    let problem = match (error.is_eof(), bytes.trim_ascii_start().first()) {
        (true, Some(b'{' | b'[')) => "it is not one JSON document (its end is missing)".to_owned(),
        (false, Some(b'{' | b'[')) => format!("it is not one JSON document ({})", json_problem(error)),
        _ => "it is not JSON".to_owned(),
    };
    problem_with_beginning(method, bytes, &problem)
}

/// Adds the first words of an answer to the problem with it.
fn problem_with_beginning(method: Method, bytes: &[u8], problem: &str) -> String {
    // The answer to `attach_disk` may hold credentials that are not known yet.
    match Some(beginning(bytes)).filter(|text| !text.is_empty() && method != Method::AttachDisk) {
        Some(text) => format!("{problem}; it begins: '{}'", clean_line(&text)),
        None => problem.to_owned(),
    }
}

/// Returns the first words of an answer. No word is cut, because the redactor would not find a part of a
/// secret.
fn beginning(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes.trim_ascii());
    match text.char_indices().nth(MAX_BEGINNING_CHARS) {
        None => text.into_owned(),
        Some((end, _)) => match text[..end].rfind(char::is_whitespace) {
            Some(end) => format!("{} …", text[..end].trim_end()),
            None => String::new(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn answer_is_one_document_with_result_or_error() {
        for (text, problem) in [
            ("", "wrote nothing"),
            ("{\"result\": 1", "(its end is missing); it begins: '{\"result\": 1'"),
            ("Traceback: <html>", "it is not JSON; it begins: 'Traceback: <html>'"),
            ("{'result': 1}", "not one JSON document (line 1, column 2: "),
            ("{\"result\":1}{\"result\":2}", "not one JSON document"),
            ("[]", "it is a list, not an object with `result` or `error`; it begins: '[]'"),
            ("{}", "it has neither `result` nor `error`; it begins: '{}'"),
            ("\u{feff}x", "not JSON"),
            (r#"{"result": 1, "error": {"type": "X"}}"#, "both"),
            (r#"{"error": 7}"#, "malformed"),
            (r#"{"result": 1, "result": 2}"#, "duplicate"),
            (r#"{"error": null, "result": 1, "error": {}}"#, "duplicate"),
            ("7", "malformed"),
            (r#"[1, null]"#, "it is a list"),
            (r#"{"result": 1e999}"#, "not one JSON document"),
            (r#"{"error": {"ok_to_retry": "maybe"}}"#, "malformed"),
            (" \n\t", "wrote nothing"),
            ("\0", "not JSON"),
        ] {
            match parse_answer(text.as_bytes(), Method::Info, &RequestId::fresh()) {
                Err(CpiError::NoAnswer { problem: actual, .. }) => {
                    assert!(actual.contains(problem), "{text}: {actual}")
                }
                other => panic!("{text}: {other:?}"),
            }
        }
        assert_eq!(
            parse_answer(
                br#"{"result": null, "error": null, "log": "x"}"#,
                Method::DeleteVm,
                &RequestId::fresh()
            )
            .unwrap(),
            Value::Null
        );
    }

    #[test]
    fn beginning_of_an_answer_cuts_no_word_and_shows_no_disk_hint() {
        let secret = format!("token {}", "s".repeat(MAX_BEGINNING_CHARS));
        assert_eq!(beginning(secret.as_bytes()), "token …");
        assert_eq!(beginning("s".repeat(MAX_BEGINNING_CHARS + 1).as_bytes()), "");
        match parse_answer(b"password: x", Method::AttachDisk, &RequestId::fresh()) {
            Err(CpiError::NoAnswer { problem, .. }) => assert!(!problem.contains("password"), "{problem}"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn error_may_lack_all_details() {
        for text in [
            r#"{"error": {}}"#,
            r#"{"result": null, "error": {"type": null, "message": null, "ok_to_retry": null}}"#,
        ] {
            match parse_answer(text.as_bytes(), Method::Info, &RequestId::fresh()) {
                Err(error @ CpiError::Answered { ok_to_retry: false, .. }) => {
                    assert!(error.to_string().ends_with(" failed: the CPI gave no message"), "{error}");
                }
                other => panic!("{text}: {other:?}"),
            }
        }
        let long = json!({"error": {"type": "X", "message": "ü".repeat(1 << 20)}}).to_string();
        match parse_answer(long.as_bytes(), Method::Info, &RequestId::fresh()) {
            Err(CpiError::Answered { message, .. }) => assert!(message.len() < 20_000),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn rejects_binary_or_oversized_output() {
        for bytes in [b"{\"result\": \"\xff\"}".to_vec(), vec![b' '; 17 << 20], vec![b'['; 1 << 20]] {
            assert!(matches!(
                parse_answer(&bytes, Method::Info, &RequestId::fresh()),
                Err(CpiError::NoAnswer { .. })
            ));
        }
    }
}
