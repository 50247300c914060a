//! Conversion of arguments to the types that methods take, with Ruby's errors.

use crate::evaluator::eval::{Args, EvalResult, Interpreter};
use crate::evaluator::value::Value;

impl Interpreter {
    /// Raises `ArgumentError` unless the number of arguments is in range. Keywords count as one argument.
    pub(crate) fn check_arg_count(&mut self, args: &Args, min: usize, max: usize) -> EvalResult<()> {
        let count = args.len();
        if (min..=max).contains(&count) {
            return Ok(());
        }
        let expected = if min == max {
            min.to_string()
        } else if max == usize::MAX {
            format!("{min}+")
        } else {
            format!("{min}..{max}")
        };
        self.raise_argument_error(format!("wrong number of arguments (given {count}, expected {expected})"))
    }

    /// Returns the argument at an index, or raises `ArgumentError` if it is missing.
    pub(crate) fn arg(&mut self, args: &Args, index: usize) -> EvalResult<Value> {
        match args.get(index) {
            Some(value) => Ok(value.clone()),
            None => {
                let (count, expected) = (args.len(), index + 1);
                self.raise_argument_error(format!(
                    "wrong number of arguments (given {count}, expected {expected})"
                ))
            }
        }
    }

    /// Returns the text of a string or of an object with `to_str`. Other values raise `TypeError`.
    pub(crate) fn string_arg(&mut self, value: &Value) -> EvalResult<String> {
        match value {
            Value::Str(text) if text.has_bytes() => Err(self.unsupported_error("text that is not UTF-8")),
            Value::Str(text) => Ok(text.get().clone()),
            Value::Object(_) if self.responds_to(value, "to_str") => {
                let text = self.call(value, "to_str", Vec::new())?;
                self.text_of(&text)
            }
            other => self.raise_conversion_error(other, "String"),
        }
    }

    /// Returns the text of a symbol or string. Other values raise `TypeError`.
    pub(crate) fn name_arg(&mut self, value: &Value) -> EvalResult<String> {
        match value {
            Value::Symbol(name) => Ok(name.to_string()),
            Value::Str(text) if text.has_bytes() => Err(self.unsupported_error("text that is not UTF-8")),
            Value::Str(text) => Ok(text.get().clone()),
            other => {
                let value_text = self.inspect(other)?;
                self.raise_type_error(format!("{value_text} is not a symbol nor a string"))
            }
        }
    }

    /// Returns an integer, or a float truncated to one. A number out of range raises `RangeError`, and
    /// another value `TypeError`.
    pub(crate) fn int_arg(&mut self, value: &Value) -> EvalResult<i64> {
        match value {
            Value::Int(int) => Ok(*int),
            Value::Float(float) if float.is_finite() && float.abs() < 9e18 => Ok(*float as i64),
            Value::Float(float) => {
                let float_text = super::show::float_to_s(*float);
                Err(self.ruby_error("RangeError", format!("float {float_text} out of range of integer")))
            }
            Value::Big(_) => Err(self.ruby_error("RangeError", "bignum too big to convert into `long'")),
            Value::Nil => self.raise_type_error("no implicit conversion from nil to integer"),
            other => self.raise_conversion_error(other, "Integer"),
        }
    }

    /// Returns an index, a position or a number of elements. Numbers beyond any length are clamped to ±2⁶²,
    /// so that sums with a length do not overflow.
    pub(crate) fn index_arg(&mut self, value: &Value) -> EvalResult<i64> {
        const MAX_POSITION: i64 = 1 << 62;
        Ok(self.int_arg(value)?.clamp(-MAX_POSITION, MAX_POSITION))
    }

    /// Returns a number of elements. A negative one raises `ArgumentError`.
    pub(crate) fn count_arg(&mut self, value: &Value) -> EvalResult<usize> {
        match usize::try_from(self.index_arg(value)?) {
            Ok(count) => Ok(count),
            Err(_) => self.raise_argument_error("negative array size"),
        }
    }

    /// Returns the index at a position of the arguments, or a default if it is missing.
    pub(crate) fn index_or(&mut self, args: &Args, position: usize, default: i64) -> EvalResult<i64> {
        match args.get(position) {
            Some(value) => self.index_arg(&value.clone()),
            None => Ok(default),
        }
    }

    /// Returns the integer argument at an index, or a default if it is missing.
    pub(crate) fn int_or(&mut self, args: &Args, index: usize, default: i64) -> EvalResult<i64> {
        match args.get(index) {
            Some(value) => {
                let value = value.clone();
                self.int_arg(&value)
            }
            None => Ok(default),
        }
    }

    /// Checks a radix: 2 to 36, or 0 to use the prefix of the digits. Other numbers raise `ArgumentError`.
    pub(crate) fn check_radix(&mut self, radix: i64) -> EvalResult<u32> {
        match u32::try_from(radix) {
            Ok(radix @ (0 | 2..=36)) => Ok(radix),
            _ => self.raise_argument_error(format!("invalid radix {radix}")),
        }
    }

    /// Returns the elements of an array or of an object with `to_ary`. Other values raise `TypeError`.
    pub(crate) fn array_arg(&mut self, value: &Value) -> EvalResult<Vec<Value>> {
        match value {
            Value::Array(array) => Ok(array.to_vec()),
            Value::Object(_) if self.responds_to(value, "to_ary") => {
                let list = self.call(value, "to_ary", Vec::new())?;
                self.splat(&list)
            }
            other => self.raise_conversion_error(other, "Array"),
        }
    }

    /// Returns the block of a call, or raises `LocalJumpError` if it is missing.
    pub(crate) fn block_arg(&mut self, args: &Args) -> EvalResult<Value> {
        match &args.block {
            Some(block) => Ok(block.clone()),
            None => Err(self.ruby_error("LocalJumpError", "no block given (yield)")),
        }
    }
}
