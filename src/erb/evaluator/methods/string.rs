//! String methods that convert, change case, trim and concatenate.

use std::rc::Rc;

use super::successor::successor;
use crate::evaluator::eval::{Args, Env, Interp, R};
use crate::evaluator::stdlib;
use crate::evaluator::value::{RString, Value};

impl Interp {
    pub(super) fn string_method(
        &mut self,
        string: &Rc<RString>,
        name: &str,
        args: &Args,
        env: Option<&Rc<Env>>,
    ) -> R<Option<Value>> {
        if let Some(value) = self.string_edit(string, name, args, env)? {
            return Ok(Some(value));
        }
        if let Some(value) = self.string_query(string, name, args, env)? {
            return Ok(Some(value));
        }
        let text = string.get().clone();
        Ok(Some(match name {
            "to_s" | "to_str" => Value::Str(Rc::clone(string)),
            "to_sym" | "intern" => Value::symbol(&text),
            "to_i" => {
                let radix = self.int_or(args, 0, 10)?;
                let radix = self.radix(radix)?;
                stdlib::number::integer_prefix(&text, radix)
            }
            "to_f" => Value::Float(stdlib::number::float_prefix(&text)),
            "hex" => stdlib::number::integer_prefix(&text, 16),
            "oct" => stdlib::number::integer_prefix(&text, 0),
            "to_c" | "to_r" => return Err(self.unsupported(format!("String#{name}"))),
            "inspect" => Value::str(super::show::inspect_str(&text, string.binary.get())),
            "dump" => Value::str(dump(&text)),
            "+" => {
                let other = self.arg(args, 0)?;
                let other_text = self.string_arg(&other)?;
                self.charge(text.len())?;
                let result = string.copy();
                self.append(&result, &other_text, matches!(&other, Value::Str(other) if other.binary.get()))?;
                Value::Str(Rc::new(result))
            }
            "*" => {
                let count = self.arg(args, 0)?;
                let count = self.int_arg(&count)?;
                if count < 0 {
                    return self.argument_error("argument must be non-negative");
                }
                self.charge(text.len().saturating_mul(count as usize))?;
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
                if string.frozen.get() {
                    Value::Str(Rc::new(string.copy()))
                } else {
                    Value::Str(Rc::clone(string))
                }
            }
            "-@" | "dedup" => {
                let copy = string.copy();
                copy.frozen.set(true);
                Value::Str(Rc::new(copy))
            }
            "upcase" | "downcase" | "capitalize" | "swapcase" if !args.is_empty() => {
                return self.case_option(name, args);
            }
            "upcase" => Value::str(text.to_uppercase()),
            "downcase" => Value::str(downcase(&text)),
            "capitalize" => Value::str(capitalize(&text)),
            "swapcase" => Value::str(swapcase(&text)),
            "strip" => Value::str(strip_left(strip_right(&text))),
            "lstrip" => Value::str(strip_left(&text)),
            "rstrip" => Value::str(strip_right(&text)),
            "chomp" => match args.get(0) {
                None => Value::str(chomp(&text)),
                Some(Value::Nil) => Value::str(text),
                Some(suffix) => {
                    let suffix = self.string_arg(&suffix.clone())?;
                    if suffix.is_empty() {
                        Value::str(text.trim_end_matches(['\n', '\r']))
                    } else {
                        Value::str(text.strip_suffix(suffix.as_str()).unwrap_or(&text))
                    }
                }
            },
            "chop" => {
                let mut chopped = text;
                if chopped.ends_with("\r\n") {
                    chopped.pop();
                }
                chopped.pop();
                Value::str(chopped)
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
                    return self.argument_error("zero width padding");
                }
                let missing = (width - text.chars().count() as i64).max(0) as usize;
                self.charge(missing)?;
                let fill = |count: usize| pad.chars().cycle().take(count).collect::<String>();
                Value::str(match name {
                    "ljust" => text + &fill(missing),
                    "rjust" => fill(missing) + &text,
                    _ => fill(missing / 2) + &text + &fill(missing - missing / 2),
                })
            }
            "succ" | "next" => {
                let next = RString::new(successor(&text, string.binary.get()));
                next.binary.set(string.binary.get());
                Value::Str(Rc::new(next))
            }
            "tr" | "tr_s" | "delete" | "squeeze" | "count" => self.string_sets(&text, name, args)?,
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
            "encoding" => self.encoding(if string.binary.get() { "ASCII-8BIT" } else { "UTF-8" })?,
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
            "crypt" => return Err(self.unsupported("String#crypt")),
            "shellescape" => Value::str(stdlib::shellwords::escape(&text)),
            "shellsplit" => stdlib::shellwords::split(self, &text)?,
            "hash" => {
                Value::Int(text.bytes().fold(7i64, |hash, byte| hash.wrapping_mul(31) + i64::from(byte)))
            }
            "clamp" | "<" | "<=" | ">" | ">=" | "between?" => {
                return self.comparable_method(&Value::Str(Rc::clone(string)), name, args);
            }
            _ => return Ok(None),
        }))
    }

    /// Rejects a case conversion with options such as `:ascii`. An invalid option raises, a valid one is not
    /// supported.
    fn case_option(&mut self, name: &str, args: &Args) -> R<Option<Value>> {
        for option in &args.list {
            let Value::Symbol(option) = option else { return self.no_conversion(option, "Symbol") };
            if !matches!(&**option, "ascii" | "turkic" | "lithuanian" | "fold") {
                return self.argument_error(format!("invalid option: {option}"));
            }
        }
        Err(self.unsupported(format!("String#{name} with options")))
    }

    /// Implements the methods that change or declare the encoding.
    fn encode(&mut self, string: &Rc<RString>, name: &str, args: &Args) -> R<Value> {
        let wanted = match args.positional().first() {
            Some(Value::Str(name)) => name.get().to_ascii_uppercase(),
            Some(other) => self.text_of(&other.clone())?.to_ascii_uppercase(),
            None if name == "b" => "BINARY".into(),
            None => "UTF-8".into(),
        };
        match (name, wanted.as_str()) {
            ("unicode_normalize", _) if string.get().is_ascii() => Ok(Value::Str(Rc::clone(string))),
            ("scrub", _) => Ok(Value::Str(Rc::clone(string))),
            ("force_encoding", "UTF-8" | "US-ASCII" | "ASCII") => {
                if string.binary.get() {
                    match String::from_utf8(string.bytes()) {
                        Ok(text) => {
                            string.set(text);
                            string.binary.set(false);
                        }
                        Err(_) => return Err(self.unsupported("text that is not UTF-8")),
                    }
                }
                Ok(Value::Str(Rc::clone(string)))
            }
            ("force_encoding", "BINARY" | "ASCII-8BIT") => {
                let bytes = string.bytes();
                string.set(bytes.iter().map(|byte| char::from(*byte)).collect());
                string.binary.set(true);
                Ok(Value::Str(Rc::clone(string)))
            }
            ("b", _) => Ok(Value::Str(Rc::new(RString::from_bytes(&string.bytes())))),
            ("encode", "UTF-8") if !string.binary.get() => Ok(Value::Str(Rc::new(string.copy()))),
            ("encode", "US-ASCII" | "ASCII") if string.get().is_ascii() => {
                Ok(Value::Str(Rc::new(string.copy())))
            }
            _ => Err(self.unsupported(format!("String#{name} to {wanted}"))),
        }
    }

    /// Implements `tr`, `tr_s`, `delete`, `squeeze` and `count`.
    fn string_sets(&mut self, text: &str, name: &str, args: &Args) -> R<Value> {
        let mut sets = Vec::new();
        for set in &args.list {
            sets.push(self.string_arg(set)?);
        }
        let in_all_sets = |character: char| sets.iter().all(|set| CharSet::new(set).contains(character));
        Ok(match name {
            "count" => {
                if sets.is_empty() {
                    return self.argument_error("wrong number of arguments (given 0, expected 1+)");
                }
                Value::Int(text.chars().filter(|character| in_all_sets(*character)).count() as i64)
            }
            "delete" => {
                if sets.is_empty() {
                    return self.argument_error("wrong number of arguments (given 0, expected 1+)");
                }
                Value::str(text.chars().filter(|character| !in_all_sets(*character)).collect::<String>())
            }
            "squeeze" => {
                let mut out = String::new();
                for character in text.chars() {
                    if out.ends_with(character) && in_all_sets(character) {
                        continue;
                    }
                    out.push(character);
                }
                Value::str(out)
            }
            _ => {
                let [from, to] = sets.as_slice() else {
                    let given = args.len();
                    return self
                        .argument_error(format!("wrong number of arguments (given {given}, expected 2)"));
                };
                let from = CharSet::new(from);
                let to = CharSet::new(to).members;
                let mut out = String::new();
                let mut last = None;
                for character in text.chars() {
                    let replaced = if from.negated {
                        from.contains(character).then(|| to.last().copied())
                    } else {
                        let at = from.members.iter().position(|member| *member == character);
                        at.map(|at| to.get(at).or(to.last()).copied())
                    };
                    match replaced {
                        None => {
                            out.push(character);
                            last = None;
                        }
                        Some(new) => {
                            if name == "tr_s" && last == Some(new) {
                                continue;
                            }
                            last = Some(new);
                            out.extend(new);
                        }
                    }
                }
                Value::str(out)
            }
        })
    }
}

/// A set of characters in the notation of `tr`, such as `a-z` or `^a-z`.
struct CharSet {
    members: Vec<char>,
    negated: bool,
}

impl CharSet {
    fn new(text: &str) -> Self {
        let mut characters: Vec<char> = text.chars().collect();
        let negated = characters.len() > 1 && characters[0] == '^';
        if negated {
            characters.remove(0);
        }
        let mut members = Vec::new();
        let mut index = 0;
        while index < characters.len() {
            if characters[index] == '\\' && index + 1 < characters.len() {
                members.push(characters[index + 1]);
                index += 2;
            } else if index + 2 < characters.len() && characters[index + 1] == '-' {
                members.extend(characters[index]..=characters[index + 2]);
                index += 3;
            } else {
                members.push(characters[index]);
                index += 1;
            }
        }
        CharSet { members, negated }
    }

    fn contains(&self, character: char) -> bool {
        self.members.contains(&character) != self.negated
    }
}

/// Converts each character on its own. Unlike Rust, Ruby has no special form for a sigma at the end of a
/// word.
fn downcase(text: &str) -> String {
    text.chars().flat_map(char::to_lowercase).collect()
}

pub(super) fn capitalize(text: &str) -> String {
    let mut characters = text.chars();
    match characters.next() {
        Some(first) => first.to_uppercase().collect::<String>() + &downcase(characters.as_str()),
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

/// Implements `dump`: quotes a string and escapes all characters beyond ASCII.
fn dump(text: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::from("\"");
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let ascii = first.is_ascii();
        let end = rest.find(|character: char| character.is_ascii() != ascii).unwrap_or(rest.len());
        let (piece, after) = rest.split_at(end);
        rest = after;
        if piece.is_ascii() {
            let shown = super::show::inspect_str(piece, true);
            out.push_str(&shown[1..shown.len() - 1]);
            continue;
        }
        for character in piece.chars() {
            if (character as u32) > 0xffff {
                let _ = write!(out, "\\u{{{:X}}}", character as u32);
            } else {
                let _ = write!(out, "\\u{:04X}", character as u32);
            }
        }
    }
    out.push('"');
    out
}
