//! String methods that inspect, split, match and replace without changing the string.

use std::rc::Rc;

use super::array::position;
use super::string::fold;
use super::string_edit::byte_at;
use crate::evaluator::eval::{Args, Env, EvalResult, Interpreter};
use crate::evaluator::meter;
use crate::evaluator::value::{RString, VALUE_BYTES, Value};

impl Interpreter {
    /// Calls a method of String that inspects, splits, matches or replaces. Returns `None` for any other.
    pub(super) fn call_string_query(
        &mut self,
        string: &Rc<RString>,
        name: &str,
        args: &Args,
        env: Option<&Rc<Env>>,
    ) -> EvalResult<Option<Value>> {
        let receiver = Value::Str(Rc::clone(string));
        let block = args.block.as_ref();
        Ok(Some(match name {
            "==" | "===" | "eql?" => {
                let other = self.arg(args, 0)?;
                Value::Bool(self.are_equal(&receiver, &other)?)
            }
            "<=>" | "casecmp" | "casecmp?" => {
                let Value::Str(other) = self.arg(args, 0)? else { return Ok(Some(Value::Nil)) };
                let (mut a, mut b) = (string.get().clone(), other.get().clone());
                match name {
                    "casecmp" => {
                        a.make_ascii_lowercase();
                        b.make_ascii_lowercase();
                    }
                    "casecmp?" => return Ok(Some(Value::Bool(fold(&a) == fold(&b)))),
                    _ => {}
                }
                Value::Int(a.as_bytes().cmp(b.as_bytes()) as i64)
            }
            "length" | "size" => Value::Int(char_count(&string.get()) as i64),
            "bytesize" => Value::Int(string.bytes().len() as i64),
            "empty?" => Value::Bool(string.get().is_empty()),
            "[]" | "slice" => self.slice_string(string, args, env)?,
            "byteslice" => {
                let bytes = string.bytes();
                let (start, count) = match args.list.as_slice() {
                    [Value::Range(range)] => match self.range_bounds(range, bytes.len())? {
                        Some((start, count)) => (start as i64, count as i64),
                        None => return Ok(Some(Value::Nil)),
                    },
                    _ => (self.index_or(args, 0, 0)?, self.index_or(args, 1, 1)?),
                };
                let start = if start < 0 { start + bytes.len() as i64 } else { start };
                let is_index = args.len() == 1 && !matches!(args.list[0], Value::Range(_));
                let max = bytes.len() as i64 - i64::from(is_index);
                if start < 0 || start > max || count < 0 {
                    return Ok(Some(Value::Nil));
                }
                let end = (start as usize).saturating_add(count as usize).min(bytes.len());
                match String::from_utf8(bytes[start as usize..end].to_vec()) {
                    Ok(text) => Value::str(text),
                    Err(_) => return Err(self.unsupported_error("text that is not UTF-8")),
                }
            }
            "include?" => {
                let part = self.arg(args, 0)?;
                let part = self.string_arg(&part)?;
                Value::Bool(string.get().contains(part.as_str()))
            }
            "start_with?" => {
                let text = string.get().clone();
                for prefix in &args.list {
                    let is_match = match prefix {
                        Value::Regexp(regexp) => {
                            let match_data = self.find_match(regexp, &text, 0)?;
                            match_data.is_some_and(|match_data| {
                                match_data.groups[0].is_some_and(|(start, _)| start == 0)
                            })
                        }
                        other => text.starts_with(self.string_arg(other)?.as_str()),
                    };
                    if is_match {
                        return Ok(Some(Value::Bool(true)));
                    }
                }
                Value::Bool(false)
            }
            "end_with?" => {
                let text = string.get().clone();
                for suffix in &args.list {
                    if text.ends_with(self.string_arg(suffix)?.as_str()) {
                        return Ok(Some(Value::Bool(true)));
                    }
                }
                Value::Bool(false)
            }
            "index" | "rindex" => self.find_in_string(string, name, args, env)?,
            "chars" | "each_char" | "grapheme_clusters" => {
                meter::check_room(string.get().chars().count().saturating_mul(VALUE_BYTES))?;
                let items: Vec<Value> = string.get().chars().map(|c| Value::str(c.to_string())).collect();
                self.yield_or_collect(receiver, items, name == "each_char", block)?
            }
            "bytes" | "each_byte" => {
                meter::check_room(string.get().len().saturating_mul(VALUE_BYTES))?;
                let items = string.bytes().into_iter().map(|byte| Value::Int(byte.into())).collect();
                self.yield_or_collect(receiver, items, name == "each_byte", block)?
            }
            "codepoints" | "each_codepoint" => {
                meter::check_room(string.get().chars().count().saturating_mul(VALUE_BYTES))?;
                let items = string.get().chars().map(|c| Value::Int(i64::from(c as u32))).collect();
                self.yield_or_collect(receiver, items, name == "each_codepoint", block)?
            }
            "lines" | "each_line" => {
                let text = string.get().clone();
                let removes_line_end =
                    args.options().and_then(|o| o.get_symbol("chomp")).is_some_and(|v| v.is_truthy());
                let separator = match args.positional().first() {
                    Some(Value::Str(separator)) => separator.get().clone(),
                    Some(_) => {
                        return Err(self.unsupported_error(format!("String#{name} with this separator")));
                    }
                    None => "\n".into(),
                };
                if separator.is_empty() && !text.is_empty() {
                    return Err(self.unsupported_error(format!("String#{name} by paragraphs")));
                }
                let text = if separator.is_empty() { String::new() } else { text };
                let separator = if separator.is_empty() { "\n".into() } else { separator };
                let items = text
                    .split_inclusive(separator.as_str())
                    .map(|line| {
                        let cut = match line.strip_suffix(separator.as_str()) {
                            Some(cut) if separator == "\n" => cut.strip_suffix('\r').unwrap_or(cut),
                            Some(cut) => cut,
                            None => line,
                        };
                        Value::str(if removes_line_end { cut } else { line })
                    })
                    .collect();
                self.yield_or_collect(receiver, items, name == "each_line", block)?
            }
            "getbyte" => {
                let index = self.index_or(args, 0, 0)?;
                let bytes = string.bytes();
                position(index, bytes.len()).map_or(Value::Nil, |index| Value::Int(bytes[index].into()))
            }
            "ord" => match string.get().chars().next() {
                Some(character) => Value::Int(i64::from(character as u32)),
                None => return self.raise_argument_error("empty string"),
            },
            "sum" => {
                let bits = self.int_or(args, 0, 16)?;
                let sum = string.bytes().iter().map(|byte| i64::from(*byte)).sum::<i64>();
                Value::Int(if (1..63).contains(&bits) { sum & ((1 << bits) - 1) } else { sum })
            }
            "ascii_only?" => Value::Bool(string.get().is_ascii()),
            "valid_encoding?" => Value::Bool(true),
            "split" => self.split_string(string, args)?,
            "partition" | "rpartition" => {
                let separator = self.arg(args, 0)?;
                let text = string.get().clone();
                let span = match &separator {
                    Value::Regexp(regexp) if name == "partition" => {
                        let match_data = self.find_match(regexp, &text, 0)?;
                        if let Some(env) = env {
                            self.set_last_match(match_data.clone(), env);
                        }
                        match_data.and_then(|match_data| match_data.groups[0])
                    }
                    Value::Regexp(regexp) => {
                        let mut last_span = None;
                        self.check_subject(regexp, &text)?;
                        for offset in (0..=text.len()).rev().filter(|offset| text.is_char_boundary(*offset)) {
                            if let Some((start, end)) =
                                self.find_groups(regexp, &text, offset)?.and_then(|groups| groups[0])
                                && start == offset
                            {
                                last_span = Some((start, end));
                                break;
                            }
                        }
                        last_span
                    }
                    other => {
                        let separator = self.string_arg(other)?;
                        let start =
                            if name == "partition" { text.find(&separator) } else { text.rfind(&separator) };
                        start.map(|start| (start, start + separator.len()))
                    }
                };
                Value::array(match (span, name) {
                    (Some((start, end)), _) => {
                        vec![
                            Value::str(&text[..start]),
                            Value::str(&text[start..end]),
                            Value::str(&text[end..]),
                        ]
                    }
                    (None, "partition") => vec![Value::str(text), Value::str(""), Value::str("")],
                    (None, _) => vec![Value::str(""), Value::str(""), Value::str(text)],
                })
            }
            "=~" | "match" | "match?" => {
                let pattern = self.arg(args, 0)?;
                match &pattern {
                    Value::Str(_) | Value::Symbol(_) if name == "=~" => {
                        return self.raise_type_error("type mismatch: String given");
                    }
                    Value::Regexp(_) => {}
                    _ if name == "=~" => return Ok(Some(Value::Nil)),
                    _ => {}
                }
                let regexp = self.pattern_arg(&pattern)?;
                let text = string.get().clone();
                let match_data = match self.match_offset_arg(&text, args)? {
                    Some(_) if name == "match?" && self.index_or(args, 1, 0)? > char_count(&text) as i64 => {
                        None
                    }
                    Some(start) => self.find_match(&regexp, &text, start)?,
                    None => None,
                };
                if name == "match?" {
                    return Ok(Some(Value::Bool(match_data.is_some())));
                }
                if let Some(env) = env {
                    self.set_last_match(match_data.clone(), env);
                }
                match match_data {
                    None => Value::Nil,
                    Some(match_data) if name == "=~" => Value::Int(match_data.char_start()),
                    Some(match_data) => match block {
                        Some(block) => self.yield_one(block, Value::Match(match_data))?,
                        None => Value::Match(match_data),
                    },
                }
            }
            "scan" => self.scan_string(string, args, env)?,
            "gsub" | "sub" => self.replace_in_string(string, name == "gsub", args, env)?,
            "upto" => {
                let last = self.arg(args, 0)?;
                let excludes_end = args.get(1).is_some_and(Value::is_truthy);
                let range = self.create_range(receiver.clone(), last, excludes_end)?;
                let each = Args { list: Vec::new(), has_keywords: false, block: args.block.clone() };
                let result = self.call_with_args(&range, "each", each)?;
                if args.block.is_some() { receiver } else { result }
            }
            _ => return Ok(None),
        }))
    }

    /// Passes the items to the block and returns `receiver`. Without a block, returns an enumerator if
    /// `returns_enumerator` is true, and an array otherwise.
    fn yield_or_collect(
        &mut self,
        receiver: Value,
        items: Vec<Value>,
        returns_enumerator: bool,
        block: Option<&Value>,
    ) -> EvalResult<Value> {
        self.use_scratch(items.len() * 64)?;
        match block {
            Some(block) => {
                for item in items {
                    self.yield_one(block, item)?;
                }
                Ok(receiver)
            }
            None if returns_enumerator => {
                let list = Value::array(items);
                self.create_enumerator(&list, "each", Vec::new())
            }
            None => Ok(Value::array(items)),
        }
    }

    /// Implements `[]` and `slice`.
    pub(super) fn slice_string(
        &mut self,
        string: &Rc<RString>,
        args: &Args,
        env: Option<&Rc<Env>>,
    ) -> EvalResult<Value> {
        let text = string.get().clone();
        let length = char_count(&text);
        let cut = |start: usize, end: usize| {
            let part = RString::new(text[byte_at(&text, start)..byte_at(&text, end)].to_owned());
            part.is_binary.set(string.is_binary.get());
            Value::Str(Rc::new(part))
        };
        match (self.arg(args, 0)?, args.get(1).cloned()) {
            (Value::Str(part), None) => {
                let part = part.get().clone();
                Ok(if text.contains(part.as_str()) { Value::str(part) } else { Value::Nil })
            }
            (Value::Regexp(regexp), group) => {
                let match_data = self.find_match(&regexp, &text, 0)?;
                if let Some(env) = env {
                    self.set_last_match(match_data.clone(), env);
                }
                let Some(match_data) = match_data else { return Ok(Value::Nil) };
                match group {
                    None => Ok(match_data.value(0)),
                    Some(group) => {
                        let group = self.group_number(&match_data, &group)?;
                        Ok(group.map_or(Value::Nil, |group| match_data.value(group)))
                    }
                }
            }
            (Value::Range(range), None) => Ok(self
                .range_bounds(&range, length)?
                .map_or(Value::Nil, |(start, count)| cut(start, start + count))),
            (index, None) => {
                let index = self.index_arg(&index)?;
                Ok(position(index, length).map_or(Value::Nil, |index| cut(index, index + 1)))
            }
            (start, Some(size)) => {
                let (start, size) = (self.index_arg(&start)?, self.index_arg(&size)?);
                let start = if start < 0 { start + length as i64 } else { start };
                if start < 0 || start > length as i64 || size < 0 {
                    return Ok(Value::Nil);
                }
                let start = start as usize;
                Ok(cut(start, start.saturating_add(size as usize).min(length)))
            }
        }
    }

    /// Implements `index` and `rindex`.
    fn find_in_string(
        &mut self,
        string: &Rc<RString>,
        name: &str,
        args: &Args,
        env: Option<&Rc<Env>>,
    ) -> EvalResult<Value> {
        let text = string.get().clone();
        let length = char_count(&text) as i64;
        let pattern = self.arg(args, 0)?;
        let is_forward = name == "index";
        let start = self.index_or(args, 1, if is_forward { 0 } else { length })?;
        let start = if start < 0 { start + length } else { start };
        if start < 0 || (is_forward && start > length) {
            return Ok(Value::Nil);
        }
        let start = byte_at(&text, start as usize);
        let position = match &pattern {
            Value::Regexp(regexp) => {
                let match_data = if is_forward {
                    self.find_match(regexp, &text, start)?
                } else {
                    let mut last_match = None;
                    self.check_subject(regexp, &text)?;
                    for offset in (0..=start).rev().filter(|offset| text.is_char_boundary(*offset)) {
                        self.step(1)?;
                        let groups = self.find_groups(regexp, &text, offset)?;
                        if groups.is_some_and(|groups| {
                            groups[0].is_some_and(|(match_start, _)| match_start == offset)
                        }) {
                            last_match = self.find_match(regexp, &text, offset)?;
                            break;
                        }
                    }
                    last_match
                };
                if let Some(env) = env {
                    self.set_last_match(match_data.clone(), env);
                }
                match_data.and_then(|match_data| match_data.groups[0]).map(|(match_start, _)| match_start)
            }
            other => {
                let part = self.string_arg(other)?;
                if is_forward {
                    text[start..].find(part.as_str()).map(|offset| offset + start)
                } else {
                    let end = (start + part.len()).min(text.len());
                    let end = (end..=text.len())
                        .find(|offset| text.is_char_boundary(*offset))
                        .unwrap_or(text.len());
                    text[..end].rfind(part.as_str())
                }
            }
        };
        Ok(position.map_or(Value::Nil, |offset| Value::Int(char_count(&text[..offset]) as i64)))
    }
}

pub(super) fn char_count(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.chars().count() }
}

/// Returns the byte offset of the character after the one at this byte offset.
pub(super) fn next_boundary(text: &str, offset: usize) -> usize {
    (offset + 1..=text.len()).find(|offset| text.is_char_boundary(*offset)).unwrap_or(text.len())
}
