//! Methods of Float.

use num_bigint::BigInt;

use super::show::float_to_s;
use crate::evaluator::eval::{Args, EvalResult, Interpreter};
use crate::evaluator::value::Value;

impl Interpreter {
    /// Applies an operator to two floats. Operators that only integers have raise `NoMethodError`.
    pub(super) fn apply_float_operator(&mut self, a: f64, name: &str, b: f64) -> EvalResult<Value> {
        if b == 0.0 && matches!(name, "%" | "modulo" | "remainder") {
            return Err(self.ruby_error("ZeroDivisionError", "divided by 0"));
        }
        Ok(match name {
            "+" => Value::Float(a + b),
            "-" => Value::Float(a - b),
            "*" => Value::Float(a * b),
            "/" | "fdiv" | "quo" => Value::Float(a / b),
            "%" | "modulo" => Value::Float(modulo(a, b)),
            "remainder" => {
                // Ruby computes it from the modulus, with its rounding error.
                let rest = modulo(a, b);
                let is_adjusted = rest != 0.0 && (a < 0.0) != (b < 0.0);
                Value::Float(match is_adjusted {
                    true if b.is_infinite() => a,
                    true => rest - b,
                    false => rest,
                })
            }
            "**" | "pow" if a < 0.0 && b != b.round() => {
                return Err(self.unsupported_error("a complex number"));
            }
            "**" | "pow" => Value::Float(a.powf(b)),
            "div" => {
                if b == 0.0 {
                    return Err(self.ruby_error("ZeroDivisionError", "divided by 0"));
                }
                self.float_to_int((a / b).floor())?
            }
            "divmod" => {
                if b == 0.0 {
                    return Err(self.ruby_error("ZeroDivisionError", "divided by 0"));
                }
                let rest = a % b;
                let ratio = if a.is_infinite() { a } else { ((a - rest) / b).round() };
                let quotient = self.float_to_int(if b * rest < 0.0 { ratio - 1.0 } else { ratio })?;
                Value::array(vec![quotient, Value::Float(modulo(a, b))])
            }
            "<" => Value::Bool(a < b),
            ">" => Value::Bool(a > b),
            "<=" => Value::Bool(a <= b),
            ">=" => Value::Bool(a >= b),
            "<=>" => a.partial_cmp(&b).map_or(Value::Nil, |ordering| Value::Int(ordering as i64)),
            _ => {
                let text = format!("undefined method `{name}' for {}:Float", float_to_s(a));
                return Err(self.ruby_error("NoMethodError", text));
            }
        })
    }

    /// Converts a whole float to an integer of any size. Infinity and NaN raise `FloatDomainError`.
    pub(super) fn float_to_int(&mut self, float: f64) -> EvalResult<Value> {
        if !float.is_finite() {
            return Err(self.ruby_error("FloatDomainError", float_to_s(float)));
        }
        if float.abs() < 9.2e18 {
            return Ok(Value::Int(float as i64));
        }
        Ok(Value::integer(BigInt::parse_bytes(format!("{float:.0}").as_bytes(), 10).unwrap_or_default()))
    }

    /// Calls a method of Float. Returns `None` if Float does not implement it.
    pub(super) fn call_float_method(
        &mut self,
        float: f64,
        name: &str,
        args: &Args,
    ) -> EvalResult<Option<Value>> {
        let receiver = Value::Float(float);
        if let Some(other) = args.get(0)
            && let Some(value) = self.apply_number_operator(&receiver, name, other)?
        {
            return Ok(Some(value));
        }
        Ok(Some(match name {
            "to_s" | "inspect" => Value::str(float_to_s(float)),
            "to_f" | "+@" => receiver,
            "-@" => Value::Float(-float),
            "to_i" | "to_int" => self.float_to_int(float.trunc())?,
            "round" | "floor" | "ceil" | "truncate" => self.round_float(float, name, args)?,
            "nan?" => Value::Bool(float.is_nan()),
            "infinite?" => match float {
                f64::INFINITY => Value::Int(1),
                f64::NEG_INFINITY => Value::Int(-1),
                _ => Value::Nil,
            },
            "finite?" => Value::Bool(float.is_finite()),
            "zero?" => Value::Bool(float == 0.0),
            "nonzero?" => {
                if float == 0.0 {
                    Value::Nil
                } else {
                    receiver
                }
            }
            "positive?" => Value::Bool(float > 0.0),
            "negative?" => Value::Bool(float < 0.0),
            "abs" | "magnitude" => Value::Float(float.abs()),
            "integer?" => Value::Bool(false),
            "real?" => Value::Bool(true),
            "eql?" => Value::Bool(matches!(self.arg(args, 0)?, Value::Float(other) if other == float)),
            "between?" | "clamp" => return self.call_comparable_method(&receiver, name, args),
            "coerce" => {
                let other = self.arg(args, 0)?;
                Value::array(vec![self.convert_to_float(&other)?, receiver])
            }
            "step" => self.step_number(&receiver, args)?,
            _ => return Ok(None),
        }))
    }
}

/// Returns the remainder with the sign of the divisor, as Ruby does.
fn modulo(a: f64, b: f64) -> f64 {
    let rest = a % b;
    if rest != 0.0 && (rest < 0.0) != (b < 0.0) { rest + b } else { rest }
}
