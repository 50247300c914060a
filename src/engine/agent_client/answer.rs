//! Answers of an agent: a value, an exception, or the state of a task.

use serde_json::Value;

use super::error::AgentError;
use base::text::json_problem;

/// The maximum length of an exception's message in an error, in bytes. The message may contain the output of
/// a failed script.
const MAX_MESSAGE_BYTES: usize = 64 * 1024;

/// Parses an answer, and returns its value or its exception.
pub fn parse_answer(bytes: &[u8], method: &str) -> Result<Value, AgentError> {
    let protocol_error = |problem: String| AgentError::Protocol { method: method.to_owned(), problem };
    let mut answer: Value = serde_json::from_slice(bytes)
        .map_err(|error| protocol_error(format!("it is not JSON: {}", json_problem(&error))))?;
    if let Some(exception) = answer.get("exception").filter(|exception| !exception.is_null()) {
        let message = exception.get("message").and_then(Value::as_str).unwrap_or("no message given");
        let message = without_method(message, method);
        let message = base::encoding::shorten(message, MAX_MESSAGE_BYTES).into_owned();
        return Err(AgentError::Exception { method: method.to_owned(), message });
    }
    answer
        .get_mut("value")
        .map(Value::take)
        .ok_or_else(|| protocol_error("it has neither `value` nor `exception`".to_owned()))
}

/// Removes what every message of a failed method or task begins with: `Action Failed get_task: Task 7
/// result: `.
fn without_method<'m>(message: &'m str, method: &str) -> &'m str {
    let text = message.strip_prefix("Action Failed ").and_then(|text| text.strip_prefix(method));
    let Some(text) = text.and_then(|text| text.strip_prefix(": ")) else { return message };
    let result = text.strip_prefix("Task ").and_then(|text| text.split_once(" result: "));
    result.map_or(text, |(_, result)| result)
}

/// Returns the id of the task if the answer says that a task runs.
pub fn running_task(value: &Value) -> Option<&str> {
    if value.get("state").and_then(Value::as_str) != Some("running") {
        return None;
    }
    value.get("agent_task_id").and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_is_parsed_as_value_or_exception() {
        assert_eq!(parse_answer(br#"{"value": null}"#, "stop").unwrap(), Value::Null);
        assert_eq!(parse_answer(br#"{"value": 1, "exception": null}"#, "stop").unwrap(), 1);
        for (text, expected) in [
            (r#"{"exception": {}}"#, "no message given"),
            (r#"{"exception": "boom", "value": 1}"#, "no message given"),
            (r#"{"exception": {"message": "boom"}}"#, "failed: boom"),
            (r#"{"exception": {"message": "Action Failed stop: Task 7 result: boom"}}"#, "failed: boom"),
            ("{}", "neither `value` nor `exception`"),
            ("[]", "neither"),
            ("", "not JSON"),
            (r#"{"value": 1} {"value": 2}"#, "not JSON"),
        ] {
            let error = parse_answer(text.as_bytes(), "stop").unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn long_exception_messages_are_truncated() {
        let text = serde_json::json!({"exception": {"message": "ü".repeat(1 << 20)}}).to_string();
        let error = parse_answer(text.as_bytes(), "stop").unwrap_err().to_string();
        assert!(error.len() < MAX_MESSAGE_BYTES + 100, "{}", error.len());
    }
}
