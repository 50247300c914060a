//! Arguments as the types methods want.

use crate::evaluator::eval::{Args, Interp, R};
use crate::evaluator::value::Value;

impl Interp {
    /// The number of arguments, checked. Keyword arguments count as one.
    pub(crate) fn arity(&mut self, args: &Args, least: usize, most: usize) -> R<()> {
        let given = args.len();
        if (least..=most).contains(&given) {
            return Ok(());
        }
        let expected = if least == most {
            least.to_string()
        } else if most == usize::MAX {
            format!("{least}+")
        } else {
            format!("{least}..{most}")
        };
        self.argument_error(format!("wrong number of arguments (given {given}, expected {expected})"))
    }

    /// The argument at an index.
    pub(crate) fn arg(&mut self, args: &Args, index: usize) -> R<Value> {
        match args.get(index) {
            Some(value) => Ok(value.clone()),
            None => {
                let (given, expected) = (args.len(), index + 1);
                self.argument_error(format!("wrong number of arguments (given {given}, expected {expected})"))
            }
        }
    }

    /// A value that is a string.
    pub(crate) fn string_arg(&mut self, value: &Value) -> R<String> {
        match value {
            Value::Str(text) => Ok(text.get().clone()),
            Value::Object(_) if self.responds(value, "to_str") => {
                let text = self.call(value, "to_str", Vec::new())?;
                self.text_of(&text)
            }
            other => self.no_conversion(other, "String"),
        }
    }

    /// A string or a symbol.
    pub(crate) fn name_arg(&mut self, value: &Value) -> R<String> {
        match value {
            Value::Symbol(name) => Ok(name.to_string()),
            Value::Str(text) => Ok(text.get().clone()),
            other => {
                let shown = self.inspect(other)?;
                self.type_error(format!("{shown} is not a symbol nor a string"))
            }
        }
    }

    /// A value that is an integer, or a float cut to one.
    pub(crate) fn int_arg(&mut self, value: &Value) -> R<i64> {
        match value {
            Value::Int(int) => Ok(*int),
            Value::Float(float) if float.is_finite() && float.abs() < 9e18 => Ok(*float as i64),
            Value::Float(_) => Err(self.error("FloatDomainError", "float out of range of integer")),
            Value::Big(_) => Err(self.error("RangeError", "bignum too big to convert into `long'")),
            Value::Nil => self.type_error("no implicit conversion from nil to integer"),
            other => self.no_conversion(other, "Integer"),
        }
    }

    /// An integer argument, or a default where there is none.
    pub(crate) fn int_or(&mut self, args: &Args, index: usize, default: i64) -> R<i64> {
        match args.get(index) {
            Some(value) => {
                let value = value.clone();
                self.int_arg(&value)
            }
            None => Ok(default),
        }
    }

    /// The base of digits: 2 to 36, or 0 for the one that the digits' prefix says.
    pub(crate) fn radix(&mut self, radix: i64) -> R<u32> {
        match u32::try_from(radix) {
            Ok(radix @ (0 | 2..=36)) => Ok(radix),
            _ => self.argument_error(format!("invalid radix {radix}")),
        }
    }

    /// A value that is an array.
    pub(crate) fn array_arg(&mut self, value: &Value) -> R<Vec<Value>> {
        match value {
            Value::Array(array) => Ok(array.to_vec()),
            Value::Object(_) if self.responds(value, "to_ary") => {
                let list = self.call(value, "to_ary", Vec::new())?;
                self.splat(&list)
            }
            other => self.no_conversion(other, "Array"),
        }
    }

    /// The block of a call that needs one.
    pub(crate) fn block(&mut self, args: &Args) -> R<Value> {
        match &args.block {
            Some(block) => Ok(block.clone()),
            None => Err(self.error("LocalJumpError", "no block given (yield)")),
        }
    }
}
