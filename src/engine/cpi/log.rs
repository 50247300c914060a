//! The log of a call: standard error while the CPI works, then the `log` of its answer.
//!
//! Many CPIs write the same lines to both. A line of the answer's log that standard error also has is left
//! out.

use std::collections::{HashSet, VecDeque};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

/// The maximum number of lines of a log that an error shows.
const TAIL_LINES: usize = 12;
/// The maximum size of the part of a log that an error shows, in bytes. A single longer line is shown whole.
const TAIL_BYTES: usize = 16 * 1024;
/// The length at which a line is split, in bytes.
const MAX_LINE_BYTES: usize = 16 * 1024;
/// The maximum number of bytes that one call of `follow` reads. A log may grow faster than it can be read.
const MAX_READ_BYTES: u64 = 4 * 1024 * 1024;
/// The maximum size of the shown end of an answer's log, in bytes.
const MAX_ANSWER_LOG_BYTES: usize = 256 * 1024;

/// Reads the log of one call line by line, and keeps its end.
pub(crate) struct CallLog {
    stderr: Option<File>,
    unfinished_line: Vec<u8>,
    tail: VecDeque<String>,
}

impl CallLog {
    /// Opens the file with standard error. A file that cannot be read counts as empty.
    pub(crate) fn open(path: &Path) -> Self {
        CallLog { stderr: File::open(path).ok(), unfinished_line: Vec::new(), tail: VecDeque::new() }
    }

    /// Reads what was added to standard error.
    pub(super) fn follow(&mut self, on_log: &mut dyn FnMut(&str)) {
        let Some(file) = &mut self.stderr else { return };
        let mut file = file.take(MAX_READ_BYTES);
        let mut chunk = [0; 8192];
        while let Ok(read @ 1..) = file.read(&mut chunk) {
            self.unfinished_line.extend_from_slice(&chunk[..read]);
            while let Some(end) = self.unfinished_line.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.unfinished_line.drain(..=end).collect();
                add_line(&mut self.tail, &line, on_log);
            }
            if self.unfinished_line.len() > MAX_LINE_BYTES {
                let line = std::mem::take(&mut self.unfinished_line);
                add_line(&mut self.tail, &line, on_log);
            }
        }
    }

    /// Reads the rest of standard error. Skips a part if the process wrote faster than it could be followed.
    pub(super) fn read_rest(&mut self, on_log: &mut dyn FnMut(&str)) {
        if let Some(skipped_bytes) = self.skip_to_the_end() {
            on_log(&format!("… {skipped_bytes} bytes of the CPI's log are not shown"));
        }
        self.follow(on_log);
        if !self.unfinished_line.is_empty() {
            let line = std::mem::take(&mut self.unfinished_line);
            add_line(&mut self.tail, &line, on_log);
        }
    }

    /// Skips the part of the log that is too long to show, and returns its length in bytes.
    fn skip_to_the_end(&mut self) -> Option<u64> {
        let file = self.stderr.as_mut()?;
        let unread_bytes = file.metadata().ok()?.len().checked_sub(file.stream_position().ok()?)?;
        let skipped_bytes =
            unread_bytes.checked_sub(MAX_READ_BYTES).filter(|skipped_bytes| *skipped_bytes > 0)?;
        file.seek_relative(i64::try_from(skipped_bytes).ok()?).ok()?;
        self.unfinished_line.clear();
        Some(skipped_bytes)
    }

    /// Adds the `log` of an answer, except lines that standard error also has.
    pub(super) fn add_answer(&mut self, answer: &[u8], on_log: &mut dyn FnMut(&str)) {
        let log = answer_log(answer);
        if log.trim().is_empty() {
            return;
        }
        let stderr = self.read_end_of_stderr();
        let on_stderr: HashSet<&str> = stderr.lines().map(str::trim_end).collect();
        let start = tail_start(&log);
        if start > 0 {
            on_log(&format!("… {start} bytes of the log in the CPI's answer are not shown"));
        }
        for line in log[start..].lines().map(str::trim_end) {
            if !line.is_empty() && !on_stderr.contains(line) {
                line.as_bytes()
                    .chunks(MAX_LINE_BYTES)
                    .for_each(|part| add_line(&mut self.tail, part, on_log));
            }
        }
    }

    fn read_end_of_stderr(&mut self) -> String {
        let mut end = Vec::new();
        if let Some(file) = &mut self.stderr {
            let length = file.metadata().map_or(0, |metadata| metadata.len());
            let read = file
                .seek(SeekFrom::Start(length.saturating_sub(MAX_READ_BYTES)))
                .and_then(|_| file.take(MAX_READ_BYTES).read_to_end(&mut end));
            tracing::trace!(?read, "read standard error again to compare it with the answer's log");
        }
        String::from_utf8_lossy(&end).into_owned()
    }

    /// Reads the log of a call that has ended: standard error, then the `log` of its answer.
    pub(crate) fn read_whole(&mut self, answer: &[u8], on_log: &mut dyn FnMut(&str)) {
        self.read_rest(on_log);
        self.add_answer(answer, on_log);
    }

    /// Returns the last lines of the log.
    pub(crate) fn tail(self) -> String {
        Vec::from(self.tail).join("\n")
    }
}

/// Shows a line, and adds it to the end of the log that is kept.
fn add_line(tail: &mut VecDeque<String>, bytes: &[u8], on_log: &mut dyn FnMut(&str)) {
    let line = String::from_utf8_lossy(bytes).trim_end().to_owned();
    on_log(&line);
    tail.push_back(line);
    let mut length: usize = tail.iter().map(String::len).sum();
    // Whole lines are dropped, because the start of a secret would not be recognised in a part of a line.
    while tail.len() > TAIL_LINES || tail.len() > 1 && length > TAIL_BYTES {
        length -= tail.pop_front().map_or(0, |line| line.len());
    }
}

/// Returns the `log` of an answer, or an empty text if the answer cannot be read.
fn answer_log(answer: &[u8]) -> String {
    #[derive(Deserialize)]
    struct AnswerLog {
        #[serde(default)]
        log: Value,
    }
    if !answer.trim_ascii_start().starts_with(b"{") {
        return String::new();
    }
    match serde_json::from_slice(answer) {
        Ok(AnswerLog { log: Value::String(log) }) => log,
        Ok(AnswerLog { log: Value::Null }) | Err(_) => String::new(),
        // The contract asks for a string, but other text may help too.
        Ok(AnswerLog { log }) => log.to_string(),
    }
}

/// Returns the position in a log from which it is shown: the start of a line, unless the last line is longer
/// than the limit.
fn tail_start(log: &str) -> usize {
    let Some(limit) = log.len().checked_sub(MAX_ANSWER_LOG_BYTES).filter(|limit| *limit > 0) else {
        return 0;
    };
    let start = (limit..log.len()).find(|index| log.is_char_boundary(*index)).unwrap_or(log.len());
    match log[start..].find('\n') {
        Some(end) if start + end + 1 < log.len() => start + end + 1,
        _ => start,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read_log(stderr: &str, answer: &[u8]) -> (Vec<String>, String) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        std::fs::write(&path, stderr).unwrap();
        let mut log = CallLog::open(&path);
        let mut lines = Vec::new();
        let mut on_log = |line: &str| lines.push(line.to_owned());
        log.read_rest(&mut on_log);
        log.add_answer(answer, &mut on_log);
        (lines, log.tail())
    }

    #[test]
    fn answer_log_omits_lines_already_on_stderr() {
        let answer = json!({"result": 1, "error": null, "log": "both \r\n\nonly here\n"}).to_string();
        let (lines, tail) = read_log("only there\nboth\n", answer.as_bytes());
        assert_eq!(lines, ["only there", "both", "only here"]);
        assert_eq!(tail, "only there\nboth\nonly here");
    }

    #[test]
    fn unusable_answer_log_is_ignored() {
        for answer in [
            "",
            "[{\"log\": \"x\"}]",
            "{",
            r#"{"result": 1}"#,
            r#"{"log": null}"#,
            r#"{"log": " \n"}"#,
            r#"{"log": "a", "log": "b"}"#,
        ] {
            assert_eq!(read_log("", answer.as_bytes()).0, Vec::<String>::new(), "{answer}");
        }
        assert_eq!(read_log("", br#"{"log": ["a", 1]}"#).0, [r#"["a",1]"#]);
    }

    #[test]
    fn long_logs_are_shown_from_near_their_end() {
        let log: String = (0..100_000).map(|number| format!("line {number} ü\n")).collect();
        let (lines, tail) = read_log("", json!({"log": log}).to_string().as_bytes());
        assert!(lines[0].contains(" bytes of the log in the CPI's answer are not shown"), "{}", lines[0]);
        assert!(lines[1].starts_with("line "), "{}", lines[1]);
        let length: usize = lines[1..].iter().map(|line| line.len() + 1).sum();
        assert!((MAX_ANSWER_LOG_BYTES - 100..=MAX_ANSWER_LOG_BYTES).contains(&length), "{length}");
        assert_eq!(tail.lines().count(), TAIL_LINES);
        assert!(tail.ends_with("line 99999 ü"), "{tail}");
        let (lines, tail) = read_log("", json!({"log": "ü".repeat(1 << 20)}).to_string().as_bytes());
        assert_eq!(lines.len(), 1 + MAX_ANSWER_LOG_BYTES / MAX_LINE_BYTES);
        assert!(tail.len() <= TAIL_BYTES, "{}", tail.len());
    }
}
