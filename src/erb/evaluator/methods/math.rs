//! Functions of Math, and constants of built-in classes.

use std::rc::Rc;

use super::compare::to_f64;
use crate::evaluator::eval::{Args, EvalResult, Interpreter};
use crate::evaluator::value::Value;

impl Interpreter {
    /// Calls a function of Math. Returns `None` for a function that the evaluator does not support.
    pub(super) fn call_math_method(&mut self, name: &str, args: &Args) -> EvalResult<Option<Value>> {
        const SUPPORTED_FUNCTIONS: &[&str] =
            &["sqrt", "cbrt", "sin", "cos", "tan", "atan", "exp", "log", "log2", "log10", "hypot"];
        if !SUPPORTED_FUNCTIONS.contains(&name) {
            return Ok(None);
        }
        let first = self.arg(args, 0)?;
        if !matches!(first, Value::Int(_) | Value::Big(_) | Value::Float(_)) {
            return match first {
                Value::Nil => self.raise_type_error("can't convert nil into Float"),
                other => {
                    let class = self.class_of(&other).label();
                    self.raise_type_error(format!("can't convert {class} into Float"))
                }
            };
        }
        let x = to_f64(&first);
        let y = args.get(1).map(to_f64);
        if x < 0.0 && matches!(name, "sqrt" | "log" | "log2" | "log10") {
            return Err(self.ruby_error(
                "Math::DomainError",
                format!("Numerical argument is out of domain - \"{name}\""),
            ));
        }
        Ok(Some(Value::Float(match (name, y) {
            // The root of -0.0 is 0.0.
            ("sqrt", _) => x.sqrt() + 0.0,
            // Ruby improves the result of the C library by one step of Newton's method.
            ("cbrt", _) => match x.cbrt() {
                root if root.is_finite() && root != 0.0 => (2.0 * root + (x / root / root)) / 3.0,
                root => root,
            },
            ("sin", _) => x.sin(),
            ("cos", _) => x.cos(),
            ("tan", _) => x.tan(),
            ("atan", _) => x.atan(),
            ("exp", _) => x.exp(),
            ("log", Some(base)) => x.ln() / base.ln(),
            ("log", None) => x.ln(),
            ("log2", _) => x.log2(),
            ("log10", _) => x.log10(),
            ("hypot", Some(y)) => x.hypot(y),
            _ => return Ok(None),
        })))
    }

    /// Returns a built-in constant that is not a class, by its full name.
    pub(crate) fn builtin_constant(&mut self, name: &str) -> EvalResult<Option<Value>> {
        Ok(Some(match name {
            "Math::PI" => Value::Float(std::f64::consts::PI),
            "Math::E" => Value::Float(std::f64::consts::E),
            "Float::INFINITY" => Value::Float(f64::INFINITY),
            "Float::NAN" => Value::Float(f64::NAN),
            "Float::EPSILON" => Value::Float(f64::EPSILON),
            "Float::MAX" => Value::Float(f64::MAX),
            "Float::MIN" => Value::Float(f64::MIN_POSITIVE),
            "Float::DIG" => Value::Int(15),
            "Regexp::IGNORECASE" => Value::Int(1),
            "Regexp::EXTENDED" => Value::Int(2),
            "Regexp::MULTILINE" => Value::Int(4),
            "Socket::AF_INET" => Value::Int(2),
            "Socket::AF_INET6" => Value::Int(10),
            "Encoding::UTF_8" => self.encoding("UTF-8")?,
            "Encoding::ASCII_8BIT" | "Encoding::BINARY" => self.encoding("ASCII-8BIT")?,
            "Encoding::US_ASCII" | "Encoding::ASCII" => self.encoding("US-ASCII")?,
            // `YAML` is another name of the module `Psych`.
            "YAML" => Value::Class(self.load_class("Psych")),
            "RUBY_VERSION" => Value::str("3.1.2"),
            "File::SEPARATOR" | "File::Separator" => Value::str("/"),
            _ => return Ok(None),
        }))
    }

    /// Returns the `Encoding` object with this name.
    pub(super) fn encoding(&mut self, name: &str) -> EvalResult<Value> {
        let class = self.load_class("Encoding");
        // Each encoding is a single object.
        if let Some(encoding) = class.constants.borrow().get(name) {
            return Ok(encoding.clone());
        }
        let object = self.create_object(Rc::clone(&class), crate::evaluator::value::Data::Plain);
        self.set_instance_variable(&object, &"@name".into(), Value::str(name))?;
        class.constants.borrow_mut().insert(name.into(), object.clone());
        Ok(object)
    }
}
