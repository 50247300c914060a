//! String methods that find and replace all matches of a pattern.

use std::rc::Rc;

use super::string_query::next_boundary;
use crate::evaluator::eval::{Args, Env, EvalResult, Interpreter};
use crate::evaluator::stdlib::regex::Regex;
use crate::evaluator::value::{RMatch, RString, Value};

impl Interpreter {
    /// Returns a pattern argument as a regular expression. A string is its source, and other values raise
    /// `TypeError`.
    pub(super) fn pattern_arg(&mut self, pattern: &Value) -> EvalResult<Rc<Regex>> {
        match pattern {
            Value::Regexp(regexp) => Ok(Rc::clone(regexp)),
            Value::Str(text) => {
                let source = text.get().clone();
                match self.compile_regexp(&source, "")? {
                    Value::Regexp(regexp) => Ok(regexp),
                    _ => Err(self.unsupported_error("this pattern")),
                }
            }
            other => {
                let class = self.class_of(other).label();
                self.raise_type_error(format!("wrong argument type {class} (expected Regexp)"))
            }
        }
    }

    /// Finds the matches of a pattern from left to right, or the first one if `only_first` is true. A string
    /// matches literally.
    pub(super) fn find_all_matches(
        &mut self,
        text: &str,
        pattern: &Value,
        only_first: bool,
    ) -> EvalResult<Vec<Rc<RMatch>>> {
        let regexp = match pattern {
            Value::Regexp(regexp) => Rc::clone(regexp),
            other => {
                let literal = self.string_arg(other)?;
                let source = crate::evaluator::stdlib::regex::escape(&literal);
                match self.compile_regexp(&source, "")? {
                    Value::Regexp(regexp) => regexp,
                    _ => return Ok(Vec::new()),
                }
            }
        };
        self.check_subject(&regexp, text)?;
        let mut matches = Vec::new();
        let mut search_start = 0;
        let subject: Rc<str> = Rc::from(text);
        while search_start <= text.len() {
            let Some(groups) = self.find_groups(&regexp, text, search_start)? else { break };
            let Some((start, end)) = groups[0] else { break };
            // All matches share their subject. Its memory is counted with the first match.
            let match_data = RMatch::new(Rc::clone(&regexp), Rc::clone(&subject), groups, matches.is_empty());
            search_start = if start == end {
                if start >= text.len() { text.len() + 1 } else { next_boundary(text, start) }
            } else {
                end
            };
            matches.push(match_data);
            if only_first {
                break;
            }
        }
        Ok(matches)
    }

    /// Implements `scan`.
    pub(super) fn scan_string(
        &mut self,
        string: &Rc<RString>,
        args: &Args,
        env: Option<&Rc<Env>>,
    ) -> EvalResult<Value> {
        let text = string.get().clone();
        let pattern = self.arg(args, 0)?;
        let mut match_values = Vec::new();
        let matches = self.find_all_matches(&text, &pattern, false)?;
        let last_match = matches.last().cloned();
        for match_data in matches {
            let item = if match_data.groups.len() > 1 {
                Value::array((1..match_data.groups.len()).map(|index| match_data.value(index)).collect())
            } else {
                match_data.value(0)
            };
            match &args.block {
                Some(block) => {
                    if let Some(env) = env {
                        self.set_last_match(Some(match_data), env);
                    }
                    self.yield_one(block, item)?;
                }
                None => match_values.push(item),
            }
        }
        if let Some(env) = env {
            self.set_last_match(last_match, env);
        }
        Ok(if args.block.is_some() { Value::Str(Rc::clone(string)) } else { Value::array(match_values) })
    }

    /// Implements `gsub` if `replaces_all` is true, and `sub` otherwise.
    pub(super) fn replace_in_string(
        &mut self,
        string: &Rc<RString>,
        replaces_all: bool,
        args: &Args,
        env: Option<&Rc<Env>>,
    ) -> EvalResult<Value> {
        let text = string.get().clone();
        let pattern = self.arg(args, 0)?;
        if args.len() < 2 && args.block.is_none() {
            if !replaces_all {
                return self.raise_argument_error("wrong number of arguments (given 1, expected 2)");
            }
            let receiver = Value::Str(Rc::clone(string));
            return self.create_enumerator(&receiver, "gsub", args.list.clone());
        }
        let matches = self.find_all_matches(&text, &pattern, !replaces_all)?;
        if let Some(env) = env {
            self.set_last_match(matches.last().cloned(), env);
        }
        let mut new_text = String::with_capacity(text.len());
        let mut copied_bytes = 0;
        for match_data in matches {
            let Some((start, end)) = match_data.groups[0] else { continue };
            let old_length = new_text.len();
            new_text.push_str(&text[copied_bytes..start]);
            match (args.get(1), &args.block) {
                (Some(Value::Hash(map)), _) => {
                    let key = match_data.value(0);
                    let value = self.look_up_in_hash(map, &key)?;
                    new_text.push_str(&self.text_of(&value)?);
                }
                (Some(template), _) => {
                    let template = self.string_arg(&template.clone())?;
                    if let Err(name) = expand(&template, &match_data, &mut new_text) {
                        let text = format!("undefined group name reference: {name}");
                        return Err(self.ruby_error("IndexError", text));
                    }
                }
                (None, Some(block)) => {
                    if let Some(env) = env {
                        self.set_last_match(Some(Rc::clone(&match_data)), env);
                    }
                    let value = self.yield_one(block, match_data.value(0))?;
                    new_text.push_str(&self.text_of(&value)?);
                }
                (None, None) => {}
            }
            self.use_scratch(new_text.len() - old_length)?;
            copied_bytes = end;
        }
        new_text.push_str(&text[copied_bytes..]);
        Ok(Value::str(new_text))
    }
}

/// Appends a replacement with its references to groups filled in: `\1`, `\0`, `\k<name>`, `\\`. The error is
/// the name of a group that does not exist.
fn expand(template: &str, match_data: &RMatch, new_text: &mut String) -> Result<(), String> {
    let mut rest = template;
    while let Some(backslash) = rest.find('\\') {
        new_text.push_str(&rest[..backslash]);
        let text_after = &rest[backslash + 1..];
        match text_after.chars().next() {
            Some(digit) if digit.is_ascii_digit() => {
                let index = digit as usize - '0' as usize;
                // If any group is named, groups cannot be referred to by number.
                if index == 0 || match_data.regexp.names().is_empty() {
                    new_text.push_str(match_data.group(index).unwrap_or_default());
                }
                rest = &text_after[1..];
            }
            Some('k') if text_after[1..].starts_with('<') && text_after.contains('>') => {
                let end = text_after.find('>').unwrap_or(1);
                let name = &text_after[2..end];
                let index = match_data.regexp.group_index(name).ok_or(name)?;
                new_text.push_str(match_data.group(index).unwrap_or_default());
                rest = &text_after[end + 1..];
            }
            Some('&') => {
                new_text.push_str(match_data.group(0).unwrap_or_default());
                rest = &text_after[1..];
            }
            Some('`') => {
                new_text.push_str(match_data.groups[0].map_or("", |(start, _)| &match_data.subject[..start]));
                rest = &text_after[1..];
            }
            Some('\'') => {
                new_text.push_str(match_data.groups[0].map_or("", |(_, end)| &match_data.subject[end..]));
                rest = &text_after[1..];
            }
            Some('\\') => {
                new_text.push('\\');
                rest = &text_after[1..];
            }
            _ => {
                new_text.push('\\');
                rest = text_after;
            }
        }
    }
    new_text.push_str(rest);
    Ok(())
}
