//! Methods of Regexp and MatchData.

use std::rc::Rc;

use crate::evaluator::eval::{Args, Env, Interp, R};
use crate::evaluator::stdlib::regex::{Regex, escape};
use crate::evaluator::value::{RHash, RMatch, Value};

impl RMatch {
    /// Returns the start of the match, in characters.
    pub(crate) fn char_start(&self) -> i64 {
        self.groups
            .first()
            .copied()
            .flatten()
            .map_or(0, |(from, _)| self.subject[..from].chars().count() as i64)
    }
}

impl Interp {
    /// Returns the regular expression with this source and these option letters. Each one is compiled once.
    pub(crate) fn regexp(&mut self, source: &str, options: &str) -> R<Value> {
        let mut bits = 0;
        for option in options.chars() {
            bits |= match option {
                'i' => 1,
                'x' => 2,
                'm' => 4,
                _ => 0,
            };
        }
        self.regexp_bits(source, bits)
    }

    /// Returns the regular expression with this source and these option bits, see [`Regex::options`].
    pub(crate) fn regexp_bits(&mut self, source: &str, options: u8) -> R<Value> {
        let key = (source.to_owned(), options);
        if let Some(known) = self.regexps.get(&key) {
            return Ok(Value::Regexp(Rc::clone(known)));
        }
        match Regex::new(source, options) {
            Ok(regexp) => {
                let regexp = Rc::new(regexp);
                self.charge(source.len() * 64)?;
                self.regexps.insert(key, Rc::clone(&regexp));
                Ok(Value::Regexp(regexp))
            }
            Err(text) => Err(self.unsupported(format!("the regular expression /{source}/ ({text})"))),
        }
    }

    /// Finds the first match at or after a byte offset.
    pub(crate) fn regexp_match(
        &mut self,
        regexp: &Rc<Regex>,
        text: &str,
        at: usize,
    ) -> R<Option<Rc<RMatch>>> {
        self.step(1 + text.len() as u64 / 64)?;
        match regexp.find(text, at) {
            Ok(None) => Ok(None),
            Ok(Some(groups)) => {
                Ok(Some(Rc::new(RMatch { regexp: Rc::clone(regexp), subject: Rc::from(text), groups })))
            }
            Err(text) => {
                let stop =
                    super::super::eval::Stop::Limit(format!("a regular expression took too long: {text}"));
                Err(super::super::eval::Flow::Stop(Box::new(stop)))
            }
        }
    }

    pub(super) fn regexp_method(
        &mut self,
        regexp: &Rc<Regex>,
        name: &str,
        args: &Args,
        env: Option<&Rc<Env>>,
    ) -> R<Option<Value>> {
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
                    Value::Str(text) => text.get().clone(),
                    _ if name == "===" => return Ok(Some(Value::Bool(false))),
                    other => self.string_arg(other)?,
                };
                let found = self.regexp_match(regexp, &text, 0)?;
                if name == "match?" {
                    return Ok(Some(Value::Bool(found.is_some())));
                }
                if let Some(env) = env {
                    self.set_last_match(found.clone(), env);
                }
                match (found, name) {
                    (found, "===") => Value::Bool(found.is_some()),
                    (None, _) => Value::Nil,
                    (Some(found), "=~") => Value::Int(found.char_start()),
                    (Some(found), _) => match &args.block {
                        Some(block) => self.yield_one(block, Value::Match(found))?,
                        None => Value::Match(found),
                    },
                }
            }
            "source" => Value::str(&*regexp.source),
            "to_s" => Value::str(regexp.to_s()),
            "inspect" => Value::str(regexp.inspect()),
            "options" => Value::Int(regexp.options.into()),
            "casefold?" => Value::Bool(regexp.options & 1 != 0),
            "names" => Value::array(regexp.names().into_iter().map(Value::str).collect()),
            _ => return Ok(None),
        }))
    }

    pub(super) fn match_method(&mut self, found: &Rc<RMatch>, name: &str, args: &Args) -> R<Option<Value>> {
        let all =
            |from: usize| (from..found.groups.len()).map(|index| found.value(index)).collect::<Vec<_>>();
        Ok(Some(match name {
            "[]" => match self.arg(args, 0)? {
                Value::Str(name) => self.match_named(found, &name.get().clone())?,
                Value::Symbol(name) => self.match_named(found, &name)?,
                index => {
                    let list = Value::array(all(0));
                    let mut args = args.clone();
                    if let Some(first) = args.list.first_mut() {
                        *first = index;
                    }
                    self.call_with(&list, "[]", args)?
                }
            },
            "to_a" | "deconstruct" if name == "to_a" => Value::array(all(0)),
            "captures" | "deconstruct" => Value::array(all(1)),
            "named_captures" => {
                Value::hash(RHash::from_pairs(found.regexp.names().into_iter().map(|name| {
                    let index = found.regexp.group_index(&name).unwrap_or(usize::MAX);
                    (Value::str(name), found.value(index))
                })))
            }
            "names" => Value::array(found.regexp.names().into_iter().map(Value::str).collect()),
            "pre_match" => Value::str(found.groups[0].map_or("", |(from, _)| &found.subject[..from])),
            "post_match" => Value::str(found.groups[0].map_or("", |(_, to)| &found.subject[to..])),
            "to_s" => found.value(0),
            "begin" | "end" | "offset" => {
                let index = self.int_or(args, 0, 0)?.max(0) as usize;
                let Some((from, to)) = found.groups.get(index).copied().flatten() else {
                    return Ok(Some(Value::Nil));
                };
                let at = |byte: usize| Value::Int(found.subject[..byte].chars().count() as i64);
                match name {
                    "begin" => at(from),
                    "end" => at(to),
                    _ => Value::array(vec![at(from), at(to)]),
                }
            }
            "size" | "length" => Value::Int(found.groups.len() as i64),
            "string" => Value::str(&*found.subject),
            "regexp" => Value::Regexp(Rc::clone(&found.regexp)),
            "values_at" => {
                let list = Value::array(all(0));
                self.call_with(&list, "values_at", args.clone())?
            }
            _ => return Ok(None),
        }))
    }

    /// Returns the text of a named group, or raises `IndexError`.
    fn match_named(&mut self, found: &Rc<RMatch>, name: &str) -> R<Value> {
        match found.regexp.group_index(name) {
            Some(index) => Ok(found.value(index)),
            None => Err(self.error("IndexError", format!("undefined group name reference: {name}"))),
        }
    }

    /// Calls a class method of Regexp.
    pub(super) fn regexp_class_method(
        &mut self,
        name: &str,
        args: &Args,
        env: Option<&Rc<Env>>,
    ) -> R<Option<Value>> {
        Ok(Some(match name {
            "new" | "compile" => match self.arg(args, 0)? {
                Value::Regexp(regexp) => Value::Regexp(regexp),
                source => {
                    let source = self.string_arg(&source)?;
                    let options = match args.get(1) {
                        Some(Value::Int(bits)) => *bits as u8 & 7,
                        Some(value) => u8::from(value.truthy()),
                        None => 0,
                    };
                    self.regexp_bits(&source, options)?
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
                self.regexp_bits(&source, 0)?
            }
            "last_match" => {
                let found = env.and_then(|env| self.last_match(env));
                match (found, args.get(0)) {
                    (None, _) => Value::Nil,
                    (Some(found), None) => Value::Match(found),
                    (Some(found), Some(_)) => return self.match_method(&found, "[]", args),
                }
            }
            _ => return Ok(None),
        }))
    }
}
