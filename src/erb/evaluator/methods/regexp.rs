//! Methods of Regexp and MatchData.

use std::rc::Rc;
use std::time::Instant;

use super::array::position;
use super::string_edit::byte_at;
use super::string_query::char_count;
use crate::evaluator::eval::{Args, Env, EvalResult, Interpreter};
use crate::evaluator::meter::{self, Abort};
use crate::evaluator::stdlib::regex::{
    Groups, Regex, escape, folds_to_ascii, folds_to_several, is_unclear_in_words,
};
use crate::evaluator::value::{RHash, RMatch, Value};

/// The maximum length of a regular expression, in bytes.
const MAX_REGEXP_BYTES: usize = 64 << 10;
/// The bytes that a compiled regular expression takes, in addition to those for its length.
const COMPILED_BYTES: usize = 32 << 10;
/// The steps counted for each microsecond of matching. The engine does not report its backtracks.
const STEPS_PER_MICROSECOND: u64 = 6;

impl RMatch {
    /// Returns the start of the match, in characters.
    pub(crate) fn char_start(&self) -> i64 {
        self.groups
            .first()
            .copied()
            .flatten()
            .map_or(0, |(start, _)| self.subject[..start].chars().count() as i64)
    }
}

impl Interpreter {
    /// Returns the regular expression with this source and these option letters. Each one is compiled once.
    pub(crate) fn compile_regexp(&mut self, source: &str, options: &str) -> EvalResult<Value> {
        let mut bits = 0;
        for option in options.chars() {
            bits |= match option {
                'i' => 1,
                'x' => 2,
                'm' => 4,
                other => {
                    return Err(
                        self.unsupported_error(format!("the option '{other}' of a regular expression"))
                    );
                }
            };
        }
        self.compile_regexp_with_bits(source, bits)
    }

    /// Returns the regular expression with this source and these option bits, see [`Regex::options`].
    pub(crate) fn compile_regexp_with_bits(&mut self, source: &str, options: u8) -> EvalResult<Value> {
        let key = (source.to_owned(), options);
        if let Some(regexp) = self.regexps.get(&key) {
            return Ok(Value::Regexp(Rc::clone(regexp)));
        }
        if source.len() > MAX_REGEXP_BYTES {
            return Err(
                self.unsupported_error(format!("a regular expression of more than {MAX_REGEXP_BYTES} bytes"))
            );
        }
        let start = Instant::now();
        let result = Regex::new(source, options);
        self.step(start.elapsed().as_micros() as u64 * STEPS_PER_MICROSECOND)?;
        match result {
            Ok(regexp) => {
                let regexp = Rc::new(regexp);
                // A compiled expression is kept until the rendering ends.
                meter::charge(COMPILED_BYTES + source.len() * 64)?;
                self.regexps.insert(key, Rc::clone(&regexp));
                Ok(Value::Regexp(regexp))
            }
            Err(text) => Err(self.unsupported_error(format!("the regular expression /{source}/ ({text})"))),
        }
    }

    /// Finds the first match at or after a byte offset.
    pub(crate) fn find_match(
        &mut self,
        regexp: &Rc<Regex>,
        text: &str,
        start: usize,
    ) -> EvalResult<Option<Rc<RMatch>>> {
        self.check_subject(regexp, text)?;
        let groups = self.find_groups(regexp, text, start)?;
        Ok(groups.map(|groups| RMatch::new(Rc::clone(regexp), Rc::from(text), groups, true)))
    }

    /// Checks that the engine compares the characters of a text as Ruby does.
    pub(super) fn check_subject(&mut self, regexp: &Rc<Regex>, text: &str) -> EvalResult<()> {
        if !(regexp.ignores_case || regexp.has_boundary) {
            return Ok(());
        }
        meter::step_bytes(text.len())?;
        if text.is_ascii() {
            return Ok(());
        }
        if regexp.ignores_case && text.chars().any(folds_to_several) {
            let text = "a regular expression that ignores case, with a character that equals several ones";
            return Err(self.unsupported_error(text));
        }
        if regexp.has_word_class && text.chars().any(folds_to_ascii) {
            return Err(self.unsupported_error(
                "a character class with \\w that ignores case, in a text with ſ or a kelvin",
            ));
        }
        if regexp.has_wide_class
            && text.chars().any(|letter| matches!(letter, '\u{b5}' | '\u{c0}'..='\u{ff}'))
        {
            let text = "a character class beyond ASCII that ignores case, in a text with letters such as é";
            return Err(self.unsupported_error(text));
        }
        if regexp.has_boundary && text.chars().any(is_unclear_in_words) {
            return Err(
                self.unsupported_error("the boundary of a word in a text with superscripts or fractions")
            );
        }
        Ok(())
    }

    /// Finds the byte ranges of the first match at or after a byte offset, in a text that
    /// [`Self::check_subject`] accepts.
    pub(super) fn find_groups(
        &mut self,
        regexp: &Rc<Regex>,
        text: &str,
        offset: usize,
    ) -> EvalResult<Option<Groups>> {
        self.step(1)?;
        let start = Instant::now();
        let search_result = regexp.find(text, offset);
        self.step(start.elapsed().as_micros() as u64 * STEPS_PER_MICROSECOND)?;
        match search_result {
            Ok(groups) => Ok(groups),
            Err(text) => Err(Abort::Limit(format!("a regular expression took too long: {text}")).into()),
        }
    }

    /// Calls a method of Regexp. Returns `None` if Regexp does not implement it.
    pub(super) fn call_regexp_method(
        &mut self,
        regexp: &Rc<Regex>,
        name: &str,
        args: &Args,
        env: Option<&Rc<Env>>,
    ) -> EvalResult<Option<Value>> {
        Ok(Some(match name {
            "=~" | "match" | "match?" | "===" => {
                let subject = self.arg(args, 0)?;
                let text = match &subject {
                    Value::Nil => {
                        if let Some(env) = env {
                            self.set_last_match(None, env);
                        }
                        return Ok(Some(if name == "match?" || name == "===" {
                            Value::Bool(false)
                        } else {
                            Value::Nil
                        }));
                    }
                    Value::Symbol(name) => name.to_string(),
                    Value::Str(text) if !text.has_bytes() => text.get().clone(),
                    Value::Str(_) => return Err(self.unsupported_error("text that is not UTF-8")),
                    _ if name == "===" => return Ok(Some(Value::Bool(false))),
                    other => self.string_arg(other)?,
                };
                let start = self.match_offset_arg(&text, args)?;
                let match_data = match start {
                    Some(_) if name == "match?" && self.index_or(args, 1, 0)? > char_count(&text) as i64 => {
                        None
                    }
                    Some(start) => self.find_match(regexp, &text, start)?,
                    None => None,
                };
                if name == "match?" {
                    return Ok(Some(Value::Bool(match_data.is_some())));
                }
                if let Some(env) = env {
                    self.set_last_match(match_data.clone(), env);
                }
                match (match_data, name) {
                    (match_data, "===") => Value::Bool(match_data.is_some()),
                    (None, _) => Value::Nil,
                    (Some(match_data), "=~") => Value::Int(match_data.char_start()),
                    (Some(match_data), _) => match &args.block {
                        Some(block) => self.yield_one(block, Value::Match(match_data))?,
                        None => Value::Match(match_data),
                    },
                }
            }
            "source" => Value::str(&*regexp.source),
            "to_s" => Value::str(regexp.to_s()),
            "inspect" => Value::str(regexp.inspect()),
            "options" => {
                // An expression with characters beyond ASCII is bound to its encoding.
                let is_fixed = ["\\u", "\\p", "\\P"].into_iter().any(|escape| regexp.source.contains(escape));
                let is_fixed = is_fixed || !regexp.source.is_ascii();
                Value::Int(i64::from(regexp.options) | if is_fixed { 16 } else { 0 })
            }
            "casefold?" => Value::Bool(regexp.options & 1 != 0),
            "names" => Value::array(regexp.names().into_iter().map(Value::str).collect()),
            _ => return Ok(None),
        }))
    }

    /// Calls a method of MatchData. Returns `None` if MatchData does not implement it.
    pub(super) fn call_match_method(
        &mut self,
        match_data: &Rc<RMatch>,
        name: &str,
        args: &Args,
    ) -> EvalResult<Option<Value>> {
        let group_values = |first_group: usize| {
            (first_group..match_data.groups.len()).map(|index| match_data.value(index)).collect::<Vec<_>>()
        };
        Ok(Some(match name {
            "[]" => match self.arg(args, 0)? {
                Value::Str(name) => self.named_group(match_data, &name.get().clone())?,
                Value::Symbol(name) => self.named_group(match_data, &name)?,
                Value::Int(index) if index < 0 && args.len() == 1 => {
                    let group = self.group_number(match_data, &Value::Int(index))?;
                    group.map_or(Value::Nil, |group| match_data.value(group))
                }
                index => {
                    let list = Value::array(group_values(0));
                    let mut args = args.clone();
                    if let Some(first) = args.list.first_mut() {
                        *first = index;
                    }
                    self.call_with_args(&list, "[]", args)?
                }
            },
            "to_a" | "deconstruct" if name == "to_a" => Value::array(group_values(0)),
            "captures" | "deconstruct" => Value::array(group_values(1)),
            "named_captures" => {
                Value::hash(RHash::from_pairs(match_data.regexp.names().into_iter().map(|name| {
                    let index = match_data.regexp.group_index(&name).unwrap_or(usize::MAX);
                    (Value::str(name), match_data.value(index))
                })))
            }
            "names" => Value::array(match_data.regexp.names().into_iter().map(Value::str).collect()),
            "pre_match" => {
                Value::str(match_data.groups[0].map_or("", |(start, _)| &match_data.subject[..start]))
            }
            "post_match" => {
                Value::str(match_data.groups[0].map_or("", |(_, end)| &match_data.subject[end..]))
            }
            "to_s" => match_data.value(0),
            "begin" | "end" | "offset" => {
                let index = match self.arg(args, 0)? {
                    Value::Str(name) => self.named_group_number(match_data, &name.get().clone())?,
                    Value::Symbol(name) => self.named_group_number(match_data, &name)?,
                    index => self.int_arg(&index)?,
                };
                let group = usize::try_from(index).ok().and_then(|index| match_data.groups.get(index));
                let Some(group) = group else {
                    return Err(self.ruby_error("IndexError", format!("index {index} out of matches")));
                };
                let Some((start, end)) = *group else {
                    if name == "offset" {
                        return Ok(Some(Value::array(vec![Value::Nil, Value::Nil])));
                    }
                    return Ok(Some(Value::Nil));
                };
                let char_index = |byte: usize| Value::Int(match_data.subject[..byte].chars().count() as i64);
                match name {
                    "begin" => char_index(start),
                    "end" => char_index(end),
                    _ => Value::array(vec![char_index(start), char_index(end)]),
                }
            }
            "size" | "length" => Value::Int(match_data.groups.len() as i64),
            "string" => Value::str(&*match_data.subject),
            "regexp" => Value::Regexp(Rc::clone(&match_data.regexp)),
            "values_at" => {
                let list = Value::array(group_values(0));
                self.call_with_args(&list, "values_at", args.clone())?
            }
            _ => return Ok(None),
        }))
    }

    /// Returns the byte offset at which to begin a match, from the second argument. Returns `None` if it is
    /// out of bounds.
    pub(super) fn match_offset_arg(&mut self, text: &str, args: &Args) -> EvalResult<Option<usize>> {
        let start = self.index_or(args, 1, 0)?;
        let length = char_count(text) as i64;
        let start = if start < 0 { start + length } else { start.min(length) };
        Ok((0..=length).contains(&start).then(|| byte_at(text, start as usize)))
    }

    /// Returns the text of a named group, or raises `IndexError`.
    fn named_group(&mut self, match_data: &Rc<RMatch>, name: &str) -> EvalResult<Value> {
        let index = self.named_group_number(match_data, name)?;
        Ok(match_data.value(index as usize))
    }

    /// Returns the number of a group from its name or number. A negative number counts from the end. Returns
    /// `None` for a number without a group.
    pub(super) fn group_number(
        &mut self,
        match_data: &Rc<RMatch>,
        group: &Value,
    ) -> EvalResult<Option<usize>> {
        let index = match group {
            Value::Str(name) => self.named_group_number(match_data, &name.get().clone())?,
            Value::Symbol(name) => self.named_group_number(match_data, name)?,
            index => self.index_arg(index)?,
        };
        // Negative numbers cannot reach group 0, the whole match.
        Ok(position(index, match_data.groups.len()).filter(|group| index >= 0 || *group > 0))
    }

    /// Returns the number of a named group, or raises `IndexError`.
    fn named_group_number(&mut self, match_data: &Rc<RMatch>, name: &str) -> EvalResult<i64> {
        match match_data.regexp.group_index(name) {
            Some(index) => Ok(index as i64),
            None => Err(self.ruby_error("IndexError", format!("undefined group name reference: {name}"))),
        }
    }

    pub(super) fn call_regexp_class_method(
        &mut self,
        name: &str,
        args: &Args,
        env: Option<&Rc<Env>>,
    ) -> EvalResult<Option<Value>> {
        Ok(Some(match name {
            "new" | "compile" => match self.arg(args, 0)? {
                Value::Regexp(regexp) => Value::Regexp(regexp),
                source => {
                    let source = self.string_arg(&source)?;
                    let options = match args.get(1) {
                        Some(Value::Int(bits)) => *bits as u8 & 7,
                        Some(value) => u8::from(value.is_truthy()),
                        None => 0,
                    };
                    self.compile_regexp_with_bits(&source, options)?
                }
            },
            "escape" | "quote" => {
                let text = self.arg(args, 0)?;
                let text = self.name_arg(&text)?;
                Value::str(escape(&text))
            }
            "union" => {
                let list = match args.get(0) {
                    Some(Value::Array(list)) => list.to_vec(),
                    _ => args.list.clone(),
                };
                let mut sources = Vec::new();
                for item in &list {
                    sources.push(match item {
                        Value::Regexp(regexp) if list.len() == 1 => regexp.source.to_string(),
                        Value::Regexp(regexp) => regexp.to_s(),
                        other => escape(&self.name_arg(other)?),
                    });
                }
                let source = if sources.is_empty() { "(?!)".into() } else { sources.join("|") };
                self.compile_regexp_with_bits(&source, 0)?
            }
            "last_match" => {
                let last_match = env.and_then(|env| self.last_match(env));
                match (last_match, args.get(0)) {
                    (None, _) => Value::Nil,
                    (Some(last_match), None) => Value::Match(last_match),
                    (Some(last_match), Some(_)) => return self.call_match_method(&last_match, "[]", args),
                }
            }
            _ => return Ok(None),
        }))
    }
}
