//! `ERB::Util` and `CGI`: escape HTML and URLs.

use crate::evaluator::eval::{Args, Interp, R};
use crate::evaluator::value::Value;

/// Escapes the five special characters of HTML.
pub(super) fn html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

/// Percent-encodes all bytes except ASCII letters, digits and those in `keep`.
pub(super) fn percent(text: &str, keep: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || keep.as_bytes().contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// Decodes percent-encoding, and if `plus` is true `+` to a blank. Returns `None` if the bytes are not UTF-8.
pub(super) fn unpercent(text: &str, plus: bool) -> Option<String> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = text
            .get(at + 1..at + 3)
            .filter(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()))
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match (bytes[at], hex) {
            (b'%', Some(byte)) => {
                out.push(byte);
                at += 3;
            }
            (b'+', _) if plus => {
                out.push(b' ');
                at += 1;
            }
            (byte, _) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8(out).ok()
}

pub(crate) fn class_method(it: &mut Interp, name: &str, args: &Args) -> R<Option<Value>> {
    let known = [
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
    if !known.contains(&name) {
        return Ok(None);
    }
    let value = it.arg(args, 0)?;
    let text = match name {
        "html_escape" | "h" | "url_encode" | "u" => it.text_of(&value)?,
        _ => it.string_arg(&value)?,
    };
    it.charge(text.len() * 3)?;
    Ok(Some(Value::str(match name {
        "html_escape" | "h" | "escapeHTML" | "escape_html" => html(&text),
        "url_encode" | "u" => percent(&text, "-._~"),
        "escape" => percent(&text, "-._~ ").replace(' ', "+"),
        "unescape" => match unpercent(&text, true) {
            Some(text) => text,
            None => return Err(it.unsupported("text that is not UTF-8")),
        },
        "unescapeHTML" | "unescape_html" => text
            .replace("&lt;", "<")
            .replace("&gt;", ">")
            .replace("&quot;", "\"")
            .replace("&#39;", "'")
            .replace("&amp;", "&"),
        _ => return Err(it.unsupported(format!("CGI.{name}"))),
    })))
}
