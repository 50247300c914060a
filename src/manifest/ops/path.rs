//! The path language of ops files (go-patch): where in a document an operation works.
//!
//! A path starts at the root with `/` and has one token per level:
//!
//! | token | stands for |
//! |---|---|
//! | `key` | the value of a key; a later item of the path may be escaped: `~0` is `~`, `~1` is `/`, `~7` is `:` |
//! | `3`, `-1` | the item at an index, from the end when negative |
//! | `-` | behind the last item (last token only) |
//! | `name=value` | the one item that is a mapping with this string under this key |
//! | `…?` | need not exist, nor need anything to its right |
//! | `…:prev`, `…:next` | the item before or after an index or a match |
//! | `…:before`, `…:after` | a new place beside an index or a match (last token of a `replace`) |

use std::fmt;
use std::str::FromStr;

/// A parsed path. [`fmt::Display`] gives its normal form back.
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
        /// Whether it need not exist.
        optional: bool,
    },
    /// An index into a sequence.
    Index {
        /// From the end when negative.
        index: i64,
        /// Applied from left to right.
        modifiers: Vec<Modifier>,
    },
    /// The place behind the last item of a sequence.
    End,
    /// The item of a sequence that is a mapping with this entry.
    Match {
        /// The key to look at.
        key: String,
        /// The string it must have.
        value: String,
        /// Whether there need be no such item.
        optional: bool,
        /// Applied from left to right.
        modifiers: Vec<Modifier>,
    },
}

/// What follows an index or a match after a colon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Modifier {
    /// The item before.
    Prev,
    /// The item after.
    Next,
    /// The place before: nothing is replaced.
    Before,
    /// The place after: nothing is replaced.
    After,
}

/// Why a text is no path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// A path is absolute.
    #[error("a path starts with '/'")]
    NoSlash,
    /// Something other than a modifier follows a colon.
    #[error("':{0}' is none of ':prev', ':next', ':before' and ':after' (write ':' inside a key as '~7')")]
    UnknownModifier(String),
    /// `-:next`.
    #[error("'-' takes no modifier")]
    ModifierOnEnd,
    /// `key:next`.
    #[error(
        "only an index or 'name=value' takes a modifier, and '{0}' is a key (write ':' inside a key as '~7')"
    )]
    ModifierOnKey(String),
}

impl Path {
    /// The levels below the root; none for the whole document.
    pub fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    /// The path of the first `count` levels.
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

    /// The empty text is the whole document, as `/` is the key that is empty.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        if text.is_empty() {
            return Ok(Path::default());
        }
        let Some(text) = text.strip_prefix('/') else { return Err(ParseError::NoSlash) };
        let mut optional = false;
        let mut pieces = text.split('/').peekable();
        let mut tokens = Vec::new();
        while let Some(piece) = pieces.next() {
            tokens.push(token(piece, pieces.peek().is_none(), &mut optional)?);
        }
        Ok(Path { tokens })
    }
}

fn token(piece: &str, is_last: bool, optional: &mut bool) -> Result<Token, ParseError> {
    let mut parts = piece.split(':');
    let text = unescape(parts.next().unwrap_or_default());
    let modifiers = parts.map(modifier).collect::<Result<Vec<_>, _>>()?;
    if is_last && text == "-" {
        return if modifiers.is_empty() { Ok(Token::End) } else { Err(ParseError::ModifierOnEnd) };
    }
    if let Ok(index) = text.parse() {
        return Ok(Token::Index { index, modifiers });
    }
    let text = match text.strip_suffix('?') {
        Some(text) => {
            *optional = true;
            text
        }
        None => &text,
    };
    if let Some((key, value)) = text.split_once('=') {
        return Ok(Token::Match { key: key.into(), value: value.into(), optional: *optional, modifiers });
    }
    if !modifiers.is_empty() {
        return Err(ParseError::ModifierOnKey(text.into()));
    }
    Ok(Token::Key { key: text.into(), optional: *optional })
}

fn modifier(text: &str) -> Result<Modifier, ParseError> {
    Ok(match text {
        "prev" => Modifier::Prev,
        "next" => Modifier::Next,
        "before" => Modifier::Before,
        "after" => Modifier::After,
        _ => return Err(ParseError::UnknownModifier(text.into())),
    })
}

/// Resolves `~0`, `~1` and `~7` in one pass; any other `~` stands for itself.
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('~') {
        out.push_str(&rest[..at]);
        let (character, length) = match rest.as_bytes().get(at + 1) {
            Some(b'0') => ('~', 2),
            Some(b'1') => ('/', 2),
            Some(b'7') => (':', 2),
            _ => ('~', 1),
        };
        out.push(character);
        rest = &rest[at + length..];
    }
    out.push_str(rest);
    out
}

/// The text as it stands in a path.
fn escape(text: &str) -> String {
    text.replace('~', "~0").replace('/', "~1").replace(':', "~7")
}

impl fmt::Display for Path {
    /// `?` is written once, as it holds for everything to its right, and wherever a key would read as
    /// something else without it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut marked = false;
        for token in &self.tokens {
            let mut mark = |optional: bool, ambiguous: bool| {
                let mark = optional && (!marked || ambiguous);
                marked |= optional;
                if mark { "?" } else { "" }
            };
            match token {
                Token::Key { key, optional } => {
                    let ambiguous = key.ends_with('?') || key == "-" || key.parse::<i64>().is_ok();
                    write!(f, "/{}{}", escape(key), mark(*optional, ambiguous))?;
                }
                Token::Index { index, .. } => write!(f, "/{index}")?,
                Token::End => f.write_str("/-")?,
                Token::Match { key, value, optional, .. } => {
                    write!(f, "/{}={}{}", escape(key), escape(value), mark(*optional, value.ends_with('?')))?;
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
