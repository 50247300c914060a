//! Methods of Integer, and arithmetic between numbers.

use std::cmp::Ordering;

use num_bigint::{BigInt, Sign};

use super::compare::{compare_numbers, to_big, to_f64};
use super::float_round::Half;
use crate::evaluator::eval::{Args, EvalResult, Flow, Interpreter};
use crate::evaluator::value::{VALUE_BYTES, Value};

/// Maximum size of an integer, in bits.
const MAX_BITS: u64 = 1 << 20;

impl Interpreter {
    /// Calls a method of Integer. Returns `None` if Integer does not implement it.
    pub(super) fn call_integer_method(
        &mut self,
        receiver: &Value,
        name: &str,
        args: &Args,
    ) -> EvalResult<Option<Value>> {
        if let (Value::Int(a), Some(Value::Int(b)), 1) = (receiver, args.get(0), args.len())
            && let Some(value) = apply_small_operator(*a, *b, name)
        {
            return Ok(Some(value));
        }
        if let (Some(other), 1) = (args.get(0), args.len())
            && let Some(value) = self.apply_number_operator(receiver, name, other)?
        {
            return Ok(Some(value));
        }
        Ok(Some(match name {
            "-@" => Value::integer(-to_big(receiver)),
            "+@" | "to_i" | "to_int" | "ord" | "numerator" => receiver.clone(),
            "~" => Value::integer(-to_big(receiver) - 1),
            "to_s" | "inspect" => {
                let radix = self.int_or(args, 0, 10)?;
                if !(2..=36).contains(&radix) {
                    return self.raise_argument_error(format!("invalid radix {radix}"));
                }
                Value::str(to_big(receiver).to_str_radix(radix as u32))
            }
            "to_f" => Value::Float(to_f64(receiver)),
            "chr" => {
                let code = self.int_arg(receiver)?;
                match args.get(0).cloned() {
                    None => {}
                    Some(Value::Str(name)) if name.get().eq_ignore_ascii_case("UTF-8") => {}
                    Some(encoding @ Value::Object(_)) if encoding.is_same(&self.encoding("UTF-8")?) => {}
                    Some(Value::Str(_) | Value::Object(_)) => {
                        return Err(self.unsupported_error("Integer#chr in another encoding than UTF-8"));
                    }
                    Some(other) => return self.raise_conversion_error(&other, "String"),
                }
                match (u32::try_from(code).ok().and_then(char::from_u32), args.is_empty()) {
                    // Control characters are shown like those of a binary string.
                    (Some(character), _) if code < 128 && !character.is_ascii_control() => {
                        Value::str(character.to_string())
                    }
                    (Some(_), true) if code < 256 => {
                        Value::Str(std::rc::Rc::new(crate::evaluator::value::RString::from_bytes(&[
                            code as u8
                        ])))
                    }
                    (Some(character), false) => Value::str(character.to_string()),
                    _ => return Err(self.ruby_error("RangeError", format!("{code} out of char range"))),
                }
            }
            "times" | "upto" | "downto" if args.block.is_none() => {
                self.create_enumerator(receiver, name, args.list.clone())?
            }
            "times" | "upto" | "downto" => self.count_numbers(receiver, name, args)?,
            "step" => self.step_number(receiver, args)?,
            "zero?" => Value::Bool(matches!(receiver, Value::Int(0))),
            "positive?" => Value::Bool(to_big(receiver) > BigInt::from(0)),
            "negative?" => Value::Bool(to_big(receiver) < BigInt::from(0)),
            "nonzero?" => {
                if matches!(receiver, Value::Int(0)) {
                    Value::Nil
                } else {
                    receiver.clone()
                }
            }
            "even?" => Value::Bool((to_big(receiver) % 2) == BigInt::from(0)),
            "odd?" => Value::Bool((to_big(receiver) % 2) != BigInt::from(0)),
            "integer?" | "finite?" | "real?" => Value::Bool(true),
            "infinite?" => Value::Nil,
            "nan?" => return Ok(None),
            "succ" | "next" => Value::integer(to_big(receiver) + 1),
            "pred" => Value::integer(to_big(receiver) - 1),
            "abs" | "magnitude" => {
                let value = to_big(receiver);
                Value::integer(if value < BigInt::from(0) { -value } else { value })
            }
            "floor" | "ceil" | "round" | "truncate" => {
                let digits = match args.positional().first() {
                    Some(digits) => self.int_arg(&digits.clone())?,
                    None => 0,
                };
                if digits >= 0 {
                    return Ok(Some(receiver.clone()));
                }
                let half = if name == "round" { self.read_half_option(args)? } else { Half::Up };
                let value = to_big(receiver);
                // As in Ruby, the result is 0 if the unit has clearly more bytes than the number. A decimal
                // digit needs log2(10) / 8 = 0.415241 bytes.
                let bytes = value.bits().div_ceil(8).max(8) as f64;
                if -0.415241 * digits as f64 - 0.125 > bytes {
                    return Ok(Some(Value::Int(0)));
                }
                let unit = BigInt::from(10).pow((-digits) as u32);
                let floor = div_floor(&value, &unit) * &unit;
                let rest = &value - &floor;
                Value::integer(match name {
                    "floor" => floor,
                    // Ruby 3.1 returns a multiple of the unit unchanged only if it fits into 62 bits.
                    "ceil" if rest == BigInt::from(0) && is_fixnum(&value) && is_fixnum(&unit) => floor,
                    "ceil" => floor + unit,
                    "truncate" => &value - (&value % &unit),
                    _ => {
                        let doubled_rest = rest * 2;
                        let tie_goes_up = match half {
                            Half::Up => value >= BigInt::from(0),
                            Half::Down => value < BigInt::from(0),
                            Half::Even => (&floor / &unit).bit(0),
                        };
                        if doubled_rest > unit || doubled_rest == unit && tie_goes_up {
                            floor + unit
                        } else {
                            floor
                        }
                    }
                })
            }
            "digits" => {
                if to_big(receiver).sign() == Sign::Minus {
                    return Err(self.ruby_error("Math::DomainError", "out of domain"));
                }
                let base = match args.get(0).cloned() {
                    None => BigInt::from(10),
                    Some(base @ (Value::Int(_) | Value::Big(_))) => to_big(&base),
                    Some(Value::Float(_)) => {
                        return Err(self.unsupported_error("Integer#digits with a float"));
                    }
                    Some(other) => {
                        let class = self.class_of(&other).label();
                        return self
                            .raise_type_error(format!("wrong argument type {class} (expected Integer)"));
                    }
                };
                let mut value = to_big(receiver);
                if base.sign() == Sign::Minus {
                    return self.raise_argument_error("negative radix");
                }
                if base < BigInt::from(2) {
                    return self.raise_argument_error(format!("invalid radix {base}"));
                }
                let mut digits = Vec::new();
                loop {
                    self.step(1 + value.bits() / 256)?;
                    self.use_scratch(2 * VALUE_BYTES)?;
                    digits.push(Value::integer(&value % &base));
                    value /= &base;
                    if value.sign() == Sign::NoSign {
                        break;
                    }
                }
                Value::array(digits)
            }
            "gcd" | "lcm" => {
                let other = self.arg(args, 0)?;
                if !matches!(other, Value::Int(_) | Value::Big(_)) {
                    return self.raise_type_error("not an integer");
                }
                let (a, b) = (to_big(receiver), to_big(&other));
                let divisor = self.common_divisor(&a, &b)?;
                if name == "gcd" {
                    Value::integer(divisor)
                } else if divisor.sign() == Sign::NoSign {
                    Value::Int(0)
                } else {
                    Value::integer((a / divisor * b).magnitude().clone().into())
                }
            }
            "bit_length" => {
                let value = to_big(receiver);
                let magnitude = if value.sign() == Sign::Minus { -value - 1 } else { value };
                Value::Int(magnitude.bits() as i64)
            }
            "[]" => {
                let (bit, count) = match args.list.as_slice() {
                    [] => {
                        return self
                            .raise_argument_error("wrong number of arguments (given 0, expected 1..2)");
                    }
                    [Value::Big(bit)] => {
                        let is_set = bit.sign() == Sign::Plus && to_big(receiver).sign() == Sign::Minus;
                        return Ok(Some(Value::Int(i64::from(is_set))));
                    }
                    [Value::Range(range)] if !range.end.is_nil() => {
                        let (start, end) = (self.int_arg(&range.begin)?, self.int_arg(&range.end)?);
                        if end <= start {
                            return Err(self.unsupported_error("Integer#[] with a range without bits"));
                        }
                        (start, end.saturating_sub(start).saturating_add(i64::from(!range.excludes_end)))
                    }
                    [Value::Range(_)] => {
                        return Err(self.unsupported_error("Integer#[] with an endless range"));
                    }
                    [_, _] => (self.int_or(args, 0, 0)?, self.int_or(args, 1, 0)?),
                    _ => (self.int_or(args, 0, 0)?, 1),
                };
                if count != 1 {
                    if bit < 0 || !(0..=4096).contains(&count) {
                        return Err(self.unsupported_error("Integer#[] with these bits"));
                    }
                    let mask = (BigInt::from(1) << (count as u64)) - 1;
                    Value::integer((to_big(receiver) >> (bit as u64)) & mask)
                } else if bit < 0 {
                    Value::Int(0)
                } else {
                    Value::integer((to_big(receiver) >> (bit as u64)) & BigInt::from(1))
                }
            }
            "size" => match receiver {
                Value::Big(big) => Value::Int(big.bits().div_ceil(8).max(8) as i64),
                _ => Value::Int(8),
            },
            "pow" if args.len() == 2 => {
                let (exponent, modulus) = (self.arg(args, 0)?, self.arg(args, 1)?);
                let is_integer = |value: &Value| matches!(value, Value::Int(_) | Value::Big(_));
                if !is_integer(&exponent) || !is_integer(&modulus) {
                    return self
                        .raise_type_error("Integer#pow() 2nd argument not allowed unless all are integers");
                }
                let (exponent, modulus) = (to_big(&exponent), to_big(&modulus));
                if exponent < BigInt::from(0)
                    || modulus == BigInt::from(0)
                    || modulus.sign() == Sign::Minus && modulus.bits() > 62
                {
                    return Err(self.unsupported_error("Integer#pow with this exponent or modulus"));
                }
                let limbs = modulus.bits() / 64 + 1;
                self.step(exponent.bits().saturating_mul(limbs.saturating_mul(limbs)) / 32)?;
                Value::integer(to_big(receiver).modpow(&exponent, &modulus))
            }
            "dup" | "clone" => receiver.clone(),
            "coerce" => match self.arg(args, 0)? {
                other @ (Value::Int(_) | Value::Big(_)) => Value::array(vec![other, receiver.clone()]),
                other => Value::array(vec![self.convert_to_float(&other)?, self.convert_to_float(receiver)?]),
            },
            "between?" | "clamp" => return self.call_comparable_method(receiver, name, args),
            "allbits?" | "anybits?" | "nobits?" => {
                let mask = match self.arg(args, 0)? {
                    mask @ (Value::Int(_) | Value::Big(_)) => mask,
                    Value::Float(mask) => self.float_to_int(mask.trunc())?,
                    other => Value::Int(self.int_arg(&other)?),
                };
                let common_bits = to_big(receiver) & to_big(&mask);
                Value::Bool(match name {
                    "allbits?" => common_bits == to_big(&mask),
                    "anybits?" => common_bits != BigInt::from(0),
                    _ => common_bits == BigInt::from(0),
                })
            }
            _ => return Ok(None),
        }))
    }

    /// Applies an arithmetic or comparison operator to two numbers. Returns `None` if `name` is not such an
    /// operator.
    pub(super) fn apply_number_operator(
        &mut self,
        a: &Value,
        name: &str,
        b: &Value,
    ) -> EvalResult<Option<Value>> {
        const OPERATORS: &[&str] = &[
            "+",
            "-",
            "*",
            "/",
            "%",
            "modulo",
            "**",
            "pow",
            "<",
            ">",
            "<=",
            ">=",
            "<=>",
            "&",
            "|",
            "^",
            "<<",
            ">>",
            "div",
            "fdiv",
            "divmod",
            "remainder",
            "quo",
        ];
        if !OPERATORS.contains(&name) {
            return Ok(None);
        }
        if matches!(name, "&" | "|" | "^" | "<<" | ">>") {
            match (a, b) {
                (Value::Float(_), _) => return Ok(None),
                (_, Value::Float(_)) if name.len() == 2 => {
                    let distance = self.int_arg(b)?;
                    return self.apply_number_operator(a, name, &Value::Int(distance));
                }
                (_, Value::Float(_)) => {
                    return self.raise_type_error("can't convert Float into Integer for bitwise operation");
                }
                _ => {}
            }
        }
        let is_numeric = |value: &Value| matches!(value, Value::Int(_) | Value::Big(_) | Value::Float(_));
        if !is_numeric(b) {
            return match name {
                "<=>" => Ok(Some(Value::Nil)),
                "<" | ">" | "<=" | ">=" => {
                    let left = self.class_of(a).label();
                    let right = self.comparison_text(b)?;
                    self.raise_argument_error(format!("comparison of {left} with {right} failed"))
                }
                _ => {
                    if matches!(b, Value::Object(_)) && self.responds_to(b, "coerce") {
                        let pair = self.call(b, "coerce", vec![a.clone()])?;
                        let pair = self.array_arg(&pair)?;
                        if let [left, right] = pair.as_slice() {
                            return self.call(left, name, vec![right.clone()]).map(Some);
                        }
                    }
                    let target_class = self.class_of(a).label();
                    let source = match b {
                        Value::Nil => "nil".to_owned(),
                        Value::Bool(flag) => flag.to_string(),
                        other => self.class_of(other).label(),
                    };
                    self.raise_type_error(format!("{source} can't be coerced into {target_class}"))
                }
            };
        }
        if matches!(name, "<" | ">" | "<=" | ">=" | "<=>")
            && (matches!(a, Value::Float(_)) != matches!(b, Value::Float(_)))
        {
            let order = compare_numbers(a, b);
            return Ok(Some(match name {
                "<=>" => order.map_or(Value::Nil, |order| Value::Int(order as i64)),
                "<" => Value::Bool(order == Some(Ordering::Less)),
                ">" => Value::Bool(order == Some(Ordering::Greater)),
                "<=" => Value::Bool(order.is_some_and(Ordering::is_le)),
                _ => Value::Bool(order.is_some_and(Ordering::is_ge)),
            }));
        }
        if name == "fdiv" && !matches!(a, Value::Float(_)) && !matches!(b, Value::Float(_)) {
            return self.divide_to_float(a, b).map(Some);
        }
        if name == "remainder" && to_f64(b).is_infinite() && (to_f64(a) < 0.0) != (to_f64(b) < 0.0) {
            return Ok(Some(a.clone()));
        }
        // Ruby truncates this quotient of an integer beyond 62 bits.
        if let (Value::Int(_) | Value::Big(_), Value::Float(divisor), "div") = (a, b, name)
            && *divisor != 0.0
            && !is_fixnum(&to_big(a))
        {
            return self.float_to_int((to_f64(a) / divisor).trunc()).map(Some);
        }
        if matches!(a, Value::Float(_)) || matches!(b, Value::Float(_)) {
            return self.apply_float_operator(to_f64(a), name, to_f64(b)).map(Some);
        }
        if let (Value::Int(x), Value::Int(y)) = (a, b)
            && let Some(value) = apply_small_operator(*x, *y, name)
        {
            return Ok(Some(value));
        }
        let (x, y) = (to_big(a), to_big(b));
        let zero = BigInt::from(0);
        let divides = matches!(name, "/" | "%" | "modulo" | "div" | "divmod" | "remainder");
        if divides && y == zero {
            return Err(self.ruby_error("ZeroDivisionError", "divided by 0"));
        }
        Ok(Some(match name {
            "+" => Value::integer(x + y),
            "-" => Value::integer(x - y),
            "*" => {
                self.use_scratch(((x.bits() + y.bits()) / 8) as usize)?;
                if x.bits() + y.bits() > MAX_BITS {
                    return Err(self.too_many_bits_error());
                }
                Value::integer(x * y)
            }
            "/" | "div" => Value::integer(div_floor(&x, &y)),
            "%" | "modulo" => Value::integer(&x - div_floor(&x, &y) * &y),
            "remainder" => Value::integer(x % y),
            "divmod" => {
                let quotient = div_floor(&x, &y);
                let rest = &x - &quotient * &y;
                Value::array(vec![Value::integer(quotient), Value::integer(rest)])
            }
            "**" | "pow" => {
                if y < zero && x == zero {
                    return Err(self.ruby_error("ZeroDivisionError", "divided by 0"));
                }
                if y < zero {
                    return Err(self.unsupported_error("a rational number"));
                }
                let exponent = u32::try_from(&y).unwrap_or(u32::MAX);
                if x.bits().saturating_mul(u64::from(exponent)) > MAX_BITS && x.bits() > 1 {
                    return Err(self.too_many_bits_error());
                }
                self.use_scratch((x.bits() * u64::from(exponent) / 8).min(1 << 20) as usize)?;
                match (x.bits() <= 1, i64::try_from(&x)) {
                    (true, Ok(0)) => Value::Int(i64::from(exponent == 0)),
                    (true, Ok(1)) => Value::Int(1),
                    (true, Ok(_)) => Value::Int(if &y % 2 == zero { 1 } else { -1 }),
                    _ => Value::integer(x.pow(exponent)),
                }
            }
            "<=>" => Value::Int(x.cmp(&y) as i64),
            "<" => Value::Bool(x < y),
            ">" => Value::Bool(x > y),
            "<=" => Value::Bool(x <= y),
            ">=" => Value::Bool(x >= y),
            "&" => Value::integer(x & y),
            "|" => Value::integer(x | y),
            "^" => Value::integer(x ^ y),
            "<<" | ">>" => {
                let distance = i64::try_from(&y).unwrap_or(if y < zero { i64::MIN } else { i64::MAX });
                let shifts_left = (name == "<<") == (distance >= 0);
                let distance = distance.unsigned_abs();
                if shifts_left {
                    if x.bits().saturating_add(distance) > MAX_BITS && x != zero {
                        return Err(self.too_many_bits_error());
                    }
                    Value::integer(x << distance.min(MAX_BITS))
                } else {
                    Value::integer(x >> distance.min(MAX_BITS * 2))
                }
            }
            _ => return Err(self.unsupported_error("a rational number")),
        }))
    }

    fn too_many_bits_error(&self) -> Flow {
        self.unsupported_error(format!("an integer of more than {MAX_BITS} bits"))
    }

    /// Implements `fdiv` of two integers. As in Ruby, they are reduced first.
    fn divide_to_float(&mut self, a: &Value, b: &Value) -> EvalResult<Value> {
        let (x, y) = (to_big(a), to_big(b));
        let divisor = self.common_divisor(&x, &y)?;
        let (x, y) = match y.sign() {
            Sign::NoSign => (x, y),
            _ => (x / &divisor, y / &divisor),
        };
        if x.bits() > 62 || y.bits() > 62 {
            return Err(self.unsupported_error("Integer#fdiv of a number beyond 62 bits"));
        }
        Ok(Value::Float(to_f64(&Value::integer(x)) / to_f64(&Value::integer(y))))
    }

    fn common_divisor(&mut self, a: &BigInt, b: &BigInt) -> EvalResult<BigInt> {
        let (mut divisor, mut rest) = (a.magnitude().clone(), b.magnitude().clone());
        while rest.bits() > 0 {
            self.step(1 + rest.bits() / 64)?;
            (divisor, rest) = (rest.clone(), divisor % rest);
        }
        Ok(divisor.into())
    }
}

/// Applies an operator to two small integers. Returns `None` if the result is not a small integer, or for
/// another operator.
fn apply_small_operator(a: i64, b: i64, name: &str) -> Option<Value> {
    Some(match name {
        "+" => Value::Int(a.checked_add(b)?),
        "-" => Value::Int(a.checked_sub(b)?),
        "*" => Value::Int(a.checked_mul(b)?),
        "/" | "div" => {
            let quotient = a.checked_div(b)?;
            Value::Int(if (a % b != 0) && ((a < 0) != (b < 0)) { quotient - 1 } else { quotient })
        }
        "%" | "modulo" => {
            let rest = a.checked_rem(b)?;
            Value::Int(if rest != 0 && ((rest < 0) != (b < 0)) { rest + b } else { rest })
        }
        "<" => Value::Bool(a < b),
        ">" => Value::Bool(a > b),
        "<=" => Value::Bool(a <= b),
        ">=" => Value::Bool(a >= b),
        "==" | "===" => Value::Bool(a == b),
        "<=>" => Value::Int(a.cmp(&b) as i64),
        "&" => Value::Int(a & b),
        "|" => Value::Int(a | b),
        "^" => Value::Int(a ^ b),
        _ => return None,
    })
}

/// Returns true for an integer of up to 62 bits and a sign, a Fixnum. Ruby calculates differently with larger
/// ones.
fn is_fixnum(number: &BigInt) -> bool {
    i64::try_from(number).is_ok_and(|number| (-(1 << 62)..1 << 62).contains(&number))
}

/// Divides and rounds towards negative infinity, as Ruby does.
fn div_floor(a: &BigInt, b: &BigInt) -> BigInt {
    let quotient = a / b;
    let is_exact = &quotient * b == *a;
    let is_negative = (*a < BigInt::from(0)) != (*b < BigInt::from(0));
    if !is_exact && is_negative { quotient - 1 } else { quotient }
}
