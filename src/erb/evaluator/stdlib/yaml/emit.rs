//! Writes documents in block style, with an indentation of two spaces and lines folded after column 80.

use std::collections::HashMap;
use std::rc::Rc;

use super::resolve;
use super::scalar::{Style, analyze, escape, is_break, is_printable};
use crate::evaluator::eval::{EvalResult, Interpreter};
use crate::evaluator::methods::float_to_s;
use crate::evaluator::value::{Data, Value};

/// Lines are folded at the first space after this column.
const LINE_COLUMNS: usize = 80;
/// Maximum length of a key in bytes. Longer keys are written with `?`.
const MAX_SIMPLE_KEY_BYTES: usize = 128;

/// A node of a document. Each collection has a number, to which aliases refer.
enum Item {
    Scalar { text: String, tag: Option<&'static str>, style: Style, is_plain: bool },
    Sequence(Vec<Item>, usize),
    Mapping(Vec<(Item, Item)>, usize, Option<String>),
    Alias(usize),
}

/// Converts values to nodes.
#[derive(Default)]
struct Builder {
    /// Numbers of the collections that have occurred, by address.
    numbers: HashMap<usize, usize>,
    /// Anchors of the collections that have occurred twice, by number. They are numbered in the order of the
    /// second occurrence.
    anchors: HashMap<usize, usize>,
}

/// Returns a document that consists of one value.
pub(super) fn dump(interpreter: &mut Interpreter, value: &Value) -> EvalResult<String> {
    let mut builder = Builder::default();
    let root = builder.build(interpreter, value)?;
    let mut emitter = Emitter {
        text: String::new(),
        column: 0,
        has_space_before: true,
        has_only_indicators: true,
        indent: -2,
        anchors: builder.anchors,
        is_open_ended: false,
    };
    emitter.write_indicator("---", true, false);
    emitter.write_node(&root, false, false);
    emitter.write_indent();
    if emitter.is_open_ended {
        emitter.text.push_str("...\n");
    }
    interpreter.use_scratch(emitter.text.len())?;
    Ok(emitter.text)
}

fn plain_item(text: impl Into<String>) -> Item {
    Item::Scalar { text: text.into(), tag: None, style: Style::Plain, is_plain: true }
}

impl Builder {
    /// Gives a collection its number. The error is an alias if the collection has occurred before.
    fn register(&mut self, address: usize) -> Result<usize, Item> {
        let new_number = self.numbers.len();
        match self.numbers.get(&address) {
            Some(&number) => {
                let anchor = self.anchors.len() + 1;
                self.anchors.entry(number).or_insert(anchor);
                Err(Item::Alias(number))
            }
            None => {
                self.numbers.insert(address, new_number);
                Ok(new_number)
            }
        }
    }

    /// Converts a value to a node. A collection that occurs a second time becomes an alias.
    fn build(&mut self, interpreter: &mut Interpreter, value: &Value) -> EvalResult<Item> {
        interpreter.step(1)?;
        interpreter.check_depth()?;
        interpreter.use_scratch(32)?;
        Ok(match value {
            Value::Nil => plain_item(""),
            Value::Bool(flag) => plain_item(flag.to_string()),
            Value::Int(int) => plain_item(int.to_string()),
            Value::Big(big) => plain_item(big.to_string()),
            Value::Float(float) if float.is_nan() => plain_item(".nan"),
            Value::Float(float) if float.is_infinite() => {
                plain_item(if *float > 0.0 { ".inf" } else { "-.inf" })
            }
            Value::Float(float) => plain_item(float_to_s(*float)),
            Value::Symbol(name) if name.is_empty() => Item::Scalar {
                text: String::new(),
                tag: Some("!ruby/symbol"),
                style: Style::Single,
                is_plain: false,
            },
            Value::Symbol(name) => plain_item(format!(":{name}")),
            Value::Str(text) => {
                if text.is_binary.get() && !text.get().is_ascii() {
                    return Err(interpreter.unsupported_error("YAML of binary data"));
                }
                string_item(&text.get())
            }
            Value::Array(array) => match self.register(Rc::as_ptr(array) as usize) {
                Err(alias) => alias,
                Ok(number) => {
                    let mut items = Vec::new();
                    for item in array.to_vec() {
                        items.push(self.build(interpreter, &item)?);
                    }
                    Item::Sequence(items, number)
                }
            },
            Value::Hash(hash) => match self.register(Rc::as_ptr(hash) as usize) {
                Err(alias) => alias,
                Ok(number) => {
                    let mut pairs = Vec::new();
                    for (key, value) in hash.pairs() {
                        pairs.push((self.build(interpreter, &key)?, self.build(interpreter, &value)?));
                    }
                    Item::Mapping(pairs, number, None)
                }
            },
            Value::Range(range) => {
                let number = self.numbers.len();
                self.numbers.insert(Rc::as_ptr(range) as usize, number);
                let pairs = vec![
                    (plain_item("begin"), self.build(interpreter, &range.begin)?),
                    (plain_item("end"), self.build(interpreter, &range.end)?),
                    (plain_item("excl"), plain_item(range.excludes_end.to_string())),
                ];
                Item::Mapping(pairs, number, Some("!ruby/range".into()))
            }
            Value::Object(object) => {
                let fields = match &*object.data.borrow() {
                    Data::Struct(fields) => Some(fields.clone()),
                    _ => None,
                };
                let (Some(fields), Some((members, _))) = (fields, object.class.members.borrow().clone())
                else {
                    let class = object.class.label();
                    return Err(interpreter.unsupported_error(format!("YAML of a {class}")));
                };
                match self.register(Rc::as_ptr(object) as usize) {
                    Err(alias) => alias,
                    Ok(number) => {
                        let mut pairs = Vec::new();
                        for (name, field) in members.iter().zip(&fields) {
                            pairs.push((plain_item(name.to_string()), self.build(interpreter, field)?));
                        }
                        Item::Mapping(pairs, number, Some(format!("!ruby/struct:{}", object.class.label())))
                    }
                }
            }
            other => {
                let class = interpreter.class_of(other).label();
                return Err(interpreter.unsupported_error(format!("YAML of a {class}")));
            }
        })
    }
}

/// Returns a string as a scalar in the style that Psych requests.
fn string_item(text: &str) -> Item {
    // True if a line break is followed by more than a single final line break.
    let has_inner_break =
        text.match_indices('\n').any(|(line_break, _)| !matches!(&text[line_break + 1..], "" | "\n"));
    let mut tag = None;
    let mut is_plain = true;
    let style = if has_inner_break {
        Style::Literal
    } else if text == "<<" {
        tag = Some("!!str");
        is_plain = false;
        Style::Single
    } else if matches!(text, "y" | "n") || has_line_with_sign(text) {
        Style::Double
    } else if !resolve::is_string(text) || is_invalid_octal(text) {
        Style::Single
    } else {
        Style::Plain
    };
    Item::Scalar { text: text.to_owned(), tag, style, is_plain }
}

/// Returns true if a line starts with neither a letter, a digit nor `_`, and has no double quote after that
/// character.
fn has_line_with_sign(text: &str) -> bool {
    let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(line_break, _)| line_break + 1));
    starts.filter(|start| *start < text.len()).any(|start| {
        let mut rest = text[start..].chars();
        let starts_with_sign = rest.next().is_some_and(|first| !(first.is_alphanumeric() || first == '_'));
        starts_with_sign && !rest.as_str().split('\n').next().unwrap_or_default().contains('"')
    })
}

/// Returns true for a text such as `08`, which is not a number but is quoted by Psych.
fn is_invalid_octal(text: &str) -> bool {
    text.strip_prefix('0')
        .is_some_and(|rest| rest.trim_start_matches(|c: char| matches!(c, '0'..='7')).starts_with(['8', '9']))
}

/// Writes nodes by the rules of libyaml.
struct Emitter {
    text: String,
    column: usize,
    /// True if the next indicator needs no space before it.
    has_space_before: bool,
    /// True if the line has only indentation so far.
    has_only_indicators: bool,
    indent: i64,
    anchors: HashMap<usize, usize>,
    /// True if the last literal scalar keeps its final line breaks. The document then ends with `...`.
    is_open_ended: bool,
}

impl Emitter {
    fn put(&mut self, character: char) {
        self.text.push(character);
        self.column += 1;
    }

    fn write_line_break(&mut self) {
        self.text.push('\n');
        self.column = 0;
    }

    /// Writes a line break of the text, which can be a character other than a line feed.
    fn write_break(&mut self, character: char) {
        self.text.push(character);
        self.column = 0;
    }

    /// Writes an indicator such as `-` or `"`, as libyaml does. With `keeps_indentation`, it counts as
    /// indentation.
    fn write_indicator(&mut self, text: &str, needs_space_before: bool, keeps_indentation: bool) {
        if needs_space_before && !self.has_space_before {
            self.put(' ');
        }
        self.text.push_str(text);
        self.column += text.chars().count();
        self.has_space_before = false;
        self.has_only_indicators = self.has_only_indicators && keeps_indentation;
    }

    fn write_indent(&mut self) {
        let indent = self.indent.max(0) as usize;
        if !self.has_only_indicators
            || self.column > indent
            || (self.column == indent && !self.has_space_before)
        {
            self.write_line_break();
        }
        while self.column < indent {
            self.put(' ');
        }
        self.has_space_before = true;
        self.has_only_indicators = true;
    }

    /// Writes a node. A list in a mapping (`in_mapping`) is not indented further. A simple key stands on one
    /// line before its colon.
    fn write_node(&mut self, item: &Item, in_mapping: bool, is_simple_key: bool) {
        match item {
            Item::Alias(number) => {
                let anchor = self.anchors.get(number).copied().unwrap_or_default();
                self.write_indicator(&format!("*{anchor}"), true, false);
            }
            Item::Scalar { text, tag, style, is_plain } => {
                self.write_scalar(text, *tag, *style, *is_plain, is_simple_key);
            }
            Item::Sequence(items, number) => {
                self.write_anchor(*number);
                if items.is_empty() {
                    self.write_indicator("[]", true, false);
                    return;
                }
                let outer = self.indent;
                let is_indentless = in_mapping && !self.has_only_indicators;
                if self.indent < 0 {
                    self.indent = 0;
                } else if !is_indentless {
                    self.indent += 2;
                }
                for item in items {
                    self.write_indent();
                    self.write_indicator("-", true, true);
                    self.write_node(item, false, false);
                }
                self.indent = outer;
            }
            Item::Mapping(pairs, number, tag) => {
                self.write_anchor(*number);
                if let Some(tag) = tag {
                    self.write_indicator(tag, true, false);
                }
                if pairs.is_empty() {
                    self.write_indicator("{}", true, false);
                    return;
                }
                let outer = self.indent;
                self.indent = if self.indent < 0 { 0 } else { self.indent + 2 };
                for (key, value) in pairs {
                    self.write_indent();
                    if can_be_simple_key(key) {
                        self.write_node(key, true, true);
                        self.write_indicator(":", false, false);
                    } else {
                        self.write_indicator("?", true, true);
                        self.write_node(key, true, false);
                        self.write_indent();
                        self.write_indicator(":", true, true);
                    }
                    self.write_node(value, true, false);
                }
                self.indent = outer;
            }
        }
    }

    fn write_anchor(&mut self, number: usize) {
        if let Some(anchor) = self.anchors.get(&number).copied() {
            self.write_indicator(&format!("&{anchor}"), true, false);
        }
    }

    /// Writes a text in the requested style or, if that cannot represent it, in single or double quotes.
    /// Without `is_plain`, the plain style is not used.
    fn write_scalar(
        &mut self,
        text: &str,
        tag: Option<&str>,
        style: Style,
        is_plain: bool,
        is_simple_key: bool,
    ) {
        let analysis = analyze(text);
        let mut style = style;
        let mut tag = tag;
        if is_simple_key && analysis.is_multiline {
            style = Style::Double;
        }
        if style == Style::Plain
            && (!analysis.allows_plain || (text.is_empty() && is_simple_key) || !is_plain)
        {
            style = Style::Single;
            if text.is_empty() && is_simple_key && tag.is_none() {
                // Nil as a key is quoted, and the tag shows that it is not a string.
                tag = Some("!");
            }
        }
        if style == Style::Single && !analysis.allows_single_quotes {
            style = Style::Double;
        }
        if style == Style::Literal && (!analysis.allows_block || is_simple_key) {
            style = Style::Double;
        }
        if let Some(tag) = tag {
            self.write_indicator(tag, true, false);
        }
        let outer = self.indent;
        self.indent = if self.indent < 0 { 2 } else { self.indent + 2 };
        match style {
            Style::Plain => self.write_plain(text, !is_simple_key),
            Style::Single => self.write_single_quoted(text, !is_simple_key),
            Style::Double => self.write_double_quoted(text, !is_simple_key),
            Style::Literal => self.write_literal(text),
        }
        self.indent = outer;
    }

    fn write_plain(&mut self, text: &str, folds: bool) {
        if !self.has_space_before && !text.is_empty() {
            self.put(' ');
        }
        let characters: Vec<char> = text.chars().collect();
        let mut follows_space = false;
        for (index, &character) in characters.iter().enumerate() {
            if character == ' ' {
                let is_next_blank = characters.get(index + 1) == Some(&' ');
                if folds && !follows_space && self.column > LINE_COLUMNS && !is_next_blank {
                    self.write_indent();
                } else {
                    self.put(character);
                }
                follows_space = true;
            } else {
                self.put(character);
                self.has_only_indicators = false;
                follows_space = false;
            }
        }
        self.has_space_before = false;
        self.has_only_indicators = false;
    }

    fn write_single_quoted(&mut self, text: &str, folds: bool) {
        self.write_indicator("'", true, false);
        let characters: Vec<char> = text.chars().collect();
        let (mut follows_space, mut follows_break) = (false, false);
        for (index, &character) in characters.iter().enumerate() {
            let is_inside = index > 0 && index + 1 < characters.len();
            if character == ' ' {
                let is_next_blank = characters.get(index + 1) == Some(&' ');
                if folds && !follows_space && self.column > LINE_COLUMNS && is_inside && !is_next_blank {
                    self.write_indent();
                } else {
                    self.put(character);
                }
                follows_space = true;
            } else if is_break(character) {
                if !follows_break && character == '\n' {
                    self.write_line_break();
                }
                self.write_break(character);
                self.has_only_indicators = true;
                follows_break = true;
            } else {
                if follows_break {
                    self.write_indent();
                }
                if character == '\'' {
                    self.put('\'');
                }
                self.put(character);
                self.has_only_indicators = false;
                follows_space = false;
                follows_break = false;
            }
        }
        if follows_break {
            self.write_indent();
        }
        self.write_indicator("'", false, false);
        self.has_space_before = false;
        self.has_only_indicators = false;
    }

    fn write_double_quoted(&mut self, text: &str, folds: bool) {
        self.write_indicator("\"", true, false);
        let characters: Vec<char> = text.chars().collect();
        let mut follows_space = false;
        for (index, &character) in characters.iter().enumerate() {
            let is_inside = index > 0 && index + 1 < characters.len();
            if !is_printable(character) || is_break(character) || matches!(character, '"' | '\\') {
                let escape_sequence = escape(character);
                self.column += escape_sequence.chars().count();
                self.text.push_str(&escape_sequence);
                follows_space = false;
            } else if character == ' ' {
                if folds && !follows_space && self.column > LINE_COLUMNS && is_inside {
                    self.write_indent();
                    if characters.get(index + 1) == Some(&' ') {
                        self.put('\\');
                    }
                } else {
                    self.put(character);
                }
                follows_space = true;
            } else {
                self.put(character);
                follows_space = false;
            }
        }
        self.write_indicator("\"", false, false);
        self.has_space_before = false;
        self.has_only_indicators = false;
    }

    /// Writes a text as a literal block. `-` or `+` after the `|` says that the text has no line break at its
    /// end, or several.
    fn write_literal(&mut self, text: &str) {
        self.write_indicator("|", true, false);
        self.is_open_ended = false;
        let characters: Vec<char> = text.chars().collect();
        if characters.first().is_some_and(|first| *first == ' ' || is_break(*first)) {
            self.write_indicator("2", false, false);
        }
        let ends_with_break = characters.last().is_some_and(|last| is_break(*last));
        if !ends_with_break {
            self.write_indicator("-", false, false);
        } else if characters.len() == 1 || is_break(characters[characters.len() - 2]) {
            self.write_indicator("+", false, false);
            self.is_open_ended = true;
        }
        self.write_line_break();
        self.has_only_indicators = true;
        self.has_space_before = true;
        let mut follows_break = true;
        for character in characters {
            if is_break(character) {
                self.write_break(character);
                self.has_only_indicators = true;
                follows_break = true;
            } else {
                if follows_break {
                    self.write_indent();
                }
                self.put(character);
                self.has_only_indicators = false;
                follows_break = false;
            }
        }
    }
}

fn can_be_simple_key(item: &Item) -> bool {
    match item {
        Item::Alias(_) => true,
        Item::Scalar { text, .. } => !text.chars().any(is_break) && text.len() <= MAX_SIMPLE_KEY_BYTES,
        Item::Sequence(items, _) => items.is_empty(),
        Item::Mapping(pairs, ..) => pairs.is_empty(),
    }
}
