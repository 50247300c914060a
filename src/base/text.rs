//! Formats durations, sizes and text from outside for people.

use std::borrow::Cow;
use std::time::Duration;

/// Formats a duration: `0.3 s`, `42 s`, `3 min 05 s`, `1 h 02 min`.
pub fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..10 => format!("{:.1} s", duration.as_secs_f64()),
        10..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// Formats a size: `512 B`, `3.4 MiB`.
pub fn bytes(bytes: u64) -> String {
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

/// Removes escape sequences and control characters from text from outside, such as a CPI's log, so that it
/// cannot control the terminal. Line breaks and tabs stay.
pub fn clean(text: &str) -> Cow<'_, str> {
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

/// Like [`clean`], but returns a single line.
pub fn clean_line(text: &str) -> String {
    clean(text).trim_end().replace(['\n', '\t'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_formatted() {
        let shown: Vec<String> = [0.04, 9.96, 10.0, 59.9, 60.0, 3725.0]
            .iter()
            .map(|s| duration(Duration::from_secs_f64(*s)))
            .collect();
        assert_eq!(shown, ["0.0 s", "10.0 s", "10 s", "59 s", "1 min 00 s", "1 h 02 min"]);
    }

    #[test]
    fn sizes_are_formatted() {
        let shown: Vec<String> = [0, 1023, 1024, 1536, 1 << 20, (1 << 20) - 1, 5 << 40].map(bytes).into();
        assert_eq!(shown, ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "1.0 MiB", "1.0 MiB", "5.0 TiB"]);
    }

    #[test]
    fn clean_text_cannot_control_the_terminal() {
        assert_eq!(clean("plain\ttext\n"), "plain\ttext\n");
        assert_eq!(clean("\x1b[2J\x1b[31mred\x1b[0m\x07"), "red");
        assert_eq!(clean("\x1b]0;title\x07a\x1b]8;;http://x\x1b\\b\u{9b}31m"), "ab31m");
        assert_eq!(clean_line("10%\r20%\r\n"), "10% 20%");
        assert_eq!(clean("\x1b["), "");
    }
}
