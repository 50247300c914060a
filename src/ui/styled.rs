//! Lines for a terminal: coloured text, cut or wrapped to a number of columns. Wide characters take two
//! columns, and combining ones take none.

use unicode_width::UnicodeWidthChar;

use super::text::{Color, paint};

/// A space that does not break a line.
pub(super) const NO_BREAK_SPACE: char = '\u{a0}';

/// A line of coloured text.
#[derive(Debug, Clone, Default)]
pub(super) struct Styled(Vec<(Option<Color>, String)>);

impl Styled {
    /// Creates a line without colours.
    pub(super) fn plain(text: impl Into<String>) -> Self {
        Styled::default().and(text)
    }

    /// Appends text.
    pub(super) fn and(mut self, text: impl Into<String>) -> Self {
        self.0.push((None, text.into()));
        self
    }

    /// Appends text in a colour.
    pub(super) fn colored(mut self, color: Color, text: impl Into<String>) -> Self {
        self.0.push((Some(color), text.into()));
        self
    }

    /// Appends another line.
    pub(super) fn and_line(mut self, other: Styled) -> Self {
        self.0.extend(other.0);
        self
    }

    /// Returns the width in columns.
    pub(super) fn width(&self) -> usize {
        self.0.iter().map(|(_, text)| width(text)).sum()
    }

    /// Returns the whole line.
    pub(super) fn to_text(&self, shows_colors: bool) -> String {
        self.0.iter().map(|(color, text)| paint_text(shows_colors, *color, text)).collect()
    }

    /// Returns at most `columns` of the line, with `ellipsis` if text was cut off.
    pub(super) fn cut(&self, columns: usize, shows_colors: bool, ellipsis: &str) -> String {
        if self.width() <= columns {
            return self.to_text(shows_colors);
        }
        let mut remaining_columns = columns.saturating_sub(width(ellipsis));
        let mut line = String::new();
        for (color, text) in &self.0 {
            let end = fitting_bytes(text, remaining_columns);
            line.push_str(&paint_text(shows_colors, *color, &text[..end]));
            remaining_columns -= width(&text[..end]);
            if end < text.len() {
                break;
            }
        }
        line.push_str(&ellipsis[..fitting_bytes(ellipsis, columns)]);
        line
    }

    /// Returns lines of at most `columns`, broken between words. All lines but the first are indented by
    /// `hanging_indent`. Words longer than a line, and text in backticks, stay whole so that they can be
    /// copied.
    pub(super) fn wrap_words(
        &self,
        columns: usize,
        hanging_indent: usize,
        shows_colors: bool,
    ) -> Vec<String> {
        self.break_lines(columns, hanging_indent, shows_colors, LongWords::Whole)
    }

    /// Breaks the text into lines of at most `columns`, with `hanging_indent` blanks before each but the
    /// first. A word that fits nowhere is cut or stays whole, as `long_words` says.
    fn break_lines(
        &self,
        columns: usize,
        hanging_indent: usize,
        shows_colors: bool,
        long_words: LongWords,
    ) -> Vec<String> {
        let mut lines = vec![String::new()];
        let (mut used_columns, mut is_fresh) = (0, true);
        // Spaces are written only before a word, because they may not fit at the end of a line.
        let mut blanks = 0;
        for (color, text) in &self.0 {
            for word in words(text, long_words) {
                let bare_word = word.trim_end_matches(' ');
                let cut = match long_words {
                    LongWords::Cut => Styled::plain(bare_word).cut(columns, false, ELLIPSIS),
                    LongWords::Whole => bare_word.to_owned(),
                };
                let blanks_behind = word.len() - bare_word.len();
                let fitting_word = cut.as_str();
                let fits_below =
                    hanging_indent + width(fitting_word) <= columns || fitting_word.starts_with('`');
                if !is_fresh && used_columns + blanks + width(fitting_word) > columns && fits_below {
                    lines.push(" ".repeat(hanging_indent));
                    (used_columns, is_fresh, blanks) = (hanging_indent, true, 0);
                }
                if let (Some(line), false) = (lines.last_mut(), fitting_word.is_empty()) {
                    line.push_str(&" ".repeat(blanks));
                    line.push_str(&paint_text(shows_colors, *color, fitting_word));
                    used_columns += blanks + width(fitting_word);
                    // Spaces at the start are the indentation of the first word.
                    (is_fresh, blanks) = (false, 0);
                }
                blanks += blanks_behind;
            }
        }
        lines
    }
}

/// Breaks the lines of a text between words, to at most `columns`. Continuation lines are indented by two
/// more columns than their line.
pub fn wrap(text: &str, columns: usize) -> String {
    let lines = text.lines().flat_map(|line| {
        let indentation = line.len() - line.trim_start_matches(' ').len();
        Styled::plain(line).wrap_words(columns, indentation + 2, false)
    });
    lines.fold(String::new(), |text, line| text + &line + "\n")
}

/// Breaks a line between words, to at most `columns`. Wider words are cut.
pub fn fit(line: &str, columns: usize) -> Vec<String> {
    Styled::plain(line).break_lines(columns, 0, false, LongWords::Cut)
}

/// Cuts a line to at most `columns`.
pub fn cut(line: &str, columns: usize) -> String {
    Styled::plain(line).cut(columns, false, ELLIPSIS)
}

/// Returns the width of the longest word of a line, split into words as by [`fit`].
pub fn longest_word(line: &str) -> usize {
    let words = words(line, LongWords::Cut);
    words.iter().map(|word| width(word.trim_end_matches(' '))).max().unwrap_or(0)
}

/// The treatment of words that are wider than a line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LongWords {
    /// The words stay whole and exceed the line.
    Whole,
    Cut,
}

/// The mark for text that was cut off.
const ELLIPSIS: &str = "…";

/// Returns the words of a text, each with the spaces after it. Text in backticks is one word, unless words
/// are cut, because operators paste it.
fn words(text: &str, long_words: LongWords) -> Vec<&str> {
    let (mut words, mut start, mut is_quoted) = (Vec::new(), 0, false);
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'`' if long_words == LongWords::Whole => {
                is_quoted = !is_quoted && text[index + 1..].contains('`')
            }
            b' ' if !is_quoted => {
                words.push(&text[start..=index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    if start < text.len() {
        words.push(&text[start..]);
    }
    words
}

fn paint_text(shows_colors: bool, color: Option<Color>, text: &str) -> String {
    let text = text.replace(NO_BREAK_SPACE, " ");
    match color {
        Some(color) => paint(shows_colors, color, &text).into_owned(),
        None => text,
    }
}

/// Returns the maximum number of columns of a text on a terminal. Some terminals join characters.
pub fn width(text: &str) -> usize {
    text.chars().filter_map(UnicodeWidthChar::width).sum()
}

/// Returns the number of bytes of `text` that fit into `columns`.
fn fitting_bytes(text: &str, columns: usize) -> usize {
    let mut used_columns = 0;
    for (index, character) in text.char_indices() {
        used_columns += character.width().unwrap_or_default();
        if used_columns > columns {
            return index;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_wraps_between_words() {
        assert_eq!(
            wrap("Plan:\n  one two three\n  /a/long/path\n", 9),
            "Plan:\n  one two\n    three\n  /a/long/path\n"
        );
    }

    #[test]
    fn overlong_words_are_cut() {
        assert_eq!(
            fit("one  two /a/long/path `monopile state show`", 8),
            ["one  two", "/a/long…", "`monopi…", "state", "show`"]
        );
        // Non-breaking spaces, and characters that some terminals join.
        assert_eq!(fit("took 6.3\u{a0}s", 6), ["took", "6.3 s"]);
        assert_eq!(fit("👩\u{200d}🚀 b", 4), ["👩\u{200d}🚀", "b"]);
        assert_eq!(longest_word("a 6.3\u{a0}s b"), 5);
    }

    #[test]
    fn cut_lines_fit_the_width() {
        let line = Styled::plain("ab").colored(Color::Dim, "cdef");
        assert_eq!(line.cut(6, false, "…"), "abcdef");
        assert_eq!(line.cut(5, false, "…"), "abcd…");
        assert_eq!(line.cut(2, false, "…"), "a…");
        assert_eq!(line.cut(4, true, "…"), "ab\x1b[2mc\x1b[0m…");
        assert_eq!(line.cut(5, false, "..."), "ab...");
        assert_eq!(line.cut(0, false, "…"), "");
        // Each character takes two columns.
        assert_eq!(Styled::plain("日本語").cut(5, false, "…"), "日本…");
        assert_eq!(Styled::plain("日本語").cut(4, false, "…"), "日…");
        // An accent that follows no character takes no column.
        assert_eq!(Styled::plain("e\u{301}e\u{301}").cut(2, false, "…"), "e\u{301}e\u{301}");
    }

    #[test]
    fn lines_wrap_between_words_and_paths_stay_whole() {
        let line = Styled::plain("  ").colored(Color::Green, "✓").and(" one two /a/very/long/path end");
        assert_eq!(line.wrap_words(80, 4, false), ["  ✓ one two /a/very/long/path end"]);
        assert_eq!(line.wrap_words(9, 4, false), ["  ✓ one", "    two /a/very/long/path", "    end"]);
        assert_eq!(Styled::plain("日本 語").wrap_words(5, 1, false), ["日本", " 語"]);
        assert_eq!(Styled::plain("took 6.3\u{a0}s").wrap_words(9, 1, false), ["took", " 6.3 s"]);
        assert_eq!(Styled::plain("").wrap_words(5, 1, false), [""]);
        let line = Styled::plain("run `monopile state show` or `ls -l a`");
        assert_eq!(line.wrap_words(12, 2, false), ["run", "  `monopile state show`", "  or", "  `ls -l a`"]);
        // The space at the end of a line is dropped, because it would not fit.
        let line = Styled::plain("ab ").colored(Color::Dim, "cd ef");
        assert_eq!(line.wrap_words(5, 1, true), ["ab \x1b[2mcd\x1b[0m", " \x1b[2mef\x1b[0m"]);
    }
}
