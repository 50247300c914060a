//! Rounding of floats to a number of digits.
//!
//! The operations and their order are the same as in Ruby, because each operation can change the last bit of
//! the result.

use num_bigint::BigInt;

use super::show::float_to_s;
use crate::evaluator::eval::{Args, EvalResult, Interpreter};
use crate::evaluator::value::{RHash, Value};

/// The direction in which a value halfway between two results is rounded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Half {
    Up,
    Even,
    Down,
}

impl Interpreter {
    /// Reads the option `half:` of a call to `round`. Other keywords and values raise `ArgumentError`.
    pub(super) fn read_half_option(&mut self, args: &Args) -> EvalResult<Half> {
        let unknown = args.options().and_then(|options| {
            options.pairs().into_iter().map(|(key, _)| key).find(|key| !key.is_same(&Value::symbol("half")))
        });
        if let Some(unknown) = unknown {
            let key_text = self.inspect(&unknown)?;
            return self.raise_argument_error(format!("unknown keyword: {key_text}"));
        }
        let half = match args.options().and_then(|options| options.get_symbol("half")) {
            None | Some(Value::Nil) => return Ok(Half::Up),
            Some(Value::Symbol(half)) => half.to_string(),
            Some(other) => self.string_arg(&other)?,
        };
        match half.as_str() {
            "up" => Ok(Half::Up),
            "even" => Ok(Half::Even),
            "down" => Ok(Half::Down),
            _ => self.raise_argument_error(format!("invalid rounding mode: {half}")),
        }
    }

    /// Implements `round`, `floor`, `ceil` and `truncate`.
    pub(super) fn round_float(&mut self, float: f64, name: &str, args: &Args) -> EvalResult<Value> {
        let digits = match args.positional().first() {
            Some(digits) => self.int_arg(&digits.clone())?,
            None => 0,
        };
        let half = if name == "round" { self.read_half_option(args)? } else { Half::Up };
        let name = match name {
            "truncate" if float > 0.0 => "floor",
            "truncate" => "ceil",
            other => other,
        };
        if digits > 0 {
            return Ok(Value::Float(round_to_digits(float, name, digits, half)));
        }
        if !float.is_finite() {
            return Err(self.ruby_error("FloatDomainError", float_to_s(float)));
        }
        if digits == 0 {
            return self.float_to_int(round_to_whole(float, name, half));
        }
        let integer = self.float_to_int(match name {
            "floor" => float.floor(),
            "ceil" => float.ceil(),
            _ => float.trunc(),
        })?;
        let mut list = vec![Value::Int(digits)];
        let has_keywords = name == "round";
        if has_keywords {
            let half = match half {
                Half::Up => "up",
                Half::Even => "even",
                Half::Down => "down",
            };
            list.push(Value::hash(RHash::from_pairs([(Value::symbol("half"), Value::symbol(half))])));
        }
        self.call_with_args(&integer, name, Args { list, has_keywords, block: None })
    }
}

/// Rounds to a whole number.
fn round_to_whole(float: f64, name: &str, half: Half) -> f64 {
    match (name, half) {
        ("floor", _) => float.floor(),
        ("ceil", _) => float.ceil(),
        (_, Half::Up) => float.round(),
        (_, Half::Even) => float.round_ties_even(),
        (_, Half::Down) => {
            // As in Ruby, this can subtract one from a float that is too large to have a fraction.
            let nearest = float.round();
            if float > 0.0 && nearest - 0.5 >= float {
                nearest - 1.0
            } else if float <= 0.0 && nearest + 0.5 <= float {
                nearest + 1.0
            } else {
                nearest
            }
        }
    }
}

/// Rounds to a positive number of digits after the point.
fn round_to_digits(float: f64, name: &str, digits: i64, half: Half) -> f64 {
    if float == 0.0 || !float.is_finite() {
        return float;
    }
    let power = binary_power(float);
    // A float of this size has no further digits, so rounding does not change it.
    if digits >= 17 - (if power > 0 { power / 4 } else { power / 3 - 1 }) {
        return float;
    }
    let below_last_digit = digits < -(if power > 0 { power / 3 + 1 } else { power / 4 });
    let towards_zero = match name {
        "floor" => float > 0.0,
        "ceil" => float < 0.0,
        _ => true,
    };
    if below_last_digit && towards_zero {
        return 0.0;
    }
    if name == "round" && digits > 14 {
        return round_exactly(float, digits, half);
    }
    let scale = 10f64.powi(digits as i32);
    match name {
        "floor" => {
            let floor = (float * scale).floor();
            let next_step = (floor + 1.0) / scale;
            if next_step > float { floor / scale } else { next_step }
        }
        // Ruby 3.1 does not correct the product for `ceil`.
        "ceil" => (float * scale).ceil() / scale,
        _ => round_scaled(float.abs(), scale, half).copysign(float) / scale,
    }
}

/// Rounds `magnitude * scale`. The product can be inexact, so a tie is also recognised by dividing the result
/// by the scale again.
fn round_scaled(magnitude: f64, scale: f64, half: Half) -> f64 {
    let product = magnitude * scale;
    let nearest = product.round();
    match half {
        Half::Up if (nearest + 0.5) / scale <= magnitude => nearest + 1.0,
        Half::Down if (nearest - 0.5) / scale >= magnitude => nearest - 1.0,
        Half::Up | Half::Down => nearest,
        Half::Even => {
            let lower = product.floor();
            let rest = product - lower;
            if rest > 0.5 {
                lower + 1.0
            } else if rest == 0.5 || (lower + 0.5) / scale <= magnitude {
                lower + lower % 2.0
            } else {
                lower
            }
        }
    }
}

/// Returns the exponent of the smallest power of two that is greater than the magnitude of a float.
fn binary_power(float: f64) -> i64 {
    let bits = ((float.to_bits() >> 52) & 0x7ff) as i64;
    if bits == 0 { binary_power(float * 2f64.powi(54)) - 54 } else { bits - 1022 }
}

/// Rounds the exact value of a float, as a fraction of integers. The result is divided as Ruby divides
/// integers.
fn round_exactly(float: f64, digits: i64, half: Half) -> f64 {
    let power = binary_power(float) - 53;
    // Only a float below ten can have this many digits after the point, and its power is negative.
    if power >= 0 {
        return float;
    }
    let mantissa = BigInt::from((float.abs() * 2f64.powi(-power as i32)) as u64);
    let tens = BigInt::from(10).pow(digits as u32);
    let divisor = BigInt::from(1) << -power;
    let product = mantissa * &tens;
    let (quotient, rest) = (&product / &divisor, (&product % &divisor) * 2 - divisor);
    let zero = BigInt::from(0);
    let round_up = match half {
        Half::Up => rest >= zero,
        Half::Down => rest > zero,
        Half::Even => rest > zero || rest == zero && quotient.bit(0),
    };
    let integer = quotient + i32::from(round_up);
    if integer == zero {
        return 0.0;
    }
    let common = gcd(integer.clone(), tens.clone());
    let as_fixnum = |number: BigInt| i64::try_from(number).ok().filter(|number| *number < 1 << 62);
    let magnitude = match (as_fixnum(&integer / &common), as_fixnum(tens / common)) {
        (Some(numerator), Some(denominator)) => numerator as f64 / denominator as f64,
        _ => format!("{integer}e-{digits}").parse().unwrap_or(float),
    };
    magnitude.copysign(float)
}

fn gcd(mut a: BigInt, mut b: BigInt) -> BigInt {
    while b != BigInt::from(0) {
        (a, b) = (b.clone(), a % b);
    }
    a
}
