//! Ruby's regular expressions, executed by `fancy-regex`.
//!
//! The engine supports look-around, back-references and atomic groups, and limits backtracking. It reads
//! Ruby's syntax except for a few spellings, which are translated here.

use std::rc::Rc;

/// Maximum number of backtracks in one match.
const BACKTRACK_LIMIT: usize = 2_000_000;

/// A compiled regular expression.
pub(crate) struct Regex {
    pub(crate) source: Rc<str>,
    /// Bits: 1 ignores case, 2 is the extended syntax, and 4 lets `.` match line breaks.
    pub(crate) options: u8,
    compiled: fancy_regex::Regex,
}

/// Byte ranges of the groups of a match. The first is the whole match.
pub(crate) type Groups = Vec<Option<(usize, usize)>>;

impl Regex {
    /// Compiles a regular expression. The error is the engine's message.
    pub(crate) fn new(source: &str, options: u8) -> Result<Self, String> {
        let translated = translate(source);
        let compiled = fancy_regex::RegexBuilder::new(&translated)
            // In Ruby `^` and `$` always match at the ends of lines.
            .multi_line(true)
            .case_insensitive(options & 1 != 0)
            .ignore_whitespace(options & 2 != 0)
            .dot_matches_new_line(options & 4 != 0)
            .backtrack_limit(BACKTRACK_LIMIT)
            .delegate_size_limit(4 << 20)
            .build()
            .map_err(|error| error.to_string())?;
        Ok(Regex { source: Rc::from(source), options, compiled })
    }

    /// Finds the first match at or after a byte offset. The error is the engine's message, such as for too
    /// much backtracking.
    pub(crate) fn find(&self, text: &str, at: usize) -> Result<Option<Groups>, String> {
        if at > text.len() {
            return Ok(None);
        }
        let found = self.compiled.captures_from_pos(text, at).map_err(|error| error.to_string())?;
        let named = self.has_names();
        Ok(found.map(|captures| {
            captures
                .iter()
                .enumerate()
                // If there are named groups, the others do not capture.
                .filter(|(index, _)| !named || *index == 0 || self.name_of(*index).is_some())
                .map(|(_, group)| group.map(|group| (group.start(), group.end())))
                .collect()
        }))
    }

    fn has_names(&self) -> bool {
        self.compiled.capture_names().any(|name| name.is_some())
    }

    fn name_of(&self, index: usize) -> Option<&str> {
        self.compiled.capture_names().nth(index).flatten()
    }

    /// Returns the names of the groups, in order.
    pub(crate) fn names(&self) -> Vec<String> {
        self.compiled.capture_names().flatten().map(str::to_owned).collect()
    }

    /// Returns the number of a named group.
    pub(crate) fn group_index(&self, name: &str) -> Option<usize> {
        self.compiled.capture_names().flatten().position(|known| known == name).map(|at| at + 1)
    }

    /// Returns the name of a numbered group.
    pub(crate) fn group_name(&self, index: usize) -> Option<String> {
        self.names().into_iter().nth(index.checked_sub(1)?)
    }

    /// Returns the letters of the options that are on, and of those that are off.
    fn flags(&self) -> (String, String) {
        let mut on = String::new();
        let mut off = String::new();
        for (bit, letter) in [(4, 'm'), (1, 'i'), (2, 'x')] {
            if self.options & bit != 0 { on.push(letter) } else { off.push(letter) }
        }
        (on, off)
    }

    /// Returns the form of `to_s`, which can be part of another expression.
    pub(crate) fn to_s(&self) -> String {
        let (on, off) = self.flags();
        let off = if off.is_empty() { off } else { format!("-{off}") };
        format!("(?{on}{off}:{})", self.source)
    }

    /// Returns the form of `inspect`, which is a literal.
    pub(crate) fn inspect(&self) -> String {
        let (on, _) = self.flags();
        let mut source = String::new();
        let mut escaped = false;
        for character in self.source.chars() {
            match character {
                '/' if !escaped => source.push_str("\\/"),
                '\n' => source.push_str("\\n"),
                other => source.push(other),
            }
            escaped = character == '\\' && !escaped;
        }
        format!("/{source}/{on}")
    }
}

/// Translates the spellings that differ between Ruby and the engine.
fn translate(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut characters = source.chars().peekable();
    let mut in_class = 0u32;
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some('h') => out.push_str(if in_class > 0 { "0-9a-fA-F" } else { "[0-9a-fA-F]" }),
                Some('H') => out.push_str("[^0-9a-fA-F]"),
                Some('Z') => out.push_str("(?=\\n?\\z)"),
                Some('e') => out.push_str("\\x1b"),
                Some('R') if in_class == 0 => {
                    out.push_str("(?:\\r\\n|[\\n\\v\\f\\r\\u{85}\\u{2028}\\u{2029}])")
                }
                // In Ruby these classes contain only ASCII.
                Some('d') => out.push_str(if in_class > 0 { "0-9" } else { "[0-9]" }),
                Some('D') if in_class == 0 => out.push_str("[^0-9]"),
                Some('w') => out.push_str(if in_class > 0 { "a-zA-Z0-9_" } else { "[a-zA-Z0-9_]" }),
                Some('W') if in_class == 0 => out.push_str("[^a-zA-Z0-9_]"),
                Some('s') => {
                    out.push_str(if in_class > 0 { " \\t\\r\\n\\f\\v" } else { "[ \\t\\r\\n\\f\\v]" })
                }
                Some('S') if in_class == 0 => out.push_str("[^ \\t\\r\\n\\f\\v]"),
                Some(
                    other @ ('/' | '"' | '\'' | ' ' | '#' | '%' | '&' | ',' | ':' | ';' | '=' | '@' | '~'
                    | '`' | '!'),
                ) if other != ' ' => {
                    if matches!(other, '#' | '&' | '~') {
                        out.push('\\');
                    }
                    out.push(other);
                }
                Some(other) => {
                    out.push('\\');
                    out.push(other);
                }
                None => out.push('\\'),
            },
            '[' if in_class > 0 && characters.peek() == Some(&':') => out.push('['),
            '[' => {
                in_class += 1;
                out.push('[');
                if characters.peek() == Some(&'^') {
                    out.extend(characters.next());
                }
                if characters.peek() == Some(&']') {
                    characters.next();
                    out.push_str("\\]");
                }
            }
            ']' if in_class > 0 => {
                // The `]` of `[:alpha:]` does not close the class around it.
                if !posix_open(&out) {
                    in_class -= 1;
                }
                out.push(']');
            }
            '(' if in_class == 0 && characters.peek() == Some(&'?') => {
                out.push('(');
                let rest: String = characters.clone().take(12).collect();
                // Ruby's flag `m` lets `.` match line breaks. The engine calls it `s`.
                if let Some(flags) = inline_flags(&rest) {
                    out.push('?');
                    characters.next();
                    for flag in flags.chars() {
                        characters.next();
                        out.push(if flag == 'm' { 's' } else { flag });
                    }
                }
            }
            other => out.push(other),
        }
    }
    out
}

/// Returns true if a text ends inside a POSIX class such as `[:alpha:`.
fn posix_open(out: &str) -> bool {
    let Some(at) = out.rfind("[:") else { return false };
    let inside = &out[at + 2..];
    inside.ends_with(':') && inside[..inside.len() - 1].chars().all(|c| c.is_ascii_alphabetic() || c == '^')
}

/// Returns the flags of a text that starts like `?mi-x:` or `?m)`.
fn inline_flags(rest: &str) -> Option<&str> {
    let flags = rest.strip_prefix('?')?;
    let end = flags.find([':', ')'])?;
    let flags = &flags[..end];
    (!flags.is_empty() && flags.chars().all(|flag| "mix-".contains(flag))).then_some(flags)
}

/// Implements `Regexp.escape`.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            '\u{c}' => out.push_str("\\f"),
            '\u{b}' => out.push_str("\\v"),
            ' ' | '#' | '$' | '(' | ')' | '*' | '+' | '-' | '.' | '?' | '[' | '\\' | ']' | '^' | '{'
            | '|' | '}' => {
                out.push('\\');
                out.push(character);
            }
            other => out.push(other),
        }
    }
    out
}
