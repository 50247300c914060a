//! Reads numbers from strings.

use num_bigint::BigInt;

use crate::evaluator::meter;
use crate::evaluator::value::Value;

/// Returns the integer at the start of a text, or 0 if there is none, as `to_i` does. If the radix is 0, the
/// prefix (`0x`, `0b`, `0o`, `0d`, `0`) determines it, and without a prefix `default` applies.
pub(crate) fn integer_prefix(text: &str, radix: u32, default: u32) -> Value {
    let (is_negative, rest) = split_sign(text.trim_start_matches(is_space));
    let (radix, rest) = strip_radix(rest, radix, default);
    let (digits, _) = digits_of(rest, radix);
    parse_digits(is_negative, &digits, radix).unwrap_or(Value::Int(0))
}

/// Returns true if a text is nothing but blanks and a sign, both optional.
pub(crate) fn is_blank_or_sign(text: &str) -> bool {
    split_sign(text.trim_start_matches(is_space)).1.is_empty()
}

/// Returns the integer if the whole text is one, as `Integer()` does. If the radix is 0, the prefix
/// determines it.
pub(crate) fn integer_strict(text: &str, radix: u32) -> Option<Value> {
    let (is_negative, rest) = split_sign(text.trim_matches(is_space));
    let (radix, rest) = strip_radix(rest, radix, 10);
    let (digits, length) = digits_of(rest, radix);
    if length != rest.len() {
        return None;
    }
    parse_digits(is_negative, &digits, radix)
}

/// Returns true for the whitespace that Ruby skips around a number. A no-break space is not part of it.
pub(crate) fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\n' | '\u{b}' | '\u{c}' | '\r')
}

/// Returns the digits at the start of a text, without the single underscores between them. The second value
/// is their length in bytes, with the underscores.
fn digits_of(text: &str, radix: u32) -> (String, usize) {
    let mut digits = String::new();
    let mut length = 0;
    let mut after_underscore = true;
    for (index, character) in text.char_indices() {
        if character.is_digit(radix) {
            digits.push(character);
            length = index + 1;
            after_underscore = false;
        } else if character == '_' && !after_underscore {
            after_underscore = true;
        } else {
            break;
        }
    }
    (digits, length)
}

/// Returns the radix, and the text after a prefix such as `0x`. Without a prefix, a radix of 0 becomes 8 if
/// the text starts with a zero, and `default` otherwise.
fn strip_radix(text: &str, radix: u32, default: u32) -> (u32, &str) {
    let prefix_radix = match text.get(..2).map(str::to_ascii_lowercase).as_deref() {
        Some("0x") => Some(16),
        Some("0b") => Some(2),
        Some("0o") => Some(8),
        Some("0d") => Some(10),
        _ => None,
    };
    match prefix_radix {
        Some(prefix_radix) if radix == 0 || radix == prefix_radix => (prefix_radix, &text[2..]),
        _ if radix == 0 && text.len() > 1 && text.starts_with('0') => (8, text),
        _ if radix == 0 => (default, text),
        _ => (radix, text),
    }
}

fn split_sign(text: &str) -> (bool, &str) {
    match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    }
}

fn parse_digits(is_negative: bool, digits: &str, radix: u32) -> Option<Value> {
    if digits.is_empty() {
        return None;
    }
    match i64::from_str_radix(digits, radix) {
        Ok(value) => Some(Value::Int(if is_negative { -value } else { value })),
        Err(_) => {
            // Parsing takes quadratic time.
            meter::step_or_unwind((digits.len() as u64 / 64).saturating_pow(2));
            let value = BigInt::parse_bytes(digits.as_bytes(), radix)?;
            Some(Value::integer(if is_negative { -value } else { value }))
        }
    }
}

/// Returns the length in bytes of the float at the start of a text, or 0 if there is none.
fn float_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let digits = |mut index: usize| {
        while index < bytes.len()
            && (bytes[index].is_ascii_digit()
                || (bytes[index] == b'_'
                    && index > 0
                    && bytes[index - 1].is_ascii_digit()
                    && bytes.get(index + 1).is_some_and(u8::is_ascii_digit)))
        {
            index += 1;
        }
        index
    };
    let start = usize::from(matches!(bytes.first(), Some(b'-' | b'+')));
    let mut end = digits(start);
    let starts_with_point =
        end == start && bytes.get(end) == Some(&b'.') && bytes.get(end + 1).is_some_and(u8::is_ascii_digit);
    if end == start && !starts_with_point {
        return 0;
    }
    if bytes.get(end) == Some(&b'.') && bytes.get(end + 1).is_some_and(u8::is_ascii_digit) {
        end = digits(end + 1);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let exponent_start = end + 1 + usize::from(matches!(bytes.get(end + 1), Some(b'-' | b'+')));
        let exponent_end = digits(exponent_start);
        if exponent_end > exponent_start {
            end = exponent_end;
        }
    }
    end
}

/// Returns the float at the start of a text, or 0.0 if there is none, as `to_f` does.
pub(crate) fn float_prefix(text: &str) -> f64 {
    let text = text.trim_start_matches(is_space);
    text[..float_length(text)].replace('_', "").parse().unwrap_or(0.0)
}

/// Returns the float if the whole text is one, as `Float()` does.
pub(crate) fn float_strict(text: &str) -> Option<f64> {
    let text = text.trim_matches(is_space);
    let (is_negative, unsigned) = split_sign(text);
    if let Some(hex) = unsigned.strip_prefix("0x").or(unsigned.strip_prefix("0X")) {
        return parse_hex_float(hex).map(|magnitude| if is_negative { -magnitude } else { magnitude });
    }
    if text.is_empty() || float_length(text) != text.len() {
        return None;
    }
    text.replace('_', "").parse().ok()
}

/// Reads a float in C's hexadecimal notation without its `0x`: `1.8p3` is 12.
fn parse_hex_float(text: &str) -> Option<f64> {
    let (mantissa, power) = match text.split_once(['p', 'P']) {
        Some((mantissa, power)) => (mantissa, power.parse::<i32>().ok()?),
        None if text.contains('.') => return None,
        None => (text, 0),
    };
    let (integer, fraction) = match mantissa.split_once('.') {
        Some((_, "")) => return None,
        Some(parts) => parts,
        None => (mantissa, ""),
    };
    if integer.is_empty() {
        return None;
    }
    let mut magnitude = 0.0;
    for digit in integer.chars().chain(fraction.chars()) {
        magnitude = magnitude * 16.0 + f64::from(digit.to_digit(16)?);
    }
    Some(magnitude * 2f64.powi(power.saturating_sub(fraction.len() as i32 * 4)))
}
