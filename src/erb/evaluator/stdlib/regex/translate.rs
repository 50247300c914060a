//! Translates regular expressions from Ruby's syntax to that of the engine.
//!
//! Whitespace and comments of the extended syntax are left out. Syntax to which the engine gives another
//! meaning is an error, so that no expression silently matches something else.

use std::str::Chars;

use super::folds_to_several;

/// Intervals such as `1,2` must be shorter than this.
const MAX_INTERVAL_BYTES: usize = 16;

/// One group, or the expression around all groups.
#[derive(Clone, Copy, Default)]
struct GroupScope {
    ignores_case: bool,
    is_extended: bool,
    /// True inside a look-behind, which has a fixed length in Ruby.
    looks_behind: bool,
    /// The number of groups opened by `(?i)` and the like. They end where this scope ends.
    inline_group_count: usize,
}

/// The last token of a translated expression.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Token {
    Quantifier,
    /// Whitespace or a comment of the extended syntax, or `(?#…)`. True after a quantifier.
    Blank(bool),
    Other,
}

/// The state of translating one expression.
struct Translator<'s> {
    characters: Chars<'s>,
    pattern: String,
    scopes: Vec<GroupScope>,
    names: Vec<&'s str>,
    /// The nesting of character classes.
    class_depth: u32,
    last_token: Token,
    /// True at the start of the expression and of each alternative, until something other than parentheses
    /// and word boundaries is read.
    is_at_branch_start: bool,
    has_names: bool,
    ignores_case: bool,
    has_word_class: bool,
    has_wide_class: bool,
}

/// An expression in the syntax of the engine.
pub(super) struct TranslatedRegex {
    pub(super) text: String,
    /// True if a part of the expression ignores case.
    pub(super) ignores_case: bool,
    /// True if a character class with `\w` or `\W` ignores case.
    pub(super) has_word_class: bool,
    /// True if a character class beyond ASCII ignores case.
    pub(super) has_wide_class: bool,
}

/// Translates the syntax that differs between Ruby and the engine. The error names a construct that the
/// engine cannot match as Ruby does.
pub(super) fn translate(source: &str, options: u8) -> Result<TranslatedRegex, String> {
    let top_scope = GroupScope {
        ignores_case: options & 1 != 0,
        is_extended: options & 2 != 0,
        looks_behind: false,
        inline_group_count: 0,
    };
    let mut translator = Translator {
        characters: source.chars(),
        pattern: String::with_capacity(source.len()),
        scopes: vec![top_scope],
        names: Vec::new(),
        class_depth: 0,
        last_token: Token::Other,
        is_at_branch_start: true,
        has_names: has_names(source),
        ignores_case: top_scope.ignores_case,
        has_word_class: false,
        has_wide_class: false,
    };
    while let Some(character) = translator.characters.next() {
        if translator.class_depth > 0 {
            translator.translate_class_token(character)?
        } else {
            translator.translate_token(character)?
        }
    }
    let open_group_count: usize = translator.scopes.iter().map(|scope| scope.inline_group_count).sum();
    translator.pattern.push_str(&")".repeat(open_group_count));
    if translator.ignores_case && source.chars().any(folds_to_several) {
        return Err("a character that equals several ones in another case".into());
    }
    let Translator { pattern, ignores_case, has_word_class, has_wide_class, .. } = translator;
    Ok(TranslatedRegex { text: pattern, ignores_case, has_word_class, has_wide_class })
}

impl<'s> Translator<'s> {
    /// Returns the scope of the innermost group that is open.
    fn current_scope(&mut self) -> &mut GroupScope {
        if self.scopes.is_empty() {
            self.scopes.push(GroupScope::default());
        }
        let last_index = self.scopes.len() - 1;
        &mut self.scopes[last_index]
    }

    fn peek(&self) -> Option<char> {
        self.characters.clone().next()
    }

    fn skip(&mut self, count: usize) {
        self.characters.by_ref().take(count).for_each(drop);
    }

    /// Translates a token outside character classes.
    fn translate_token(&mut self, character: char) -> Result<(), String> {
        let GroupScope { is_extended, looks_behind, .. } = *self.current_scope();
        if is_extended && matches!(character, ' ' | '\t' | '\n' | '\u{c}' | '\r' | '#') {
            if character == '#' {
                let _ = self.characters.by_ref().find(|character| *character == '\n');
            }
            self.skip_blank();
            return Ok(());
        }
        let rest = self.characters.as_str();
        if character == '(' && rest.starts_with("?#") {
            let mut is_escaped = false;
            let is_closed = self.characters.by_ref().skip(2).any(|character| {
                let ends = character == ')' && !is_escaped;
                is_escaped = character == '\\' && !is_escaped;
                ends
            });
            self.skip_blank();
            return if is_closed { Ok(()) } else { Err("a comment that is not closed".into()) };
        }
        let interval = match character {
            '{' => interval(rest),
            _ => None,
        };
        if matches!(character, '*' | '+' | '?') || interval.is_some() {
            // A second character, as in `+?`, belongs to the quantifier only if it follows immediately.
            if self.last_token == Token::Blank(true) {
                return Err("a blank between two quantifiers".into());
            }
            if matches!(self.last_token, Token::Blank(_)) && self.pattern.ends_with('(') {
                return Err("a group that begins with a quantifier".into());
            }
            let is_fixed = interval.is_some_and(|bounds| !bounds.contains(','));
            if looks_behind && !is_fixed {
                return Err("a look-behind of variable length".into());
            }
            self.last_token = Token::Quantifier;
            let Some(bounds) = interval else {
                self.pattern.push(character);
                return Ok(());
            };
            match rest[bounds.len() + 1..].chars().next() {
                Some('+') => return Err("'+' after an interval".into()),
                // Ruby reads it as an optional repetition.
                Some('?') if is_fixed => return Err("'?' after '{n}'".into()),
                _ => {}
            }
            self.skip(bounds.len() + 1);
            self.pattern.push_str(if bounds.starts_with(',') { "{0" } else { "{" });
            self.pattern.push_str(bounds);
            self.pattern.push('}');
            return Ok(());
        }
        if matches!(self.last_token, Token::Blank(_)) {
            // The tokens around the omitted whitespace must not merge.
            self.pattern.push_str("(?:)");
        }
        self.last_token = Token::Other;
        if self.is_at_branch_start
            && character == '.'
            && rest.starts_with(['*', '+', '{'])
            && has_boundary(&self.pattern)
        {
            // Ruby tries such an expression only at the starts of lines.
            return Err("a word boundary before a repeated '.'".into());
        }
        self.is_at_branch_start = match character {
            '(' | ')' => self.is_at_branch_start,
            '\\' => self.is_at_branch_start && rest.starts_with(['b', 'B']),
            other => other == '|',
        };
        match character {
            '\\' => self.translate_escape(),
            '[' => self.open_class(),
            '(' => self.open_group(rest),
            ')' => {
                let inline_group_count = if self.scopes.len() > 1 {
                    self.scopes.pop().map(|scope| scope.inline_group_count)
                } else {
                    None
                };
                self.pattern.push_str(&")".repeat(1 + inline_group_count.unwrap_or(0)));
                Ok(())
            }
            // There is no line after the last line break, so `^` does not match there.
            '^' => {
                let mut next_characters = rest.chars();
                let consumes = !is_extended
                    && next_characters.next().is_some_and(|next| next.is_ascii_alphanumeric())
                    && !next_characters.as_str().starts_with(['?', '*', '{'])
                    && !next_characters.as_str().starts_with("(?#");
                self.pattern.push_str(if consumes { "^" } else { "(?:\\A|(?<=\\n)(?!\\z))" });
                Ok(())
            }
            '{' => {
                self.pattern.push_str("\\{");
                Ok(())
            }
            other => {
                self.pattern.push(other);
                Ok(())
            }
        }
    }

    /// Records whitespace or a comment, which is left out.
    fn skip_blank(&mut self) {
        self.last_token = Token::Blank(matches!(self.last_token, Token::Quantifier | Token::Blank(true)));
    }

    /// Translates a token inside a character class.
    fn translate_class_token(&mut self, character: char) -> Result<(), String> {
        self.has_wide_class |=
            self.current_scope().ignores_case && (character == '[' || !character.is_ascii());
        match character {
            '\\' => return self.translate_escape(),
            '[' if self.peek() == Some(':') => {
                let rest: String = self.characters.clone().skip(1).take(12).collect();
                let Some((name, _)) = rest.split_once(":]") else {
                    return Err("a bracket that is not closed".into());
                };
                self.skip(name.len() + 3);
                self.pattern.push_str(&translate_posix_class(name)?);
            }
            '[' if self.current_scope().ignores_case => {
                return Err("a character class in a character class that ignores case".into());
            }
            '[' => return self.open_class(),
            ']' => {
                self.class_depth -= 1;
                self.pattern.push(']');
            }
            // In the engine, `--` and `~~` combine character classes.
            '-' | '~' if self.peek() == Some(character) => {
                return Err(format!("'{character}{character}' in a character class"));
            }
            other => self.pattern.push(other),
        }
        Ok(())
    }

    fn open_class(&mut self) -> Result<(), String> {
        self.class_depth += 1;
        self.pattern.push('[');
        if self.peek() == Some('^') {
            self.pattern.extend(self.characters.next());
        }
        if self.peek() == Some(']') {
            self.characters.next();
            self.pattern.push_str("\\]");
        }
        Ok(())
    }

    /// Translates the start of a group. `rest` is the text after the parenthesis.
    fn open_group(&mut self, rest: &'s str) -> Result<(), String> {
        let mut scope = GroupScope { inline_group_count: 0, ..*self.current_scope() };
        let Some(kind) = rest.strip_prefix('?') else {
            if rest.starts_with(['*', '+']) {
                return Err("a group that begins with a quantifier".into());
            }
            self.pattern.push('(');
            self.scopes.push(scope);
            return Ok(());
        };
        if let Some(flags) = inline_flags(rest) {
            let mut is_on = true;
            self.pattern.push_str("(?");
            for flag in flags.chars() {
                match flag {
                    '-' => is_on = false,
                    'i' => scope.ignores_case = is_on,
                    'x' => scope.is_extended = is_on,
                    _ => {}
                }
                match flag {
                    // Ruby's flag `m` lets `.` match line breaks. The engine calls it `s`.
                    'm' => self.pattern.push('s'),
                    // `translate_token` leaves out whitespace and comments.
                    'x' => {}
                    other => self.pattern.push(other),
                }
            }
            if self.pattern.ends_with('-') {
                self.pattern.pop();
            }
            self.pattern.push(':');
            self.ignores_case |= scope.ignores_case;
            self.skip(1 + flags.len() + 1);
            if rest[1 + flags.len()..].starts_with(':') {
                self.scopes.push(scope);
            } else {
                // `(?i)` opens a group that ends with the enclosing one, even after a `|`.
                *self.current_scope() =
                    GroupScope { inline_group_count: self.current_scope().inline_group_count + 1, ..scope };
            }
            return Ok(());
        }
        let name = kind.strip_prefix('<').filter(|name| !name.starts_with(['=', '!']));
        if let Some(name) = name {
            let name = name.split('>').next().unwrap_or_default();
            if self.names.contains(&name) {
                return Err(format!("two groups with the name '{name}'"));
            }
            self.names.push(name);
            self.skip(2 + name.chars().count());
            self.pattern.push_str("(?<");
            self.pattern.push_str(name);
        } else {
            let group_kind =
                [":", "=", "!", ">", "<=", "<!"].into_iter().find(|group_kind| kind.starts_with(group_kind));
            let Some(group_kind) = group_kind else {
                let letter: String = kind.chars().take(1).collect();
                return Err(format!("the group (?{letter}"));
            };
            scope.looks_behind |= group_kind.starts_with('<');
            self.skip(1 + group_kind.len());
            self.pattern.push_str("(?");
            self.pattern.push_str(group_kind);
        }
        self.scopes.push(scope);
        Ok(())
    }

    /// Translates the rest of an escape, after its backslash.
    fn translate_escape(&mut self) -> Result<(), String> {
        let in_class = self.class_depth > 0;
        let ignores_case = self.current_scope().ignores_case;
        let starts_wide = matches!(self.peek(), Some('p' | 'P')) || in_class && self.peek() == Some('u');
        self.has_wide_class |= ignores_case && starts_wide;
        match self.characters.next() {
            Some(letter @ ('h' | 'H' | 'd' | 'D' | 'w' | 'W' | 's' | 'S')) => {
                // In Ruby these classes contain only ASCII.
                let (inside, is_negated) = match letter {
                    'h' | 'H' => ("0-9a-fA-F", letter == 'H'),
                    'd' | 'D' => ("0-9", letter == 'D'),
                    'w' | 'W' => ("a-zA-Z0-9_", letter == 'W'),
                    _ => ("\\x20\\t\\r\\n\\f\\v", letter == 'S'),
                };
                let set = format!("[{}{inside}]", if is_negated { "^" } else { "" });
                // These classes do not depend on case, although `ſ` and the kelvin sign equal ASCII letters
                // in another case.
                let may_fold = ignores_case && matches!(letter, 'w' | 'W');
                self.has_word_class |= may_fold && in_class;
                self.pattern.push_str(&if may_fold && !in_class { format!("(?-i:{set})") } else { set });
            }
            Some(letter @ ('p' | 'P')) if self.peek() == Some('{') => {
                let name: String = self.characters.by_ref().skip(1).take_while(|c| *c != '}').collect();
                if ignores_case && (letter == 'P' || name.starts_with('^')) {
                    return Err("a negated property that ignores case".into());
                }
                self.pattern.push_str(&translate_property(&name, letter == 'P')?);
            }
            Some('u') if self.peek() == Some('{') => {
                let code: String = self.characters.by_ref().skip(1).take_while(|c| *c != '}').collect();
                if !code.chars().all(|c| c.is_ascii_hexdigit()) {
                    return Err("several code points in one escape".into());
                }
                self.pattern.push_str(&format!("\\u{{{code}}}"));
            }
            Some('x') => match self.read_number(16, 2) {
                // A greater number is a byte and not a character.
                Some(code) if code < 0x80 => self.pattern.push_str(&format!("\\x{code:02x}")),
                _ => return Err("a byte as \\x".into()),
            },
            Some('0') => {
                let code = self.read_number(8, 2).unwrap_or(0);
                self.pattern.push_str(&format!("\\x{code:02x}"));
            }
            Some('Z') if !in_class => self.pattern.push_str("(?=\\n?\\z)"),
            Some('e') => self.pattern.push_str("\\x1b"),
            Some('b') if in_class => self.pattern.push_str("\\x08"),
            Some('R') if !in_class => {
                if self.current_scope().looks_behind {
                    return Err("a look-behind of variable length".into());
                }
                self.pattern.push_str("(?>\\r\\n|[\\n\\v\\f\\r\\u{85}\\u{2028}\\u{2029}])")
            }
            Some(letter @ ('k' | '1'..='9')) if !in_class => {
                if ignores_case {
                    return Err("a back-reference that ignores case".into());
                }
                if letter == 'k' {
                    let rest = self.characters.as_str();
                    let name = rest.strip_prefix('<').and_then(|rest| rest.split_once('>'));
                    let is_name = |name: &str| name.chars().all(|c| c.is_alphanumeric() || c == '_');
                    let Some((name, _)) = name.filter(|(name, _)| is_name(name)) else {
                        return Err("a back-reference that is not to a name".into());
                    };
                    self.skip(name.chars().count() + 2);
                    self.pattern.push_str(&format!("\\k<{name}>"));
                } else if self.peek().is_some_and(|c| c.is_ascii_digit()) || self.has_names {
                    return Err(format!("the escape \\{letter}"));
                } else {
                    self.pattern.push_str(&format!("\\{letter}"));
                }
            }
            Some(letter) if letter.is_ascii_alphanumeric() => {
                let is_supported = match letter {
                    'a' | 'f' | 'n' | 'r' | 't' | 'v' | 'u' => true,
                    // `\G` and `\K` are not known, because methods of Ruby disagree about their positions.
                    'A' | 'z' | 'b' | 'B' => !in_class,
                    _ => false,
                };
                if !is_supported {
                    return Err(format!("the escape \\{letter}"));
                }
                self.pattern.push('\\');
                self.pattern.push(letter);
            }
            // The engine gives other meanings to `\<` and the like.
            Some(other) => {
                if "\\.+*?()|[]{}^$-&~#".contains(other) {
                    self.pattern.push('\\');
                }
                self.pattern.push(other);
            }
            None => self.pattern.push('\\'),
        }
        Ok(())
    }

    /// Reads a number with at most this many digits.
    fn read_number(&mut self, radix: u32, digits: usize) -> Option<u32> {
        let mut number = None;
        for _ in 0..digits {
            let Some(digit) = self.peek().and_then(|c| c.to_digit(radix)) else { break };
            number = Some(number.unwrap_or(0) * radix + digit);
            self.characters.next();
        }
        number
    }
}

/// Returns the interval of a quantifier, such as `1,2`, from the text after `{`. Returns `None` if there is
/// none.
fn interval(rest: &str) -> Option<&str> {
    let inside = &rest[..rest.bytes().take(MAX_INTERVAL_BYTES).position(|byte| byte == b'}')?];
    let has_digit = inside.contains(|c: char| c.is_ascii_digit());
    let is_interval = inside.chars().all(|c| c.is_ascii_digit() || c == ',');
    (has_digit && is_interval && inside.matches(',').count() < 2).then_some(inside)
}

/// Returns true if an expression may have a word boundary.
pub(super) fn has_boundary(source: &str) -> bool {
    source.contains("\\b") || source.contains("\\B")
}

/// Returns true if an expression may have named groups.
fn has_names(source: &str) -> bool {
    source.match_indices("(?<").any(|(start, _)| !source[start + 3..].starts_with(['=', '!']))
}

/// Returns a property such as `\p{Alpha}` for the engine. The names of POSIX brackets are also properties.
fn translate_property(name: &str, is_negated: bool) -> Result<String, String> {
    let (is_negated, plain) = match name.strip_prefix('^') {
        Some(plain) => (!is_negated, plain),
        None => (is_negated, name),
    };
    match translate_posix_class(&plain.to_ascii_lowercase()) {
        // In Ruby and in the engine, `\p{Punct}` has fewer characters than `[:punct:]`.
        Ok(class) if !plain.eq_ignore_ascii_case("punct") => {
            Ok(if is_negated { format!("[^{class}]") } else { class })
        }
        _ if !plain.chars().all(|c| c.is_ascii_alphanumeric() || "_ -".contains(c)) => {
            Err(format!("the property '{plain}'"))
        }
        _ => Ok(format!("\\{}{{{plain}}}", if is_negated { 'P' } else { 'p' })),
    }
}

/// Returns a POSIX bracket such as `[:alpha:]` as a character class of the engine. In Ruby, these classes
/// contain characters beyond ASCII.
fn translate_posix_class(name: &str) -> Result<String, String> {
    let (negation, plain) = match name.strip_prefix('^') {
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
    Ok(format!("[{negation}{set}]"))
}

/// Returns the flags of a text that starts like `?mi-x:` or `?m)`.
pub(super) fn inline_flags(rest: &str) -> Option<&str> {
    let flags = rest.strip_prefix('?')?;
    let end = flags.find([':', ')'])?;
    let flags = &flags[..end];
    (!flags.is_empty() && flags.chars().all(|flag| "mix-".contains(flag))).then_some(flags)
}
