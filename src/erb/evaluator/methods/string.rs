//! String methods that convert, change case, trim and concatenate.

use std::rc::Rc;

use super::successor::successor;
use crate::evaluator::eval::{Args, Env, EvalResult, Interpreter};
use crate::evaluator::stdlib;
use crate::evaluator::value::{RString, Value};

impl Interpreter {
    /// Calls a method of String. Returns `None` if String does not implement it.
    pub(super) fn call_string_method(
        &mut self,
        string: &Rc<RString>,
        name: &str,
        args: &Args,
        env: Option<&Rc<Env>>,
    ) -> EvalResult<Option<Value>> {
        if string.has_bytes() {
            return self.call_bytes_method(string, name, args, env);
        }
        self.call_text_method(string, name, args, env)
    }

    /// Calls a method of a binary string. Its characters are bytes, which most methods would treat as text.
    fn call_bytes_method(
        &mut self,
        string: &Rc<RString>,
        name: &str,
        args: &Args,
        env: Option<&Rc<Env>>,
    ) -> EvalResult<Option<Value>> {
        const SUPPORTED_METHODS: &[&str] = &[
            "[]",
            "slice",
            "slice!",
            "bytes",
            "each_byte",
            "bytesize",
            "size",
            "length",
            "+",
            "<<",
            "concat",
            "==",
            "===",
            "eql?",
            "hash",
            "force_encoding",
            "b",
            "encoding",
            "unpack",
            "unpack1",
            "getbyte",
            "inspect",
            "succ",
            "next",
            "empty?",
            "ascii_only?",
            "to_s",
            "to_str",
            "ord",
            "sum",
            "clear",
            "valid_encoding?",
            "+@",
            "-@",
            "dedup",
        ];
        /// Methods that return binary strings.
        const BINARY_RESULT_METHODS: &[&str] = &[
            "strip",
            "lstrip",
            "rstrip",
            "strip!",
            "lstrip!",
            "rstrip!",
            "chomp",
            "chomp!",
            "chop",
            "chop!",
            "reverse",
            "reverse!",
            "chr",
            "chars",
            "*",
            "delete_prefix",
            "delete_suffix",
        ];
        let matches_text = matches!(args.get(0), Some(Value::Str(_) | Value::Regexp(_)));
        let is_supported = match name {
            "[]" | "slice" | "slice!" => !matches_text,
            _ => SUPPORTED_METHODS.contains(&name) || BINARY_RESULT_METHODS.contains(&name),
        };
        let result = self.call_text_method(string, name, args, env)?;
        match &result {
            None => return Ok(None),
            Some(_) if !is_supported => {
                return Err(self.unsupported_error(format!("String#{name} of text that is not UTF-8")));
            }
            Some(Value::Str(text)) if BINARY_RESULT_METHODS.contains(&name) => text.is_binary.set(true),
            Some(Value::Array(list)) if BINARY_RESULT_METHODS.contains(&name) => {
                for item in list.to_vec() {
                    if let Value::Str(text) = item {
                        text.is_binary.set(true);
                    }
                }
            }
            Some(_) => {}
        }
        Ok(result)
    }

    /// Calls a method of a string as text. Returns `None` if String does not implement it.
    fn call_text_method(
        &mut self,
        string: &Rc<RString>,
        name: &str,
        args: &Args,
        env: Option<&Rc<Env>>,
    ) -> EvalResult<Option<Value>> {
        if let Some(value) = self.call_string_edit(string, name, args, env)? {
            return Ok(Some(value));
        }
        if let Some(value) = self.call_string_query(string, name, args, env)? {
            return Ok(Some(value));
        }
        let text = string.get().clone();
        Ok(Some(match name {
            "to_s" | "to_str" => Value::Str(Rc::clone(string)),
            "to_sym" | "intern" => Value::symbol(&text),
            "to_i" => {
                let radix = self.int_or(args, 0, 10)?;
                // Ruby does not check the radix for blanks or a sign alone.
                if radix >= 0 && !text.is_empty() && stdlib::number::is_blank_or_sign(&text) {
                    return Ok(Some(Value::Int(0)));
                }
                let radix = self.check_radix(radix)?;
                stdlib::number::integer_prefix(&text, radix, 10)
            }
            "to_f" => Value::Float(stdlib::number::float_prefix(&text)),
            "hex" => stdlib::number::integer_prefix(&text, 16, 16),
            "oct" => stdlib::number::integer_prefix(&text, 0, 8),
            "to_c" | "to_r" => return Err(self.unsupported_error(format!("String#{name}"))),
            "inspect" => Value::str(super::show::inspect_str(&text, string.is_binary.get())),
            "dump" => Value::str(dump(&text)),
            "+" => {
                let result = string.copy();
                match self.arg(args, 0)? {
                    Value::Str(other) => self.append(&result, &other.get(), other.is_binary.get())?,
                    other => {
                        let other = self.string_arg(&other)?;
                        self.append(&result, &other, false)?;
                    }
                }
                Value::Str(Rc::new(result))
            }
            "*" => {
                let count = self.arg(args, 0)?;
                let count = self.int_arg(&count)?;
                if count < 0 {
                    return self.raise_argument_error("argument must be non-negative");
                }
                self.use_scratch(text.len().saturating_mul(count as usize))?;
                Value::str(text.repeat(count as usize))
            }
            "%" => {
                let values = match self.arg(args, 0)? {
                    Value::Array(list) => list.to_vec(),
                    other => vec![other],
                };
                Value::str(stdlib::format::format(self, &text, &values)?)
            }
            "+@" => {
                if string.is_frozen.get() {
                    Value::Str(Rc::new(string.copy()))
                } else {
                    Value::Str(Rc::clone(string))
                }
            }
            "-@" | "dedup" => {
                let copy = string.copy();
                copy.is_frozen.set(true);
                Value::Str(Rc::new(copy))
            }
            "upcase" | "downcase" | "capitalize" | "swapcase" if !args.is_empty() => {
                return self.reject_case_option(name, args);
            }
            "upcase" => Value::str(text.to_uppercase()),
            "downcase" => Value::str(downcase(&text)),
            "capitalize" => Value::str(capitalize(&text)),
            "swapcase"
                if text.chars().any(|c| {
                    matches!(
                        c,
                        '\u{1c5}' | '\u{1c8}' | '\u{1cb}' | '\u{1f2}' | '\u{1f88}'
                            ..='\u{1faf}' | '\u{1fbc}' | '\u{1fcc}' | '\u{1ffc}'
                    )
                }) =>
            {
                return Err(self.unsupported_error("String#swapcase of a letter in title case"));
            }
            "swapcase" => Value::str(swapcase(&text)),
            "strip" => Value::str(strip_left(strip_right(&text))),
            "lstrip" => Value::str(strip_left(&text)),
            "rstrip" => Value::str(strip_right(&text)),
            "chomp" => match args.get(0) {
                None => Value::str(chomp(&text)),
                Some(Value::Nil) => Value::str(text),
                Some(suffix) => {
                    let suffix = self.string_arg(&suffix.clone())?;
                    Value::str(match suffix.as_str() {
                        "" => without_line_breaks(&text),
                        "\n" => chomp(&text),
                        suffix => text.strip_suffix(suffix).unwrap_or(&text),
                    })
                }
            },
            "chop" => {
                let mut text = text;
                if text.ends_with("\r\n") {
                    text.pop();
                }
                text.pop();
                Value::str(text)
            }
            "chr" => Value::str(text.chars().next().map(String::from).unwrap_or_default()),
            "reverse" => Value::str(text.chars().rev().collect::<String>()),
            "center" | "ljust" | "rjust" => {
                let width = self.int_or(args, 0, 0)?;
                let pad = match args.get(1) {
                    Some(pad) => self.string_arg(&pad.clone())?,
                    None => " ".into(),
                };
                if pad.is_empty() {
                    return self.raise_argument_error("zero width padding");
                }
                let padding = width.saturating_sub(text.chars().count() as i64).max(0) as usize;
                self.use_scratch(padding.saturating_mul(pad.chars().map(char::len_utf8).max().unwrap_or(1)))?;
                let fill = |count: usize| pad.chars().cycle().take(count).collect::<String>();
                Value::str(match name {
                    "ljust" => text + &fill(padding),
                    "rjust" => fill(padding) + &text,
                    _ => fill(padding / 2) + &text + &fill(padding - padding / 2),
                })
            }
            "succ" | "next" => {
                let next = RString::new(successor(&text, string.is_binary.get()));
                next.is_binary.set(string.is_binary.get());
                Value::Str(Rc::new(next))
            }
            "tr" | "tr_s" | "delete" | "squeeze" | "count" => self.apply_char_sets(&text, name, args)?,
            "delete_prefix" => {
                let prefix = self.arg(args, 0)?;
                let prefix = self.string_arg(&prefix)?;
                Value::str(text.strip_prefix(prefix.as_str()).unwrap_or(&text))
            }
            "delete_suffix" => {
                let suffix = self.arg(args, 0)?;
                let suffix = self.string_arg(&suffix)?;
                Value::str(text.strip_suffix(suffix.as_str()).unwrap_or(&text))
            }
            "encoding" => self.encoding(if string.is_binary.get() { "ASCII-8BIT" } else { "UTF-8" })?,
            "force_encoding" | "encode" | "b" | "unicode_normalize" | "scrub" => {
                self.encode(string, name, args)?
            }
            "unpack" | "unpack1" => {
                let layout = self.arg(args, 0)?;
                let layout = self.string_arg(&layout)?;
                let items = stdlib::pack::unpack(self, &string.bytes(), &layout)?;
                if name == "unpack" {
                    Value::array(items)
                } else {
                    items.into_iter().next().unwrap_or(Value::Nil)
                }
            }
            "crypt" => return Err(self.unsupported_error("String#crypt")),
            "shellescape" => Value::str(stdlib::shellwords::escape(&text)),
            "shellsplit" => stdlib::shellwords::split(self, &text)?,
            "clamp" | "<" | "<=" | ">" | ">=" | "between?" => {
                return self.call_comparable_method(&Value::Str(Rc::clone(string)), name, args);
            }
            _ => return Ok(None),
        }))
    }

    /// Rejects a case conversion with options such as `:ascii`. An invalid option raises `ArgumentError`, and
    /// a valid one is unsupported.
    fn reject_case_option(&mut self, name: &str, args: &Args) -> EvalResult<Option<Value>> {
        for option in &args.list {
            let Value::Symbol(option) = option else { return self.raise_conversion_error(option, "Symbol") };
            if !matches!(&**option, "ascii" | "turkic" | "lithuanian" | "fold") {
                return self.raise_argument_error(format!("invalid option: {option}"));
            }
        }
        Err(self.unsupported_error(format!("String#{name} with options")))
    }

    /// Implements the methods that change or declare the encoding.
    fn encode(&mut self, string: &Rc<RString>, name: &str, args: &Args) -> EvalResult<Value> {
        let encoding_name = match args.positional().first() {
            Some(Value::Str(name)) => name.get().to_ascii_uppercase(),
            Some(other) => self.text_of(&other.clone())?.to_ascii_uppercase(),
            None if name == "b" => "BINARY".into(),
            None => "UTF-8".into(),
        };
        match (name, encoding_name.as_str()) {
            ("unicode_normalize", _) if string.get().is_ascii() => Ok(Value::Str(Rc::clone(string))),
            ("scrub", _) => Ok(Value::Str(Rc::clone(string))),
            ("force_encoding", "UTF-8" | "US-ASCII" | "ASCII") => {
                if string.is_binary.get() {
                    match String::from_utf8(string.bytes()) {
                        Ok(text) => {
                            string.set(text);
                            string.is_binary.set(false);
                        }
                        Err(_) => return Err(self.unsupported_error("text that is not UTF-8")),
                    }
                }
                Ok(Value::Str(Rc::clone(string)))
            }
            ("force_encoding", "BINARY" | "ASCII-8BIT") => {
                let bytes = string.bytes();
                string.set(bytes.iter().map(|byte| char::from(*byte)).collect());
                string.is_binary.set(true);
                Ok(Value::Str(Rc::clone(string)))
            }
            ("b", _) => Ok(Value::Str(Rc::new(RString::from_bytes(&string.bytes())))),
            ("encode", "UTF-8") if !string.is_binary.get() => Ok(Value::Str(Rc::new(string.copy()))),
            ("encode", "US-ASCII" | "ASCII") if string.get().is_ascii() => {
                Ok(Value::Str(Rc::new(string.copy())))
            }
            _ => Err(self.unsupported_error(format!("String#{name} to {encoding_name}"))),
        }
    }

    /// Implements `tr`, `tr_s`, `delete`, `squeeze` and `count`.
    fn apply_char_sets(&mut self, text: &str, name: &str, args: &Args) -> EvalResult<Value> {
        if text.is_empty() && name == "delete" {
            return Ok(Value::str(text));
        }
        let mut sets = Vec::new();
        for set in &args.list {
            sets.push(self.string_arg(set)?);
        }
        if name.starts_with("tr") && sets.len() != 2 {
            let count = args.len();
            return self
                .raise_argument_error(format!("wrong number of arguments (given {count}, expected 2)"));
        }
        if text.is_empty() && !matches!(name, "count" | "squeeze")
            || name.starts_with("tr") && sets[0].is_empty()
        {
            return Ok(Value::str(text));
        }
        let mut char_sets = Vec::new();
        for (number, set) in sets.iter().enumerate() {
            // A replacement cannot be negated. Ruby reads only as many of its characters as it needs.
            let replaces = number == 1 && name.starts_with("tr");
            let source_set = char_sets.first().filter(|set: &&CharSet| replaces && !set.is_negated);
            match CharSet::new(set, !replaces, source_set.map_or(u32::MAX, CharSet::len)) {
                Ok(set) => char_sets.push(set),
                Err((first, last)) => {
                    let text = format!("invalid range \"{first}-{last}\" in string transliteration");
                    return self.raise_argument_error(text);
                }
            }
        }
        if name.starts_with("tr") && char_sets.iter().any(|set| set.has_short_range) {
            return Err(self.unsupported_error(format!("String#{name} with a range of one character")));
        }
        let ranges: usize = char_sets.iter().map(|set| set.ranges.len()).sum();
        self.step((text.len() / 16 * ranges) as u64)?;
        let in_all_sets = |character: char| char_sets.iter().all(|set| set.contains(character));
        Ok(match name {
            "count" => {
                if sets.is_empty() {
                    return self.raise_argument_error("wrong number of arguments (given 0, expected 1+)");
                }
                Value::Int(text.chars().filter(|character| in_all_sets(*character)).count() as i64)
            }
            "delete" => {
                if sets.is_empty() {
                    return self.raise_argument_error("wrong number of arguments (given 0, expected 1+)");
                }
                Value::str(text.chars().filter(|character| !in_all_sets(*character)).collect::<String>())
            }
            "squeeze" => {
                let mut squeezed_text = String::new();
                for character in text.chars() {
                    if squeezed_text.ends_with(character) && in_all_sets(character) {
                        continue;
                    }
                    squeezed_text.push(character);
                }
                Value::str(squeezed_text)
            }
            _ => {
                let [source_set, target_set] = char_sets.as_slice() else { return Ok(Value::Nil) };
                if source_set.is_negated && name == "tr_s" && !text.is_ascii() {
                    return Err(self.unsupported_error("String#tr_s of all other characters beyond ASCII"));
                }
                if source_set.is_negated && target_set.last().is_some_and(|last| !last.is_ascii()) {
                    return Err(self.unsupported_error(format!(
                        "String#{name} of all other characters to one beyond ASCII"
                    )));
                }
                let mut new_text = String::new();
                let mut last_replacement = None;
                for character in text.chars() {
                    let replacement = if source_set.is_negated {
                        source_set.contains(character).then(|| target_set.last())
                    } else {
                        source_set
                            .position(character)
                            .map(|position| target_set.nth(position).or(target_set.last()))
                    };
                    match replacement {
                        None => {
                            new_text.push(character);
                            last_replacement = None;
                        }
                        Some(new) => {
                            if name == "tr_s" && last_replacement == Some(new) {
                                continue;
                            }
                            last_replacement = Some(new);
                            new_text.extend(new);
                        }
                    }
                }
                Value::str(new_text)
            }
        })
    }
}

/// A set of characters in the notation of `tr`, such as `a-z` or `^a-z`.
struct CharSet {
    /// The first and last code point of each range, in the order of the notation.
    ranges: Vec<(u32, u32)>,
    is_negated: bool,
    /// True if there is a range such as `a-a`. Some versions of Ruby count its character twice.
    has_short_range: bool,
}

impl CharSet {
    /// Reads a set until it has `limit` characters. The error is a range that ends before it begins.
    fn new(text: &str, may_be_negated: bool, limit: u32) -> Result<Self, (char, char)> {
        let mut characters: Vec<char> = text.chars().collect();
        let is_negated = may_be_negated && characters.len() > 1 && characters[0] == '^';
        if is_negated {
            characters.remove(0);
        }
        let mut set = CharSet { ranges: Vec::new(), is_negated, has_short_range: false };
        let mut rest = characters.as_slice();
        let next = |rest: &mut &[char]| match **rest {
            ['\\', character, ref rest_after @ ..] | [character, ref rest_after @ ..] => {
                *rest = rest_after;
                Some(character)
            }
            [] => None,
        };
        while set.len() < limit
            && let Some(first) = next(&mut rest)
        {
            let mut last = first;
            if let ['-', _, ..] = rest {
                rest = &rest[1..];
                last = next(&mut rest).unwrap_or(first);
                if last < first {
                    return Err((first, last));
                }
                set.has_short_range |= last == first;
            }
            set.ranges.push((first as u32, last as u32));
        }
        Ok(set)
    }

    /// Returns the number of characters in the notation.
    fn len(&self) -> u32 {
        self.ranges.iter().map(|(first, last)| last - first + 1).fold(0, u32::saturating_add)
    }

    fn contains(&self, character: char) -> bool {
        let code = character as u32;
        self.ranges.iter().any(|(first, last)| (*first..=*last).contains(&code)) != self.is_negated
    }

    /// Returns the position of a character in the set, ignoring a negation.
    fn position(&self, character: char) -> Option<u32> {
        let code = character as u32;
        let (mut count_before, mut last_position) = (0, None);
        for (first, last) in &self.ranges {
            if (*first..=*last).contains(&code) {
                // If a character occurs several times, its last position is used.
                last_position = Some(count_before + (code - first));
            }
            count_before += last - first + 1;
        }
        last_position
    }

    /// Returns the character at a position.
    fn nth(&self, position: u32) -> Option<char> {
        let mut offset = position;
        for (first, last) in &self.ranges {
            let length = last - first + 1;
            if offset < length {
                return char::from_u32(first + offset);
            }
            offset -= length;
        }
        None
    }

    fn last(&self) -> Option<char> {
        self.ranges.last().and_then(|(_, last)| char::from_u32(*last))
    }
}

/// Converts each character on its own. Unlike Rust, Ruby has no special form for a sigma at the end of a
/// word.
fn downcase(text: &str) -> String {
    text.chars().flat_map(char::to_lowercase).collect()
}

/// Returns the form of a character at the start of a capitalised word. It differs from the upper case for
/// characters that stand for several letters, such as `ǆ`.
fn titlecase(character: char) -> String {
    let code = character as u32;
    let unchanged = |code: u32| char::from_u32(code).map(String::from).unwrap_or_default();
    match code {
        0x1c4..=0x1c6 => "\u{1c5}".into(),
        0x1c7..=0x1c9 => "\u{1c8}".into(),
        0x1ca..=0x1cc => "\u{1cb}".into(),
        0x1f1..=0x1f3 => "\u{1f2}".into(),
        // Georgian letters have no title case.
        0x10d0..=0x10fa | 0x10fd..=0x10ff => unchanged(code),
        0x1c90..=0x1cba | 0x1cbd..=0x1cbf => unchanged(code - 0xbc0),
        0x1f80..=0x1faf => unchanged(code | 8),
        0x1fb3 | 0x1fc3 | 0x1ff3 => unchanged(code + 9),
        0x1fbc | 0x1fcc | 0x1ffc => unchanged(code),
        // The iota subscript is kept instead of becoming a capital iota.
        0x1fb2 | 0x1fb4 | 0x1fb7 | 0x1fc2 | 0x1fc4 | 0x1fc7 | 0x1ff2 | 0x1ff4 | 0x1ff7 => {
            character.to_uppercase().map(|upper| if upper == '\u{399}' { '\u{345}' } else { upper }).collect()
        }
        0x149 => character.to_uppercase().collect(),
        _ => {
            let mut upper = character.to_uppercase();
            let first = upper.next().map(String::from).unwrap_or_default();
            first + &upper.flat_map(char::to_lowercase).collect::<String>()
        }
    }
}

/// Returns a form that is the same for strings that differ only in case.
pub(super) fn fold(text: &str) -> String {
    text.chars()
        .flat_map(|character| -> Vec<char> {
            if character == '\u{131}' {
                return vec![character];
            }
            let upper = character.to_lowercase().flat_map(char::to_uppercase);
            upper.flat_map(char::to_lowercase).collect()
        })
        .collect()
}

pub(super) fn capitalize(text: &str) -> String {
    let mut characters = text.chars();
    match characters.next() {
        Some(first) => titlecase(first) + &downcase(characters.as_str()),
        None => String::new(),
    }
}

pub(super) fn swapcase(text: &str) -> String {
    text.chars()
        .flat_map(|character| -> Vec<char> {
            if character.is_lowercase() {
                character.to_uppercase().collect()
            } else {
                character.to_lowercase().collect()
            }
        })
        .collect()
}

fn is_blank(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\n' | '\u{b}' | '\u{c}' | '\r')
}

pub(super) fn strip_left(text: &str) -> &str {
    text.trim_start_matches(|character| is_blank(character) || character == '\0')
}

pub(super) fn strip_right(text: &str) -> &str {
    text.trim_end_matches(|character| is_blank(character) || character == '\0')
}

pub(super) fn chomp(text: &str) -> &str {
    text.strip_suffix("\r\n").or(text.strip_suffix('\n')).or(text.strip_suffix('\r')).unwrap_or(text)
}

/// Removes all line breaks at the end.
fn without_line_breaks(text: &str) -> &str {
    let mut rest = text;
    while let Some(line) = rest.strip_suffix('\n') {
        rest = line.strip_suffix('\r').unwrap_or(line);
    }
    rest
}

/// Implements `dump`: quotes a string and escapes all characters beyond ASCII.
pub(crate) fn dump(text: &str) -> String {
    use std::fmt::Write as _;
    let mut literal = String::from("\"");
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_ascii = first.is_ascii();
        let end = rest.find(|character: char| character.is_ascii() != is_ascii).unwrap_or(rest.len());
        let (piece, text_after) = rest.split_at(end);
        rest = text_after;
        if piece.is_ascii() {
            let quoted_piece = super::show::inspect_str(piece, true);
            literal.push_str(&quoted_piece[1..quoted_piece.len() - 1]);
            continue;
        }
        for character in piece.chars() {
            if (character as u32) > 0xffff {
                let _ = write!(literal, "\\u{{{:X}}}", character as u32);
            } else {
                let _ = write!(literal, "\\u{:04X}", character as u32);
            }
        }
    }
    literal.push('"');
    literal
}
