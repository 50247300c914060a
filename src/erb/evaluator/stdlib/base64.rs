//! `Base64`, which `pack` and `unpack` also use.

use std::rc::Rc;

use ::base64::Engine as _;
use ::base64::alphabet;
use ::base64::engine::DecodePaddingMode;
use ::base64::engine::general_purpose::{
    GeneralPurpose, GeneralPurposeConfig, STANDARD, URL_SAFE, URL_SAFE_NO_PAD,
};

use crate::evaluator::eval::{Args, EvalResult, Interpreter};
use crate::evaluator::value::{RString, Value};

/// Returns the bytes of a string argument. Other values raise `TypeError`.
pub(super) fn bytes_of(interpreter: &mut Interpreter, value: &Value) -> EvalResult<Vec<u8>> {
    match value {
        Value::Str(text) => Ok(text.bytes()),
        other => Ok(interpreter.string_arg(other)?.into_bytes()),
    }
}

/// Encodes bytes in lines of 60 characters, as `pack('m')` does.
pub(super) fn encode_lines(bytes: &[u8]) -> String {
    let mut encoded_lines = String::new();
    for chunk in bytes.chunks(45) {
        encoded_lines.push_str(&STANDARD.encode(chunk));
        encoded_lines.push('\n');
    }
    encoded_lines
}

/// Decodes as `unpack('m')` does: skips foreign characters and stops at the first `=`. Returns `None` if
/// base64 characters follow it.
pub(super) fn decode_lenient(bytes: &[u8]) -> Option<Vec<u8>> {
    let padding = bytes.iter().position(|byte| *byte == b'=').unwrap_or(bytes.len());
    if bytes[padding..].iter().any(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/')) {
        return None;
    }
    let config = GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true);
    let engine = GeneralPurpose::new(&alphabet::STANDARD, config);
    let mut clean: Vec<u8> = bytes
        .iter()
        .copied()
        .take_while(|byte| *byte != b'=')
        .filter(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'))
        .collect();
    if clean.len() % 4 == 1 {
        clean.pop();
    }
    Some(engine.decode(clean).unwrap_or_default())
}

/// Returns bytes as a binary string.
pub(super) fn binary_string(bytes: &[u8]) -> Value {
    Value::Str(Rc::new(RString::from_bytes(bytes)))
}

/// Calls a method of the module Base64. Returns `None` if Base64 does not implement it.
pub(crate) fn call_class_method(
    interpreter: &mut Interpreter,
    name: &str,
    args: &Args,
) -> EvalResult<Option<Value>> {
    let method_names = [
        "encode64",
        "strict_encode64",
        "urlsafe_encode64",
        "decode64",
        "strict_decode64",
        "urlsafe_decode64",
    ];
    if !method_names.contains(&name) {
        return Ok(None);
    }
    let value = interpreter.arg(args, 0)?;
    if value.is_nil() && name.contains("decode") {
        return Err(interpreter.ruby_error("NoMethodError", "undefined method `unpack1' for nil:NilClass"));
    }
    let bytes = bytes_of(interpreter, &value)?;
    interpreter.use_scratch(bytes.len() * 2)?;
    Ok(Some(match name {
        "encode64" => Value::str(encode_lines(&bytes)),
        "strict_encode64" => Value::str(STANDARD.encode(&bytes)),
        "urlsafe_encode64" => {
            let is_padded = args
                .options()
                .and_then(|options| options.get_symbol("padding"))
                .is_none_or(|padding| padding.is_truthy());
            Value::str(if is_padded { URL_SAFE.encode(&bytes) } else { URL_SAFE_NO_PAD.encode(&bytes) })
        }
        "decode64" => match decode_lenient(&bytes) {
            Some(bytes) => binary_string(&bytes),
            None => return Err(interpreter.unsupported_error("base64 with text after its padding")),
        },
        "strict_decode64" => match STANDARD.decode(&bytes) {
            Ok(bytes) => binary_string(&bytes),
            Err(_) => return interpreter.raise_argument_error("invalid base64"),
        },
        _ => {
            let standard: Vec<u8> = bytes
                .iter()
                .map(|byte| match byte {
                    b'-' => b'+',
                    b'_' => b'/',
                    other => *other,
                })
                .collect();
            // Missing padding is added.
            let missing_padding = if standard.ends_with(b"=") { 0 } else { (4 - standard.len() % 4) % 4 };
            match STANDARD.decode([&standard[..], &b"==="[..missing_padding]].concat()) {
                Ok(bytes) => binary_string(&bytes),
                Err(_) => return interpreter.raise_argument_error("invalid base64"),
            }
        }
    }))
}
