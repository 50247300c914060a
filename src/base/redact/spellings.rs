//! The ways in which a secret is commonly written: as it is, as JSON and debug output escape it, as URLs, HTML and
//! shells do, and in base64 (at each of the three alignments, so that it is also found inside an `Authorization`
//! header or a document that was encoded whole).

use std::fmt::Write as _;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

/// Values with fewer characters than this are not redacted.
pub(super) const SHORTEST: usize = 4;
/// Lines of a secret with several lines are secrets from this length on.
const SHORTEST_LINE: usize = 8;
/// Encoded forms shorter than this would match by accident.
const SHORTEST_ENCODED: usize = 6;
/// A longer secret is looked for line by line only.
const LONGEST: usize = 4096;
/// A longer secret is looked for in pieces of its lines, as they are.
const LONGEST_SPELT: usize = 64 * 1024;
const PIECE: usize = 64;

/// Every form of `secret` that is looked for.
pub(super) fn of(secret: &str) -> Vec<String> {
    let mut forms = Vec::new();
    let secret = secret.trim();
    if secret.chars().count() < SHORTEST || matches!(secret, "true" | "false" | "null") {
        return forms;
    }
    let lines = || secret.lines().map(str::trim).filter(|line| line_is_secret(line));
    if secret.len() <= LONGEST {
        spell(secret, &mut forms);
        if secret.contains('\n') {
            lines().for_each(|line| spell(line, &mut forms));
        }
    } else {
        for line in lines() {
            if secret.len() <= LONGEST_SPELT && line.len() <= LONGEST {
                spell(line, &mut forms);
            } else {
                pieces(line, &mut forms);
            }
        }
    }
    forms.sort_unstable();
    forms.dedup();
    forms
}

/// Lines that frame a PEM block, and short ones, tell nothing.
fn line_is_secret(line: &str) -> bool {
    line.len() >= SHORTEST_LINE && !line.starts_with("-----")
}

/// Cuts a long line at character boundaries. Laid end to end the pieces are the line, so all of it is found.
fn pieces(line: &str, forms: &mut Vec<String>) {
    let mut rest = line;
    while rest.len() > PIECE {
        let mut at = PIECE;
        while !rest.is_char_boundary(at) {
            at += 1;
        }
        let (piece, tail) = rest.split_at(at);
        forms.push(piece.to_owned());
        rest = tail;
    }
    if rest.len() >= SHORTEST_LINE {
        forms.push(rest.to_owned());
    }
}

fn spell(secret: &str, forms: &mut Vec<String>) {
    base64(secret, forms);
    if secret.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        // Nobody escapes letters and digits.
        forms.push(secret.to_owned());
        return;
    }
    if let Ok(quoted) = serde_json::to_string(secret) {
        let json = quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default();
        if json != secret && !secret.contains('\n') {
            // Lines of a key are the same with and without escapes; anything else is not.
            base64(json, forms);
        }
        forms.push(json.to_owned());
        forms.push(json.replace('/', "\\/"));
        forms.push(ascii_only(json));
        // Go, and Ruby in some settings, escape what HTML would read.
        forms.push(json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026"));
        // JSON inside JSON: a CPI's log line that quotes its request.
        forms.push(json.replace('\\', "\\\\").replace('"', "\\\""));
    }
    forms.push(secret.escape_debug().to_string());
    for kept in ["-_.~", "-_.~$&+,;=", "-_.~!*'()"] {
        let encoded = percent_encode(secret, kept);
        forms.push(encoded.to_ascii_lowercase_escapes());
        forms.push(encoded.replace("%20", "+"));
        forms.push(encoded);
    }
    let html = secret.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    for (double, single) in [("&quot;", "&#39;"), ("&#34;", "&#39;"), ("&quot;", "&#x27;"), ("\"", "'")] {
        forms.push(html.replace('"', double).replace('\'', single));
    }
    // What a shell's trace and its quoting make of it.
    forms.push(secret.replace('\'', r"'\''"));
    forms.push(shell_escape(secret));
    forms.push(secret.to_owned());
}

/// JSON of ASCII alone, as Python writes it.
fn ascii_only(json: &str) -> String {
    let mut output = String::with_capacity(json.len());
    for character in json.chars() {
        if character.is_ascii() {
            output.push(character);
        } else {
            for unit in character.encode_utf16(&mut [0; 2]) {
                // Writing to a string cannot fail.
                let _ = write!(output, "\\u{unit:04x}");
            }
        }
    }
    output
}

/// With a backslash before whatever a shell may read, as Ruby's Shellwords does.
fn shell_escape(secret: &str) -> String {
    let mut output = String::with_capacity(secret.len());
    for character in secret.chars() {
        if character.is_ascii() && !character.is_ascii_alphanumeric() && !"_-.,:+/@\n".contains(character) {
            output.push('\\');
        }
        output.push(character);
    }
    output
}

fn base64(text: &str, forms: &mut Vec<String>) {
    for alignment in 0..3 {
        for engine in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
            base64_inside(text, alignment, engine, forms);
        }
    }
}

/// Percent-encoding with ASCII letters, digits and `kept` as they are.
fn percent_encode(text: &str, kept: &str) -> String {
    let mut output = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || kept.as_bytes().contains(&byte) {
            output.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(output, "%{byte:02X}");
        }
    }
    output
}

trait LowercaseEscapes {
    /// The same text with `%2F` written `%2f`.
    fn to_ascii_lowercase_escapes(&self) -> String;
}

impl LowercaseEscapes for String {
    fn to_ascii_lowercase_escapes(&self) -> String {
        let mut left = 0;
        self.chars()
            .map(|character| {
                if character == '%' {
                    left = 3;
                }
                let inside = left > 0;
                left = usize::saturating_sub(left, 1);
                if inside { character.to_ascii_lowercase() } else { character }
            })
            .collect()
    }
}

/// The base64 characters that are the same whatever stands before and after `secret`, when it begins at this
/// offset in a group of three bytes.
fn base64_inside(secret: &str, alignment: usize, engine: &impl Engine, forms: &mut Vec<String>) {
    let mut bytes = vec![0; alignment];
    bytes.extend_from_slice(secret.as_bytes());
    let encoded = engine.encode(&bytes);
    // 8·n bits before the secret touch ⌈8·n/6⌉ characters; a last character that is not full depends on
    // what follows.
    let first = (alignment * 8).div_ceil(6);
    let end = bytes.len() * 8 / 6;
    if let Some(inner) = encoded.get(first..end).filter(|inner| inner.len() >= SHORTEST_ENCODED) {
        forms.push(inner.to_owned());
    }
}
