//! The texts of values: `to_s` and `inspect`.

use std::fmt::Write as _;
use std::rc::Rc;
use std::sync::LazyLock;

use crate::evaluator::eval::{EvalResult, Interpreter};
use crate::evaluator::meter::Charge;
use crate::evaluator::stdlib;
use crate::evaluator::value::{Data, Object, ProcKind, Value};

impl Interpreter {
    /// Returns the text of `to_s`. A template can define it for its own classes.
    pub(crate) fn text_of(&mut self, value: &Value) -> EvalResult<String> {
        self.check_depth()?;
        Ok(match value {
            Value::Str(text) if text.has_bytes() => {
                return Err(self.unsupported_error("text that is not UTF-8"));
            }
            Value::Str(text) => text.get().clone(),
            Value::Nil => String::new(),
            Value::Bool(flag) => flag.to_string(),
            Value::Int(int) => int.to_string(),
            Value::Big(big) => big.to_string(),
            Value::Float(float) => float_to_s(*float),
            Value::Symbol(name) => name.to_string(),
            Value::Array(_) | Value::Hash(_) => self.inspect(value)?,
            Value::Range(range) => {
                let dots = if range.excludes_end { "..." } else { ".." };
                let (begin, end) = (self.text_of(&range.begin)?, self.text_of(&range.end)?);
                format!("{begin}{dots}{end}")
            }
            Value::Regexp(regexp) => regexp.to_s(),
            Value::Match(match_data) => match_data.group(0).unwrap_or_default().to_owned(),
            Value::Class(class) => class.label(),
            Value::Proc(_) => self.inspect(value)?,
            Value::Object(object) => {
                if let Some(method) = self.find_user_method(value, "to_s") {
                    return match self.invoke(&method, value, crate::evaluator::eval::Args::default())? {
                        Value::Str(text) => Ok(text.get().clone()),
                        _ => Ok(self.anonymous_text(object)),
                    };
                }
                self.object_to_s(object)?
            }
        })
    }

    /// Returns the text of Ruby's own `to_s` for an object.
    fn object_to_s(&mut self, object: &Rc<Object>) -> EvalResult<String> {
        let value = Value::Object(Rc::clone(object));
        let data = object.data.borrow();
        Ok(match &*data {
            Data::Exception(exception) => {
                let message = exception.message.clone();
                drop(data);
                if message.is_nil() { object.class.label() } else { self.text_of(&message)? }
            }
            Data::Struct(_) | Data::Set(_) | Data::Enumerator { .. } => {
                drop(data);
                self.inspect(&value)?
            }
            Data::Address(address) => address.to_string(),
            Data::Uri(uri) => uri.to_string(),
            Data::Time(time) => match time.to_s() {
                Some(text) => text,
                None => return Err(self.unsupported_error("a time in the machine's time zone")),
            },
            Data::Digest(algorithm, bytes) => stdlib::digest::hex(algorithm, bytes),
            Data::Certificate(der) => stdlib::openssl::to_pem(der),
            Data::DistinguishedName(name) => name.to_string(),
            Data::Table(_) if object.class.label() == "OpenStruct" => {
                drop(data);
                self.inspect(&value)?
            }
            _ => self.anonymous_text(object),
        })
    }

    /// Returns the form `#<Class:0x…>`. The number is the object's ID, which is the same in each run.
    pub(crate) fn anonymous_text(&mut self, object: &Rc<Object>) -> String {
        format!("#<{}:{:#018x}>", object.class.label(), object.id)
    }

    /// Returns the text of `inspect`. A template can define it for its own classes.
    pub(crate) fn inspect(&mut self, value: &Value) -> EvalResult<String> {
        self.step(1 + self.collections_in_inspect.len() as u64 / 16)?;
        self.check_depth()?;
        Ok(match value {
            Value::Nil => "nil".into(),
            Value::Str(text) => inspect_str(&text.get(), text.is_binary.get()),
            Value::Symbol(name) => inspect_symbol(name),
            Value::Array(array) => {
                let address = Rc::as_ptr(array) as usize;
                if self.collections_in_inspect.contains(&address) {
                    return Ok("[...]".into());
                }
                self.collections_in_inspect.push(address);
                let result = self.inspect_list(&array.to_vec());
                self.collections_in_inspect.pop();
                format!("[{}]", result?)
            }
            Value::Hash(hash) => {
                let address = Rc::as_ptr(hash) as usize;
                if self.collections_in_inspect.contains(&address) {
                    return Ok("{...}".into());
                }
                self.collections_in_inspect.push(address);
                let result = self.inspect_pairs(&hash.pairs());
                self.collections_in_inspect.pop();
                format!("{{{}}}", result?)
            }
            Value::Range(range) => {
                let dots = if range.excludes_end { "..." } else { ".." };
                let begin = if range.begin.is_nil() { String::new() } else { self.inspect(&range.begin)? };
                let end = if range.end.is_nil() { String::new() } else { self.inspect(&range.end)? };
                if range.begin.is_nil() && range.end.is_nil() {
                    format!("nil{dots}nil")
                } else {
                    format!("{begin}{dots}{end}")
                }
            }
            Value::Regexp(regexp) => regexp.inspect(),
            Value::Match(match_data) => {
                let mut text =
                    format!("#<MatchData {}", inspect_str(match_data.group(0).unwrap_or_default(), false));
                for index in 1..match_data.groups.len() {
                    let name = match_data.regexp.group_name(index).unwrap_or_else(|| index.to_string());
                    let group =
                        match_data.group(index).map_or("nil".into(), |group| inspect_str(group, false));
                    let _ = write!(text, " {name}:{group}");
                }
                text + ">"
            }
            Value::Proc(block) => match &block.kind {
                ProcKind::Method { receiver, name } => {
                    let class = self.class_of(receiver).label();
                    format!("#<Method: {class}#{name}>")
                }
                _ if block.is_lambda.get() => format!("#<Proc:{:#018x} (lambda)>", block.tag),
                _ => format!("#<Proc:{:#018x}>", block.tag),
            },
            Value::Object(object) => {
                if let Some(method) = self.find_user_method(value, "inspect") {
                    let result = self.invoke(&method, value, crate::evaluator::eval::Args::default())?;
                    return self.text_of(&result);
                }
                let address = Rc::as_ptr(object) as usize;
                if self.collections_in_inspect.contains(&address) {
                    return Ok(format!("#<{} ...>", object.class.label()));
                }
                self.collections_in_inspect.push(address);
                let result = self.inspect_object(object);
                self.collections_in_inspect.pop();
                result?
            }
            other => self.text_of(other)?,
        })
    }

    /// Returns the text of Ruby's own `inspect` for an object.
    fn inspect_object(&mut self, object: &Rc<Object>) -> EvalResult<String> {
        let class = object.class.label();
        let data = object.data.borrow();
        Ok(match &*data {
            Data::Exception(_) => {
                drop(data);
                let message = self.call_message(object)?;
                if message.is_empty() { class } else { format!("#<{class}: {message}>") }
            }
            Data::Struct(fields) => {
                let fields = fields.clone();
                drop(data);
                let members =
                    object.class.members.borrow().clone().map(|(names, _)| names).unwrap_or_default();
                let mut parts = Vec::new();
                for (name, value) in members.iter().zip(&fields) {
                    parts.push(format!("{name}={}", self.inspect(value)?));
                }
                let has_name = object.class.name.borrow().is_some();
                let head = if has_name { format!("#<struct {class} ") } else { "#<struct ".into() };
                format!("{head}{}>", parts.join(", "))
            }
            Data::Plain if class == "Encoding" => {
                drop(data);
                let name = self.instance_variable(&Value::Object(Rc::clone(object)), "@name");
                format!("#<Encoding:{}>", self.text_of(&name)?)
            }
            Data::Table(table) if class == "OpenStruct" => {
                let pairs = table.pairs();
                drop(data);
                let mut parts = Vec::new();
                for (name, value) in &pairs {
                    parts.push(format!("{}={}", self.text_of(name)?, self.inspect(value)?));
                }
                if parts.is_empty() {
                    "#<OpenStruct>".into()
                } else {
                    format!("#<OpenStruct {}>", parts.join(", "))
                }
            }
            Data::Set(set) => {
                let keys: Vec<Value> = set.pairs().into_iter().map(|(key, _)| key).collect();
                drop(data);
                format!("#<Set: {{{}}}>", self.inspect_list(&keys)?)
            }
            Data::Enumerator { receiver, method, args, is_lazy } => {
                let (receiver, method, args, is_lazy) =
                    (receiver.clone(), method.clone(), args.clone(), *is_lazy);
                drop(data);
                if matches!(&*method, "step" | "%") && matches!(receiver, Value::Range(_) | Value::Int(_)) {
                    let receiver_text = self.inspect(&receiver)?;
                    let receiver_text = if matches!(receiver, Value::Range(_)) {
                        format!("({receiver_text})")
                    } else {
                        receiver_text
                    };
                    return Ok(format!("({receiver_text}.{method}({}))", self.inspect_list(&args)?));
                }
                let mut text = format!("#<Enumerator: {}:{method}", self.inspect(&receiver)?);
                if is_lazy {
                    text = format!("#<Enumerator::Lazy: {}", self.inspect(&receiver)?);
                } else if !args.is_empty() {
                    text.push_str(&format!("({})", self.inspect_list(&args)?));
                }
                text + ">"
            }
            Data::Address(address) => format!("#<{class}: {}>", address.inspect()),
            Data::Uri(uri) => format!("#<{class} {uri}>"),
            Data::Time(time) => match time.inspect() {
                Some(text) => text,
                None => return Err(self.unsupported_error("a time in the machine's time zone")),
            },
            Data::Digest(algorithm, bytes) => {
                format!("#<{class}: {}>", stdlib::digest::hex(algorithm, bytes))
            }
            Data::Plain if !object.variables.borrow().is_empty() => {
                drop(data);
                let variables = object.variables.borrow().clone();
                let mut parts = Vec::new();
                for (name, value) in &variables {
                    parts.push(format!("{name}={}", self.inspect(value)?));
                }
                format!("#<{class}:{:#018x} {}>", object.id, parts.join(", "))
            }
            _ => {
                drop(data);
                self.anonymous_text(object)
            }
        })
    }

    /// Returns the values as `inspect` shows them, separated by commas.
    pub(crate) fn inspect_list(&mut self, items: &[Value]) -> EvalResult<String> {
        let mut text = String::new();
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                text.push_str(", ");
            }
            let item_text = self.inspect(item)?;
            self.use_scratch(16 + item_text.len())?;
            text.push_str(&item_text);
        }
        Ok(text)
    }

    fn inspect_pairs(&mut self, pairs: &[(Value, Value)]) -> EvalResult<String> {
        let mut text = String::new();
        for (index, (key, value)) in pairs.iter().enumerate() {
            if index > 0 {
                text.push_str(", ");
            }
            let (key, value) = (self.inspect(key)?, self.inspect(value)?);
            self.use_scratch(16 + key.len() + value.len())?;
            text.push_str(&key);
            text.push_str("=>");
            text.push_str(&value);
        }
        Ok(text)
    }
}

/// Returns a string as `inspect` shows it. In a `is_binary` string each character stands for one byte.
pub(crate) fn inspect_str(text: &str, is_binary: bool) -> String {
    // A character becomes up to six bytes.
    let _charge = Charge::new(text.len() * 6);
    let mut literal = String::with_capacity(text.len() + 2);
    literal.push('"');
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '"' => literal.push_str("\\\""),
            '\\' => literal.push_str("\\\\"),
            '\n' => literal.push_str("\\n"),
            '\r' => literal.push_str("\\r"),
            '\t' => literal.push_str("\\t"),
            '\u{c}' => literal.push_str("\\f"),
            '\u{b}' => literal.push_str("\\v"),
            '\u{8}' => literal.push_str("\\b"),
            '\u{7}' => literal.push_str("\\a"),
            '\u{1b}' => literal.push_str("\\e"),
            '#' => match characters.peek() {
                Some('{' | '$' | '@') => literal.push_str("\\#"),
                _ => literal.push('#'),
            },
            ' '..='~' => literal.push(character),
            _ if is_binary => {
                let _ = write!(literal, "\\x{:02X}", character as u32);
            }
            _ if is_printable(character) => literal.push(character),
            _ if (character as u32) > 0xffff => {
                let _ = write!(literal, "\\u{{{:X}}}", character as u32);
            }
            _ => {
                let _ = write!(literal, "\\u{:04X}", character as u32);
            }
        }
    }
    literal.push('"');
    literal
}

/// Returns true if Ruby shows a character beyond ASCII without an escape. These are the characters of Unicode
/// 13 except noncharacters, line and paragraph separators, and control characters other than U+0085.
pub(super) fn is_printable(character: char) -> bool {
    #[expect(clippy::expect_used, reason = "the pattern is a constant")]
    static PRINTABLE_CHARACTER: LazyLock<fancy_regex::Regex> = LazyLock::new(|| {
        fancy_regex::Regex::new(r"\A[\p{Age=13.0}--\p{Cc}\p{Zl}\p{Zp}\p{Noncharacter_Code_Point}]\z")
            .expect("a valid pattern")
    });
    character == '\u{85}' || PRINTABLE_CHARACTER.is_match(character.encode_utf8(&mut [0; 4])).unwrap_or(false)
}

/// Returns a symbol as `inspect` shows it.
pub(crate) fn inspect_symbol(name: &str) -> String {
    if super::symbol_name::is_plain(name) {
        format!(":{name}")
    } else {
        format!(":{}", inspect_str(name, name.is_ascii()))
    }
}

/// Returns a float as Ruby shows it, with the fewest digits that read back as the same float. Floats below
/// 1e-4, and floats from 1e15 without digits after the point, are shown with an exponent.
pub(crate) fn float_to_s(float: f64) -> String {
    if float.is_nan() {
        return "NaN".into();
    }
    if float.is_infinite() {
        return if float > 0.0 { "Infinity".into() } else { "-Infinity".into() };
    }
    if float == 0.0 {
        return if float.is_sign_negative() { "-0.0".into() } else { "0.0".into() };
    }
    let shortest = format!("{float:e}");
    let digits = shortest.bytes().take_while(|byte| *byte != b'e').filter(u8::is_ascii_digit).count();
    // If two texts are equally short and equally near, Ruby takes the one with the even last digit.
    let even_text = format!("{float:.*e}", digits - 1);
    let scientific = if even_text.parse() == Ok(float) { even_text } else { shortest };
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if exponent >= -4 && exponent < 15.max(digits as i32 - 1) {
        // There is at least one digit after the point.
        let decimals = (digits as i32 - 1 - exponent).max(0) as usize;
        return if decimals > 0 { format!("{float:.decimals$}") } else { format!("{float:.1}") };
    }
    let mantissa = if mantissa.contains('.') { mantissa.to_owned() } else { format!("{mantissa}.0") };
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}
