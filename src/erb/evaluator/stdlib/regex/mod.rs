//! Ruby's regular expressions, executed by `fancy-regex`.
//!
//! The engine supports look-around, back-references and atomic groups, and limits backtracking. `translate`
//! gives it expressions in its own syntax.

mod translate;

use std::rc::Rc;

use fancy_regex::Expr;
use translate::{TranslatedRegex, has_boundary, inline_flags, translate};

/// Maximum number of backtracks in one match.
const MAX_BACKTRACKS: usize = 2_000_000;

/// A compiled regular expression.
pub(crate) struct Regex {
    pub(crate) source: Rc<str>,
    /// Bits: 1 ignores case, 2 is the extended syntax, and 4 lets `.` match line breaks.
    pub(crate) options: u8,
    engine_regex: fancy_regex::Regex,
    /// True if a part of the expression ignores case.
    pub(crate) ignores_case: bool,
    /// True if a character class with `\w` or `\W` ignores case.
    pub(crate) has_word_class: bool,
    /// True if a character class beyond ASCII ignores case.
    pub(crate) has_wide_class: bool,
    /// True if the expression has a word boundary.
    pub(crate) has_boundary: bool,
}

/// Byte ranges of the groups of a match. The first is the whole match.
pub(crate) type Groups = Vec<Option<(usize, usize)>>;

impl Regex {
    /// Compiles a regular expression. The error is the engine's message.
    pub(crate) fn new(source: &str, options: u8) -> Result<Self, String> {
        let TranslatedRegex { text, ignores_case, has_word_class, has_wide_class } =
            translate(source, options)?;
        if Expr::parse_tree(&text).is_ok_and(|tree| repeats_empty_capture(&tree.expr)) {
            return Err("a repetition of a group that can be empty".into());
        }
        let engine_regex = fancy_regex::RegexBuilder::new(&text)
            // In Ruby `^` and `$` always match at the ends of lines.
            .multi_line(true)
            .case_insensitive(options & 1 != 0)
            .dot_matches_new_line(options & 4 != 0)
            .backtrack_limit(MAX_BACKTRACKS)
            .delegate_size_limit(4 << 20)
            .build()
            .map_err(|error| error.to_string())?;
        let has_boundary = has_boundary(source);
        Ok(Regex {
            source: Rc::from(source),
            options,
            engine_regex,
            ignores_case,
            has_word_class,
            has_wide_class,
            has_boundary,
        })
    }

    /// Finds the first match at or after a byte offset. The error is the engine's message, such as for too
    /// much backtracking.
    pub(crate) fn find(&self, text: &str, start: usize) -> Result<Option<Groups>, String> {
        if start > text.len() {
            return Ok(None);
        }
        let captures_found =
            self.engine_regex.captures_from_pos(text, start).map_err(|error| error.to_string())?;
        let has_names = self.has_names();
        Ok(captures_found.map(|captures| {
            captures
                .iter()
                .enumerate()
                // If any group is named, unnamed groups do not capture.
                .filter(|(index, _)| !has_names || *index == 0 || self.name_of(*index).is_some())
                .map(|(_, group)| group.map(|group| (group.start(), group.end())))
                .collect()
        }))
    }

    fn has_names(&self) -> bool {
        self.engine_regex.capture_names().any(|name| name.is_some())
    }

    fn name_of(&self, index: usize) -> Option<&str> {
        self.engine_regex.capture_names().nth(index).flatten()
    }

    /// Returns the names of the groups, in order.
    pub(crate) fn names(&self) -> Vec<String> {
        self.engine_regex.capture_names().flatten().map(str::to_owned).collect()
    }

    /// Returns the number of a named group.
    pub(crate) fn group_index(&self, name: &str) -> Option<usize> {
        self.engine_regex
            .capture_names()
            .flatten()
            .position(|group_name| group_name == name)
            .map(|index| index + 1)
    }

    /// Returns the name of a numbered group.
    pub(crate) fn group_name(&self, index: usize) -> Option<String> {
        self.names().into_iter().nth(index.checked_sub(1)?)
    }

    fn group_with_options(&self) -> Option<Regex> {
        let flags = inline_flags(self.source.strip_prefix('(')?)?;
        let inner = self.source.get(2 + flags.len()..)?.strip_prefix(':')?.strip_suffix(')')?;
        let mut options = self.options;
        let mut is_off = false;
        for flag in flags.chars() {
            let bit = match flag {
                'i' => 1,
                'x' => 2,
                'm' => 4,
                _ => {
                    is_off = true;
                    continue;
                }
            };
            options = if is_off { options & !bit } else { options | bit };
        }
        Regex::new(inner, options).ok()
    }

    /// Returns the letters of the options that are on, and of those that are off.
    fn flags(&self) -> (String, String) {
        let mut enabled_letters = String::new();
        let mut disabled_letters = String::new();
        for (bit, letter) in [(4, 'm'), (1, 'i'), (2, 'x')] {
            if self.options & bit != 0 { enabled_letters.push(letter) } else { disabled_letters.push(letter) }
        }
        (enabled_letters, disabled_letters)
    }

    /// Returns the form of `to_s`, which can be part of another expression.
    pub(crate) fn to_s(&self) -> String {
        // An expression that is one group with options has these options.
        if let Some(inner) = self.group_with_options() {
            return inner.to_s();
        }
        let (enabled_letters, disabled_letters) = self.flags();
        let disabled_letters =
            if disabled_letters.is_empty() { disabled_letters } else { format!("-{disabled_letters}") };
        format!("(?{enabled_letters}{disabled_letters}:{})", self.escaped_source(false))
    }

    /// Returns the form of `inspect`, which is a literal.
    pub(crate) fn inspect(&self) -> String {
        format!("/{}/{}", self.escaped_source(true), self.flags().0)
    }

    /// Returns the source with slashes and control characters escaped. If it has any and `is_literal` is
    /// true, all characters beyond ASCII are also escaped, as in Ruby.
    fn escaped_source(&self, is_literal: bool) -> String {
        let mut source = String::new();
        let is_plain =
            !self.source.contains(|character: char| character == '/' || character.is_ascii_control());
        let mut is_escaped = false;
        for character in self.source.chars() {
            match character {
                other if is_literal && !is_plain && !other.is_ascii() => match other as u32 {
                    code @ 0x1_0000.. => source.push_str(&format!("\\u{{{code:X}}}")),
                    code => source.push_str(&format!("\\u{code:04X}")),
                },
                '/' if !is_escaped => source.push_str("\\/"),
                other if other.is_ascii_control() && !other.is_ascii_whitespace() && other != '\u{b}' => {
                    source.push_str(&format!("\\x{:02X}", other as u32));
                }
                other => source.push(other),
            }
            is_escaped = character == '\\' && !is_escaped;
        }
        source
    }
}

/// Returns true if a part with a group is repeated and can be empty. In Ruby, such a group ends with an empty
/// match.
fn repeats_empty_capture(expression: &Expr) -> bool {
    matches!(expression, Expr::Repeat { child, hi, .. } if *hi > 1 && can_be_empty(child) && has_group(child))
        || expression.children_iter().any(repeats_empty_capture)
}

fn has_group(expression: &Expr) -> bool {
    matches!(expression, Expr::Group(_)) || expression.children_iter().any(has_group)
}

fn can_be_empty(expression: &Expr) -> bool {
    match expression {
        Expr::Any { .. } | Expr::GeneralNewline { .. } | Expr::Literal { .. } | Expr::Delegate { .. } => {
            false
        }
        Expr::Concat(parts) => parts.iter().all(can_be_empty),
        Expr::Alt(parts) => parts.iter().any(can_be_empty),
        Expr::Group(inner) => can_be_empty(inner),
        Expr::AtomicGroup(inner) => can_be_empty(inner),
        Expr::Repeat { child, lo, .. } => *lo == 0 || can_be_empty(child),
        _ => true,
    }
}

/// Returns true for characters that are part of a word in Ruby but not in the engine, or the other way round.
pub(crate) fn is_unclear_in_words(character: char) -> bool {
    matches!(character, '\u{b2}' | '\u{b3}' | '\u{b9}' | '\u{bc}'..='\u{be}' | '\u{200c}' | '\u{200d}')
}

/// Returns true for characters beyond ASCII that equal an ASCII letter in another case.
pub(crate) fn folds_to_ascii(character: char) -> bool {
    matches!(character, '\u{17f}' | '\u{212a}')
}

/// Returns true for characters that equal several characters in another case, such as `ß` and `ss`. The
/// engine compares single characters.
pub(crate) fn folds_to_several(character: char) -> bool {
    !character.is_ascii()
        && (character.to_uppercase().nth(1).is_some()
            || character.to_lowercase().nth(1).is_some()
            || character == '\u{1e9e}')
}

/// Implements `Regexp.escape`.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped_text = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' => escaped_text.push_str("\\n"),
            '\t' => escaped_text.push_str("\\t"),
            '\r' => escaped_text.push_str("\\r"),
            '\u{c}' => escaped_text.push_str("\\f"),
            '\u{b}' => escaped_text.push_str("\\v"),
            ' ' | '#' | '$' | '(' | ')' | '*' | '+' | '-' | '.' | '?' | '[' | '\\' | ']' | '^' | '{'
            | '|' | '}' => {
                escaped_text.push('\\');
                escaped_text.push(character);
            }
            other => escaped_text.push(other),
        }
    }
    escaped_text
}
