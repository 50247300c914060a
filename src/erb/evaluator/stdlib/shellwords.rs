//! `Shellwords`: quotes and splits the words of shell commands.

use std::rc::Rc;

use crate::evaluator::eval::{Args, EvalResult, Interp};
use crate::evaluator::value::{RString, Value};

/// Quotes a word for a POSIX shell.
pub(crate) fn escape(text: &str) -> String {
    if text.is_empty() {
        return "''".into();
    }
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' => out.push_str("'\n'"),
            'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '-' | '.' | ',' | ':' | '+' | '/' | '@' => {
                out.push(character)
            }
            other => {
                out.push('\\');
                out.push(other);
            }
        }
    }
    out
}

/// Splits a command line into words. As in Ruby, words of ASCII characters are binary strings.
pub(crate) fn split(interp: &mut Interp, text: &str) -> EvalResult<Value> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = text.chars();
    let blank = |character: char| matches!(character, ' ' | '\t'..='\r');
    while let Some(character) = characters.next() {
        if blank(character) {
            words.extend(word.take());
            continue;
        }
        let word = word.get_or_insert_default();
        match character {
            '\'' => loop {
                match characters.next() {
                    Some('\'') => break,
                    Some(other) => word.push(other),
                    None => return raise_unmatched_quote(interp, text),
                }
            },
            '"' => loop {
                match characters.next() {
                    Some('"') => break,
                    Some('\\') => match characters.next() {
                        Some(character @ ('$' | '`' | '"' | '\\' | '\n')) => word.push(character),
                        Some(other) => word.extend(['\\', other]),
                        None => return raise_unmatched_quote(interp, text),
                    },
                    Some(other) => word.push(other),
                    None => return raise_unmatched_quote(interp, text),
                }
            },
            // A backslash before a line break or at the end of the text stays in the word.
            '\\' => match characters.next() {
                Some('\n') => word.push_str("\\\n"),
                Some(other) => word.push(other),
                None => word.push('\\'),
            },
            other => word.push(other),
        }
    }
    words.extend(word);
    let words = words.into_iter().map(|word| {
        let word = RString::new(word);
        word.is_binary.set(word.get().is_ascii());
        Value::Str(Rc::new(word))
    });
    Ok(Value::array(words.collect()))
}

/// Raises `ArgumentError` for an unclosed quote.
fn raise_unmatched_quote(interp: &mut Interp, text: &str) -> EvalResult<Value> {
    let quoted_text = interp.inspect(&Value::str(text))?;
    interp.raise_argument_error(format!("Unmatched quote: {quoted_text}"))
}

pub(crate) fn class_method(interp: &mut Interp, name: &str, args: &Args) -> EvalResult<Option<Value>> {
    Ok(Some(match name {
        "escape" | "shellescape" => {
            let text = interp.arg(args, 0)?;
            Value::str(escape(&interp.text_of(&text)?))
        }
        "split" | "shellsplit" | "shellwords" => {
            let text = interp.arg(args, 0)?;
            let text = interp.string_arg(&text)?;
            split(interp, &text)?
        }
        "join" | "shelljoin" => {
            let list = interp.arg(args, 0)?;
            let mut words = Vec::new();
            for word in interp.array_arg(&list)? {
                words.push(escape(&interp.text_of(&word)?));
            }
            Value::str(words.join(" "))
        }
        _ => return Ok(None),
    }))
}
