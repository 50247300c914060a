//! Numbers in text.

use num_bigint::BigInt;

use crate::template::value::Value;

/// The integer a text starts with, 0 if none: `to_i`. A radix of 0 follows the prefix (`0x`, `0b`, `0`).
pub(in crate::template) fn integer_prefix(text: &str, radix: u32) -> Value {
    let text = text.trim_start();
    let (negative, rest) = sign(text);
    let (radix, rest) = match radix {
        0 => strip_radix(rest, 8),
        16 => (16, rest.strip_prefix("0x").or(rest.strip_prefix("0X")).unwrap_or(rest)),
        2 => (2, rest.strip_prefix("0b").or(rest.strip_prefix("0B")).unwrap_or(rest)),
        8 => (8, rest.strip_prefix("0o").or(rest.strip_prefix("0O")).unwrap_or(rest)),
        other => (other, rest),
    };
    if !(2..=36).contains(&radix) {
        return Value::Int(0);
    }
    let mut digits = String::new();
    let mut last_underscore = true;
    for character in rest.chars() {
        if character == '_' && !last_underscore {
            last_underscore = true;
            continue;
        }
        if !character.is_digit(radix) {
            break;
        }
        last_underscore = false;
        digits.push(character);
    }
    parse(negative, &digits, radix).unwrap_or(Value::Int(0))
}

/// The integer a text is, all of it: `Integer()`.
pub(in crate::template) fn integer_strict(text: &str, radix: u32) -> Option<Value> {
    let text = text.trim();
    let (negative, rest) = sign(text);
    let (radix, rest) = match radix {
        0 => strip_radix(rest, 10),
        16 => (16, rest.strip_prefix("0x").unwrap_or(rest)),
        2 => (2, rest.strip_prefix("0b").unwrap_or(rest)),
        other => (other, rest),
    };
    if rest.is_empty() || rest.starts_with('_') || rest.ends_with('_') || rest.contains("__") {
        return None;
    }
    let digits = rest.replace('_', "");
    if !digits.chars().all(|digit| digit.is_digit(radix)) {
        return None;
    }
    parse(negative, &digits, radix)
}

fn strip_radix(text: &str, octal_or: u32) -> (u32, &str) {
    let lower = text.get(..2).map(str::to_ascii_lowercase);
    match lower.as_deref() {
        Some("0x") => (16, &text[2..]),
        Some("0b") => (2, &text[2..]),
        Some("0o") => (8, &text[2..]),
        Some("0d") => (10, &text[2..]),
        _ if text.len() > 1 && text.starts_with('0') => {
            (8, text.trim_start_matches('0').trim_start_matches('_'))
        }
        _ => (octal_or, text),
    }
}

fn sign(text: &str) -> (bool, &str) {
    match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    }
}

fn parse(negative: bool, digits: &str, radix: u32) -> Option<Value> {
    if digits.is_empty() {
        return None;
    }
    match i64::from_str_radix(digits, radix) {
        Ok(value) => Some(Value::Int(if negative { -value } else { value })),
        // What a template may hold is bounded, so is this.
        Err(_) if digits.len() < 10_000 => {
            let value = BigInt::parse_bytes(digits.as_bytes(), radix)?;
            Some(Value::big(if negative { -value } else { value }))
        }
        Err(_) => None,
    }
}

/// How many bytes of the text are a float.
fn float_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let digits = |mut at: usize| {
        while at < bytes.len()
            && (bytes[at].is_ascii_digit()
                || (bytes[at] == b'_'
                    && at > 0
                    && bytes[at - 1].is_ascii_digit()
                    && bytes.get(at + 1).is_some_and(u8::is_ascii_digit)))
        {
            at += 1;
        }
        at
    };
    let start = usize::from(matches!(bytes.first(), Some(b'-' | b'+')));
    let mut at = digits(start);
    let bare =
        at == start && bytes.get(at) == Some(&b'.') && bytes.get(at + 1).is_some_and(u8::is_ascii_digit);
    if at == start && !bare {
        return 0;
    }
    if bytes.get(at) == Some(&b'.') && bytes.get(at + 1).is_some_and(u8::is_ascii_digit) {
        at = digits(at + 1);
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        let signed = at + 1 + usize::from(matches!(bytes.get(at + 1), Some(b'-' | b'+')));
        let end = digits(signed);
        if end > signed {
            at = end;
        }
    }
    at
}

/// The float a text starts with: `to_f`.
pub(in crate::template) fn float_prefix(text: &str) -> f64 {
    let text = text.trim_start();
    text[..float_length(text)].replace('_', "").parse().unwrap_or(0.0)
}

/// The float a text is: `Float()`.
pub(in crate::template) fn float_strict(text: &str) -> Option<f64> {
    let text = text.trim();
    if let Some(Value::Int(int)) =
        text.to_ascii_lowercase().starts_with("0x").then(|| integer_strict(text, 16)).flatten()
    {
        return Some(int as f64);
    }
    if text.is_empty() || float_length(text) != text.len() {
        return None;
    }
    text.replace('_', "").parse().ok()
}
