//! `String#split`.

use std::rc::Rc;

use super::string_query::next_boundary;
use crate::evaluator::eval::{Args, EvalResult, Interpreter};
use crate::evaluator::stdlib::regex::Regex;
use crate::evaluator::value::{RString, Value};

/// The bytes that a part and its value take, without the text.
const PART_BYTES: usize = 128;

impl Interpreter {
    /// Implements `split`. A limit of 0 drops empty parts at the end, a negative one keeps them, and a
    /// positive one is the maximum number of parts.
    pub(super) fn split_string(&mut self, string: &Rc<RString>, args: &Args) -> EvalResult<Value> {
        let text = string.get().clone();
        let limit = self.int_or(args, 1, 0)?;
        let separator = args.get(0).cloned().unwrap_or(Value::Nil);
        let mut parts: Vec<String> = Vec::new();
        let is_limit_reached = |parts: &Vec<String>| limit > 0 && parts.len() as i64 >= limit - 1;
        // As in awk, a single space stands for any run of whitespace.
        let splits_at_spaces = match &separator {
            Value::Nil => true,
            Value::Str(separator) => *separator.get() == " ",
            _ => false,
        };
        if text.is_empty() && args.block.is_none() {
            return Ok(Value::array(Vec::new()));
        }
        if limit == 1 && args.block.is_some() {
            return Err(self.unsupported_error("String#split with a limit of 1 and a block"));
        }
        if limit == 1 {
            return Ok(Value::array(if text.is_empty() { Vec::new() } else { vec![Value::str(text)] }));
        }
        if splits_at_spaces {
            let is_blank = crate::evaluator::stdlib::number::is_space;
            let mut rest = text.trim_start_matches(is_blank);
            if rest.is_empty() && !text.is_empty() && limit != 0 {
                parts.push(String::new());
            }
            while !rest.is_empty() {
                if is_limit_reached(&parts) {
                    break;
                }
                let end = rest.find(is_blank).unwrap_or(rest.len());
                self.use_scratch(PART_BYTES + end)?;
                parts.push(rest[..end].to_owned());
                if end == rest.len() {
                    rest = "";
                    if limit == 0 || !text.ends_with(is_blank) {
                        break;
                    }
                }
                let count_after = rest[end.min(rest.len())..].trim_start_matches(is_blank);
                if count_after.is_empty() && limit != 0 && end < rest.len() {
                    parts.push(String::new());
                    rest = "";
                    break;
                }
                rest = count_after;
            }
            if !rest.is_empty() {
                parts.push(rest.to_owned());
            }
        } else if let Value::Regexp(regexp) = &separator {
            self.split_by_regexp(&text, regexp, limit, &mut parts)?;
        } else {
            let separator = self.string_arg(&separator)?;
            if separator.is_empty() {
                let mut characters = text.chars();
                while !is_limit_reached(&parts) {
                    match characters.next() {
                        Some(character) => {
                            self.use_scratch(PART_BYTES)?;
                            parts.push(character.to_string());
                        }
                        None => break,
                    }
                }
                if limit != 0 {
                    parts.push(characters.as_str().to_owned());
                }
            } else if !text.is_empty() {
                let mut rest = text.as_str();
                while !is_limit_reached(&parts) {
                    match rest.split_once(separator.as_str()) {
                        Some((head, tail)) => {
                            self.use_scratch(PART_BYTES + head.len())?;
                            parts.push(head.to_owned());
                            rest = tail;
                        }
                        None => break,
                    }
                }
                parts.push(rest.to_owned());
            }
        }
        if limit == 0 {
            while parts.last().is_some_and(String::is_empty) {
                parts.pop();
            }
        }
        let items: Vec<Value> = parts.into_iter().map(Value::str).collect();
        match &args.block {
            Some(block) => {
                for item in items {
                    self.yield_one(block, item)?;
                }
                Ok(Value::Str(Rc::clone(string)))
            }
            None => Ok(Value::array(items)),
        }
    }

    /// Splits at the matches of a regular expression. Captured groups become parts of the result.
    pub(super) fn split_by_regexp(
        &mut self,
        text: &str,
        regexp: &Rc<Regex>,
        limit: i64,
        parts: &mut Vec<String>,
    ) -> EvalResult<()> {
        // The part begins at `begin`, and the search at `start`, which is one character further after an
        // empty match.
        let (mut begin, mut start) = (0, 0);
        let mut has_advanced = false;
        let mut splits = 1;
        self.check_subject(regexp, text)?;
        while start <= text.len() {
            self.use_scratch(PART_BYTES)?;
            let Some(groups) = self.find_groups(regexp, text, start)? else { break };
            let Some((match_start, match_end)) = groups[0] else { break };
            if match_start == start && match_start == match_end {
                if !has_advanced {
                    start = if start == text.len() { start + 1 } else { next_boundary(text, start) };
                    has_advanced = true;
                    continue;
                }
                parts.push(text[begin..start].to_owned());
                begin = start;
            } else {
                parts.push(text[begin..match_start].to_owned());
                (begin, start) = (match_end, match_end);
            }
            has_advanced = false;
            parts.extend(
                groups[1..]
                    .iter()
                    .flatten()
                    .map(|(match_start, match_end)| text[*match_start..*match_end].to_owned()),
            );
            splits += 1;
            if limit > 0 && limit <= splits {
                break;
            }
        }
        if limit != 0 || text.len() > begin {
            parts.push(text[begin..].to_owned());
        }
        Ok(())
    }
}
