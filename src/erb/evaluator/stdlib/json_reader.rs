//! Reads JSON as Ruby's library does: with comments, and with integers of any size.

use std::rc::Rc;

use crate::evaluator::eval::{Interp, R};
use crate::evaluator::value::{RHash, Value};

use super::number;

/// The options of a call.
pub(super) struct Options {
    /// True to return the keys of hashes as symbols.
    pub(super) symbols: bool,
    /// True to accept `NaN` and `Infinity`.
    pub(super) allow_nan: bool,
    /// The maximum nesting of arrays and hashes. 0 means that there is no limit.
    pub(super) max_nesting: usize,
}

/// Reads a document.
pub(super) fn read(it: &mut Interp, text: &str, options: &Options) -> R<Value> {
    let mut reader = Reader { text, at: 0, options };
    reader.blank(it)?;
    let value = reader.value(it, 0)?;
    reader.blank(it)?;
    if reader.at < text.len() { reader.fail(it) } else { Ok(value) }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    options: &'a Options,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Raises `JSON::ParserError`.
    fn fail<T>(&self, it: &mut Interp) -> R<T> {
        let text = format!("unexpected token at '{}'", self.rest());
        Err(it.error("JSON::ParserError", text))
    }

    fn skip(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    /// Skips whitespace and comments.
    fn blank(&mut self, it: &mut Interp) -> R<()> {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start_matches([' ', '\t', '\r', '\n']);
            self.at += rest.len() - trimmed.len();
            let end = match trimmed.get(..2) {
                Some("/*") => trimmed[2..].find("*/").map(|at| at + 4),
                Some("//") => trimmed.find('\n').map(|at| at + 1),
                _ => return Ok(()),
            };
            match end {
                Some(end) => self.at += end,
                None => return self.fail(it),
            }
        }
    }

    fn value(&mut self, it: &mut Interp, depth: usize) -> R<Value> {
        it.step(1)?;
        it.check_depth()?;
        match self.peek() {
            Some(b'{') => self.object(it, depth + 1),
            Some(b'[') => self.array(it, depth + 1),
            Some(b'"') => Ok(Value::str(self.string(it)?)),
            Some(b'-' | b'0'..=b'9') => self.number(it),
            _ => {
                let words = [
                    ("null", Value::Nil),
                    ("true", Value::Bool(true)),
                    ("false", Value::Bool(false)),
                    ("NaN", Value::Float(f64::NAN)),
                    ("Infinity", Value::Float(f64::INFINITY)),
                ];
                for (word, value) in words {
                    let allowed = self.options.allow_nan || !matches!(value, Value::Float(_));
                    if allowed && self.skip(word) {
                        return Ok(value);
                    }
                }
                self.fail(it)
            }
        }
    }

    fn check_nesting(&self, it: &mut Interp, depth: usize) -> R<()> {
        if self.options.max_nesting > 0 && depth > self.options.max_nesting {
            return Err(it.error("JSON::NestingError", format!("nesting of {depth} is too deep")));
        }
        Ok(())
    }

    fn array(&mut self, it: &mut Interp, depth: usize) -> R<Value> {
        self.check_nesting(it, depth)?;
        self.at += 1;
        self.blank(it)?;
        let array = crate::evaluator::value::RArray::new(Vec::new());
        if self.skip("]") {
            return Ok(Value::Array(array));
        }
        loop {
            array.push(self.value(it, depth)?);
            self.blank(it)?;
            if self.skip("]") {
                return Ok(Value::Array(array));
            }
            if !self.skip(",") {
                return self.fail(it);
            }
            self.blank(it)?;
        }
    }

    fn object(&mut self, it: &mut Interp, depth: usize) -> R<Value> {
        self.check_nesting(it, depth)?;
        self.at += 1;
        self.blank(it)?;
        let hash = Rc::new(RHash::default());
        if self.skip("}") {
            return Ok(Value::Hash(hash));
        }
        loop {
            if self.peek() != Some(b'"') {
                return self.fail(it);
            }
            let key = self.string(it)?;
            let key = if self.options.symbols { Value::symbol(&key) } else { Value::str(key) };
            self.blank(it)?;
            if !self.skip(":") {
                return self.fail(it);
            }
            self.blank(it)?;
            hash.insert(key, self.value(it, depth)?);
            self.blank(it)?;
            if self.skip("}") {
                return Ok(Value::Hash(hash));
            }
            if !self.skip(",") {
                return self.fail(it);
            }
            self.blank(it)?;
        }
    }

    fn string(&mut self, it: &mut Interp) -> R<String> {
        let begin = self.at;
        let mut characters = self.rest()[1..].char_indices();
        let mut out = String::new();
        while let Some((at, character)) = characters.next() {
            match character {
                '"' => {
                    self.at = begin + 1 + at + 1;
                    return Ok(out);
                }
                '\0'..='\u{1f}' => break,
                '\\' => match characters.next().map(|(_, escaped)| escaped) {
                    Some('b') => out.push('\u{8}'),
                    Some('f') => out.push('\u{c}'),
                    Some('n') => out.push('\n'),
                    Some('r') => out.push('\r'),
                    Some('t') => out.push('\t'),
                    Some('u') => {
                        let Some(unit) = unit(characters.as_str()) else { break };
                        characters.by_ref().take(4).for_each(drop);
                        let low = characters.as_str().strip_prefix("\\u").and_then(self::unit);
                        let pair = low.map(|low| [unit, low]).filter(|_| (0xd800..0xdc00).contains(&unit));
                        let decoded = match pair {
                            Some(pair) => {
                                characters.by_ref().take(6).for_each(drop);
                                char::decode_utf16(pair).next()
                            }
                            None => char::decode_utf16([unit]).next(),
                        };
                        match decoded {
                            Some(Ok(character)) => out.push(character),
                            _ => return Err(it.unsupported("JSON with half of a surrogate pair")),
                        }
                    }
                    Some('\0'..='\u{1f}') | None => break,
                    Some(other) => out.push(other),
                },
                other => out.push(other),
            }
        }
        self.fail(it)
    }

    fn number(&mut self, it: &mut Interp) -> R<Value> {
        if self.options.allow_nan && self.skip("-Infinity") {
            return Ok(Value::Float(f64::NEG_INFINITY));
        }
        let rest = self.rest();
        let bytes = rest.as_bytes();
        let digits = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let sign = usize::from(bytes[0] == b'-');
        let whole = digits(sign);
        if whole == 0 || whole > 1 && bytes[sign] == b'0' {
            return self.fail(it);
        }
        let mut end = sign + whole;
        let mut float = false;
        if bytes.get(end) == Some(&b'.') {
            let decimals = digits(end + 1);
            if decimals == 0 {
                return self.fail(it);
            }
            float = true;
            end += 1 + decimals;
        }
        if matches!(bytes.get(end), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
            let exponent = digits(end + 1 + sign);
            if exponent == 0 {
                return self.fail(it);
            }
            float = true;
            end += 1 + sign + exponent;
        }
        let text = &rest[..end];
        self.at += end;
        Ok(if float { Value::Float(number::float_prefix(text)) } else { number::integer_prefix(text, 10) })
    }
}

/// Returns the value of the four hexadecimal digits at the start of a text.
fn unit(text: &str) -> Option<u16> {
    let digits = text.get(..4).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    u16::from_str_radix(digits, 16).ok()
}
