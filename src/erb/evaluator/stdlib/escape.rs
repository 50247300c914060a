//! `ERB::Util` and `CGI`: escape HTML and URLs.

use crate::evaluator::eval::{Args, EvalResult, Interpreter};
use crate::evaluator::value::Value;

/// The maximum length of an entity that is decoded, in bytes.
const MAX_ENTITY_BYTES: usize = 64;
/// Code points from this one on are not decoded.
const CODE_POINT_LIMIT: u32 = 0x10_ffff;

/// Escapes the five special characters of HTML.
pub(super) fn escape_html(text: &str) -> String {
    let mut escaped_html = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped_html.push_str("&amp;"),
            '<' => escaped_html.push_str("&lt;"),
            '>' => escaped_html.push_str("&gt;"),
            '"' => escaped_html.push_str("&quot;"),
            '\'' => escaped_html.push_str("&#39;"),
            other => escaped_html.push(other),
        }
    }
    escaped_html
}

/// Decodes the entities that Ruby knows, and keeps others. Returns `None` for a surrogate, and for text that
/// Ruby drops.
fn unescape_html(text: &str) -> Option<String> {
    let mut plain_text = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(ampersand) = rest.find('&') {
        plain_text.push_str(&rest[..ampersand]);
        rest = &rest[ampersand..];
        let end = rest.bytes().take(MAX_ENTITY_BYTES).position(|byte| byte == b';');
        match end.and_then(|end| Some((end, entity(&rest[1..end])?))) {
            Some((end, code)) => {
                plain_text.push(char::from_u32(code)?);
                rest = &rest[end + 1..];
            }
            None => {
                // Ruby drops text after a malformed numeric entity.
                if rest.starts_with("&#") && rest[1..].split(';').next()?.contains('&') {
                    return None;
                }
                plain_text.push('&');
                rest = &rest[1..];
            }
        }
    }
    Some(plain_text + rest)
}

/// Returns the code point of an entity without its `&` and `;`.
fn entity(name: &str) -> Option<u32> {
    let code = match name {
        "apos" => return Some('\''.into()),
        "amp" => return Some('&'.into()),
        "quot" => return Some('"'.into()),
        "gt" => return Some('>'.into()),
        "lt" => return Some('<'.into()),
        _ => name.strip_prefix('#')?,
    };
    let number = match code.strip_prefix(['x', 'X']) {
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            u32::from_str_radix(digits, 16)
        }
        None if code.bytes().all(|byte| byte.is_ascii_digit()) => code.parse(),
        _ => return None,
    };
    number.ok().filter(|code| *code < CODE_POINT_LIMIT)
}

/// Percent-encodes all bytes except ASCII letters, digits and those in `kept_characters`.
pub(super) fn percent_encode(text: &str, kept_characters: &str) -> String {
    use std::fmt::Write as _;
    let mut escaped_text = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || kept_characters.as_bytes().contains(&byte) {
            escaped_text.push(char::from(byte));
        } else {
            let _ = write!(escaped_text, "%{byte:02X}");
        }
    }
    escaped_text
}

/// Decodes percent-encoding, and `+` to a space if `decodes_plus`. Returns `None` if the bytes are not UTF-8.
pub(super) fn percent_decode(text: &str, decodes_plus: bool) -> Option<String> {
    let bytes = text.as_bytes();
    let mut decoded_bytes = Vec::with_capacity(bytes.len());
    let mut index = 0;
    while index < bytes.len() {
        let hex = text
            .get(index + 1..index + 3)
            .filter(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()))
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match (bytes[index], hex) {
            (b'%', Some(byte)) => {
                decoded_bytes.push(byte);
                index += 3;
            }
            (b'+', _) if decodes_plus => {
                decoded_bytes.push(b' ');
                index += 1;
            }
            (byte, _) => {
                decoded_bytes.push(byte);
                index += 1;
            }
        }
    }
    String::from_utf8(decoded_bytes).ok()
}

/// Calls a method of `ERB::Util` or CGI. Returns `None` if neither implements it.
pub(crate) fn call_class_method(
    interpreter: &mut Interpreter,
    name: &str,
    args: &Args,
) -> EvalResult<Option<Value>> {
    let method_names = [
        "html_escape",
        "h",
        "url_encode",
        "u",
        "escapeHTML",
        "escape_html",
        "escape",
        "unescape",
        "escapeElement",
        "unescapeHTML",
        "unescape_html",
        "escapeURIComponent",
    ];
    if !method_names.contains(&name) {
        return Ok(None);
    }
    let value = interpreter.arg(args, 0)?;
    let text = match name {
        "html_escape" | "h" | "url_encode" | "u" => interpreter.text_of(&value)?,
        _ => interpreter.string_arg(&value)?,
    };
    interpreter.use_scratch(text.len() * 3)?;
    Ok(Some(Value::str(match name {
        "html_escape" | "h" | "escapeHTML" | "escape_html" => escape_html(&text),
        "url_encode" | "u" => percent_encode(&text, "-._~"),
        "escape" => percent_encode(&text, "-._~ ").replace(' ', "+"),
        "unescape" => match percent_decode(&text, true) {
            Some(text) => text,
            None => return Err(interpreter.unsupported_error("text that is not UTF-8")),
        },
        "unescapeHTML" | "unescape_html" => match unescape_html(&text) {
            Some(text) => text,
            None => return Err(interpreter.unsupported_error("text that is not UTF-8")),
        },
        _ => return Err(interpreter.unsupported_error(format!("CGI.{name}"))),
    })))
}
