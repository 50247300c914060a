//! `Shellwords`: quotes and splits the words of shell commands.

use std::rc::Rc;

use crate::evaluator::eval::{Args, EvalResult, Interpreter};
use crate::evaluator::value::{RString, Value};

/// Quotes a word for a POSIX shell.
pub(crate) fn escape(text: &str) -> String {
    if text.is_empty() {
        return "''".into();
    }
    let mut escaped_text = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' => escaped_text.push_str("'\n'"),
            'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '-' | '.' | ',' | ':' | '+' | '/' | '@' => {
                escaped_text.push(character)
            }
            other => {
                escaped_text.push('\\');
                escaped_text.push(other);
            }
        }
    }
    escaped_text
}

/// Splits a command line into words. As in Ruby, words of ASCII characters are binary strings.
pub(crate) fn split(interpreter: &mut Interpreter, text: &str) -> EvalResult<Value> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = text.chars();
    let is_blank = |character: char| matches!(character, ' ' | '\t'..='\r');
    while let Some(character) = characters.next() {
        if is_blank(character) {
            words.extend(word.take());
            continue;
        }
        let word = word.get_or_insert_default();
        match character {
            '\'' => loop {
                match characters.next() {
                    Some('\'') => break,
                    Some(other) => word.push(other),
                    None => return raise_unmatched_quote(interpreter, text),
                }
            },
            '"' => loop {
                match characters.next() {
                    Some('"') => break,
                    Some('\\') => match characters.next() {
                        Some(character @ ('$' | '`' | '"' | '\\' | '\n')) => word.push(character),
                        Some(other) => word.extend(['\\', other]),
                        None => return raise_unmatched_quote(interpreter, text),
                    },
                    Some(other) => word.push(other),
                    None => return raise_unmatched_quote(interpreter, text),
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
fn raise_unmatched_quote(interpreter: &mut Interpreter, text: &str) -> EvalResult<Value> {
    let quoted_text = interpreter.inspect(&Value::str(text))?;
    interpreter.raise_argument_error(format!("Unmatched quote: {quoted_text}"))
}

pub(crate) fn call_class_method(
    interpreter: &mut Interpreter,
    name: &str,
    args: &Args,
) -> EvalResult<Option<Value>> {
    Ok(Some(match name {
        "escape" | "shellescape" => {
            let text = interpreter.arg(args, 0)?;
            Value::str(escape(&interpreter.text_of(&text)?))
        }
        "split" | "shellsplit" | "shellwords" => {
            let text = interpreter.arg(args, 0)?;
            let text = interpreter.string_arg(&text)?;
            split(interpreter, &text)?
        }
        "join" | "shelljoin" => {
            let list = interpreter.arg(args, 0)?;
            let mut words = Vec::new();
            for word in interpreter.array_arg(&list)? {
                words.push(escape(&interpreter.text_of(&word)?));
            }
            Value::str(words.join(" "))
        }
        _ => return Ok(None),
    }))
}
