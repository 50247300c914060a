//! Emits [`Node`]s as text that equals upstream's output byte for byte.
//!
//! Keys are sorted. Mappings are indented by two spaces, and sequences start in the column of their key.
//! Lines are folded after column 80. The rules for plain, quoted and literal scalars are upstream's.

use std::convert::Infallible;

use super::order;
use super::scalar::{self, ResolvedScalar};
use super::{Data, Mapping, Node};

/// The number of characters after which a line is folded at the next space.
const LINE_COLUMNS: usize = 80;
/// The maximum length in bytes of a key that is written as `key:` and not as `? key`.
const MAX_SIMPLE_KEY_BYTES: usize = 128;
/// The columns by which a nested mapping is indented.
const INDENT_COLUMNS: usize = 2;
/// The number of bytes after which a piece of the document ends, with the scalar that is being written.
const PIECE_BYTES: usize = 64 << 10;

/// Emits a tree as a YAML document, with a line break at its end.
///
/// Keys are sorted, so a mapping's own order is lost. [`load`](crate::load()) reads the text back as an equal
/// tree, except that a float without a fraction becomes an integer (see
/// [`after_round_trip`](crate::after_round_trip)), and the key `<<` a merge.
pub fn emit(node: &Node) -> String {
    let mut text = String::new();
    let Ok(()) = emit_pieces(node, |piece| {
        text.push_str(piece);
        Ok::<(), Infallible>(())
    });
    text
}

/// Emits a tree like [`emit`], in pieces, for documents that need not be in memory as a whole.
///
/// # Errors
///
/// Returns the first error of `write`, which is not called again.
pub fn emit_pieces<E>(node: &Node, write: impl FnMut(&str) -> Result<(), E>) -> Result<(), E> {
    let mut emitter = Emitter {
        write,
        piece: Piece {
            out: String::new(),
            column: 0,
            indent: None,
            has_space_before: true,
            has_only_indicators: true,
        },
    };
    emitter.write_node(node, Context::Root)?;
    emitter.piece.indent = None;
    emitter.piece.start_line();
    emitter.flush()
}

/// The position of a node relative to its parent.
#[derive(Clone, Copy, PartialEq)]
enum Context {
    /// The document.
    Root,
    /// After `- `.
    Item,
    /// After `key:`.
    Value,
    /// A key on the line of its value: `key:`.
    SimpleKey,
    /// After `? `.
    ComplexKey,
}

/// The form in which a string is written.
#[derive(Clone, Copy, PartialEq)]
enum Style {
    Plain,
    Single,
    Double,
    Literal,
}

/// Writes nodes as go-yaml does.
struct Emitter<W> {
    /// Takes the pieces of the document.
    write: W,
    piece: Piece,
}

impl<W: FnMut(&str) -> Result<(), E>, E> Emitter<W> {
    fn write_node(&mut self, node: &Node, context: Context) -> Result<(), E> {
        if self.piece.out.len() >= PIECE_BYTES {
            self.flush()?;
        }
        match &node.data {
            Data::Seq(items) if !items.is_empty() => self.write_sequence(items, context),
            Data::Map(map) if !map.is_empty() => self.write_mapping(map),
            data => {
                self.piece.write_leaf(data, context);
                Ok(())
            }
        }
    }

    fn flush(&mut self) -> Result<(), E> {
        (self.write)(&self.piece.out)?;
        self.piece.out.clear();
        Ok(())
    }

    fn write_sequence(&mut self, items: &[Node], context: Context) -> Result<(), E> {
        let is_indentless = matches!(context, Context::Value | Context::SimpleKey | Context::ComplexKey)
            && !self.piece.has_only_indicators;
        let outer = self.piece.indent;
        if !is_indentless || outer.is_none() {
            self.piece.indent = Some(outer.map_or(0, |indent| indent + INDENT_COLUMNS));
        }
        for item in items {
            self.piece.start_line();
            self.piece.write_indicator("-", true, true);
            self.write_node(item, Context::Item)?;
        }
        self.piece.indent = outer;
        Ok(())
    }

    fn write_mapping(&mut self, map: &Mapping) -> Result<(), E> {
        let outer = self.piece.indent;
        self.piece.indent = Some(outer.map_or(0, |indent| indent + INDENT_COLUMNS));
        for (key, value) in order::sort_entries(map) {
            self.piece.start_line();
            if is_simple_key(key) {
                self.write_node(key, Context::SimpleKey)?;
                self.piece.write_indicator(":", false, false);
            } else {
                self.piece.write_indicator("?", true, true);
                self.write_node(key, Context::ComplexKey)?;
                self.piece.start_line();
                self.piece.write_indicator(":", true, true);
            }
            self.write_node(value, Context::Value)?;
        }
        self.piece.indent = outer;
        Ok(())
    }
}

/// The piece of the document that is being written.
struct Piece {
    out: String,
    /// The number of characters on this line so far.
    column: usize,
    /// The column in which block content starts. `None` outside collections.
    indent: Option<usize>,
    /// True if no space is needed before the next token.
    has_space_before: bool,
    /// True while this line has only spaces and indicators, such as `- `.
    has_only_indicators: bool,
}

impl Piece {
    /// Writes a scalar or an empty collection.
    fn write_leaf(&mut self, data: &Data, context: Context) {
        match data {
            Data::Null => self.write_plain("null"),
            Data::Bool(true) => self.write_plain("true"),
            Data::Bool(false) => self.write_plain("false"),
            Data::Int(int) => self.write_plain(&int.to_string()),
            Data::UInt(int) => self.write_plain(&int.to_string()),
            Data::Float(float) => self.write_plain(&scalar::format_float(*float)),
            Data::String(text) => self.write_string(text, context),
            Data::Seq(_) => self.write_indicator("[]", true, false),
            Data::Map(_) => self.write_indicator("{}", true, false),
        }
    }

    /// Moves to the indent: on this line if it has only indicators and has not passed the indent, otherwise
    /// on a new line. So the first entry of a mapping in a list follows its `- `.
    fn start_line(&mut self) {
        let indent = self.indent.unwrap_or(0);
        if !self.has_only_indicators
            || self.column > indent
            || (self.column == indent && !self.has_space_before)
        {
            self.write_line_break();
        }
        while self.column < indent {
            self.push(' ');
        }
        self.has_space_before = true;
        self.has_only_indicators = true;
    }

    fn write_line_break(&mut self) {
        self.out.push('\n');
        self.column = 0;
    }

    fn push(&mut self, character: char) {
        self.out.push(character);
        self.column += 1;
    }

    /// Writes text without line breaks.
    fn push_str(&mut self, text: &str) {
        self.out.push_str(text);
        self.column += text.chars().count();
    }

    /// Writes a line break that is part of a scalar.
    fn push_break(&mut self, character: char) {
        self.out.push(character);
        self.column = 0;
    }

    fn write_indicator(&mut self, text: &str, needs_space_before: bool, keeps_indentation: bool) {
        self.write_space(needs_space_before);
        self.push_str(text);
        self.has_space_before = false;
        self.has_only_indicators = self.has_only_indicators && keeps_indentation;
    }

    fn write_space(&mut self, is_needed: bool) {
        if is_needed && !self.has_space_before {
            self.push(' ');
        }
    }

    fn write_string(&mut self, text: &str, context: Context) {
        let outer = self.indent;
        self.indent = Some(outer.map_or(INDENT_COLUMNS, |indent| indent + INDENT_COLUMNS));
        let may_fold = context != Context::SimpleKey;
        match style(text, context) {
            Style::Plain => self.write_plain_folded(text, may_fold),
            Style::Single => self.write_single_quoted(text, may_fold),
            Style::Double => self.write_double_quoted(text, may_fold),
            Style::Literal => self.write_literal(text),
        }
        self.indent = outer;
    }

    /// Writes a plain scalar that has no spaces or line breaks.
    fn write_plain(&mut self, text: &str) {
        self.write_plain_folded(text, false);
    }

    fn write_plain_folded(&mut self, text: &str, folds: bool) {
        self.write_space(true);
        if folds && self.column + text.len() > LINE_COLUMNS {
            let mut follows_space = false;
            let mut rest = text.chars().peekable();
            while let Some(character) = rest.next() {
                if character == ' ' {
                    if !follows_space && self.column > LINE_COLUMNS && rest.peek() != Some(&' ') {
                        self.start_line();
                    } else {
                        self.push(' ');
                    }
                    follows_space = true;
                } else {
                    self.push(character);
                    self.has_only_indicators = false;
                    follows_space = false;
                }
            }
        } else {
            self.push_str(text);
        }
        self.has_space_before = false;
        self.has_only_indicators = false;
    }

    /// Writes a single-quoted scalar. `folds` allows line breaks at single spaces, as upstream does after
    /// [`LINE_COLUMNS`].
    fn write_single_quoted(&mut self, text: &str, folds: bool) {
        self.write_indicator("'", true, false);
        let mut follows_space = false;
        let mut follows_break = false;
        let mut rest = text.chars().peekable();
        let mut is_first = true;
        while let Some(character) = rest.next() {
            if character == ' ' {
                let is_inner = !is_first && rest.peek().is_some();
                if folds
                    && !follows_space
                    && self.column > LINE_COLUMNS
                    && is_inner
                    && rest.peek() != Some(&' ')
                {
                    self.start_line();
                } else {
                    self.push(' ');
                }
                follows_space = true;
            } else if is_break(character) {
                if !follows_break && character == '\n' {
                    self.write_line_break();
                }
                self.push_break(character);
                self.has_only_indicators = true;
                follows_break = true;
            } else {
                if follows_break {
                    self.start_line();
                }
                if character == '\'' {
                    self.push('\'');
                }
                self.push(character);
                self.has_only_indicators = false;
                follows_space = false;
                follows_break = false;
            }
            is_first = false;
        }
        self.write_indicator("'", false, false);
    }

    /// Writes a double-quoted scalar with escapes. `folds` allows line breaks at spaces; a backslash keeps a
    /// space after the break.
    fn write_double_quoted(&mut self, text: &str, folds: bool) {
        self.write_indicator("\"", true, false);
        // Upstream escapes every character of a string that starts with a byte order mark.
        let escapes_all = text.starts_with('\u{feff}');
        let mut follows_space = false;
        let mut rest = text.chars().peekable();
        let mut is_first = true;
        while let Some(character) = rest.next() {
            if escapes_all
                || !is_printable(character)
                || is_break(character)
                || matches!(character, '"' | '\\')
            {
                self.write_escaped(character);
                follows_space = false;
            } else if character == ' ' {
                if folds && !follows_space && self.column > LINE_COLUMNS && !is_first && rest.peek().is_some()
                {
                    self.start_line();
                    if rest.peek() == Some(&' ') {
                        self.push('\\');
                    }
                } else {
                    self.push(' ');
                }
                follows_space = true;
            } else {
                self.push(character);
                follows_space = false;
            }
            is_first = false;
        }
        self.write_indicator("\"", false, false);
    }

    fn write_escaped(&mut self, character: char) {
        let code = u32::from(character);
        let escape_sequence = match character {
            '\0' => "\\0".into(),
            '\u{7}' => "\\a".into(),
            '\u{8}' => "\\b".into(),
            '\t' => "\\t".into(),
            '\n' => "\\n".into(),
            '\u{b}' => "\\v".into(),
            '\u{c}' => "\\f".into(),
            '\r' => "\\r".into(),
            '\u{1b}' => "\\e".into(),
            '"' => "\\\"".into(),
            '\\' => "\\\\".into(),
            '\u{85}' => "\\N".into(),
            '\u{a0}' => "\\_".into(),
            '\u{2028}' => "\\L".into(),
            '\u{2029}' => "\\P".into(),
            _ if code <= 0xff => format!("\\x{code:02X}"),
            _ if code <= 0xffff => format!("\\u{code:04X}"),
            _ => format!("\\U{code:08X}"),
        };
        self.push_str(&escape_sequence);
    }

    /// Writes a block scalar, with the indicators that keep its leading spaces and its last line breaks.
    fn write_literal(&mut self, text: &str) {
        self.write_indicator("|", true, false);
        if text.starts_with(|first| first == ' ' || is_break(first)) {
            self.write_indicator("2", false, false);
        }
        // The indicator is `-` if no line break is at the end. It is `+` if several are, or if the text is a
        // single line break.
        let mut from_end = text.chars().rev();
        match (from_end.next().is_some_and(is_break), from_end.next().is_none_or(is_break)) {
            (false, _) => self.write_indicator("-", false, false),
            (true, true) => self.write_indicator("+", false, false),
            (true, false) => {}
        }
        self.write_line_break();
        self.has_only_indicators = true;
        self.has_space_before = true;
        for line in text.split_inclusive(is_break) {
            let end = line.chars().next_back().filter(|last| is_break(*last));
            let content = end.map_or(line, |end| line.strip_suffix(end).unwrap_or(line));
            if !content.is_empty() {
                self.start_line();
                self.push_str(content);
                self.has_only_indicators = false;
            }
            if let Some(end) = end {
                self.push_break(end);
                self.has_only_indicators = true;
            }
        }
    }
}

/// Returns true for a key that is written as `key:`, on the line of its value.
fn is_simple_key(key: &Node) -> bool {
    match &key.data {
        Data::String(text) => text.len() <= MAX_SIMPLE_KEY_BYTES && !text.contains(is_break),
        Data::Seq(items) => items.is_empty(),
        Data::Map(map) => map.is_empty(),
        _ => true,
    }
}

fn style(text: &str, context: Context) -> Style {
    let traits = Traits::of(text);
    let is_simple_key = context == Context::SimpleKey;
    let resolves = scalar::resolve(text) != ResolvedScalar::Text || scalar::is_base60(text);
    let preference = if text.contains('\n') {
        Style::Literal
    } else if resolves {
        Style::Double
    } else {
        Style::Plain
    };
    let preference = if is_simple_key && traits.is_multiline { Style::Double } else { preference };
    match preference {
        Style::Plain if traits.allows_plain => Style::Plain,
        Style::Plain if traits.allows_single => Style::Single,
        Style::Literal if traits.allows_literal && !is_simple_key => Style::Literal,
        _ => Style::Double,
    }
}

/// The properties of a text that decide its style.
struct Traits {
    is_multiline: bool,
    /// True if the text can be written without quotes.
    allows_plain: bool,
    /// True if the text can be written in single quotes.
    allows_single: bool,
    /// True if the text can be written as a literal block.
    allows_literal: bool,
}

impl Traits {
    /// Scans a text once for everything that restricts its style, as upstream does.
    fn of(text: &str) -> Traits {
        if is_harmless(text) {
            return Traits {
                is_multiline: false,
                allows_plain: true,
                allows_single: true,
                allows_literal: true,
            };
        }
        let mut has_indicators = text.starts_with("---") || text.starts_with("...");
        let mut is_multiline = false;
        let mut has_special = false;
        let mut has_break_then_space = false;
        let mut has_space_then_break = false;
        let mut previous: Option<char> = None;
        let mut rest = text.chars().peekable();
        while let Some(character) = rest.next() {
            let blank_follows = rest.peek().is_none_or(|next| matches!(next, ' ' | '\t'));
            has_indicators |= match (previous, character) {
                (
                    None,
                    '#' | ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@'
                    | '`',
                ) => true,
                (None, '?' | '-') | (_, ':') => blank_follows,
                (Some(character_before), '#') => is_blank_or_break(character_before),
                _ => false,
            };
            // U+2028 and U+2029 are line breaks only in YAML 1.1. Escapes have one meaning in both versions.
            has_special |= !is_printable(character) || matches!(character, '\u{2028}' | '\u{2029}');
            if character == ' ' {
                has_break_then_space |= previous.is_some_and(is_break);
            } else if is_break(character) {
                is_multiline = true;
                has_space_then_break |= previous == Some(' ');
            }
            previous = Some(character);
        }
        let is_space_or_break = |character: char| character == ' ' || is_break(character);
        let has_blank_edge = text.starts_with(is_space_or_break) || text.ends_with(is_space_or_break);
        let needs_escapes = has_space_then_break || has_special;
        Traits {
            is_multiline,
            allows_plain: !(has_blank_edge
                || has_break_then_space
                || needs_escapes
                || is_multiline
                || has_indicators),
            allows_single: !(has_break_then_space || needs_escapes),
            allows_literal: !(text.is_empty() || text.ends_with(' ') || needs_escapes),
        }
    }
}

/// Returns true if the text has no character with a meaning in YAML. This fast path applies to most strings
/// of manifests.
fn is_harmless(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|first| first.is_ascii_alphanumeric() || *first == b'/')
        && bytes.last().is_some_and(|last| matches!(last, b'!'..=b'~') && *last != b':')
        && bytes.array_windows().all(|pair| matches!(pair[0], b' '..=b'~') && !matches!(pair, b": " | b" #"))
}

fn is_break(character: char) -> bool {
    matches!(character, '\r' | '\n' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

fn is_blank_or_break(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\0') || is_break(character)
}

/// Returns true for characters that need no escape in upstream's output. Those above U+FFFF need one.
fn is_printable(character: char) -> bool {
    matches!(character, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}')
        && character != '\u{feff}'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_the_document_and_end_at_an_error() {
        let items = (0..4 * PIECE_BYTES).map(|number| Data::Int(i64::try_from(number).unwrap()).into());
        let node: Node = Data::Seq(items.collect()).into();
        let mut pieces = Vec::new();
        let Ok(()) = emit_pieces(&node, |piece| {
            pieces.push(piece.to_owned());
            Ok::<(), Infallible>(())
        });
        assert_eq!(pieces.concat(), emit(&node));
        assert!(pieces.len() > 4 && pieces.iter().all(|piece| piece.len() < 2 * PIECE_BYTES));
        let mut calls = 0;
        let result = emit_pieces(&node, |_| {
            calls += 1;
            if calls == 2 { Err("full") } else { Ok(()) }
        });
        assert_eq!((result, calls), (Err("full"), 2));
    }
}
