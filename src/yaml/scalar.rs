//! Resolves plain scalars to values by the rules of YAML 1.1 as upstream applies them.
//!
//! Upstream deviates from the specification, and so does this module: there are no base 60 numbers, `0o17` is
//! octal, `1e3` needs no dot, and a number may have underscores anywhere (only between digits if it begins
//! with a dot). The emitter uses the same rules to decide which strings need quotes.

use std::borrow::Cow;

use super::Data;

/// The result of resolving a plain scalar.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ResolvedScalar {
    /// A value other than a string.
    Value(Data),
    /// A date or a date and time. It is loaded as a string, and emitted in quotes.
    Timestamp,
    /// A string.
    Text,
}

/// Resolves an untagged plain scalar.
pub(super) fn resolve(text: &str) -> ResolvedScalar {
    match resolve_except_timestamp(text) {
        ResolvedScalar::Text if is_timestamp(text) => ResolvedScalar::Timestamp,
        plain => plain,
    }
}

/// Like [`resolve`], but a timestamp is text.
pub(super) fn resolve_except_timestamp(text: &str) -> ResolvedScalar {
    if let Some(data) = keyword(text) {
        return ResolvedScalar::Value(data);
    }
    let number = match text.as_bytes().first() {
        Some(b'.') => parse_float(text, true),
        Some(b'+' | b'-' | b'0'..=b'9') => parse_number(text),
        _ => None,
    };
    number.map_or(ResolvedScalar::Text, ResolvedScalar::Value)
}

/// Returns the value of a reserved word, such as `yes`, `~` or `.inf`.
fn keyword(text: &str) -> Option<Data> {
    Some(match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => Data::Bool(true),
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Data::Bool(false)
        }
        "" | "~" | "null" | "Null" | "NULL" => Data::Null,
        ".nan" | ".NaN" | ".NAN" => Data::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Data::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => Data::Float(f64::NEG_INFINITY),
        _ => return None,
    })
}

/// Parses a number that starts with a digit or a sign. Underscores are ignored.
fn parse_number(text: &str) -> Option<Data> {
    let digits = without_underscores(text);
    parse_integer(&digits).or_else(|| parse_float(&digits, false))
}

fn without_underscores(text: &str) -> Cow<'_, str> {
    if text.contains('_') { text.replace('_', "").into() } else { text.into() }
}

/// Parses an integer with an optional sign and base prefix. Without a sign it may be up to `u64::MAX`. With a
/// sign it must fit `i64`.
fn parse_integer(text: &str) -> Option<Data> {
    let (sign, digits) = match text.as_bytes().first()? {
        sign @ (b'+' | b'-') => (Some(*sign), &text[1..]),
        _ => (None, text),
    };
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
        [b'0', b'o' | b'O', ..] => (8, &digits[2..]),
        [b'0', b'b' | b'B', ..] => (2, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, digits),
    };
    // `from_str_radix` would accept a second sign.
    if !digits.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, radix).ok()?;
    match sign {
        Some(b'-') => 0i64.checked_sub_unsigned(magnitude).map(Data::Int),
        Some(_) => i64::try_from(magnitude).ok().map(Data::Int),
        None => Some(i64::try_from(magnitude).map_or(Data::UInt(magnitude), Data::Int)),
    }
}

/// Returns true for `[sign] digits [. digits] [exponent]`. Digits are required on at least one side of the
/// dot.
fn is_decimal(text: &str) -> bool {
    let rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = match rest.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (rest, None),
    };
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let is_mantissa_valid = match mantissa.split_once('.') {
        Some((integer, fraction)) => {
            is_digits(integer) && is_digits(fraction) && !(integer.is_empty() && fraction.is_empty())
        }
        None => !mantissa.is_empty() && is_digits(mantissa),
    };
    let is_exponent_valid = exponent.is_none_or(|exponent| {
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        !exponent.is_empty() && is_digits(exponent)
    });
    is_mantissa_valid && is_exponent_valid
}

/// Parses a decimal float. Returns `None` if it is too large for 64 bits.
///
/// With `allows_underscores`, single underscores may separate digits.
fn parse_float(text: &str, allows_underscores: bool) -> Option<Data> {
    let bytes = text.as_bytes();
    let number = if allows_underscores && text.contains('_') {
        let separates_digits = |index: usize| {
            index > 0
                && bytes[index - 1].is_ascii_digit()
                && bytes.get(index + 1).is_some_and(u8::is_ascii_digit)
        };
        if !bytes.iter().enumerate().all(|(index, byte)| *byte != b'_' || separates_digits(index)) {
            return None;
        }
        without_underscores(text)
    } else {
        Cow::Borrowed(text)
    };
    if !is_decimal(&number) {
        return None;
    }
    number.parse().ok().filter(|float: &f64| float.is_finite()).map(Data::Float)
}

/// Returns true for a date (`2001-1-2`), and for a date and time.
///
/// The time follows a `T` or `t` and then has a zone (`2001-01-02T3:04:05.6Z`), or it follows spaces and has
/// none.
pub(super) fn is_timestamp(text: &str) -> bool {
    match_timestamp(text).is_some()
}

/// Returns `Some` if the text is a timestamp, a date with or without time.
fn match_timestamp(text: &str) -> Option<()> {
    let bytes = text.as_bytes();
    if bytes.len() < 5 || !bytes[..4].iter().all(u8::is_ascii_digit) || bytes[4] != b'-' {
        return None;
    }
    let year: u32 = text[..4].parse().ok()?;
    let mut rest = &bytes[5..];
    let month = read_short_number(&mut rest, 12)?;
    expect_byte(&mut rest, b'-')?;
    let day = read_short_number(&mut rest, 31)?;
    if month == 0 || day == 0 || day > days_in(year, month) {
        return None;
    }
    let has_zone = match rest.first() {
        None => return Some(()),
        Some(b'T' | b't') => {
            rest = &rest[1..];
            true
        }
        Some(b' ') => {
            while let [b' ', tail @ ..] = rest {
                rest = tail;
            }
            false
        }
        Some(_) => return None,
    };
    read_short_number(&mut rest, 23)?;
    expect_byte(&mut rest, b':')?;
    read_short_number(&mut rest, 59)?;
    expect_byte(&mut rest, b':')?;
    read_short_number(&mut rest, 59)?;
    if let [b'.' | b',', b'0'..=b'9', ..] = rest {
        rest = &rest[1..];
        while let [b'0'..=b'9', tail @ ..] = rest {
            rest = tail;
        }
    }
    if has_zone {
        skip_zone(&mut rest)?;
    }
    rest.is_empty().then_some(())
}

/// Consumes a time zone: `Z` or `±hh:mm`.
fn skip_zone(rest: &mut &[u8]) -> Option<()> {
    match **rest {
        [b'Z', ref tail @ ..] => *rest = tail,
        [b'+' | b'-', h1, h2, b':', m1, m2, ref tail @ ..] => {
            let two = |a: u8, b: u8| {
                (a.is_ascii_digit() && b.is_ascii_digit()).then(|| (a - b'0') * 10 + (b - b'0'))
            };
            if two(h1, h2)? > 24 || two(m1, m2)? > 60 {
                return None;
            }
            *rest = tail;
        }
        _ => return None,
    }
    Some(())
}

/// Consumes a number of one or two digits. Returns `None` without a digit, and for a number above `max`.
fn read_short_number(rest: &mut &[u8], max: u32) -> Option<u32> {
    let (value, tail) = match **rest {
        [a @ b'0'..=b'9', b @ b'0'..=b'9', ref tail @ ..] => {
            (u32::from(a - b'0') * 10 + u32::from(b - b'0'), tail)
        }
        [a @ b'0'..=b'9', ref tail @ ..] => (u32::from(a - b'0'), tail),
        _ => return None,
    };
    *rest = tail;
    (value <= max).then_some(value)
}

fn expect_byte(rest: &mut &[u8], byte: u8) -> Option<()> {
    let (first, tail) = rest.split_first()?;
    *rest = tail;
    (*first == byte).then_some(())
}

fn days_in(year: u32, month: u32) -> u32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Returns true for a base 60 number (`12:30:45`). It is a string to upstream but a number to other programs,
/// so the emitter puts it in quotes.
pub(super) fn is_base60(text: &str) -> bool {
    let rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (groups, fraction) = match rest.split_once('.') {
        Some((groups, fraction)) => (groups, Some(fraction)),
        None => (rest, None),
    };
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_');
    let mut groups = groups.split(':');
    let leading_digits = groups.next().unwrap_or_default();
    let mut count = 0;
    let are_sixties = groups.all(|group| {
        count += 1;
        matches!(group.as_bytes(), [b'0'..=b'9'] | [b'0'..=b'5', b'0'..=b'9'])
    });
    leading_digits.starts_with(|first: char| first.is_ascii_digit())
        && is_digits(leading_digits)
        && are_sixties
        && count > 0
        && fraction.is_none_or(is_digits)
}

/// Formats a float as the shortest text that loads as the same number. Numbers below 1e-4 and from 1e6 on get
/// an exponent.
pub(super) fn format_float(float: f64) -> String {
    if float.is_nan() {
        return ".nan".into();
    }
    if float.is_infinite() {
        return if float > 0.0 { ".inf" } else { "-.inf" }.into();
    }
    // `{:e}` gives the shortest digits.
    let scientific = format!("{float:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..6).contains(&exponent) {
        return format!("{float}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

/// Returns the value that a float has after it is emitted and loaded again: `1.0` becomes the integer 1.
///
/// Values of other types, collections included, are returned unchanged.
pub fn after_round_trip(data: &Data) -> Data {
    match data {
        Data::Float(float) => match resolve(&format_float(*float)) {
            ResolvedScalar::Value(data) => data,
            ResolvedScalar::Timestamp | ResolvedScalar::Text => Data::Float(*float),
        },
        data => data.clone(),
    }
}
