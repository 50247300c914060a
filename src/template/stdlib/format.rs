//! `format` and `%`.

use num_bigint::BigInt;

use crate::template::eval::{Interp, R};
use crate::template::methods::{to_big, to_f64};
use crate::template::value::Value;

#[derive(Default)]
struct Directive {
    left: bool,
    zero: bool,
    plus: bool,
    space: bool,
    alternate: bool,
    width: Option<usize>,
    precision: Option<usize>,
}

/// Widths and precisions above this are refused.
const MAX_WIDTH: i64 = 1 << 20;
/// Digits after the point of the float with the most of them.
const MAX_DIGITS: usize = 1100;

pub(in crate::template) fn format(it: &mut Interp, template: &str, values: &[Value]) -> R<String> {
    let mut out = String::new();
    let mut characters = template.chars().peekable();
    let mut next = 0;
    while let Some(character) = characters.next() {
        if character != '%' {
            out.push(character);
            continue;
        }
        let mut directive = Directive::default();
        let mut named: Option<Value> = None;
        loop {
            let Some(flag) = characters.next() else {
                return it.argument_error("incomplete format specifier; use %% (double %) instead");
            };
            match flag {
                '-' => directive.left = true,
                '0' => directive.zero = true,
                '+' => directive.plus = true,
                ' ' => directive.space = true,
                '#' => directive.alternate = true,
                '1'..='9' => {
                    let mut number = flag.to_string();
                    while let Some(digit) = characters.peek().filter(|digit| digit.is_ascii_digit()) {
                        number.push(*digit);
                        characters.next();
                    }
                    let number: i64 = number.parse().unwrap_or(MAX_WIDTH + 1);
                    if characters.peek() == Some(&'$') {
                        characters.next();
                        named = Some(values.get((number - 1) as usize).cloned().unwrap_or(Value::Nil));
                        if number as usize > values.len() {
                            return it.argument_error("too few arguments");
                        }
                        continue;
                    }
                    directive.width = Some(limited(it, number)?);
                }
                '*' => {
                    let width = argument(it, values, &mut next)?;
                    let width = it.int_arg(&width)?;
                    directive.left |= width < 0;
                    directive.width = Some(limited(it, width.saturating_abs())?);
                }
                '.' => {
                    let mut number = String::new();
                    if characters.peek() == Some(&'*') {
                        characters.next();
                        let value = argument(it, values, &mut next)?;
                        number = it.int_arg(&value)?.max(0).to_string();
                    }
                    while let Some(digit) = characters.peek().filter(|digit| digit.is_ascii_digit()) {
                        number.push(*digit);
                        characters.next();
                    }
                    directive.precision = Some(limited(it, number.parse().unwrap_or(0))?);
                }
                '<' | '{' => {
                    let close = if flag == '<' { '>' } else { '}' };
                    let mut name = String::new();
                    loop {
                        match characters.next() {
                            Some(end) if end == close => break,
                            Some(letter) => name.push(letter),
                            None => return it.argument_error("malformed name - unmatched parenthesis"),
                        }
                    }
                    let Some(Value::Hash(hash)) = values.first() else {
                        return it.argument_error("one hash required");
                    };
                    let hash = std::rc::Rc::clone(hash);
                    let value = match hash.get_symbol(&name) {
                        Some(value) => value,
                        None => {
                            let default = it.hash_get(&hash, &Value::symbol(&name))?;
                            if default.is_nil() {
                                let text = format!("key{flag}{name}{close} not found");
                                return Err(it.error("KeyError", text));
                            }
                            default
                        }
                    };
                    if flag == '{' {
                        let text = it.text_of(&value)?;
                        pad(&mut out, &directive, &cut(text, &directive));
                        break;
                    }
                    named = Some(value);
                }
                '%' | '\n' | '\0' => {
                    out.push('%');
                    if flag != '%' {
                        out.push(flag);
                    }
                    break;
                }
                conversion => {
                    let value = match named.take() {
                        Some(value) => value,
                        None => argument(it, values, &mut next)?,
                    };
                    convert(it, &mut out, conversion, &directive, &value)?;
                    break;
                }
            }
        }
        it.charge(16)?;
    }
    it.charge(out.len())?;
    Ok(out)
}

fn limited(it: &mut Interp, number: i64) -> R<usize> {
    if number > MAX_WIDTH {
        return it.argument_error("width too big");
    }
    it.charge(number.max(0) as usize)?;
    Ok(number.max(0) as usize)
}

fn argument(it: &mut Interp, values: &[Value], next: &mut usize) -> R<Value> {
    match values.get(*next) {
        Some(value) => {
            *next += 1;
            Ok(value.clone())
        }
        None => it.argument_error("too few arguments"),
    }
}

fn cut(text: String, directive: &Directive) -> String {
    match directive.precision {
        Some(precision) => text.chars().take(precision).collect(),
        None => text,
    }
}

fn convert(
    it: &mut Interp,
    out: &mut String,
    conversion: char,
    directive: &Directive,
    value: &Value,
) -> R<()> {
    match conversion {
        's' => {
            let text = it.text_of(value)?;
            pad(out, directive, &cut(text, directive));
        }
        'p' => {
            let text = it.inspect(value)?;
            pad(out, directive, &cut(text, directive));
        }
        'c' => {
            let text = match value {
                Value::Int(code) => {
                    u32::try_from(*code).ok().and_then(char::from_u32).map(String::from).unwrap_or_default()
                }
                other => it.string_arg(other)?.chars().take(1).collect(),
            };
            pad(out, directive, &text);
        }
        'd' | 'i' | 'u' => {
            let value = integer(it, value)?;
            number(out, directive, &value, 10, "");
        }
        'x' | 'X' | 'o' | 'b' | 'B' => {
            let value = integer(it, value)?;
            if value < BigInt::from(0) && !directive.plus && !directive.space {
                return Err(it.unsupported("a negative number in two's complement"));
            }
            let (radix, prefix) = match conversion {
                'x' | 'X' => (16, if conversion == 'x' { "0x" } else { "0X" }),
                'o' => (8, "0"),
                _ => (2, if conversion == 'b' { "0b" } else { "0B" }),
            };
            let mut text = String::new();
            number(&mut text, directive, &value, radix, if directive.alternate { prefix } else { "" });
            out.push_str(&if conversion == 'X' { text.to_uppercase() } else { text });
        }
        'f' | 'e' | 'E' | 'g' | 'G' | 'a' => {
            let float = match value {
                Value::Str(text) => match super::number::float_strict(&text.get()) {
                    Some(float) => float,
                    None => {
                        let shown = it.inspect(value)?;
                        return it.argument_error(format!("invalid value for Float(): {shown}"));
                    }
                },
                // A whole number keeps all its digits.
                Value::Int(_) | Value::Big(_) if conversion == 'f' => {
                    let value = to_big(value);
                    let mut digits = value.magnitude().to_string();
                    let precision = directive.precision.unwrap_or(6);
                    if precision > 0 {
                        digits = format!("{digits}.{}", "0".repeat(precision));
                    }
                    signed(out, directive, value < BigInt::from(0), "", &digits, true);
                    return Ok(());
                }
                Value::Int(_) | Value::Float(_) | Value::Big(_) => to_f64(value),
                Value::Nil => return it.type_error("can't convert nil into Float"),
                other => {
                    let class = it.class_of(other).label();
                    return it.type_error(format!("can't convert {class} into Float"));
                }
            };
            if conversion == 'a' {
                return Err(it.unsupported("the format %a"));
            }
            floating(out, directive, float, conversion);
        }
        other => return it.argument_error(format!("malformed format string - %{other}")),
    }
    Ok(())
}

fn integer(it: &mut Interp, value: &Value) -> R<BigInt> {
    match value {
        Value::Int(_) | Value::Big(_) => Ok(to_big(value)),
        Value::Float(float) => {
            let whole = it.call(&Value::Float(*float), "to_i", Vec::new())?;
            Ok(to_big(&whole))
        }
        Value::Str(text) => match super::number::integer_strict(&text.get(), 0) {
            Some(number) => Ok(to_big(&number)),
            None => {
                let shown = it.inspect(value)?;
                it.argument_error(format!("invalid value for Integer(): {shown}"))
            }
        },
        Value::Nil => it.type_error("can't convert nil into Integer"),
        other => {
            let class = it.class_of(other).label();
            it.type_error(format!("can't convert {class} into Integer"))
        }
    }
}

fn number(out: &mut String, directive: &Directive, value: &BigInt, radix: u32, prefix: &str) {
    let negative = *value < BigInt::from(0);
    let mut digits = value.magnitude().to_str_radix(radix);
    if let Some(precision) = directive.precision {
        while digits.len() < precision {
            digits.insert(0, '0');
        }
    }
    signed(out, directive, negative, prefix, &digits, directive.precision.is_none());
}

fn signed(out: &mut String, directive: &Directive, negative: bool, prefix: &str, digits: &str, zeros: bool) {
    let sign = match (negative, directive.plus, directive.space) {
        (true, _, _) => "-",
        (false, true, _) => "+",
        (false, false, true) => " ",
        _ => "",
    };
    let mut digits = digits.to_owned();
    if directive.zero && !directive.left && zeros {
        let width = directive.width.unwrap_or(0).saturating_sub(sign.len() + prefix.len());
        while digits.len() < width {
            digits.insert(0, '0');
        }
    }
    pad(out, directive, &format!("{sign}{prefix}{digits}"));
}

fn floating(out: &mut String, directive: &Directive, float: f64, conversion: char) {
    let negative = float.is_sign_negative() && !float.is_nan();
    let size = float.abs();
    if !float.is_finite() {
        let text = if float.is_nan() { "NaN" } else { "Inf" };
        let plain = Directive { zero: false, precision: None, ..Directive { ..copy(directive) } };
        return signed(out, &plain, negative, "", text, false);
    }
    let wanted = directive.precision.unwrap_or(6);
    // No float has more digits than that: the others are zeros.
    let precision = wanted.min(MAX_DIGITS);
    let zeros = "0".repeat(wanted - precision);
    let digits = match conversion {
        'f' => format!("{size:.precision$}{zeros}"),
        'e' | 'E' => {
            exponent(size, precision, conversion).replacen(conversion, &format!("{zeros}{conversion}"), 1)
        }
        _ => general(size, precision.max(1), conversion, directive.alternate),
    };
    signed(out, directive, negative, "", &digits, true);
}

fn copy(directive: &Directive) -> Directive {
    Directive { ..*directive }
}

fn exponent(size: f64, precision: usize, conversion: char) -> String {
    let text = format!("{size:.precision$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let letter = if conversion.is_uppercase() { 'E' } else { 'e' };
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}{letter}{sign}{:02}", exponent.abs())
}

fn general(size: f64, precision: usize, conversion: char, keep: bool) -> String {
    let scientific = format!("{size:.*e}", precision - 1);
    let power: i32 = scientific.split_once('e').and_then(|(_, power)| power.parse().ok()).unwrap_or(0);
    let trim = |text: String| {
        if keep || !text.contains('.') {
            text
        } else {
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
    };
    if power < -4 || power >= precision as i32 {
        let text = exponent(size, precision - 1, if conversion == 'G' { 'E' } else { 'e' });
        let at = text.find(['e', 'E']).unwrap_or(text.len());
        return trim(text[..at].to_owned()) + &text[at..];
    }
    let decimals = (precision as i32 - 1 - power).max(0) as usize;
    trim(format!("{size:.decimals$}"))
}

fn pad(out: &mut String, directive: &Directive, text: &str) {
    let width = directive.width.unwrap_or(0);
    let missing = width.saturating_sub(text.chars().count());
    if directive.left {
        out.push_str(text);
        out.extend(std::iter::repeat_n(' ', missing));
    } else {
        out.extend(std::iter::repeat_n(' ', missing));
        out.push_str(text);
    }
}
