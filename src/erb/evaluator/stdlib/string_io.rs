//! `StringIO`, and decompression with `Zlib`.
//!
//! Compression is not supported, because its result depends on the version of the library.

use std::io::Read;
use std::rc::Rc;

use crate::evaluator::eval::{Args, EvalResult, Interpreter};
use crate::evaluator::value::{Class, Data, Object, RString, Value};

/// Calls `new` of a reader, or a function of `Zlib`.
pub(crate) fn call_class_method(
    interpreter: &mut Interpreter,
    class: &Rc<Class>,
    name: &str,
    args: &Args,
) -> EvalResult<Option<Value>> {
    let label = class.label();
    Ok(Some(match (label.as_str(), name) {
        ("StringIO", "new") => {
            let text = match args.get(0).cloned() {
                Some(Value::Str(text)) => text,
                Some(other) => {
                    interpreter.string_arg(&other)?;
                    return Ok(None);
                }
                None => Rc::new(RString::new(String::new())),
            };
            interpreter.create_object(Rc::clone(class), Data::TextStream(text, 0))
        }
        ("Zlib::GzipReader", "new") => {
            let io = interpreter.arg(args, 0)?;
            let source = match &io {
                Value::Object(object) => match &*object.data.borrow() {
                    Data::TextStream(text, read) => {
                        Some(text.bytes().split_off((*read).min(text.bytes().len())))
                    }
                    _ => None,
                },
                _ => None,
            };
            let Some(source) = source else {
                return Err(
                    interpreter.unsupported_error("a Zlib::GzipReader whose source is not a StringIO")
                );
            };
            let bytes =
                decompress(interpreter, flate2::read::GzDecoder::new(&*source), "Zlib::GzipFile::Error")?;
            // The content is text if it is valid UTF-8, and a binary string otherwise.
            let text = match String::from_utf8(bytes) {
                Ok(text) => RString::new(text),
                Err(error) => RString::from_bytes(error.as_bytes()),
            };
            interpreter.create_object(Rc::clone(class), Data::TextStream(Rc::new(text), 0))
        }
        ("Zlib", "gunzip") => {
            let source = bytes_of(interpreter, args)?;
            let bytes =
                decompress(interpreter, flate2::read::GzDecoder::new(&*source), "Zlib::GzipFile::Error")?;
            super::base64::binary_string(&bytes)
        }
        ("Zlib", "inflate") | ("Zlib::Inflate", "inflate") => {
            let source = bytes_of(interpreter, args)?;
            let bytes = decompress(interpreter, flate2::read::ZlibDecoder::new(&*source), "Zlib::DataError")?;
            super::base64::binary_string(&bytes)
        }
        ("Zlib", "crc32") => {
            let mut crc = flate2::Crc::new();
            if !args.is_empty() {
                crc.update(&bytes_of(interpreter, args)?);
            }
            Value::Int(crc.sum().into())
        }
        _ => return Ok(None),
    }))
}

fn bytes_of(interpreter: &mut Interpreter, args: &Args) -> EvalResult<Vec<u8>> {
    let value = interpreter.arg(args, 0)?;
    super::base64::bytes_of(interpreter, &value)
}

/// Decompresses to the end. Each piece counts towards the memory limit before the next one is read.
fn decompress(interpreter: &mut Interpreter, mut source: impl Read, class: &str) -> EvalResult<Vec<u8>> {
    let mut content = Vec::new();
    let mut piece = vec![0; 64 << 10];
    loop {
        match source.read(&mut piece) {
            Ok(0) => return Ok(content),
            Ok(count) => {
                interpreter.use_scratch(count * 2)?;
                content.extend_from_slice(&piece[..count]);
            }
            Err(_) => return Err(interpreter.ruby_error(class, "not in the right format")),
        }
    }
}

/// Calls a method of a reader.
pub(crate) fn call_method(
    interpreter: &mut Interpreter,
    object: &Rc<Object>,
    name: &str,
    args: &Args,
) -> EvalResult<Option<Value>> {
    let (text, read) = match &*object.data.borrow() {
        Data::TextStream(text, read) => (Rc::clone(text), *read),
        _ => return Ok(None),
    };
    let is_string_io = object.class.label() == "StringIO";
    let receiver = Value::Object(Rc::clone(object));
    let seek = |offset: usize| {
        if let Data::TextStream(_, read) = &mut *object.data.borrow_mut() {
            *read = offset;
        }
    };
    if text.is_binary.get()
        && !matches!(name, "read" | "string" | "rewind" | "close" | "size" | "length" | "eof?")
    {
        return Err(interpreter.unsupported_error(format!("{}#{name} of binary data", object.class.label())));
    }
    let length = text.get().len();
    let line_end = |start: usize| match text.get()[start..].find('\n') {
        Some(line_break) => start + line_break + 1,
        None => length,
    };
    Ok(Some(match name {
        "read" if args.is_empty() => {
            interpreter.use_scratch(length)?;
            let rest = text.get().get(read..).unwrap_or_default().to_owned();
            seek(length);
            let rest = RString::new(rest);
            rest.is_binary.set(text.is_binary.get());
            Value::Str(Rc::new(rest))
        }
        "gets" | "readline" if args.is_empty() => {
            if read >= length {
                if name == "readline" {
                    return Err(interpreter.ruby_error("EOFError", "end of file reached"));
                }
                return Ok(Some(Value::Nil));
            }
            let end = line_end(read);
            seek(end);
            let line = text.get()[read..end].to_owned();
            Value::str(line)
        }
        "each" | "each_line" if args.is_empty() && args.block.is_none() => {
            interpreter.create_enumerator(&receiver, name, Vec::new())?
        }
        "each" | "each_line" | "readlines" if args.is_empty() => {
            let mut lines = Vec::new();
            let mut start = read;
            while start < length {
                let end = line_end(start);
                interpreter.use_scratch(end - start + 16)?;
                lines.push(Value::str(&text.get()[start..end]));
                start = end;
            }
            seek(length);
            if name == "readlines" {
                Value::array(lines)
            } else {
                let block = interpreter.block_arg(args)?;
                for line in lines {
                    interpreter.yield_one(&block, line)?;
                }
                receiver
            }
        }
        "eof?" | "eof" => Value::Bool(read >= length),
        "rewind" => {
            seek(0);
            Value::Int(0)
        }
        "close" => Value::Nil,
        "string" if is_string_io => Value::Str(text),
        "size" | "length" if is_string_io => Value::Int(text.bytes().len() as i64),
        "<<" | "write" | "print" | "puts" if is_string_io => {
            if read < length {
                return Err(
                    interpreter.unsupported_error(format!("StringIO#{name} before the end of the string"))
                );
            }
            let mut write_length = 0;
            for value in &args.list {
                if name == "puts" && matches!(value, Value::Array(_)) {
                    return Err(interpreter.unsupported_error("StringIO#puts of an array"));
                }
                let mut piece = match value {
                    Value::Str(piece) => piece.get().clone(),
                    other => interpreter.text_of(other)?,
                };
                if name == "puts" && !piece.ends_with('\n') {
                    piece.push('\n');
                }
                let is_binary = matches!(value, Value::Str(piece) if piece.is_binary.get());
                interpreter.append(&text, &piece, is_binary)?;
                write_length += if is_binary { piece.chars().count() } else { piece.len() };
            }
            if name == "puts" && args.is_empty() {
                interpreter.append(&text, "\n", false)?;
                write_length += 1;
            }
            seek(length + write_length);
            match name {
                "<<" => receiver,
                "write" => Value::Int(write_length as i64),
                _ => Value::Nil,
            }
        }
        _ => return Ok(None),
    }))
}
