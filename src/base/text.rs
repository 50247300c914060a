//! Formats values for the operator: durations, sizes, lists, shell words, problems of JSON, and text from
//! outside.

use std::borrow::Cow;
use std::time::Duration;

use serde_json::error::Category;

/// Formats a duration: `0.3 s`, `42 s`, `3 min 05 s`, `1 h 02 min`.
pub fn format_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..10 => format!("{:.1} s", duration.as_secs_f64()),
        10..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// Joins names with commas. Names after the tenth are only counted: `a, b and 3 more`.
pub fn comma_list<S: AsRef<str>>(names: &[S]) -> String {
    const MAX_SHOWN_ITEMS: usize = 10;
    let first_names: Vec<&str> = names.iter().take(MAX_SHOWN_ITEMS).map(AsRef::as_ref).collect();
    let text = first_names.join(", ");
    match names.len().saturating_sub(MAX_SHOWN_ITEMS) {
        0 => text,
        hidden_count => format!("{text} and {hidden_count} more"),
    }
}

/// Lists all names: `a, b and c`.
pub fn and_list<S: AsRef<str>>(names: &[S]) -> String {
    list(names, "and")
}

/// Lists all names as alternatives: `a, b or c`.
pub fn or_list<S: AsRef<str>>(names: &[S]) -> String {
    list(names, "or")
}

fn list<S: AsRef<str>>(names: &[S], conjunction: &str) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    match names.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, earlier_names)) => format!("{} {conjunction} {last}", earlier_names.join(", ")),
        None => String::new(),
    }
}

/// Describes why a JSON document cannot be read, without the words of the JSON library.
pub fn json_problem(error: &serde_json::Error) -> String {
    let (line, column, message) = (error.line(), error.column(), error.to_string());
    let message = message.split(" at line ").next().unwrap_or_default();
    match error.classify() {
        Category::Eof => format!("line {line}: it ends too early"),
        Category::Syntax => {
            let problem = match message {
                "expected ident" => "a word other than true, false and null must be in double quotes",
                "expected value" if (line, column) == (1, 1) => "JSON does not begin like this",
                "expected value" => "a value is missing, or a string is not in double quotes",
                "expected `:`" => "a ':' is missing after a key",
                "expected `,` or `}`" => "a ',' or '}' is missing",
                "expected `,` or `]`" => "a ',' or ']' is missing",
                "key must be a string" => "a key is not in double quotes",
                "trailing characters" => "there is more text after the end",
                "trailing comma" => "there is a ',' before a '}' or ']'",
                "invalid escape" => "a string has a '\\' before a letter that cannot follow it",
                message if message.starts_with("control character") => {
                    "a string has a line break or another control character"
                }
                message => message,
            };
            format!("line {line}, column {column}: {problem}")
        }
        Category::Data => {
            let problem = data_problem(message);
            if line == 0 { problem } else { format!("line {line}: {problem}") }
        }
        Category::Io => message.to_owned(),
    }
}

/// Describes a value of the wrong type, without the words of the libraries that decode documents.
pub fn data_problem(message: &str) -> String {
    let plain_words = [
        ("sequence", "a list"),
        ("a sequence", "a list"),
        ("u64", "a whole number"),
        ("u32", "a whole number"),
        ("usize", "a whole number"),
        ("a map", "an object"),
        ("map", "an object"),
        ("string \"", "the string \""),
        ("boolean `", "the value `"),
        ("integer `", "the number `"),
        ("floating point `", "the number `"),
        ("unit", "nothing"),
    ];
    let (problem, expected) = message.split_once(", expected ").unwrap_or((message, ""));
    let in_plain_words = |text: &str| {
        if text.starts_with("struct ") {
            return "an object".to_owned();
        }
        let word = plain_words.iter().find(|(word, _)| text.starts_with(word));
        word.map_or(text.to_owned(), |(word, plain_words)| text.replacen(word, plain_words, 1))
    };
    match problem.strip_prefix("invalid type: ") {
        Some(actual) => format!("{} where {} is needed", in_plain_words(actual), in_plain_words(expected)),
        None if problem.starts_with("invalid length ") => {
            format!("a list where {} is needed", in_plain_words(expected))
        }
        None => message.to_owned(),
    }
}

/// Returns the text with its first letter in upper case.
pub fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// Formats a size: `512 B`, `3.4 MiB`.
pub fn format_bytes(bytes: u64) -> String {
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

/// Returns a word for a shell command that the operator pastes, in single quotes if it needs them.
pub fn shell_word(text: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./:=@%+,".contains(&byte);
    match !text.is_empty() && text.bytes().all(is_plain) {
        true => Cow::Borrowed(text),
        false => Cow::Owned(format!("'{}'", text.replace('\'', r"'\''"))),
    }
}

/// Returns true for characters that change the order in which a terminal shows text, and for separators that
/// some terminals treat as line breaks.
fn disturbs_layout(character: char) -> bool {
    matches!(
        character,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    )
}

/// Returns true if any byte has the property. Checks blocks of bytes without a branch for each, so that the
/// compiler uses vector instructions.
pub(crate) fn contains_any(bytes: &[u8], has_property: impl Fn(u8) -> bool) -> bool {
    let is_in = |block: &[u8]| block.iter().fold(0, |flags, byte| flags | u8::from(has_property(*byte))) > 0;
    let (blocks, rest) = bytes.as_chunks::<32>();
    blocks.iter().any(|block| is_in(block)) || is_in(rest)
}

/// Returns the text of a line without its line break. Bytes that are not UTF-8 are replaced.
pub fn decode_line(line: &[u8]) -> Cow<'_, str> {
    let length = line.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r')).map_or(0, |last| last + 1);
    let line = line.get(..length).unwrap_or_default();
    // Checks ASCII many bytes at a time, which the lossy function does not.
    std::str::from_utf8(line).map_or_else(|_| String::from_utf8_lossy(line), Cow::Borrowed)
}

/// Removes escape sequences, control characters and bidirectional marks from text from outside, such as a
/// CPI's log, so that it cannot control the terminal or pretend to be other text. Line breaks and tabs stay.
pub fn clean(text: &str) -> Cow<'_, str> {
    // Printable ASCII needs no cleaning. Most texts and almost all lines of logs have nothing else, and
    // checking bytes is many times faster than checking characters.
    if !contains_any(text.as_bytes(), |byte| !matches!(byte, b' '..=b'~')) {
        return Cow::Borrowed(text);
    }
    let is_harmless = |character: char| {
        !character.is_control() && !disturbs_layout(character) || matches!(character, '\n' | '\t')
    };
    if text.chars().all(is_harmless) {
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
            other if is_harmless(other) => output.push(other),
            _ => {}
        }
    }
    Cow::Owned(output)
}

/// Escapes the characters that [`clean`] would remove and JSON allows: the control characters above ASCII,
/// DEL, and bidirectional marks. They can only be inside strings.
pub fn escape_json(json: &str) -> Cow<'_, str> {
    let is_harmful =
        |character: char| character >= '\x7f' && (character.is_control() || disturbs_layout(character));
    if !json.chars().any(is_harmful) {
        return Cow::Borrowed(json);
    }
    let mut output = String::with_capacity(json.len());
    for character in json.chars() {
        match is_harmful(character) {
            // All of them have at most four digits.
            true => output.push_str(&format!("\\u{:04x}", u32::from(character))),
            false => output.push(character),
        }
    }
    Cow::Owned(output)
}

/// Like [`clean`], but returns a single line.
pub fn clean_line(text: &str) -> String {
    clean(text).trim_end().replace(['\n', '\t'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_errors_are_plain() {
        let problem =
            |text: &str| json_problem(&serde_json::from_str::<serde_json::Value>(text).unwrap_err());
        for (text, expected) in [
            (
                "{\"a\": no}",
                "line 1, column 8: a word other than true, false and null must be in double quotes",
            ),
            ("{\n\"a\" 1}", "line 2, column 5: a ':' is missing after a key"),
            ("{'a': 1}", "line 1, column 2: a key is not in double quotes"),
            ("[1", "line 1: it ends too early"),
            ("Traceback (most recent call last):", "line 1, column 1: JSON does not begin like this"),
            ("[a]", "line 1, column 2: a value is missing, or a string is not in double quotes"),
            ("{} {}", "line 1, column 4: there is more text after the end"),
        ] {
            assert_eq!(problem(text), expected, "{text}");
        }
        let problem_of = |text: &str| json_problem(&serde_json::from_str::<Vec<String>>(text).unwrap_err());
        assert_eq!(problem_of("[7]"), "line 1: the number `7` where a string is needed");
        assert_eq!(problem_of("[{}]"), "line 1: an object where a string is needed");
        assert_eq!(problem_of("{}"), "line 1: an object where a list is needed");
    }

    #[test]
    fn long_lists_are_shortened() {
        assert_eq!(comma_list::<&str>(&[]), "");
        assert_eq!(comma_list(&["a", "b"]), "a, b");
        assert_eq!(comma_list(&["a"; 12]), "a, a, a, a, a, a, a, a, a, a and 2 more");
    }

    #[test]
    fn shell_words_are_quoted_if_needed() {
        assert_eq!(shell_word("/srv/a-b_c.json"), "/srv/a-b_c.json");
        assert_eq!(shell_word("s3://bucket/state.json"), "s3://bucket/state.json");
        assert_eq!(shell_word("/my env/it's.json"), r"'/my env/it'\''s.json'");
        assert_eq!(shell_word(""), "''");
    }

    #[test]
    fn durations_are_formatted() {
        let texts: Vec<String> = [0.04, 9.96, 10.0, 59.9, 60.0, 3725.0]
            .iter()
            .map(|seconds| format_duration(Duration::from_secs_f64(*seconds)))
            .collect();
        assert_eq!(texts, ["0.0 s", "10.0 s", "10 s", "59 s", "1 min 00 s", "1 h 02 min"]);
    }

    #[test]
    fn sizes_are_formatted() {
        let texts: Vec<String> =
            [0, 1023, 1024, 1536, 1 << 20, (1 << 20) - 1, 5 << 40].map(format_bytes).into();
        assert_eq!(texts, ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "1.0 MiB", "1.0 MiB", "5.0 TiB"]);
    }

    #[test]
    fn clean_removes_terminal_control_sequences() {
        assert_eq!(clean("plain\ttext\n"), "plain\ttext\n");
        assert_eq!(clean("\x1b[2J\x1b[31mred\x1b[0m\x07"), "red");
        assert_eq!(clean("\x1b]0;title\x07a\x1b]8;;http://x\x1b\\b\u{9b}31m"), "ab31m");
        assert_eq!(clean_line("10%\r20%\r\n"), "10% 20%");
        assert_eq!(clean("\x1b["), "");
        let value = "\u{9b}31m\u{202e}\x7fé";
        let json = format!("[\"{value}\"]");
        assert_eq!(escape_json(&json), r#"["\u009b31m\u202e\u007fé"]"#);
        assert_eq!(serde_json::from_str::<[String; 1]>(&escape_json(&json)).unwrap(), [value]);
        assert_eq!(clean("a\u{202e}b\u{2066}c\u{200f}d\u{2028}e"), "abcde");
    }
}
