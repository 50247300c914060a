//! `format`, `sprintf` and `String#%`.

mod hex_float;

use std::iter::Peekable;
use std::str::Chars;

use num_bigint::BigInt;

use hex_float::hex_float;

use crate::evaluator::eval::{EvalResult, Interpreter};
use crate::evaluator::methods::{to_big, to_f64};
use crate::evaluator::value::Value;

/// The flags, width and precision of one directive.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct FormatDirective {
    /// Has the flag `-`, or a negative width, which means the same.
    has_minus: bool,
    has_zero: bool,
    has_plus: bool,
    has_space: bool,
    has_hash: bool,
    width: Option<usize>,
    precision: Option<usize>,
}

/// Maximum width and precision.
const MAX_WIDTH_CHARS: i64 = 1 << 20;
/// An upper bound for the number of digits of a float after the point.
const MAX_DIGITS: usize = 1100;

/// The ways in which directives refer to values. A template cannot mix them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reference {
    InOrder,
    ByNumber,
    ByName,
}

/// The values that are formatted.
struct Values<'a> {
    list: &'a [Value],
    next: usize,
    reference: Option<Reference>,
}

impl Values<'_> {
    /// Raises `ArgumentError` if another kind of reference was used before.
    fn check_reference(&mut self, interpreter: &mut Interpreter, reference: Reference) -> EvalResult<()> {
        if *self.reference.get_or_insert(reference) == reference {
            return Ok(());
        }
        interpreter.raise_argument_error("numbered, unnumbered and named values are mixed")
    }

    fn take_next(&mut self, interpreter: &mut Interpreter) -> EvalResult<Value> {
        self.check_reference(interpreter, Reference::InOrder)?;
        self.next += 1;
        match self.list.get(self.next - 1) {
            Some(value) => Ok(value.clone()),
            None => interpreter.raise_argument_error("too few arguments"),
        }
    }

    fn value_at(&mut self, interpreter: &mut Interpreter, number: i64) -> EvalResult<Value> {
        self.check_reference(interpreter, Reference::ByNumber)?;
        match usize::try_from(number - 1).ok().and_then(|index| self.list.get(index)) {
            Some(value) => Ok(value.clone()),
            None => interpreter.raise_argument_error("too few arguments"),
        }
    }

    /// Returns the value with this name. `reference` is its text in the template, for the error.
    fn value_named(
        &mut self,
        interpreter: &mut Interpreter,
        name: &str,
        reference: &str,
    ) -> EvalResult<Value> {
        self.check_reference(interpreter, Reference::ByName)?;
        let [Value::Hash(hash)] = self.list else {
            return interpreter.raise_argument_error("one hash required");
        };
        let hash = std::rc::Rc::clone(hash);
        match hash.get_symbol(name) {
            Some(value) => Ok(value),
            None => match interpreter.look_up_in_hash(&hash, &Value::symbol(name))? {
                Value::Nil => Err(interpreter.ruby_error("KeyError", format!("key{reference} not found"))),
                default => Ok(default),
            },
        }
    }
}

/// Implements `format(template, *values)`.
pub(crate) fn format(interpreter: &mut Interpreter, template: &str, values: &[Value]) -> EvalResult<String> {
    let mut output = String::new();
    let mut characters = template.chars().peekable();
    let mut values = Values { list: values, next: 0, reference: None };
    while let Some(character) = characters.next() {
        if character != '%' {
            output.push(character);
            continue;
        }
        let mut directive = FormatDirective::default();
        let mut argument: Option<Value> = None;
        loop {
            let has_size = directive.width.is_some() || directive.precision.is_some();
            let Some(flag) = characters.next() else {
                if argument.is_some() && directive == FormatDirective::default() {
                    output.push('%');
                    break;
                }
                return interpreter
                    .raise_argument_error("incomplete format specifier; use %% (double %) instead");
            };
            match flag {
                '-' | '0' | '+' | ' ' | '#' if has_size => {
                    return interpreter.raise_argument_error("flag after width");
                }
                '-' => directive.has_minus = true,
                '0' => directive.has_zero = true,
                '+' => directive.has_plus = true,
                ' ' => directive.has_space = true,
                '#' => directive.has_hash = true,
                '1'..='9' => {
                    let mut digits = flag.to_string();
                    digits.push_str(&digits_of(&mut characters));
                    let number: i64 = digits.parse().unwrap_or(MAX_WIDTH_CHARS + 1);
                    if characters.peek() == Some(&'$') {
                        characters.next();
                        if argument.is_some() {
                            return interpreter.raise_argument_error("value given twice");
                        }
                        argument = Some(values.value_at(interpreter, number)?);
                        continue;
                    }
                    if has_size {
                        return interpreter.raise_argument_error("width given twice");
                    }
                    directive.width = Some(check_width(interpreter, number)?);
                }
                '*' => {
                    if has_size {
                        return interpreter.raise_argument_error("width given twice");
                    }
                    if characters.peek().is_some_and(char::is_ascii_digit) {
                        return Err(interpreter.unsupported_error("a width from a numbered value"));
                    }
                    let width = values.take_next(interpreter)?;
                    let width = interpreter.int_arg(&width)?;
                    directive.has_minus |= width < 0;
                    directive.width = Some(check_width(interpreter, width.saturating_abs())?);
                }
                '.' => {
                    if directive.precision.is_some() {
                        return interpreter.raise_argument_error("precision given again");
                    }
                    let number = if characters.peek() == Some(&'*') {
                        characters.next();
                        let value = values.take_next(interpreter)?;
                        interpreter.int_arg(&value)?.max(0)
                    } else {
                        let digits = digits_of(&mut characters);
                        if digits.is_empty() { 0 } else { digits.parse().unwrap_or(MAX_WIDTH_CHARS + 1) }
                    };
                    directive.precision = Some(check_width(interpreter, number)?);
                }
                '<' | '{' => {
                    let close = if flag == '<' { '>' } else { '}' };
                    let mut name = String::new();
                    loop {
                        match characters.next() {
                            Some(end) if end == close => break,
                            Some(letter) => name.push(letter),
                            None => {
                                return interpreter
                                    .raise_argument_error("malformed name - unmatched parenthesis");
                            }
                        }
                    }
                    if argument.is_some() {
                        return interpreter
                            .raise_argument_error(format!("named{flag}{name}{close} after another"));
                    }
                    let value = values.value_named(interpreter, &name, &format!("{flag}{name}{close}"))?;
                    if flag == '{' {
                        let text = interpreter.text_of(&value)?;
                        push_padded(&mut output, &directive, &truncate(text, &directive));
                        break;
                    }
                    argument = Some(value);
                }
                '%' | '\n' | '\0' => {
                    if directive != FormatDirective::default() {
                        return interpreter.raise_argument_error("invalid format character - %");
                    }
                    output.push('%');
                    if flag != '%' {
                        output.push(flag);
                    }
                    break;
                }
                conversion => {
                    let value = match argument.take() {
                        Some(value) => value,
                        None => values.take_next(interpreter)?,
                    };
                    push_converted(interpreter, &mut output, conversion, &directive, &value)?;
                    break;
                }
            }
        }
        interpreter.use_scratch(16)?;
    }
    interpreter.use_scratch(output.len())?;
    Ok(output)
}

fn digits_of(characters: &mut Peekable<Chars<'_>>) -> String {
    let mut digits = String::new();
    while let Some(digit) = characters.next_if(char::is_ascii_digit) {
        digits.push(digit);
    }
    digits
}

/// Checks a width or precision, and counts the memory for it.
fn check_width(interpreter: &mut Interpreter, number: i64) -> EvalResult<usize> {
    if number > MAX_WIDTH_CHARS {
        return interpreter.raise_argument_error("width too big");
    }
    interpreter.use_scratch(number.max(0) as usize)?;
    Ok(number.max(0) as usize)
}

/// Shortens a text to the precision.
fn truncate(text: String, directive: &FormatDirective) -> String {
    match directive.precision {
        Some(precision) => text.chars().take(precision).collect(),
        None => text,
    }
}

/// Appends one value by its conversion, such as `d` or `s`.
fn push_converted(
    interpreter: &mut Interpreter,
    output: &mut String,
    conversion: char,
    directive: &FormatDirective,
    value: &Value,
) -> EvalResult<()> {
    match conversion {
        's' => {
            let text = interpreter.text_of(value)?;
            push_padded(output, directive, &truncate(text, directive));
        }
        'p' => {
            let text = interpreter.inspect(value)?;
            push_padded(output, directive, &truncate(text, directive));
        }
        'c' => {
            let text = match value {
                Value::Str(text) => text.get().clone(),
                code => {
                    let code = interpreter.int_arg(code)?;
                    match u32::try_from(code).ok().and_then(char::from_u32) {
                        Some(character) => character.to_string(),
                        // Ruby turns these codes into bytes that are not valid text.
                        None if matches!(code, -127..=-1 | 0xd800..=0xdfff) => {
                            return Err(interpreter.unsupported_error(format!("the character {code}")));
                        }
                        None if i32::try_from(code).is_err() => {
                            let size = if code < 0 { "small" } else { "big" };
                            let text = format!("integer {code} too {size} to convert to `int'");
                            return Err(interpreter.ruby_error("RangeError", text));
                        }
                        None => return interpreter.raise_argument_error("invalid character"),
                    }
                }
            };
            if text.chars().count() != 1 {
                return interpreter.raise_argument_error("%c requires a character");
            }
            push_padded(output, directive, &text);
        }
        'd' | 'i' | 'u' => {
            let value = to_big(&interpreter.convert_to_integer(value, 0)?);
            push_number(output, directive, &value, 10, "");
        }
        'x' | 'X' | 'o' | 'b' | 'B' => {
            let value = to_big(&interpreter.convert_to_integer(value, 0)?);
            if value < BigInt::from(0) && !directive.has_plus && !directive.has_space {
                return Err(interpreter.unsupported_error("a negative number in two's complement"));
            }
            let (radix, prefix) = match conversion {
                'x' | 'X' => (16, if conversion == 'x' { "0x" } else { "0X" }),
                'o' => (8, ""),
                _ => (2, if conversion == 'b' { "0b" } else { "0B" }),
            };
            let has_prefix = directive.has_hash && value != BigInt::from(0);
            let mut text = String::new();
            push_number(&mut text, directive, &value, radix, if has_prefix { prefix } else { "" });
            output.push_str(&if conversion == 'X' { text.to_uppercase() } else { text });
        }
        'f' | 'e' | 'E' | 'g' | 'G' | 'a' | 'A' => {
            let float = match value {
                // An integer is not converted to a float, so that it keeps all its digits.
                Value::Int(_) | Value::Big(_) if conversion == 'f' => {
                    let value = to_big(value);
                    let mut digits = value.magnitude().to_string();
                    let precision = directive.precision.unwrap_or(6);
                    if precision > 0 {
                        digits = format!("{digits}.{}", "0".repeat(precision));
                    }
                    push_digits(output, directive, value < BigInt::from(0), "", &digits, true);
                    return Ok(());
                }
                other => to_f64(&interpreter.convert_to_float(other)?),
            };
            push_float(output, directive, float, conversion);
        }
        other => return interpreter.raise_argument_error(format!("malformed format string - %{other}")),
    }
    Ok(())
}

fn push_number(output: &mut String, directive: &FormatDirective, value: &BigInt, radix: u32, prefix: &str) {
    let is_negative = *value < BigInt::from(0);
    let mut digits = value.magnitude().to_str_radix(radix);
    if directive.precision == Some(0) && digits == "0" {
        digits.clear();
    }
    if radix == 8 && directive.has_hash && !digits.starts_with('0') {
        digits.insert(0, '0');
    }
    if let Some(precision) = directive.precision {
        while digits.len() < precision {
            digits.insert(0, '0');
        }
    }
    push_digits(output, directive, is_negative, prefix, &digits, directive.precision.is_none());
}

/// Appends digits with their sign and prefix. `pads_with_zeros` allows the flag `0`.
fn push_digits(
    output: &mut String,
    directive: &FormatDirective,
    is_negative: bool,
    prefix: &str,
    digits: &str,
    pads_with_zeros: bool,
) {
    let sign = match (is_negative, directive.has_plus, directive.has_space) {
        (true, _, _) => "-",
        (false, true, _) => "+",
        (false, false, true) => " ",
        _ => "",
    };
    let mut digits = digits.to_owned();
    if directive.has_zero && !directive.has_minus && pads_with_zeros {
        let width = directive.width.unwrap_or(0).saturating_sub(sign.len() + prefix.len());
        while digits.len() < width {
            digits.insert(0, '0');
        }
    }
    push_padded(output, directive, &format!("{sign}{prefix}{digits}"));
}

/// Appends a float in the form of `%f`, `%e`, `%g` or `%a`.
fn push_float(output: &mut String, directive: &FormatDirective, float: f64, conversion: char) {
    let is_negative = float.is_sign_negative() && !float.is_nan();
    let magnitude = float.abs();
    if !float.is_finite() {
        let text = if float.is_nan() { "NaN" } else { "Inf" };
        let unpadded_directive = FormatDirective { has_zero: false, precision: None, ..*directive };
        return push_digits(output, &unpadded_directive, is_negative, "", text, false);
    }
    if matches!(conversion, 'a' | 'A') {
        let digits = hex_float(magnitude, directive.precision, directive.has_hash);
        let mut text = String::new();
        push_digits(&mut text, directive, is_negative, "0x", &digits, true);
        output.push_str(&if conversion == 'A' { text.to_uppercase() } else { text });
        return;
    }
    let full_precision = directive.precision.unwrap_or(6);
    // No float has more digits, so the remaining ones are zeros.
    let precision = full_precision.min(MAX_DIGITS);
    let zeros = "0".repeat(full_precision - precision);
    let mut digits = match conversion {
        'f' => format!("{magnitude:.precision$}{zeros}"),
        'e' | 'E' => exponent_form(magnitude, precision, conversion).replacen(
            conversion,
            &format!("{zeros}{conversion}"),
            1,
        ),
        _ => general_form(magnitude, precision.max(1), conversion, directive.has_hash),
    };
    if directive.has_hash && !digits.contains('.') {
        digits.insert(digits.find(['e', 'E']).unwrap_or(digits.len()), '.');
    }
    push_digits(output, directive, is_negative, "", &digits, true);
}

/// Writes a number with an exponent, as `%e` does.
fn exponent_form(magnitude: f64, precision: usize, conversion: char) -> String {
    let text = format!("{magnitude:.precision$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let letter = if conversion.is_uppercase() { 'E' } else { 'e' };
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}{letter}{sign}{:02}", exponent.abs())
}

/// Writes a number as `%g` does. `keeps_zeros` keeps the zeros at the end of the fraction.
fn general_form(magnitude: f64, precision: usize, conversion: char, keeps_zeros: bool) -> String {
    let scientific = format!("{magnitude:.*e}", precision - 1);
    let power: i32 = scientific.split_once('e').and_then(|(_, power)| power.parse().ok()).unwrap_or(0);
    let trim = |text: String| {
        if keeps_zeros || !text.contains('.') {
            text
        } else {
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
    };
    if power < -4 || power >= precision as i32 {
        let text = exponent_form(magnitude, precision - 1, if conversion == 'G' { 'E' } else { 'e' });
        let exponent_start = text.find(['e', 'E']).unwrap_or(text.len());
        return trim(text[..exponent_start].to_owned()) + &text[exponent_start..];
    }
    let decimals = (precision as i32 - 1 - power).max(0) as usize;
    trim(format!("{magnitude:.decimals$}"))
}

/// Appends a text padded with spaces to the width.
fn push_padded(output: &mut String, directive: &FormatDirective, text: &str) {
    let width = directive.width.unwrap_or(0);
    let padding = width.saturating_sub(text.chars().count());
    if directive.has_minus {
        output.push_str(text);
        output.extend(std::iter::repeat_n(' ', padding));
    } else {
        output.extend(std::iter::repeat_n(' ', padding));
        output.push_str(text);
    }
}
