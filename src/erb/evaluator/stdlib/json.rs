//! `JSON`: writes and reads JSON as Ruby's library does.

use std::rc::Rc;

use crate::evaluator::eval::{Args, EvalResult, Interpreter};
use crate::evaluator::methods::float_to_s;
use crate::evaluator::value::{RHash, Value};

use super::json_reader;

/// The layout and other options of a written document.
#[derive(Clone)]
pub(crate) struct Layout {
    indent: String,
    space: String,
    space_before: String,
    object_nl: String,
    array_nl: String,
    allow_nan: bool,
    max_nesting: i64,
    is_ascii_only: bool,
    script_safe: bool,
}

impl Layout {
    fn compact() -> Self {
        Layout {
            indent: String::new(),
            space: String::new(),
            space_before: String::new(),
            object_nl: String::new(),
            array_nl: String::new(),
            allow_nan: false,
            max_nesting: 100,
            is_ascii_only: false,
            script_safe: false,
        }
    }

    fn pretty() -> Self {
        Layout {
            indent: "  ".into(),
            space: " ".into(),
            object_nl: "\n".into(),
            array_nl: "\n".into(),
            ..Layout::compact()
        }
    }

    /// Applies the options of a call, such as `indent:` and `allow_nan:`.
    fn with_options(mut self, interpreter: &mut Interpreter, options: Option<&Value>) -> EvalResult<Self> {
        let Some(Value::Hash(options)) = options else { return Ok(self) };
        for (name, place) in [
            ("indent", &mut self.indent),
            ("space", &mut self.space),
            ("space_before", &mut self.space_before),
            ("object_nl", &mut self.object_nl),
            ("array_nl", &mut self.array_nl),
        ] {
            if let Some(value) = options.get_symbol(name) {
                *place = interpreter.text_of(&value)?;
            }
        }
        if let Some(value) = options.get_symbol("allow_nan") {
            self.allow_nan = value.is_truthy();
        }
        if let Some(value) = options.get_symbol("max_nesting") {
            self.max_nesting = if value.is_truthy() { interpreter.int_arg(&value)? } else { 0 };
        }
        if let Some(value) = options.get_symbol("ascii_only") {
            self.is_ascii_only = value.is_truthy();
        }
        if let Some(value) = options.get_symbol("script_safe").or(options.get_symbol("escape_slash")) {
            self.script_safe = value.is_truthy();
        }
        Ok(self)
    }
}

/// Writes values as JSON.
struct Writer {
    layout: Layout,
    json_text: String,
    /// The bytes of `json_text` that are counted.
    counted_bytes: usize,
}

impl Writer {
    /// Writes a value. An object is written by its `to_json`, or as the string that `to_s` returns.
    fn write_value(&mut self, interpreter: &mut Interpreter, value: &Value, depth: i64) -> EvalResult<()> {
        interpreter.step(1)?;
        interpreter.check_depth()?;
        match value {
            Value::Nil => self.json_text.push_str("null"),
            Value::Bool(flag) => self.json_text.push_str(if *flag { "true" } else { "false" }),
            Value::Int(int) => self.json_text.push_str(&int.to_string()),
            Value::Big(big) => self.json_text.push_str(&big.to_string()),
            Value::Float(float) => {
                if !float.is_finite() && !self.layout.allow_nan {
                    let text = format!("{} not allowed in JSON", float_to_s(*float));
                    return Err(interpreter.ruby_error("JSON::GeneratorError", text));
                }
                self.json_text.push_str(&float_to_s(*float));
            }
            Value::Str(text) => {
                if text.is_binary.get() && !text.get().is_ascii() {
                    match String::from_utf8(text.bytes()) {
                        Ok(text) => self.write_string(&text),
                        Err(_) => {
                            return Err(interpreter.ruby_error(
                                "JSON::GeneratorError",
                                "source sequence is illegal/malformed utf-8",
                            ));
                        }
                    }
                } else {
                    self.write_string(&text.get());
                }
            }
            Value::Symbol(name) => self.write_string(name),
            Value::Array(array) => self.write_array(interpreter, &array.to_vec(), depth)?,
            Value::Hash(hash) => self.write_object(interpreter, hash, depth)?,
            Value::Object(_) => {
                if let Some(method) = interpreter.find_user_method(value, "to_json") {
                    let text = interpreter.invoke(&method, value, Args::default())?;
                    self.json_text.push_str(&interpreter.text_of(&text)?);
                    return Ok(());
                }
                // An object without a `to_json` of its own becomes the string that `to_s` returns.
                let text = interpreter.text_of(value)?;
                self.write_string(&text);
            }
            other => {
                let text = interpreter.text_of(other)?;
                self.write_string(&text);
            }
        }
        // The text is counted as it grows, because it can contain the same value many times.
        let new_bytes = self.json_text.capacity().saturating_sub(self.counted_bytes);
        self.counted_bytes += new_bytes;
        interpreter.use_scratch(new_bytes)
    }

    /// Raises `JSON::NestingError` if the nesting is too deep.
    fn check_nesting(&mut self, interpreter: &mut Interpreter, depth: i64) -> EvalResult<()> {
        if self.layout.max_nesting > 0 && depth > self.layout.max_nesting {
            return Err(
                interpreter.ruby_error("JSON::NestingError", format!("nesting of {depth} is too deep"))
            );
        }
        Ok(())
    }

    fn write_array(&mut self, interpreter: &mut Interpreter, items: &[Value], depth: i64) -> EvalResult<()> {
        self.check_nesting(interpreter, depth + 1)?;
        self.json_text.push('[');
        self.json_text.push_str(&self.layout.array_nl.clone());
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                self.json_text.push(',');
                self.json_text.push_str(&self.layout.array_nl.clone());
            }
            self.indent(depth + 1);
            self.write_value(interpreter, item, depth + 1)?;
        }
        self.json_text.push_str(&self.layout.array_nl.clone());
        if !self.layout.array_nl.is_empty() {
            self.indent(depth);
        }
        self.json_text.push(']');
        Ok(())
    }

    fn write_object(
        &mut self,
        interpreter: &mut Interpreter,
        hash: &Rc<RHash>,
        depth: i64,
    ) -> EvalResult<()> {
        self.check_nesting(interpreter, depth + 1)?;
        self.json_text.push('{');
        if hash.len() > 0 {
            self.json_text.push_str(&self.layout.object_nl.clone());
        }
        for (index, (key, value)) in hash.pairs().iter().enumerate() {
            if index > 0 {
                self.json_text.push(',');
                self.json_text.push_str(&self.layout.object_nl.clone());
            }
            if !self.layout.object_nl.is_empty() {
                self.indent(depth + 1);
            }
            let key = interpreter.text_of(key)?;
            self.write_string(&key);
            self.json_text.push_str(&self.layout.space_before.clone());
            self.json_text.push(':');
            self.json_text.push_str(&self.layout.space.clone());
            self.write_value(interpreter, value, depth + 1)?;
        }
        self.json_text.push_str(&self.layout.object_nl.clone());
        if !self.layout.object_nl.is_empty() {
            self.indent(depth);
        }
        self.json_text.push('}');
        Ok(())
    }

    fn indent(&mut self, depth: i64) {
        for _ in 0..depth {
            self.json_text.push_str(&self.layout.indent);
        }
    }

    fn write_string(&mut self, text: &str) {
        use std::fmt::Write as _;
        self.json_text.push('"');
        for character in text.chars() {
            match character {
                '"' => self.json_text.push_str("\\\""),
                '\\' => self.json_text.push_str("\\\\"),
                '\n' => self.json_text.push_str("\\n"),
                '\r' => self.json_text.push_str("\\r"),
                '\t' => self.json_text.push_str("\\t"),
                '\u{c}' => self.json_text.push_str("\\f"),
                '\u{8}' => self.json_text.push_str("\\b"),
                '/' if self.layout.script_safe => self.json_text.push_str("\\/"),
                '\0'..='\u{1f}' => {
                    let _ = write!(self.json_text, "\\u{:04x}", character as u32);
                }
                '\u{2028}' | '\u{2029}' if self.layout.script_safe => {
                    let _ = write!(self.json_text, "\\u{:04x}", character as u32);
                }
                other if self.layout.is_ascii_only && !other.is_ascii() => {
                    let mut units = [0; 2];
                    for unit in other.encode_utf16(&mut units) {
                        let _ = write!(self.json_text, "\\u{unit:04x}");
                    }
                }
                other => self.json_text.push(other),
            }
        }
        self.json_text.push('"');
    }
}

fn write(interpreter: &mut Interpreter, value: &Value, layout: Layout) -> EvalResult<String> {
    let mut writer = Writer { layout, json_text: String::new(), counted_bytes: 0 };
    writer.write_value(interpreter, value, 0)?;
    Ok(writer.json_text)
}

/// Implements `value.to_json`.
pub(crate) fn to_json(interpreter: &mut Interpreter, value: &Value, args: &Args) -> EvalResult<Value> {
    let layout = Layout::compact().with_options(interpreter, args.get(0))?;
    Ok(Value::str(write(interpreter, value, layout)?))
}

/// Calls a method of the module JSON. Returns `None` if JSON does not implement it.
pub(crate) fn call_class_method(
    interpreter: &mut Interpreter,
    name: &str,
    args: &Args,
) -> EvalResult<Option<Value>> {
    Ok(Some(match name {
        "generate" | "fast_generate" | "unparse" => {
            let value = interpreter.arg(args, 0)?;
            let layout = Layout::compact().with_options(interpreter, args.get(1))?;
            Value::str(write(interpreter, &value, layout)?)
        }
        "pretty_generate" => {
            let value = interpreter.arg(args, 0)?;
            let layout = Layout::pretty().with_options(interpreter, args.get(1))?;
            Value::str(write(interpreter, &value, layout)?)
        }
        "dump" => match interpreter.arg(args, 0)? {
            // As in BOSH's renderer, strings and numbers are written by `inspect`.
            value @ (Value::Str(_) | Value::Int(_) | Value::Float(_) | Value::Big(_)) => {
                Value::str(interpreter.inspect(&value)?)
            }
            value => {
                let layout = Layout { allow_nan: true, max_nesting: 0, ..Layout::compact() };
                Value::str(write(interpreter, &value, layout)?)
            }
        },
        "parse" | "parse!" | "load" | "restore" | "[]" => {
            let source = interpreter.arg(args, 0)?;
            if source.is_nil() && matches!(name, "load" | "restore") {
                return Ok(Some(Value::Nil));
            }
            let text = match &source {
                Value::Str(text) => text.get().clone(),
                _ if name == "[]" => return call_class_method(interpreter, "generate", args),
                other => interpreter.string_arg(other)?,
            };
            let is_load = matches!(name, "load" | "restore");
            if is_load && text.is_empty() {
                return Ok(Some(Value::Nil));
            }
            parse(interpreter, &text, is_load, args)?
        }
        _ => return Ok(None),
    }))
}

/// Reads a document with the options of a call. Invalid JSON raises `JSON::ParserError`. `load` accepts any
/// nesting depth, and NaN.
fn parse(interpreter: &mut Interpreter, text: &str, is_load: bool, args: &Args) -> EvalResult<Value> {
    let mut options = json_reader::Options {
        symbolizes_names: false,
        allow_nan: is_load,
        max_nesting: if is_load { 0 } else { 100 },
    };
    if args.positional().len() > 1 || args.block.is_some() {
        return Err(interpreter.unsupported_error("JSON.load with a proc"));
    }
    for (name, value) in args.options().map(|options| options.pairs()).unwrap_or_default() {
        let name = interpreter.text_of(&name)?;
        match name.as_str() {
            "symbolize_names" => options.symbolizes_names = value.is_truthy(),
            "allow_nan" => options.allow_nan = value.is_truthy(),
            "max_nesting" if !value.is_truthy() => options.max_nesting = 0,
            "max_nesting" => options.max_nesting = interpreter.int_arg(&value)?.max(0) as usize,
            "create_additions" if !value.is_truthy() => {}
            other => return Err(interpreter.unsupported_error(format!("JSON.parse with {other}:"))),
        }
    }
    json_reader::read(interpreter, text, &options)
}
