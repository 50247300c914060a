//! Transcripts: JSON lines with the requests to a CPI and its answers, without secrets and readable only by
//! their owner.
//!
//! The first line is `{"transcript": 1, "settings": …}`, with the settings of a conformance run for its
//! replay. Every other line is one process:
//!
//! ```json
//! {"request": {"method": "has_vm", …}, "answer": "{\"result\":true,…}\n", "stderr": "", "exit_status": 0,
//!  "duration_ms": 12.5}
//! ```
//!
//! Input that is not a JSON object is in `input`. Bytes that are not UTF-8 are in `input_base64` and
//! `answer_base64`. `signal` or `timed_out` may replace `exit_status`; `held_open` means that standard output
//! stayed open.

use std::fs::File;
use std::io::{BufRead, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::exchange::{Exchange, ProcessEnd};
use super::redacted;
use base::files::input;
use base::redact::Redactor;
use base::text::json_problem;
use base::{Error, Result};

/// The version of the transcript format, in the first line of the file.
const FORMAT_VERSION: u64 = 1;
/// The maximum size of a transcript, in bytes.
const MAX_TRANSCRIPT_BYTES: u64 = 256 << 20;
/// The maximum length of a line of a transcript, in bytes.
const MAX_LINE_BYTES: u64 = 64 * 1024 * 1024;

/// The first line of a transcript: the version of the format, and the settings of a conformance run.
#[derive(Serialize, Deserialize)]
struct Header {
    transcript: u64,
    #[serde(default)]
    settings: Value,
}

/// One recorded process.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Entry {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) request: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    input: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    input_base64: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    answer: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    answer_base64: Option<String>,
    #[serde(default)]
    stderr: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    exit_status: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    signal: Option<i32>,
    #[serde(rename = "timed_out", default, skip_serializing_if = "std::ops::Not::not")]
    is_timed_out: bool,
    #[serde(rename = "held_open", default, skip_serializing_if = "std::ops::Not::not")]
    is_held_open: bool,
    duration_ms: f64,
}

/// Encodes bytes as text, or as base64 if they are not UTF-8.
fn encode_bytes(redactor: &Redactor, bytes: &[u8]) -> (Option<String>, Option<String>) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (Some(redacted::redact_text(redactor, text)), None),
        Err(_) => {
            let text = String::from_utf8_lossy(bytes);
            match redacted::redact_text(redactor, &text) {
                // The exact bytes are kept only if they hold no secret.
                redacted_text if redacted_text == text => (None, Some(STANDARD.encode(bytes))),
                redacted_text => (Some(redacted_text), None),
            }
        }
    }
}

fn decode_bytes(text: Option<&String>, base64: Option<&String>) -> Vec<u8> {
    match (text, base64) {
        (Some(text), _) => text.as_bytes().to_vec(),
        (None, Some(base64)) => STANDARD.decode(base64).unwrap_or_default(),
        (None, None) => Vec::new(),
    }
}

impl Entry {
    fn of(redactor: &Redactor, exchange: &Exchange) -> Entry {
        let request = serde_json::from_slice::<Value>(&exchange.input).ok().filter(Value::is_object);
        let request = request.map(|request| redacted::redact_value(redactor, &request));
        let (input, input_base64) = match request {
            Some(_) => (None, None),
            None => encode_bytes(redactor, &exchange.input),
        };
        let (answer, answer_base64) = encode_bytes(redactor, &exchange.stdout);
        let mut entry = Entry {
            request,
            input,
            input_base64,
            answer,
            answer_base64,
            stderr: redactor.redact(&String::from_utf8_lossy(&exchange.stderr)).into_owned(),
            is_held_open: exchange.is_held_open,
            duration_ms: exchange.duration.as_secs_f64() * 1e3,
            ..Entry::default()
        };
        match exchange.end {
            ProcessEnd::Exited(status) => entry.exit_status = Some(status),
            ProcessEnd::Signalled(signal) => entry.signal = Some(signal),
            ProcessEnd::TimedOut | ProcessEnd::Abandoned => entry.is_timed_out = true,
        }
        entry
    }

    /// Returns the recorded input if it was not a request.
    pub(super) fn input(&self) -> Vec<u8> {
        decode_bytes(self.input.as_ref(), self.input_base64.as_ref())
    }

    /// Returns the bytes of the answer.
    pub(super) fn answer(&self) -> Vec<u8> {
        decode_bytes(self.answer.as_ref(), self.answer_base64.as_ref())
    }

    /// Returns the recorded process as the answer to `input`.
    pub(super) fn replayed_exchange(&self, input: &[u8]) -> Exchange {
        Exchange {
            input: input.to_vec(),
            stdout: self.answer(),
            stderr: self.stderr.as_bytes().to_vec(),
            end: match (self.signal, self.is_timed_out) {
                (_, true) => ProcessEnd::TimedOut,
                (Some(signal), false) => ProcessEnd::Signalled(signal),
                (None, false) => ProcessEnd::Exited(self.exit_status.unwrap_or_default()),
            },
            duration: Duration::try_from_secs_f64(self.duration_ms / 1e3).unwrap_or_default(),
            is_held_open: self.is_held_open,
        }
    }
}

/// Writes a transcript.
pub struct Recorder {
    file: Mutex<File>,
    redactor: Redactor,
    problem: Mutex<Option<Error>>,
}

impl Recorder {
    /// Creates the transcript at `path`, and replaces an existing file.
    pub fn create(path: &Path, redactor: &Redactor) -> Result<Self> {
        let write_error = |error| {
            Error::io(format!("writing the transcript '{}'", path.display()), error)
                .with_path_hint(path, "--record FILE")
        };
        let file = File::options().write(true).create(true).truncate(true).mode(0o600).open(path);
        let file = file.map_err(write_error)?;
        // An existing file would otherwise keep its mode. Devices and pipes are left alone.
        if file.metadata().map_err(write_error)?.is_file() {
            file.set_permissions(std::fs::Permissions::from_mode(0o600)).map_err(write_error)?;
        }
        Ok(Recorder { file: Mutex::new(file), redactor: redactor.clone(), problem: Mutex::default() })
    }

    /// Writes the first line of the transcript.
    pub fn begin(&self, settings: &impl Serialize) -> Result<()> {
        let settings = serde_json::to_value(settings)
            .map_err(|error| Error::failure("encoding the settings as JSON failed").with_source(error))?;
        let settings = redacted::redact_value(&self.redactor, &settings);
        self.write_line(&Header { transcript: FORMAT_VERSION, settings })
    }

    /// Records one process. A failure is reported at the end, so that the caller still handles the answer.
    pub(super) fn record(&self, exchange: &Exchange) {
        if let Err(error) = self.write_line(&Entry::of(&self.redactor, exchange)) {
            self.problem.lock().get_or_insert(error);
        }
    }

    /// Returns the first failure to record, the first time it is called.
    pub fn take_error(&self) -> Option<Error> {
        self.problem.lock().take()
    }

    fn write_line(&self, line: &impl Serialize) -> Result<()> {
        let mut text = serde_json::to_vec(line).map_err(|error| {
            Error::failure("encoding a line of the transcript as JSON failed").with_source(error)
        })?;
        text.push(b'\n');
        let mut file = self.file.lock();
        file.write_all(&text).map_err(|error| Error::io("writing the transcript", error))
    }
}

/// Describes why a line is not a record. The place that the JSON library names is in that line.
fn problem(error: &serde_json::Error) -> String {
    let problem = json_problem(error);
    match problem.split_once(": ") {
        Some((place, reason)) if place.starts_with("line ") => reason.to_owned(),
        _ => problem,
    }
}

/// A transcript read from a file.
#[derive(Debug)]
pub(super) struct Transcript {
    pub(super) settings: Value,
    pub(super) entries: Vec<Entry>,
}

impl Transcript {
    /// Reads and parses a transcript.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let read_error = |error| {
            input::read_error("the transcript", path, error)
                .with_hint("to write one: `monopile cpi check --path EXE --record FILE`")
        };
        let line_error = |number: usize, reason: String| {
            Error::invalid(format!("'{}' is not a transcript: line {number}: {reason}", path.display()))
                .with_hint("to write one: `monopile cpi check --path EXE --record FILE`")
        };
        let text = input::read(path, MAX_TRANSCRIPT_BYTES).map_err(read_error)?;
        let mut file = text.as_slice();
        let mut transcript = Transcript { settings: Value::Null, entries: Vec::new() };
        for number in 1.. {
            let mut line = String::new();
            let read = (&mut file).take(MAX_LINE_BYTES).read_line(&mut line).map_err(read_error)?;
            if read == 0 {
                break;
            }
            // A killed run may leave a partial last line.
            if !line.ends_with('\n') && number > 1 {
                break;
            }
            if number == 1 {
                let header: Header =
                    serde_json::from_str(&line).map_err(|error| line_error(number, problem(&error)))?;
                if header.transcript != FORMAT_VERSION {
                    return Err(line_error(
                        number,
                        format!("unknown format {}, expected {FORMAT_VERSION}", header.transcript),
                    ));
                }
                transcript.settings = header.settings;
            } else {
                let entry =
                    serde_json::from_str(&line).map_err(|error| line_error(number, problem(&error)))?;
                transcript.entries.push(entry);
            }
        }
        if transcript.entries.is_empty() {
            return Err(line_error(2, "no call is recorded".to_owned()));
        }
        Ok(transcript)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn new_exchange(input: &[u8], stdout: &[u8]) -> Exchange {
        Exchange {
            input: input.to_vec(),
            stdout: stdout.to_vec(),
            stderr: b"token s3cret\n".to_vec(),
            end: ProcessEnd::Exited(3),
            duration: Duration::from_millis(5),
            is_held_open: false,
        }
    }

    #[test]
    fn transcript_is_read_back_without_secrets() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.jsonl");
        std::fs::write(&path, "old").unwrap();
        let redactor = Redactor::default();
        redactor.add("s3cret");
        let recorder = Recorder::create(&path, &redactor).unwrap();
        recorder.begin(&json!({"a": "s3cret"})).unwrap();
        let request = br#"{"method": "has_vm", "arguments": ["s3cret"]}"#;
        let exchanges = [new_exchange(request, b"{\"result\": true}\n"), new_exchange(b"\xff", b"\xfe\n")];
        for exchange in &exchanges {
            recorder.record(exchange);
        }
        assert!(recorder.take_error().is_none());
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(!std::fs::read_to_string(&path).unwrap().contains("s3cret"));

        let transcript = Transcript::read(&path).unwrap();
        assert_eq!(transcript.settings, json!({"a": "<redacted>"}));
        let [first, second] = transcript.entries.as_slice() else { panic!() };
        assert_eq!(first.request.as_ref().unwrap()["arguments"], json!(["<redacted>"]));
        let replay = first.replayed_exchange(request);
        assert_eq!((replay.stdout, replay.end), (exchanges[0].stdout.clone(), ProcessEnd::Exited(3)));
        assert_eq!((second.input(), second.answer()), (b"\xff".to_vec(), b"\xfe\n".to_vec()));
    }

    #[test]
    fn full_disk_is_reported_at_the_end() {
        let recorder = Recorder::create(Path::new("/dev/full"), &Redactor::default()).unwrap();
        assert_ne!(std::fs::metadata("/dev/full").unwrap().permissions().mode() & 0o777, 0o600);
        assert!(recorder.begin(&json!({})).is_err());
        recorder.record(&new_exchange(b"", b""));
        assert!(recorder.take_error().is_some() && recorder.take_error().is_none());
    }

    #[test]
    fn errors_name_the_line_and_partial_last_lines_are_ignored() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.jsonl");
        for (text, line) in [
            ("", "line 2"),
            ("{}\n", "line 1"),
            ("{\"transcript\": 9}\n", "line 1"),
            ("{\"transcript\": 1}\n", "line 2"),
            ("{\"transcript\": 1}\nx\n", "line 2"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = Transcript::read(&path).unwrap_err();
            assert!(error.to_string().contains(line), "{error}");
            assert!(!error.to_string().contains(" at line "), "{error}");
        }
        std::fs::write(&path, "{\"transcript\": 1}\n{\"request\": {}, \"duration_ms\": 1.0}\n{\"requ")
            .unwrap();
        assert_eq!(Transcript::read(&path).unwrap().entries.len(), 1);
    }
}
