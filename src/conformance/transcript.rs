//! What a CPI was asked and answered, on record: JSON lines, written as it happens, readable for its owner alone
//! and without secrets.
//!
//! The first line is `{"transcript": 1, "settings": …}`, the settings being what a conformance run needs to ask the
//! same again. Every other line is one process:
//!
//! ```json
//! {"request": {"method": "has_vm", …}, "answer": "{\"result\":true,…}\n", "stderr": "", "exit_status": 0,
//!  "duration_ms": 12.5}
//! ```
//!
//! A request that was no JSON hash is `input` instead. Text that is not UTF-8 is `input_base64`, `answer_base64`.
//! Instead of `exit_status` there may be `signal` or `timed_out`; `held_open` says that standard output was.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::exchange::{Ended, Exchange};
use super::redacted;
use base::redact::Redactor;
use base::{Error, Result};

/// The version of the format.
const FORMAT: u64 = 1;
/// A longer line is no transcript of ours.
const LINE_LIMIT: u64 = 64 * 1024 * 1024;

#[derive(Serialize, Deserialize)]
struct Header {
    transcript: u64,
    #[serde(default)]
    settings: Value,
}

/// One process on record.
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
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    timed_out: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    held_open: bool,
    duration_ms: f64,
}

/// Text where it is text, base64 where it is not.
fn written(redactor: &Redactor, bytes: &[u8]) -> (Option<String>, Option<String>) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (Some(redacted::text(redactor, text)), None),
        Err(_) => {
            let text = String::from_utf8_lossy(bytes);
            match redacted::text(redactor, &text) {
                // The bytes are kept as they are only if nothing in them is secret.
                shown if shown == text => (None, Some(STANDARD.encode(bytes))),
                shown => (Some(shown), None),
            }
        }
    }
}

fn read_back(text: Option<&String>, base64: Option<&String>) -> Vec<u8> {
    match (text, base64) {
        (Some(text), _) => text.as_bytes().to_vec(),
        (None, Some(base64)) => STANDARD.decode(base64).unwrap_or_default(),
        (None, None) => Vec::new(),
    }
}

impl Entry {
    fn of(redactor: &Redactor, exchange: &Exchange) -> Entry {
        let request = serde_json::from_slice::<Value>(&exchange.input).ok().filter(Value::is_object);
        let request = request.map(|request| redacted::value(redactor, &request));
        let (input, input_base64) = match request {
            Some(_) => (None, None),
            None => written(redactor, &exchange.input),
        };
        let (answer, answer_base64) = written(redactor, &exchange.stdout);
        let mut entry = Entry {
            request,
            input,
            input_base64,
            answer,
            answer_base64,
            stderr: redactor.apply(&String::from_utf8_lossy(&exchange.stderr)).into_owned(),
            held_open: exchange.held_open,
            duration_ms: exchange.duration.as_secs_f64() * 1e3,
            ..Entry::default()
        };
        match exchange.ended {
            Ended::Exited(status) => entry.exit_status = Some(status),
            Ended::Signalled(signal) => entry.signal = Some(signal),
            Ended::TimedOut | Ended::Abandoned => entry.timed_out = true,
        }
        entry
    }

    /// The input, where it was no request.
    pub(super) fn input(&self) -> Vec<u8> {
        read_back(self.input.as_ref(), self.input_base64.as_ref())
    }

    /// The answer's bytes.
    pub(super) fn answer(&self) -> Vec<u8> {
        read_back(self.answer.as_ref(), self.answer_base64.as_ref())
    }

    /// The same again, as the answer to `input`.
    pub(super) fn exchange(&self, input: &[u8]) -> Exchange {
        Exchange {
            input: input.to_vec(),
            stdout: self.answer(),
            stderr: self.stderr.as_bytes().to_vec(),
            ended: match (self.signal, self.timed_out) {
                (_, true) => Ended::TimedOut,
                (Some(signal), false) => Ended::Signalled(signal),
                (None, false) => Ended::Exited(self.exit_status.unwrap_or_default()),
            },
            duration: Duration::try_from_secs_f64(self.duration_ms / 1e3).unwrap_or_default(),
            held_open: self.held_open,
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
    /// Begins a transcript at `path`, in the place of what may be there.
    pub fn create(path: &Path, redactor: &Redactor) -> Result<Self> {
        let failed = |error| Error::io(format!("writing the transcript '{}'", path.display()), error);
        let file = File::options().write(true).create(true).truncate(true).mode(0o600).open(path);
        let file = file.map_err(failed)?;
        // The mode above is that of a new file. Devices and pipes are left as they are.
        if file.metadata().map_err(failed)?.is_file() {
            file.set_permissions(std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
        }
        Ok(Recorder { file: Mutex::new(file), redactor: redactor.clone(), problem: Mutex::default() })
    }

    /// Writes the first line.
    pub fn begin(&self, settings: &impl Serialize) -> Result<()> {
        let settings = serde_json::to_value(settings)
            .map_err(|error| Error::environment("the settings have no JSON form").with_source(error))?;
        let settings = redacted::value(&self.redactor, &settings);
        self.line(&Header { transcript: FORMAT, settings })
    }

    /// Puts one process on record. That this fails must not make anybody forget what the process said, so it is
    /// told at the end.
    pub(super) fn record(&self, exchange: &Exchange) {
        if let Err(error) = self.line(&Entry::of(&self.redactor, exchange)) {
            self.problem.lock().get_or_insert(error);
        }
    }

    /// Why not everything is on record, if so.
    pub fn problem(&self) -> Option<Error> {
        self.problem.lock().take()
    }

    fn line(&self, line: &impl Serialize) -> Result<()> {
        let mut text = serde_json::to_vec(line).map_err(|error| {
            Error::environment("a line of the transcript has no JSON form").with_source(error)
        })?;
        text.push(b'\n');
        let mut file = self.file.lock();
        file.write_all(&text).map_err(|error| Error::io("writing the transcript", error))
    }
}

/// A transcript that was read.
#[derive(Debug)]
pub(super) struct Transcript {
    pub(super) settings: Value,
    pub(super) entries: Vec<Entry>,
}

impl Transcript {
    pub(super) fn read(path: &Path) -> Result<Self> {
        let failed = |error| {
            Error::io(format!("reading the transcript '{}'", path.display()), error)
                .with_hint("--record makes a transcript")
        };
        let wrong = |number: usize, why: String| {
            Error::invalid(format!("'{}' is no transcript: line {number}: {why}", path.display()))
                .with_hint("--record makes a transcript")
        };
        let mut file = BufReader::new(File::open(path).map_err(failed)?);
        let mut transcript = Transcript { settings: Value::Null, entries: Vec::new() };
        for number in 1.. {
            let mut line = String::new();
            let read = (&mut file).take(LINE_LIMIT).read_line(&mut line).map_err(failed)?;
            if read == 0 {
                break;
            }
            // A run that was killed may have left half a line at the end.
            if !line.ends_with('\n') && number > 1 {
                break;
            }
            if number == 1 {
                let header: Header =
                    serde_json::from_str(&line).map_err(|error| wrong(number, error.to_string()))?;
                if header.transcript != FORMAT {
                    return Err(wrong(number, format!("format {} is not known here", header.transcript)));
                }
                transcript.settings = header.settings;
            } else {
                let entry = serde_json::from_str(&line).map_err(|error| wrong(number, error.to_string()))?;
                transcript.entries.push(entry);
            }
        }
        if transcript.entries.is_empty() {
            return Err(wrong(2, "nothing is on record".to_owned()));
        }
        Ok(transcript)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn exchange(input: &[u8], stdout: &[u8]) -> Exchange {
        Exchange {
            input: input.to_vec(),
            stdout: stdout.to_vec(),
            stderr: b"token s3cret\n".to_vec(),
            ended: Ended::Exited(3),
            duration: Duration::from_millis(5),
            held_open: false,
        }
    }

    #[test]
    fn what_is_written_is_read_back_without_its_secrets() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.jsonl");
        std::fs::write(&path, "old").unwrap();
        let redactor = Redactor::default();
        redactor.add("s3cret");
        let recorder = Recorder::create(&path, &redactor).unwrap();
        recorder.begin(&json!({"a": "s3cret"})).unwrap();
        let request = br#"{"method": "has_vm", "arguments": ["s3cret"]}"#;
        let said = [exchange(request, b"{\"result\": true}\n"), exchange(b"\xff", b"\xfe\n")];
        for exchange in &said {
            recorder.record(exchange);
        }
        assert!(recorder.problem().is_none());
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(!std::fs::read_to_string(&path).unwrap().contains("s3cret"));

        let transcript = Transcript::read(&path).unwrap();
        assert_eq!(transcript.settings, json!({"a": "<redacted>"}));
        let [first, second] = transcript.entries.as_slice() else { panic!() };
        assert_eq!(first.request.as_ref().unwrap()["arguments"], json!(["<redacted>"]));
        let again = first.exchange(request);
        assert_eq!((again.stdout, again.ended), (said[0].stdout.clone(), Ended::Exited(3)));
        assert_eq!((second.input(), second.answer()), (b"\xff".to_vec(), b"\xfe\n".to_vec()));
    }

    #[test]
    fn a_full_disk_is_told_at_the_end() {
        let recorder = Recorder::create(Path::new("/dev/full"), &Redactor::default()).unwrap();
        assert_ne!(std::fs::metadata("/dev/full").unwrap().permissions().mode() & 0o777, 0o600);
        assert!(recorder.begin(&json!({})).is_err());
        recorder.record(&exchange(b"", b""));
        assert!(recorder.problem().is_some() && recorder.problem().is_none());
    }

    #[test]
    fn what_is_no_transcript_says_where_and_half_a_last_line_is_none() {
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
        }
        std::fs::write(&path, "{\"transcript\": 1}\n{\"request\": {}, \"duration_ms\": 1.0}\n{\"requ")
            .unwrap();
        assert_eq!(Transcript::read(&path).unwrap().entries.len(), 1);
    }
}
