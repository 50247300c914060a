//! Replays a transcript: answers a request as the CPI answered the same request before.
//!
//! Requests are the same if method, arguments, `api_version` and stemcell version agree. Values that differ
//! from run to run are ignored: the rest of the context, UUIDs that no recorded answer names, times, the
//! directory of an image, and redacted secrets. Several answers to the same request are played in order, then
//! again from the first one.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::exchange::{Exchange, ProcessEnd};
use super::transcript::{Entry, Transcript};
use base::{Error, Result};

const REDACTED_TEXT: &str = "<redacted>";

/// A transcript under replay.
#[derive(Debug)]
pub struct TranscriptPlayer {
    name: String,
    settings: Value,
    processes: Vec<RecordedProcess>,
    /// UUIDs in recorded answers.
    known_ids: BTreeSet<String>,
}

#[derive(Debug)]
struct RecordedProcess {
    entry: Entry,
    /// The comparable part of the request; `None` if the input was not a request.
    key: Option<Value>,
    /// The number of times that the answer was played.
    play_count: u64,
}

impl TranscriptPlayer {
    /// Reads a transcript.
    pub fn read(path: &Path) -> Result<Self> {
        let transcript = Transcript::read(path)?;
        let mut known_ids = BTreeSet::new();
        for entry in &transcript.entries {
            // Only the result counts, because a log may name an agent's id.
            let answer = entry.answer();
            let answer = serde_json::from_slice(&answer)
                .map(|answer: Value| answer.get("result").map(Value::to_string).unwrap_or_default())
                .unwrap_or_else(|_| String::from_utf8_lossy(&answer).into_owned());
            for_each_uuid(&answer, |uuid| {
                known_ids.insert(uuid.to_owned());
            });
        }
        let processes = transcript.entries.into_iter();
        let processes = processes
            .map(|entry| RecordedProcess {
                key: entry.request.as_ref().map(|request| comparable_part(request, &known_ids)),
                entry,
                play_count: 0,
            })
            .collect();
        let name = path.display().to_string();
        Ok(TranscriptPlayer { name, settings: transcript.settings, processes, known_ids })
    }

    /// Returns the settings of the recorded conformance run; null for other transcripts.
    pub fn settings(&self) -> &Value {
        &self.settings
    }

    /// Returns the recorded answer to `input`.
    pub fn play(&mut self, input: &[u8]) -> Exchange {
        let request = serde_json::from_slice::<Value>(input).ok().filter(Value::is_object);
        let request_key = request.as_ref().map(|request| comparable_part(request, &self.known_ids));
        let can_play = |process: &&mut RecordedProcess| match (&process.key, &request_key) {
            (Some(recorded_key), Some(request_key)) => is_same(recorded_key, request_key),
            (None, None) => process.entry.input() == input,
            _ => false,
        };
        match self.processes.iter_mut().filter(can_play).min_by_key(|process| process.play_count) {
            Some(process) => {
                process.play_count += 1;
                process.entry.replayed_exchange(input)
            }
            None => self.unknown_request(input, request.as_ref()),
        }
    }

    fn unknown_request(&self, input: &[u8], request: Option<&Value>) -> Exchange {
        let method = request.and_then(|request| request.get("method")?.as_str());
        let input_name = method.map_or("this input".to_owned(), |method| format!("this `{method}`"));
        let message = format!("the transcript '{}' has no answer to {input_name}", self.name);
        let error = json!({"type": "Bosh::Clouds::CloudError", "message": message, "ok_to_retry": false});
        Exchange {
            input: input.to_vec(),
            stdout: format!("{}\n", json!({"result": null, "error": error, "log": ""})).into_bytes(),
            stderr: format!("{message}\n").into_bytes(),
            end: ProcessEnd::Exited(0),
            duration: Duration::ZERO,
            is_held_open: false,
        }
    }
}

/// Answers `input` from the transcript at `path`, like one process of a CPI. The position in the transcript
/// is kept in `<path>.played` for the next process.
pub fn play_once(path: &Path, input: &[u8]) -> Result<Exchange> {
    let mut player = TranscriptPlayer::read(path)?;
    let position_path = position_file(path);
    let write_error =
        |error| Error::io(format!("writing the position to '{}'", position_path.display()), error);
    let mut file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&position_path)
        .map_err(write_error)?;
    file.lock().map_err(write_error)?;
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(write_error)?;
    // Start from the beginning if the position does not fit the transcript.
    let play_counts: Vec<u64> = serde_json::from_str(&text).unwrap_or_default();
    if play_counts.len() == player.processes.len() {
        for (process, play_count) in player.processes.iter_mut().zip(play_counts) {
            process.play_count = play_count;
        }
    }
    let exchange = player.play(input);
    let play_counts: Vec<u64> = player.processes.iter().map(|process| process.play_count).collect();
    file.rewind()
        .and_then(|()| file.set_len(0))
        .and_then(|()| file.write_all(json!(play_counts).to_string().as_bytes()))
        .map_err(write_error)?;
    Ok(exchange)
}

/// Resets the position of the transcript at `path`.
pub fn rewind(path: &Path) -> Result<()> {
    let position_path = position_file(path);
    match std::fs::remove_file(&position_path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::io(format!("removing '{}'", position_path.display()), error))
        }
        _ => Ok(()),
    }
}

fn position_file(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".played");
    PathBuf::from(name)
}

/// Returns the part of a request that is compared.
fn comparable_part(request: &Value, known_ids: &BTreeSet<String>) -> Value {
    let mut key = Map::new();
    for (name, value) in request.as_object().into_iter().flatten() {
        match name.as_str() {
            // Compare only the presence of a context, and the stemcell version in it.
            "context" => {
                let version = value.pointer("/vm/stemcell/api_version").cloned().unwrap_or_default();
                key.insert("context".to_owned(), json!({"stemcell": version}));
            }
            _ => {
                key.insert(name.clone(), stabilize(value, known_ids));
            }
        }
    }
    let first_argument = key.get_mut("arguments").and_then(|arguments| arguments.get_mut(0));
    match (request.get("method").and_then(Value::as_str), first_argument) {
        (Some("create_stemcell"), Some(Value::String(path))) => {
            if let Some((_, name)) = path.rsplit_once('/') {
                *path = name.to_owned();
            }
        }
        (Some("create_vm"), Some(agent_id)) => *agent_id = json!("<agent>"),
        _ => {}
    }
    Value::Object(key)
}

/// Replaces values that differ from run to run.
fn stabilize(value: &Value, known_ids: &BTreeSet<String>) -> Value {
    match value {
        Value::String(text) if is_time(text) => json!("<time>"),
        Value::String(text) => {
            let mut stable = text.clone();
            for_each_uuid(text, |uuid| {
                if !known_ids.contains(uuid) {
                    stable = stable.replace(uuid, "<uuid>");
                }
            });
            Value::String(stable)
        }
        Value::Array(values) => values.iter().map(|value| stabilize(value, known_ids)).collect(),
        Value::Object(object) => Value::Object(
            object.iter().map(|(key, value)| (key.clone(), stabilize(value, known_ids))).collect(),
        ),
        other => other.clone(),
    }
}

fn is_time(text: &str) -> bool {
    time::OffsetDateTime::parse(text, &time::format_description::well_known::Rfc3339).is_ok()
}

fn for_each_uuid(text: &str, mut on_uuid: impl FnMut(&str)) {
    const UUID_BYTES: usize = 36;
    let mut start = 0;
    while let Some(candidate) = text.as_bytes().get(start..start + UUID_BYTES) {
        let shape = |(index, byte): (usize, &u8)| match index {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        };
        if candidate.iter().enumerate().all(shape) {
            on_uuid(&text[start..start + UUID_BYTES]);
            start += UUID_BYTES;
        } else {
            start += 1;
        }
    }
}

/// Returns true if a request equals the recorded one, in which secrets are redacted.
fn is_same(expected: &Value, actual: &Value) -> bool {
    match (expected, actual) {
        (Value::String(pattern), Value::String(text)) => pattern == text || matches(pattern, text),
        (Value::String(pattern), Value::Number(number)) => matches(pattern, &number.to_string()),
        (Value::Array(expected), Value::Array(actual)) => {
            expected.len() == actual.len()
                && expected.iter().zip(actual).all(|(expected, actual)| is_same(expected, actual))
        }
        (Value::Object(expected), Value::Object(actual)) => {
            expected.len() == actual.len()
                && expected
                    .iter()
                    .all(|(key, expected)| actual.get(key).is_some_and(|actual| is_same(expected, actual)))
        }
        _ => expected == actual,
    }
}

/// Returns true if `text` matches `pattern`, in which each redacted part stands for any text.
fn matches(pattern: &str, text: &str) -> bool {
    let parts: Vec<&str> = pattern.split(REDACTED_TEXT).collect();
    let [first, middle @ .., last] = parts.as_slice() else { return false };
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    for part in middle {
        match rest.find(part) {
            Some(index) => rest = &rest[index + part.len()..],
            None => return false,
        }
    }
    rest.len() >= last.len() && rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::transcript::Recorder;
    use base::redact::Redactor;

    const VM_CID: &str = "vm-11111111-1111-4111-8111-111111111111";

    fn record_transcript(directory: &Path, calls: &[(Value, Value)]) -> PathBuf {
        let path = directory.join("t.jsonl");
        let redactor = Redactor::default();
        redactor.add("hunter22");
        let recorder = Recorder::create(&path, &redactor).unwrap();
        recorder.begin(&Value::Null).unwrap();
        for (request, result) in calls {
            // Some CPIs log their request.
            let log = request.to_string();
            recorder.record(&Exchange {
                input: request.to_string().into_bytes(),
                stdout: json!({"result": result, "error": null, "log": log}).to_string().into_bytes(),
                stderr: Vec::new(),
                end: ProcessEnd::Exited(0),
                duration: Duration::ZERO,
                is_held_open: false,
            });
        }
        path
    }

    fn result(exchange: &Exchange) -> Value {
        let answer: Value = serde_json::from_slice(&exchange.stdout).unwrap();
        assert_eq!(answer["error"], Value::Null, "{answer}");
        answer["result"].clone()
    }

    fn request(method: &str, arguments: Value, id: &str) -> Value {
        json!({"method": method, "arguments": arguments, "context": {"request_id": id}, "api_version": 2})
    }

    #[test]
    fn replay_ignores_values_that_vary_between_runs() {
        let directory = tempfile::tempdir().unwrap();
        let agent = |digit: &str| format!("{0}{0}{0}{0}{0}{0}{0}{0}-2222-4222-8222-222222222222", digit);
        let path = record_transcript(
            directory.path(),
            &[
                (request("create_stemcell", json!(["/tmp/a/image", {}]), "1"), json!("sc")),
                (request("create_vm", json!([agent("2"), {"p": "x-hunter22"}]), "1"), json!([VM_CID, {}])),
                (
                    request("set_vm_metadata", json!([VM_CID, {"at": "2026-01-01T00:00:00Z"}]), "1"),
                    json!(null),
                ),
            ],
        );
        let mut player = TranscriptPlayer::read(&path).unwrap();
        let mut ask = |method: &str, arguments: Value| {
            player.play(request(method, arguments, "2").to_string().as_bytes())
        };
        assert_eq!(result(&ask("create_stemcell", json!(["/elsewhere/image", {}]))), json!("sc"));
        assert_eq!(result(&ask("create_vm", json!([agent("3"), {"p": "x-hunter22"}])))[0], json!(VM_CID));
        assert_eq!(
            result(&ask("set_vm_metadata", json!([VM_CID, {"at": "2027-02-03T04:05:06Z"}]))),
            Value::Null
        );
        let other = VM_CID.replace('1', "4");
        for (method, arguments) in [
            ("set_vm_metadata", json!([other, {"at": "2027-02-03T04:05:06Z"}])),
            ("create_vm", json!([agent("3"), {"p": "y-hunter22"}])),
            ("delete_vm", json!([VM_CID])),
        ] {
            let answer = ask(method, arguments);
            assert!(String::from_utf8_lossy(&answer.stdout).contains("has no answer to this"));
        }
        assert!(String::from_utf8_lossy(&player.play(b"x").stdout).contains("no answer to this input"));
    }

    #[test]
    fn replay_keeps_its_position_across_processes() {
        let directory = tempfile::tempdir().unwrap();
        let ask = request("has_vm", json!(["v"]), "1");
        let path =
            record_transcript(directory.path(), &[(ask.clone(), json!(true)), (ask.clone(), json!(false))]);
        let play = || result(&play_once(&path, ask.to_string().as_bytes()).unwrap());
        assert_eq!([play(), play(), play()], [json!(true), json!(false), json!(true)]);
        rewind(&path).unwrap();
        rewind(&path).unwrap();
        assert_eq!(play(), json!(true));
    }

    #[test]
    fn redacted_parts_match_any_text_on_replay() {
        assert!(matches("a<redacted>b<redacted>", "aXXbY"));
        assert!(!matches("a<redacted>b", "aX"));
        assert!(!matches("ab<redacted>ba", "aba"));
        assert!(!matches("a", "b"));
    }
}
