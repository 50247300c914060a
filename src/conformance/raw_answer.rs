//! Reads the answer of a CPI process, and lists all its forms that some caller would reject.
//!
//! Callers differ: the director requires `log` and every key of an error, and `bosh create-env` requires exit
//! status 0. A malformed answer is read as far as possible, because the run must find the resources that it
//! names.

use serde_json::{Map, Value};

use super::exchange::{Exchange, ProcessEnd};
use base::text::json_problem;
use engine::cpi::{CpiErrorKind, MAX_ANSWER_BYTES};

/// An answer with the problems of its form.
#[derive(Debug, Clone, PartialEq)]
pub struct RawAnswer {
    /// The content.
    pub content: AnswerBody,
    /// The result of an answer that also has an error. The contract forbids that.
    pub result_beside_error: Option<Value>,
    /// Problems of the form.
    pub problems: Vec<String>,
    /// Expectations of callers, beyond the contract, that the process does not meet.
    pub unmet_expectations: Vec<String>,
}

/// The content of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum AnswerBody {
    /// The result of a call that succeeded.
    Result(Value),
    /// The error of a call that failed.
    Error(CpiErrorAnswer),
    /// No usable answer.
    Unusable,
}

/// An error that a CPI answered with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpiErrorAnswer {
    /// The kind of the error.
    pub kind: CpiErrorKind,
    /// The type as the CPI spelled it.
    pub error_type: String,
    /// The message as the CPI wrote it.
    pub message: String,
    /// True if the CPI suggests a retry.
    pub ok_to_retry: bool,
}

impl CpiErrorAnswer {
    /// Returns the type and the message as text.
    pub fn text(&self) -> String {
        match (self.error_type.as_str(), self.message.trim()) {
            ("", "") => "an error without type and message".to_owned(),
            (error_type, "") => error_type.to_owned(),
            ("", message) => message.to_owned(),
            (error_type, message) => format!("{error_type}: {message}"),
        }
    }
}

/// Reads the answer of a process.
pub(super) fn read(exchange: &Exchange) -> RawAnswer {
    let (mut problems, mut unmet_expectations) = (Vec::new(), Vec::new());
    match exchange.end {
        ProcessEnd::Exited(0) => {}
        ProcessEnd::Exited(status) => unmet_expectations.push(format!(
            "exit status {status}: `bosh create-env` ignores the answer of a CPI that exits with an error"
        )),
        ProcessEnd::Signalled(signal) => problems.push(format!("killed by signal {signal}")),
        ProcessEnd::TimedOut => {
            problems.push(format!("killed after {} s, because it did not end", exchange.duration.as_secs()))
        }
        ProcessEnd::Abandoned => {
            problems.push("it did not end before a second signal ended the wait".to_owned())
        }
    }
    if exchange.is_held_open {
        unmet_expectations.push(
            "another process holds standard output open after the CPI has ended: the director waits for it"
                .to_owned(),
        );
    }
    // A process that was killed or left behind explains the missing answer.
    let has_ended = matches!(exchange.end, ProcessEnd::Exited(_));
    let document = match has_ended || !exchange.stdout.is_empty() {
        true => find_document(&exchange.stdout, &mut problems),
        false => None,
    };
    let (content, result_beside_error) =
        document.map_or((AnswerBody::Unusable, None), |document| read_content(document, &mut problems));
    RawAnswer { content, result_beside_error, problems, unmet_expectations }
}

/// Returns the document on standard output. If there is other text, returns the most likely document in it.
fn find_document(stdout: &[u8], problems: &mut Vec<String>) -> Option<Map<String, Value>> {
    if stdout.len() as u64 > MAX_ANSWER_BYTES {
        problems.push(format!("standard output has more than {} MiB", MAX_ANSWER_BYTES >> 20));
        return None;
    }
    if stdout.iter().all(u8::is_ascii_whitespace) {
        problems.push("nothing on standard output".to_owned());
        return None;
    }
    match serde_json::from_slice::<Value>(stdout) {
        Ok(Value::Object(document)) => Some(document),
        Ok(_) => {
            problems.push("the JSON document on standard output is not an object".to_owned());
            None
        }
        Err(error) => {
            let text = String::from_utf8_lossy(stdout);
            let document = search_document(&text);
            problems.push(match &document {
                Some(_) => {
                    let other_line = text.lines().find(|line| !line.trim_start().starts_with('{'));
                    let other_line = other_line.or_else(|| text.lines().last()).unwrap_or_default();
                    format!(
                        "standard output has other text beside the JSON document: {}",
                        start_of(other_line.trim())
                    )
                }
                None if !text.trim_start().starts_with(['{', '[']) => {
                    format!("standard output is not JSON; it begins: {}", start_of(text.trim()))
                }
                None => format!(
                    "standard output is not one JSON document ({}); it begins: {}",
                    json_problem(&error),
                    start_of(text.trim())
                ),
            });
            document
        }
    }
}

/// Returns the last object with `result` or `error` among other text.
fn search_document(text: &str) -> Option<Map<String, Value>> {
    /// The maximum number of opening braces to try.
    const MAX_TRIES: usize = 10_000;
    let mut last_document = None;
    let mut search_start = 0;
    for _ in 0..MAX_TRIES {
        let Some(offset) = text[search_start..].find('{') else { break };
        let mut documents =
            serde_json::Deserializer::from_str(&text[search_start + offset..]).into_iter::<Value>();
        search_start += offset + 1;
        if let Some(Ok(Value::Object(document))) = documents.next() {
            search_start += documents.byte_offset().saturating_sub(1);
            if document.contains_key("result") || document.contains_key("error") {
                last_document = Some(document);
            }
        }
    }
    last_document
}

fn start_of(text: &str) -> String {
    const MAX_SHOWN_CHARS: usize = 80;
    match text.char_indices().nth(MAX_SHOWN_CHARS) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}

/// Reads an answer by the rules of `cpi-api-rpc.md`, "Response".
fn read_content(mut document: Map<String, Value>, problems: &mut Vec<String>) -> (AnswerBody, Option<Value>) {
    for key in ["result", "error"] {
        if !document.contains_key(key) {
            problems.push(format!("the answer lacks `{key}`"));
        }
    }
    if !document.get("log").is_some_and(Value::is_string) {
        problems.push("the answer lacks `log`, a string: the director refuses it".to_owned());
    }
    let result = document.remove("result").unwrap_or_default();
    let error = match document.remove("error").unwrap_or_default() {
        Value::Null => return (AnswerBody::Result(result), None),
        Value::Object(error) => error,
        other => {
            problems.push(format!("`error` must be null or an object, not {other}"));
            Map::from_iter([("message".to_owned(), Value::String(other.to_string()))])
        }
    };
    let mut text = |key: &str| match error.get(key).and_then(Value::as_str) {
        Some(text) => text.to_owned(),
        None => {
            problems.push(format!("`error` lacks `{key}`, a string: the director refuses the answer"));
            String::new()
        }
    };
    let (error_type, message) = (text("type"), text("message"));
    let ok_to_retry = error.get("ok_to_retry").and_then(Value::as_bool);
    if ok_to_retry.is_none() {
        problems
            .push("`error` lacks `ok_to_retry`, true or false: the director refuses the answer".to_owned());
    }
    let result_beside_error = Some(result).filter(|result| !result.is_null());
    if result_beside_error.is_some() {
        problems.push("the answer has both a result and an error".to_owned());
    }
    let kind = CpiErrorKind::of(&error_type, &message);
    let ok_to_retry = ok_to_retry.unwrap_or_default();
    (AnswerBody::Error(CpiErrorAnswer { kind, error_type, message, ok_to_retry }), result_beside_error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::time::Duration;

    fn reply(stdout: &str) -> RawAnswer {
        read(&Exchange {
            input: Vec::new(),
            stdout: stdout.as_bytes().to_vec(),
            stderr: Vec::new(),
            end: ProcessEnd::Exited(0),
            duration: Duration::ZERO,
            is_held_open: false,
        })
    }

    #[test]
    fn good_answer_has_no_problems() {
        let answer = reply(r#" {"result": 7, "error": null, "log": ""} "#);
        assert_eq!((answer.content, answer.problems), (AnswerBody::Result(json!(7)), Vec::<String>::new()));
        let answer = reply(
            r#"{"result":null,"error":{"type":"Bosh::Clouds::VMNotFound","message":"m","ok_to_retry":false},"log":""}"#,
        );
        assert!(
            matches!(&answer.content, AnswerBody::Error(error) if error.kind == CpiErrorKind::VmNotFound)
        );
        assert_eq!(answer.problems, Vec::<String>::new());
    }

    #[test]
    fn result_is_found_in_a_malformed_answer() {
        for text in [
            "connecting…\n{\"result\": \"vm-1\", \"error\": null, \"log\": \"\"}\n",
            "{\"result\": \"vm-1\", \"error\": null, \"log\": \"\"}\nbye",
            "{\"debug\": {\"x\": 1}} {\"result\": \"vm-1\", \"error\": null, \"log\": \"\"}",
            "{ {{ }\n{\"result\": \"vm-1\", \"error\": null, \"log\": \"\"}",
        ] {
            let answer = reply(text);
            assert_eq!(answer.content, AnswerBody::Result(json!("vm-1")), "{text}");
            assert_eq!(answer.problems.len(), 1, "{:?}", answer.problems);
        }
        let answer = reply(r#"{"result": "disk-1", "error": {"type": "X"}, "log": ""}"#);
        assert_eq!(answer.result_beside_error, Some(json!("disk-1")));
    }

    #[test]
    fn each_problem_is_named() {
        for (text, problem) in [
            ("", "nothing on standard output"),
            ("[]", "not an object"),
            ("x", "not JSON; it begins: "),
            (r#"{"result": 1, "log": ""}"#, "lacks `error`"),
            (r#"{"result": 1, "error": null}"#, "lacks `log`"),
            (r#"{"result": null, "error": "x", "log": ""}"#, "null or an object"),
            (r#"{"result": null, "error": {}, "log": ""}"#, "lacks `type`"),
            (r#"{"result": 1, "error": {}, "log": ""}"#, "both"),
        ] {
            let answer = reply(text);
            assert!(
                answer.problems.iter().any(|actual| actual.contains(problem)),
                "{text}: {:?}",
                answer.problems
            );
        }
    }

    #[test]
    fn killed_process_has_one_problem() {
        let exchange = Exchange {
            input: Vec::new(),
            stdout: Vec::new(),
            stderr: Vec::new(),
            end: ProcessEnd::TimedOut,
            duration: Duration::from_secs(2),
            is_held_open: false,
        };
        assert_eq!(read(&exchange).problems, ["killed after 2 s, because it did not end"]);
    }

    #[test]
    fn text_with_many_braces_takes_bounded_time() {
        assert_eq!(reply(&"{".repeat(1 << 20)).content, AnswerBody::Unusable);
    }
}
