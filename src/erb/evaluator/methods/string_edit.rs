//! String methods that change the string in place.

use std::rc::Rc;

use crate::evaluator::eval::{Args, Env, EvalResult, Interpreter};
use crate::evaluator::value::{RString, Value};

const EDIT_METHODS: &[&str] = &[
    "<<",
    "concat",
    "prepend",
    "replace",
    "insert",
    "clear",
    "[]=",
    "slice!",
    "setbyte",
    "upcase!",
    "downcase!",
    "capitalize!",
    "swapcase!",
    "strip!",
    "lstrip!",
    "rstrip!",
    "chomp!",
    "chop!",
    "gsub!",
    "sub!",
    "squeeze!",
    "delete!",
    "tr!",
    "tr_s!",
    "reverse!",
    "succ!",
    "next!",
    "delete_prefix!",
    "delete_suffix!",
    "encode!",
    "unicode_normalize!",
    "scrub!",
];

impl Interpreter {
    /// Calls a method of String that changes the string. Returns `None` for any other method.
    pub(super) fn call_string_edit(
        &mut self,
        string: &Rc<RString>,
        name: &str,
        args: &Args,
        env: Option<&Rc<Env>>,
    ) -> EvalResult<Option<Value>> {
        if !EDIT_METHODS.contains(&name) {
            return Ok(None);
        }
        let receiver = Value::Str(Rc::clone(string));
        if string.is_frozen.get() {
            return self.raise_frozen_error(&receiver);
        }
        Ok(Some(match name {
            "<<" | "concat" => {
                // All arguments are read before the string changes, because it may be among them.
                let suffix = RString::new(String::new());
                for value in &args.list {
                    match value {
                        Value::Int(code) => match u32::try_from(*code).ok().and_then(char::from_u32) {
                            Some(character) => self.append(&suffix, &character.to_string(), false)?,
                            None => {
                                let message = format!("{code} out of char range");
                                return Err(self.ruby_error("RangeError", message));
                            }
                        },
                        Value::Str(other) => self.append(&suffix, &other.get(), other.is_binary.get())?,
                        other => {
                            let text = self.string_arg(other)?;
                            self.append(&suffix, &text, false)?;
                        }
                    }
                }
                self.append(string, &suffix.get(), suffix.is_binary.get())?;
                receiver
            }
            "prepend" => {
                let mut text = String::new();
                for value in &args.list {
                    text.push_str(&self.string_arg(value)?);
                }
                self.use_scratch(text.len())?;
                text.push_str(&string.get());
                string.set(text);
                receiver
            }
            "replace" => {
                let other = self.arg(args, 0)?;
                let other = self.string_arg(&other)?;
                string.set(other);
                receiver
            }
            "insert" => {
                self.use_scratch(string.get().len() * 4)?;
                let index = self.index_or(args, 0, 0)?;
                let other = self.arg(args, 1)?;
                let other = self.string_arg(&other)?;
                let mut characters: Vec<char> = string.get().chars().collect();
                let length = characters.len() as i64;
                let position = if index < 0 { index + length + 1 } else { index };
                if !(0..=length).contains(&position) {
                    return Err(self.ruby_error("IndexError", format!("index {index} out of string")));
                }
                characters.splice(position as usize..position as usize, other.chars());
                string.set(characters.into_iter().collect());
                receiver
            }
            "clear" => {
                string.set(String::new());
                receiver
            }
            "[]=" => self.store_in_string(string, args)?,
            "slice!" => {
                let slice = self.slice_string(string, args, env)?;
                if let Value::Str(removed_text) = &slice {
                    let mut args = args.clone();
                    args.list.push(Value::str(""));
                    let removed_text = removed_text.get().clone();
                    if removed_text.is_empty() {
                        return Ok(Some(slice));
                    }
                    self.store_in_string(string, &args)?;
                }
                slice
            }
            "setbyte" => return Err(self.unsupported_error("String#setbyte")),
            _ => {
                let plain_name = name.trim_end_matches('!');
                let old_text = string.get().clone();
                match self.call_string_method(string, plain_name, args, env)? {
                    Some(Value::Str(new)) => {
                        let new_text = new.get().clone();
                        let is_same = old_text == new_text;
                        string.set(new_text);
                        let is_never_nil = matches!(
                            plain_name,
                            "reverse" | "succ" | "next" | "encode" | "scrub" | "unicode_normalize"
                        );
                        // The result is nil only without a match, even if the text stays the same.
                        let has_match = is_same && matches!(plain_name, "sub" | "gsub") && {
                            let pattern = self.arg(args, 0)?;
                            !self.find_all_matches(&old_text, &pattern, true)?.is_empty()
                        };
                        if is_same && !old_text.is_empty() && matches!(plain_name, "tr" | "tr_s") {
                            let source_set = Args::new(args.list.iter().take(1).cloned().collect());
                            if !matches!(self.call_with_args(&receiver, "count", source_set)?, Value::Int(0))
                            {
                                return Err(
                                    self.unsupported_error(format!("String#{name} with the same result"))
                                );
                            }
                        }
                        if is_same && !is_never_nil && !has_match { Value::Nil } else { receiver }
                    }
                    other => return Ok(other),
                }
            }
        }))
    }

    /// Implements `[]=`: replaces a part of the string and returns the assigned value.
    fn store_in_string(&mut self, string: &Rc<RString>, args: &Args) -> EvalResult<Value> {
        let Some((value, location)) = args.list.split_last() else {
            return self.raise_argument_error("wrong number of arguments (given 0, expected 2..3)");
        };
        let new_part = self.string_arg(value)?;
        let text = string.get().clone();
        let length = text.chars().count();
        let (start, end) = match location {
            [Value::Str(part)] => match text.find(part.get().as_str()) {
                Some(start) => (start, start + part.get().len()),
                None => return Err(self.ruby_error("IndexError", "string not matched")),
            },
            [Value::Regexp(regexp), group @ ..] => {
                let Some(match_data) = self.find_match(regexp, &text, 0)? else {
                    return Err(self.ruby_error("IndexError", "regexp not matched"));
                };
                let number = match group.first() {
                    Some(group) => self.group_number(&match_data, group)?,
                    None => Some(0),
                };
                match number.and_then(|number| match_data.groups[number]) {
                    Some(range) => range,
                    None => return Err(self.ruby_error("IndexError", "regexp group not matched")),
                }
            }
            [Value::Range(range)] => match self.range_bounds(range, length)? {
                Some((start, count)) => (byte_at(&text, start), byte_at(&text, start + count)),
                None => {
                    let range_text = self.inspect(&location[0])?;
                    return Err(self.ruby_error("RangeError", format!("{range_text} out of range")));
                }
            },
            [index, other_args @ ..] => {
                let index = self.index_arg(index)?;
                let count = match other_args.first() {
                    Some(count) => {
                        let count = self.index_arg(count)?;
                        if count < 0 {
                            return Err(self.ruby_error("IndexError", format!("negative length {count}")));
                        }
                        count as usize
                    }
                    None => 1,
                };
                let start = if index < 0 { index + length as i64 } else { index };
                let is_outside = start < 0
                    || start > length as i64
                    || (other_args.is_empty() && start == length as i64 && index < 0);
                if is_outside {
                    return Err(self.ruby_error("IndexError", format!("index {index} out of string")));
                }
                let start = start as usize;
                (byte_at(&text, start), byte_at(&text, start.saturating_add(count)))
            }
            [] => return self.raise_argument_error("wrong number of arguments (given 1, expected 2..3)"),
        };
        self.use_scratch(text.len() + new_part.len())?;
        string.set(format!("{}{new_part}{}", &text[..start], &text[end..]));
        Ok(value.clone())
    }
}

/// Returns the byte offset of the character at an index, or the length of the text if there is none.
pub(super) fn byte_at(text: &str, index: usize) -> usize {
    if text.is_ascii() {
        return index.min(text.len());
    }
    text.char_indices().nth(index).map_or(text.len(), |(offset, _)| offset)
}
