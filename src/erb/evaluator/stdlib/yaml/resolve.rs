//! Resolves plain scalars to values as Psych does.
//!
//! The emitter uses the same rules: it quotes a string that would not be read back as a string.

use num_bigint::BigInt;

/// The value of a plain scalar.
pub(super) enum PlainValue<'a> {
    Null,
    Bool(bool),
    Int(BigInt),
    Float(f64),
    /// The name of a symbol, without its colon.
    Symbol(&'a str),
    Date,
    Time,
    Text,
}

/// Returns the value that Psych reads from a plain scalar.
pub(super) fn resolve(text: &str) -> PlainValue<'_> {
    if text.is_empty() {
        return PlainValue::Null;
    }
    if text.contains('\n') || starts_like_text(text) {
        if text.chars().count() > 5 {
            return PlainValue::Text;
        }
        return match text.to_lowercase().as_str() {
            "~" | "null" => PlainValue::Null,
            "yes" | "true" | "on" => PlainValue::Bool(true),
            "no" | "false" | "off" => PlainValue::Bool(false),
            _ => PlainValue::Text,
        };
    }
    if is_time(text) {
        return PlainValue::Time;
    }
    if is_date(text) {
        return PlainValue::Date;
    }
    if is_special_float(text) {
        return PlainValue::Float(match text.as_bytes()[0] {
            b'-' => f64::NEG_INFINITY,
            _ if text.to_ascii_lowercase().ends_with("nan") => f64::NAN,
            _ => f64::INFINITY,
        });
    }
    if is_symbol(text) {
        let name = &text[1..];
        let unquoted_name =
            ['"', '\''].iter().find_map(|quote| name.strip_prefix(*quote)?.strip_suffix(*quote));
        return PlainValue::Symbol(unquoted_name.unwrap_or(name));
    }
    if is_base_60(text) {
        return parse_base_60(text);
    }
    let digits: String = text.chars().filter(|character| !matches!(character, '_' | ',')).collect();
    if is_float(text) {
        let decimal = digits.strip_suffix('.').unwrap_or(&digits).replace(".e", "e").replace(".E", "E");
        return decimal.parse().map_or(PlainValue::Text, PlainValue::Float);
    }
    if is_integer(text) {
        return parse_integer(&digits).map_or(PlainValue::Text, PlainValue::Int);
    }
    PlainValue::Text
}

fn parse_integer(digits: &str) -> Option<BigInt> {
    let unsigned = digits.strip_prefix(['-', '+']).unwrap_or(digits);
    let (radix, rest) = match unsigned.strip_prefix('0') {
        Some(rest) => match rest.as_bytes().first() {
            Some(b'b') => (2, &rest[1..]),
            Some(b'x') => (16, &rest[1..]),
            Some(_) => (8, rest),
            None => (10, unsigned),
        },
        None => (10, unsigned),
    };
    let number = BigInt::parse_bytes(rest.as_bytes(), radix)?;
    Some(if digits.starts_with('-') { -number } else { number })
}

/// Reads a number in base 60. As in Psych, the first part counts 3600 even if there are only two parts.
fn parse_base_60(text: &str) -> PlainValue<'static> {
    let parts = text.split(':').map(|part| part.replace('_', ""));
    let weights = [3600.0, 60.0, 1.0];
    let total: f64 =
        parts.zip(weights).map(|(part, weight)| part.parse::<f64>().unwrap_or(0.0) * weight).sum();
    if text.contains('.') { PlainValue::Float(total) } else { PlainValue::Int(BigInt::from(total as i128)) }
}

/// Returns true if Psych reads a plain scalar with this text as the same string.
pub(super) fn is_string(text: &str) -> bool {
    if text.is_empty() {
        return false;
    }
    if text.contains('\n') || starts_like_text(text) {
        if text.chars().count() > 5 {
            return true;
        }
        let lower = text.to_lowercase();
        return !matches!(lower.as_str(), "~" | "null" | "yes" | "true" | "on" | "no" | "false" | "off");
    }
    !(is_time(text)
        || is_date(text)
        || is_special_float(text)
        || is_symbol(text)
        || is_base_60(text)
        || is_float(text)
        || is_integer(text))
}

/// Returns true if the first or second character is a letter, whitespace or certain punctuation. The second
/// one does not count after a digit, point, colon or minus.
fn starts_like_text(text: &str) -> bool {
    let is_text_char =
        |c: char| c.is_alphabetic() || c.is_whitespace() || "_!@#$%^&*(){}<>|/\\~;=".contains(c);
    let mut characters = text.chars();
    let Some(first) = characters.next() else { return false };
    if is_text_char(first) {
        return true;
    }
    !(first.is_ascii_digit() || matches!(first, '.' | ':' | '-'))
        && characters.next().is_some_and(is_text_char)
}

/// Splits a number of `min` to `max` digits off the start of a text.
fn split_digits(text: &str, min: usize, max: usize) -> Option<(u32, &str)> {
    let count = text.bytes().take_while(u8::is_ascii_digit).count().min(max);
    if count < min {
        return None;
    }
    Some((text[..count].parse().ok()?, &text[count..]))
}

fn is_date(text: &str) -> bool {
    let parse_parts = || {
        let (year, rest) = split_digits(text, 4, 4)?;
        let (month, rest) = split_digits(rest.strip_prefix('-')?, 1, 2)?;
        let (day, rest) = split_digits(rest.strip_prefix('-')?, 1, 2)?;
        (rest.is_empty()).then_some((year, month, day))
    };
    let Some((year, month, day)) = parse_parts() else { return false };
    let is_leap_year = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let last_day = match month {
        2 => 28 + u32::from(is_leap_year),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return false,
    };
    (1..=last_day).contains(&day)
}

/// Returns true for a date with a time that Psych converts to a Time (TIME of its ScalarScanner).
fn is_time(text: &str) -> bool {
    let parse = || {
        let rest = text.strip_prefix('-').unwrap_or(text);
        let (_, rest) = split_digits(rest, 4, 4)?;
        let (_, rest) = split_digits(rest.strip_prefix('-')?, 1, 2)?;
        let (_, rest) = split_digits(rest.strip_prefix('-')?, 1, 2)?;
        let rest = match rest.strip_prefix(['T', 't']) {
            Some(rest) => rest,
            None if rest.starts_with(char::is_whitespace) => rest.trim_start(),
            None => return None,
        };
        let (_, rest) = split_digits(rest, 1, 2)?;
        let (_, rest) = split_digits(rest.strip_prefix(':')?, 2, 2)?;
        let (_, rest) = split_digits(rest.strip_prefix(':')?, 2, 2)?;
        let rest = match rest.strip_prefix('.') {
            Some(rest) => rest.trim_start_matches(|c: char| c.is_ascii_digit()),
            None => rest,
        };
        if rest.is_empty() {
            return Some(());
        }
        let rest = rest.trim_start();
        if rest == "Z" {
            return Some(());
        }
        let (_, rest) = split_digits(rest.strip_prefix(['-', '+'])?, 1, 2)?;
        let rest = rest.strip_prefix(':').unwrap_or(rest);
        (rest.is_empty() || split_digits(rest, 2, 2).is_some_and(|(_, rest)| rest.is_empty())).then_some(())
    };
    parse().is_some()
}

fn is_special_float(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    matches!(lower.as_str(), ".inf" | "+.inf" | "-.inf" | ".nan")
}

fn is_symbol(text: &str) -> bool {
    text.len() > 1 && text.starts_with(':')
}

fn is_base_60(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let integer = match unsigned.rsplit_once('.') {
        Some((integer, fraction)) if fraction.chars().all(|c| c.is_ascii_digit() || c == '_') => integer,
        Some(_) => return false,
        None => unsigned,
    };
    let mut parts = integer.split(':');
    let first = parts.next().unwrap_or("");
    let rest: Vec<&str> = parts.collect();
    first.starts_with(|c: char| c.is_ascii_digit())
        && first.chars().all(|c| c.is_ascii_digit() || c == '_')
        && (1..=2).contains(&rest.len())
        && rest.iter().all(|part| {
            matches!(part.as_bytes(), [d] if d.is_ascii_digit())
                || matches!(part.as_bytes(), [b'0'..=b'5', d] if d.is_ascii_digit())
        })
}

fn is_float(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let Some((integer, rest)) = unsigned.split_once('.') else { return false };
    let integer_fits = integer.is_empty()
        || (integer.starts_with(|c: char| c.is_ascii_digit())
            && integer.chars().all(|c| c.is_ascii_digit() || c == '_' || c == ','));
    let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    let exponent_fits = match rest.strip_prefix(['e', 'E']) {
        None => rest.is_empty(),
        Some(power) => match power.strip_prefix(['-', '+']) {
            Some(digits) => !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()),
            None => false,
        },
    };
    integer_fits && exponent_fits && unsigned != "."
}

fn is_integer(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let are_all = |digits: &str, is_digit: fn(char) -> bool| {
        !digits.is_empty() && digits.chars().all(|c| is_digit(c) || c == '_' || c == ',')
    };
    if let Some(binary) = unsigned.strip_prefix("0b") {
        return are_all(binary, |c| matches!(c, '0' | '1'));
    }
    if let Some(hex) = unsigned.strip_prefix("0x") {
        return are_all(hex, |c| c.is_ascii_hexdigit());
    }
    if let Some(octal) = unsigned.strip_prefix('0') {
        return octal.is_empty() || are_all(octal, |c| matches!(c, '0'..='7'));
    }
    let mut follows_digit = false;
    for character in unsigned.chars() {
        match character {
            '0'..='9' => follows_digit = true,
            '_' | ',' if follows_digit => follows_digit = false,
            _ => return false,
        }
    }
    follows_digit
}
