//! Shellwords.

use crate::template::eval::{Args, Interp, R};
use crate::template::value::Value;

/// A word quoted for a POSIX shell.
pub(in crate::template) fn escape(text: &str) -> String {
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

/// The words of a command line.
pub(in crate::template) fn split(it: &mut Interp, text: &str) -> R<Value> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut started = false;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\'' => {
                started = true;
                loop {
                    match characters.next() {
                        Some('\'') => break,
                        Some(other) => word.push(other),
                        None => return unmatched(it, text),
                    }
                }
            }
            '"' => {
                started = true;
                loop {
                    match characters.next() {
                        Some('"') => break,
                        Some('\\') => match characters.next() {
                            Some(escaped @ ('$' | '`' | '"' | '\\')) => word.push(escaped),
                            Some('\n') => {}
                            Some(other) => {
                                word.push('\\');
                                word.push(other);
                            }
                            None => return unmatched(it, text),
                        },
                        Some(other) => word.push(other),
                        None => return unmatched(it, text),
                    }
                }
            }
            '\\' => {
                started = true;
                if let Some(next) = characters.next()
                    && next != '\n'
                {
                    word.push(next);
                }
            }
            blank if blank.is_ascii_whitespace() => {
                if started {
                    words.push(Value::str(std::mem::take(&mut word)));
                    started = false;
                }
            }
            other => {
                started = true;
                word.push(other);
            }
        }
    }
    if started {
        words.push(Value::str(word));
    }
    Ok(Value::array(words))
}

fn unmatched(it: &mut Interp, text: &str) -> R<Value> {
    it.argument_error(format!("Unmatched quote: {text}"))
}

pub(in crate::template) fn class_method(it: &mut Interp, name: &str, args: &Args) -> R<Option<Value>> {
    Ok(Some(match name {
        "escape" | "shellescape" => {
            let text = it.arg(args, 0)?;
            Value::str(escape(&it.text_of(&text)?))
        }
        "split" | "shellsplit" | "shellwords" => {
            let text = it.arg(args, 0)?;
            let text = it.string_arg(&text)?;
            split(it, &text)?
        }
        "join" | "shelljoin" => {
            let list = it.arg(args, 0)?;
            let mut words = Vec::new();
            for word in it.array_arg(&list)? {
                words.push(escape(&it.text_of(&word)?));
            }
            Value::str(words.join(" "))
        }
        _ => return Ok(None),
    }))
}
