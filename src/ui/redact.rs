//! Redaction by value: whatever came from a variable, a vars store, CPI properties or the mbus URL is
//! never shown, wherever it turns up and in whatever common spelling.
//!
//! A secret is looked for as it is, as JSON and debug output escape it, as URLs do, and in base64 (at each
//! of the three alignments, so that it is also found inside an `Authorization` header). Every line of a
//! secret that has several is a secret too, because logs come line by line.
//!
//! Two things are left alone, because replacing them would garble ordinary text and hide nothing: values
//! shorter than [`SHORTEST`] characters, and `true`, `false`, `null`.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::{Arc, PoisonError, RwLock};

use aho_corasick::{AhoCorasick, MatchKind};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

/// Values with fewer characters than this are not redacted.
pub const SHORTEST: usize = 4;
/// Lines of a secret with several lines are secrets from this length on.
const SHORTEST_LINE: usize = 8;
/// Encoded forms shorter than this would match by accident.
const SHORTEST_ENCODED: usize = 6;
/// A longer secret is cut into pieces, so that the set stays small and part of it is found as well.
const LONGEST: usize = 4096;
const PIECE: usize = 64;
const REPLACEMENT: &str = "<redacted>";

/// The secrets of a run. Cheap to clone; clones share the set, so a secret added late takes effect at once.
#[derive(Clone, Default)]
pub struct Redactor {
    shared: Arc<RwLock<Secrets>>,
}

#[derive(Default)]
struct Secrets {
    forms: BTreeSet<String>,
    /// Built when it is first needed after a change.
    matcher: Option<AhoCorasick>,
}

impl Redactor {
    /// Adds a secret. Values too short to be told from ordinary text are left out.
    pub fn add(&self, secret: &str) {
        let mut forms = Vec::new();
        collect(secret, &mut forms);
        if forms.is_empty() {
            return;
        }
        let mut secrets = self.shared.write().unwrap_or_else(PoisonError::into_inner);
        let before = secrets.forms.len();
        secrets.forms.extend(forms);
        if secrets.forms.len() != before {
            secrets.matcher = None;
        }
    }

    /// `text` with every secret replaced by `<redacted>`.
    pub fn apply<'a>(&self, text: &'a str) -> Cow<'a, str> {
        {
            let secrets = self.shared.read().unwrap_or_else(PoisonError::into_inner);
            if secrets.forms.is_empty() {
                return Cow::Borrowed(text);
            }
            if let Some(matcher) = &secrets.matcher {
                return replace(matcher, text);
            }
        }
        let mut secrets = self.shared.write().unwrap_or_else(PoisonError::into_inner);
        if secrets.matcher.is_none() {
            secrets.matcher =
                AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(&secrets.forms).ok();
        }
        match &secrets.matcher {
            Some(matcher) => replace(matcher, text),
            // Only a set of more than 2 GiB cannot be built; then nothing is shown rather than too much.
            None => Cow::Borrowed(REPLACEMENT),
        }
    }
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let secrets = self.shared.read().unwrap_or_else(PoisonError::into_inner);
        write!(f, "Redactor({} forms)", secrets.forms.len())
    }
}

/// Replaces matches; those that touch become one.
fn replace<'a>(matcher: &AhoCorasick, text: &'a str) -> Cow<'a, str> {
    let mut output = String::new();
    let mut shown = 0;
    for found in matcher.find_iter(text) {
        if found.start() > shown || shown == 0 {
            output.push_str(&text[shown..found.start()]);
            output.push_str(REPLACEMENT);
        }
        shown = found.end();
    }
    if shown == 0 {
        return Cow::Borrowed(text);
    }
    output.push_str(&text[shown..]);
    Cow::Owned(output)
}

/// Every form of `secret` that is looked for.
fn collect(secret: &str, forms: &mut Vec<String>) {
    let secret = secret.trim();
    if secret.chars().count() < SHORTEST || matches!(secret, "true" | "false" | "null") {
        return;
    }
    if secret.len() > LONGEST {
        for line in secret.lines().map(str::trim).filter(|line| line_is_secret(line)) {
            pieces(line, forms);
        }
        return;
    }
    spellings(secret, forms);
    if secret.contains('\n') {
        for line in secret.lines().map(str::trim).filter(|line| line_is_secret(line)) {
            spellings(line, forms);
        }
    }
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

fn spellings(secret: &str, forms: &mut Vec<String>) {
    forms.push(secret.to_owned());
    if let Ok(json) = serde_json::to_string(secret) {
        let json = &json[1..json.len() - 1];
        forms.push(json.to_owned());
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
    for alignment in 0..3 {
        for engine in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
            base64_inside(secret, alignment, engine, forms);
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn redactor(secrets: &[&str]) -> Redactor {
        let redactor = Redactor::default();
        for secret in secrets {
            redactor.add(secret);
        }
        redactor
    }

    #[test]
    fn without_secrets_text_is_borrowed() {
        assert!(matches!(Redactor::default().apply("hello"), Cow::Borrowed("hello")));
    }

    #[test]
    fn a_value_is_replaced_wherever_it_stands() {
        let redactor = redactor(&["hunter2!"]);
        assert_eq!(redactor.apply("hunter2! x hunter2!hunter2!"), "<redacted> x <redacted>");
    }

    #[test]
    fn the_longest_secret_wins() {
        assert_eq!(redactor(&["pass", "password1"]).apply("a password1"), "a <redacted>");
    }

    #[test]
    fn short_values_and_booleans_stay() {
        assert_eq!(redactor(&["abc", "true", " ", "x"]).apply("abc true x"), "abc true x");
    }

    #[test]
    fn added_late_takes_effect() {
        let redactor = redactor(&["first-secret"]);
        let clone = redactor.clone();
        assert_eq!(clone.apply("second-secret"), "second-secret");
        redactor.add("second-secret");
        assert_eq!(clone.apply("second-secret first-secret"), "<redacted> <redacted>");
    }

    #[test]
    fn json_and_debug_spellings() {
        let secret = "a\"b\\c\td<é>&";
        let redactor = redactor(&[secret]);
        let json = serde_json::to_string(&serde_json::json!({ "k": secret })).unwrap();
        assert_eq!(redactor.apply(&json), r#"{"k":"<redacted>"}"#);
        let nested = serde_json::to_string(&json).unwrap();
        assert_eq!(redactor.apply(&nested), r#""{\"k\":\"<redacted>\"}""#);
        assert_eq!(redactor.apply(&format!("{secret:?}")), "\"<redacted>\"");
        assert_eq!(redactor.apply(r#"a\"b\\c\td\u003cé\u003e\u0026"#), "<redacted>");
    }

    #[test]
    fn url_spellings() {
        let redactor = redactor(&["p@ss/w rd+"]);
        for url in ["p%40ss%2Fw%20rd%2B", "p%40ss%2fw%20rd%2b", "p%40ss%2Fw+rd%2B", "p%40ss%2Fw%20rd+"] {
            assert_eq!(redactor.apply(&format!("https://u:{url}@h/")), "https://u:<redacted>@h/", "{url}");
        }
    }

    #[test]
    fn base64_of_user_and_password() {
        let secret = "correct-horse-battery";
        let redactor = redactor(&[secret]);
        for user in ["", "u", "us", "mbus", "mbus-user"] {
            let header = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{secret}"));
            let shown = redactor.apply(&header);
            assert!(shown.contains("<redacted>"), "{shown}");
            let kept: usize = shown.replace("<redacted>", "").len();
            assert!(kept <= (user.len() + 1) * 4 / 3 + 4, "{shown}");
        }
    }

    #[test]
    fn each_line_of_a_key() {
        let key =
            "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQ\nabcdefghijklmnop\nxY==\n-----END KEY-----\n";
        let redactor = redactor(&[key]);
        assert_eq!(redactor.apply("  MIIEvQIBADANBgkqhkiG9w0BAQ"), "  <redacted>");
        assert_eq!(redactor.apply("-----BEGIN KEY-----"), "-----BEGIN KEY-----");
        assert_eq!(redactor.apply(&serde_json::to_string(key).unwrap()), "\"<redacted>\\n\"");
    }

    #[test]
    fn a_very_long_value_is_found_whole() {
        let long: String = (0..20_000).map(|number| format!("{number:x}é")).collect();
        assert_eq!(redactor(&[&long]).apply(&format!("<{long}>")), "<<redacted>>");
    }

    proptest! {
        #[test]
        fn nothing_that_was_added_is_shown(secret in "\\PC{4,40}", before in "\\PC{0,8}", after in "\\PC{0,8}") {
            let redactor = redactor(&[&secret]);
            let trimmed = secret.trim();
            let text = format!("{before}{trimmed}{after}");
            prop_assume!(trimmed.chars().count() >= SHORTEST && !["true", "null", "false"].contains(&trimmed));
            prop_assume!(!REPLACEMENT.contains(trimmed));
            let shown = redactor.apply(&text).into_owned();
            let without = shown.replace(REPLACEMENT, "\u{0}");
            prop_assert!(!without.contains(trimmed));
            let json = serde_json::to_string(&text).unwrap();
            let escaped = serde_json::to_string(trimmed).unwrap();
            let shown = redactor.apply(&json).replace(REPLACEMENT, "\u{0}");
            prop_assert!(!shown.contains(&escaped[1..escaped.len() - 1]));
        }
    }
}
