//! Answers of a CPI: the envelope and the shapes of results.

use serde::Deserialize;
use serde_json::Value;

use super::error::{CpiError, CpiErrorKind};
use crate::notation::shortened;

/// The largest answer that is read, in bytes.
pub(crate) const ANSWER_LIMIT: u64 = 16 * 1024 * 1024;
/// How much of a CPI's message is shown, in bytes: some put whole HTTP answers into theirs.
const MESSAGE_LIMIT: usize = 16 * 1024;
/// How much of a result that is wrong is shown, in bytes.
const RESULT_LIMIT: usize = 1024;

/// What `info` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Info {
    /// The CPI's API version; 1 when it does not say or does not know the method.
    pub api_version: u32,
    /// The stemcell formats it takes; `None` when unknown.
    pub stemcell_formats: Option<Vec<String>>,
}

/// What `create_vm` made.
#[derive(Debug, Clone, PartialEq)]
pub struct CreatedVm {
    /// The VM's CID.
    pub cid: String,
    /// The networks as the IaaS gave them.
    pub networks: Option<Value>,
}

#[derive(Deserialize)]
struct Envelope {
    #[serde(default)]
    result: Value,
    #[serde(default)]
    error: Option<ErrorBody>,
}

#[derive(Deserialize)]
struct ErrorBody {
    #[serde(rename = "type")]
    error_type: Option<String>,
    message: Option<String>,
    ok_to_retry: Option<bool>,
}

/// Reads the one JSON document a CPI wrote: its result, or its error.
pub fn parse_answer(bytes: &[u8], method: &str, request_id: &str) -> Result<Value, CpiError> {
    let no_answer = |problem: String| CpiError::NoAnswer {
        method: method.to_owned(),
        request_id: request_id.to_owned(),
        problem,
        log_tail: String::new(),
    };
    if bytes.len() as u64 > ANSWER_LIMIT {
        return Err(no_answer(format!("it is larger than {} MiB", ANSWER_LIMIT >> 20)));
    }
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(no_answer("it wrote nothing".to_owned()));
    }
    let document: Value = serde_json::from_slice(bytes)
        .map_err(|error| no_answer(format!("it is not one JSON document: {error}")))?;
    if !document.is_object() || (document.get("result").is_none() && document.get("error").is_none()) {
        return Err(no_answer("it has neither `result` nor `error`".to_owned()));
    }
    let envelope: Envelope = serde_json::from_value(document)
        .map_err(|error| no_answer(format!("its shape is wrong: {error}")))?;
    match envelope.error {
        None => Ok(envelope.result),
        Some(_) if !envelope.result.is_null() => {
            Err(no_answer("it has both a result and an error".to_owned()))
        }
        Some(error) => {
            let error_type = error.error_type.unwrap_or_default();
            let message = error.message.unwrap_or_default();
            let kind = CpiErrorKind::of(&error_type, &message);
            let said = [message, error_type].into_iter().find(|text| !text.trim().is_empty());
            Err(CpiError::Answered {
                method: method.to_owned(),
                request_id: request_id.to_owned(),
                kind,
                message: said.map_or_else(
                    || "it does not say why".to_owned(),
                    |said| shortened(&said, MESSAGE_LIMIT).into_owned(),
                ),
                ok_to_retry: error.ok_to_retry.unwrap_or_default(),
            })
        }
    }
}

impl Info {
    /// Reads the result of `info`.
    pub fn from_result(result: &Value) -> Result<Self, String> {
        if !result.is_object() {
            return Err(format!("`info` must answer a hash, not {}", shown(result)));
        }
        let api_version = match result.get("api_version") {
            None | Some(Value::Null) => 1,
            Some(version) => version
                .as_u64()
                .and_then(|version| u32::try_from(version).ok())
                .filter(|version| *version > 0)
                .ok_or_else(|| format!("`api_version` must be a positive integer, not {}", shown(version)))?,
        };
        let stemcell_formats = match result.get("stemcell_formats") {
            None | Some(Value::Null) => None,
            Some(formats) => Some(serde_json::from_value(formats.clone()).map_err(|_| {
                format!("`stemcell_formats` must be a list of strings, not {}", shown(formats))
            })?),
        };
        Ok(Info { api_version, stemcell_formats })
    }
}

impl CreatedVm {
    /// Reads the result of `create_vm`: a CID, or a CID with networks. Both are taken under both contracts.
    pub fn from_result(result: &Value) -> Result<Self, String> {
        let (cid, networks) = match result {
            Value::String(cid) => (cid, None),
            Value::Array(pair) => match pair.as_slice() {
                [Value::String(cid), networks] => {
                    (cid, Some(networks).filter(|networks| !networks.is_null()).cloned())
                }
                _ => {
                    return Err(format!(
                        "`create_vm` must answer a CID, or a CID and networks, not {}",
                        shown(result)
                    ));
                }
            },
            _ => {
                return Err(format!(
                    "`create_vm` must answer a CID, or a CID and networks, not {}",
                    shown(result)
                ));
            }
        };
        Ok(CreatedVm { cid: not_blank(cid)?, networks })
    }
}

/// Reads a CID.
pub fn cid(method: &str, result: &Value) -> Result<String, String> {
    match result {
        Value::String(cid) => not_blank(cid),
        // Some CPIs answer numbers.
        Value::Number(number) if number.is_u64() => Ok(number.to_string()),
        other => Err(format!("`{method}` must answer a CID, not {}", shown(other))),
    }
}

/// A result as an error may show it.
fn shown(result: &Value) -> String {
    shortened(&result.to_string(), RESULT_LIMIT).into_owned()
}

fn not_blank(cid: &str) -> Result<String, String> {
    if cid.trim().is_empty() { Err("the CID is empty".to_owned()) } else { Ok(cid.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_one_whole_document_with_result_or_error_is_an_answer() {
        for (text, problem) in [
            ("", "wrote nothing"),
            ("{\"result\": 1", "not one JSON document"),
            ("{\"result\":1}{\"result\":2}", "not one JSON document"),
            ("[]", "neither"),
            ("{}", "neither"),
            ("\u{feff}x", "not one JSON document"),
            (r#"{"result": 1, "error": {"type": "X"}}"#, "both"),
            (r#"{"error": 7}"#, "shape"),
            (r#"{"error": {"ok_to_retry": "maybe"}}"#, "shape"),
            (" \n\t", "wrote nothing"),
            ("\0", "not one JSON document"),
        ] {
            match parse_answer(text.as_bytes(), "info", "r") {
                Err(CpiError::NoAnswer { problem: found, .. }) => {
                    assert!(found.contains(problem), "{text}: {found}")
                }
                other => panic!("{text}: {other:?}"),
            }
        }
        assert_eq!(
            parse_answer(br#"{"result": null, "error": null, "log": "x"}"#, "m", "r").unwrap(),
            Value::Null
        );
    }

    #[test]
    fn an_error_is_one_however_little_it_says() {
        for text in [
            r#"{"error": {}}"#,
            r#"{"result": null, "error": {"type": null, "message": null, "ok_to_retry": null}}"#,
        ] {
            match parse_answer(text.as_bytes(), "info", "r") {
                Err(CpiError::Answered { message, ok_to_retry: false, .. }) => {
                    assert_eq!(message, "it does not say why")
                }
                other => panic!("{text}: {other:?}"),
            }
        }
        let long = json!({"error": {"type": "X", "message": "ü".repeat(1 << 20)}}).to_string();
        match parse_answer(long.as_bytes(), "info", "r") {
            Err(CpiError::Answered { message, .. }) => assert!(message.len() < 20_000),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_not_text_or_too_large_is_no_answer() {
        for bytes in [b"{\"result\": \"\xff\"}".to_vec(), vec![b' '; 17 << 20], vec![b'['; 1 << 20]] {
            assert!(matches!(parse_answer(&bytes, "info", "r"), Err(CpiError::NoAnswer { .. })));
        }
    }

    #[test]
    fn vms_come_with_or_without_networks_but_never_without_a_cid() {
        assert_eq!(CreatedVm::from_result(&json!("vm")).unwrap().networks, None);
        assert_eq!(CreatedVm::from_result(&json!(["vm", {"a": 1}])).unwrap().networks, Some(json!({"a": 1})));
        for bad in [json!([]), json!(""), json!(["", {}]), json!(null), json!(7), json!(["a", {}, 1])] {
            assert!(CreatedVm::from_result(&bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn info_without_a_version_means_one() {
        assert_eq!(Info::from_result(&json!({})).unwrap().api_version, 1);
        assert!(Info::from_result(&json!({"api_version": "two"})).is_err());
        assert!(Info::from_result(&json!([])).is_err());
    }
}
