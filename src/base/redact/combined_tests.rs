//! Tests that secrets of at least 16 characters are found in two spellings at once, and cut off anywhere
//! after eight characters.
//!
//! The default run has fixed cases. With `MONOPILE_FUZZ_SECONDS`, which `tests/run --fuzz` sets, secrets of a
//! new seed are tested for that long. `MONOPILE_FUZZ_SEED` repeats a seed.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

use super::view::{DecodedView, compact};
use super::*;

/// The number of secrets in the default run.
const SECRETS: u64 = 150;
/// The seeds and numbers of secrets that an earlier version did not hide.
const SHOWN_CASES: [(u64, u64); 8] =
    [(1002, 140), (5081, 16), (5087, 133), (5127, 105), (5298, 103), (5423, 130), (5441, 27), (5452, 67)];
/// The minimum number of characters of a secret in a text before it is cut off.
const CUT_AFTER_CHARS: usize = 8;
/// The number of characters that may stay visible, such as `$` of `$'…'` or `&#3` of an entity that was cut
/// off. The second number is added for each base64, whose characters at the edges also encode neighbours.
const VISIBLE: (usize, usize) = (3, 6);

/// Spells a text.
type Spell = fn(&str) -> String;

const SPELLINGS: [(&str, Spell); 29] = [
    ("plain", str::to_owned),
    ("JSON", json),
    ("JSON twice", |text| json(&json(text))),
    ("JSON three times", |text| json(&json(&json(text)))),
    ("JSON of ASCII", json_of_ascii),
    ("JSON with slashes", |text| json(text).replace('/', "\\/")),
    ("JSON of Go", |text| json(text).replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")),
    ("URL", |text| percent(text, "-_.~")),
    ("URL in lower case", |text| percent(text, "-_.~").to_lowercase_escapes()),
    ("URL with slashes", |text| percent(text, "-_.~/")),
    ("URL of JavaScript", |text| percent(text, "-_.~!*'()")),
    ("URL of everything", |text| text.bytes().map(|byte| format!("%{byte:02X}")).collect()),
    ("form", |text| percent(text, "-_.*").replace("%20", "+")),
    ("HTML", |text| html(text, "&quot;", "&#39;")),
    ("HTML with &apos;", |text| html(text, "&quot;", "&apos;")),
    ("HTML with numbers", |text| html(text, "&#34;", "&#x27;")),
    ("shell", |text| format!("'{}'", text.replace('\'', r"'\''"))),
    ("shlex.quote", |text| format!("'{}'", text.replace('\'', r#"'"'"'"#))),
    ("printf %q", |text| backslashes(text, "_-./:=@%+")),
    ("$'…'", |text| format!("$'{}'", text.replace('\\', r"\\").replace('\'', r"\'"))),
    ("octal", |text| {
        let byte = |byte: u8| match byte {
            b'\\' | b'\'' => format!("\\{}", char::from(byte)),
            b' '..=b'~' => char::from(byte).to_string(),
            _ => format!("\\{byte:03o}"),
        };
        text.bytes().map(byte).collect()
    }),
    ("Shellwords", |text| backslashes(text, "_-.,:+/@")),
    ("repr", |text| format!("'{}'", text.replace('\\', r"\\").replace('\'', r"\'"))),
    ("inspect", |text| {
        ["#{", "#$", "#@"].iter().fold(json(text), |text, start| text.replace(start, &format!("\\{start}")))
    }),
    ("debug", |text| format!("{text:?}")),
    ("base64", |text| STANDARD.encode(text)),
    ("base64 after one byte", |text| STANDARD.encode(format!(":{text}"))),
    ("base64 after two bytes, for URLs", |text| URL_SAFE_NO_PAD.encode(format!("a:{text}"))),
    ("base64 in lines", |text| {
        let base64 = STANDARD.encode(text);
        let lines: Vec<_> = base64.as_bytes().chunks(16).map(String::from_utf8_lossy).collect();
        lines.join("\n")
    }),
];

/// Text around a secret.
const AROUND: [(&str, &str); 9] = [
    ("", ""),
    ("password=", " was refused"),
    (r#"{"password": ""#, r#"", "port": 25555}"#),
    (r#"{\"password\":\""#, r#"\",\"port\":25555}"#),
    ("https://admin:", "@10.0.0.6:25555/info"),
    ("<string>", "</string>\n"),
    ("Authorization: Basic ", "\r\nHost: director"),
    ("line one\n  secret: ", "\nline three"),
    ("curl -u 'admin:", "' https://10.0.0.6"),
];

/// Random numbers by SplitMix64.
struct Random(u64);

impl Random {
    fn number_below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed_bits = self.0;
        mixed_bits = (mixed_bits ^ (mixed_bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed_bits = (mixed_bits ^ (mixed_bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed_bits ^ (mixed_bits >> 31)) >> 32).unwrap() % bound
    }

    fn choose<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.number_below(choices.len())]
    }

    /// Returns a secret of at least 16 characters, 12 of which are neither quotes, backslashes nor
    /// whitespace. Such characters at its ends would stay visible, because texts put them around every
    /// secret.
    fn secret(&mut self) -> String {
        let letters: Vec<char> = ('a'..='z').chain('A'..='Z').chain('0'..='9').collect();
        let base64: Vec<char> = letters.iter().copied().chain("+/+/+/".chars()).collect();
        let ascii: Vec<char> = (' '..='~').collect();
        let special: Vec<char> =
            letters.iter().copied().chain(" \"'\\/%&<>$#+=\n\t".repeat(4).chars()).collect();
        let wide: Vec<char> = "abcdefgh 0123 äöüßéñ€→漢字😀🔑&\"'".chars().collect();
        let words: Vec<char> = "etaoin shrdlu cmfwyp ".chars().collect();
        loop {
            let alphabet = self.choose(&[&letters, &base64, &ascii, &special, &wide, &words]);
            let length = 16 + self.number_below(30);
            let secret: String = (0..length).map(|_| self.choose(alphabet)).collect();
            let is_quoting = |character: char| " \"'\\+\n\t.,".contains(character);
            let secret = secret.trim_matches(is_quoting).to_owned();
            if secret.chars().count() >= 16 && without_quoting(&secret).len() >= search::MIN_COMPACT_BYTES {
                return secret;
            }
        }
    }
}

trait LowercaseUnicodeEscapes {
    fn to_lowercase_escapes(&self) -> String;
}

impl LowercaseUnicodeEscapes for String {
    fn to_lowercase_escapes(&self) -> String {
        let mut parts = self.split('%');
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |all, part| format!("{all}%{}{}", part[..2].to_lowercase(), &part[2..]))
    }
}

fn json(text: &str) -> String {
    let json_string = serde_json::to_string(text).unwrap();
    json_string[1..json_string.len() - 1].to_owned()
}

fn json_of_ascii(text: &str) -> String {
    let mut output = String::new();
    for unit in json(text).encode_utf16() {
        match u8::try_from(unit) {
            Ok(byte) if byte.is_ascii() => output.push(char::from(byte)),
            _ => write!(output, "\\u{unit:04x}").unwrap(),
        }
    }
    output
}

fn percent(text: &str, plain_characters: &str) -> String {
    let encode = |byte: u8| match char::from(byte) {
        plain if plain.is_ascii_alphanumeric() || plain_characters.contains(plain) => plain.to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}

fn html(text: &str, double_quote: &str, single_quote: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', double_quote).replace('\'', single_quote)
}

fn backslashes(text: &str, plain_characters: &str) -> String {
    let quote = |character: char| match character {
        plain if !plain.is_ascii() || plain.is_ascii_alphanumeric() || plain_characters.contains(plain) => {
            plain.to_string()
        }
        '\n' => "'\n'".to_owned(),
        other => format!("\\{other}"),
    };
    text.chars().map(quote).collect()
}

/// Returns a text with its escapes decoded, without quotes and whitespace.
fn without_quoting(text: &str) -> Vec<u8> {
    let view = DecodedView::of(text.as_bytes(), 0);
    let unescaped = view.unescaped();
    compact(&unescaped.as_ref().unwrap_or(&view).bytes)
}

/// Returns an error if `redacted_text` contains more of the secret than [`VISIBLE`] allows, or if the text
/// around the secret was changed.
fn check(
    redacted_text: &str,
    text_before: &str,
    text_after: &str,
    secret_description: &str,
) -> Result<(), String> {
    let max_visible = VISIBLE.0 + VISIBLE.1 * secret_description.matches("base64").count();
    let rest = redacted_text.strip_prefix(text_before).and_then(|rest| rest.strip_suffix(text_after));
    let rest =
        rest.ok_or_else(|| format!("the text around was changed: {redacted_text}\nof {secret_description}"))?;
    // Part of an HTML entity for a quote after the secret may remain.
    let rest = match rest.rsplit_once("<redacted>&") {
        Some((rest, entity)) if entity.len() < 6 => format!("{rest}{REPLACEMENT}"),
        _ => rest.to_owned(),
    };
    let visible = String::from_utf8_lossy(&without_quoting(&rest.replace(REPLACEMENT, ""))).into_owned();
    if rest.contains(REPLACEMENT) && visible.chars().count() <= max_visible {
        return Ok(());
    }
    Err(format!("visible: {visible}\nin {redacted_text}\nof {secret_description}"))
}

#[test]
#[expect(clippy::disallowed_methods, reason = "tests take the duration and the seed from tests/run")]
fn hides_secrets_in_two_encodings_cut_at_any_point() {
    let number = |name: &str| {
        let value = std::env::var(name).ok().filter(|value| !value.is_empty())?;
        Some(value.parse::<u64>().unwrap_or_else(|_| panic!("{name} is not a number")))
    };
    let (start, duration) = (Instant::now(), number("MONOPILE_FUZZ_SECONDS").map(Duration::from_secs));
    let seed = number("MONOPILE_FUZZ_SEED").unwrap_or_else(|| match duration {
        Some(_) => std::time::UNIX_EPOCH.elapsed().unwrap().as_secs(),
        None => 20,
    });
    let goes_on = |number: &u64| duration.map_or(*number < SECRETS, |duration| start.elapsed() < duration);
    let (mut failures, mut count) = (Vec::new(), 0_u64);
    for (seed, number) in
        SHOWN_CASES.into_iter().chain((0..).take_while(goes_on).map(|number| (seed, number)))
    {
        count += 1;
        let mut random = Random(seed.wrapping_mul(1 << 32).wrapping_add(number));
        let secret = random.secret();
        let redactor = Redactor::default();
        redactor.add(&secret);
        for _ in 0..4 {
            redactor.add(&random.secret());
        }
        // The default run takes some of the pairs of spellings for each secret.
        for (first, spell) in SPELLINGS {
            let (second, spell_again) = random.choose(&SPELLINGS);
            let (text_before, text_after) = random.choose(&AROUND);
            let spelt = |text: &str| spell_again(&spell(text));
            let spelt_secret = spelt(&secret);
            let secret_description =
                format!("{secret:?} as {first}, then {second} (MONOPILE_FUZZ_SEED={seed}, secret {number})");
            let redacted_text =
                redactor.redact(&format!("{text_before}{spelt_secret}{text_after}")).into_owned();
            failures.extend(check(&redacted_text, text_before, text_after, &secret_description).err());

            // A longer prefix can decode to fewer bytes than a shorter one that ends inside an escape.
            let shows_little =
                |count: &usize| without_quoting(&prefix(&secret, *count)).len() < CUT_AFTER_CHARS;
            let last = (0..secret.chars().count()).rev().find(shows_little).unwrap();
            // `inspect` spells a `#` by the character after it.
            let extra_count = usize::from(prefix(&secret, last + 1).ends_with('#'));
            let shortest = spelt(&prefix(&secret, last + 1 + extra_count)).len();
            if shortest < spelt_secret.len() {
                let cut = spelt_secret
                    .ceil_char_boundary(shortest + random.number_below(spelt_secret.len() - shortest));
                let (mark, secret_description) =
                    (random.choose(&["…", "..."]), format!("{secret_description}, cut at {cut}"));
                let end = format!("{mark}{text_after}");
                let redacted_text =
                    redactor.redact(&format!("{text_before}{}{end}", &spelt_secret[..cut])).into_owned();
                failures.extend(check(&redacted_text, text_before, &end, &secret_description).err());
            }
        }
    }
    eprintln!("MONOPILE_FUZZ_SEED={seed}: {count} secrets, {} failures", failures.len());
    let some: Vec<_> = failures.iter().take(10).map(String::as_str).collect();
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), some.join("\n\n"));
}

fn prefix(text: &str, count: usize) -> String {
    text.chars().take(count).collect()
}
