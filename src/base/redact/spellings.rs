//! The parts of a secret, and the common spellings of a short one: escaped by JSON or debug output, by URLs,
//! HTML and shells, and in base64 at each of the three alignments. The alignments find it inside an
//! `Authorization` header or an encoded document. Long secrets are found by decoding the text instead.

use std::fmt::Write as _;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

/// The minimum length of a redacted value in characters.
pub const MIN_REDACTED_CHARS: usize = 4;
/// The minimum length in bytes of a line that counts as a secret by itself.
const MIN_LINE_BYTES: usize = 8;
/// The minimum length in bytes of an encoded spelling. Shorter ones would match by accident.
const MIN_ENCODED_BYTES: usize = 6;
/// The maximum length in bytes of a secret that is also searched as a whole, not only line by line.
const MAX_WHOLE_BYTES: usize = 4096;
/// The maximum length in bytes of a secret that is searched line by line. Longer ones are searched in pieces.
const MAX_LINEWISE_BYTES: usize = 64 * 1024;
/// The length in bytes of the pieces of a longer secret.
const PIECE_BYTES: usize = 64;

/// Returns the parts of a secret that are secrets by themselves: the whole, and each line.
pub(super) fn parts(secret: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let secret = secret.trim();
    if secret.chars().count() < MIN_REDACTED_CHARS || matches!(secret, "true" | "false" | "null") {
        return parts;
    }
    let lines = || secret.lines().map(str::trim).filter(|line| line_is_secret(line));
    if secret.len() <= MAX_WHOLE_BYTES {
        parts.push(secret);
        if secret.contains('\n') {
            parts.extend(lines());
        }
    } else {
        for line in lines() {
            if secret.len() <= MAX_LINEWISE_BYTES && line.len() <= MAX_WHOLE_BYTES {
                parts.push(line);
            } else {
                push_pieces(line, &mut parts);
            }
        }
    }
    parts
}

/// Returns false for lines that frame a PEM block and for short lines, because they reveal nothing.
fn line_is_secret(line: &str) -> bool {
    line.len() >= MIN_LINE_BYTES && !line.starts_with("-----")
}

/// Cuts a long line at character boundaries. The pieces cover the line, except for a rest shorter than
/// [`MIN_LINE_BYTES`].
fn push_pieces<'s>(line: &'s str, parts: &mut Vec<&'s str>) {
    let mut rest = line;
    while rest.len() > PIECE_BYTES {
        let mut end = PIECE_BYTES;
        while !rest.is_char_boundary(end) {
            end += 1;
        }
        let (piece, tail) = rest.split_at(end);
        parts.push(piece);
        rest = tail;
    }
    if rest.len() >= MIN_LINE_BYTES {
        parts.push(rest);
    }
}

/// Returns the spellings of a short secret, both by itself and inside JSON.
pub(super) fn spellings(secret: &str) -> Vec<String> {
    let mut spellings = Vec::new();
    push_base64(secret, &mut spellings);
    if secret.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        // Letters and digits are never escaped.
        return spellings;
    }
    let json_spelling = json(secret);
    if json_spelling != secret {
        push_base64(&json_spelling, &mut spellings);
    }
    spellings.push(json_spelling.replace('/', "\\/"));
    spellings.push(ascii_only(&json_spelling));
    // Go, and Ruby in some settings, escape HTML characters.
    spellings.push(json_spelling.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026"));
    spellings.push(json_spelling);
    spellings.push(secret.escape_debug().to_string());
    for plain_characters in ["-_.~", "-_.~/", "-_.~$&+,;=", "-_.~!*'()"] {
        let spelling = percent_encode(secret, plain_characters);
        spellings.push(spelling.to_ascii_lowercase_escapes());
        spellings.push(spelling.replace("%20", "+"));
        spellings.push(spelling);
    }
    let html = secret.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    for (double_quote, single_quote) in
        [("&quot;", "&#39;"), ("&#34;", "&#39;"), ("&quot;", "&#x27;"), ("&quot;", "&apos;"), ("\"", "'")]
    {
        spellings.push(html.replace('"', double_quote).replace('\'', single_quote));
    }
    // The spellings in a shell's trace, and with the quoting of shells and of Python's shlex and repr.
    spellings.push(secret.replace('\'', r"'\''"));
    spellings.push(secret.replace('\'', r#"'"'"'"#));
    spellings.push(secret.replace('\\', r"\\"));
    spellings.push(secret.replace('\\', r"\\").replace('\'', r"\'"));
    // Ruby's Shellwords and `printf %q` of a shell leave different characters unescaped.
    spellings.push(shell_escape(secret, "_-.,:+/@\n"));
    spellings.push(shell_escape(secret, "_-.:+/@%=~#"));
    // Ruby's inspect.
    spellings.push(
        ["{", "$", "@"].iter().fold(json(secret), |spelling, next| {
            spelling.replace(&format!("#{next}"), &format!("\\#{next}"))
        }),
    );
    // JSON inside JSON, as in a CPI's log line that quotes its request.
    let json_spellings: Vec<String> = spellings.iter().map(|spelling| json(spelling)).collect();
    spellings.extend(json_spellings);
    spellings.push(json(&json(&json(secret))));
    spellings.sort_unstable();
    spellings.dedup();
    spellings
}

/// Returns a text in the spelling that it has between the quotes of a JSON string.
pub(super) fn json(text: &str) -> String {
    let json_string = serde_json::to_string(text).unwrap_or_default();
    json_string.get(1..json_string.len().saturating_sub(1)).unwrap_or_default().to_owned()
}

/// Returns JSON of ASCII characters alone, as Python writes it.
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

/// Escapes all characters except letters, digits and `plain_characters` with a backslash, as shells do.
fn shell_escape(secret: &str, plain_characters: &str) -> String {
    let mut output = String::with_capacity(secret.len());
    for character in secret.chars() {
        if character.is_ascii() && !character.is_ascii_alphanumeric() && !plain_characters.contains(character)
        {
            output.push('\\');
        }
        output.push(character);
    }
    output
}

/// Adds the base64 of a text, in both alphabets and at each alignment.
fn push_base64(text: &str, spellings: &mut Vec<String>) {
    for alignment in 0..3 {
        for engine in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
            push_base64_inside(text, alignment, engine, spellings);
        }
    }
}

/// Percent-encodes all bytes except ASCII letters, digits and `plain_characters`.
fn percent_encode(text: &str, plain_characters: &str) -> String {
    let mut output = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || plain_characters.as_bytes().contains(&byte) {
            output.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(output, "%{byte:02X}");
        }
    }
    output
}

trait LowercaseEscapes {
    /// Writes the hex digits of percent escapes in lower case, such as `%2f`.
    fn to_ascii_lowercase_escapes(&self) -> String;
}

impl LowercaseEscapes for String {
    fn to_ascii_lowercase_escapes(&self) -> String {
        let mut remaining_characters = 0;
        self.chars()
            .map(|character| {
                if character == '%' {
                    remaining_characters = 3;
                }
                let is_inside = remaining_characters > 0;
                remaining_characters = usize::saturating_sub(remaining_characters, 1);
                if is_inside { character.to_ascii_lowercase() } else { character }
            })
            .collect()
    }
}

/// Adds the base64 characters that do not depend on the text around `secret`, if it begins at this offset in
/// a group of three bytes.
fn push_base64_inside(secret: &str, alignment: usize, engine: &impl Engine, spellings: &mut Vec<String>) {
    let mut bytes = vec![0; alignment];
    bytes.extend_from_slice(secret.as_bytes());
    let characters = engine.encode(&bytes);
    // 8·n bits before the secret touch ⌈8·n/6⌉ characters. An incomplete last character depends on the text
    // after the secret.
    let first = (alignment * 8).div_ceil(6);
    let end = bytes.len() * 8 / 6;
    if let Some(inner) = characters.get(first..end).filter(|inner| inner.len() >= MIN_ENCODED_BYTES) {
        spellings.push(inner.to_owned());
    }
}
