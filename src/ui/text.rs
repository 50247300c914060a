//! What the text renderers share: time, durations, sizes, colours, and taking the sting out of foreign text.

use std::borrow::Cow;
use std::io::Write;
use std::time::Duration;

use time::OffsetDateTime;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;

use super::Unit;
use super::styled::Styled;

const MILLISECONDS: &[BorrowedFormatItem<'_>] =
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");

/// Now, RFC 3339 in UTC, to the millisecond.
pub(super) fn now_milliseconds() -> String {
    OffsetDateTime::now_utc().format(MILLISECONDS).unwrap_or_default()
}

/// `0.3 s`, `42 s`, `3 min 05 s`, `1 h 02 min`.
pub(crate) fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..10 => format!("{:.1} s", duration.as_secs_f64()),
        10..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// `0:42`, `12:05`, `1:02:03`: short enough for a column.
pub(super) fn clock(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..3600 => format!("{}:{:02}", seconds / 60, seconds % 60),
        _ => format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60),
    }
}

/// `512 B`, `3.4 MiB`.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    #[expect(clippy::cast_precision_loss, reason = "one decimal is shown")]
    let mut size = bytes as f64 / 1024.0;
    let mut unit = 0;
    while size >= 1023.95 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    format!("{size:.1} {}", UNITS[unit])
}

/// `3/10`, `1.0 MiB of 4.0 MiB`, `1.0 MiB`.
pub(super) fn amount(done: u64, total: Option<u64>, unit: Unit) -> String {
    match (unit, total) {
        (Unit::Bytes, Some(total)) => format!("{} of {}", bytes(done), bytes(total)),
        (Unit::Bytes, None) => bytes(done),
        (Unit::Items, Some(total)) => format!("{done}/{total}"),
        (Unit::Items, None) => done.to_string(),
    }
}

/// Colours, where they are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Color {
    Red,
    Green,
    Yellow,
    Cyan,
    Bold,
    Dim,
}

/// `text` in this colour, or as it is.
pub(super) fn paint(wanted: bool, color: Color, text: &str) -> Cow<'_, str> {
    if !wanted || text.is_empty() {
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

/// Text from outside (a CPI's log, an agent's message) without escape sequences and control characters, which
/// could repaint the terminal. Line breaks and tabs stay.
pub(crate) fn clean(text: &str) -> Cow<'_, str> {
    let harmless = |character: char| !character.is_control() || matches!(character, '\n' | '\t');
    if text.chars().all(harmless) {
        return Cow::Borrowed(text);
    }
    let mut output = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\x1b' => match characters.next() {
                // CSI: parameters, then one final character.
                Some('[') => {
                    while characters.next_if(|next| !('\x40'..='\x7e').contains(next)).is_some() {}
                    characters.next();
                }
                // OSC and other strings: up to BEL or ESC \.
                Some(']' | 'P' | '^' | '_' | 'X') => {
                    while let Some(next) = characters.next() {
                        if next == '\x07' || (next == '\x1b' && characters.next_if_eq(&'\\').is_some()) {
                            break;
                        }
                    }
                }
                _ => {}
            },
            '\r' if characters.peek() == Some(&'\n') => {}
            '\r' => output.push(' '),
            other if harmless(other) => output.push(other),
            _ => {}
        }
    }
    Cow::Owned(output)
}

/// As [`clean`], on one line.
pub(super) fn clean_line(text: &str) -> String {
    clean(text).trim_end().replace(['\n', '\t'], " ")
}

/// Lines to standard output and standard error, each flushed. When the reader has gone there is nobody left
/// to tell, and the run matters more than its display: failures are dropped.
#[derive(Debug, Clone)]
pub(super) struct Lines {
    /// Standard output belongs to the command's product: everything goes to standard error.
    pub(super) product: bool,
    /// Instead of both, where tests look: `out` or `err` and the line.
    #[cfg(test)]
    pub(super) captured: Option<std::sync::Arc<std::sync::Mutex<Vec<String>>>>,
}

impl Lines {
    /// To the process's standard output and standard error.
    pub(super) fn standard(product: bool) -> Self {
        Lines {
            product,
            #[cfg(test)]
            captured: None,
        }
    }

    /// Ordinary news.
    pub(super) fn news(&self, line: &str) {
        if self.product {
            return self.trouble(line);
        }
        #[cfg(test)]
        if self.capture("out", line) {
            return;
        }
        let mut out = std::io::stdout().lock();
        let _ = out.write_all(format!("{line}\n").as_bytes()).and_then(|()| out.flush());
    }

    /// Warnings, errors and the log.
    pub(super) fn trouble(&self, line: &str) {
        #[cfg(test)]
        if self.capture("err", line) {
            return;
        }
        let _ = std::io::stderr().lock().write_all(format!("{line}\n").as_bytes());
    }

    #[cfg(test)]
    fn capture(&self, stream: &str, line: &str) -> bool {
        let Some(captured) = &self.captured else { return false };
        captured.lock().unwrap().push(format!("{stream} {line}"));
        true
    }
}

/// The error as a person reads it: message, causes, hints. `errors` is outermost first.
pub(super) fn failure(errors: &[String], hints: &[String]) -> Vec<Styled> {
    let mut lines = Vec::new();
    let mut push = |label: &str, color: Color, text: &str, indent: &str| {
        let text = clean(text);
        let mut parts = text.lines();
        let first = parts.next().unwrap_or_default();
        lines.push(Styled::plain(indent).colored(color, label).and(format!(" {first}")));
        lines.extend(parts.map(|part| Styled::plain(format!("{indent}  {part}"))));
    };
    for (depth, error) in errors.iter().enumerate() {
        match depth {
            0 => push("error:", Color::Red, error, ""),
            _ => push("cause:", Color::Bold, error, "  "),
        }
    }
    for hint in hints {
        push("hint:", Color::Bold, hint, "  ");
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let shown: Vec<String> = [0.04, 9.96, 10.0, 59.9, 60.0, 3725.0]
            .iter()
            .map(|s| duration(Duration::from_secs_f64(*s)))
            .collect();
        assert_eq!(shown, ["0.0 s", "10.0 s", "10 s", "59 s", "1 min 00 s", "1 h 02 min"]);
        assert_eq!(clock(Duration::from_secs(3723)), "1:02:03");
    }

    #[test]
    fn sizes() {
        let shown: Vec<String> = [0, 1023, 1024, 1536, 1 << 20, (1 << 20) - 1, 5 << 40].map(bytes).into();
        assert_eq!(shown, ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "1.0 MiB", "1.0 MiB", "5.0 TiB"]);
    }

    #[test]
    fn foreign_text_cannot_drive_the_terminal() {
        assert_eq!(clean("plain\ttext\n"), "plain\ttext\n");
        assert_eq!(clean("\x1b[2J\x1b[31mred\x1b[0m\x07"), "red");
        assert_eq!(clean("\x1b]0;title\x07a\x1b]8;;http://x\x1b\\b\u{9b}31m"), "ab31m");
        assert_eq!(clean_line("10%\r20%\r\n"), "10% 20%");
        assert_eq!(clean("\x1b["), "");
    }

    #[test]
    fn a_failure_in_words() {
        let errors = ["creating the VM failed".to_owned(), "line one\nline two".to_owned()];
        let shown = |colors, hints: &[String]| -> Vec<String> {
            failure(&errors, hints).iter().map(|line| line.whole(colors)).collect()
        };
        assert_eq!(
            shown(false, &["run again".to_owned()]),
            ["error: creating the VM failed", "  cause: line one", "    line two", "  hint: run again"]
        );
        assert_eq!(shown(true, &[])[0], "\x1b[31merror:\x1b[0m creating the VM failed");
    }
}
