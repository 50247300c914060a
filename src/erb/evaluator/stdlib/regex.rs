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
        let translated = translate(source, options)?;
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

    /// Returns true if the expression has the boundary of a word.
    pub(crate) fn has_boundary(&self) -> bool {
        self.source.contains("\\b") || self.source.contains("\\B")
    }

    /// Returns true if the expression ignores case anywhere.
    pub(crate) fn ignores_case(&self) -> bool {
        self.options & 1 != 0
            || self.source.match_indices("(?").any(|(at, _)| {
                inline_flags(&self.source[at + 1..])
                    .is_some_and(|flags| flags.split('-').next().is_some_and(|on| on.contains('i')))
            })
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

    fn group_with_options(&self) -> Option<Regex> {
        let flags = inline_flags(self.source.strip_prefix('(')?)?;
        let inner = self.source.get(2 + flags.len()..)?.strip_prefix(':')?.strip_suffix(')')?;
        let mut options = self.options;
        let mut off = false;
        for flag in flags.chars() {
            let bit = match flag {
                'i' => 1,
                'x' => 2,
                'm' => 4,
                _ => {
                    off = true;
                    continue;
                }
            };
            options = if off { options & !bit } else { options | bit };
        }
        Regex::new(inner, options).ok()
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
        // An expression that is one group with options has these options.
        if let Some(inner) = self.group_with_options() {
            return inner.to_s();
        }
        let (on, off) = self.flags();
        let off = if off.is_empty() { off } else { format!("-{off}") };
        format!("(?{on}{off}:{})", self.source)
    }

    /// Returns the form of `inspect`, which is a literal.
    pub(crate) fn inspect(&self) -> String {
        let (on, _) = self.flags();
        let mut source = String::new();
        let mut escaped = false;
        // In a source that needs escapes, Ruby escapes all characters beyond ASCII.
        let mut plain = true;
        for character in self.source.chars() {
            plain &= escaped || !(character == '/' || character.is_ascii_control());
            escaped = character == '\\' && !escaped;
        }
        escaped = false;
        for character in self.source.chars() {
            match character {
                other if !plain && !other.is_ascii() => match other as u32 {
                    code @ 0x1_0000.. => source.push_str(&format!("\\u{{{code:X}}}")),
                    code => source.push_str(&format!("\\u{code:04X}")),
                },
                '/' if !escaped => source.push_str("\\/"),
                other if other.is_ascii_control() && !other.is_ascii_whitespace() && other != '\u{b}' => {
                    source.push_str(&format!("\\x{:02X}", other as u32));
                }
                other => source.push(other),
            }
            escaped = character == '\\' && !escaped;
        }
        format!("/{source}/{on}")
    }
}

/// Translates the spellings that differ between Ruby and the engine. The error names what the engine cannot
/// do as Ruby does.
fn translate(source: &str, options: u8) -> Result<String, String> {
    let mut out = String::with_capacity(source.len());
    let mut characters = source.chars().peekable();
    let mut in_class = 0u32;
    let mut names: Vec<String> = Vec::new();
    let mut ignores_case = options & 1 != 0;
    let mut extended = options & 2 != 0;
    let mut before = None;
    while let Some(character) = characters.next() {
        let previous = before.replace(character);
        if extended
            && in_class == 0
            && matches!(character, '*' | '+' | '?' | '{')
            && previous.is_some_and(char::is_whitespace)
        {
            return Err("a quantifier after a blank".into());
        }
        match character {
            '\\' => match characters.next() {
                Some(letter @ ('h' | 'H' | 'd' | 'D' | 'w' | 'W' | 's' | 'S')) => {
                    // In Ruby these classes contain only ASCII.
                    let (inside, negated) = match letter {
                        'h' | 'H' => ("0-9a-fA-F", letter == 'H'),
                        'd' | 'D' => ("0-9", letter == 'D'),
                        'w' | 'W' => ("a-zA-Z0-9_", letter == 'W'),
                        _ => ("\\x20\\t\\r\\n\\f\\v", letter == 'S'),
                    };
                    out.push_str(if negated { "[^" } else { "[" });
                    out.push_str(inside);
                    out.push(']');
                }
                Some(letter @ ('p' | 'P')) if characters.peek() == Some(&'{') => {
                    let name: String = characters.by_ref().skip(1).take_while(|c| *c != '}').collect();
                    out.push_str(&property(&name, letter == 'P')?);
                }
                Some('u') if characters.peek() == Some(&'{') => {
                    let code: String = characters.by_ref().skip(1).take_while(|c| *c != '}').collect();
                    if !code.chars().all(|c| c.is_ascii_hexdigit()) {
                        return Err("several code points in one escape".into());
                    }
                    out.push_str(&format!("\\u{{{code}}}"));
                }
                Some('0') => {
                    let mut code = 0;
                    for _ in 0..2 {
                        let Some(digit) = characters.peek().and_then(|c| c.to_digit(8)) else { break };
                        code = code * 8 + digit;
                        characters.next();
                    }
                    out.push_str(&format!("\\x{code:02x}"));
                }
                Some('Z') if in_class == 0 => out.push_str("(?=\\n?\\z)"),
                Some('e') => out.push_str("\\x1b"),
                Some('b') if in_class > 0 => out.push_str("\\x08"),
                Some('R') if in_class == 0 => {
                    out.push_str("(?>\\r\\n|[\\n\\v\\f\\r\\u{85}\\u{2028}\\u{2029}])")
                }
                Some(' ') => out.push_str("\\x20"),
                Some(letter) if letter.is_ascii_alphanumeric() => {
                    let digits = characters.peek().is_some_and(char::is_ascii_digit);
                    let known = match letter {
                        'a' | 'e' | 'f' | 'n' | 'r' | 't' | 'v' | 'x' | 'u' => true,
                        '1'..='9' => in_class == 0 && !digits,
                        'A' | 'z' | 'b' | 'B' | 'G' | 'K' | 'k' => in_class == 0,
                        _ => false,
                    };
                    if !known {
                        return Err(format!("the escape \\{letter}"));
                    }
                    out.push('\\');
                    out.push(letter);
                }
                // The engine has other meanings for `\<` and the like.
                Some(other) => {
                    if "\\.+*?()|[]{}^$-&~#".contains(other) {
                        out.push('\\');
                    }
                    out.push(other);
                }
                None => out.push('\\'),
            },
            '[' if in_class > 0 && characters.peek() == Some(&':') => {
                let rest: String = characters.clone().skip(1).take(12).collect();
                let Some((name, _)) = rest.split_once(":]") else {
                    return Err("a bracket that is not closed".into());
                };
                characters.by_ref().take(name.len() + 3).for_each(drop);
                out.push_str(&posix_class(name)?);
            }
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
                in_class -= 1;
                out.push(']');
            }
            '#' if extended && in_class == 0 => {
                // A comment of the extended syntax.
                out.push('#');
                for comment in characters.by_ref() {
                    out.push(comment);
                    if comment == '\n' {
                        break;
                    }
                }
            }
            // The engine ignores blanks in the extended syntax, and has other operators between sets.
            ' ' if in_class > 0 => out.push_str("\\x20"),
            '#' if in_class > 0 => out.push_str("\\#"),
            '-' | '~' if in_class > 0 && characters.peek() == Some(&character) => {
                return Err(format!("'{character}{character}' in a set"));
            }
            // After the last line break there is no line, so `^` does not match there.
            '^' if in_class == 0 => {
                let mut next = characters.clone();
                let consumes = next.next().is_some_and(|next| next.is_ascii_alphanumeric())
                    && !matches!(next.next(), Some('?' | '*' | '{'));
                out.push_str(if consumes { "^" } else { "(?:\\A|(?<=\\n)(?!\\z))" });
            }
            '{' if in_class == 0 => {
                let rest: String = characters.clone().take(16).collect();
                let interval = rest.split_once('}').filter(|(inside, _)| {
                    inside.chars().all(|c| c.is_ascii_digit() || c == ',')
                        && inside.contains(|c: char| c.is_ascii_digit())
                        && inside.matches(',').count() < 2
                });
                match interval {
                    Some((inside, after)) => {
                        if after.starts_with('+') {
                            return Err("'+' after an interval".into());
                        }
                        out.push('{');
                        if inside.starts_with(',') {
                            out.push('0');
                        }
                    }
                    None => out.push_str("\\{"),
                }
            }
            '(' if in_class == 0 && characters.peek() == Some(&'?') => {
                out.push('(');
                let rest: String = characters.clone().take(64).collect();
                if let Some(name) = rest.strip_prefix("?<").filter(|rest| !rest.starts_with(['=', '!'])) {
                    let name = name.split('>').next().unwrap_or_default().to_owned();
                    if names.contains(&name) {
                        return Err(format!("two groups with the name '{name}'"));
                    }
                    names.push(name);
                }
                let letters = rest[1..].split([':', ')']).next().unwrap_or_default();
                let are_options = letters.chars().all(|letter| "adumix-".contains(letter));
                if are_options && letters.contains(['a', 'd', 'u']) {
                    return Err(format!("the option (?{letters})"));
                }
                // Ruby's flag `m` lets `.` match line breaks. The engine calls it `s`.
                if let Some(flags) = inline_flags(&rest) {
                    ignores_case |= flags.contains('i');
                    extended |= flags.contains('x');
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
    if ignores_case && has_latin_range(source) {
        return Err("a range of Latin letters beyond ASCII that ignores case".into());
    }
    if ignores_case && source.chars().any(folds_to_several) {
        return Err("a character that equals several ones in another case".into());
    }
    Ok(out)
}

/// Returns true for a range that begins with a character from U+0080 to U+00FF, or with an escape. Ruby does
/// not ignore case in these ranges.
fn has_latin_range(source: &str) -> bool {
    let mut pairs = source.chars().zip(source.chars().skip(1));
    pairs.any(|pair| matches!(pair, ('\u{80}'..='\u{ff}', '-')))
        || source.contains('-') && (source.contains("\\u") || source.contains("\\x"))
}

/// Returns a property such as `\p{Alpha}` for the engine. The names of POSIX brackets are properties as well.
fn property(name: &str, negated: bool) -> Result<String, String> {
    let (negated, plain) = match name.strip_prefix('^') {
        Some(plain) => (!negated, plain),
        None => (negated, name),
    };
    match posix_class(&plain.to_ascii_lowercase()) {
        // `\p{Punct}` has fewer characters than `[:punct:]`, as in the engine.
        Ok(class) if !plain.eq_ignore_ascii_case("punct") => {
            Ok(if negated { format!("[^{class}]") } else { class })
        }
        _ => Ok(format!("\\{}{{{plain}}}", if negated { 'P' } else { 'p' })),
    }
}

/// Returns the characters of a POSIX bracket such as `[:alpha:]`, as a set of the engine. In Ruby they go
/// beyond ASCII.
fn posix_class(name: &str) -> Result<String, String> {
    let (negated, plain) = match name.strip_prefix('^') {
        Some(plain) => ("^", plain),
        None => ("", name),
    };
    let set = match plain {
        "alpha" => "\\p{Alphabetic}",
        "upper" => "\\p{Uppercase}",
        "lower" => "\\p{Lowercase}",
        "digit" => "\\p{Nd}",
        "alnum" => "\\p{Alphabetic}\\p{Nd}",
        "space" => "\\p{White_Space}",
        "blank" => "\\p{Zs}\\t",
        "cntrl" => "\\p{Cc}",
        "punct" => "\\p{P}$+<=>\\^`|\\~",
        "word" => "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}",
        "graph" => "[^\\p{White_Space}\\p{Cc}\\p{Cn}]",
        "print" => "[^\\p{White_Space}\\p{Cc}\\p{Cn}]\\p{Zs}",
        "xdigit" => "0-9a-fA-F",
        "ascii" => "\\x00-\\x7f",
        other => return Err(format!("the bracket [:{other}:]")),
    };
    Ok(format!("[{negated}{set}]"))
}

/// Returns true for characters that only one of Ruby and the engine takes for a part of a word.
pub(crate) fn is_unclear_in_words(character: char) -> bool {
    matches!(character, '\u{b2}' | '\u{b3}' | '\u{b9}' | '\u{bc}'..='\u{be}' | '\u{200c}' | '\u{200d}')
}

/// Returns true for characters that equal several characters in another case, such as `ß` and `ss`. The
/// engine compares single characters.
pub(crate) fn folds_to_several(character: char) -> bool {
    !character.is_ascii()
        && (character.to_uppercase().nth(1).is_some()
            || character.to_lowercase().nth(1).is_some()
            || character == '\u{1e9e}')
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
