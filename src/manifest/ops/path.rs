//! The path language of ops files (go-patch).
//!
//! A path starts at the root with `/` and has one token per level:
//!
//! | token | stands for |
//! |---|---|
//! | `key` | the value under a key; escapes: `~0` is `~`, `~1` is `/`, `~7` is `:` |
//! | `3`, `-1` | the item at an index; negative counts from the end |
//! | `-` | the place after the last item (last token only) |
//! | `name=value` | the only item that is a mapping with this string under this key |
//! | `…?` | optional, with everything to its right |
//! | `…:prev`, `…:next` | the item before or after an index or a match |
//! | `…:before`, `…:after` | a new place beside an index or a match (last token of a `replace`) |

use std::fmt;
use std::str::FromStr;

/// A parsed path. [`fmt::Display`] writes its normal form.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Path {
    tokens: Vec<Token>,
}

/// One level of a [`Path`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Token {
    /// A key of a mapping.
    Key {
        /// The key, unescaped.
        key: String,
        /// True if the key may be missing.
        is_optional: bool,
    },
    /// An index into a sequence.
    Index {
        /// The index; negative counts from the end.
        index: i64,
        /// Modifiers, applied from left to right.
        modifiers: Vec<Modifier>,
    },
    /// The place after the last item of a sequence.
    End,
    /// The item of a sequence that is a mapping with this entry.
    Match {
        /// The key of the entry.
        key: String,
        /// The string that the entry must have.
        value: String,
        /// True if the item may be missing.
        is_optional: bool,
        /// Modifiers, applied from left to right.
        modifiers: Vec<Modifier>,
    },
}

/// A modifier after the colon of an index or a match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Modifier {
    /// The item before.
    Prev,
    /// The item after.
    Next,
    /// The place before the item, for an insertion.
    Before,
    /// The place after the item, for an insertion.
    After,
}

/// A syntax error in a path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// The path does not start with `/`.
    #[error("a path starts with '/'")]
    NoSlash,
    /// The text after a colon is not a modifier.
    #[error("':{0}' is none of ':prev', ':next', ':before' and ':after' (write ':' inside a key as '~7')")]
    UnknownModifier(String),
    /// A modifier on `-`.
    #[error("'-' takes no modifier")]
    ModifierOnEnd,
    /// A modifier on a key.
    #[error(
        "only an index or 'name=value' takes a modifier, and '{0}' is a key (write ':' inside a key as '~7')"
    )]
    ModifierOnKey(String),
}

impl Path {
    /// Returns the tokens; the path of the whole document has none.
    pub fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    /// Returns the path of the first `count` tokens.
    pub fn prefix(&self, count: usize) -> Path {
        Path { tokens: self.tokens[..count.min(self.tokens.len())].to_vec() }
    }
}

impl From<Vec<Token>> for Path {
    fn from(tokens: Vec<Token>) -> Self {
        Path { tokens }
    }
}

impl FromStr for Path {
    type Err = ParseError;

    /// Parses a path. The empty text is the whole document; `/` is the empty key.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        if text.is_empty() {
            return Ok(Path::default());
        }
        let Some(text) = text.strip_prefix('/') else { return Err(ParseError::NoSlash) };
        let mut is_optional = false;
        let mut pieces = text.split('/').peekable();
        let mut tokens = Vec::new();
        while let Some(piece) = pieces.next() {
            tokens.push(parse_token(piece, pieces.peek().is_none(), &mut is_optional)?);
        }
        Ok(Path { tokens })
    }
}

fn parse_token(piece: &str, is_last: bool, is_optional: &mut bool) -> Result<Token, ParseError> {
    let mut parts = piece.split(':');
    let text = unescape(parts.next().unwrap_or_default());
    let modifiers = parts.map(parse_modifier).collect::<Result<Vec<_>, _>>()?;
    if is_last && text == "-" {
        return if modifiers.is_empty() { Ok(Token::End) } else { Err(ParseError::ModifierOnEnd) };
    }
    if let Ok(index) = text.parse() {
        return Ok(Token::Index { index, modifiers });
    }
    let text = match text.strip_suffix('?') {
        Some(text) => {
            *is_optional = true;
            text
        }
        None => &text,
    };
    if let Some((key, value)) = text.split_once('=') {
        return Ok(Token::Match {
            key: key.into(),
            value: value.into(),
            is_optional: *is_optional,
            modifiers,
        });
    }
    if !modifiers.is_empty() {
        return Err(ParseError::ModifierOnKey(text.into()));
    }
    Ok(Token::Key { key: text.into(), is_optional: *is_optional })
}

fn parse_modifier(text: &str) -> Result<Modifier, ParseError> {
    Ok(match text {
        "prev" => Modifier::Prev,
        "next" => Modifier::Next,
        "before" => Modifier::Before,
        "after" => Modifier::After,
        _ => return Err(ParseError::UnknownModifier(text.into())),
    })
}

/// Resolves `~0`, `~1` and `~7` in one pass. Any other `~` stays.
fn unescape(text: &str) -> String {
    let mut unescaped_text = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(tilde) = rest.find('~') {
        unescaped_text.push_str(&rest[..tilde]);
        let (character, length) = match rest.as_bytes().get(tilde + 1) {
            Some(b'0') => ('~', 2),
            Some(b'1') => ('/', 2),
            Some(b'7') => (':', 2),
            _ => ('~', 1),
        };
        unescaped_text.push(character);
        rest = &rest[tilde + length..];
    }
    unescaped_text.push_str(rest);
    unescaped_text
}

/// Escapes a key for use in a path.
fn escape(text: &str) -> String {
    text.replace('~', "~0").replace('/', "~1").replace(':', "~7")
}

impl fmt::Display for Path {
    /// Writes `?` at the first optional token, and at any later key that would otherwise read as another kind
    /// of token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut is_marked = false;
        for token in &self.tokens {
            let mut mark = |is_optional: bool, is_ambiguous: bool| {
                let needs_mark = is_optional && (!is_marked || is_ambiguous);
                is_marked |= is_optional;
                if needs_mark { "?" } else { "" }
            };
            match token {
                Token::Key { key, is_optional } => {
                    let is_ambiguous = key.ends_with('?') || key == "-" || key.parse::<i64>().is_ok();
                    write!(f, "/{}{}", escape(key), mark(*is_optional, is_ambiguous))?;
                }
                Token::Index { index, .. } => write!(f, "/{index}")?,
                Token::End => f.write_str("/-")?,
                Token::Match { key, value, is_optional, .. } => {
                    write!(
                        f,
                        "/{}={}{}",
                        escape(key),
                        escape(value),
                        mark(*is_optional, value.ends_with('?'))
                    )?;
                }
            }
            if let Token::Index { modifiers, .. } | Token::Match { modifiers, .. } = token {
                for modifier in modifiers {
                    write!(f, ":{modifier}")?;
                }
            }
        }
        Ok(())
    }
}

impl fmt::Display for Modifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Modifier::Prev => "prev",
            Modifier::Next => "next",
            Modifier::Before => "before",
            Modifier::After => "after",
        })
    }
}
