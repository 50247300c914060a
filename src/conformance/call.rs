//! One call made by hand: the request, the answer, and the problems of the answer.

use std::time::Duration;

use serde::Serialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::cpi_under_test::{CpiUnderTest, Versions};
use super::exchange::{Exchange, ExchangeControl, ProcessEnd};
use super::raw_answer::{self, AnswerBody};
use super::redacted;
use base::Result;
use engine::cpi::{Answer, CheckedAnswer, CpiErrorKind, Info, Method};
use engine::protocol::{Contract, HIGHEST_API_VERSION, ResourceKind, Terms};

/// A finished call, with its secrets redacted.
#[derive(Debug, Clone, Serialize)]
pub struct FinishedCall {
    /// The JSON document that the CPI got.
    pub request: Value,
    /// Standard output. Bytes that are not UTF-8 are replaced.
    pub answer: String,
    /// Standard error. Bytes that are not UTF-8 are replaced.
    pub stderr: String,
    /// The end of the process, as text.
    #[serde(rename = "ended")]
    pub end: String,
    /// The duration of the process.
    #[serde(rename = "duration_ms", serialize_with = "serialize_milliseconds")]
    pub duration: Duration,
    /// Mistakes in the answer, and forms that some callers reject.
    pub problems: Vec<String>,
    /// True if the call succeeded.
    #[serde(rename = "success")]
    pub has_succeeded: bool,
    /// The error that the CPI answered with.
    pub error: Option<String>,
    /// The result of `info`, if it was called.
    #[serde(skip)]
    pub info: Option<Info>,
    /// The resource that the call created.
    #[serde(skip)]
    pub created_resource: Option<(ResourceKind, String)>,
}

/// Converts a word of the command line to an argument. It is JSON if the method takes that kind of JSON at
/// this position, and otherwise text. A CID of digits stays a string.
pub fn parse_argument(method: &str, position: usize, word: &str) -> Value {
    let plain = || json!(word);
    let Ok(value) = serde_json::from_str::<Value>(word) else { return plain() };
    let known_method = method.parse::<Method>().ok();
    let kind = known_method.and_then(|method| method.arguments(HIGHEST_API_VERSION).nth(position));
    match kind {
        Some(argument) if !argument.kind.accepts(&value) && argument.kind.accepts(&plain()) => plain(),
        _ => value,
    }
}

/// Calls `info`.
pub fn call_info(cpi: &CpiUnderTest, control: &ExchangeControl<'_>) -> Result<FinishedCall> {
    let request = cpi.request(Method::Info.name(), &[], Versions::default());
    let exchange = cpi.run_exchange(request.to_string().as_bytes(), control)?;
    Ok(finish_call(cpi, &request, &exchange, Method::Info.name(), Versions::default()))
}

/// Calls a method, known or unknown.
pub fn call(
    cpi: &CpiUnderTest,
    method: &str,
    arguments: &[Value],
    versions: Versions,
    control: &ExchangeControl<'_>,
) -> Result<FinishedCall> {
    let request = cpi.request(method, arguments, versions);
    let exchange = cpi.run_exchange(request.to_string().as_bytes(), control)?;
    Ok(finish_call(cpi, &request, &exchange, method, versions))
}

/// Judges an answer. It is a success if a run could use it: a result of the right type with no text beside
/// it, or the error of `info`, which stands for API version 1.
fn finish_call(
    cpi: &CpiUnderTest,
    request: &Value,
    exchange: &Exchange,
    method: &str,
    versions: Versions,
) -> FinishedCall {
    let raw_answer = raw_answer::read(exchange);
    let mut problems = raw_answer.unmet_expectations;
    problems.extend(raw_answer.problems);
    let (mut has_succeeded, mut info, mut created_resource, mut error) = (false, None, None, None);
    match &raw_answer.content {
        AnswerBody::Result(result) => {
            // A run refuses an answer with other text beside it.
            has_succeeded = serde_json::from_slice::<IgnoredAny>(&exchange.stdout).is_ok();
            let terms = Terms::new(versions.api.unwrap_or(1), versions.stemcell);
            match method.parse::<Method>().map(|method| CheckedAnswer::parse(method, terms, result)) {
                Ok(Ok(reading)) => {
                    problems.extend(reading.violation);
                    match reading.answer {
                        Answer::Info(answer) => info = Some(answer),
                        Answer::Vm(vm) => created_resource = Some((ResourceKind::Vm, vm.cid.to_string())),
                        // `update_disk` returns a disk on record.
                        Answer::Disk(cid) if method == Method::CreateDisk.name() => {
                            created_resource = Some((ResourceKind::Disk, cid.to_string()));
                        }
                        Answer::Stemcell(cid) => {
                            created_resource = Some((ResourceKind::Stemcell, cid.to_string()));
                        }
                        Answer::Snapshot(cid) => {
                            created_resource = Some((ResourceKind::Snapshot, cid.to_string()));
                        }
                        _ => {}
                    }
                }
                Ok(Err(problem)) => {
                    problems.push(problem);
                    has_succeeded = false;
                }
                Err(_unknown) => {}
            }
        }
        AnswerBody::Error(error_answer) => {
            // A CPI without `info` has API version 1.
            if method == Method::Info.name() && error_answer.kind == CpiErrorKind::NotImplemented {
                has_succeeded = true;
                info = Some(Info { api_version: 1, stemcell_formats: None, version: None });
            }
            error = Some(error_answer.text());
        }
        AnswerBody::Unusable => {}
    }
    let redact = |text: &str| redacted::redact_text(&cpi.redactor, text);
    FinishedCall {
        request: redacted::redact_value(&cpi.redactor, request),
        answer: redact(&String::from_utf8_lossy(&exchange.stdout)),
        stderr: redact(&String::from_utf8_lossy(&exchange.stderr)),
        end: match exchange.end {
            ProcessEnd::Exited(status) => format!("exit status {status}"),
            ProcessEnd::Signalled(signal) => format!("killed by signal {signal}"),
            ProcessEnd::TimedOut => "killed after the timeout".to_owned(),
            ProcessEnd::Abandoned => "still running".to_owned(),
        },
        duration: exchange.duration,
        problems: problems.iter().map(|problem| redact(problem)).collect(),
        has_succeeded,
        error: error.as_deref().map(redact),
        info,
        created_resource,
    }
}

impl FinishedCall {
    /// Returns the contract that `info` implies for a stemcell of this version.
    pub fn contract(&self, stemcell: u32) -> Option<Contract> {
        self.info.as_ref().map(|info| Contract::negotiate(info.api_version, stemcell))
    }
}

fn serialize_milliseconds<S: serde::Serializer>(
    duration: &Duration,
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    serializer.serialize_f64((duration.as_secs_f64() * 1e4).round() / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_words_become_method_arguments() {
        for (method, position, word, value) in [
            ("has_vm", 0, "12345", json!("12345")),
            ("has_vm", 0, "vm-1", json!("vm-1")),
            ("create_disk", 0, "1024", json!(1024)),
            ("create_disk", 1, r#"{"type": "ssd"}"#, json!({"type": "ssd"})),
            ("create_disk", 2, "true", json!("true")),
            ("create_disk", 0, "big", json!("big")),
            ("no_such", 0, "12345", json!(12345)),
            ("no_such", 7, "null", Value::Null),
        ] {
            assert_eq!(parse_argument(method, position, word), value, "{method} {word}");
        }
    }
}
