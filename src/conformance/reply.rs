//! What a process of a CPI said, and everything about how it said it that some caller would not take.
//!
//! Callers differ: the director insists on `log` and on every key of an error, `bosh create-env` on exit status 0.
//! A CPI that pleases all of them is what an author wants, so all of it counts here. An answer that is wrong in its
//! form is still read as far as possible: what it says was made must be found again.

use serde_json::{Map, Value};

use super::exchange::{Ended, Exchange};
use engine::cpi::{ANSWER_LIMIT, CpiErrorKind};

/// An answer, and what is wrong with its form.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// What it says.
    pub said: Said,
    /// A result that stands beside an error, where there must be none.
    pub beside: Option<Value>,
    /// What is wrong with its form, whatever it says.
    pub problems: Vec<String>,
}

/// What an answer says.
#[derive(Debug, Clone, PartialEq)]
pub enum Said {
    /// This is the result.
    Result(Value),
    /// It failed.
    Error(Refusal),
    /// Nothing that can be made out.
    Nothing,
}

/// An error that a CPI answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What kind of error it is.
    pub kind: CpiErrorKind,
    /// Its type as the CPI spelt it.
    pub error_type: String,
    /// Its message.
    pub message: String,
    /// Whether the CPI says that trying again may help.
    pub ok_to_retry: bool,
}

impl Refusal {
    /// Type and message, as a person reads them.
    pub fn text(&self) -> String {
        match (self.error_type.as_str(), self.message.trim()) {
            ("", "") => "an error without type and message".to_owned(),
            (error_type, "") => error_type.to_owned(),
            ("", message) => message.to_owned(),
            (error_type, message) => format!("{error_type}: {message}"),
        }
    }
}

/// Reads what a process said.
pub(super) fn read(exchange: &Exchange) -> Reply {
    let mut problems = Vec::new();
    match exchange.ended {
        Ended::Exited(0) => {}
        Ended::Exited(status) => problems.push(format!(
            "exit status {status}: `bosh create-env` throws away the answer of a CPI that fails"
        )),
        Ended::Signalled(signal) => problems.push(format!("killed by signal {signal}")),
        Ended::TimedOut => problems.push(format!("not over after {} s, killed", exchange.duration.as_secs())),
        Ended::Abandoned => problems.push("not waited for".to_owned()),
    }
    if exchange.held_open {
        problems.push(
            "another process keeps standard output open after the CPI has ended: the director waits for it"
                .to_owned(),
        );
    }
    let document = document(&exchange.stdout, &mut problems);
    let (said, beside) = document.map_or((Said::Nothing, None), |document| of(document, &mut problems));
    Reply { said, beside, problems }
}

/// The one document on standard output, or what comes nearest to it.
fn document(stdout: &[u8], problems: &mut Vec<String>) -> Option<Map<String, Value>> {
    if stdout.len() as u64 > ANSWER_LIMIT {
        problems.push(format!("standard output has more than {} MiB", ANSWER_LIMIT >> 20));
        return None;
    }
    if stdout.iter().all(u8::is_ascii_whitespace) {
        problems.push("nothing on standard output".to_owned());
        return None;
    }
    match serde_json::from_slice::<Value>(stdout) {
        Ok(Value::Object(document)) => Some(document),
        Ok(_) => {
            problems.push("the document on standard output is no hash".to_owned());
            None
        }
        Err(error) => {
            let text = String::from_utf8_lossy(stdout);
            let found = search(&text);
            problems.push(match &found {
                Some(_) => {
                    let beside = text.lines().find(|line| !line.trim_start().starts_with('{'));
                    let beside = beside.or_else(|| text.lines().last()).unwrap_or_default();
                    format!(
                        "standard output has more than one JSON document, such as: {}",
                        beginning(beside.trim())
                    )
                }
                None => format!(
                    "standard output is not one JSON document ({error}), it begins: {}",
                    beginning(text.trim())
                ),
            });
            found
        }
    }
}

/// The last hash with `result` or `error` in a text that has other things in it.
fn search(text: &str) -> Option<Map<String, Value>> {
    /// Of a text full of braces only so many are tried.
    const TRIES: usize = 10_000;
    let mut found = None;
    let mut from = 0;
    for _ in 0..TRIES {
        let Some(at) = text[from..].find('{') else { break };
        let mut documents = serde_json::Deserializer::from_str(&text[from + at..]).into_iter::<Value>();
        from += at + 1;
        if let Some(Ok(Value::Object(document))) = documents.next() {
            from += documents.byte_offset().saturating_sub(1);
            if document.contains_key("result") || document.contains_key("error") {
                found = Some(document);
            }
        }
    }
    found
}

fn beginning(text: &str) -> String {
    const LENGTH: usize = 80;
    match text.char_indices().nth(LENGTH) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}

/// Source of the rules: `cpi-api-rpc.md`, "Response".
fn of(mut document: Map<String, Value>, problems: &mut Vec<String>) -> (Said, Option<Value>) {
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
        Value::Null => return (Said::Result(result), None),
        Value::Object(error) => error,
        other => {
            problems.push(format!("`error` must be null or a hash, not {other}"));
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
    let beside = Some(result).filter(|result| !result.is_null());
    if beside.is_some() {
        problems.push("the answer has both a result and an error".to_owned());
    }
    let kind = CpiErrorKind::of(&error_type, &message);
    let ok_to_retry = ok_to_retry.unwrap_or_default();
    (Said::Error(Refusal { kind, error_type, message, ok_to_retry }), beside)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::time::Duration;

    fn said(stdout: &str) -> Reply {
        read(&Exchange {
            input: Vec::new(),
            stdout: stdout.as_bytes().to_vec(),
            stderr: Vec::new(),
            ended: Ended::Exited(0),
            duration: Duration::ZERO,
            held_open: false,
        })
    }

    #[test]
    fn a_good_answer_has_no_problems() {
        let answer = said(r#" {"result": 7, "error": null, "log": ""} "#);
        assert_eq!((answer.said, answer.problems), (Said::Result(json!(7)), Vec::<String>::new()));
        let answer = said(
            r#"{"result":null,"error":{"type":"Bosh::Clouds::VMNotFound","message":"m","ok_to_retry":false},"log":""}"#,
        );
        assert!(matches!(&answer.said, Said::Error(refusal) if refusal.kind == CpiErrorKind::VmNotFound));
        assert_eq!(answer.problems, Vec::<String>::new());
    }

    #[test]
    fn what_was_made_is_found_in_the_worst_answer() {
        for text in [
            "connecting…\n{\"result\": \"vm-1\", \"error\": null, \"log\": \"\"}\n",
            "{\"result\": \"vm-1\", \"error\": null, \"log\": \"\"}\nbye",
            "{\"debug\": {\"x\": 1}} {\"result\": \"vm-1\", \"error\": null, \"log\": \"\"}",
            "{ {{ }\n{\"result\": \"vm-1\", \"error\": null, \"log\": \"\"}",
        ] {
            let answer = said(text);
            assert_eq!(answer.said, Said::Result(json!("vm-1")), "{text}");
            assert_eq!(answer.problems.len(), 1, "{:?}", answer.problems);
        }
        let answer = said(r#"{"result": "disk-1", "error": {"type": "X"}, "log": ""}"#);
        assert_eq!(answer.beside, Some(json!("disk-1")));
    }

    #[test]
    fn each_problem_is_named() {
        for (text, problem) in [
            ("", "nothing on standard output"),
            ("[]", "no hash"),
            ("x", "not one JSON document"),
            (r#"{"result": 1, "log": ""}"#, "lacks `error`"),
            (r#"{"result": 1, "error": null}"#, "lacks `log`"),
            (r#"{"result": null, "error": "x", "log": ""}"#, "null or a hash"),
            (r#"{"result": null, "error": {}, "log": ""}"#, "lacks `type`"),
            (r#"{"result": 1, "error": {}, "log": ""}"#, "both"),
        ] {
            let answer = said(text);
            assert!(
                answer.problems.iter().any(|found| found.contains(problem)),
                "{text}: {:?}",
                answer.problems
            );
        }
    }

    #[test]
    fn a_flood_of_braces_is_no_trouble() {
        assert_eq!(said(&"{".repeat(1 << 20)).said, Said::Nothing);
    }
}
