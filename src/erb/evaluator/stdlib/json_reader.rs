//! Reads JSON as Ruby's library does: with comments, and with integers of any size.

use std::rc::Rc;

use crate::evaluator::eval::{EvalResult, Interpreter};
use crate::evaluator::value::{RHash, Value};

use super::number;

/// The options of a call.
pub(super) struct Options {
    /// True to return the keys of hashes as symbols.
    pub(super) symbolizes_names: bool,
    /// True to accept `NaN` and `Infinity`.
    pub(super) allow_nan: bool,
    /// The maximum nesting of arrays and hashes. 0 means that there is no limit.
    pub(super) max_nesting: usize,
}

/// Reads a document.
pub(super) fn read(interpreter: &mut Interpreter, text: &str, options: &Options) -> EvalResult<Value> {
    let mut reader = Reader { text, offset: 0, options };
    reader.skip_blank(interpreter)?;
    let value = reader.read_value(interpreter, 0)?;
    reader.skip_blank(interpreter)?;
    if reader.offset < text.len() { reader.raise_parser_error(interpreter) } else { Ok(value) }
}

/// The state of reading one document.
struct Reader<'a> {
    text: &'a str,
    /// The byte offset of the text that has not been read.
    offset: usize,
    options: &'a Options,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.offset..]
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.offset).copied()
    }

    /// Raises `JSON::ParserError`.
    fn raise_parser_error<T>(&self, interpreter: &mut Interpreter) -> EvalResult<T> {
        let text = format!("unexpected token at '{}'", self.rest());
        Err(interpreter.ruby_error("JSON::ParserError", text))
    }

    fn skip(&mut self, token: &str) -> bool {
        let is_next = self.rest().starts_with(token);
        if is_next {
            self.offset += token.len();
        }
        is_next
    }

    /// Skips whitespace and comments.
    fn skip_blank(&mut self, interpreter: &mut Interpreter) -> EvalResult<()> {
        loop {
            let rest = self.rest();
            let after_space = rest.trim_start_matches([' ', '\t', '\r', '\n']);
            self.offset += rest.len() - after_space.len();
            let end = match after_space.get(..2) {
                Some("/*") => after_space[2..].find("*/").map(|offset| offset + 4),
                Some("//") => after_space.find('\n').map(|offset| offset + 1),
                _ => return Ok(()),
            };
            match end {
                Some(end) => self.offset += end,
                None => return self.raise_parser_error(interpreter),
            }
        }
    }

    fn read_value(&mut self, interpreter: &mut Interpreter, depth: usize) -> EvalResult<Value> {
        interpreter.step(1)?;
        interpreter.check_depth()?;
        match self.peek() {
            Some(b'{') => self.read_object(interpreter, depth + 1),
            Some(b'[') => self.read_array(interpreter, depth + 1),
            Some(b'"') => Ok(Value::str(self.read_string(interpreter)?)),
            Some(b'-' | b'0'..=b'9') => self.read_number(interpreter),
            _ => {
                let words = [
                    ("null", Value::Nil),
                    ("true", Value::Bool(true)),
                    ("false", Value::Bool(false)),
                    ("NaN", Value::Float(f64::NAN)),
                    ("Infinity", Value::Float(f64::INFINITY)),
                ];
                for (word, value) in words {
                    let is_allowed = self.options.allow_nan || !matches!(value, Value::Float(_));
                    if is_allowed && self.skip(word) {
                        return Ok(value);
                    }
                }
                self.raise_parser_error(interpreter)
            }
        }
    }

    fn check_nesting(&self, interpreter: &mut Interpreter, depth: usize) -> EvalResult<()> {
        if self.options.max_nesting > 0 && depth > self.options.max_nesting {
            return Err(
                interpreter.ruby_error("JSON::NestingError", format!("nesting of {depth} is too deep"))
            );
        }
        Ok(())
    }

    fn read_array(&mut self, interpreter: &mut Interpreter, depth: usize) -> EvalResult<Value> {
        self.check_nesting(interpreter, depth)?;
        self.offset += 1;
        self.skip_blank(interpreter)?;
        let array = crate::evaluator::value::RArray::new(Vec::new());
        if self.skip("]") {
            return Ok(Value::Array(array));
        }
        loop {
            array.push(self.read_value(interpreter, depth)?);
            self.skip_blank(interpreter)?;
            if self.skip("]") {
                return Ok(Value::Array(array));
            }
            if !self.skip(",") {
                return self.raise_parser_error(interpreter);
            }
            self.skip_blank(interpreter)?;
        }
    }

    fn read_object(&mut self, interpreter: &mut Interpreter, depth: usize) -> EvalResult<Value> {
        self.check_nesting(interpreter, depth)?;
        self.offset += 1;
        self.skip_blank(interpreter)?;
        let hash = Rc::new(RHash::default());
        if self.skip("}") {
            return Ok(Value::Hash(hash));
        }
        loop {
            if self.peek() != Some(b'"') {
                return self.raise_parser_error(interpreter);
            }
            let key = self.read_string(interpreter)?;
            let key = if self.options.symbolizes_names { Value::symbol(&key) } else { Value::str(key) };
            self.skip_blank(interpreter)?;
            if !self.skip(":") {
                return self.raise_parser_error(interpreter);
            }
            self.skip_blank(interpreter)?;
            hash.insert(key, self.read_value(interpreter, depth)?);
            self.skip_blank(interpreter)?;
            if self.skip("}") {
                return Ok(Value::Hash(hash));
            }
            if !self.skip(",") {
                return self.raise_parser_error(interpreter);
            }
            self.skip_blank(interpreter)?;
        }
    }

    fn read_string(&mut self, interpreter: &mut Interpreter) -> EvalResult<String> {
        let begin = self.offset;
        let mut characters = self.rest()[1..].char_indices();
        let mut text = String::new();
        while let Some((offset, character)) = characters.next() {
            match character {
                '"' => {
                    self.offset = begin + 1 + offset + 1;
                    return Ok(text);
                }
                '\0'..='\u{1f}' => break,
                '\\' => match characters.next().map(|(_, character)| character) {
                    Some('b') => text.push('\u{8}'),
                    Some('f') => text.push('\u{c}'),
                    Some('n') => text.push('\n'),
                    Some('r') => text.push('\r'),
                    Some('t') => text.push('\t'),
                    Some('u') => {
                        let Some(unit) = parse_unit(characters.as_str()) else { break };
                        characters.by_ref().take(4).for_each(drop);
                        let low = characters.as_str().strip_prefix("\\u").and_then(self::parse_unit);
                        let pair = low.map(|low| [unit, low]).filter(|_| (0xd800..0xdc00).contains(&unit));
                        let decode_result = match pair {
                            Some(pair) => {
                                characters.by_ref().take(6).for_each(drop);
                                char::decode_utf16(pair).next()
                            }
                            None => char::decode_utf16([unit]).next(),
                        };
                        match decode_result {
                            Some(Ok(character)) => text.push(character),
                            _ => {
                                return Err(
                                    interpreter.unsupported_error("JSON with half of a surrogate pair")
                                );
                            }
                        }
                    }
                    Some('\0'..='\u{1f}') | None => break,
                    Some(other) => text.push(other),
                },
                other => text.push(other),
            }
        }
        self.raise_parser_error(interpreter)
    }

    fn read_number(&mut self, interpreter: &mut Interpreter) -> EvalResult<Value> {
        if self.options.allow_nan && self.skip("-Infinity") {
            return Ok(Value::Float(f64::NEG_INFINITY));
        }
        let rest = self.rest();
        let bytes = rest.as_bytes();
        let digits = |start: usize| bytes[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let sign = usize::from(bytes[0] == b'-');
        let digit_count = digits(sign);
        if digit_count == 0 || digit_count > 1 && bytes[sign] == b'0' {
            return self.raise_parser_error(interpreter);
        }
        let mut end = sign + digit_count;
        let mut is_float = false;
        if bytes.get(end) == Some(&b'.') {
            let decimals = digits(end + 1);
            if decimals == 0 {
                return self.raise_parser_error(interpreter);
            }
            is_float = true;
            end += 1 + decimals;
        }
        if matches!(bytes.get(end), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
            let exponent = digits(end + 1 + sign);
            if exponent == 0 {
                return self.raise_parser_error(interpreter);
            }
            is_float = true;
            end += 1 + sign + exponent;
        }
        let text = &rest[..end];
        self.offset += end;
        Ok(if is_float {
            Value::Float(number::float_prefix(text))
        } else {
            number::integer_prefix(text, 10, 10)
        })
    }
}

/// Returns the value of the four hexadecimal digits at the start of a text.
fn parse_unit(text: &str) -> Option<u16> {
    let digits = text.get(..4).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    u16::from_str_radix(digits, 16).ok()
}
