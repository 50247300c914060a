//! The styles of scalars, and the analysis of the styles that a text allows.

/// The style in which a scalar is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Single,
    Double,
    Literal,
}

/// The styles that a text allows.
pub(super) struct Analysis {
    /// True if the text has line breaks.
    pub(super) is_multiline: bool,
    pub(super) allows_plain: bool,
    pub(super) allows_single_quotes: bool,
    pub(super) allows_block: bool,
}

/// Returns true for characters that are written without an escape.
pub(super) fn is_printable(character: char) -> bool {
    matches!(character, '\n' | ' '..='~' | '\u{a0}'..='\u{fffd}') && character != '\u{feff}'
}

pub(super) fn is_break(character: char) -> bool {
    matches!(character, '\r' | '\n' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Analyzes a text as libyaml does (yaml_emitter_analyze_scalar in emitter.c).
pub(super) fn analyze(text: &str) -> Analysis {
    if text.is_empty() {
        return Analysis {
            is_multiline: false,
            allows_plain: true,
            allows_single_quotes: true,
            allows_block: false,
        };
    }
    let characters: Vec<char> = text.chars().collect();
    let is_blank =
        |index: usize| characters.get(index).is_none_or(|c| matches!(c, ' ' | '\t' | '\0') || is_break(*c));
    let mut has_indicators = text.starts_with("---") || text.starts_with("...");
    let (mut has_special, mut has_breaks) = (false, false);
    let (mut has_leading_blank, mut has_trailing_blank, mut has_trailing_space) = (false, false, false);
    let (mut has_break_then_space, mut has_space_then_break) = (false, false);
    let (mut after_space, mut after_break) = (false, false);
    for (index, &character) in characters.iter().enumerate() {
        let is_last = index + 1 == characters.len();
        let blank_after = is_blank(index + 1);
        let blank_before = index == 0 || is_blank(index - 1);
        has_indicators |= if index == 0 {
            match character {
                '#' | ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@'
                | '`' => true,
                '?' | ':' | '-' => blank_after,
                _ => false,
            }
        } else {
            match character {
                ':' => blank_after,
                '#' => blank_before,
                _ => false,
            }
        };
        has_special |= !is_printable(character);
        has_breaks |= is_break(character);
        if character == ' ' {
            has_leading_blank |= index == 0;
            has_trailing_blank |= is_last;
            has_trailing_space |= is_last;
            has_break_then_space |= after_break;
            (after_space, after_break) = (true, false);
        } else if is_break(character) {
            has_leading_blank |= index == 0;
            has_trailing_blank |= is_last;
            has_space_then_break |= after_space;
            (after_space, after_break) = (false, true);
        } else {
            (after_space, after_break) = (false, false);
        }
    }
    let needs_escapes = has_space_then_break || has_special;
    Analysis {
        is_multiline: has_breaks,
        allows_plain: !(has_leading_blank
            || has_trailing_blank
            || has_break_then_space
            || needs_escapes
            || has_breaks
            || has_indicators),
        allows_single_quotes: !(has_break_then_space || needs_escapes),
        allows_block: !(has_trailing_space || needs_escapes),
    }
}

/// Returns the escape of a character in double quotes, such as `\n`, `\x1F` or `\uFEFF`.
pub(super) fn escape(character: char) -> String {
    match character {
        '\0' => "\\0".into(),
        '\u{7}' => "\\a".into(),
        '\u{8}' => "\\b".into(),
        '\t' => "\\t".into(),
        '\n' => "\\n".into(),
        '\u{b}' => "\\v".into(),
        '\u{c}' => "\\f".into(),
        '\r' => "\\r".into(),
        '\u{1b}' => "\\e".into(),
        '"' => "\\\"".into(),
        '\\' => "\\\\".into(),
        '\u{85}' => "\\N".into(),
        '\u{a0}' => "\\_".into(),
        '\u{2028}' => "\\L".into(),
        '\u{2029}' => "\\P".into(),
        other if (other as u32) <= 0xff => format!("\\x{:02X}", other as u32),
        other if (other as u32) <= 0xffff => format!("\\u{:04X}", other as u32),
        other => format!("\\U{:08X}", other as u32),
    }
}
