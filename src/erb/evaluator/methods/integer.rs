//! Methods of Integer, and arithmetic between numbers.

use num_bigint::BigInt;

use super::compare::{to_big, to_f64};
use super::float_round::Half;
use crate::evaluator::eval::{Args, Interp, R};
use crate::evaluator::value::Value;

/// Maximum size of an integer, in bits.
const MAX_BITS: u64 = 1 << 20;

impl Interp {
    pub(super) fn integer_method(&mut self, receiver: &Value, name: &str, args: &Args) -> R<Option<Value>> {
        if let (Value::Int(a), Some(Value::Int(b)), 1) = (receiver, args.get(0), args.len())
            && let Some(value) = small_operator(*a, *b, name)
        {
            return Ok(Some(value));
        }
        if let (Some(other), 1) = (args.get(0), args.len())
            && let Some(value) = self.number_operator(receiver, name, other)?
        {
            return Ok(Some(value));
        }
        let this = receiver.clone();
        Ok(Some(match name {
            "-@" => Value::big(-to_big(receiver)),
            "+@" | "to_i" | "to_int" | "ord" | "numerator" => this,
            "~" => Value::big(-to_big(receiver) - 1),
            "to_s" | "inspect" => {
                let radix = self.int_or(args, 0, 10)?;
                if !(2..=36).contains(&radix) {
                    return self.argument_error(format!("invalid radix {radix}"));
                }
                Value::str(to_big(receiver).to_str_radix(radix as u32))
            }
            "to_f" => Value::Float(to_f64(receiver)),
            "chr" => {
                let code = self.int_arg(receiver)?;
                match (u32::try_from(code).ok().and_then(char::from_u32), args.is_empty()) {
                    (Some(character), _) if code < 128 => Value::str(character.to_string()),
                    (Some(_), true) if code < 256 => {
                        Value::Str(std::rc::Rc::new(crate::evaluator::value::RString::from_bytes(&[
                            code as u8
                        ])))
                    }
                    (Some(character), false) => Value::str(character.to_string()),
                    _ => return Err(self.error("RangeError", format!("{code} out of char range"))),
                }
            }
            "times" => match &args.block {
                None => self.enumerator(&this, "times", Vec::new())?,
                Some(block) => {
                    let block = block.clone();
                    let count = self.int_arg(receiver)?;
                    for index in 0..count.max(0) {
                        self.yield_one(&block, Value::Int(index))?;
                    }
                    this
                }
            },
            "upto" | "downto" => match &args.block {
                None => self.enumerator(&this, name, args.list.clone())?,
                Some(block) => {
                    let block = block.clone();
                    let from = self.int_arg(receiver)?;
                    let to = self.int_or(args, 0, 0)?;
                    let mut at = from;
                    while if name == "upto" { at <= to } else { at >= to } {
                        self.yield_one(&block, Value::Int(at))?;
                        at += if name == "upto" { 1 } else { -1 };
                    }
                    this
                }
            },
            "step" => {
                let mut limit = args.get(0).cloned().unwrap_or(Value::Nil);
                let mut by = args.get(1).cloned().unwrap_or(Value::Int(1));
                if let Some(options) = args.options() {
                    limit = options.get_symbol("to").unwrap_or(Value::Nil);
                    by = options.get_symbol("by").unwrap_or(Value::Int(1));
                }
                let mut items = Vec::new();
                let down = to_f64(&by) < 0.0;
                let mut at = this.clone();
                loop {
                    self.step(1)?;
                    let past = match &limit {
                        Value::Nil => false,
                        limit if down => to_f64(&at) < to_f64(limit),
                        limit => to_f64(&at) > to_f64(limit),
                    };
                    if past {
                        break;
                    }
                    match &args.block {
                        Some(block) => {
                            self.yield_one(block, at.clone())?;
                        }
                        None => {
                            self.charge(16)?;
                            items.push(at.clone());
                        }
                    }
                    at = self.call(&at, "+", vec![by.clone()])?;
                }
                if args.block.is_some() {
                    this
                } else {
                    let list = Value::array(items);
                    self.enumerator(&list, "each", Vec::new())?
                }
            }
            "zero?" => Value::Bool(matches!(receiver, Value::Int(0))),
            "positive?" => Value::Bool(to_big(receiver) > BigInt::from(0)),
            "negative?" => Value::Bool(to_big(receiver) < BigInt::from(0)),
            "nonzero?" => {
                if matches!(receiver, Value::Int(0)) {
                    Value::Nil
                } else {
                    this
                }
            }
            "even?" => Value::Bool((to_big(receiver) % 2) == BigInt::from(0)),
            "odd?" => Value::Bool((to_big(receiver) % 2) != BigInt::from(0)),
            "integer?" | "finite?" | "real?" => Value::Bool(true),
            "infinite?" => Value::Nil,
            "nan?" => return Ok(None),
            "succ" | "next" => Value::big(to_big(receiver) + 1),
            "pred" => Value::big(to_big(receiver) - 1),
            "abs" | "magnitude" => {
                let value = to_big(receiver);
                Value::big(if value < BigInt::from(0) { -value } else { value })
            }
            "floor" | "ceil" | "round" | "truncate" => {
                let digits = match args.positional().first() {
                    Some(digits) => self.int_arg(&digits.clone())?,
                    None => 0,
                };
                if digits >= 0 {
                    return Ok(Some(this));
                }
                let half = if name == "round" { self.half(args)? } else { Half::Up };
                let unit = BigInt::from(10).pow((-digits).min(400) as u32);
                let value = to_big(receiver);
                let down = div_floor(&value, &unit) * &unit;
                let rest = &value - &down;
                Value::big(match name {
                    "floor" => down,
                    // Ruby 3.1 returns a multiple of the unit unchanged only if it fits into 62 bits.
                    "ceil" if rest == BigInt::from(0) && value.bits() <= 62 && unit.bits() <= 62 => down,
                    "ceil" => down + unit,
                    "truncate" => &value - (&value % &unit),
                    _ => {
                        let twice = rest * 2;
                        let tie_goes_up = match half {
                            Half::Up => value >= BigInt::from(0),
                            Half::Down => value < BigInt::from(0),
                            Half::Even => (&down / &unit).bit(0),
                        };
                        if twice > unit || twice == unit && tie_goes_up { down + unit } else { down }
                    }
                })
            }
            "digits" => {
                let base = self.int_or(args, 0, 10)?;
                let mut value = self.int_arg(receiver)?;
                if value < 0 {
                    return Err(self.error("Math::DomainError", "out of domain"));
                }
                if base < 2 {
                    return self.argument_error(format!("invalid radix {base}"));
                }
                let mut out = Vec::new();
                loop {
                    out.push(Value::Int(value % base));
                    value /= base;
                    if value == 0 {
                        break;
                    }
                }
                Value::array(out)
            }
            "gcd" | "lcm" => {
                let (a, b) = (self.int_arg(receiver)?, self.int_or(args, 0, 0)?);
                let divisor = gcd(a.unsigned_abs(), b.unsigned_abs()) as i64;
                if name == "gcd" {
                    Value::Int(divisor)
                } else if divisor == 0 {
                    Value::Int(0)
                } else {
                    Value::big((BigInt::from(a) / divisor * b).magnitude().clone().into())
                }
            }
            "bit_length" => Value::Int(to_big(receiver).bits() as i64),
            "[]" => {
                let (bit, count) = match args.list.as_slice() {
                    [Value::Range(range)] if !range.to.is_nil() => {
                        let (from, to) = (self.int_arg(&range.from)?, self.int_arg(&range.to)?);
                        (from, to.saturating_sub(from).saturating_add(i64::from(!range.exclusive)))
                    }
                    [Value::Range(_)] => return Err(self.unsupported("Integer#[] with an endless range")),
                    [_, _] => (self.int_or(args, 0, 0)?, self.int_or(args, 1, 0)?),
                    _ => (self.int_or(args, 0, 0)?, 1),
                };
                if count != 1 {
                    if bit < 0 || !(0..=4096).contains(&count) {
                        return Err(self.unsupported("Integer#[] with these bits"));
                    }
                    let mask = (BigInt::from(1) << (count as u64)) - 1;
                    Value::big((to_big(receiver) >> (bit as u64)) & mask)
                } else if bit < 0 {
                    Value::Int(0)
                } else {
                    Value::big((to_big(receiver) >> (bit as u64)) & BigInt::from(1))
                }
            }
            "size" => Value::Int(8),
            "pow" if args.len() == 2 => {
                let (exponent, modulus) = (self.arg(args, 0)?, self.arg(args, 1)?);
                let (exponent, modulus) = (to_big(&exponent), to_big(&modulus));
                if exponent < BigInt::from(0) || modulus == BigInt::from(0) {
                    return Err(self.unsupported("Integer#pow with this exponent or modulus"));
                }
                Value::big(to_big(receiver).modpow(&exponent, &modulus))
            }
            "hash" => this,
            "dup" | "clone" => this,
            "coerce" => {
                let other = self.arg(args, 0)?;
                Value::array(vec![other, this])
            }
            "between?" | "clamp" => return self.comparable_method(receiver, name, args),
            "allbits?" | "anybits?" | "nobits?" => {
                let mask = self.arg(args, 0)?;
                let found = to_big(receiver) & to_big(&mask);
                Value::Bool(match name {
                    "allbits?" => found == to_big(&mask),
                    "anybits?" => found != BigInt::from(0),
                    _ => found == BigInt::from(0),
                })
            }
            _ => return Ok(None),
        }))
    }

    /// Applies an arithmetic or comparison operator to two numbers. Returns `None` if `name` is not such an
    /// operator.
    pub(super) fn number_operator(&mut self, a: &Value, name: &str, b: &Value) -> R<Option<Value>> {
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
        let numeric = |value: &Value| matches!(value, Value::Int(_) | Value::Big(_) | Value::Float(_));
        if !numeric(b) {
            return match name {
                "<=>" => Ok(Some(Value::Nil)),
                "<" | ">" | "<=" | ">=" => {
                    let left = self.class_of(a).label();
                    let right = self.compared_with(b)?;
                    self.argument_error(format!("comparison of {left} with {right} failed"))
                }
                _ => {
                    if matches!(b, Value::Object(_)) && self.responds(b, "coerce") {
                        let pair = self.call(b, "coerce", vec![a.clone()])?;
                        let pair = self.array_arg(&pair)?;
                        if let [left, right] = pair.as_slice() {
                            return self.call(left, name, vec![right.clone()]).map(Some);
                        }
                    }
                    let into = self.class_of(a).label();
                    let from = match b {
                        Value::Nil => "nil".to_owned(),
                        Value::Bool(flag) => flag.to_string(),
                        other => self.class_of(other).label(),
                    };
                    self.type_error(format!("{from} can't be coerced into {into}"))
                }
            };
        }
        if matches!(a, Value::Float(_)) || matches!(b, Value::Float(_)) || name == "fdiv" {
            return self.float_operator(to_f64(a), name, to_f64(b)).map(Some);
        }
        if let (Value::Int(x), Value::Int(y)) = (a, b)
            && let Some(value) = small_operator(*x, *y, name)
        {
            return Ok(Some(value));
        }
        let (x, y) = (to_big(a), to_big(b));
        let zero = BigInt::from(0);
        let divides = matches!(name, "/" | "%" | "modulo" | "div" | "divmod" | "remainder");
        if divides && y == zero {
            return Err(self.error("ZeroDivisionError", "divided by 0"));
        }
        Ok(Some(match name {
            "+" => Value::big(x + y),
            "-" => Value::big(x - y),
            "*" => {
                self.charge(((x.bits() + y.bits()) / 8) as usize)?;
                if x.bits() + y.bits() > MAX_BITS {
                    return Err(self.error("RangeError", "integer too big"));
                }
                Value::big(x * y)
            }
            "/" | "div" => Value::big(div_floor(&x, &y)),
            "%" | "modulo" => Value::big(&x - div_floor(&x, &y) * &y),
            "remainder" => Value::big(x % y),
            "divmod" => {
                let quotient = div_floor(&x, &y);
                let rest = &x - &quotient * &y;
                Value::array(vec![Value::big(quotient), Value::big(rest)])
            }
            "**" | "pow" => {
                if y < zero {
                    return Err(self.unsupported("a rational number"));
                }
                let exponent = u32::try_from(&y).unwrap_or(u32::MAX);
                if x.bits().saturating_mul(u64::from(exponent)) > MAX_BITS && x.bits() > 1 {
                    return Ok(Some(Value::Float(f64::INFINITY)));
                }
                self.charge((x.bits() * u64::from(exponent) / 8).min(1 << 20) as usize)?;
                match (x.bits() <= 1, i64::try_from(&x)) {
                    (true, Ok(0)) => Value::Int(i64::from(exponent == 0)),
                    (true, Ok(1)) => Value::Int(1),
                    (true, Ok(_)) => Value::Int(if &y % 2 == zero { 1 } else { -1 }),
                    _ => Value::big(x.pow(exponent)),
                }
            }
            "<=>" => Value::Int(x.cmp(&y) as i64),
            "<" => Value::Bool(x < y),
            ">" => Value::Bool(x > y),
            "<=" => Value::Bool(x <= y),
            ">=" => Value::Bool(x >= y),
            "&" => Value::big(x & y),
            "|" => Value::big(x | y),
            "^" => Value::big(x ^ y),
            "<<" | ">>" => {
                let by = i64::try_from(&y).unwrap_or(i64::MAX);
                let left = (name == "<<") == (by >= 0);
                let by = by.unsigned_abs();
                if left {
                    if x.bits() + by > MAX_BITS && x != zero {
                        return Err(self.error("RangeError", "shift width too big"));
                    }
                    Value::big(x << by.min(MAX_BITS))
                } else {
                    Value::big(x >> by.min(MAX_BITS * 2))
                }
            }
            _ => return Err(self.unsupported("a rational number")),
        }))
    }
}

/// Applies an operator to two small integers. Returns `None` if the result is not a small integer, or for
/// another operator.
fn small_operator(a: i64, b: i64, name: &str) -> Option<Value> {
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

/// Divides and rounds towards negative infinity, as Ruby does.
fn div_floor(a: &BigInt, b: &BigInt) -> BigInt {
    let quotient = a / b;
    let exact = &quotient * b == *a;
    let negative = (*a < BigInt::from(0)) != (*b < BigInt::from(0));
    if !exact && negative { quotient - 1 } else { quotient }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
