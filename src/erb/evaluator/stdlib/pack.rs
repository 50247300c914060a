//! `Array#pack` and `String#unpack`.
//!
//! The directives `m`, `H`, `a`, `A`, `C`, `c`, `N`, `n` and `U` are supported, and in `unpack` also `B`.

use std::rc::Rc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use num_bigint::BigInt;

use crate::evaluator::eval::{Args, EvalResult, Interpreter};
use crate::evaluator::methods::to_big;
use crate::evaluator::value::{RString, Value};

/// One directive of a layout, with its count or `*`.
struct PackDirective {
    kind: char,
    count: Option<usize>,
    takes_all: bool,
}

fn parse_directives(layout: &str) -> Vec<PackDirective> {
    let mut directives: Vec<PackDirective> = Vec::new();
    for character in layout.chars() {
        match (character, directives.last_mut()) {
            ('*', Some(last)) => last.takes_all = true,
            ('0'..='9', Some(last)) => {
                let digit = character as usize - '0' as usize;
                last.count = Some(last.count.unwrap_or(0).saturating_mul(10).saturating_add(digit));
            }
            (blank, _) if blank.is_whitespace() => {}
            (kind, _) => directives.push(PackDirective { kind, count: None, takes_all: false }),
        }
    }
    directives
}

/// Implements `array.pack(layout)`.
pub(crate) fn pack(interpreter: &mut Interpreter, items: &[Value], args: &Args) -> EvalResult<Value> {
    let layout = interpreter.arg(args, 0)?;
    let layout = interpreter.string_arg(&layout)?;
    let mut packed_bytes = Vec::new();
    let mut is_text = false;
    let mut remaining_items = items.iter();
    for directive in parse_directives(&layout) {
        let repeat = if directive.takes_all { remaining_items.len() } else { directive.count.unwrap_or(1) };
        match directive.kind {
            'm' => {
                let bytes = match remaining_items.next() {
                    Some(value) => super::base64::bytes_of(interpreter, value)?,
                    None => return interpreter.raise_argument_error("too few arguments"),
                };
                is_text = true;
                let text = match directive.count {
                    Some(0) => STANDARD.encode(&bytes),
                    _ => super::base64::encode_lines(&bytes),
                };
                packed_bytes.extend(text.into_bytes());
            }
            'H' => {
                let hex = match remaining_items.next() {
                    Some(value) => super::base64::bytes_of(interpreter, value)?,
                    None => return interpreter.raise_argument_error("too few arguments"),
                };
                let Some(digits) = hex
                    .iter()
                    .map(|byte| char::from(*byte).to_digit(16).map(|digit| digit as u8))
                    .collect::<Option<Vec<u8>>>()
                else {
                    return Err(
                        interpreter.unsupported_error("pack with 'H' of other characters than digits")
                    );
                };
                packed_bytes
                    .extend(digits.chunks(2).map(|pair| (pair[0] << 4) | pair.get(1).copied().unwrap_or(0)));
            }
            'a' | 'A' => {
                let bytes = match remaining_items.next() {
                    Some(value) => super::base64::bytes_of(interpreter, value)?,
                    None => return interpreter.raise_argument_error("too few arguments"),
                };
                let length = if directive.takes_all { bytes.len() } else { directive.count.unwrap_or(1) };
                interpreter.use_scratch(length)?;
                let fill = if directive.kind == 'a' { 0 } else { b' ' };
                packed_bytes.extend(bytes.iter().copied().chain(std::iter::repeat(fill)).take(length));
            }
            'C' | 'c' | 'N' | 'n' | 'U' => {
                for _ in 0..repeat {
                    let number = match remaining_items.next() {
                        Some(value @ (Value::Big(_) | Value::Float(_))) if directive.kind != 'U' => {
                            low_bits(&to_big(&interpreter.convert_to_integer(value, 0)?))
                        }
                        Some(value) => interpreter.int_arg(value)?,
                        None => return interpreter.raise_argument_error("too few arguments"),
                    };
                    match directive.kind {
                        'N' => packed_bytes.extend((number as u32).to_be_bytes()),
                        'n' => packed_bytes.extend((number as u16).to_be_bytes()),
                        'U' => {
                            is_text = true;
                            match u32::try_from(number).ok().and_then(char::from_u32) {
                                Some(character) => packed_bytes.extend(character.to_string().into_bytes()),
                                None => {
                                    let message = "pack(U): value out of range";
                                    return Err(interpreter.ruby_error("RangeError", message));
                                }
                            }
                        }
                        _ => packed_bytes.push(number as u8),
                    }
                }
            }
            other => return Err(interpreter.unsupported_error(format!("pack with '{other}'"))),
        }
    }
    interpreter.use_scratch(packed_bytes.len())?;
    match (is_text, String::from_utf8(packed_bytes)) {
        (true, Ok(text)) => Ok(Value::str(text)),
        (false, Ok(text)) => Ok(Value::Str(Rc::new(RString::from_bytes(text.as_bytes())))),
        (_, Err(bytes)) => Ok(Value::Str(Rc::new(RString::from_bytes(bytes.as_bytes())))),
    }
}

/// Returns the lowest 32 bits of an integer in two's complement.
fn low_bits(big: &BigInt) -> i64 {
    i64::try_from(big & BigInt::from(u32::MAX)).unwrap_or(0)
}

/// Implements `text.unpack(layout)`.
pub(crate) fn unpack(interpreter: &mut Interpreter, bytes: &[u8], layout: &str) -> EvalResult<Vec<Value>> {
    let mut values = Vec::new();
    let mut rest = bytes;
    for directive in parse_directives(layout) {
        let mut take = |count: usize| {
            let (head, tail) = rest.split_at(count.min(rest.len()));
            rest = tail;
            head.to_vec()
        };
        match directive.kind {
            'm' => {
                let all_bytes = take(usize::MAX);
                let data = match directive.count {
                    Some(0) => STANDARD.decode(&all_bytes).ok(),
                    _ => super::base64::decode_lenient(&all_bytes),
                };
                match (data, directive.count) {
                    (Some(data), _) => values.push(super::base64::binary_string(&data)),
                    (None, Some(0)) => return interpreter.raise_argument_error("invalid base64"),
                    (None, _) => {
                        return Err(interpreter.unsupported_error("base64 with text after its padding"));
                    }
                }
            }
            'H' => {
                let length =
                    if directive.takes_all { usize::MAX } else { directive.count.unwrap_or(1).div_ceil(2) };
                let hex: String = take(length).iter().map(|byte| format!("{byte:02x}")).collect();
                values.push(Value::str(hex));
            }
            'B' => {
                let length =
                    if directive.takes_all { usize::MAX } else { directive.count.unwrap_or(1).div_ceil(8) };
                let bits: String = take(length).iter().map(|byte| format!("{byte:08b}")).collect();
                values.push(Value::str(bits));
            }
            'a' | 'A' => {
                let length = if directive.takes_all { usize::MAX } else { directive.count.unwrap_or(1) };
                let mut head = take(length);
                if directive.kind == 'A' {
                    while matches!(head.last(), Some(b' ' | 0)) {
                        head.pop();
                    }
                }
                values.push(super::base64::binary_string(&head));
            }
            'C' | 'c' | 'N' | 'n' => {
                let size = match directive.kind {
                    'N' => 4,
                    'n' => 2,
                    _ => 1,
                };
                let mut remaining =
                    if directive.takes_all { usize::MAX } else { directive.count.unwrap_or(1) };
                while remaining > 0 {
                    let head = take(size);
                    if head.len() < size {
                        break;
                    }
                    let number = head.iter().fold(0i64, |number, byte| (number << 8) | i64::from(*byte));
                    let is_negative = directive.kind == 'c' && number > 127;
                    values.push(Value::Int(if is_negative { number - 256 } else { number }));
                    remaining -= 1;
                }
            }
            'U' => {
                let text = String::from_utf8_lossy(&take(usize::MAX)).into_owned();
                let limit = if directive.takes_all { usize::MAX } else { directive.count.unwrap_or(1) };
                values.extend(text.chars().take(limit).map(|c| Value::Int(i64::from(c as u32))));
            }
            other => return Err(interpreter.unsupported_error(format!("unpack with '{other}'"))),
        }
        interpreter.use_scratch(64)?;
    }
    Ok(values)
}
