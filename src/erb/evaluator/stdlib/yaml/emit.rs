//! Writes documents in block style, with an indentation of two spaces and lines folded after column 80.

use std::collections::HashMap;
use std::rc::Rc;

use super::resolve;
use super::scalar::{Style, analyze, escape, is_break, is_printable};
use crate::evaluator::eval::{EvalResult, Interp};
use crate::evaluator::methods::float_to_s;
use crate::evaluator::value::{Data, Value};

/// Lines are folded at the first space after this column.
const LINE_COLUMNS: usize = 80;
/// Maximum length of a key in bytes. Longer keys are written with `?`.
const MAX_SIMPLE_KEY_BYTES: usize = 128;

/// A node of a document. Each collection has a number, to which aliases refer.
enum Item {
    Scalar { text: String, tag: Option<&'static str>, style: Style, plain: bool },
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
pub(super) fn dump(interp: &mut Interp, value: &Value) -> EvalResult<String> {
    let mut builder = Builder::default();
    let root = builder.build(interp, value)?;
    let mut emitter = Emitter {
        out: String::new(),
        column: 0,
        has_space_before: true,
        has_only_indicators: true,
        indent: -2,
        anchors: builder.anchors,
        open_ended: false,
    };
    emitter.indicator("---", true, false, false);
    emitter.node(&root, false, false);
    emitter.write_indent();
    if emitter.open_ended {
        emitter.out.push_str("...\n");
    }
    interp.use_scratch(emitter.out.len())?;
    Ok(emitter.out)
}

fn plain(text: impl Into<String>) -> Item {
    Item::Scalar { text: text.into(), tag: None, style: Style::Plain, plain: true }
}

impl Builder {
    /// Gives a collection its number. The error is an alias if the collection has occurred before.
    fn register(&mut self, address: usize) -> Result<usize, Item> {
        let next = self.numbers.len();
        match self.numbers.get(&address) {
            Some(&number) => {
                let anchor = self.anchors.len() + 1;
                self.anchors.entry(number).or_insert(anchor);
                Err(Item::Alias(number))
            }
            None => {
                self.numbers.insert(address, next);
                Ok(next)
            }
        }
    }

    fn build(&mut self, interp: &mut Interp, value: &Value) -> EvalResult<Item> {
        interp.step(1)?;
        interp.check_depth()?;
        interp.use_scratch(32)?;
        Ok(match value {
            Value::Nil => plain(""),
            Value::Bool(flag) => plain(flag.to_string()),
            Value::Int(int) => plain(int.to_string()),
            Value::Big(big) => plain(big.to_string()),
            Value::Float(float) if float.is_nan() => plain(".nan"),
            Value::Float(float) if float.is_infinite() => plain(if *float > 0.0 { ".inf" } else { "-.inf" }),
            Value::Float(float) => plain(float_to_s(*float)),
            Value::Symbol(name) if name.is_empty() => Item::Scalar {
                text: String::new(),
                tag: Some("!ruby/symbol"),
                style: Style::Single,
                plain: false,
            },
            Value::Symbol(name) => plain(format!(":{name}")),
            Value::Str(text) => {
                if text.binary.get() && !text.get().is_ascii() {
                    return Err(interp.unsupported("YAML of binary data"));
                }
                string(&text.get())
            }
            Value::Array(array) => match self.register(Rc::as_ptr(array) as usize) {
                Err(alias) => alias,
                Ok(number) => {
                    let mut items = Vec::new();
                    for item in array.to_vec() {
                        items.push(self.build(interp, &item)?);
                    }
                    Item::Sequence(items, number)
                }
            },
            Value::Hash(hash) => match self.register(Rc::as_ptr(hash) as usize) {
                Err(alias) => alias,
                Ok(number) => {
                    let mut pairs = Vec::new();
                    for (key, value) in hash.pairs() {
                        pairs.push((self.build(interp, &key)?, self.build(interp, &value)?));
                    }
                    Item::Mapping(pairs, number, None)
                }
            },
            Value::Range(range) => {
                let number = self.numbers.len();
                self.numbers.insert(Rc::as_ptr(range) as usize, number);
                let pairs = vec![
                    (plain("begin"), self.build(interp, &range.from)?),
                    (plain("end"), self.build(interp, &range.to)?),
                    (plain("excl"), plain(range.excludes_end.to_string())),
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
                    return Err(interp.unsupported(format!("YAML of a {class}")));
                };
                match self.register(Rc::as_ptr(object) as usize) {
                    Err(alias) => alias,
                    Ok(number) => {
                        let mut pairs = Vec::new();
                        for (name, field) in members.iter().zip(&fields) {
                            pairs.push((plain(name.to_string()), self.build(interp, field)?));
                        }
                        Item::Mapping(pairs, number, Some(format!("!ruby/struct:{}", object.class.label())))
                    }
                }
            }
            other => {
                let class = interp.class_of(other).label();
                return Err(interp.unsupported(format!("YAML of a {class}")));
            }
        })
    }
}

/// Returns a string as a scalar in the style that Psych requests.
fn string(text: &str) -> Item {
    // True if a line break is followed by more than a single final line break.
    let inner_break = text.match_indices('\n').any(|(at, _)| !matches!(&text[at + 1..], "" | "\n"));
    let mut tag = None;
    let mut plain = true;
    let style = if inner_break {
        Style::Literal
    } else if text == "<<" {
        tag = Some("!!str");
        plain = false;
        Style::Single
    } else if matches!(text, "y" | "n") || has_line_with_sign(text) {
        Style::Double
    } else if !resolve::is_string(text) || is_invalid_octal(text) {
        Style::Single
    } else {
        Style::Plain
    };
    Item::Scalar { text: text.to_owned(), tag, style, plain }
}

/// Returns true if a line starts with neither a letter, a digit nor `_`, and has no double quote after that
/// character.
fn has_line_with_sign(text: &str) -> bool {
    let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1));
    starts.filter(|at| *at < text.len()).any(|at| {
        let mut rest = text[at..].chars();
        let sign = rest.next().is_some_and(|first| !(first.is_alphanumeric() || first == '_'));
        sign && !rest.as_str().split('\n').next().unwrap_or_default().contains('"')
    })
}

/// Returns true for a text such as `08`, which is not a number but is quoted by Psych.
fn is_invalid_octal(text: &str) -> bool {
    text.strip_prefix('0')
        .is_some_and(|rest| rest.trim_start_matches(|c: char| matches!(c, '0'..='7')).starts_with(['8', '9']))
}

/// Writes nodes by the rules of libyaml.
struct Emitter {
    out: String,
    column: usize,
    /// True if the next indicator needs no space before it.
    has_space_before: bool,
    /// True if the line has only indentation so far.
    has_only_indicators: bool,
    indent: i64,
    anchors: HashMap<usize, usize>,
    /// True if the last literal scalar keeps its final line breaks. The document then ends with `...`.
    open_ended: bool,
}

impl Emitter {
    fn put(&mut self, character: char) {
        self.out.push(character);
        self.column += 1;
    }

    fn line_break(&mut self) {
        self.out.push('\n');
        self.column = 0;
    }

    /// Writes a line break of the text, which can be a character other than a line feed.
    fn break_as(&mut self, character: char) {
        self.out.push(character);
        self.column = 0;
    }

    /// Writes an indicator such as `-` or `[`, as libyaml does. With `need_blank`, a space stands before it.
    /// With `is_blank`, none is needed after it. With `is_indention`, it counts as indentation.
    fn indicator(&mut self, text: &str, need_blank: bool, is_blank: bool, is_indention: bool) {
        if need_blank && !self.has_space_before {
            self.put(' ');
        }
        self.out.push_str(text);
        self.column += text.chars().count();
        self.has_space_before = is_blank;
        self.has_only_indicators = self.has_only_indicators && is_indention;
    }

    fn write_indent(&mut self) {
        let indent = self.indent.max(0) as usize;
        if !self.has_only_indicators
            || self.column > indent
            || (self.column == indent && !self.has_space_before)
        {
            self.line_break();
        }
        while self.column < indent {
            self.put(' ');
        }
        self.has_space_before = true;
        self.has_only_indicators = true;
    }

    fn node(&mut self, item: &Item, in_mapping: bool, simple_key: bool) {
        match item {
            Item::Alias(number) => {
                let anchor = self.anchors.get(number).copied().unwrap_or_default();
                self.indicator(&format!("*{anchor}"), true, false, false);
            }
            Item::Scalar { text, tag, style, plain } => self.scalar(text, *tag, *style, *plain, simple_key),
            Item::Sequence(items, number) => {
                self.anchor(*number);
                if items.is_empty() {
                    self.indicator("[", true, true, false);
                    self.indicator("]", false, false, false);
                    return;
                }
                let outer = self.indent;
                let indentless = in_mapping && !self.has_only_indicators;
                if self.indent < 0 {
                    self.indent = 0;
                } else if !indentless {
                    self.indent += 2;
                }
                for item in items {
                    self.write_indent();
                    self.indicator("-", true, false, true);
                    self.node(item, false, false);
                }
                self.indent = outer;
            }
            Item::Mapping(pairs, number, tag) => {
                self.anchor(*number);
                if let Some(tag) = tag {
                    self.indicator(tag, true, false, false);
                }
                if pairs.is_empty() {
                    self.indicator("{", true, true, false);
                    self.indicator("}", false, false, false);
                    return;
                }
                let outer = self.indent;
                self.indent = if self.indent < 0 { 0 } else { self.indent + 2 };
                for (key, value) in pairs {
                    self.write_indent();
                    if is_simple_key(key) {
                        self.node(key, true, true);
                        self.indicator(":", false, false, false);
                    } else {
                        self.indicator("?", true, false, true);
                        self.node(key, true, false);
                        self.write_indent();
                        self.indicator(":", true, false, true);
                    }
                    self.node(value, true, false);
                }
                self.indent = outer;
            }
        }
    }

    fn anchor(&mut self, number: usize) {
        if let Some(anchor) = self.anchors.get(&number).copied() {
            self.indicator(&format!("&{anchor}"), true, false, false);
        }
    }

    fn scalar(&mut self, text: &str, tag: Option<&str>, style: Style, plain: bool, simple_key: bool) {
        let analysis = analyze(text);
        let mut style = style;
        let mut tag = tag;
        if simple_key && analysis.multiline {
            style = Style::Double;
        }
        if style == Style::Plain && (!analysis.allows_plain || (text.is_empty() && simple_key) || !plain) {
            style = Style::Single;
            if text.is_empty() && simple_key && tag.is_none() {
                // Nil as a key is quoted, and the tag shows that it is not a string.
                tag = Some("!");
            }
        }
        if style == Style::Single && !analysis.allows_single_quotes {
            style = Style::Double;
        }
        if style == Style::Literal && (!analysis.allows_block || simple_key) {
            style = Style::Double;
        }
        if let Some(tag) = tag {
            self.indicator(tag, true, false, false);
        }
        let outer = self.indent;
        self.indent = if self.indent < 0 { 2 } else { self.indent + 2 };
        match style {
            Style::Plain => self.plain(text, !simple_key),
            Style::Single => self.single(text, !simple_key),
            Style::Double => self.double(text, !simple_key),
            Style::Literal => self.literal(text),
        }
        self.indent = outer;
    }

    fn plain(&mut self, text: &str, fold: bool) {
        if !self.has_space_before && !text.is_empty() {
            self.put(' ');
        }
        let characters: Vec<char> = text.chars().collect();
        let mut spaces = false;
        for (index, &character) in characters.iter().enumerate() {
            if character == ' ' {
                let next_blank = characters.get(index + 1) == Some(&' ');
                if fold && !spaces && self.column > LINE_COLUMNS && !next_blank {
                    self.write_indent();
                } else {
                    self.put(character);
                }
                spaces = true;
            } else {
                self.put(character);
                self.has_only_indicators = false;
                spaces = false;
            }
        }
        self.has_space_before = false;
        self.has_only_indicators = false;
    }

    fn single(&mut self, text: &str, fold: bool) {
        self.indicator("'", true, false, false);
        let characters: Vec<char> = text.chars().collect();
        let (mut spaces, mut breaks) = (false, false);
        for (index, &character) in characters.iter().enumerate() {
            let inside = index > 0 && index + 1 < characters.len();
            if character == ' ' {
                let next_blank = characters.get(index + 1) == Some(&' ');
                if fold && !spaces && self.column > LINE_COLUMNS && inside && !next_blank {
                    self.write_indent();
                } else {
                    self.put(character);
                }
                spaces = true;
            } else if is_break(character) {
                if !breaks && character == '\n' {
                    self.line_break();
                }
                self.break_as(character);
                self.has_only_indicators = true;
                breaks = true;
            } else {
                if breaks {
                    self.write_indent();
                }
                if character == '\'' {
                    self.put('\'');
                }
                self.put(character);
                self.has_only_indicators = false;
                spaces = false;
                breaks = false;
            }
        }
        if breaks {
            self.write_indent();
        }
        self.indicator("'", false, false, false);
        self.has_space_before = false;
        self.has_only_indicators = false;
    }

    fn double(&mut self, text: &str, fold: bool) {
        self.indicator("\"", true, false, false);
        let characters: Vec<char> = text.chars().collect();
        let mut spaces = false;
        for (index, &character) in characters.iter().enumerate() {
            let inside = index > 0 && index + 1 < characters.len();
            if !is_printable(character) || is_break(character) || matches!(character, '"' | '\\') {
                let escaped = escape(character);
                self.column += escaped.chars().count();
                self.out.push_str(&escaped);
                spaces = false;
            } else if character == ' ' {
                if fold && !spaces && self.column > LINE_COLUMNS && inside {
                    self.write_indent();
                    if characters.get(index + 1) == Some(&' ') {
                        self.put('\\');
                    }
                } else {
                    self.put(character);
                }
                spaces = true;
            } else {
                self.put(character);
                spaces = false;
            }
        }
        self.indicator("\"", false, false, false);
        self.has_space_before = false;
        self.has_only_indicators = false;
    }

    fn literal(&mut self, text: &str) {
        self.indicator("|", true, false, false);
        self.open_ended = false;
        let characters: Vec<char> = text.chars().collect();
        if characters.first().is_some_and(|first| *first == ' ' || is_break(*first)) {
            self.indicator("2", false, false, false);
        }
        let last_break = characters.last().is_some_and(|last| is_break(*last));
        if !last_break {
            self.indicator("-", false, false, false);
        } else if characters.len() == 1 || is_break(characters[characters.len() - 2]) {
            self.indicator("+", false, false, false);
            self.open_ended = true;
        }
        self.line_break();
        self.has_only_indicators = true;
        self.has_space_before = true;
        let mut breaks = true;
        for character in characters {
            if is_break(character) {
                self.break_as(character);
                self.has_only_indicators = true;
                breaks = true;
            } else {
                if breaks {
                    self.write_indent();
                }
                self.put(character);
                self.has_only_indicators = false;
                breaks = false;
            }
        }
    }
}

fn is_simple_key(item: &Item) -> bool {
    match item {
        Item::Alias(_) => true,
        Item::Scalar { text, .. } => !text.chars().any(is_break) && text.len() <= MAX_SIMPLE_KEY_BYTES,
        Item::Sequence(items, _) => items.is_empty(),
        Item::Mapping(pairs, ..) => pairs.is_empty(),
    }
}
