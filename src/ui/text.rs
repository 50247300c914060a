//! Helpers of the text renderers: clocks, amounts, colours, and lines on standard output and standard error.

use std::borrow::Cow;
use std::io::Write;
use std::time::Duration;

use time::OffsetDateTime;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;

use super::styled::Styled;
use base::events::{Unit, Warning};
pub(super) use base::text::{clean, format_bytes};

const MILLISECONDS: &[BorrowedFormatItem<'_>] =
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");

/// Returns the current time in RFC 3339, UTC, with milliseconds.
pub(super) fn now_milliseconds() -> String {
    OffsetDateTime::now_utc().format(MILLISECONDS).unwrap_or_default()
}

/// Formats a duration for a column: `0:42`, `12:05`, `1:02:03`.
pub(super) fn clock(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..3600 => format!("{}:{:02}", seconds / 60, seconds % 60),
        _ => format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60),
    }
}

/// Formats an amount, such as `3/10`, `1.0 MiB of 4.0 MiB` or `1.0 MiB`.
pub(super) fn amount(amount_done: u64, total: Option<u64>, unit: Unit) -> String {
    match (unit, total) {
        (Unit::Bytes, Some(total)) => format!("{} of {}", format_bytes(amount_done), format_bytes(total)),
        (Unit::Bytes, None) => format_bytes(amount_done),
        (Unit::Items, Some(total)) => format!("{amount_done}/{total}"),
        (Unit::Items, None) => amount_done.to_string(),
    }
}

/// Removes bytes that could control the terminal. Replaces bytes that are not UTF-8.
pub fn clean_bytes(bytes: &[u8]) -> Vec<u8> {
    clean(&String::from_utf8_lossy(bytes)).into_owned().into_bytes()
}

/// A colour or a style.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Color {
    Red,
    Green,
    Yellow,
    Cyan,
    Bold,
    Dim,
}

/// Colours a text if `is_colored`.
pub(super) fn paint(is_colored: bool, color: Color, text: &str) -> Cow<'_, str> {
    if !is_colored || text.is_empty() {
        return Cow::Borrowed(text);
    }
    let code = match color {
        Color::Red => "31",
        Color::Green => "32",
        Color::Yellow => "33",
        Color::Cyan => "36",
        Color::Bold => "1",
        Color::Dim => "2",
    };
    Cow::Owned(format!("\x1b[{code}m{text}\x1b[0m"))
}

/// Writes lines to standard output and standard error, and flushes each. Write failures are ignored, because
/// the run matters more than its display.
#[derive(Debug, Clone)]
pub(super) struct OutputStreams {
    /// True if all lines go to standard error.
    pub(super) is_stdout_reserved: bool,
    /// The output of tests: `out` or `err`, and the line.
    #[cfg(test)]
    pub(super) captured_lines: Option<std::sync::Arc<parking_lot::Mutex<Vec<String>>>>,
}

impl OutputStreams {
    /// Returns the streams of the process.
    pub(super) fn standard(is_stdout_reserved: bool) -> Self {
        OutputStreams {
            is_stdout_reserved,
            #[cfg(test)]
            captured_lines: None,
        }
    }

    /// Prints an ordinary line.
    pub(super) fn print_out(&self, line: &str) {
        if self.is_stdout_reserved {
            return self.print_err(line);
        }
        #[cfg(test)]
        if self.capture("out", line) {
            return;
        }
        let mut stdout = std::io::stdout().lock();
        let _ = stdout.write_all(format!("{line}\n").as_bytes()).and_then(|()| stdout.flush());
    }

    /// Prints a warning, an error or a log line.
    pub(super) fn print_err(&self, line: &str) {
        #[cfg(test)]
        if self.capture("err", line) {
            return;
        }
        let _ = std::io::stderr().lock().write_all(format!("{line}\n").as_bytes());
    }

    #[cfg(test)]
    fn capture(&self, stream: &str, line: &str) -> bool {
        let Some(captured_lines) = &self.captured_lines else { return false };
        captured_lines.lock().push(format!("{stream} {line}"));
        true
    }
}

/// Formats an error: message, causes, notes, hints, log. `errors` begins with the outermost.
pub(super) fn failure_lines(
    errors: &[String],
    notes: &[String],
    hints: &[String],
    log: Option<&str>,
) -> Vec<Styled> {
    let mut lines = Vec::new();
    let mut push = |label: &str, color: Color, text: &str, indent: &str| {
        lines.extend(labelled_lines(label, color, text, indent));
    };
    for (depth, error) in errors.iter().enumerate() {
        match depth {
            0 => push("error:", Color::Red, error, ""),
            _ => push("cause:", Color::Bold, error, "  "),
        }
    }
    for note in notes {
        push("note:", Color::Bold, note, "  ");
    }
    for hint in hints {
        push("hint:", Color::Bold, hint, "  ");
    }
    if let Some(log) = log {
        push("log:", Color::Bold, log, "  ");
    }
    lines
}

/// Formats a warning: message, hints.
pub(super) fn warning_lines(warning: &Warning) -> Vec<Styled> {
    let mut lines = labelled_lines("warning:", Color::Yellow, &warning.text, "");
    lines.extend(warning.hints.iter().flat_map(|hint| labelled_lines("hint:", Color::Bold, hint, "  ")));
    lines
}

/// Returns the lines of a text, the first of them with a label.
fn labelled_lines(label: &str, color: Color, text: &str, indent: &str) -> Vec<Styled> {
    let text = clean(text);
    let mut parts = text.lines();
    let first_line = parts.next().unwrap_or_default();
    let first_line = Styled::plain(indent).colored(color, label).and(format!(" {first_line}"));
    [first_line].into_iter().chain(parts.map(|part| Styled::plain(format!("{indent}  {part}")))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_have_hours_if_needed() {
        assert_eq!(clock(Duration::from_secs(3723)), "1:02:03");
    }

    #[test]
    fn failure_has_causes_and_hints() {
        let errors = ["creating the VM failed".to_owned(), "line one\nline two".to_owned()];
        let failure_texts = |shows_colors, hints: &[String]| -> Vec<String> {
            failure_lines(&errors, &["nothing was changed".to_owned()], hints, Some("/log"))
                .iter()
                .map(|line| line.to_text(shows_colors))
                .collect()
        };
        assert_eq!(
            failure_texts(false, &["run again".to_owned()]),
            [
                "error: creating the VM failed",
                "  cause: line one",
                "    line two",
                "  note: nothing was changed",
                "  hint: run again",
                "  log: /log"
            ]
        );
        assert_eq!(failure_texts(true, &[])[0], "\x1b[31merror:\x1b[0m creating the VM failed");
    }
}
